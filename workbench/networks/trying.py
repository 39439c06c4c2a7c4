"""Tries a network before a run trains it: what an algorithm gets of it, and that acting and training see it alike.

Actors ask for one step of whoever asks at the same time, training for whole unrolls of a batch. A network that mixes
environments, looks ahead or keeps a memory of its own says something else in the one than in the other, silently.
"""

from __future__ import annotations

import copy
import random
import sys
import traceback
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import chain, repeat
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from workbench.algorithms.interface import NetworkOutput, State
from workbench.environment_spec import EnvironmentSpec
from workbench.errors import NetworkFailed
from workbench.networks.normalization import output_of
from workbench.networks.returned_shapes import Form, check_state, misshapen, said_of

Fields = dict[str, Tensor]  # of an output, by name

_FIRST_STEPS = 4  # of an episode, which are tried with other values from before it
_MASKED = 1e6  # magnitudes from here on are no results
_NEW_TENSORS = {  # in place of a changed input
    "observation": "observation = observation / 5", "previous_action": "previous_action = previous_action + 1",
    "reward": "reward = torch.where(start, 0, reward)", "start": "start = start.clone()",
    "state": "h = h * ~start[0, :, None]"}
_HIGHEST = (255, 1)  # of integers that are tried: a network may take them for indices


def check(
    network: nn.Module, *, spec: EnvironmentSpec, output: type[NetworkOutput], new: bool = False, trained_steps: int = 0
) -> Form:
    """Runs the network on two steps of three rows and compares its results with the class `output`. Returns their form,
    which it has for any numbers of steps and rows if it is right.

    Args:
        new: whether no run has trained it: rules that are younger than some runs hold for these alone.
        trained_steps: that it is given at once where it is trained, if `new`; 0: nobody knows.

    Raises NetworkFailed, which names the mistake and what is right.
    """
    device = _device(network)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        return _check(network, spec, output, new, trained_steps)


def _check(
    network: nn.Module, spec: EnvironmentSpec, output: type[NetworkOutput], new: bool, trained_steps: int
) -> Form:
    steps, batch = 2, 3
    if not callable(getattr(network, "initial_state", None)):
        raise NetworkFailed(f"{type(network).__name__} has no method initial_state(batch). A network without memory "
                            f"returns () there, one with memory a tuple of zero tensors [batch, ...].")
    try:
        before = network.initial_state(batch)  # type: ignore[operator]
    except Exception as error:
        raise NetworkFailed(f"initial_state({batch}) raised {error_text(error)}") from error
    check_state(before, batch, "initial_state")
    before = initial_state(network, batch)
    arguments = [argument.to(_device(network)) for argument in _dry_run_inputs(spec, steps, batch)]
    inputs = [*arguments, *before]
    versions = [tensor._version for tensor in inputs]
    statistics = {name: buffer.clone() for name, buffer in network.named_buffers() if not is_lazy(buffer)}
    try:
        with torch.no_grad():
            returned = network(*arguments, before)  # itself, which may make its weights at the first call
            for name, buffer in network.named_buffers():
                if name in statistics and buffer.shape == statistics[name].shape:
                    buffer.copy_(statistics[name])
    except Exception as error:
        raise NetworkFailed(f"the network raised on {_input_text(spec, steps, batch)}: {error_text(error)}") from error
    form = Form.of(before, spec=spec, output=output)
    _check_returned(returned, before, (steps, batch), form)
    if new:
        _check_unchanged(inputs, versions)
        tried = _kept(network, before).eval()  # as it acts: no statistics of a batch
        with _eager():
            _check_acting(tried, spec, before, form)
            _check_start(tried, spec, before)
            _check_unroll(tried, spec, trained_steps, form)
    return form


def initial_state(network: nn.Module, batch: int) -> State:
    """The network's state before the first step, each part in memory of its own, which the network need not give it."""
    return tuple(part.detach().clone() for part in network.initial_state(batch))  # type: ignore[operator]


def _device(network: nn.Module) -> torch.device:
    return next((parameter.device for parameter in network.parameters()), torch.device("cpu"))


def _fresh(network: nn.Module) -> nn.Module:
    """A copy of all but the parameters: what a call changes in the network is not there at the next."""
    return copy.deepcopy(network, {id(parameter): parameter for parameter in network.parameters()})


