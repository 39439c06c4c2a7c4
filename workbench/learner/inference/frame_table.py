"""The frames of unrolls on an accelerator, so that those that acting brought there need not come again for training."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from workbench.learner.devices.device import Device
from workbench.replay.unroll_fields import UnrollLayout
from workbench.trajectory import Array


class FrameTable:
    """Room for the frames of each slot of a `replay.assembler.UnrollAssembler`, which says what lies where.

    One more slot, before the others, takes the frames that belong to no unroll.
    """

    def __init__(self, layout: UnrollLayout, *, device: Device, slots: int) -> None:
        self.length = layout.length
        dtype: torch.dtype = getattr(torch, layout.spec.observation_dtype)
        self._handed_on: list[Array] = []
        self._frames = device.place(torch.zeros(((1 + slots) * self.length, *layout.spec.observation_shape),
                                                dtype=dtype))

    def places(self, slots: Array, index: Array) -> Array:
        """int64, of both shapes broadcast: where the frame of step `index` of a slot belongs; below 0: in no unroll."""
        places: Array = np.where(index < 0, 0, (1 + slots) * self.length + index)
        return places

    def write(self, places: Tensor, frames: Tensor) -> None:
        """Put `frames` [P, *frame], which are on the device, to their `places`, int64 [P]."""
        self._frames.index_copy_(0, places, frames)

    def hand_on(self, full: Array, following: Array, shared: int) -> None:
        """Have each slot of `following` begin with the last `shared` frames of the slot of `full` beside it, before the
        next frames are written: see `handed_on`."""
        assert not self._handed_on, "frames must be written between two batches that complete unrolls"
        steps = np.arange(shared)
        self._handed_on = [self.places(full[:, None], self.length - shared + steps).ravel(),
                           self.places(following[:, None], steps).ravel()]

    def handed_on(self) -> list[Array]:
        """Which places' frames `copy` is to take to which before the next `write`, int64 [M] each; []: none."""
        handed, self._handed_on = self._handed_on, []
        return handed

    def copy(self, source: Tensor, target: Tensor) -> None:
        """Put the frames of some places to others; all of padding are of the slot that takes anything."""
        self.write(target, self._frames.index_select(0, source))

    def unroll(self, slot: int) -> Tensor:
        """The frames of a slot [length, *frame], a view of the table, on the device."""
        first = (1 + slot) * self.length
        return self._frames[first : first + self.length]

    def grow(self, more: int) -> None:
        """Add slots. Views of the table before remain what they are."""
        frames = self._frames
        self._frames = torch.cat([frames, frames.new_zeros(more * self.length, *frames.shape[1:])])
