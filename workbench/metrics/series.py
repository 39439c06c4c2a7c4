"""One metric's rows: appended with their rollups, and read back thinned out so that every extreme is kept.

A rollup of level k holds the smallest and the largest of 64ᵏ consecutive rows (k = 1, 2) and where they are; one of
level 1 also the sum of those that are finite, and their number. Reading N points of a long series reads at most about
64 N rollups, picks rows by them, and then reads those rows alone; what the points stand for is summed up from rollups
and the rows beside them.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.metrics.schema import has_column

Row = tuple[int, int, int, float, float]  # frames, steps, updates, time_s, value
Array = npt.NDArray[Any]
Series = dict[str, Array]
Range = tuple[int, int, int]  # place of a point, first and last row or rollup

_WIDTH = 64  # rows, or rollups of the level below, per rollup
_LEVELS = (1, 2)
_SUM_OF_ROWS = """SELECT count(value), total(value) FROM metrics
    WHERE name_id = ? AND row BETWEEN ? AND ? AND abs(value) < 9e999"""
_SUM_OF_ROLLUPS = """SELECT total(number), total(total) FROM rollups
    WHERE name_id = ? AND level = 1 AND bucket BETWEEN ? AND ?"""
_SELECT = "SELECT frames, steps, updates, time_s, value FROM metrics WHERE name_id = ?"


def append(connection: sqlite3.Connection, name: str, rows: Sequence[Row]) -> None:
    """Append rows to a series, inside the caller's transaction."""
    connection.execute("INSERT OR IGNORE INTO names (name) VALUES (?)", (name,))
    name_id = _name_id(connection, name)
    first = _last_row(connection, name_id) + 1
    connection.executemany(
        "INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?, ?)",
        ((name_id, number, *row) for number, row in enumerate(rows, first)),
    )
    for level in _LEVELS:
        _roll_up(connection, name_id, level, first, first + len(rows))


