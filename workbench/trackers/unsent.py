"""What of a run's history a tracker has not been given yet, in batches of bounded size.

The rows of all metrics with the same progress become one row; a metric that has several values there (episodes that
end in one step) makes several. Rows that a restore had left behind before they were read are not among them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from workbench.metrics import MetricsReader, Progress
from workbench.metrics.eventfile import tag
from workbench.metrics.schema import CHANGES
from workbench.trackers.contract import Row

_MOST = 500  # rows of one metric, and events, in a batch


@dataclass(frozen=True)
class HistoryPlace:
    """How far a history was read: the number of the next row by metric, the last event's id, the number of rows that
    the service has been given, and the time of the history's first event, by which it is known; None before one."""

    rows: Mapping[str, int]
    event: int = 0
    sent: int = 0
    first: float | None = None


def batch(reader: MetricsReader, since: HistoryPlace, *, created: float) -> tuple[list[Row], HistoryPlace]:
    """The next rows, by time, and the place after them; no rows where nothing is new. Raises StorageFailed."""
    since = _in_this_history(reader, since)
    events = reader.events(since_id=since.event, oldest=_MOST)  # first: a restore's metrics come after it
    series = reader.following(since.rows, most=_MOST)
    ends = [float(rows["time_s"][-1]) for rows, _, _, more in series.values() if more and len(rows["time_s"])]
    until_s = min(ends, default=math.inf)  # of a longer series the rest is not read yet, and rows are told by time
    points: dict[Progress, list[dict[str, float]]] = {}
    place = dict(since.rows)
    for name, (rows, numbers, end, _) in series.items():
        late = np.flatnonzero(rows["time_s"] > until_s)
        place[name] = int(numbers[late[0]]) if len(late) else end
        for at in range(late[0] if len(late) else len(numbers)):
            if math.isfinite(value := float(rows["value"][at])):
                progress = Progress(*(rows[column][at].item() for column in ("frames", "steps", "updates", "time_s")))
                _add(points.setdefault(progress, [{}]), tag(name), value)
    found = [Row(0, created + progress.time_s, *progress.columns(), values=values)
             for progress, several in points.items() for values in several]
    found.sort(key=lambda row: (row.time_s, row.frames))
    last = found[-1].columns if found else {}
    found += [_of_event(event, last) for event in events]
    numbered = [replace(row, number=since.sent + number) for number, row in enumerate(found)]
    event = max((event["id"] for event in events), default=since.event)
    return numbered, HistoryPlace(place, event, since.sent + len(numbered), since.first)


def _in_this_history(reader: MetricsReader, since: HistoryPlace) -> HistoryPlace:
    """The place with the time of the first event; in another history than the one that was read, its beginning.
    A history that is away for a while is no other."""
    first = next((float(event["time"]) for event in reader.events(oldest=1)), since.first)
    if since.first not in (None, first):
        return HistoryPlace({}, sent=since.sent, first=first)
    return replace(since, first=first)


def _add(several: list[dict[str, float]], name: str, value: float) -> None:
    free = next((values for values in several if name not in values), None)
    if free is None:
        several.append(free := {})
    free[name] = value


def _of_event(event: Mapping[str, Any], last: Mapping[str, float]) -> Row:
    """An event's row; one without a progress stands at the `last` row's."""
    frames, steps, updates, time_s = (
        last.get(column, 0) if event[name] is None else event[name]
        for name, column in (*((name, name) for name in ("frames", "steps", "updates")), ("time_s", "training_s")))
    new = event["data"].get("new") if event["kind"] in CHANGES else None
    changes = dict(new) if isinstance(new, dict) else {}
    values = {f"config/{name}": float(value) for name, value in changes.items()
              if isinstance(value, int | float) and math.isfinite(value)}
    return Row(0, event["time"], int(frames), int(steps), int(updates), float(time_s), values=values,
               event=f"{event['kind']}: {event['message']}", changes=changes)
