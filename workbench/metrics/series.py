"""One metric's rows: appended with their rollups, and read back thinned out so that every extreme is kept.

A rollup of level k holds the smallest and the largest of 64ᵏ consecutive rows (k = 1, 2) and their places; at level 1
also the number and the sum of the finite ones. Reading N points of a long series reads at most about 64 N rollups,
chooses rows by them, and then reads these rows alone. Counts and means come from rollups and the rows beside them.

A learner that begins again at an older checkpoint leaves rows behind that do not lead to the run as it is now. They
stay in the file, and its "restore" event says which they are (`lengths`); reading leaves them out: no curve goes back.
"""

from __future__ import annotations

import bisect
import itertools
import json
import math
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.metrics.schema import COUNTERS

Row = tuple[int, int, int, float, float]  # frames, steps, updates, time_s, value
Array = npt.NDArray[Any]
Series = dict[str, Array]
Course = list[tuple[int, int]]  # rows that lead to the run as it is now: first and end of each stretch, in order

_WIDTH = 64  # rows, or rollups of the level below, per rollup
_LEVELS = (1, 2)
_MOST_RESTORES = 500  # newest ones; SQLite takes a condition of about a thousand parts
_RESTORES = """SELECT length.key, event.frames, event.updates, length.value
    FROM events AS event, json_each(event.data, '$.rows') AS length
    WHERE event.kind = 'restore' AND length.key IN (SELECT value FROM json_each(?)) AND length.type = 'integer'
        AND typeof(event.frames) = 'integer' AND typeof(event.updates) = 'integer'
    ORDER BY event.id DESC LIMIT ?"""
_ROW = (*COUNTERS, "value")
_MOST_ROWS = 2**53
_ALL: Course = [(0, _MOST_ROWS)]
_NOT_AHEAD = "updates <= ? AND frames <= ?"
_OF_EPISODES = ("episode_", "evaluation_")  # those of other learners arrive up to a second late
_MOST_LATE = 4096  # rows
_SUM_OF_ROWS = """SELECT count(value), total(value) FROM metrics
    WHERE name_id = ? AND row BETWEEN ? AND ? AND abs(value) < 9e999"""
_SUM_OF_ROLLUPS = """SELECT total(number), total(total) FROM rollups
    WHERE name_id = ? AND level = 1 AND bucket BETWEEN ? AND ?"""
_OF_PIECES = """FROM json_each(:pieces) AS piece CROSS JOIN metrics ON name_id = :id
    AND row >= json_extract(piece.value, '$[0]') AND row < json_extract(piece.value, '$[1]')"""


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
        low_row, low = min(((row, low) for row, low, _, _ in below), key=lambda pair: _key(pair[1], math.inf))
        high_row, high = max(((row, high) for _, _, row, high in below), key=lambda pair: _key(pair[1], -math.inf))
        connection.execute(
            """INSERT INTO rollups (name_id, level, bucket, low_row, low, high_row, high, number, total)
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)""",
            (name_id, level, bucket, low_row, low, high_row, high,
             *(_number_and_total(below) if level == 1 else (None, None))),
        )


def _number_and_total(rows: list[Any]) -> tuple[int, float]:
    """The number of finite values of these rows, and their sum."""
    values = [value for _, value, *_ in rows if value is not None and math.isfinite(value)]
    return len(values), float(sum(values))


def _key(value: float | None, missing: float) -> float:
    return missing if value is None else value


