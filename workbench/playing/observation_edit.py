"""Observations that are edited before a policy sees them: numbers of a vector, or a rectangle of a picture.

A change is JSON data: {"numbers": {"2": 0.1}} by position, or {"box": [left, top, width, height], "shade": 128}, where
a box of None is the whole picture. What can be edited is what the player draws (`observations.drawable`): the first
image of an observation, or all numbers of one without images.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.config import Setting
from workbench.environment_spec import Part
from workbench.environments import observations
from workbench.environments.sketches import entry_names
from workbench.errors import InvalidInput, OutOfBounds, UnknownName, WrongType
from workbench.trajectory import Array

GREY = 128
_PICTURE = ("occlude", "shade")
_LARGEST = float(np.finfo(np.float32).max)
_MOST_NAMED = 4

Change = dict[str, Any]


def change_of(observation: Any, row: Array, *, parts: Sequence[Part], environment: str = "") -> Change:
    """The change that `observation` asks for, to observations like `row`.

    Args:
        observation: of a vector, numbers by name or position ({"x[2]": 0.1}, {2: 0.1}), or a list of all; of a picture,
            {"occlude": (left, top, width, height)}, {"shade": 0}, or both; planes of switches have the shades 0, which
            they get if none is given, and 255.
        environment: its id; numbers that a sketch of it names can be given by these names as well.

    Raises InvalidInput, OutOfBounds, WrongType, UnknownName.
    """
    values, plain = observations.drawable(row[None], parts=parts)
    if not plain:
        bits = any(part.dtype == "bits" and len(part.shape) == 3 for part in parts)
        return _of_picture(observation, values[0].shape, bits=bits)
    names = entry_names(environment, plain)
    if isinstance(observation, Sequence | np.ndarray) and not isinstance(observation, str):
        if len(observation) != len(names):
            raise InvalidInput(f"observation={observation!r:.100} has {len(observation)} numbers, and an observation "
                               f"has {len(names)}. Give all, or some by name: {{{names[0]!r}: 0.5}}.")
        observation = dict(enumerate(observation))
    if not isinstance(observation, Mapping) or not observation:
        raise WrongType(f"observation={observation!r:.100} must be numbers by name, such as {{{names[0]!r}: 0.5}}.")
    places = {name: place for each in (plain, names) for place, name in enumerate(each)}
    numbers: dict[str, float] = {}
    for name, value in observation.items():
        place = places.get(name, name) if isinstance(name, str) else name
        if not isinstance(place, int | np.integer) or not 0 <= place < len(names):
            raise UnknownName.among("number of the observation", name, names)
        if str(int(place)) in numbers:
            raise InvalidInput(f"observation={observation!r:.100} gives {names[int(place)]!r} twice.")
        setting = Setting(f"observation[{name!r}]", float, 0.0, "", low=-_LARGEST, high=_LARGEST)
        numbers[str(int(place))] = setting.check(value)
    change = {"numbers": numbers}
    edited(row, change, parts=parts)  # raises for a number that its dtype does not hold
    return change


def _of_picture(observation: Any, shape: Sequence[int], *, bits: bool) -> Change:
    if not isinstance(observation, Mapping) or not observation:
        raise WrongType(f"observation={observation!r:.100} must be a dict: this policy sees a picture, so give "
                        "{'occlude': (left, top, width, height)}, {'shade': 128}, or both.")
    for name in observation:
        if name not in _PICTURE:
            raise UnknownName.among("change of a picture", name, _PICTURE)
    shade = Setting("shade", int, GREY, "", low=0, high=255).check(observation.get("shade", 0 if bits else GREY))
    if bits and shade not in (0, 255):
        raise OutOfBounds(f"shade={shade}: these planes are of switches, which are off (0) or on (255).")
    return {"box": _box(observation.get("occlude"), shape), "shade": shade}


def _box(occlude: Any, shape: Sequence[int]) -> list[int] | None:
    """Left, top, width and height, inside a picture of `shape` [channels, height, width]."""
    if occlude is None:
        return None
    height, width = shape[-2:]
    names = ("left", "top", "width", "height")
    if not isinstance(occlude, Sequence | np.ndarray) or isinstance(occlude, str) or len(occlude) != len(names):
        raise WrongType(f"occlude={occlude!r:.100} must be four whole numbers: left, top, width, height.")
    low, high = (0, 0, 1, 1), (width - 1, height - 1, width, height)
    left, top, across, down = (
        Setting(f"occlude {name}", int, 0, "", unit="pixels", low=least, high=most).check(value)
        for name, value, least, most in zip(names, occlude, low, high, strict=True))
    return [left, top, min(across, width - left), min(down, height - top)]


def edited(row: Array, change: Change, *, parts: Sequence[Part] = ()) -> Array:
    """A copy of the observation `row` with `change`. Raises InvalidInput for a number that its dtype does not hold."""
    members = {name: np.array(values[0]) for name, values in observations.by_name(row[None], parts).items()}
    if "numbers" in change:
        _set_numbers(observations.shown(members), {int(place): value for place, value in change["numbers"].items()})
    else:
        picture = next(values for values in members.values() if values.ndim == 3 and values.dtype == np.uint8)
        left, top, width, height = change["box"] or (0, 0, picture.shape[2], picture.shape[1])
        picture[:, top : top + height, left : left + width] = change["shade"]
    return observations.encode(members, parts) if parts else members[""]


def _set_numbers(members: Mapping[str, Array], numbers: Mapping[int, float]) -> None:
    begin = 0
    for values in members.values():
        flat = values.reshape(-1)
        for place, value in numbers.items():
            if begin <= place < begin + flat.size:
                if flat.dtype == np.uint8 and not (0 <= value <= 255 and float(value).is_integer()):
                    raise InvalidInput(f"number {place} of the observation is a byte, and {value:g} is none: give a "
                                       "whole number from 0 to 255.")
                flat[place - begin] = value
        begin += flat.size


def in_words(change: Change, names: Sequence[str]) -> str:
    """The change in a few words; `names`: of the numbers, () of a picture."""
    if "numbers" in change:
        words = [f"{names[int(place)]} = {value:.4g}" for place, value in change["numbers"].items()]
        return ", ".join(words[:_MOST_NAMED]) + (f" and {len(words) - _MOST_NAMED} more" * (len(words) > _MOST_NAMED))
    if change["box"] is None:
        return f"the whole picture in shade {change['shade']}"
    left, top, width, height = change["box"]
    return f"{width}x{height} pixels at ({left}, {top}) in shade {change['shade']}"
