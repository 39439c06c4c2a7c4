"""Actions as an environment itself counts and measures them, as a policy would choose them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from workbench.environment_spec import ActionSpec, NativeSpace
from workbench.errors import InvalidInput, OutOfBounds, ShapeMismatch
from workbench.trajectory import Array

_ROUNDED = 1e-6  # of the distance between two bounds, by which a number may lie beyond them


def from_own_units(actions: ActionSpec, action: Any) -> Any:
    """The action for `Game.step`: numbers in [-1, 1], choices from 0, a mixed one as a dict of its parts by name.

    Raises InvalidInput where bounds are not known or parts are wrong, ShapeMismatch, OutOfBounds.
    """
    if actions.parts:
        names = [part.name for part in actions.parts]
        given = _leaves(action, names)
        if set(given) != set(names):
            raise InvalidInput(f"action={action!r:.100} must have the parts {', '.join(names)}, and no other.")
        return {part.name: from_own_units(part.actions, given[part.name]) for part in actions.parts}
    space = actions.native or NativeSpace(actions.shape)
    try:
        values = np.asarray(action)
    except (ValueError, TypeError, RuntimeError) as error:  # the last of a tensor with a gradient
        raise InvalidInput(f"action={action!r:.100} is no action: {error}.") from None
    if values.shape != space.shape or values.dtype.kind not in "biuf":
        if isinstance(action, tuple | Mapping) and len(action) == 1:  # of a Tuple or Dict with one part
            return from_own_units(actions, next(iter(action.values() if isinstance(action, Mapping) else action)))
        raise ShapeMismatch(f"action={action!r:.100} is {values.dtype} {list(values.shape)}, and the environment's own "
                            f"actions are {'numbers' if actions.kind == 'tanh_normal' else 'whole numbers'} of shape "
                            f"{list(space.shape)}.")
    flat = values.reshape(-1)
    return _shares(flat, space) if actions.kind == "tanh_normal" else _choices(flat, actions, space)


def at_rest(actions: ActionSpec) -> list[float]:
    """The columns of the action while nobody presses a key: the first choices, switches off, and of numbers the
    environment's own 0, or the middle of bounds that it lies beyond."""
    if actions.parts:
        return [column for part in actions.parts for column in at_rest(part.actions)]
    space = actions.native
    if actions.kind != "tanh_normal" or space is None or not space.low:
        return [0.0 if actions.kind == "tanh_normal" else 0] * len(actions.sizes)
    low, high = np.array(space.low), np.array(space.high)
    inside = (low <= 0) & (high >= 0) & (high > low)
    return np.where(inside, -(low + high) / np.where(inside, high - low, 1.0), 0.0).tolist()  # type: ignore[no-any-return]


def _leaves(action: Any, names: Collection[str], path: str = "") -> dict[str, Any]:
    """The parts of a nested action by name, "outer/inner", as `ActionPart` has it."""
    if path in names or not isinstance(action, Mapping | tuple | list):
        return {path: action}
    items = action.items() if isinstance(action, Mapping) else enumerate(action)
    leaves: dict[str, Any] = {}
    for key, value in items:
        leaves |= _leaves(value, names, f"{path}/{key}" if path else str(key))
    return leaves


def _choices(values: Array, actions: ActionSpec, space: NativeSpace) -> Any:
    """Choices counted from 0."""
    first = np.array(space.start or [0] * len(actions.sizes))
    chosen, sizes = values - first, np.array(actions.sizes)
    if (beyond := ~((chosen >= 0) & (chosen < sizes) & (chosen == np.floor(chosen)))).any():
        at = int(np.flatnonzero(beyond)[0])
        raise OutOfBounds(f"action {values[at]} is not one of the environment's own choices, {first[at]} to "
                          f"{first[at] + sizes[at] - 1}.")
    return chosen.astype(np.int64).reshape(actions.shape).tolist()


def _shares(values: Array, space: NativeSpace) -> Any:
    """Numbers as shares of their bounds, in [-1, 1]."""
    if not space.low:
        raise InvalidInput("the bounds of this environment's actions are not known: the checkpoint was written before "
                           "they were kept. Give numbers within [-1, 1], and leave own_units out.")
    low, high = np.array(space.low), np.array(space.high)
    width = np.where(high > low, high - low, 1.0)
    slack = _ROUNDED * width
    if (beyond := ~((values >= low - slack) & (values <= high + slack))).any():  # also NaN
        at = int(np.flatnonzero(beyond)[0])
        raise OutOfBounds(f"action {values[at]:g} is not in the environment's own bounds [{low[at]:g}, {high[at]:g}].")
    shares: Array = np.where(high > low, 2 * (values - low) / width - 1, 0.0).clip(-1, 1)
    return shares.tolist()
