"""Supported Gymnasium spaces of actions, and actions as an environment takes them.

    action space                     here (`ActionSpec`)                as the environment gets it
    Discrete(n, start=s)             categorical: a in [0, n)           a + s
    MultiDiscrete(sizes, start=s)    multi_discrete: a_k in [0, n_k)    a + s, in the space's shape
    MultiBinary(shape)               bernoulli: 0 or 1 each             the same, in the space's shape
    Box of float32 or float64        tanh_normal: numbers in [-1, 1]    stretched to low..high, in its dtype and shape
    Dict, Tuple of these, nested     mixed: a part for each, in         a dict or tuple as the space has it, each part
                                     Gymnasium's order, named as above  as above; of a single part only that is new
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from workbench.environment_spec import ActionSpec, NativeSpace
from workbench.environments.contract import Array
from workbench.errors import ShapeMismatch

# From checked actions [N, *action] to the environment's: [N, *space.shape], or dicts and tuples of such arrays.
ToNative = Callable[[Array], Any]

_SUPPORTED_ACTIONS = (
    "Supported are Discrete, MultiDiscrete, MultiBinary, Box spaces of float32 or float64 with finite bounds, and Dict "
    "and Tuple of them."
)


def actions_of(space: Any, name: str) -> tuple[ActionSpec, ToNative]:
    """The ActionSpec of `space`, and the function from checked actions to actions in `space`.

    Raises ShapeMismatch naming the space and the supported ones, or the remedy for a Box without bounds.
    """
    from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

    if isinstance(space, (Dict, Tuple)):
        return _actions_of_parts(space, name)
    if isinstance(space, Discrete):
        return _shifted(ActionSpec("categorical", (int(space.n),)), np.int64(space.start), space)
    if isinstance(space, MultiDiscrete) and space.nvec.size:
        sizes = tuple(int(size) for size in space.nvec.reshape(-1))
        start = np.asarray(space.start, np.int64).reshape(-1)
        return _shifted(ActionSpec("multi_discrete", sizes), start, space)
    if isinstance(space, MultiBinary) and 0 not in space.shape:
        return _shifted(ActionSpec("bernoulli", (2,) * int(np.prod(space.shape))), np.int64(0), space)
    if isinstance(space, Box) and np.dtype(space.dtype).kind == "f" and 0 not in space.shape:
        if not np.isfinite(space.low).all() or not np.isfinite(space.high).all():
            raise ShapeMismatch(
                f"{name} has the action space {space}, whose bounds are not all finite. Give it finite ones: "
                "gymnasium.wrappers.TransformAction(env, lambda action: action, gymnasium.spaces.Box(low, high)); or "
                "leave out the ClipAction that made them infinite.")
        low, high = (np.asarray(bound, np.float64).reshape(-1) for bound in (space.low, space.high))
        native = NativeSpace(tuple(space.shape), low=tuple(low.tolist()), high=tuple(high.tolist()))
        return ActionSpec("tanh_normal", (0,) * len(low), native=native), _Stretched(space, low=low, high=high)
    raise ShapeMismatch(f"{name} has the action space {space}, which is not supported. {_SUPPORTED_ACTIONS}")


def _shifted(actions: ActionSpec, start: Any, space: Any) -> tuple[ActionSpec, ToNative]:
    """As `actions_of`, for choices that `space` counts from `start`, [K] or []."""
    shape = tuple(space.shape)
    first = np.broadcast_to(start, len(actions.sizes)).tolist()
    return replace(actions, native=NativeSpace(shape, start=tuple(first))), _Shifted(start, space.dtype, shape)


def _actions_of_parts(space: Any, name: str) -> tuple[ActionSpec, ToNative]:
    """As `actions_of`, for a Dict or Tuple."""
    parts: dict[str, ActionSpec] = {}
    converters: list[ToNative] = []
    for path, leaf in _leaf_spaces(space, ()):
        title = "/".join(map(str, path))
        if title in parts:
            raise ShapeMismatch(f"{name} has the action space {space}, in which two parts are named {title!r}. Rename "
                                "one.")
        parts[title], convert = actions_of(leaf, f"{name}, in the part {title!r} of its actions,")
        converters.append(convert)
    if not parts:
        raise ShapeMismatch(f"{name} has the action space {space}, which has no parts. {_SUPPORTED_ACTIONS}")
    actions = next(iter(parts.values())) if len(parts) == 1 else ActionSpec.mixed(parts)
    return actions, _Structured(space, list(parts.values()), converters)


def _leaf_spaces(space: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Path and space of each part of a Dict or Tuple, in Gymnasium's order."""
    inner = getattr(space, "spaces", None)
    if inner is None:
        yield path, space
        return
    for key, own in inner.items() if isinstance(inner, Mapping) else enumerate(inner):
        yield from _leaf_spaces(own, (*path, key))


