"""What was changed while a run went on, and what of it was taken back: read from the run's events.

A change is an event of `tune` or `scale`. One that takes an earlier change back is a change itself and names that
event; so the history is whole for every kernel that reads it, and taking back again goes further back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from workbench.errors import InvalidInput
from workbench.running.connection import Control

_KINDS = ("tune", "scale")
_COMMAND_S = 40.0  # as for `tune`


@dataclass(frozen=True)
class Change:
    """One field changed by one event.

    Attributes:
        event: its id.
        name: of the field; "actors" for their number.
        time: unix time, s.
        undoes: id of the event that this takes back, or None.
        undone: whether it was taken back.
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
        """Whether it can be taken back; what was set to the value that it had changed nothing."""
        return self.undoes is None and not self.undone and self.old != self.new


def changes(events: Iterable[Mapping[str, Any]]) -> list[Change]:
    """Every change, oldest first, of events as `MetricsReader.events` returns them."""
    found: dict[tuple[int, str], Change] = {}
    for one in events:
        data = one["data"]
        if one["kind"] not in _KINDS or "old" not in data or "new" not in data:
            continue
        undoes = data.get("undoes")
        for name, new in data["new"].items():
            if (back := found.get((undoes, name))) is not None:
                found[undoes, name] = replace(back, undone=True)
            found[one["id"], name] = Change(
                one["id"], name, data["old"].get(name), new, one["time"], one["frames"], undoes
            )
    return list(found.values())


def last(found: Sequence[Change], name: str | None = None) -> list[Change]:
    """What to take back next: the fields of the last event (that changed `name`) that still stand; [] if none."""
    standing = [one for one in found if one.stands and name in (None, one.name)]
    return [one for one in standing if one.event == standing[-1].event]


def undo(control: Control, events: Iterable[Mapping[str, Any]], name: str | None) -> dict[str, Any]:
    """Take the last change back, of a field or of all; {"old", "new"}. Raises InvalidInput if none stands."""
    back = last(changes(events), name)
    if not back:
        of = f" of {name!r}" if name else ""
        raise InvalidInput(f"there is no change{of} to take back: this run's history has none that still stands.")
    new = {one.name: one.old for one in back}
    method, asked = ("scale", new) if "actors" in new else ("tune", {"changes": new})
    told: dict[str, Any] = control.call(method, timeout_s=_COMMAND_S, **asked, undoes=back[0].event)
    return told
