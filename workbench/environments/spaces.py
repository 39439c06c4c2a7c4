"""Which Gymnasium spaces are supported, and how one observation becomes a row of a batch.

    Gymnasium's observation space     on the wire
    Box (H, W, C) or (C, H, W) uint8  uint8 (C, H, W); the channel axis is the shorter one of the first and the last
    Box (H, W) uint8                  uint8 (1, H, W)
    Box (F,), any number type         float32 (F,)

    its action space                  an action here (`ActionSpec`)       as the environment gets it
    Discrete(n, start=s)              categorical: a in [0, n)            a + s
    MultiDiscrete(sizes, start=s)     multi_discrete: a_k in [0, n_k)     a + s, in the space's shape
    MultiBinary(shape)                bernoulli: 0 or 1 each              the same, in the space's shape
    Box of float32 or float64         tanh_normal: numbers in [-1, 1]     stretched to low..high, in its dtype and shape
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.environments.contract import Array
from workbench.errors import ShapeMismatch
from workbench.trajectory import ActionSpec

ToGiven = Callable[[Array], Array]  # checked actions [N, *action] as the environment's own, [N, *space.shape]

_SUPPORTED = (
    "Supported are Box spaces of uint8 images (H, W), (H, W, C) or (C, H, W), and Box spaces of one axis of any "
    "number type. Wrap the environment, for instance in gymnasium.wrappers.FlattenObservation."
)

_SUPPORTED_ACTIONS = (
    "Supported are Discrete, MultiDiscrete, MultiBinary and Box spaces of float32 or float64 with finite bounds."
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


def actions_of(space: Any, name: str) -> tuple[ActionSpec, ToGiven]:
    """What actions of `space` are here, and the function that turns N of them into N that the space contains.

    Raises ShapeMismatch naming the space and what is supported, or what to do about a Box without bounds.
    """
    from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete

    if isinstance(space, Discrete):
        return ActionSpec("categorical", (int(space.n),)), _Shifted(np.int64(space.start), space.dtype, ())
    if isinstance(space, MultiDiscrete) and space.nvec.size:
        sizes = tuple(int(size) for size in space.nvec.reshape(-1))
        start = np.asarray(space.start, np.int64).reshape(-1)
        return ActionSpec("multi_discrete", sizes), _Shifted(start, space.dtype, tuple(space.nvec.shape))
    if isinstance(space, MultiBinary) and 0 not in space.shape:
        return ActionSpec("bernoulli", (2,) * int(np.prod(space.shape))), _Shifted(0, space.dtype, tuple(space.shape))
    if isinstance(space, Box) and np.dtype(space.dtype).kind == "f" and 0 not in space.shape:
        if not np.isfinite(space.low).all() or not np.isfinite(space.high).all():
            raise ShapeMismatch(
                f"{name} has the action space {space}, whose bounds are not all finite. Wrap the environment: in "
                "gymnasium.wrappers.RescaleAction or ClipAction after giving the space bounds that the task needs.")
        return ActionSpec("tanh_normal", (0,) * int(np.prod(space.shape))), _Stretched(space)
    raise ShapeMismatch(f"{name} has the action space {space}, which is not supported. {_SUPPORTED_ACTIONS}")


class _Shifted:
    """Numbered choices from 0 as those of a space: of its own start, dtype and shape."""

    def __init__(self, start: Any, dtype: Any, shape: tuple[int, ...]) -> None:
        self._start, self._dtype, self._shape = start, dtype, shape

    def __call__(self, actions: Array) -> Array:
        given: Array = (actions + self._start).astype(self._dtype, copy=False)
        return given.reshape(len(given), *self._shape)


class _Stretched:
    """Numbers in [-1, 1] stretched to the bounds of a Box."""

    def __init__(self, space: Any) -> None:
        low, high = (np.asarray(bound, np.float64).reshape(-1) for bound in (space.low, space.high))
        self._middle, self._half = low / 2 + high / 2, high / 2 - low / 2  # low + high may overflow
        self._low, self._high, self._dtype, self._shape = space.low, space.high, space.dtype, tuple(space.shape)

    def __call__(self, actions: Array) -> Array:
        given = (self._middle + self._half * actions).astype(self._dtype).reshape(len(actions), *self._shape)
        return np.clip(given, self._low, self._high)  # where rounding went beyond a bound