def _roll_up(connection: sqlite3.Connection, name_id: int | None, level: int, first: int, end: int) -> None:
    """Store the rollups that the rows first ... end-1 have completed."""
    width = _WIDTH**level
    for bucket in range(first // width, end // width):
        below = _candidates(connection, name_id, level - 1, bucket * _WIDTH, (bucket + 1) * _WIDTH)
        low_row, low = min(((row, low) for row, low, _, _ in below), key=lambda pair: _ordered(pair[1], math.inf))
        high_row, high = max(((row, high) for _, _, row, high in below), key=lambda pair: _ordered(pair[1], -math.inf))
        connection.execute(
            """INSERT INTO rollups (name_id, level, bucket, low_row, low, high_row, high, number, total)
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)""",
            (name_id, level, bucket, low_row, low, high_row, high,
             *(_summed(below) if level == 1 else (None, None))),
        )


def _summed(rows: list[Any]) -> tuple[int, float]:
    """How many of these rows are finite, and their sum."""
    values = [value for _, value, *_ in rows if value is not None and math.isfinite(value)]
    return len(values), float(sum(values))


def _ordered(value: float | None, instead: float) -> float:
    return instead if value is None else value


def read(
    connection: sqlite3.Connection, name: str, *, since_update: int | None = None, max_points: int | None = None
) -> Series:
    """Arrays frames, steps, updates (int64), time_s, value (float64), in the order in which they came.

    Args:
        since_update: only what came after the last row whose `updates` is at most this.
        max_points: at most so many points (but 4): the first, the last, and the smallest and largest of equal
            stretches, each at its own place, so that no peak is lost or moved.
    """
    name_id = _name_id(connection, name)
    first, last = _first_row(connection, name_id, since_update), _last_row(connection, name_id)
    if max_points is None or last - first < max_points:
        rows = connection.execute(f"{_SELECT} AND row >= ? ORDER BY row", (name_id, first))
    else:
        picked = json.dumps(_pick(connection, name_id, first, last + 1, max(1, max_points // 2 - 1)))
        rows = connection.execute(
            f"{_SELECT} AND row IN (SELECT value FROM json_each(?)) ORDER BY row", (name_id, picked)
        )
    return _arrays(rows)


def newer(connection: sqlite3.Connection, name: str, *, first: int, max_points: int) -> tuple[Series, Array]:
    """The rows from number `first` on, and their numbers, int64; more than `max_points` are thinned out, as by `read`,
    to half as many, so that there is room for what comes.

    Each stands for those before it that were left out, and for itself: `count` of them (int64) have a finite value,
    and `mean` (float64) is their mean, NaN where there is none.
    """
    name_id = _name_id(connection, name)
    last = _last_row(connection, name_id)
    if last - first < max_points:
        numbers = np.arange(first, last + 1)
        found = _arrays(connection.execute(f"{_SELECT} AND row >= ? ORDER BY row", (name_id, first)))
        finite = np.isfinite(found["value"])
        return {**found, "count": finite.astype(np.int64), "mean": np.where(finite, found["value"], np.nan)}, numbers
    picked = _pick(connection, name_id, first, last + 1, max(1, max_points // 4 - 1))
    rows = connection.execute(
        f"{_SELECT} AND row IN (SELECT value FROM json_each(?)) ORDER BY row", (name_id, json.dumps(picked))
    )
    return {**_arrays(rows), **_stood_for(connection, name_id, first, picked)}, np.array(picked, np.int64)


def _stood_for(connection: sqlite3.Connection, name_id: int | None, first: int, picked: list[int]) -> Series:
    """`count` and `mean` of `newer`: from the sums of rollups of 64 rows, and the rows before and after those."""
    rows, rollups, summed = list[Range](), list[Range](), _has_sums(connection, name_id)
    for at, (begin, end) in enumerate(zip([first, *(row + 1 for row in picked[:-1])], picked, strict=True)):
        low, high = -(-begin // _WIDTH), (end + 1) // _WIDTH  # rollups low ... high-1 lie within
        if summed and low < high:
            rollups.append((at, low, high - 1))
            rows += [(at, *ends) for ends in ((begin, low * _WIDTH - 1), (high * _WIDTH, end)) if ends[0] <= ends[1]]
        else:
            rows.append((at, begin, end))
    found = np.zeros((2, len(picked)))
    for query, ranges in ((_SUM_OF_ROWS, rows), (_SUM_OF_ROLLUPS, rollups)):
        for at, low, high in ranges:
            found[:, at] += connection.execute(query, (name_id, low, high)).fetchone()
    count, total = found
    mean = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return {"count": count.astype(np.int64), "mean": mean}


def _has_sums(connection: sqlite3.Connection, name_id: int | None) -> bool:
    """Whether all rollups of 64 rows say what they sum up to; those of older versions don't."""
    if not has_column(connection, "rollups", "total"):
        return False
    query = "SELECT 1 FROM rollups WHERE name_id = ? AND level = 1 AND number IS NULL LIMIT 1"
    return connection.execute(query, (name_id,)).fetchone() is None


def joined(found: Series, kept: Array) -> Series:
    """Of rows as `newer` returns them, those at the indices `kept`, the last among them, standing for the others."""
    starts = np.concatenate([[0], kept[:-1] + 1])
    count = np.add.reduceat(found["count"], starts)
    total = np.add.reduceat(np.where(found["count"] > 0, found["count"] * found["mean"], 0.0), starts)
    mean = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return {**{name: column[kept] for name, column in found.items()}, "count": count, "mean": mean}


def thinned(numbers: Array, values: Array, *, max_points: int) -> Array:
    """Which of the rows to keep, as indices: at most `max_points`, the first, the last, and the extremes between.

    `numbers`: of the rows in their series; the stretches are equal in these, so that thinning again and again what has
    grown keeps the whole series equally fine.
    """
    if len(numbers) <= max_points:
        return np.arange(len(numbers))
    found = np.stack([numbers, values, numbers, values]).astype(np.float64)
    rows = _extremes(found, int(numbers[0]), int(numbers[-1]) + 1, max(1, max_points // 2 - 1))
    return np.searchsorted(numbers, rows)


def means(connection: sqlite3.Connection, name: str, *, points: int) -> Series:
    """At most so many points, float64: the means of stretches of equally many rows, so that no value is left out."""
    name_id = _name_id(connection, name)
    rows = connection.execute(
        """SELECT avg(frames), avg(steps), avg(updates), avg(time_s), avg(value) FROM metrics
           WHERE name_id = :id GROUP BY row * :points / :all ORDER BY min(row)""",
        {"id": name_id, "points": points, "all": max(points, _last_row(connection, name_id) + 1)},
    )
    columns = np.array(list(rows), dtype=np.float64).reshape(-1, 5).T
    return dict(zip(("frames", "steps", "updates", "time_s", "value"), columns, strict=True))


def empty() -> Series:
    """A series without points."""
    return _arrays(())


def _arrays(rows: Iterable[Row]) -> Series:
    # A double holds whole numbers up to 9e15 exactly; total_frames is at most 1e13.
    columns = np.array(list(rows), dtype=np.float64).reshape(-1, 5).T
    names = ("frames", "steps", "updates", "time_s", "value")
    return {name: column.astype(np.int64 if at < 3 else np.float64) for at, (name, column) in
            enumerate(zip(names, columns, strict=True))}


def _name_id(connection: sqlite3.Connection, name: str) -> int | None:
    found = connection.execute("SELECT id FROM names WHERE name = ?", (name,)).fetchone()
    return found[0] if found else None


def _last_row(connection: sqlite3.Connection, name_id: int | None) -> int:
    last = connection.execute("SELECT max(row) FROM metrics WHERE name_id = ?", (name_id,)).fetchone()[0]
    return -1 if last is None else last


def _first_row(connection: sqlite3.Connection, name_id: int | None, since_update: int | None) -> int:
    if since_update is None:
        return 0
    query = "SELECT row FROM metrics WHERE name_id = ? AND updates <= ? ORDER BY row DESC LIMIT 1"
    found = connection.execute(query, (name_id, int(since_update))).fetchone()  # walks back over the new rows only
    return found[0] + 1 if found else 0


def _pick(connection: sqlite3.Connection, name_id: int | None, first: int, end: int, buckets: int) -> list[int]:
    """The rows to keep of first ... end-1: both ends, and the extremes of `buckets` equal stretches."""
    found = np.array(_cover(connection, name_id, first, end, buckets), dtype=np.float64).T
    return [int(row) for row in _extremes(found, first, end, buckets)]


def _extremes(found: Array, first: int, end: int, buckets: int) -> Array:
    """Both ends, and of each stretch the rows with its extremes; `found`: low_row, low, high_row, high in columns."""
    low_row, low, high_row, high = found
    stretch = (low_row - first) * buckets // (end - first)
    starts = np.flatnonzero(np.diff(stretch, prepend=-1))
    lowest = np.lexsort((np.nan_to_num(low, nan=np.inf, posinf=np.inf, neginf=-np.inf), stretch))[starts]
    highest = np.lexsort((-np.nan_to_num(high, nan=-np.inf, posinf=np.inf, neginf=-np.inf), stretch))[starts]
    picked: Array = np.unique(np.concatenate([[first, end - 1], low_row[lowest], high_row[highest]]))
    return picked.astype(np.int64)


def _cover(connection: sqlite3.Connection, name_id: int | None, first: int, end: int, buckets: int) -> list[Any]:
    """Extremes of the rows first ... end-1 by the coarsest rollups that are still twice as fine as the buckets."""
    level = max((level for level in (0, *_LEVELS) if end - first >= 2 * buckets * _WIDTH**level), default=0)
    width = _WIDTH**level
    begin, stop = -(-first // width), end // width
    return [
        *_candidates(connection, name_id, 0, first, begin * width),
        *_candidates(connection, name_id, level, begin, stop),
        *_candidates(connection, name_id, 0, stop * width, end),
    ]


def _candidates(connection: sqlite3.Connection, name_id: int | None, level: int, begin: int, stop: int) -> list[Any]:
    """(low_row, low, high_row, high) of the rollups begin ... stop-1 of a level; level 0 is the rows themselves."""
    if level == 0:
        query = "SELECT row, value, row, value FROM metrics WHERE name_id = ? AND row >= ? AND row < ? ORDER BY row"
        return connection.execute(query, (name_id, begin, stop)).fetchall()
    query = """SELECT low_row, low, high_row, high FROM rollups
               WHERE name_id = ? AND level = ? AND bucket >= ? AND bucket < ? ORDER BY bucket"""
    return connection.execute(query, (name_id, level, begin, stop)).fetchall()
