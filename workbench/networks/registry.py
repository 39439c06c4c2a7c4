"""Networks by name, by default, or from a user's factory; and the dry run that checks any of them."""

from __future__ import annotations

import copy
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from workbench.algorithms.action_masks import FIELDS
from workbench.algorithms.interface import (
    Heads,
    NetworkOutput,
    PolicyCriticsOutput,
    PolicyValueOutput,
    QValueOutput,
    State,
)
from workbench.environment_spec import EnvironmentSpec
from workbench.errors import NetworkFailed, UnknownName
from workbench.networks.actor_critics import ActorCritics
from workbench.networks.dueling import DuelingNetwork
from workbench.networks.normalization import Observed, needs_observed, output_of
from workbench.networks.policy_value import PolicyValueNetwork
from workbench.networks.torsos import (
    MLP,
    MLP256,
    ImpalaDeep,
    Joined,
    Numbers,
    football,
    impala_shallow,
    nature,
    small_cnn,
)

NetworkFactory = Callable[[EnvironmentSpec], nn.Module]

NATURE_SIZE_PX = 84  # what the Nature torso was made for
_FIRST_STEPS = 4  # of an episode, which are tried with other values from before it
_MASKED = 1e6  # magnitudes from here on are no results
_HIGHEST = (255, 1)  # of integers that are tried: a network may take them for indices

_TORSOS: dict[str, Callable[[tuple[int, ...]], Any]] = {
    "football": football,
    "impala-deep": ImpalaDeep,
    "impala-shallow": impala_shallow,
    "mlp": MLP,
    "mlp-256": MLP256,
    "nature": nature,
    "small-cnn": small_cnn,
}
_OF_VECTORS = (MLP, MLP256, Numbers)
_AXES = {"policy_logits": ("T", "B", "actions"), "q_values": ("T", "B", "actions"), "value": ("T", "B")}
NAMES: tuple[str, ...] = tuple(sorted(f"{name}{memory}" for name in _TORSOS for memory in ("", "-lstm")))


def default_name(spec: EnvironmentSpec, *, recurrent: bool) -> str:
    """The default network: mlp for vectors, nature for images of 84 px or more, else small-cnn.

    Of several images the smallest decides. The name ends in "-lstm" if `recurrent`.
    """
    images = [part.shape for part in spec.seen if len(part.shape) == 3]
    large = images and min(min(shape[1:]) for shape in images) >= NATURE_SIZE_PX
    torso = "mlp" if not images else "nature" if large else "small-cnn"
    return f"{torso}-lstm" if recurrent else torso


def build(
    name: str | None, *, spec: EnvironmentSpec, heads: Heads, factory: NetworkFactory | None = None, seed: int,
    normalise: bool = False,
) -> nn.Module:
    """A new network for `spec`, the same for the same seed; PyTorch's global random state stays unchanged.

    Args:
        name: one of `NAMES`, a torso with or without an LSTM, or None for the default; ignored if there is a factory.
        spec: observations and actions of the environment.
        heads: the algorithm's heads on top of the torso; ignored if there is a factory.
        factory: makes a network that implements `algorithms.interface.Network`.
        seed: of the initial weights.
        normalise: float32 observations by their running mean and variance.

    Raises:
        UnknownName: no network has that name.
        ShapeMismatch: the network cannot read such observations.
        NetworkFailed: the factory raised, did not return an nn.Module, or the heads' output knows no action masks.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        name = name or default_name(spec, recurrent=heads.recurrent)
        if factory is None and name not in NAMES:
            raise UnknownName.among("network", name, NAMES)
        network = _from_name(name, spec, heads) if factory is None else _from_factory(factory, spec)
        if spec.action_mask is not None and not set(FIELDS) & set(getattr(heads.output, "_fields", ())):
            raise NetworkFailed(f"{spec.name} has action masks, which an output knows in its fields "
                                f"{' and '.join(FIELDS)}, and {heads.output.__name__} has neither. Call so what it "
                                "chooses by.")
        return Observed(network, spec, normalise=normalise) if needs_observed(spec, normalise=normalise) else network


def _from_name(name: str, spec: EnvironmentSpec, heads: Heads) -> nn.Module:
    lstm_size = heads.lstm_size if name.endswith("-lstm") else 0
    make = _TORSOS[name.removesuffix("-lstm")]
    torso = partial(_torso, make, spec)
    used = {QValueOutput: "dueling_size", PolicyCriticsOutput: "critic_size"}.get(heads.output)
    if used is not None and getattr(heads, used) < 1:
        raise NetworkFailed(f"Heads({used}={getattr(heads, used)!r:.100}) must be a number of units, 1 or more, or "
                            "nothing is learnt.")
    if heads.output is QValueOutput:
        return DuelingNetwork(torso(), num_actions=spec.num_actions, lstm_size=lstm_size,
                              dueling_size=heads.dueling_size)
    if heads.output is PolicyCriticsOutput:
        critic_torso = _torso(Numbers, spec) if make is MLP256 else torso()  # critics have two such layers themselves
        return ActorCritics(torso(), critic_torso, actions=spec.actions, critic_size=heads.critic_size,
                            lstm_size=lstm_size)
    if heads.output is not PolicyValueOutput:
        raise NetworkFailed(f"no network that ships gives {heads.output.__name__}, which the algorithm asks for. Pass "
                            "one of your own: network=...")
    # A small policy has a torso of its own, which the value's large gradients would disturb.
    value_torso = torso() if make in _OF_VECTORS and not lstm_size else None
    return PolicyValueNetwork(torso(), actions=spec.actions, value_torso=value_torso, lstm_size=lstm_size,
                              popart=heads.popart)


def _torso(make: Callable[[tuple[int, ...]], Any], spec: EnvironmentSpec) -> Any:
    """A torso for the observation's only array, or for all of its parts."""
    if [part.name for part in spec.seen] == [""]:
        return make(spec.seen[0].shape)
    if not spec.shows_images and make not in _OF_VECTORS:
        make(spec.seen[0].shape)  # raises, because it needs images
    return Joined({part.name: part.shape for part in spec.seen}, make, make if make in _OF_VECTORS else MLP)


