"""Which keys mean which actions: by what the actions are called, or as somebody says.

A key stands for a meaning ("up", "fire"), and an action is the set of meanings that are held together: on Atari the
arrows up and right with space are UPRIGHTFIRE. Keys are called as in a page's `event.key`, in lower case where they are
one character: "ArrowLeft", "a", "1"; the space bar is "Space".
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

_KEYS = {  # of each meaning, the dearest first
    "up": ("ArrowUp", "w"), "down": ("ArrowDown", "s"), "left": ("ArrowLeft", "a"), "right": ("ArrowRight", "d"),
    "strafe left": ("a", "ArrowLeft"), "strafe right": ("d", "ArrowRight"), "fire": ("Space",),
    "toggle": ("Space",), "pickup": ("e",), "drop": ("q",), "done": ("x",),
    # As gfootball's README has them, but for sliding and what releases.
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
_PAIRS = (("ArrowLeft", "ArrowRight"), ("ArrowDown", "ArrowUp"), ("a", "d"), ("s", "w"))  # less and more of a number
_ROWS = ("1234567890", "qwertyuiop", "asdfghjkl", "zxcvbnm")  # of the parts of an action
_SPARE = "0123456789" + "".join(_ROWS[1:])


@dataclass(frozen=True)
class KeyMap:
    """What keys do.

    Attributes:
        meanings: of each key.
        actions: by the meanings that are held together.
        parts: of actions with several parts, what a meaning makes of one of them: (part, value).
        rest: what is done while no key is held; None: what was done last.
        idle: whether there is an action that does nothing, so that time may pass without a key.
        titles: what the environment itself calls a meaning.
    """

    meanings: Mapping[str, str]
    actions: Mapping[frozenset[str], Action] = field(default_factory=dict)
    parts: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    rest: Action | None = None
    idle: bool = False
    titles: Mapping[str, str] = field(default_factory=dict)

    def action_of(self, held: Sequence[str]) -> Action | None:
        """The action of the keys that are held, oldest first; None where they mean none.

        Of what they mean together and alone the action of most meanings is taken, and of several the newest.
        """
        meant = [self.meanings[key] for key in held if key in self.meanings]
        if self.parts and meant:
            action = list(self.rest)  # type: ignore[arg-type]  # actions of several parts have one
            for one in meant:
                part, value = self.parts[one]
                action[part] = value
            return action
        fitting = [one for one in self.actions if one and one <= set(meant)]
        if not fitting:
            return None
        return self.actions[max(fitting, key=lambda one: (len(one), max(meant.index(each) for each in one)))]

    @property
    def table(self) -> list[tuple[str, str]]:
        """Keys and what they mean, in words: ("ArrowUp, w", "up")."""
        keys: dict[str, list[str]] = {}
        for key, meaning in self.meanings.items():
            keys.setdefault(meaning, []).append(key)
        return [(", ".join(own), self.titles.get(meaning, meaning)) for meaning, own in keys.items()]


def keymap(spec: EnvironmentSpec, names: Sequence[str], keys: Mapping[str, Action] | None = None) -> KeyMap:
    """The keys of an environment's actions: `keys`, or as their names say. Raises InvalidInput for wrong `keys`."""
    if keys is not None:
        return _given(spec, names, keys)
    kind = spec.actions.kind
    if kind == "categorical":
        return _by_name(names)
    return _numbers(spec, names) if kind == "tanh_normal" else _choices(spec, names)


# --- one of some choices ----------------------------------------------------------------------------------------------


def meanings_of(name: str) -> frozenset[str]:
    """What an action's name says: "UPRIGHTFIRE" → up, right, fire; nothing where it is no word that is known."""
    words = name.lower().replace("_", " ").strip()
    found = []
    for part in words.split(" + "):
        part = _SAME.get(part, part)
        if part in _KEYS:
            found.append(part)
        elif _TOGETHER.fullmatch(part):
            found += [_SAME.get(one, one) for one in re.findall("up|down|left|right|fire|top|bottom", part)]
        else:
            return frozenset()
    return frozenset(found)


def _nothing(names: Sequence[str]) -> int | None:
    """The action that does nothing, if there is one."""
    return next((at for at, name in enumerate(names) if name.lower().replace("_", " ") in _NOTHING), None)


def _by_name(names: Sequence[str]) -> KeyMap:
    actions: dict[frozenset[str], Action] = {}
    for at, name in enumerate(names):
        found = meanings_of(name)
        if found and found not in actions:
            actions[found] = at
    single = sorted({one for together in actions for one in together}, key=list(_KEYS).index)
    meanings: dict[str, str] = {}
    for choices in zip_longest(*(_KEYS[one] for one in single)):  # first the dearest keys of all
        for key, meaning in zip(choices, single, strict=True):
            if key is not None:
                meanings.setdefault(key, meaning)
    rest = _nothing(names)
    for at, name in enumerate(names):
        if at not in actions.values():
            key = str(at) if at < 10 else next((one for one in _SPARE if one not in meanings), None)
            if key is not None:
                meanings[key] = name if name != str(at) else f"action {at}"
                actions[frozenset([meanings[key]])] = at
    titles = {one: names[action] for together, action in actions.items() for one in together if len(together) == 1
              and one in _KEYS}
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


# --- as somebody says -------------------------------------------------------------------------------------------------


def _given(spec: EnvironmentSpec, names: Sequence[str], keys: Mapping[str, Action]) -> KeyMap:
    """`keys`: an action by key, or by keys that are held together, such as "ArrowUp+Space"."""
    if not isinstance(keys, Mapping) or not keys:
        raise InvalidInput(f"keys={keys!r:.100} must say which key does which action: keys={{'ArrowLeft': 0}}.")
    actions: dict[frozenset[str], Action] = {}
    titles: dict[str, str] = {}
    for together, action in keys.items():
        try:
            done = np.asarray(action, np.float32 if spec.actions.kind == "tanh_normal" else None)
            checked_actions(done[None], spec, 1)
        except (ShapeMismatch, TypeError, ValueError) as error:
            raise InvalidInput(f"keys[{together!r}]={action!r:.100} is no action: {error}") from None
        own = [_key(one, together) for one in (str(together).split("+") if together != "+" else ["+"])]
        actions[frozenset(own)] = done.tolist()
        if len(own) == 1:
            titles[own[0]] = action_words.in_words(spec.actions, names, done)
    meanings = {one: one for own in actions for one in sorted(own)}
    rest = _nothing(names) if spec.actions.kind == "categorical" else [0] * len(spec.actions.sizes)
    return KeyMap(meanings, actions, rest=rest, idle=rest is not None, titles=titles)


def _key(name: str, given: object) -> str:
    key = {" ": "Space"}.get(name, name.lower() if len(name) == 1 else name)
    if key in RESERVED:
        raise InvalidInput(f"keys has {given!r}, and {key} is taken: {RESERVED[key]}. Choose another key.")
    if len(key) != 1 and key not in _NAMED:
        raise InvalidInput(f"keys has {given!r}, and there is no key {name!r}: give one character, or one of "
                           f"{', '.join(_NAMED)}; several that are held together as 'ArrowUp+Space'.")
    return key
