"""A batch of unrolls as time-major tensors. Fields and time indices are those of `workbench.trajectory`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from workbench.errors import ShapeMismatch
from workbench.trajectory import Array, Unroll, Unrolled, shaped, unroll_axis


class Sample(NamedTuple):
    """Where in a replay the B unrolls of a batch lie.

    Attributes:
        rows: int64 [B].
        serials: int64 [B], which unrolls these rows held.
        log_largest: logarithm of the largest importance weight of the batch before all were divided by it.
    """

    rows: Array
    serials: Array
    log_largest: float = 0.0


@dataclass(kw_only=True)
class Batch(Unrolled[Tensor]):
    """B unrolls of T+1 steps: what each step has is [T+1, B, ...], what each unroll has [B, ...].

    Attributes:
        weight: float32 [B], by which the unrolls' losses count; ones where each is trained on once.
        sample: where a batch from replay comes from.
    """

    weight: Tensor = field(metadata=shaped(lambda spec: ((), "float32")))
    sample: Sample | None = None


def collate(unrolls: Sequence[Unroll], *, pin_memory: bool = False) -> Batch:
    """The unrolls side by side, on the CPU; in pinned memory if asked, for a copy that does not block.

    Raises ShapeMismatch where lengths or shapes differ between the unrolls.
    """

    def join(arrays: list[Array], axis: int) -> Tensor:
        tensor = torch.from_numpy(np.stack(arrays, axis))
        return tensor.pin_memory() if pin_memory else tensor

    if not unrolls:
        raise ShapeMismatch("a batch needs at least one unroll, but got none.")
    try:
        tensors = {name: join(arrays, unroll_axis(name)) for name, arrays in Unroll.columns(unrolls).items()}
        return Batch.of({**tensors, "weight": torch.ones(len(unrolls))})
    except ValueError as error:
        shapes = sorted({tuple(unroll.observation.shape) for unroll in unrolls})
        raise ShapeMismatch(f"unrolls of one batch differ in shape ({error}); observations: {shapes}.") from error
