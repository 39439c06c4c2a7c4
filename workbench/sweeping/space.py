"""What a sweep searches: for each field a span of numbers, or a list of choices; checked before anything starts."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from workbench.config import NETWORKS, RunConfig
from workbench.config.settings import Setting
from workbench.errors import InvalidInput, OutOfBounds, StorageFailed, UnknownName

SCALES = ("linear", "log")

# Fields that say what is compared, or where: the runs of a sweep have them in common.
_COMMON = {
    "environment": "Sweep one environment after the other.",
    "algorithm": "Sweep one algorithm after the other, since their fields differ.",
    "total_frames": "All runs of a sweep get the same, so that their returns can be compared at equal frames.",
    "wrappers": "Give them to the sweep itself.",
    "opponent": "Give it to the sweep itself.",
    "launcher": "Give it to the sweep itself.",
    "address": "Give it to the sweep itself.",
    "device": "Give it to the sweep itself.",
    **dict.fromkeys(("max_hours", "price_per_hour", "max_cost", "target_return", "patience_frames"),
                    "Runs that end by different rules cannot be compared at equal frames."),
}
_MOST = 1_000  # choices of a field, and fields: no chart shows more
_FORMS = "Give (low, high), (low, high, 'log'), or a list of choices."


@dataclass(frozen=True)
class Span:
    """Numbers from `low` to `high`, both included; `log`: equally likely in each factor; `whole`: integers."""

    low: float
    high: float
    log: bool
    whole: bool

    def holds(self, value: Any) -> bool:
        """Whether it has that value."""
        return isinstance(value, (int, float)) and self.low <= value <= self.high

    def place(self, value: Any) -> float:
        """Where the value lies, from 0 to 1."""
        low, high, at = (math.log(one) if self.log else float(one) for one in (self.low, self.high, value))
        return (at - low) / (high - low)

    def at(self, place: float) -> float:
        """The value at a place from 0 to 1: the inverse of `place`, a whole number where it has to be one."""
        return self.nearest(self._at(place))

    def nearest(self, value: float) -> float:
        """The value inside the span that is nearest to this one."""
        found = min(self.high, max(self.low, value))
        return round(found) if self.whole else found

    def ticks(self) -> list[tuple[float, str]]:
        """Places of a few values, and how they read."""
        inner = self._tens() or [self._at(share) for share in (0.25, 0.5, 0.75)]
        values = {self.low, *(round(one) if self.whole else one for one in inner), self.high}
        return [(self.place(one), f"{one:,}" if self.whole else f"{one:.3g}") for one in sorted(values)]

    def _tens(self) -> list[float]:
        """Powers of ten on a logarithmic scale, apart from each other and from its ends; few."""
        if not self.log:
            return []
        tens = [10.0**power for power in range(math.ceil(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)]
        apart = [one for one in tens if 0.1 < self.place(one) < 0.9]
        return apart[:: 1 + len(apart) // 5]

    def _at(self, share: float) -> float:
        if self.log:
            return math.exp(math.log(self.low) + share * (math.log(self.high) - math.log(self.low)))
        return self.low + share * (self.high - self.low)


@dataclass(frozen=True)
class Choice:
    """One of several values, without an order."""

    values: tuple[Any, ...]

    def holds(self, value: Any) -> bool:
        """Whether it has that value; True is not 1 here."""
        return any(value == one and type(value) is type(one) for one in self.values)

    def place(self, value: Any) -> float:
        """Where the value lies, from 0 to 1."""
        return self.values.index(value) / (len(self.values) - 1)

    def ticks(self) -> list[tuple[float, str]]:
        """Places of all values, and how they read."""
        return [(self.place(one), str(one)) for one in self.values]


Entry = Span | Choice
Space = dict[str, Entry]


def checked_space(given: Any, config: RunConfig, fixed: Collection[str]) -> Space:
    """The space that the caller wrote, for runs of that configuration.

    Args:
        fixed: names of the fields that the caller has given values.

    Raises UnknownName, OutOfBounds, or InvalidInput for what cannot be searched.
    """
    if not isinstance(given, Mapping) or not given:
        raise InvalidInput(f"space={given!r} names nothing to search. Give fields with their values: "
                           "space={'learning_rate': (1e-5, 1e-2), 'batch_size': [8, 16, 32]}.")
    known = config.all_settings()
    found: Space = {}
    for name, entry in given.items():
        if name not in known:
            raise UnknownName.among("hyperparameter", str(name), known)
        if name in _COMMON:
            raise InvalidInput(f"{name} cannot be searched. {_COMMON[name]}")
        if name in fixed:
            raise InvalidInput(f"{name} is in the space and has a value, too. Leave one of them out.")
        found[name] = _span(known[name], entry) if isinstance(entry, tuple) else _choice(known[name], entry)
        for end in _ends(found[name]):
            config.replaced(**{name: end})  # fields that must fit each other
    return found


def _span(one: Setting, entry: tuple[Any, ...]) -> Span:
    said = f"{one.name}={entry!r}"
    if one.kind not in (int, float):
        raise OutOfBounds(f"{said}: {one.name} is no number. Give a list of choices.")
    if len(entry) not in (2, 3):
        raise OutOfBounds(f"{said} has {len(entry)} parts. {_FORMS} A list, not a tuple, holds choices.")
    if len(entry) == 3 and entry[2] not in SCALES:
        raise UnknownName.among("scale", str(entry[2]), SCALES)
    low, high = one.check(entry[0]), one.check(entry[1])
    if low is None or high is None or low >= high:
        raise OutOfBounds(f"{said}: the low end must lie below the high one.")
    log = (entry[2] if len(entry) == 3 else one.scale) == "log"
    if log and low <= 0:
        near = 1 if one.kind is int else high / 1000
        raise OutOfBounds(f"{said} is searched on a logarithmic scale, which ends above 0. Choose a low end such as "
                          f"{near:g}, or say ({low:g}, {high:g}, 'linear').")
    return Span(low, high, log, one.kind is int)


def _choice(one: Setting, entry: Any) -> Choice:
    said = f"{one.name}={entry!r}"
    if one.kind is dict:
        raise InvalidInput(f"{one.name} cannot be searched, since its values are no numbers, texts or switches.")
    if not isinstance(entry, list):
        raise OutOfBounds(f"{said} is not something to search. {_FORMS}")
    values = tuple(one.check(value) for value in entry)
    if len(values) < 2:
        raise OutOfBounds(f"{said} leaves no choice. Give two or more, or fix the value: {one.name}=....")
    if len(values) > _MOST:
        raise OutOfBounds(f"{one.name} has {len(values):,} choices. Give at most {_MOST:,}, or a span: (low, high).")
    if any(value == other for at, value in enumerate(values) for other in values[:at]):
        raise OutOfBounds(f"{said} has a choice twice.")
    for value in values if one.name == "network" else ():
        if value is not None and value not in NETWORKS:
            raise UnknownName.among("network", value, NETWORKS)
    return Choice(values)


def _ends(entry: Entry) -> tuple[Any, ...]:
    return (entry.low, entry.high) if isinstance(entry, Span) else entry.values


def to_json(space: Space) -> dict[str, Any]:
    """Plain data; `from_json` is its inverse."""
    return {name: {"choices": list(one.values)} if isinstance(one, Choice) else vars(one).copy()
            for name, one in space.items()}


def from_json(data: Mapping[str, Any]) -> Space:
    """The space that `to_json` wrote. Raises StorageFailed for anything else."""
    try:
        space: Space = {name: Choice(tuple(one["choices"])) if "choices" in one else Span(**one)
                        for name, one in data.items()}
        if len(space) > _MOST or not all(2 <= len(_ends(entry)) <= _MOST and all(
                0 <= entry.place(end) <= 1 for end in _ends(entry)) for entry in space.values()):
            raise ValueError("it has too much in it, or ends that are no numbers of its scale")
        return space
    except (TypeError, ValueError, ArithmeticError) as error:
        raise StorageFailed(f"space={data!r:.100} is no space of a sweep: {error!s:.100}.") from None
