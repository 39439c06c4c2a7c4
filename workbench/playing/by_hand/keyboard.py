"""Maps keys to actions: by the names of the actions, or by a caller's table.

A key has a meaning ("up", "fire"), and an action is a set of meanings that are held together: on Atari the arrows up
and right with space are UPRIGHTFIRE. Keys have the names of a page's `event.key`, in lower case if they are one
character: "ArrowLeft", "a", "1"; the space bar is "Space".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import numpy as np

from workbench.environments.contract import checked_actions
from workbench.errors import InvalidInput, ShapeMismatch
from workbench.playing import action_words
from workbench.trajectory import EnvironmentSpec

Action = Any  # a number, or a list of one for each part

RESERVED = {"Tab": "hand over, take back", "Enter": "the agent's choice, once", "Escape": "pause, go on",
            "Backspace": "begin anew"}
_NAMED = ("Space", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Home", "End", "PageUp", "PageDown", "Delete")

_KEYS = {  # of each meaning, the preferred key first
    "up": ("ArrowUp", "w"), "down": ("ArrowDown", "s"), "left": ("ArrowLeft", "a"), "right": ("ArrowRight", "d"),
    "strafe left": ("a", "ArrowLeft"), "strafe right": ("d", "ArrowRight"), "fire": ("Space",),
    "toggle": ("Space",), "pickup": ("e",), "drop": ("q",), "done": ("x",),
    # As in gfootball's README, except for sliding and the release actions.
    "long pass": ("w",), "high pass": ("a",), "short pass": ("s",), "shot": ("d",), "sprint": ("e",), "dribble": ("c",),
    "sliding": ("q",), "release direction": ("r",), "release sprint": ("f",), "release dribble": ("v",),
}
_SAME = {
    "top": "up", "forward": "up", "main engine": "up", "bottom": "down", "backward": "down", "turn left": "left",
    "look left": "left", "left engine": "left", "torque -1": "left", "turn right": "right", "look right": "right",
    "right engine": "right", "torque +1": "right", "move left": "strafe left", "move right": "strafe right",
    "attack": "fire", "shoot": "fire", "jump": "fire", "pick up": "pickup",
}
_NOTHING = ("noop", "no op", "none", "nothing", "idle")
_TOGETHER = re.compile(r"(?:(?:up|down|left|right|fire|top|bottom) ?)+")
_PAIRS = (("ArrowLeft", "ArrowRight"), ("ArrowDown", "ArrowUp"), ("a", "d"), ("s", "w"))  # to lower and raise a number
_ROWS = ("1234567890", "qwertyuiop", "asdfghjkl", "zxcvbnm")  # a row of keys for each part of an action
_SPARE = "0123456789" + "".join(_ROWS[1:])


@dataclass(frozen=True)
class KeyMap:
    """The actions of keys.

    Attributes:
        meanings: the meaning of each key.
        actions: by the meanings that are held together.
        parts: for actions with several parts, the part and value that a meaning sets.
        rest: the action while no key is held; None: the last action.
        idle: whether some action does nothing, so that time may pass without a key.
        titles: the environment's own names of meanings.
    """

    meanings: Mapping[str, str]
    actions: Mapping[frozenset[str], Action] = field(default_factory=dict)
    parts: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    rest: Action | None = None
    idle: bool = False
    titles: Mapping[str, str] = field(default_factory=dict)

    def action_of(self, held: Sequence[str]) -> Action | None:
        """The action of the held keys, oldest first; None if they have none.

        Of all actions whose meanings are held, the one with most meanings wins, and among several the newest.
        """
        meanings = [self.meanings[key] for key in held if key in self.meanings]
        if self.parts and meanings:
            action = list(self.rest)  # type: ignore[arg-type]  # not None for actions of several parts
            for meaning in meanings:
                part, value = self.parts[meaning]
                action[part] = value
            return action
        candidates = [together for together in self.actions if together and together <= set(meanings)]
        if not candidates:
            return None
        return self.actions[max(candidates, key=lambda together: (len(together), max(map(meanings.index, together))))]

    @property
    def table(self) -> list[tuple[str, str]]:
        """Keys and their meanings in words: ("ArrowUp, w", "up")."""
        keys: dict[str, list[str]] = {}
        for key, meaning in self.meanings.items():
            keys.setdefault(meaning, []).append(key)
        return [(", ".join(names), self.titles.get(meaning, meaning)) for meaning, names in keys.items()]


def keymap(spec: EnvironmentSpec, names: Sequence[str], keys: Mapping[str, Action] | None = None) -> KeyMap:
    """The keys of an environment's actions: from `keys`, or from the actions' names. Raises InvalidInput."""
    if keys is not None:
        return _by_keys(spec, names, keys)
    kind = spec.actions.kind
    if kind == "categorical":
        return _by_name(names)
    return _numbers(spec, names) if kind == "tanh_normal" else _choices(spec, names)


# --- one of some choices ----------------------------------------------------------------------------------------------


def meanings_of(name: str) -> frozenset[str]:
    """The meanings in an action's name: "UPRIGHTFIRE" → up, right, fire; empty for an unknown word."""
    words = name.lower().replace("_", " ").strip()
    meanings = []
    for part in words.split(" + "):
        part = _SAME.get(part, part)
        if part in _KEYS:
            meanings.append(part)
        elif _TOGETHER.fullmatch(part):
            meanings += [_SAME.get(word, word) for word in re.findall("up|down|left|right|fire|top|bottom", part)]
        else:
            return frozenset()
    return frozenset(meanings)