def _eager() -> AbstractContextManager[Any]:
    """The context in which nothing is compiled: what a network has compiled is compiled anew for each copy."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()


def _check_unchanged(inputs: Sequence[Tensor], versions: Sequence[int]) -> None:
    """Raises NetworkFailed where the network has changed its inputs, whose memory others read."""
    names = chain(("observation", "previous_action", "reward", "start"), repeat("state"))
    for name, tensor, version in zip(names, inputs, versions, strict=False):
        if tensor._version != version:
            raise NetworkFailed(f"the network changes {name} in place, as an operation whose name ends in _ does, or "
                                "one such as x /= 5. An unroll keeps it as it came, and the loss reads it. Make a new "
                                f"tensor, as by {_NEW_TENSORS[name]}.")


def _kept(network: nn.Module, state: State) -> nn.Module:
    """A copy of the network. Raises NetworkFailed for what no checkpoint or no unroll can hold, and for what cannot be
    copied."""
    for index, part in enumerate(state):
        if not part.is_floating_point():
            raise NetworkFailed(f"part {index} of the state is {said_of(part)}, and an unroll keeps float32. Keep it "
                                "as float32, and convert it where the network uses it.")
    for name, tensor in network.state_dict().items():
        if not isinstance(tensor, Tensor):
            raise NetworkFailed(f"{name} of the network is {said_of(tensor)}, which no checkpoint can hold. Keep a "
                                "tensor, as by register_buffer(...).")
        if tensor.is_complex():
            raise NetworkFailed(f"{name} of the network is {said_of(tensor)}, which no checkpoint can hold. Keep "
                                "torch.view_as_real(...) of it, and make it complex where the network uses it.")
    try:
        return copy.deepcopy(network)
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


def _check_acting(network: nn.Module, spec: EnvironmentSpec, before: State, form: Form) -> None:
    """Raises NetworkFailed where one step or one environment gives results of another form, where the results of an
    environment depend on the others of its batch, or those of a step on anything but the state and the steps up to it:
    actors ask for one step, and a batch is whoever asks.

    Says nothing of a network that cannot be tried so: see `_check_start`. On the CPU, whose float32 is exact enough;
    each call asks a copy, so that what a call changes in the network changes no other.
    """
    everything = slice(None)
    if _device(network).type != "cpu":
        network = copy.deepcopy(network)
    before = tuple(part.cpu() for part in before)
    *_, some_start = _dry_run_inputs(spec, 2, len(before[0]) if before else 3)
    at_first = some_start.clone()
    at_first[1:] = False  # what starts inside is tried by `_check_start`
    generator = torch.Generator().manual_seed(0)
    reward = torch.randn(some_start.shape, generator=generator)
    action = _some_actions(spec, some_start.shape, generator)

    def told(
        start: Tensor, steps: slice, rows: slice, state: State, asked: nn.Module | None = None
    ) -> tuple[Fields, State]:
        previous = torch.where(start.reshape(*start.shape, *[1] * (action.ndim - 2)), 0, action)
        inputs = [each[steps, rows].clone() for each in (previous, reward, start)]
        seen = {name: value[steps, rows].clone() for name, value in parts.items()}
        asked = _fresh(network) if asked is None else asked
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            output, after = output_of(asked, seen, *inputs, tuple(part[rows].clone() for part in state))
        form.check((output, after), *inputs[-1].shape)
        return _fields(output, inputs[-1].shape), after

    for highest in _HIGHEST:
        parts = {part.name: torch.randn(*some_start.shape, *part.shape, generator=generator)
                 if part.dtype == "float32" else
                 torch.randint(highest + 1, (*some_start.shape, *part.shape), dtype=torch.uint8, generator=generator)
                 for part in spec.seen}
        with suppress(Exception):
            network = network.cpu()
            whole, again = (told(some_start, everything, everything, before)[0] for _ in range(2))
            break
    else:
        return
    steps, rows = (range(size) for size in some_start.shape)

    def walked(asked: nn.Module | None = None) -> Fields:
        state, outputs = before, []
        for step in steps:
            one, state = told(at_first, slice(step, step + 1), everything, state, asked)
            outputs.append(one)
        return _joined(outputs, 0)

    try:
        together, _ = told(at_first, everything, everything, before)
        by_steps = walked()
        alone = [told(some_start, everything, slice(row, row + 1), before)[0] for row in rows]
        told(at_first, slice(1), slice(1), before)
        step_by_step, row_by_row = _alike(by_steps, together, sums=True), _alike(_joined(alone, 1), whole, sums=True)
        keeps_itself = not step_by_step and _alike(walked(_fresh(network)), together, sums=True)
    except NetworkFailed as error:
        raise NetworkFailed(f"for one step or one environment, as actors ask, {error}") from None
    except Exception as error:
        raise NetworkFailed("the network raised on fewer steps or environments than before, and must take one of "
                            f"each: {error_text(error)}") from error
    if not _alike(again, whole) or _draws_by_itself(network):
        return
    if keeps_itself:
        raise NetworkFailed("the network keeps its memory in itself, as in an attribute, where its copies that act and "
                            "train have different ones, and each batch is of other environments. Return it as state.")
    if not step_by_step:
        raise NetworkFailed("the network's results for some steps are not those for one step after another, by which "
                            "actors ask. A step may depend on the state and on the steps up to it: attention over time "
                            "needs a causal mask, and in the state what it looks back at; nothing is kept in an "
                            "attribute from call to call; and the state that is returned is the one after the last "
                            "step.")
    if not row_by_row:
        raise NetworkFailed("the network's results for an environment depend on the others of its batch, which are "
                            "whoever asks at the same time. Compute each row of axis 1 by itself: no mean, norm or "
                            "attention over them.")


def _draws_by_itself(network: nn.Module) -> bool:
    """Whether the network has a random generator of its own, of which each copy draws the same numbers."""
    generators = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)
    return any(isinstance(value, generators) for module in network.modules() for value in vars(module).values())


def _check_start(network: nn.Module, spec: EnvironmentSpec, before: State) -> None:
    """Raises NetworkFailed where an episode's first steps, at the beginning of an unroll or inside, depend on the state
    or the reward before them; the previous action is 0 there.

    Says nothing of a network that cannot be tried so: one with other outputs for the same inputs, by numbers or counts
    of its own, or one that fails for a state that it has not made.
    """
    device = _device(network)
    observation, action, reward, start = (
        each.to(device) for each in _dry_run_inputs(spec, _FIRST_STEPS, len(before[0]) if before else 1))

    def told(at: int, *, reward: Tensor = reward, state: State = before) -> Fields:
        start[:], start[at] = False, True
        for generator in _generators(device):
            generator.manual_seed(0)
        with torch.no_grad():
            output, _ = asked(observation, action, reward, start, tuple(part.clone() for part in state))
        return {name: part[at:] for name, part in _fields(output, start.shape).items()}

    depends: set[str] = set()
    try:
        asked = _fresh(network)
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
                                f"before. Where start is set, {name} counts for nothing: put zeros in its place, at "
                                "every step of an unroll and not only at its first. That changes no weight, so "
                                "checkpoints fit as before.")


def _generators(device: torch.device) -> list[torch.Generator]:
    """PyTorch's own generators from which a network on `device` draws."""
    on_device = [torch.cuda.default_generators[device.index or 0]] if device.type == "cuda" else []
    return [torch.default_generator, *on_device]


