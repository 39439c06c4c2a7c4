"""Which heads of its network a loss trains."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from workbench.algorithms import inner
from workbench.networks.returned_shapes import AXES

Heads = dict[str, list[Tensor]]  # outputs that have a gradient, by field


@contextmanager
def heads_of(network: nn.Module) -> Iterator[Heads]:
    """The heads of all calls of `network` in the block, which keep their gradients."""
    heads: Heads = {}

    def keep(_: nn.Module, inputs: Any, returned: Any) -> None:
        for field in AXES:
            if (value := getattr(returned[0], field, None)) is not None and value.requires_grad:
                value.retain_grad()
                heads.setdefault(field, []).append(value)

    handle = inner(network).register_forward_hook(keep)
    try:
        yield heads
    finally:
        handle.remove()


def notes_on(heads: Heads) -> Iterator[str]:
    """A note on each head that has no gradient after a backward pass."""
    for field, values in heads.items():
        if not any(value.grad is not None and bool(value.grad.any()) for value in values):
            yield f"loss(...) gives {field} no gradient for a batch of noise: nothing trains that head of the network."