def _nothing(names: Sequence[str]) -> int | None:
    """The action that does nothing, if there is one."""
    return next((at for at, name in enumerate(names) if name.lower().replace("_", " ") in _NOTHING), None)


def _by_name(names: Sequence[str]) -> KeyMap:
    actions: dict[frozenset[str], Action] = {}
    for at, name in enumerate(names):
        together = meanings_of(name)
        if together and together not in actions:
            actions[together] = at
    single = sorted({meaning for together in actions for meaning in together}, key=list(_KEYS).index)
    meanings: dict[str, str] = {}
    for choices in zip_longest(*(_KEYS[meaning] for meaning in single)):  # the preferred keys of all meanings first
        for key, meaning in zip(choices, single, strict=True):
            if key is not None:
                meanings.setdefault(key, meaning)
    rest = _nothing(names)
    for at, name in enumerate(names):
        if at not in actions.values():
            key = str(at) if at < 10 else next((spare for spare in _SPARE if spare not in meanings), None)
            if key is not None:
                meanings[key] = name if name != str(at) else f"action {at}"
                actions[frozenset([meanings[key]])] = at
    titles = {meaning: names[action] for together, action in actions.items() if len(together) == 1
              for meaning in together if meaning in _KEYS}
    return KeyMap(meanings, actions, rest=rest, idle=rest is not None, titles=titles)


# --- several choices, switches, numbers -------------------------------------------------------------------------------


def _choices(spec: EnvironmentSpec, names: Sequence[str]) -> KeyMap:
    """A row of keys for each choice, or a key for each switch: `rest` is the first of each, or all off."""
    meanings: dict[str, str] = {}
    parts: dict[str, tuple[int, float]] = {}
    groups = action_words.groups(spec.actions, names)
    if spec.actions.kind == "bernoulli":
        places = [(key, name, part, 1) for part, (key, name) in enumerate(zip(_SPARE[1:], groups[0].names))]  # noqa: B905
    else:
        places = [(key, f"{group.title}: {name}", part, at + 1) for part, (row, group) in enumerate(zip(_ROWS, groups))  # noqa: B905
                  for at, (key, name) in enumerate(zip(row, group.names[1:]))]  # noqa: B905  # what is beyond has no key
    for key, title, part, value in places:
        meanings[key], parts[title] = title, (part, value)
    return KeyMap(meanings, parts=parts, rest=[0] * len(spec.actions.sizes), idle=True)


def _numbers(spec: EnvironmentSpec, names: Sequence[str]) -> KeyMap:
    """Two keys for each number: its least and its greatest value; `rest` is the middle of its bounds."""
    meanings: dict[str, str] = {}
    parts: dict[str, tuple[int, float]] = {}
    pairs = [*_PAIRS, *(tuple(_SPARE[at : at + 2]) for at in range(1, 9, 2))]
    for part, (name, pair) in enumerate(zip(action_words.groups(spec.actions, names)[0].names, pairs)):  # noqa: B905
        for key, sign in zip(pair, (-1, 1), strict=True):
            title = f"{name} {'−' if sign < 0 else '+'}"
            meanings[key], parts[title] = title, (part, sign)
    return KeyMap(meanings, parts=parts, rest=[0.0] * len(spec.actions.sizes), idle=True)


# --- by a caller's table ----------------------------------------------------------------------------------------------


def _by_keys(spec: EnvironmentSpec, names: Sequence[str], keys: Mapping[str, Action]) -> KeyMap:
    """The key map of `keys`: actions by key, or by keys that are held together, such as "ArrowUp+Space"."""
    if not isinstance(keys, Mapping) or not keys:
        raise InvalidInput(f"keys={keys!r:.100} must say which key does which action: keys={{'ArrowLeft': 0}}.")
    actions: dict[frozenset[str], Action] = {}
    titles: dict[str, str] = {}
    for together, action in keys.items():
        try:
            value = np.asarray(action, np.float32 if spec.actions.kind == "tanh_normal" else None)
            checked_actions(value[None], spec, 1)
        except (ShapeMismatch, TypeError, ValueError) as error:
            raise InvalidInput(f"keys[{together!r}]={action!r:.100} is no action: {error}") from None
        combination = [_key(key, together) for key in (str(together).split("+") if together != "+" else ["+"])]
        actions[frozenset(combination)] = value.tolist()
        if len(combination) == 1:
            titles[combination[0]] = action_words.in_words(spec.actions, names, value)
    meanings = {key: key for combination in actions for key in sorted(combination)}
    rest = _nothing(names) if spec.actions.kind == "categorical" else [0] * len(spec.actions.sizes)
    return KeyMap(meanings, actions, rest=rest, idle=rest is not None, titles=titles)


def _key(name: str, combination: object) -> str:
    key = {" ": "Space"}.get(name, name.lower() if len(name) == 1 else name)
    if key in RESERVED:
        raise InvalidInput(f"keys has {combination!r}, and {key} is taken: {RESERVED[key]}. Choose another key.")
    if len(key) != 1 and key not in _NAMED:
        raise InvalidInput(f"keys has {combination!r}, and there is no key {name!r}: give one character, or one of "
                           f"{', '.join(_NAMED)}; several that are held together as 'ArrowUp+Space'.")
    return key
