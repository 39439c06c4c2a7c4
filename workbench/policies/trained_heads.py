"""Which heads of its network a loss trains."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from workbench.algorithms import inner
from workbench.networks.returned_shapes import AXES

Heads = dict[str, list[Tensor]]  # outputs that have a gradient, by field


@contextmanager
def heads_of(network: nn.Module) -> Iterator[Heads]:
    """The heads of all calls of `network` in the block, which keep their gradients."""
    heads: Heads = {}

    def keep(_: nn.Module, inputs: Any, returned: Any) -> None:
        output = returned[0] if isinstance(returned, tuple) and returned else None
        for field in AXES:
            if isinstance(value := getattr(output, field, None), Tensor) and value.requires_grad:
                value.retain_grad()
                heads.setdefault(field, []).append(value)

    own = inner(network)
    takes_hooks = not isinstance(own, torch.jit.ScriptModule)
    with own.register_forward_hook(keep) if takes_hooks else nullcontext():
        yield heads


def notes_on(heads: Heads, *, popart: bool) -> Iterator[str]:
    """A note on each head that has no gradient after a backward pass; where `popart` normalises values, none on theirs:
    the first batch gives them none."""
    for field, values in heads.items():
        if not any(value.grad is not None and bool(value.grad.any()) for value in values) and not (
                popart and field == "value"):
            yield (f"loss(...) gives {field} no gradient for a batch of noise. Unless loss(...) reaches that head of "
                   "the network in another way, nothing trains it.")