def _some_actions(spec: EnvironmentSpec, shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Actions of `spec`, [*shape, *action]; of choices any but 0."""
    form = (*shape, *spec.actions.shape)
    sizes = torch.tensor(spec.actions.sizes).reshape(spec.actions.shape)
    choices = 1 + (torch.rand(form, generator=generator) * (sizes - 1)).long()
    actions = torch.where(sizes > 0, choices.minimum(sizes - 1), torch.randn(form, generator=generator))
    return actions.to(getattr(torch, spec.actions.dtype))


def _fields(output: Any, shape: torch.Size) -> Fields:
    """Those of an output that are of each step of each row, shape [T, B]."""
    fields = {name: part for name, part in zip(output._fields, output, strict=True) if isinstance(part, Tensor)}
    return {name: part.double() for name, part in fields.items() if part.shape[:2] == shape}


def _joined(some: Sequence[Fields], axis: int) -> Fields:
    """The fields that all of `some` have, along an axis."""
    names = set.intersection(*map(set, some))
    return {name: torch.cat([fields[name] for fields in some], axis) for name in names}


def _check_unroll(network: nn.Module, spec: EnvironmentSpec, steps: int, form: Form) -> None:
    """Raises NetworkFailed where the network cannot take as many steps of one environment."""
    if not steps:
        return
    arguments = [argument.to(_device(network)) for argument in _dry_run_inputs(spec, steps, 1)]
    try:
        with torch.no_grad():
            form.check(network(*arguments, initial_state(network, 1)), steps, 1)
    except NetworkFailed as error:
        raise NetworkFailed(f"for {_input_text(spec, steps, 1)}, as many steps as it is trained on, {error}") from None
    except Exception as error:
        raise NetworkFailed(f"the network raised on {_input_text(spec, steps, 1)}, as many steps as it is trained on: "
                            f"{error_text(error)}") from error


def _alike(some: Fields, others: Fields, *, sums: bool = False) -> bool:
    """Whether the fields that both have are equal but for rounding; `sums`: those of batches of other sizes, which
    round otherwise."""
    return all(_near(some[name], others[name], sums=sums) for name in some.keys() & others.keys())


def _near(one: Tensor, other: Tensor, *, sums: bool) -> bool:
    size = other.abs()
    bound = 1e-5 + 1e-4 * torch.where(size.isfinite(), size, 0.0)
    if sums:  # of as large terms, which round by as much; those by which a column is masked say nothing of others
        bound += 1e-4 * torch.where(size < _MASKED, size, 0.0).amax((0, 1))
    return bool(((one == other) | ((one - other).abs() <= bound)).all())


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


def _check_returned(returned: Any, before: State, shape: tuple[int, int], form: Form) -> None:
    """Raises NetworkFailed where dtypes or values are wrong, too."""
    form.check(returned, *shape)
    output, after = returned
    for field, whole in form.shapes(*shape):
        value = getattr(output, field)
        if value.dtype != torch.float32:
            raise misshapen(field, value, whole)
        if not bool(value.isfinite().all()):
            raise NetworkFailed(f"{field} is not finite for an observation of zeros.")
    initial, kept = ([(tuple(part.shape), part.dtype) for part in state] for state in (before, after))
    if initial != kept:
        raise NetworkFailed(f"the state that the network returns is {kept}, but initial_state gives {initial}; the two "
                            "must agree.")


def error_text(error: Exception) -> str:
    """What a user's code raised, with its traceback."""
    return f"{type(error).__name__}: {error}\n{''.join(traceback.format_exception(error))}"
