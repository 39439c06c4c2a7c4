"""Maps keys to actions: by the names of the actions, or by a caller's table.

A key has a meaning ("up", "fire"), and an action is a set of meanings that are held together: on Atari the arrows up
and right with space are UPRIGHTFIRE. Keys have the names of a page's `event.key`, in lower case if they are one
character: "ArrowLeft", "a", "1"; the space bar is "Space".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import Any

import numpy as np

from workbench.environment_spec import EnvironmentSpec
from workbench.environments.contract import checked_actions
from workbench.errors import InvalidInput, ShapeMismatch
from workbench.playing import action_words
from workbench.playing.by_hand.own_units import at_rest

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
    return _columns(spec, names)


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


def _columns(spec: EnvironmentSpec, names: Sequence[str]) -> KeyMap:
    """Keys for each column of an action; `rest` as `at_rest` has it.

    A choice has a row of keys, a switch a key, and a number two, for its least and its greatest value. What is beyond
    the free keys has none.
    """
    meanings: dict[str, str] = {}
    parts: dict[str, tuple[int, float]] = {}
    column = 0
    for group in action_words.groups(spec.actions, names):
        titled = f"{group.title}: " if group.title else ""
        settings = _settings(group, column, titled)
        for key, (title, value) in _free_keys(group.kind, settings, meanings):
            meanings[key], parts[title] = title, value
        column += 1 if group.kind == "choice" else len(group.names)
    return KeyMap(meanings, parts=parts, rest=at_rest(spec.actions), idle=True)


def _settings(group: action_words.BarGroup, column: int, titled: str) -> list[tuple[str, tuple[int, float]]]:
    """What keys of a group may do: their titles, and the columns and values that they set."""
    if group.kind == "choice":
        return [(f"{titled}{name}", (column, at)) for at, name in enumerate(group.names) if at]
    if group.kind == "switches":
        return [(f"{titled}{name}", (column + at, 1)) for at, name in enumerate(group.names)]
    return [(f"{titled}{name} {sign}", (column + at, value)) for at, name in enumerate(group.names)
            for sign, value in (("−", -1), ("+", 1))]


def _free_keys(kind: str, settings: Sequence[Any], taken: Collection[str]) -> list[tuple[str, Any]]:
    """Keys for `settings`, of those that are not `taken`."""
    if kind == "choice":
        row = next((row for row in _ROWS if not set(row) & set(taken)), "")
        return list(zip(row, settings))  # noqa: B905  # what is beyond has no key
    if kind == "switches":
        return list(zip((key for key in _SPARE[1:] if key not in taken), settings))  # noqa: B905
    pairs = [*_PAIRS, *(tuple(_SPARE[at : at + 2]) for at in range(1, 9, 2))]
    free = chain.from_iterable(pair for pair in pairs if not set(pair) & set(taken))
    return list(zip(free, settings))  # noqa: B905


# --- by a caller's table ----------------------------------------------------------------------------------------------


def _by_keys(spec: EnvironmentSpec, names: Sequence[str], keys: Mapping[str, Action]) -> KeyMap:
    """The key map of `keys`: actions by key, or by keys that are held together, such as "ArrowUp+Space"."""
    if not isinstance(keys, Mapping) or not keys:
        raise InvalidInput(f"keys={keys!r:.100} must say which key does which action: keys={{'ArrowLeft': 0}}.")
    actions: dict[frozenset[str], Action] = {}
    titles: dict[str, str] = {}
    for together, action in keys.items():
        try:
            action = action_words.columns_of(spec.actions, names, action)
            value = np.asarray(action, np.float32 if spec.actions.dtype == "float32" else None)
            checked_actions(value[None], spec, 1)
        except (ShapeMismatch, TypeError, ValueError) as error:  # InvalidInput is a ValueError
            raise InvalidInput(f"keys[{together!r}]={action!r:.100} is no action: {error}") from None
        combination = [_key(key, together) for key in (str(together).split("+") if together != "+" else ["+"])]
        actions[frozenset(combination)] = value.tolist()
        if len(combination) == 1:
            titles[combination[0]] = action_words.in_words(spec.actions, names, value)
    meanings = {key: key for combination in actions for key in sorted(combination)}
    rest = _nothing(names) if spec.actions.kind == "categorical" else at_rest(spec.actions)
    return KeyMap(meanings, actions, rest=rest, idle=rest is not None, titles=titles)


def _key(name: str, combination: object) -> str:
    key = {" ": "Space"}.get(name, name.lower() if len(name) == 1 else name)
    if key in RESERVED:
        raise InvalidInput(f"keys has {combination!r}, and {key} is taken: {RESERVED[key]}. Choose another key.")
    if len(key) != 1 and key not in _NAMED:
        raise InvalidInput(f"keys has {combination!r}, and there is no key {name!r}: give one character, or one of "
                           f"{', '.join(_NAMED)}; several that are held together as 'ArrowUp+Space'.")
    return key
