"""The rules of `algorithms.interface.Algorithm` as a test for any algorithm: its errors name the rule that is broken.

    wb.check_algorithm(MyAlgorithm)                      # on CartPole-v1
    wb.check_algorithm(MyAlgorithm, "ALE/Pong-v5")       # on the spaces of another environment
    wb.check_algorithm("ppo")

The learner does the same before it admits an actor to the run of an algorithm that a user wrote.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from workbench import algorithms, environments, networks
from workbench.algorithms import Algorithm, Heads, Loss, Outlook, Roles, collate, inner, returned
from workbench.algorithms.batch import Batch
from workbench.algorithms.own_code import is_own
from workbench.algorithms.rate_factors import RateFactors
from workbench.algorithms.returned import is_tensor, naming, rule, said_of
from workbench.config import ALGORITHMS, LearningConfig, ReplayConfig, RunConfig, check_network_maker, settings
from workbench.config.own_algorithm import named_algorithm, near_misses, network_of, varied
from workbench.environment_spec import ACTION_KINDS, EnvironmentSpec
from workbench.errors import AlgorithmFailed, InvalidInput
from workbench.metrics.meanings import METRICS
from workbench.networks import NetworkFactory
from workbench.policies import trained_heads
from workbench.policies.check_resume import check_state
from workbench.replay.unroll_fields import UnrollLayout, places_of_finals
from workbench.trajectory import NO_DISCOUNT, Array, Flags, Unroll

_ROWS, _STEPS = 3, 5
_FEW = {"batch_size": _ROWS, "unroll_length": _STEPS, "burn_in": 2, "lstm_size": 8, "dueling_size": 8, "critic_size": 8}


class Found(NamedTuple):
    """What was found of an algorithm that breaks no rule.

    Attributes:
        metrics: the names of its loss's scalars.
        notes: what may be a slip, in sentences.
    """

    metrics: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class CheckedAlgorithm:
    """An algorithm that breaks no rule, as the workbench reads it.

    Attributes:
        trains_on: which data, in words.
        fields: those that its configuration adds to the ones of such data, or of the algorithm that ships from whose
            class it derives, and whether they are live.
        metrics: the names of its loss's scalars.
        notes: what may be a slip, in sentences.
    """

    name: str
    environment: str
    trains_on: str
    fields: Mapping[str, bool]
    metrics: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}{' (live)' * live}" for name, live in self.fields.items()) or "none"
        but = f", but see the note{'s' * (len(self.notes) > 1)} below" if self.notes else ""
        said = (f"{self.name} breaks no rule on {self.environment}{but}. It trains on {self.trains_on}. Fields of its "
                f"own: {fields}. Metrics of its loss: {', '.join(self.metrics) or 'none'}.")
        return "\n".join([said, *(f"Note: {note}" for note in self.notes)])


def check_algorithm(
    algorithm: str | type, environment: str | Callable[..., Any] = "CartPole-v1", *,
    network: str | NetworkFactory | None = None, **fields: Any
) -> CheckedAlgorithm:
    """Test an algorithm on the spaces of an environment, on the CPU of this process; nothing is started.
    Returns what it was found to be, if it breaks no rule.

    Args:
        algorithm: its name, or a class that derives from `wb.Algorithm`.
        environment: a name, or a class or function that makes one, as for `wb.launch`.
        network: likewise.
        fields: of the algorithm.

    Raises:
        AlgorithmFailed: it raised, or broke a rule; the message names that.
        InvalidInput: its configuration is none, or it cannot choose such actions.
        NetworkFailed: the network cannot be trained by it; the message names what is wrong and what is right.
    """
    if not (isinstance(environment, str) or callable(environment)):
        raise InvalidInput(f"environment={environment!r:.100} must be the name of one, such as 'CartPole-v1', or a "
                           "class or function that makes one.")
    if "own_algorithm" in fields:
        raise InvalidInput("own_algorithm describes a class, and is set by it. Leave it out.")
    own = None if isinstance(algorithm, str) else algorithm
    if own is not None and not (isinstance(own, type) and issubclass(own, Algorithm)):
        raise InvalidInput(f"algorithm={algorithm!r:.100} must be a class that derives from wb.Algorithm.")
    network = network_of(own, network)
    if not isinstance(network, str | None):
        check_network_maker(network, or_name=True)
    name, description = named_algorithm(algorithm, taken=settings(RunConfig))
    factory, label = (None, environment) if isinstance(environment, str) else (environment, "your environment")
    if not callable(network):
        fields["network"] = network
    config = RunConfig.build(label, algorithm=name, own_algorithm=description, **fields)
    vector = environments.make_configured(config, num_envs=1, seed=0, factory=factory)
    spec = vector.spec
    vector.close()
    with torch.random.fork_rng(devices=[]):
        metrics, notes = check_class(own, smaller(config, but=fields), spec=spec,
                                     factory=network if callable(network) else None)
    kind = type(config.hyperparameters)
    notes += () if own is None else tuple(near_misses(own, description))
    shipped = "" if own is None else varied(own)
    return CheckedAlgorithm(name, spec.name, kind.trains_on, _own_fields(kind, shipped), metrics, notes)


def _own_fields(kind: type[LearningConfig], shipped: str) -> dict[str, bool]:
    """The fields that the configuration adds to those of its kind of data, or of the algorithm that it is a variation
    of, and whether they are live."""
    data = ALGORITHMS[shipped] if shipped else next(
        base for base in kind.__mro__[1:] if base.__module__ == LearningConfig.__module__ and
        issubclass(base, LearningConfig))
    return {field.name: field.live for field in settings(kind).values() if field.name not in settings(data)}


def check_class(
    own: type[Algorithm] | None, config: RunConfig, *, spec: EnvironmentSpec, factory: NetworkFactory | None = None
) -> Found:
    """Test the algorithm of a run, of the class `own` where a user wrote it, with a new network. Returns and raises as
    `check`."""
    if own is not None:
        rule(isinstance(own.actions, tuple | list) and all(kind in ACTION_KINDS for kind in own.actions),
             f"actions = {own.actions!r} must be a tuple of some of these: {', '.join(ACTION_KINDS)}.")
        _check_constructor(own, config, spec)
    with naming("its constructor"):
        built = algorithms.build(config, spec=spec, own=own)
    rule(hasattr(built, "spec") and hasattr(built, "distribution"),
         "its __init__ leaves out super().__init__(config, spec=spec), which comes first.")
    rule(hasattr(built.distribution, "scores") and hasattr(built.distribution, "preference"),
         "its distribution has no scores(...) or preference(...), by which people see the policy. Derive its class "
         "from workbench.algorithms.Distribution, which has both for actions that are numbers.")
    with naming("heads and overlap"):
        heads, overlap = built.heads, built.overlap
    rule(isinstance(heads, Heads), f"heads are an algorithms.Heads, not {said_of(heads)}.")
    rule(isinstance(overlap, int) and overlap >= 0, f"overlap is a number of steps from 0 on, not {said_of(overlap)}.")
    network = networks.build(config.network, spec=spec, heads=heads, factory=factory, seed=0,
                             normalise=config.hyperparameters.normalize_observations)
    return check(built, network, spec=spec, config=config.hyperparameters)


def _check_constructor(own: type[Algorithm], config: RunConfig, spec: EnvironmentSpec) -> None:
    """Raises AlgorithmFailed unless it takes the arguments that every algorithm is made with."""
    try:
        inspect.signature(own).bind(config.hyperparameters, spec=spec)
    except TypeError as error:
        raise AlgorithmFailed(f"its constructor cannot be called as {own.__name__}(config, spec=spec) ({error}). Write "
                              "def __init__(self, config, *, spec), with super().__init__(config, spec=spec) first."
                              ) from None


def smaller(config: RunConfig, *, but: Collection[str] = ()) -> RunConfig:
    """`config` with short unrolls and small batches, `but` for these fields."""
    return config.replaced(**{name: min(value, config.value(name)) for name, value in _FEW.items()
                              if name in config.all_settings() and name not in but}, learners=1)


def check(algorithm: Algorithm, network: nn.Module, *, spec: EnvironmentSpec, config: Any) -> Found:
    """Test an algorithm with a network, which are both as new, on the CPU. Raises AlgorithmFailed."""
    networks.check(network, spec=spec, output=algorithm.heads.output, new=True,
                   trained_steps=trained_steps(algorithm, config))
    _check_behaviour(algorithm)
    fresh = copy.deepcopy(network)
    with naming("prepare(network)"):
        algorithm.prepare(network)
    with naming("to(device)"):
        algorithm.to("cpu")
    RateFactors(algorithm, inner(network), config).of(config)
    acted = _acted(algorithm, network, spec, config)
    layout = UnrollLayout.of(algorithm, network, config.unroll_length)
    random = np.random.default_rng(0)
    unrolls = [_unroll(layout, random, acted) for _ in range(config.batch_size)]
    batch = collate(unrolls)
    loss, heads = _check_loss(algorithm, network, batch, unrolls[0], config)
    untrained = trained_heads.notes_on(heads, popart=algorithm.heads.popart) if is_own(algorithm) else ()
    return Found(tuple(loss.scalars), (*check_state(algorithm, network, fresh, batch, config), *untrained))


def trained_steps(algorithm: Algorithm, config: Any) -> int:
    """Steps of an unroll that a loss gives its network at once; 0: nobody knows, as where it runs in pieces."""
    if is_own(algorithm) or algorithm.heads.recurrent:
        return 0
    finals = places_of_finals(config.unroll_length) if algorithm.values_finals and config.unroll_length > 1 else 0
    return int(config.unroll_length + 1 + finals)


def _check_behaviour(algorithm: Algorithm) -> None:
    with naming("behaviour_fields()"):
        fields = algorithm.behaviour_fields()
    form = "behaviour_fields() gives shape and dtype by name, such as {'value': ((), 'float32')}"
    rule(isinstance(fields, Mapping), f"{form}, not {said_of(fields)}.")
    for name, entry in fields.items():
        fits = isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], tuple) and entry[1] in (
            "float32", "int64", "uint8")
        rule(fits, f"{form}, not {name!r}: {entry!r:.80}.")


def _acted(
    algorithm: Algorithm, network: nn.Module, spec: EnvironmentSpec, config: Any
) -> Callable[[], dict[str, Array]]:
    """A function that gives the action and behaviour of one step; checks all that reads a network's output."""
    generator = torch.Generator().manual_seed(0)
    rows = _ROWS
    shape = (1, rows, *spec.stacked_shape)
    observation = torch.zeros(shape, dtype=getattr(torch, spec.observation_dtype))
    previous = torch.zeros(1, rows, *spec.actions.shape, dtype=getattr(torch, spec.actions.dtype))
    with torch.no_grad():
        output, _ = network(observation, previous, torch.zeros(1, rows), torch.ones(1, rows, dtype=torch.bool),
                            networks.initial_state(network, rows))
        told = []
        for greedy in (True, False, False):
            with naming(f"act(output, greedy={greedy}, ...)"):
                said = algorithm.act(output, roles=Roles.evaluating(rows), greedy=greedy, generator=generator,
                                     config=config)
            returned.check_act(said, algorithm=algorithm, rows=rows)
            _check_choices(said[0], spec)
            told.append(said)
        with naming("bootstrap(output)"):
            values = algorithm.bootstrap(output)
        rule(is_tensor(values, (rows,)), f"bootstrap(output) gives values of shape ({rows},), not {said_of(values)}.")
        with naming("outlook(output, ...)"):
            view = algorithm.outlook(output, config=config)
        rule(isinstance(view, Outlook) and view.scores.shape[:2] == (1, rows) and is_tensor(view.value, (1, rows)),
             f"outlook(output, ...) gives an Outlook of scores [T, B, A] and value [T, B], not {said_of(view)}.")
        with naming("preference(output, ...)"):
            preferred = algorithm.preference(output, action=told[0][0][0], config=config)
        rule(is_tensor(preferred, (1, rows)), f"preference(output, ...) is of shape [T, B], not {said_of(preferred)}.")

    def one() -> dict[str, Array]:
        actions, fields = told[1]
        return {"action": actions[0].numpy(), "previous_action": actions[0].numpy(),
                **{f"behaviour.{name}": value[0].float().numpy() for name, value in fields.items()}}

    return one


