"""The shapes of what a network returns: tried before a run, and compared at each call where a user wrote the network.

Only shapes and types are looked at, so that nothing waits for the device.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from workbench.algorithms.interface import NetworkOutput, QValueOutput, State, inner
from workbench.environment_spec import EnvironmentSpec
from workbench.errors import NetworkFailed

_ARGUMENTS = 5  # observation, previous_action, reward, start, state
AXES = {"policy_logits": ("T", "B", "actions"), "q_values": ("T", "B", "actions"), "value": ("T", "B")}


class Form(NamedTuple):
    """What a network returns, but for the numbers of steps and rows.

    Attributes:
        output: the class of its output.
        actions: how many numbers an output has for each step.
        state: the shape of each part of its state for one row.
    """

    output: type[NetworkOutput]
    actions: int
    state: Sequence[tuple[int, ...]]

    @classmethod
    def of(cls, initial_state: State, *, spec: EnvironmentSpec, output: type[NetworkOutput]) -> Form:
        """That of a network with this initial state."""
        actions = spec.num_actions if output is QValueOutput else spec.actions.parameters
        return cls(output, actions, [tuple(part.shape[1:]) for part in initial_state])

    def shapes(self, steps: int, rows: int) -> list[tuple[str, tuple[int, ...]]]:
        """The fields of an output whose shapes are known, with these shapes."""
        axes = (steps, rows, self.actions)
        return [(field, axes[: len(AXES[field])]) for field in self.output._fields if field in AXES]

    def check(self, returned: Any, steps: int, rows: int) -> None:
        """Raises NetworkFailed, with the value, its shape and the right one, unless `returned` is of this form."""
        output, after = self._parted(returned)
        for field, shape in self.shapes(steps, rows):
            value = getattr(output, field)
            if not isinstance(value, Tensor) or value.shape != shape:
                raise misshapen(field, value, shape)
        check_state(after, rows, "the network's call")
        if [part.shape[1:] for part in after] != self.state:
            shapes = [(rows, *shape) for shape in self.state]
            raise NetworkFailed(f"the state that the network returns has the shapes {[tuple(x.shape) for x in after]}, "
                                f"but initial_state gives {shapes}; the two must agree.")

    def _parted(self, returned: Any) -> tuple[Any, Any]:
        """Output and state. Raises NetworkFailed."""
        kind = self.output.__name__
        form = f"({kind}({', '.join(self.output._fields)}), state)"
        if self._is_output(returned):
            raise NetworkFailed(f"the network returns its output alone. It must return {form}, where the state of a "
                                "network without memory is ().")
        if not (isinstance(returned, tuple) and len(returned) == 2):
            raise NetworkFailed(f"the network must return {form}, not {said_of(returned)}.")
        if not self._is_output(returned[0]):
            ours = "workbench.algorithms." if self.output.__module__.startswith("workbench.") else ""
            raise NetworkFailed(f"this run's algorithm needs a network that returns {form} with a {ours}{kind} first, "
                                f"not {said_of(returned[0])}.")
        return returned

    def _is_output(self, value: Any) -> bool:
        return isinstance(value, tuple) and all(hasattr(value, field) for field in self.output._fields)


class _AtEachCall:
    """A hook that checks what a network returns. Where it is right, that takes a few comparisons alone."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._fields = [(field, shape[2:]) for field, shape in form.shapes(1, 1)]

    def __call__(self, network: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], returned: Any) -> None:
        start = inputs[3] if len(inputs) > 3 else named.get("start")
        if len(inputs) + len(named) != _ARGUMENTS or not isinstance(start, Tensor) or start.ndim != 2:
            return  # a loss of a user's own may call it in ways of its own
        steps, rows = start.shape
        if not self._fits(returned, steps, rows):
            self._form.check(returned, steps, rows)
        if torch.is_grad_enabled() and not _has_gradient(returned[0]) and _has_gradient(network.parameters()):
            raise NetworkFailed("the network's output has no gradient where it is trained: it is detached, computed in "
                                "torch.no_grad(), or does not come from the weights.")

    def _fits(self, returned: Any, steps: int, rows: int) -> bool:
        if not (isinstance(returned, tuple) and len(returned) == 2):
            return False
        output, after = returned
        if not (isinstance(after, tuple) and len(after) == len(self._form.state)):
            return False
        for field, rest in self._fields:
            if getattr(getattr(output, field, None), "shape", None) != (steps, rows, *rest):
                return False
        for part, rest in zip(after, self._form.state, strict=True):  # loops, which take half as long as all(...)
            if getattr(part, "shape", None) != (rows, *rest):
                return False
        return True


def _has_gradient(values: Iterable[Any]) -> bool:
    return any(getattr(value, "requires_grad", False) for value in values)


def check_each_call(network: nn.Module, form: Form) -> None:
    """From now on each call of `network`, and of copies of it, raises NetworkFailed unless what it returns is of this
    form; but for one that torch.jit.script made, which takes no such hook."""
    own = inner(network)
    own = getattr(own, "_orig_mod", own)  # a copy of what torch.compile made has only the hooks inside
    if not isinstance(own, torch.jit.ScriptModule):
        own.register_forward_hook(_AtEachCall(form), with_kwargs=True)


def check_state(state: Any, batch: int, source: str) -> None:
    """Raises NetworkFailed unless it is a tuple of tensors whose first axis is the batch."""
    if not isinstance(state, tuple) or not all(isinstance(part, Tensor) for part in state):
        raise NetworkFailed(f"{source} must give a tuple of tensors (() without memory), not {said_of(state)}.")
    for index, part in enumerate(state):
        if part.ndim == 0 or len(part) != batch:
            raise NetworkFailed(f"part {index} of the state from {source} has shape {tuple(part.shape)}, but its first "
                                f"axis must be the batch, {batch}.")


def misshapen(field: str, value: Any, shape: tuple[int, ...]) -> NetworkFailed:
    """The error for a field of an output that must be of that shape."""
    squeezed = isinstance(value, Tensor) and value.ndim < len(shape) and 1 in shape
    remedy = " An axis of 1 stays: name the one that squeeze(...) is to remove." if squeezed else ""
    return NetworkFailed(f"{field} is {said_of(value)}, but it must be a float32 tensor of shape {shape}, "
                         f"({', '.join(AXES[field])}).{remedy}")


def said_of(value: Any) -> str:
    """The kind of a value in words."""
    if isinstance(value, Tensor):
        return f"a {str(value.dtype).removeprefix('torch.')} tensor of shape {tuple(value.shape)}"
    if isinstance(value, tuple):
        return f"a {type(value).__name__} ({', '.join(map(said_of, value))})"
    return f"a {type(value).__name__}"