def read(connection: sqlite3.Connection, name: str, *, max_points: int | None = None) -> Series:
    """Arrays frames, steps, updates (int64), time_s, value (float64) by arrival; see `MetricsReader.series`."""
    name_id, course = _name_id(connection, name), courses(connection, {name: 0})[name]
    pieces = _pieces(course, 0, _last_row(connection, name_id) + 1)
    if max_points is not None and _number(pieces) > max_points:
        pieces = [(row, row + 1) for row in _pick(connection, name_id, pieces, max(1, max_points // 2 - 1))]
    return _rows(connection, name_id, pieces)[0]


def raw(connection: sqlite3.Connection, name: str, *, first: int, most: int) -> list[Row]:
    """The rows from number `first` on as they were appended, at most `most`, those that were left behind too."""
    return connection.execute(
        """SELECT frames, steps, updates, time_s, value FROM metrics WHERE name_id = ? AND row >= ?
           ORDER BY row LIMIT ?""", (_name_id(connection, name), first, most)).fetchall()


def lengths(connection: sqlite3.Connection) -> dict[str, int]:
    """How many rows each series has: for the event of a restore, which leaves some of them behind."""
    return {str(name): _last_row(connection, name_id) + 1
            for name_id, name in connection.execute("SELECT id, name FROM names").fetchall()}


def courses(connection: sqlite3.Connection, since: Mapping[str, int]) -> dict[str, Course]:
    """The rows of each series, from number `since[name]` on, that no restore left behind: a restore leaves those of
    more updates or more frames than its checkpoint has."""
    restores = {name: list[tuple[int, int, int]]() for name in since}  # newest first
    rows = connection.execute(_RESTORES, (json.dumps(list(since)), _MOST_RESTORES * len(since))).fetchall()
    for name, frames, updates, length in rows:
        restores[name].append((length, updates, frames))
    return {name: _course(connection, name, of[:_MOST_RESTORES]) if of and of[0][0] > since[name] else _ALL
            for name, of in restores.items()}


def _course(connection: sqlite3.Connection, name: str, restores: list[tuple[int, int, int]]) -> Course:
    """What is left after restores, newest first, each told by the rows before it, and its updates and frames.

    Of a life's rows are left those that no later restore is behind.
    """
    name_id, late = _name_id(connection, name), _MOST_LATE if name.startswith(_OF_EPISODES) else 0
    pieces, most = [[(restores[0][0], _MOST_ROWS)]], (_MOST_ROWS, _MOST_ROWS)
    for (length, updates, frames), (first, *_) in itertools.pairwise([*restores, (0,)]):
        most = min(most[0], updates), min(most[1], frames)
        pieces.append(_kept(connection, name_id, first, length, most, late=late))
    return list(itertools.chain.from_iterable(reversed(pieces)))


def _kept(
    connection: sqlite3.Connection, name_id: int | None, first: int, end: int, most: tuple[int, int], *, late: int
) -> Course:
    """Of the rows first ... end-1 of one life those that are not ahead of these updates and frames.

    `late`: so many rows away from their place some may be; without any, all before the first that is ahead.
    """
    query = f"SELECT row FROM metrics WHERE name_id = ? AND row BETWEEN ? AND ? AND {_NOT_AHEAD} ORDER BY row"
    low, high = first, end
    while low < high:
        middle = (low + high) // 2
        if connection.execute(query, (name_id, middle, middle, *most)).fetchone() is None:
            high = middle
        else:
            low = middle + 1
    begin, stop = max(first, low - late), min(end, low + late)
    rows = connection.execute(query, (name_id, begin, stop - 1, *most)).fetchall() if late else []
    kept = [(first, begin)] if first < begin else []
    for (row,) in rows:
        if kept and kept[-1][1] == row:
            kept[-1] = kept[-1][0], row + 1
        else:
            kept.append((row, row + 1))
    return kept


def _pieces(course: Course, first: int, end: int) -> Course:
    """The course within the rows first ... end-1."""
    clipped = ((max(begin, first), min(stop, end)) for begin, stop in course)
    return [(begin, stop) for begin, stop in clipped if begin < stop]


def _number(pieces: Course) -> int:
    return sum(end - first for first, end in pieces)


def newer(
    connection: sqlite3.Connection, name: str, *, course: Course, first: int, max_points: int
) -> tuple[Series, Array]:
    """The rows from number `first` on, and their numbers, int64. More than `max_points` are thinned out as by `read`,
    to half of that, which leaves room for later rows.

    Each stands for itself and for the rows left out before it: `count` (int64) of them have a finite value, and `mean`
    (float64) is the mean of these, NaN without any.

    Args:
        course: of `courses`.
    """
    name_id = _name_id(connection, name)
    pieces = _pieces(course, first, _last_row(connection, name_id) + 1)
    if _number(pieces) <= max_points:
        rows, numbers = _rows(connection, name_id, pieces)
        finite = np.isfinite(rows["value"])
        return {**rows, "count": finite.astype(np.int64), "mean": np.where(finite, rows["value"], np.nan)}, numbers
    points = _pick(connection, name_id, pieces, max(1, max_points // 4 - 1))
    rows, numbers = _rows(connection, name_id, [(row, row + 1) for row in points])
    return {**rows, **_counts_and_means(connection, name_id, pieces, points)}, numbers


def following(
    connection: sqlite3.Connection, name: str, *, course: Course, first: int, most: int
) -> tuple[Series, Array, int, bool]:
    """Rows of the `most` from number `first` on, all of them; their numbers, int64; the number after the last of them,
    also of one that was left behind; and whether there are more."""
    name_id = _name_id(connection, name)
    end = _last_row(connection, name_id) + 1
    stop = min(first + most, end)
    rows, numbers = _rows(connection, name_id, _pieces(course, first, stop))
    return rows, numbers, max(first, stop), first + most < end


def _rows(connection: sqlite3.Connection, name_id: int | None, pieces: Course) -> tuple[Series, Array]:
    """A series' rows of these pieces, and their numbers, int64."""
    rows = connection.execute(f"SELECT frames, steps, updates, time_s, metrics.value, row {_OF_PIECES} ORDER BY row",
                              {"pieces": json.dumps(pieces), "id": name_id}).fetchall()
    return _arrays(row[:-1] for row in rows), np.array([row[-1] for row in rows], np.int64)


def _counts_and_means(
    connection: sqlite3.Connection, name_id: int | None, pieces: Course, points: list[int]
) -> Series:
    """`count` and `mean` of `newer`: from the sums of rollups of 64 rows, and the rows before and after those."""
    sums = np.zeros((2, len(points)))

    def add(query: str, at: int, first: int, end: int) -> None:
        if first < end:
            sums[:, at] += connection.execute(query, (name_id, first, end - 1)).fetchone()

    firsts = [first for first, _ in pieces]
    for at, (before, point) in enumerate(itertools.pairwise([-1, *points])):
        among = pieces[max(0, bisect.bisect_right(firsts, before) - 1) : bisect.bisect_right(firsts, point)]
        for begin, stop in _pieces(among, before + 1, point + 1):
            low, high = -(-begin // _WIDTH), stop // _WIDTH  # rollups low ... high-1 lie within
            if low < high:
                add(_SUM_OF_ROWS, at, begin, low * _WIDTH)
                add(_SUM_OF_ROLLUPS, at, low, high)
                add(_SUM_OF_ROWS, at, high * _WIDTH, stop)
            else:
                add(_SUM_OF_ROWS, at, begin, stop)
    count, total = sums
    mean = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return {"count": count.astype(np.int64), "mean": mean}


def merged(rows: Series, indices: Array) -> Series:
    """The rows (as `newer` returns them) at `indices`, the last row included; each also stands for those before it."""
    starts = np.concatenate([[0], indices[:-1] + 1])
    count = np.add.reduceat(rows["count"], starts)
    total = np.add.reduceat(np.where(rows["count"] > 0, rows["count"] * rows["mean"], 0.0), starts)
    mean = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return {**{name: column[indices] for name, column in rows.items()}, "count": count, "mean": mean}


def thinned(numbers: Array, values: Array, *, max_points: int) -> Array:
    """Indices of the rows to keep: at most `max_points`, the first, the last, and the extremes between.

    Equal stretches are stretches of equal row `numbers`, so that a series that grows and is thinned again stays equally
    fine in all its parts.
    """
    if len(numbers) <= max_points:
        return np.arange(len(numbers))
    extremes = np.stack([numbers, values, numbers, values]).astype(np.float64)
    rows = _extremes(extremes, int(numbers[0]), int(numbers[-1]) + 1, max(1, max_points // 2 - 1))
    return np.searchsorted(numbers, rows)


def means(connection: sqlite3.Connection, name: str, *, points: int) -> Series:
    """At most that many points, float64: the means of stretches of equally many rows."""
    name_id = _name_id(connection, name)
    number = _last_row(connection, name_id) + 1
    pieces = _pieces(courses(connection, {name: 0})[name], 0, number)
    rows = connection.execute(
        f"""SELECT avg(frames), avg(steps), avg(updates), avg(time_s), avg(metrics.value) {_OF_PIECES}
           GROUP BY row * :points / :all ORDER BY min(row)""",
        {"pieces": json.dumps(pieces), "id": name_id, "points": points, "all": max(points, number)},
    )
    columns = np.array(list(rows), dtype=np.float64).reshape(-1, 5).T
    return dict(zip(_ROW, columns, strict=True))


def empty() -> Series:
    """A series without points."""
    return _arrays(())


def _arrays(rows: Iterable[Row]) -> Series:
    # A double holds whole numbers up to 9e15 exactly; total_frames is at most 1e13.
    columns = np.array(list(rows), dtype=np.float64).reshape(-1, 5).T
    with np.errstate(invalid="ignore"):  # a stranger's counts may be beyond any integer
        return {name: column.astype(np.int64 if at < 3 else np.float64) for at, (name, column) in
                enumerate(zip(_ROW, columns, strict=True))}


def _name_id(connection: sqlite3.Connection, name: str) -> int | None:
    row = connection.execute("SELECT id FROM names WHERE name = ?", (name,)).fetchone()
    return row[0] if row else None


def _last_row(connection: sqlite3.Connection, name_id: int | None) -> int:
    last = connection.execute("SELECT max(row) FROM metrics WHERE name_id = ?", (name_id,)).fetchone()[0]
    if last is not None and not (type(last) is int and 0 <= last < _MOST_ROWS):
        raise ValueError(f"a series has a row numbered {last!r:.50}")
    return -1 if last is None else last


def _pick(connection: sqlite3.Connection, name_id: int | None, pieces: Course, buckets: int) -> list[int]:
    """The rows to keep of these pieces: both ends, and the extremes of `buckets` equal stretches.

    They are found by the coarsest rollups that are at least twice as fine as the stretches.
    """
    if not pieces:
        return []
    number = _number(pieces)
    level = max((level for level in (0, *_LEVELS) if number >= 2 * buckets * _WIDTH**level), default=0)
    cover = [row for piece in pieces for row in _cover(connection, name_id, *piece, level)]
    extremes = np.array(cover, dtype=np.float64).T
    # by their places among the rows of the pieces, so that a gap between them takes no stretch
    firsts = np.array([first for first, _ in pieces])
    before = np.cumsum([0, *(end - first for first, end in pieces)])[:-1]
    for rows in (extremes[0], extremes[2]):
        piece = np.searchsorted(firsts, rows, "right") - 1
        rows += before[piece] - firsts[piece]
    places = _extremes(extremes, 0, number, buckets)
    piece = np.searchsorted(before, places, "right") - 1
    return [int(row) for row in places - before[piece] + firsts[piece]]


def _extremes(extremes: Array, first: int, end: int, buckets: int) -> Array:
    """Both ends, and the rows with the extremes of each stretch; `extremes`: arrays low_row, low, high_row, high."""
    low_row, low, high_row, high = extremes
    stretch = (low_row - first) * buckets // (end - first)
    starts = np.flatnonzero(np.diff(stretch, prepend=-1))
    lowest = np.lexsort((np.nan_to_num(low, nan=np.inf, posinf=np.inf, neginf=-np.inf), stretch))[starts]
    highest = np.lexsort((-np.nan_to_num(high, nan=-np.inf, posinf=np.inf, neginf=-np.inf), stretch))[starts]
    rows: Array = np.unique(np.concatenate([[first, end - 1], low_row[lowest], high_row[highest]]))
    return rows.astype(np.int64)


def _cover(connection: sqlite3.Connection, name_id: int | None, first: int, end: int, level: int) -> list[Any]:
    """Extremes of the rows first ... end-1, by rollups of that level, and by finer ones before and after those."""
    width = _WIDTH**level
    begin, stop = -(-first // width), end // width
    if level and begin + 1 >= stop:  # a single one saves nothing
        return _cover(connection, name_id, first, end, level - 1)
    return [
        *(_cover(connection, name_id, first, begin * width, level - 1) if level else ()),
        *_candidates(connection, name_id, level, begin, stop),
        *(_cover(connection, name_id, stop * width, end, level - 1) if level else ()),
    ]


def _candidates(connection: sqlite3.Connection, name_id: int | None, level: int, begin: int, stop: int) -> list[Any]:
    """(low_row, low, high_row, high) of the rollups begin ... stop-1 of a level; level 0 is the rows themselves."""
    if level == 0:
        query = "SELECT row, value, row, value FROM metrics WHERE name_id = ? AND row >= ? AND row < ? ORDER BY row"
        return connection.execute(query, (name_id, begin, stop)).fetchall()
    query = """SELECT low_row, low, high_row, high FROM rollups
               WHERE name_id = ? AND level = ? AND bucket >= ? AND bucket < ? ORDER BY bucket"""
    return connection.execute(query, (name_id, level, begin, stop)).fetchall()