def _check_choices(actions: Tensor, spec: EnvironmentSpec) -> None:
    sizes = torch.tensor(spec.actions.sizes)
    fits = (sizes == 0) | ((actions >= 0) & (actions < sizes) & (actions == actions.round()))  # size 0: a number
    rule(bool(fits.all()), f"act(...) gives actions from 0 to below {spec.actions.sizes}, not {actions.tolist()}.")
    rule(bool(torch.isfinite(actions.float()).all()), "act(...) gives actions that are not finite.")


def _unroll(layout: UnrollLayout, random: np.random.Generator, acted: Callable[[], dict[str, Array]]) -> Unroll:
    """An unroll of noise in which episodes end in every way."""
    spec, length = layout.spec, layout.length
    arrays: dict[str, Array] = {}
    for name, (shape, dtype) in layout.per_step.items():
        values = random.normal(size=(length, *shape)) if dtype == "float32" else np.zeros((length, *shape))
        arrays[name] = values.astype(dtype)
    if spec.observation_dtype == "uint8":
        arrays["observation"] = random.integers(0, 256, arrays["observation"].shape).astype(np.uint8)
    begin = 0
    for part in spec.parts:
        if part.dtype == "float32":  # whose bytes are numbers
            member = arrays["observation"][:, begin : begin + part.wire_bytes].view(np.float32)
            member[...] = random.normal(size=member.shape)
        begin += part.wire_bytes
    for name, value in acted().items():
        arrays[name][:] = value
    kinds = [0, 0, int(Flags.TERMINATED | Flags.START), int(Flags.TRUNCATED | Flags.START), int(Flags.LIFE_LOST)]
    flags = random.choice(kinds, length).astype(np.uint8)
    truncated = ((flags & int(Flags.TRUNCATED)) != 0) & ((flags & int(NO_DISCOUNT)) == 0)
    arrays |= {"flags": flags, "bootstrap_value": np.where(truncated, arrays["bootstrap_value"], 0).astype(np.float32)}
    arrays |= {name: np.zeros(shape, dtype) for name, (shape, dtype) in layout.per_unroll.items()}
    if layout.keeps_finals:
        arrays |= {name: np.zeros(shape, dtype) for name, (shape, dtype) in layout.finals.items()}
        trained = np.flatnonzero(truncated[layout.overlap + 1 :])[: len(arrays["final_step"])] + layout.overlap + 1
        arrays["final_step"][: len(trained)] = trained
        arrays["final_observation"][:] = arrays["observation"][: len(arrays["final_step"])]
    return Unroll.of(arrays, env_id=0, run_id=1)