def _from_factory(factory: NetworkFactory, spec: EnvironmentSpec) -> nn.Module:
    try:
        network = factory(spec)
    except Exception as error:
        raise NetworkFailed(f"the network factory raised {_error_text(error)}") from error
    if not isinstance(network, nn.Module):
        raise NetworkFailed(f"the network factory must return a torch.nn.Module, not {type(network).__name__}.")
    return network


def check(network: nn.Module, *, spec: EnvironmentSpec, output: type[NetworkOutput], new: bool = False) -> None:
    """Runs the network on two steps of three rows and compares its results with the class `output`.

    Args:
        new: whether no run has trained it: rules that are younger than some runs hold for these alone.

    Raises NetworkFailed, which names the mistake and what is right.
    """
    steps, batch = 2, 3
    if not callable(getattr(network, "initial_state", None)):
        raise NetworkFailed(f"{type(network).__name__} has no method initial_state(batch). A network without memory "
                            f"returns () there, one with memory a tuple of zero tensors [batch, ...].")
    try:
        before = network.initial_state(batch)  # type: ignore[operator]
    except Exception as error:
        raise NetworkFailed(f"initial_state({batch}) raised {_error_text(error)}") from error
    _check_state(before, batch, "initial_state")
    device = next((parameter.device for parameter in network.parameters()), torch.device("cpu"))
    arguments = [argument.to(device) for argument in _dry_run_inputs(spec, steps, batch)]
    try:
        with torch.no_grad():
            returned = network(*arguments, before)
    except Exception as error:
        raise NetworkFailed(f"the network raised on {_input_text(spec, steps, batch)}: {_error_text(error)}") from error
    numbers = spec.num_actions if output is QValueOutput else spec.actions.parameters
    _check_returned(returned, before, (steps, batch, numbers), output)
    if new:
        _check_kept(network, before)
        _check_acting(network, spec, before)
        _check_start(network, spec, before)


def initial_state(network: nn.Module, batch: int) -> State:
    """The network's state before the first step, each part in memory of its own, which the network need not give it."""
    return tuple(part.detach().clone() for part in network.initial_state(batch))  # type: ignore[operator]


def _check_kept(network: nn.Module, state: State) -> None:
    """Raises NetworkFailed for what no checkpoint or no unroll can hold, and for what cannot be copied."""
    for index, part in enumerate(state):
        if not part.is_floating_point():
            raise NetworkFailed(f"part {index} of the state is {_kind(part)}, and an unroll keeps float32. Keep it as "
                                "float32, and convert it where the network uses it.")
    for name, tensor in network.state_dict().items():
        if not isinstance(tensor, Tensor):
            raise NetworkFailed(f"{name} of the network is {_kind(tensor)}, which no checkpoint can hold. Keep a "
                                "tensor, as by register_buffer(...).")
        if tensor.is_complex():
            raise NetworkFailed(f"{name} of the network is {_kind(tensor)}, which no checkpoint can hold. Keep "
                                "torch.view_as_real(...) of it, and make it complex where the network uses it.")
    try:
        copy.deepcopy(network)
    except Exception as error:
        raise NetworkFailed(f"{_uncopyable(network)} cannot be copied ({error}). The learner acts with a copy of "
                            "the network, so keep such a thing outside of it.") from error


