"""Actions in words, for every kind of action."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.environment_spec import ActionSpec
from workbench.errors import InvalidInput, UnknownName
from workbench.trajectory import Array

_NOUNS = {"multi_discrete": "part", "bernoulli": "switch", "tanh_normal": "number"}
_MOST_NAMED = 4


class BarGroup(NamedTuple):
    """Bars that belong together: one choice, all switches, or all numbers.

    Attributes:
        title: name of the choice if there are several, and of the part of a mixed action; else "".
        names: one for each bar.
        kind: "choice", "switches" or "numbers".
    """

    title: str
    names: tuple[str, ...]
    kind: str = "choice"


def groups(actions: ActionSpec, names: Sequence[str]) -> list[BarGroup]:
    """The bars of a policy, with an environment's names of its choices, its parts, or both."""
    if actions.parts:
        return [BarGroup(f"{name}, {group.title}" if group.title else name, group.names, group.kind)
                for name, part, own in _each_part(actions, names) for group in groups(part, own)]
    parts = _parts(actions, names)
    if actions.kind == "categorical":
        return [BarGroup("", _choices(actions, names)[0])]
    if actions.kind == "multi_discrete":
        return [BarGroup(title, own) for title, own in zip(parts, _choices(actions, names), strict=True)]
    return [BarGroup("", parts, "switches" if actions.kind == "bernoulli" else "numbers")]


def _each_part(actions: ActionSpec, names: Sequence[str]) -> Iterator[tuple[str, ActionSpec, Sequence[str]]]:
    """Name and spec of each part of a mixed action, and the environment's names of its choices."""
    first, own = 0, names if _are_names(names, actions.encoded_size) else ()
    for name, part in ((part.name, part.actions) for part in actions.parts):
        yield name, part, own[first : first + part.encoded_size]
        first += part.encoded_size


def split(actions: ActionSpec, values: Array) -> list[Array]:
    """The columns [..., *part] of each part of a mixed action, from [..., K]; choices as int64."""
    ends = np.cumsum([len(part.actions.sizes) for part in actions.parts])[:-1]
    pairs = zip(np.split(values, ends, -1), (part.actions for part in actions.parts), strict=True)
    return [own.astype(part.dtype).reshape((*own.shape[:-1], *part.shape)) for own, part in pairs]


def _parts(actions: ActionSpec, names: Sequence[str]) -> tuple[str, ...]:
    count = len(actions.sizes)
    return tuple(names) if _are_names(names, count) else tuple(f"{_noun(actions)} {at + 1}" for at in range(count))


def _noun(actions: ActionSpec) -> str:
    return _NOUNS.get(actions.kind, "action")


def _choices(actions: ActionSpec, names: Sequence[str]) -> list[tuple[str, ...]]:
    """The names of each part's choices, or their numbers if they have no names."""
    if not _are_names(names, sum(actions.sizes)):
        return [tuple(map(str, range(size))) for size in actions.sizes]
    ends = np.cumsum(actions.sizes).tolist()
    return [tuple(names[end - size : end]) for size, end in zip(actions.sizes, ends, strict=True)]


def _are_names(names: Sequence[str], count: int) -> bool:
    """Whether `names` are `count` names, and not only numbers."""
    return len(names) == count and list(names) != [str(at) for at in range(count)]


def in_words(actions: ActionSpec, names: Sequence[str], action: Array) -> str:
    """One action [*action]: "UP", "part 1: 2, part 2: 0", the switches that are on, or the numbers.

    Of a mixed one "move: UP, throttle: 0.31", with semicolons if a part has several choices, switches or numbers.
    """
    if actions.parts:
        every = zip(_each_part(actions, names), split(actions, action), strict=True)
        words = [f"{name}: {in_words(part, own, values)}" for (name, part, own), values in every]
        return (", " if len(words) == len(actions.sizes) else "; ").join(words)
    parts = groups(actions, names)
    if actions.kind == "categorical":
        return parts[0].names[int(action)]
    if actions.kind == "multi_discrete":
        pairs = zip(parts, action.tolist(), strict=True)
        return ", ".join(f"{part.title}: {part.names[choice]}" for part, choice in pairs)
    if actions.kind == "bernoulli":
        return ", ".join(name for name, on in zip(parts[0].names, action.tolist(), strict=True) if on) or "all off"
    return ", ".join(map(_short, action.tolist()))


