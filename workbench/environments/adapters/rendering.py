"""How a Gymnasium environment is shown: whether it draws itself, its frame rate and the names of its actions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

from workbench.environment_spec import ActionPart, ActionSpec

_FPS = 15.0  # steps per second without a `render_fps`; Atari's rate at 4 frames a step

# Of Gymnasium's own environments, from their documentation, by the class of the bare environment.
_ACTIONS = {
    "AcrobotEnv": ("torque -1", "none", "torque +1"),
    "CartPoleEnv": ("left", "right"),
    "LunarLander": ("none", "left engine", "main engine", "right engine"),
    "MountainCarEnv": ("left", "none", "right"),
}


def drawing(make: Callable[..., Any]) -> dict[str, Any]:
    """The keyword arguments with which `make`, a class or a function, makes an environment that draws itself.

    {} unless a class lists "rgb_array" in its metadata and takes `render_mode`, or a function or wrapper takes
    `render_mode` by name.
    """
    parameters = inspect.signature(make).parameters
    metadata = getattr(make, "metadata", None)
    if isinstance(metadata, Mapping):
        takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
        draws = "rgb_array" in metadata.get("render_modes", ()) and (takes_any or "render_mode" in parameters)
    else:
        draws = "render_mode" in parameters
    return {"render_mode": "rgb_array"} if draws else {}


def frames_per_second(env: Any) -> float:
    """Steps per second for people who watch: the `render_fps` of its metadata, or 15."""
    metadata = getattr(env, "metadata", None)
    own = metadata.get("render_fps") if isinstance(metadata, Mapping) else None
    return float(own) if isinstance(own, (int, float)) and own > 0 else _FPS


def named_actions(env: Any, actions: ActionSpec) -> tuple[str, ...]:
    """Names of an environment's actions: its own (`action_names`, `get_action_meanings()`), known ones, or numbers.

    Of a mixed action those of all parts in a row, or numbers from 0 in each part; its own may also be a dict by part.
    """
    try:
        own = _own_names(getattr(env, "unwrapped", env))
        by_part = actions.parts and isinstance(own, Mapping)
        names = tuple(map(str, own if not by_part else chain.from_iterable(
            _fitting(own.get(part.name, ()), part.actions) for part in actions.parts)))
    except Exception:  # the environment means something else by these attributes
        names = ()
    return _fitting(names, actions)


def _fitting(names: Sequence[Any], actions: ActionSpec) -> tuple[str, ...]:
    """`names` if there is one for each choice, switch or number; otherwise numbers."""
    if len(names) == actions.encoded_size:
        return tuple(map(str, names))
    return tuple(str(at) for part in actions.parts or (ActionPart("", actions),)
                 for at in range(part.actions.encoded_size))


def _own_names(bare: Any) -> Any:
    for attribute in ("action_names", "get_action_meanings"):
        names = getattr(bare, attribute, None)
        if names is not None:
            return names() if callable(names) else names
    return _ACTIONS.get(type(bare).__name__, ())