def _check_loss(
    algorithm: Algorithm, network: nn.Module, batch: Batch, unroll: Unroll, config: Any
) -> tuple[Loss, trained_heads.Heads]:
    """The loss of a batch, and the heads to which it gave a gradient or none."""
    with naming("before_update(batch, ...)"):
        algorithm.before_update(batch, config=config)
    steps, rows = batch.reward.shape
    with naming(f"loss(network, batch=..., config=...), whose batch has T + 1 = {steps} steps of B = {rows} unrolls,"):
        versions = {name: tensor._version for name, tensor in batch.arrays().items()}
        with trained_heads.heads_of(network) as heads:
            loss = algorithm.loss(network, batch=batch, config=config)  # type: ignore[arg-type]
    for name, tensor in batch.arrays().items():
        rule(tensor._version == versions[name], f"loss(...) changes batch.{name} in place. Make a new tensor: a batch "
             "can be trained on again, and its observations are counted afterwards.")
    returned.check_loss(loss, algorithm=algorithm, batch=batch)
    for name in loss.scalars:
        rule(name not in METRICS, f"Loss.scalars[{name!r}] has the name of a metric that every run has. Rename it.")
    rule(loss.total.dtype == torch.float32, f"Loss.total is a float32 scalar, not {said_of(loss.total)}.")
    total = float(loss.total.detach())
    rule(bool(np.isfinite(total)), f"Loss.total is {total} for a batch of noise.")
    rule(all(parameter.grad is None for parameter in network.parameters()), "loss(...) takes the gradient itself. It "
         "returns the loss; the learner calls backward() and steps the optimizer.")
    _check_weights(loss.total, {id(one) for one in (*network.parameters(), *algorithm.parameters())})
    with naming("the gradient of Loss.total"):
        loss.total.backward()  # type: ignore[no-untyped-call]
    slopes = [parameter.grad for parameter in network.parameters() if parameter.grad is not None]
    rule(any(bool(slope.abs().sum() > 0) for slope in slopes), "loss(...) gives no weight of the network a gradient.")
    rule(all(bool(torch.isfinite(slope).all()) for slope in slopes), "a gradient of loss(...) is not finite.")
    network.zero_grad(set_to_none=True)
    with naming("after_update(loss, ...)"):
        algorithm.after_update(loss, config=config)
    with naming("updated(network, ...)"):
        algorithm.updated(network, updates=1, config=config)
    if isinstance(config, ReplayConfig):
        with naming("initial_priority(unroll, ...)"):
            priority = algorithm.initial_priority(unroll, config=config)
        rule(priority is None or (isinstance(priority, float) and np.isfinite(priority) and priority >= 0),
             f"initial_priority(unroll, ...) is a number from 0 on or None, not {said_of(priority)}.")
        rule(is_tensor(loss.priorities, (config.batch_size,)),
             f"with a replay, Loss.priorities are [B], {(config.batch_size,)}, not {said_of(loss.priorities)}.")
        if loss.priorities is not None:
            rule(bool(((loss.priorities >= 0) & loss.priorities.isfinite()).all()),
                 f"Loss.priorities are numbers from 0 on, not {loss.priorities.tolist()} as for a batch of noise.")
    return loss, heads


def _check_weights(total: Tensor, known: set[int]) -> None:
    """Raises AlgorithmFailed where a loss depends on weights that no optimizer has; `known`: ids of those that one has.
    """
    ahead, seen, unknown = [total.grad_fn] if total.grad_fn else [], {total.grad_fn}, []
    while ahead:
        function: Any = ahead.pop()
        weight = getattr(function, "variable", None)
        if isinstance(weight, nn.Parameter) and id(weight) not in known:
            unknown.append(str(tuple(weight.shape)))
        following = {following for following, _ in function.next_functions if following is not None} - seen
        ahead += following
        seen |= following
    shapes = ", ".join(sorted(unknown))
    rule(not unknown, f"loss(...) has a gradient for weights of shape {shapes} that nothing trains: they are neither "
                      "the network's nor in parameters(). Return them there, and keep them in state(); or, if nothing "
                      "is to train them, as in a target, use them under torch.no_grad().")
