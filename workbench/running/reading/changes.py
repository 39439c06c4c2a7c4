"""The live fields of a run, from its configuration, and the history of their changes, from its events.

A change is an event of `tune` or `scale`. An undo is a change itself, whose event names the undone one; so every kernel
reads the same history, and undoing again goes further back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any

from workbench.config import RunConfig
from workbench.config.settings import Setting, in_groups
from workbench.config.signatures import bounds_of
from workbench.errors import InvalidInput
from workbench.metrics.schema import STEERED
from workbench.running.connection import COMMAND_S, Control
from workbench.tables import Columns, Table, brief, shown


@dataclass(frozen=True)
class Hyperparameter(Setting):
    """One field that `tune` can change while the run learns, with its present `value`."""

    value: Any = None


_HYPERPARAMETER_COLUMNS: Columns = {
    "name": lambda row: row.name,
    "group": lambda row: row.group,
    "value": lambda row: shown(row.value),
    "default": lambda row: shown(row.default),
    "bounds": lambda row: bounds_of(row),
    "what it is": lambda row: row.help,
}


def hyperparameters(config: RunConfig) -> Table[Hyperparameter]:
    """The live fields of a configuration with their present values, by group."""
    rows = [Hyperparameter(**vars(setting) | {"group": group}, value=config.value(name))
            for group, fields in in_groups(config.all_settings()).items() for name, setting in fields.items()]
    return Table(rows, _HYPERPARAMETER_COLUMNS, empty="no live fields")


@dataclass(frozen=True)
class Change:
    """One field changed by one event.

    Attributes:
        event: its id.
        name: of the field; "actors" for their number.
        time: unix time, s.
        undoes: id of the event that this change undoes, or None.
        undone: whether a later change undid it.
    """

    event: int
    name: str
    old: Any
    new: Any
    time: float
    frames: int | None
    undoes: int | None = None
    undone: bool = False

    @property
    def stands(self) -> bool:
        """Whether it can be undone; to set the value that a field has already changes nothing."""
        return self.undoes is None and not self.undone and self.old != self.new


def changes(events: Iterable[Mapping[str, Any]]) -> list[Change]:
    """All changes, oldest first, in events as `MetricsReader.events` returns them."""
    by_field: dict[tuple[int, str], Change] = {}
    for event in events:
        old, new_values, undoes = (event["data"].get(key) for key in ("old", "new", "undoes"))
        written = isinstance(old, dict) and isinstance(new_values, dict) and isinstance(undoes, int | NoneType)
        if event["kind"] not in STEERED or not written:  # the author of a foreign run can write any event
            continue
        for name, new in new_values.items():
            if (earlier := by_field.get((undoes, name))) is not None:
                by_field[undoes, name] = replace(earlier, undone=True)
            by_field[event["id"], name] = Change(
                event["id"], name, old.get(name), new, event["time"], event["frames"], undoes
            )
    return list(by_field.values())


def courses(made: Iterable[Change]) -> dict[str, str]:
    """The values that each changed field has had, in words: "0.001 → 0.0005 (at 2,000 frames)"."""
    words: dict[str, str] = {}
    for change in made:
        where = "" if change.frames is None else f" (at {change.frames:,} frames)"
        words[change.name] = f"{words.get(change.name, brief(change.old))} → {brief(change.new)}{where}"
    return words


def last(changes: Sequence[Change], name: str | None = None) -> list[Change]:
    """The changes to undo next: those of the last event (that changed `name`) that still stand; [] if none do."""
    standing = [change for change in changes if change.stands and name in (None, change.name)]
    return [change for change in standing if change.event == standing[-1].event]


def undo(control: Control, events: Iterable[Mapping[str, Any]], name: str | None) -> dict[str, Any]:
    """Undo the last change, of a field or of any; returns {"old", "new"}.

    Raises InvalidInput if none stands, or if it was changed again meanwhile.
    """
    latest = last(changes(events), name)
    if not latest:
        of_field = f" of {name!r}" if name else ""
        raise InvalidInput(f"there is no change{of_field} to take back: this run's history has none that still stands.")
    new = {change.name: change.old for change in latest}
    method, arguments = ("scale", new) if "actors" in new else ("tune", {"changes": new})
    answer: dict[str, Any] = control.call(method, timeout_s=COMMAND_S, **arguments, undoes=latest[0].event,
                                          made={change.name: change.new for change in latest})
    return answer
