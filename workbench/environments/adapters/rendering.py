"""What a Gymnasium environment says of how it looks: whether it draws itself, and what its actions are called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

_FPS = 15.0  # steps per second of what says nothing of its own; Atari's rate at 4 frames a step

# Gymnasium's own say so in their documentation alone. By the class of the bare environment.
_ACTIONS = {
    "AcrobotEnv": ("torque -1", "none", "torque +1"),
    "CartPoleEnv": ("left", "right"),
    "LunarLander": ("none", "left engine", "main engine", "right engine"),
    "MountainCarEnv": ("left", "none", "right"),
}


def drawing(make: Callable[..., Any]) -> dict[str, Any]:
    """The keyword arguments with which `make`, a class or a function, gives an environment that draws itself.

    It is asked for where a class lists "rgb_array" in its metadata and takes `render_mode`, and of a function or a
    wrapper that takes `render_mode` by name; {} elsewhere.
    """
    parameters = inspect.signature(make).parameters
    metadata = getattr(make, "metadata", None)
    if isinstance(metadata, Mapping):
        takes_any = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
        draws = "rgb_array" in metadata.get("render_modes", ()) and (takes_any or "render_mode" in parameters)
    else:
        draws = "render_mode" in parameters
    return {"render_mode": "rgb_array"} if draws else {}


def frames_per_second(env: Any) -> float:
    """The rate at which people watch an environment: its metadata's `render_fps`, or 15."""
    metadata = getattr(env, "metadata", None)
    own = metadata.get("render_fps") if isinstance(metadata, Mapping) else None
    return float(own) if isinstance(own, (int, float)) and own > 0 else _FPS


def named_actions(env: Any, number: int) -> tuple[str, ...]:
    """Names of an environment's actions: its own (`action_names`, `get_action_meanings()`), known ones, or numbers.

    Whatever else the environment means by these attributes does no harm.
    """
    try:
        names = tuple(map(str, _told_actions(getattr(env, "unwrapped", env))))
    except Exception:
        names = ()
    return names if len(names) == number else tuple(map(str, range(number)))


def _told_actions(bare: Any) -> Any:
    for own in ("action_names", "get_action_meanings"):
        told = getattr(bare, own, None)
        if told is not None:
            return told() if callable(told) else told
    return _ACTIONS.get(type(bare).__name__, ())
