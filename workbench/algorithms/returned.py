"""The rules of what an algorithm's methods return, each with a sentence: before a run, and in it where a user wrote it.

Only shapes and types are looked at, so that nothing waits for the device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from workbench.algorithms.batch import Batch
from workbench.algorithms.interface import DISCOUNTED_RETURN, Algorithm, Loss
from workbench.errors import AlgorithmFailed, WorkbenchError


def rule(holds: bool, sentence: str) -> None:
    """Raises AlgorithmFailed with the sentence of a rule that does not hold."""
    if not holds:
        raise AlgorithmFailed(sentence)


@contextmanager
def naming(what: str) -> Iterator[None]:
    """Raises AlgorithmFailed, with the traceback, for what the algorithm's code raises in the block."""
    try:
        yield
    except WorkbenchError:
        raise
    except (Exception, SystemExit) as error:
        raise AlgorithmFailed.of(what, error) from error


def is_tensor(value: Any, shape: tuple[int, ...]) -> bool:
    """Whether it is a tensor of that shape."""
    return isinstance(value, Tensor) and tuple(value.shape) == shape


def _is_detached(value: Any, shape: tuple[int, ...] | None = None) -> bool:
    """Whether it is a tensor without gradient, of that shape if one is given."""
    return isinstance(value, Tensor) and not value.requires_grad and shape in (None, tuple(value.shape))


def said_of(value: Any) -> str:
    """The value in a sentence, shortly."""
    if isinstance(value, Tensor):
        return _tensor(str(value.dtype).removeprefix("torch."), tuple(value.shape))
    return f"{value!r:.80}" if isinstance(value, int | float | str | None) else f"a {type(value).__name__}"


def _tensor(dtype: str, shape: tuple[int, ...]) -> str:
    return f"{'an' if dtype.startswith('i') else 'a'} {dtype} tensor of shape {shape}"


def _scalar_remedy(value: Any) -> str:
    if not isinstance(value, Tensor):
        return ". Leave it a tensor, value.detach(), or make it one: torch.tensor(value)"
    return " with a gradient: .detach()" if value.requires_grad else ". Take a mean or a sum"


def check_act(returned: Any, *, algorithm: Algorithm, rows: int) -> None:
    """Raises AlgorithmFailed for what `act` may not return for `rows` environments."""
    rule(isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], Mapping),
         f"act(...) returns (actions, behaviour fields), not {said_of(returned)}.")
    (actions, fields), kind = returned, algorithm.spec.actions
    shape = (rows, *kind.shape)
    rule(is_tensor(actions, shape) and actions.dtype == getattr(torch, kind.dtype),
         f"act(...) gives actions as {_tensor(kind.dtype, shape)}, not {said_of(actions)}.")
    promised = algorithm.behaviour_fields()
    forms = {name: form for name, (form, _) in promised.items() if name != DISCOUNTED_RETURN}  # inference adds that
    rule(fields.keys() == forms.keys(),
         f"act(...) gives the fields {sorted(fields)}, but behaviour_fields() names {sorted(forms)}.")
    for name, form in forms.items():
        rule(is_tensor(fields[name], (rows, *form)), f"act(...) gives {name!r} as {said_of(fields[name])}, but "
                                                     f"behaviour_fields() promises shape {(rows, *form)}.")


def check_loss(loss: Any, *, algorithm: Algorithm, batch: Batch) -> None:
    """Raises AlgorithmFailed for what `loss` may not return for `batch`; a total in autocast's dtype passes."""
    rule(isinstance(loss, Loss), f"loss(...) returns a wb.Loss(total, scalars), not {said_of(loss)}.")
    remedy = ("Take a mean or a sum" if isinstance(loss.total, Tensor) else
              "It must be a tensor that has a gradient: leave .item() and float(...) out")
    rule(is_tensor(loss.total, ()) and loss.total.is_floating_point(),
         f"Loss.total is a float32 scalar to differentiate, not {said_of(loss.total)}. {remedy}.")
    rule(loss.total.requires_grad, "Loss.total has no gradient: it does not depend on the network's output, or was "
                                   "detached.")
    rule(isinstance(loss.scalars, Mapping) and isinstance(loss.samples, Mapping), "Loss.scalars and Loss.samples are "
         f"tensors by name, not {said_of(loss.scalars)} and {said_of(loss.samples)}.")
    for name, value in loss.scalars.items():
        rule(isinstance(name, str) and name == name.encode(errors="ignore").decode(),
             f"Loss.scalars[{name!r}] must have a text as its name that UTF-8 can write, such as 'value_loss'.")
        rule(_is_detached(value, ()),
             f"Loss.scalars[{name!r}] must be a detached scalar tensor, not {said_of(value)}{_scalar_remedy(value)}.")
    unrolls = (batch.reward.shape[1],)
    rule(loss.priorities is None or _is_detached(loss.priorities, unrolls),
         f"Loss.priorities are detached, one for each unroll, {unrolls}, not {said_of(loss.priorities)}.")
    rule(loss.enough is None or _is_detached(loss.enough, ()),
         f"Loss.enough is a detached scalar tensor, not {said_of(loss.enough)}.")
    shapes = [tuple(state.shape) for state in batch.initial_state]
    states = [] if loss.next_states is None else list(loss.next_states)
    rule(loss.next_states is None or (len(states) == len(shapes) and all(map(_is_detached, states, shapes))),
         f"Loss.next_states are detached, in the shapes of batch.initial_state: {shapes}.")
    rule(loss.value_targets is None or _is_detached(loss.value_targets),
         f"Loss.value_targets is a detached tensor [T, B], not {said_of(loss.value_targets)}.")
    for name in loss.samples:
        rule(name in algorithm.histogram_edges, f"Loss.samples[{name!r}] needs edges: histogram_edges[{name!r}].")
