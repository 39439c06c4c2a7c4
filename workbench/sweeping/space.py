"""The space of a sweep: for each field a span of numbers or a list of choices; checked before anything starts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from workbench.config import RunConfig, Setting, check_network, unknown_field
from workbench.errors import InvalidInput, OutOfBounds, StorageFailed, UnknownName
from workbench.supervisor.stopping_rules import RULES

SCALES = ("linear", "log")

# Fields that all runs of a sweep share, since they define what is compared or where it runs; with what to do instead.
_COMMON = {
    "environment": "Sweep one environment after the other.",
    "algorithm": "Sweep one algorithm after the other, since their fields differ.",
    "total_frames": "All runs of a sweep get the same, so that their returns can be compared at equal frames.",
    "wrappers": "Give them to the sweep itself.",
    "opponent": "Give it to the sweep itself.",
    "launcher": "Give it to the sweep itself.",
    "address": "Give it to the sweep itself.",
    "device": "Give it to the sweep itself.",
    **dict.fromkeys((*RULES, "price_per_hour"), "Runs that end by different rules cannot be compared at equal frames."),
}
_MOST = 1_000  # choices of a field, and fields: no chart shows more
_FORMS = "Give (low, high), (low, high, 'log'), or a list of choices."


@dataclass(frozen=True)
class Span:
    """Numbers from `low` to `high`, both included, on a logarithmic scale if `log`, and integers if `whole`."""

    low: float
    high: float
    log: bool
    whole: bool

    def holds(self, value: Any) -> bool:
        """Whether the value lies in it."""
        return isinstance(value, (int, float)) and self.low <= value <= self.high

    def place(self, value: Any) -> float:
        """The value's position on the axis, from 0 to 1."""
        low, high, at = (math.log(number) if self.log else float(number) for number in (self.low, self.high, value))
        return (at - low) / (high - low)

    def at(self, place: float) -> float:
        """The value at a position from 0 to 1, rounded if `whole`: the inverse of `place`."""
        return self.nearest(self._at(place))

    def nearest(self, value: float) -> float:
        """The span's value nearest to `value`."""
        inside = min(self.high, max(self.low, value))
        return round(inside) if self.whole else inside

    def ticks(self) -> list[tuple[float, str]]:
        """Positions and labels of a few values."""
        inner = self._tens() or [self._at(share) for share in (0.25, 0.5, 0.75)]
        values = {self.low, *(round(value) if self.whole else value for value in inner), self.high}
        return [(self.place(value), f"{value:,}" if self.whole else f"{value:.3g}") for value in sorted(values)]

    def _tens(self) -> list[float]:
        """A few powers of ten on a logarithmic scale, away from its ends; none on a linear one."""
        if not self.log:
            return []
        tens = [10.0**power for power in range(math.ceil(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)]
        apart = [ten for ten in tens if 0.1 < self.place(ten) < 0.9]
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
        """Whether the value is a choice; True does not equal 1 here."""
        return any(value == choice and type(value) is type(choice) for choice in self.values)

    def place(self, value: Any) -> float:
        """The value's position on the axis, from 0 to 1."""
        return self.values.index(value) / (len(self.values) - 1)

    def ticks(self) -> list[tuple[float, str]]:
        """Positions and labels of all values."""
        return [(self.place(value), str(value)) for value in self.values]


Entry = Span | Choice
Space = dict[str, Entry]


def own_space(config: RunConfig, fixed: Collection[str]) -> dict[str, Any]:
    """What a sweep of the algorithm searches where nobody says it, but for the `fixed` fields.

    A field that a preset or default has set to 0, as a cost that is off, is left out where its span begins above 0.
    Other spans reach the present value.
    """
    space = {}
    for name, entry in type(config.hyperparameters).search.items():
        value = config.value(name)
        if isinstance(entry, tuple) and value is not None:
            if value == 0 < entry[0]:
                continue
            entry = (min(entry[0], value), max(entry[1], value), *entry[2:])
        if name not in fixed:
            space[name] = entry
    return space


def checked_space(requested: Any, config: RunConfig, fixed: Collection[str]) -> Space:
    """The space that a caller requested for runs of `config`.

    Args:
        fixed: fields to which the caller gave a value.

    Raises UnknownName, OutOfBounds, or InvalidInput for a field that cannot be searched.
    """
    if not isinstance(requested, Mapping) or not requested:
        raise InvalidInput(f"space={requested!r} names nothing to search. Give fields with their values: "
                           "space={'learning_rate': (1e-5, 1e-2), 'batch_size': [8, 16, 32]}.")
    settings = config.all_settings()
    space: Space = {}
    for name, entry in requested.items():
        if name not in settings:
            raise unknown_field(name, settings, algorithm=config.algorithm)
        if name in _COMMON:
            raise InvalidInput(f"{name} cannot be searched. {_COMMON[name]}")
        if name in fixed:
            raise InvalidInput(f"{name} is in the space and has a value, too. Leave one of them out.")
        space[name] = _span(settings[name], entry) if isinstance(entry, tuple) else _choice(settings[name], entry)
        for end in ends(space[name]):
            config.replaced(**{name: end})  # checks fields that must fit each other
    return space


def _span(setting: Setting, entry: tuple[Any, ...]) -> Span:
    argument = f"{setting.name}={entry!r}"
    if setting.kind not in (int, float):
        raise OutOfBounds(f"{argument}: {setting.name} is no number. Give a list of choices.")
    if len(entry) not in (2, 3):
        raise OutOfBounds(f"{argument} has {len(entry)} parts. {_FORMS} A list, not a tuple, holds choices.")
    if len(entry) == 3 and entry[2] not in SCALES:
        raise UnknownName.among("scale", str(entry[2]), SCALES)
    low, high = setting.check(entry[0]), setting.check(entry[1])
    if low is None or high is None or low >= high:
        raise OutOfBounds(f"{argument}: the low end must lie below the high one.")
    log = (entry[2] if len(entry) == 3 else setting.scale) == "log"
    if log and low <= 0:
        near = 1 if setting.kind is int else high / 1000
        raise OutOfBounds(f"{argument} is searched on a logarithmic scale, which ends above 0. Choose a low end such "
                          f"as {near:g}, or say ({low:g}, {high:g}, 'linear').")
    return Span(low, high, log, setting.kind is int)


def _choice(setting: Setting, entry: Any) -> Choice:
    argument = f"{setting.name}={entry!r}"
    if setting.kind is dict:
        raise InvalidInput(f"{setting.name} cannot be searched, since its values are not numbers, texts or switches.")
    if not isinstance(entry, list):
        raise OutOfBounds(f"{argument} is not something to search. {_FORMS}")
    values = tuple(setting.check(value) for value in entry)
    if len(values) < 2:
        raise OutOfBounds(f"{argument} leaves no choice. Give two or more, or fix the value: {setting.name}=....")
    if len(values) > _MOST:
        raise OutOfBounds(f"{setting.name} has {len(values):,} choices. Give at most {_MOST:,}, or a span: "
                          "(low, high).")
    if any(value == other for at, value in enumerate(values) for other in values[:at]):
        raise OutOfBounds(f"{argument} has a choice twice.")
    for value in values if setting.name == "network" else ():
        if value is not None:
            check_network(value)
    return Choice(values)


def first_trials(space: Space, config: RunConfig, trials: int) -> list[dict[str, Any]]:
    """The fields of the trials with which a sweep begins: those of `config` that lie in the space; and of lists alone,
    every combination, where there are trials enough. The sampler would try some twice, and others never."""
    own = {name: config.value(name) for name, entry in space.items() if entry.holds(config.value(name))}
    lists = [entry.values for entry in space.values() if isinstance(entry, Choice)]
    if len(lists) < len(space) or math.prod(map(len, lists)) > trials:
        return [own] if own else []
    each = [dict(zip(space, values, strict=True)) for values in itertools.product(*lists)]
    return sorted(each, key=lambda fields: own.items() <= fields.items(), reverse=True)


def ends(entry: Entry) -> tuple[Any, ...]:
    """The ends of a span, or all choices."""
    return (entry.low, entry.high) if isinstance(entry, Span) else entry.values


def to_json(space: Space) -> dict[str, Any]:
    """Plain data; `from_json` is its inverse."""
    return {name: {"choices": list(entry.values)} if isinstance(entry, Choice) else vars(entry).copy()
            for name, entry in space.items()}


def from_json(data: Mapping[str, Any]) -> Space:
    """The space that `to_json` wrote. Raises StorageFailed for any other data."""
    try:
        space: Space = {name: Choice(tuple(entry["choices"])) if "choices" in entry else Span(**entry)
                        for name, entry in data.items()}
        if len(space) > _MOST or not all(2 <= len(ends(entry)) <= _MOST and all(
                0 <= entry.place(end) <= 1 for end in ends(entry)) for entry in space.values()):
            raise ValueError("it has too many fields or choices, or ends that are no numbers of its scale")
        return space
    except (TypeError, ValueError, ArithmeticError) as error:
        raise StorageFailed(f"space={data!r:.100} is not the space of a sweep: {error!s:.100}.") from None