def _uncopyable(network: nn.Module) -> str:
    """What of the network keeps it from being copied, such as "head.lock of the network"."""
    for path, module in network.named_modules():
        for name, value in vars(module).items():
            try:
                name in ("_modules", "_parameters", "_buffers") or copy.deepcopy(value)
            except Exception:
                return f"{path}.{name} of the network".lstrip(".")
    return "the network"


def _check_acting(network: nn.Module, spec: EnvironmentSpec, before: State) -> None:
    """Raises NetworkFailed where the results of an environment depend on the others of its batch, or those of a step on
    anything but the state and the steps up to it: actors ask for one step, and a batch is whoever asks.

    Says nothing of a network that cannot be tried so: see `_check_start`. On the CPU, whose float32 is exact enough;
    each call asks a copy, so that what a call changes in the network changes no other.
    """
    everything = slice(None)
    before = tuple(part.cpu() for part in before)
    _, action, reward, some_start = _dry_run_inputs(spec, 2, len(before[0]) if before else 3)
    at_first = some_start.clone()
    at_first[1:] = False  # what starts inside is tried by `_check_start`
    generator = torch.Generator().manual_seed(0)

    def told(start: Tensor, steps: slice, rows: slice, state: State) -> tuple[list[Tensor], State]:
        inputs = [each[steps, rows].clone() for each in (action, reward, start)]
        seen = {name: value[steps, rows].clone() for name, value in parts.items()}
        asked = copy.deepcopy(network)
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            output, after = output_of(asked, seen, *inputs, tuple(part[rows].clone() for part in state))
        form = inputs[-1].shape
        return [part.double() for part in output if isinstance(part, Tensor) and part.shape[:2] == form], after

    for highest in _HIGHEST:
        parts = {part.name: torch.randn(*some_start.shape, *part.shape, generator=generator)
                 if part.dtype == "float32" else
                 torch.randint(highest + 1, (*some_start.shape, *part.shape), dtype=torch.uint8, generator=generator)
                 for part in spec.seen}
        with suppress(Exception):
            network = copy.deepcopy(network).cpu().eval()
            whole, again = (told(some_start, everything, everything, before)[0] for _ in range(2))
            break
    else:
        return
    if not _alike(again, whole):
        return
    steps, rows = (range(size) for size in some_start.shape)
    try:
        together, _ = told(at_first, everything, everything, before)
        state, walked = before, []
        for step in steps:
            outputs, state = told(at_first, slice(step, step + 1), everything, state)
            walked.append(outputs)
        step_by_step = _alike([torch.cat(outputs) for outputs in zip(*walked, strict=True)], together, sums=True)
        alone = [told(some_start, everything, slice(row, row + 1), before)[0] for row in rows]
        row_by_row = _alike([torch.cat(outputs, 1) for outputs in zip(*alone, strict=True)], whole, sums=True)
    except Exception as error:
        raise NetworkFailed("the network raised on fewer steps or environments than before, and must take one of "
                            f"each: {_error_text(error)}") from error
    if not step_by_step:
        raise NetworkFailed("the network's results for some steps are not those for one step after another, by which "
                            "actors ask. A step may depend on the state and on the steps up to it: attention over time "
                            "needs a causal mask, and in the state what it looks back at; and the state that is "
                            "returned is the one after the last step.")
    if not row_by_row:
        raise NetworkFailed("the network's results for an environment depend on the others of its batch, which are "
                            "whoever asks at the same time. Compute each row of axis 1 by itself: no mean, norm or "
                            "attention over them.")


