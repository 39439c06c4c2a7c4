"""Which Gymnasium spaces are supported, and how one observation becomes a row of a batch.

    Gymnasium's observation space     on the wire
    Box (H, W, C) or (C, H, W) uint8  uint8 (C, H, W); the channel axis is the shorter one of the first and the last
    Box (H, W) uint8                  uint8 (1, H, W)
    Box (F,), any number type         float32 (F,)

Actions are Discrete(n, start=s): action number a here is a + s there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.environments.contract import Array
from workbench.errors import ShapeMismatch

_SUPPORTED = (
    "Supported are Box spaces of uint8 images (H, W), (H, W, C) or (C, H, W), and Box spaces of one axis of any "
    "number type. Wrap the environment, for instance in gymnasium.wrappers.FlattenObservation."
)


@dataclass(frozen=True)
class Layout:
    """How observations of one space are laid out.

    Attributes:
        given_shape, given_dtype: what the environment must return.
        shape, dtype: of one row on the wire.
        channels_last: the last axis moves to the front.
    """

    given_shape: tuple[int, ...]
    given_dtype: Any
    shape: tuple[int, ...]
    dtype: str
    channels_last: bool = False

    def place(self, observation: Any, row: Array) -> None:
        """Writes `observation` into `row` of the batch. Raises ValueError naming the rule that it breaks."""
        observation = np.asarray(observation)
        if observation.shape != self.given_shape:
            raise ValueError(
                f"observation of shape {observation.shape}; the observation space has shape {self.given_shape}"
            )
        if observation.dtype != self.given_dtype and not np.can_cast(observation.dtype, self.given_dtype, "same_kind"):
            raise ValueError(
                f"observation of dtype {observation.dtype}; the observation space has dtype {self.given_dtype}"
            )
        if self.channels_last:
            row[...] = observation.transpose(2, 0, 1)
        else:
            row[...] = observation if observation.shape == self.shape else observation[None]


def layout_of(space: Any, name: str) -> Layout:
    """The layout of observation space `space`. Raises ShapeMismatch naming the space and what is supported."""
    from gymnasium.spaces import Box

    if not isinstance(space, Box) or 0 in space.shape:
        raise ShapeMismatch(f"{name} has the observation space {space}, which is not supported. {_SUPPORTED}")
    shape, dtype = tuple(int(size) for size in space.shape), np.dtype(space.dtype)
    if len(shape) == 1 and dtype.kind in "fiub":
        return Layout(shape, dtype, shape, "float32")
    if len(shape) == 2 and dtype == np.uint8:
        return Layout(shape, dtype, (1, *shape), "uint8")
    if len(shape) == 3 and dtype == np.uint8:
        last = shape[2] <= shape[0]
        return Layout(shape, dtype, (shape[2], shape[0], shape[1]) if last else shape, "uint8", channels_last=last)
    raise ShapeMismatch(f"{name} has the observation space {space}, which is not supported. {_SUPPORTED}")


def action_range(space: Any, name: str) -> tuple[int, int]:
    """(number of actions, number of the first) of `space`. Raises ShapeMismatch unless it is Discrete."""
    from gymnasium.spaces import Discrete

    if not isinstance(space, Discrete):
        raise ShapeMismatch(f"{name} has the action space {space}, which is not supported. Supported is Discrete.")
    return int(space.n), int(space.start)
