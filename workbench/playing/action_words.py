"""What a policy did, in words, whatever kind of action it has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from workbench.trajectory import ActionSpec, Array

_CALLED = {"multi_discrete": "part", "bernoulli": "switch", "tanh_normal": "number"}
_MOST_NAMED = 4


class Group(NamedTuple):
    """Bars that belong together: a choice, all switches, or all numbers.

    Attributes:
        title: of the choice, where there are several; else "".
        names: of its bars.
    """

    title: str
    names: tuple[str, ...]


def groups(actions: ActionSpec, names: Sequence[str]) -> list[Group]:
    """The bars of a policy, with the names that an environment gives its choices, its parts, or both."""
    parts = _parts(actions, names)
    if actions.kind == "categorical":
        return [Group("", _choices(actions, names)[0])]
    if actions.kind == "multi_discrete":
        return [Group(title, own) for title, own in zip(parts, _choices(actions, names), strict=True)]
    return [Group("", parts)]


def _parts(actions: ActionSpec, names: Sequence[str]) -> tuple[str, ...]:
    count = len(actions.sizes)
    return tuple(names) if _told(names, count) else tuple(f"{_called(actions)} {at + 1}" for at in range(count))


def _called(actions: ActionSpec) -> str:
    return _CALLED.get(actions.kind, "action")


def _choices(actions: ActionSpec, names: Sequence[str]) -> list[tuple[str, ...]]:
    """Names of the choices of each part; numbers where nobody says."""
    if not _told(names, sum(actions.sizes)):
        return [tuple(map(str, range(size))) for size in actions.sizes]
    ends = np.cumsum(actions.sizes).tolist()
    return [tuple(names[end - size : end]) for size, end in zip(actions.sizes, ends, strict=True)]


def _told(names: Sequence[str], count: int) -> bool:
    """Whether these are names of so many things, and not only their numbers."""
    return len(names) == count and list(names) != [str(at) for at in range(count)]


def in_words(actions: ActionSpec, names: Sequence[str], action: Array) -> str:
    """One action [*action]: "UP", "part 1: 2, part 2: 0", the switches that are on, or the numbers."""
    found = groups(actions, names)
    if actions.kind == "categorical":
        return found[0].names[int(action)]
    if actions.kind == "multi_discrete":
        pairs = zip(found, action.tolist(), strict=True)
        return ", ".join(f"{one.title}: {one.names[chosen]}" for one, chosen in pairs)
    if actions.kind == "bernoulli":
        return ", ".join(name for name, on in zip(found[0].names, action.tolist(), strict=True) if on) or "all off"
    return ", ".join(map(_short, action.tolist()))


def _short(value: float) -> str:
    return f"{round(value, 2) + 0:.2f}"  # without a sign of nothing


def kind_in_words(actions: ActionSpec) -> str:
    """What an action is: "one of 6", "2 choices, of 3 and 4", "5 switches", "3 numbers"."""
    sizes, count = actions.sizes, len(actions.sizes)
    if actions.kind == "categorical":
        return f"one of {sizes[0]}"
    if actions.kind == "multi_discrete":
        return f"{count} choices, of {_listed(list(map(str, sizes)))}"
    plural = "" if count == 1 else "es" if actions.kind == "bernoulli" else "s"
    return f"{count} {_called(actions)}{plural}"


def taken(actions: ActionSpec, names: Sequence[str], done: Array) -> str:
    """What was done in an episode [T, *action]: the choices most taken, how often each switch was on, or the mean and
    spread of each number; of the first few parts."""
    found = groups(actions, names)
    if actions.kind == "categorical":
        return _most_taken(found[0].names, done)
    if actions.kind == "multi_discrete":
        said = [f"{one.title}: {_most_taken(one.names, own, most=2)}" for one, own in zip(found, done.T, strict=True)]
        return _cut(said, "; ")
    if actions.kind == "bernoulli":
        return _cut([f"{name} on {share:.0%}" for name, share in zip(found[0].names, done.mean(0), strict=True)], ", ")
    spread = zip(found[0].names, done.mean(0), done.std(0), strict=True)
    return _cut([f"{name} {_short(mean)} ± {_short(deviation)}" for name, mean, deviation in spread], ", ")


def _most_taken(names: Sequence[str], done: Array, most: int = _MOST_NAMED) -> str:
    counts = Counter(done.tolist()).most_common()
    return _cut([f"{names[chosen]} {count / len(done):.0%}" for chosen, count in counts], ", ", most)


def _cut(said: Sequence[str], between: str, most: int = _MOST_NAMED) -> str:
    return between.join(said[:most]) + (f"{between}…" if len(said) > most else "")


def _listed(said: Sequence[str]) -> str:
    return " and ".join([", ".join(said[:-1]), said[-1]] if len(said) > 1 else said)
