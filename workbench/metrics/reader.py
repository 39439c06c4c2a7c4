"""Reads a run's history while other processes write it, after the run has ended, and before it begins (nothing then).

Each call opens the file anew and read-only, and sees one consistent state of it: a reader holds no lock between calls
and may be used from any thread. Only half a write that a killed writer left in a file of this user is undone first.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from workbench.metrics import schema, series
from workbench.metrics.schema import COUNTERS
from workbench.metrics.series import Series
from workbench.rundir.files import decoded

P = ParamSpec("P")
R = TypeVar("R")

_MOST_EVENTS = 100_000
_EVENT = ("id", "time", "kind", "message", *COUNTERS, "data")


def _decoding(method: Callable[Concatenate[MetricsReader, P], R]) -> Callable[Concatenate[MetricsReader, P], R]:
    """`method`, which also raises StorageFailed if the file holds values of other types."""

    @functools.wraps(method)
    def decoded(self: MetricsReader, /, *arguments: P.args, **options: P.kwargs) -> R:
        with schema.decoding(self._path):
            return method(self, *arguments, **options)

    return decoded


class MetricsReader:
    """The history of one run. Every method raises StorageFailed if the file cannot be read."""

    def __init__(self, path: Path):
        self._path = Path(path)

    @_decoding
    def names(self) -> list[str]:
        """Names of all series, sorted."""
        return [str(name) for (name,) in self._rows("SELECT name FROM names ORDER BY name")]

    @_decoding
    def series(self, name: str, *, max_points: int | None = None) -> dict[str, npt.NDArray[Any]]:
        """Arrays frames, steps, updates (int64), time_s, value (float64) of one metric, in order of arrival.

        Rows that a learner left behind when it began again at an older checkpoint are not among them.
        `episode_return`, `episode_length`, `episode_score` (if the environment has one) and the same with
        `evaluation_` have a point per episode.

        Args:
            max_points: thin out to at most this many points (4 at least): the first, the last, and the smallest
                and largest of equal stretches, each at its own place; no means.
        """
        with schema.reading(self._path) as connection:
            if connection is None:
                return series.empty()
            return series.read(connection, name, max_points=max_points)

    @_decoding
    def lengths(self) -> dict[str, int]:
        """How many rows each series has, those that were left behind too."""
        with schema.reading(self._path) as connection:
            return {} if connection is None else series.lengths(connection)

    @_decoding
    def newer(
        self, since: Mapping[str, int], *, max_points: int
    ) -> dict[str, tuple[Series, npt.NDArray[Any]]]:
        """For each metric of `since`, the rows from that row number on as arrays, with count and mean of the rows that
        each stands for, and the numbers of these rows."""
        with schema.reading(self._path) as connection:
            if connection is None:
                return {}
            courses = series.courses(connection, since)
            return {name: series.newer(connection, name, course=courses[name], first=first, max_points=max_points)
                    for name, first in since.items()}

    @_decoding
    def following(
        self, since: Mapping[str, int], *, most: int
    ) -> dict[str, tuple[Series, npt.NDArray[Any], int, bool]]:
        """Of every metric the rows from number `since[name]` (0 where it has none) on, at most `most`: as arrays, with
        their numbers, the number to go on from, and whether there are more. All of one state of the file."""
        with schema.reading(self._path) as connection:
            if connection is None:
                return {}
            names = [str(name) for (name,) in connection.execute("SELECT name FROM names ORDER BY name").fetchall()]
            first = {name: since.get(name, 0) for name in names}
            courses = series.courses(connection, first)
            return {name: series.following(connection, name, course=courses[name], first=first[name], most=most)
                    for name in names}

    @_decoding
    def means(self, name: str, *, points: int) -> dict[str, npt.NDArray[Any]]:
        """As `series`, all float64: at most that many points, each the mean of a stretch of equally many rows."""
        with schema.reading(self._path) as connection:
            return series.empty() if connection is None else series.means(connection, name, points=points)

    @_decoding
    def episodes(self, *, since_id: int = 0) -> dict[str, npt.NDArray[Any]]:
        """Arrays id, frames, steps, updates, time_s, kind, env_id, episode_return, length_steps, score, oldest first.

        The score is NaN if the environment has none.
        """
        names = ("id", *COUNTERS, "kind", "env_id", "episode_return", "length_steps", "score")
        rows = self._rows(f"SELECT {', '.join(names)} FROM episodes WHERE id > ? ORDER BY id", since_id)
        columns = zip(*rows, strict=True) if rows else ((),) * len(names)
        dtypes: dict[str, type] = {
            "time_s": np.float64, "episode_return": np.float64, "score": np.float64, "kind": np.str_,
        }
        return {name: np.array(column, dtypes.get(name, np.int64)) for name, column in zip(names, columns, strict=True)}

    @_decoding
    def events(self, *, since_id: int = 0, oldest: int | None = None) -> list[dict[str, Any]]:
        """The newest 100,000, or that many of the oldest; id, time (unix, s), kind, message, data, frames ... time_s or
        None of each, oldest first."""
        order, most = ("DESC", _MOST_EVENTS) if oldest is None else ("ASC", oldest)
        rows = self._rows(f"SELECT {', '.join(_EVENT)} FROM events WHERE id > ? ORDER BY id {order} LIMIT ?", since_id,
                          most)
        return [_event(dict(zip(_EVENT, row, strict=True))) for row in sorted(rows)]  # by id

    def last_checkpoint(self) -> str:
        """The newest event of a checkpoint, such as "checkpoint at 55,200 frames (stopped)"; "" before the first."""
        written = (event for event in reversed(self.events()) if event["kind"] == "checkpoint" and event["data"])
        return next((event["message"] for event in written), "")

    @_decoding
    def distribution(self, name: str) -> dict[str, Any] | None:
        """The newest histogram of that name: edges float64 [N+1], counts int64 [N], frames ... time_s; or None."""
        rows = self._rows(f"SELECT edges, counts, {', '.join(COUNTERS)} FROM distributions WHERE name = ?", name)
        if not rows:
            return None
        edges, counts, *progress = rows[0]
        bins = {"edges": np.array(json.loads(edges), np.float64), "counts": np.array(json.loads(counts), np.int64)}
        return {**bins, **dict(zip(COUNTERS, progress, strict=True))}

    @_decoding
    def status(self) -> tuple[dict[str, Any], float] | None:
        """The last known status and when it was stored (unix, s), or None."""
        rows = self._rows("SELECT status, time FROM status LIMIT 1")
        return (dict(json.loads(rows[0][0])), float(rows[0][1])) if rows else None

    def _rows(self, query: str, *parameters: Any) -> list[Any]:
        with schema.reading(self._path) as connection:
            return [] if connection is None else connection.execute(query, parameters).fetchall()


def _event(row: dict[str, Any]) -> dict[str, Any]:
    """The event with its values as plain types. Raises ValueError, TypeError."""
    if not 0 <= row["time"] < 2**33:
        raise ValueError(f"an event at {row['time']!r:.50} s")
    progress = {name: None if row[name] is None else float(row[name]) if name == "time_s" else int(row[name])
                for name in COUNTERS}
    return {**row, **progress, "id": int(row["id"]), "time": float(row["time"]), "kind": str(row["kind"]),
            "message": str(row["message"]), "data": dict(decoded(row["data"]))}