def columns_of(actions: ActionSpec, names: Sequence[str], action: Any) -> Any:
    """A mixed action [K] from its parts by name, {"move": "UP", "throttle": 0.31}, or a list of such; others unchanged.

    A choice is named or numbered. Raises InvalidInput for wrong parts or values, UnknownName for a wrong choice.
    """
    if isinstance(action, list | tuple):
        return [columns_of(actions, names, each) for each in action]
    if not isinstance(action, Mapping):
        return action
    if not actions.parts or set(action) != {part.name for part in actions.parts}:
        known = ", ".join(part.name for part in actions.parts)
        raise InvalidInput(f"action={dict(action)!r:.100} must have "
                           + (f"the parts {known}, and no other." if known else "no parts: give a number, or several."))
    columns: list[float] = []
    for name, part, own in _each_part(actions, names):
        value = action[name]
        if part.kind == "categorical" and isinstance(value, str):
            choices = groups(part, own)[0].names
            if value not in choices:
                raise UnknownName.among("action", value, choices)
            value = choices.index(value)
        try:
            columns += np.asarray(value, np.float64).reshape(-1).tolist()
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"{name}={value!r:.100} is no part of an action: {error}.") from None
    return columns


def _short(value: float) -> str:
    return f"{round(value, 2) + 0:.2f}"  # + 0 turns -0.0 into 0.0


def kind_in_words(actions: ActionSpec) -> str:
    """The kind of an action: "one of 6", "2 choices, of 3 and 4", "5 switches", "3 numbers", "move: one of 3; ..."."""
    if actions.parts:
        return "; ".join(f"{part.name}: {kind_in_words(part.actions)}" for part in actions.parts)
    sizes, count = actions.sizes, len(actions.sizes)
    if actions.kind == "categorical":
        return f"one of {sizes[0]}"
    if actions.kind == "multi_discrete":
        return f"{count} choices, of {_and(list(map(str, sizes)))}"
    plural = "" if count == 1 else "es" if actions.kind == "bernoulli" else "s"
    return f"{count} {_noun(actions)}{plural}"


def taken(actions: ActionSpec, names: Sequence[str], history: Array) -> str:
    """A summary of an episode's actions [T, *action], for its first few parts.

    It has the most frequent choices, how often each switch was on, or the mean and standard deviation of each number.
    """
    if actions.parts:
        every = zip(_each_part(actions, names), split(actions, history), strict=True)
        return _cut([f"{name}: {taken(part, own, values)}" for (name, part, own), values in every], "; ")
    parts = groups(actions, names)
    if actions.kind == "categorical":
        return _most_taken(parts[0].names, history)
    if actions.kind == "multi_discrete":
        summaries = [f"{part.title}: {_most_taken(part.names, column, most=2)}"
                     for part, column in zip(parts, history.T, strict=True)]
        return _cut(summaries, "; ")
    if actions.kind == "bernoulli":
        shares = zip(parts[0].names, history.mean(0), strict=True)
        return _cut([f"{name} on {share:.0%}" for name, share in shares], ", ")
    spread = zip(parts[0].names, history.mean(0), history.std(0), strict=True)
    return _cut([f"{name} {_short(mean)} ± {_short(deviation)}" for name, mean, deviation in spread], ", ")


def _most_taken(names: Sequence[str], history: Array, most: int = _MOST_NAMED) -> str:
    counts = Counter(history.tolist()).most_common()
    return _cut([f"{names[choice]} {count / len(history):.0%}" for choice, count in counts], ", ", most)


def _cut(texts: Sequence[str], separator: str, most: int = _MOST_NAMED) -> str:
    return separator.join(texts[:most]) + (f"{separator}…" if len(texts) > most else "")


def _and(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
