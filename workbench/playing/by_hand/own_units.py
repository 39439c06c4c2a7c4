"""Actions as an environment itself counts and measures them, as a policy would choose them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.environment_spec import ActionSpec, NativeSpace
from workbench.errors import InvalidInput, OutOfBounds, ShapeMismatch

_ROUNDED = 1e-6  # of the distance between two bounds, by which a number may lie beyond them


def from_own_units(actions: ActionSpec, action: Any) -> Any:
    """The action for `Game.step`: numbers in [-1, 1], choices from 0. A mixed one is a dict by part, or a sequence.

    Raises InvalidInput where bounds are not known or parts are wrong, ShapeMismatch, OutOfBounds.
    """
    if actions.parts:
        names = [part.name for part in actions.parts]
        if isinstance(action, Sequence) and len(action) == len(names):
            action = dict(zip(names, action, strict=True))
        if not isinstance(action, Mapping) or set(action) != set(names):
            raise InvalidInput(f"action={action!r:.100} must have the parts {', '.join(names)}, and no other.")
        return {part.name: from_own_units(part.actions, action[part.name]) for part in actions.parts}
    space = actions.native or NativeSpace(actions.shape)
    values = np.asarray(action)
    if values.shape != space.shape:
        raise ShapeMismatch(f"action={action!r:.100} has the shape {list(values.shape)}, and the environment's own "
                            f"actions have {list(space.shape)}.")
    if actions.kind == "tanh_normal":
        return _shares(values.reshape(-1), space)
    shifted = values.reshape(actions.shape) - np.reshape(space.start or 0, actions.shape if space.start else ())
    return shifted.tolist()


def _shares(values: Any, space: NativeSpace) -> Any:
    """Numbers as shares of their bounds, in [-1, 1]."""
    if not space.low:
        raise InvalidInput("the bounds of this environment's actions are not known: the checkpoint was written before "
                           "they were kept. Give numbers within [-1, 1], and leave own_units out.")
    low, high = np.array(space.low), np.array(space.high)
    width = np.where(high > low, high - low, 1.0)
    shares = 2 * (values - low) / width - 1
    beyond = ~(np.abs(shares) <= 1 + _ROUNDED) & (high > low)  # also NaN
    if beyond.any():
        at = int(np.flatnonzero(beyond)[0])
        raise OutOfBounds(f"action {values[at]:g} is not in the environment's own bounds [{low[at]:g}, {high[at]:g}].")
    return np.where(high > low, shares.clip(-1, 1), 0.0).tolist()