def each_of(native: Any, number: int) -> Any:
    """The action of each of `number` environments, from what a `ToNative` returns."""
    if isinstance(native, np.ndarray):
        return native
    if isinstance(native, dict):
        return [dict(zip(native, row, strict=True)) for row in _rows_of(native.values(), number)]
    return _rows_of(native, number)


def _rows_of(columns: Iterable[Any], number: int) -> list[tuple[Any, ...]]:
    every = [each_of(column, number) for column in columns]
    return list(zip(*every, strict=True)) if every else [()] * number  # a Tuple without parts


class _Structured:
    """The columns of a mixed action in the structure of a Dict or Tuple, [N, ...] each."""

    def __init__(self, space: Any, parts: Sequence[ActionSpec], converters: Sequence[ToNative]) -> None:
        self._space = space
        ends = np.cumsum([len(part.sizes) for part in parts]).tolist()
        self._leaves = [(slice(end - len(part.sizes), end) if part.shape else end - 1, part.dtype, convert)
                        for end, part, convert in zip(ends, parts, converters, strict=True)]

    def __call__(self, actions: Array) -> Any:
        columns = actions.reshape(len(actions), -1)
        leaves = (convert(columns[:, place].astype(dtype, copy=False)) for place, dtype, convert in self._leaves)
        return _structure(self._space, leaves)


def _structure(space: Any, leaves: Iterator[Any]) -> Any:
    """The next of `leaves`, in the structure of `space`."""
    inner = getattr(space, "spaces", None)
    if inner is None:
        return next(leaves)
    if isinstance(inner, Mapping):
        return {key: _structure(own, leaves) for key, own in inner.items()}
    return tuple(_structure(own, leaves) for own in inner)


class _Shifted:
    """Choices counted from 0 as a space counts them: from its start, in its dtype and shape."""

    def __init__(self, start: Any, dtype: Any, shape: tuple[int, ...]) -> None:
        self._start, self._dtype, self._shape = start, dtype, shape
        self._shifts = np.any(start)

    def __call__(self, actions: Array) -> Array:
        native = (actions + self._start if self._shifts else actions).astype(self._dtype)  # always a copy
        return native.reshape(len(native), *self._shape) if self._shape else native


class _Stretched:
    """Numbers in [-1, 1] stretched to the bounds of a Box."""

    def __init__(self, space: Any, *, low: Array, high: Array) -> None:
        self._middle, self._half = low / 2 + high / 2, high / 2 - low / 2  # low + high may overflow
        self._low, self._high, self._dtype, self._shape = space.low, space.high, space.dtype, tuple(space.shape)
        self._unchanged = self._dtype == np.float32 and (low == -1).all() and (high == 1).all()

    def __call__(self, actions: Array) -> Array:
        if self._unchanged:
            return actions.reshape(len(actions), *self._shape).copy()  # an environment may write into it
        native = (self._middle + self._half * actions).astype(self._dtype).reshape(len(actions), *self._shape)
        return native.clip(self._low, self._high)  # rounding may exceed a bound