def _check_start(network: nn.Module, spec: EnvironmentSpec, before: State) -> None:
    """Raises NetworkFailed where an episode's first steps, at the beginning of an unroll or inside, depend on the state
    or the reward before them; the previous action is 0 there.

    Says nothing of a network that cannot be tried so: one with other outputs for the same inputs, by numbers or counts
    of its own, or one that fails for a state that it has not made.
    """
    device = next((parameter.device for parameter in network.parameters()), torch.device("cpu"))
    observation, action, reward, start = (
        each.to(device) for each in _dry_run_inputs(spec, _FIRST_STEPS, len(before[0]) if before else 1))

    def told(at: int, *, reward: Tensor = reward, state: State = before) -> list[Tensor]:
        start[:], start[at] = False, True
        with torch.no_grad(), torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(0)
            output, _ = network(observation, action, reward, start, tuple(part.clone() for part in state))
        return [part[at:].double() for part in output if isinstance(part, Tensor) and part.shape[:2] == start.shape]

    depends: set[str] = set()
    try:
        network = copy.deepcopy(network).eval()  # as it acts: no statistics of a batch
        for at in (0, _FIRST_STEPS // 2):
            reward_before = reward.clone()
            reward_before[: at + 1] = 1
            expected = told(at)
            found = {"reward": told(at, reward=reward_before)}
            if before:
                found["state"] = told(at, state=tuple(map(torch.ones_like, before)))
            if _alike(told(at), expected):
                depends |= {name for name, got in found.items() if not _alike(got, expected)}
    except Exception:
        return
    for name in ("state", "reward"):  # a memory that stays brings the rewards along
        if name in depends:
            raise NetworkFailed(f"the network's first steps of an episode depend on {name}, which is of the episode "
                                f"before. Where start is set, {name} counts for nothing: put zeros in its place. That "
                                "changes no weight, so checkpoints fit as before.")


def _alike(some: Sequence[Tensor], others: Sequence[Tensor], *, sums: bool = False) -> bool:
    """Whether they are equal but for rounding; `sums`: those of batches of other sizes, which round otherwise."""
    return all(torch.allclose(one, other, rtol=1e-4, atol=1e-5 + (1e-4 * _largest(other) if sums else 0.0))
               for one, other in zip(some, others, strict=True))


def _largest(values: Tensor) -> float:
    """The largest magnitude, but for those by which logits are masked: sums of as large terms round by as much."""
    summed = values.abs()[values.abs() < _MASKED]
    return float(summed.max()) if summed.numel() else 0.0


def _dry_run_inputs(spec: EnvironmentSpec, steps: int, batch: int) -> list[Tensor]:
    """Observation, previous action, reward and start; some row starts an episode at each step."""
    shape = (steps, batch, *spec.stacked_shape)
    start = torch.zeros(steps, batch, dtype=torch.bool)
    start[0, 0] = start[-1, -1] = True
    observation = torch.zeros(shape, dtype=getattr(torch, spec.observation_dtype))
    action = torch.zeros(steps, batch, *spec.actions.shape, dtype=getattr(torch, spec.actions.dtype))
    return [observation, action, torch.zeros(steps, batch), start]


def _input_text(spec: EnvironmentSpec, steps: int, batch: int) -> str:
    """The inputs of a network in words, for a message."""
    parts = [f"{part.dtype} observations {(steps, batch, *part.shape)}" + (f" under {part.name!r}" if part.name else "")
             for part in spec.seen]
    return f"{', '.join(parts)} (T, B, ...)"


def _check_state(state: Any, batch: int, source: str) -> None:
    if not isinstance(state, tuple) or not all(isinstance(part, Tensor) for part in state):
        raise NetworkFailed(f"{source} must give a tuple of tensors (() without memory), not {_kind(state)}.")
    for index, part in enumerate(state):
        if part.ndim == 0 or len(part) != batch:
            raise NetworkFailed(f"part {index} of the state from {source} has shape {tuple(part.shape)}, but its first "
                                f"axis must be the batch, {batch}.")


def _check_returned(
    returned: Any, before: State, shape: tuple[int, int, int], expected: type[NetworkOutput]
) -> None:
    steps, batch, _ = shape
    form = f"({expected.__name__}({', '.join(expected._fields)}), state)"
    if not (isinstance(returned, tuple) and len(returned) == 2):
        raise NetworkFailed(f"the network must return {form}, not {_kind(returned)}.")
    output, after = returned
    if not (isinstance(output, tuple) and all(hasattr(output, field) for field in expected._fields)):
        raise NetworkFailed(f"this run's algorithm needs a network that returns {form} with a "
                            f"workbench.networks.{expected.__name__} first, not {_kind(output)}.")
    for field, axes in ((field, _AXES[field]) for field in expected._fields if field in _AXES):
        _check_tensor(field, getattr(output, field), shape[: len(axes)], f"({', '.join(axes)})")
    _check_state(after, batch, "the network's call")
    initial = [(tuple(part.shape), part.dtype) for part in before]
    returned = [(tuple(part.shape), part.dtype) for part in after]
    if initial != returned:
        raise NetworkFailed(f"the state that the network returns is {returned}, but initial_state gives {initial}; "
                            f"the two must agree.")


def _check_tensor(name: str, value: Any, shape: tuple[int, ...], axes: str) -> None:
    if not isinstance(value, Tensor) or tuple(value.shape) != shape or value.dtype != torch.float32:
        raise NetworkFailed(f"{name} is {_kind(value)}, but it must be a float32 tensor of shape {shape}, {axes}.")
    if not bool(value.isfinite().all()):
        raise NetworkFailed(f"{name} is not finite for an observation of zeros.")


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a {str(value.dtype).removeprefix('torch.')} tensor of shape {tuple(value.shape)}"
    if isinstance(value, tuple):
        return f"a {type(value).__name__} ({', '.join(map(_kind, value))})"
    return f"a {type(value).__name__}"


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}\n{''.join(traceback.format_exception(error))}"
