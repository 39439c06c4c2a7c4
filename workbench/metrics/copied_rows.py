"""A run's history in pieces, for a copy of it on another machine: rows beyond the copy's marks, and their addition.

`rows_since` reads beside the run, `add` writes into the copy, and `marks` says how far the copy is. JSON data is sent;
rollups are made again from the rows. A history that was replaced by another one begins anew (`anew`).
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench.errors import StorageFailed
from workbench.metrics import schema, series
from workbench.metrics.schema import COUNTERS

MOST_ROWS = 20_000  # of all tables in one answer
_MOST_AT_ONCE = {"events": 500}  # which may hold long tracebacks
_MOST_NAMES = 10_000
_LONGEST_NAME = 1000
_LONGEST_TEXT = 2**22
_PROGRESS = ", ".join(COUNTERS)
_COLUMNS = {  # of the tables whose rows have an id
    "events": f"id, time, kind, message, {_PROGRESS}, data",
    "episodes": f"id, {_PROGRESS}, kind, env_id, episode_return, length_steps, score",
}
_KINDS = {"events": "nnttoooot", "episodes": "nnnnntnono"}  # of values: number, text; o: a number or nothing
_DISTRIBUTION = f"name, {_PROGRESS}, edges, counts"
_Rows = list[list[Any]]


def marks(path: Path) -> dict[str, Any]:
    """How far a copy is: {"series": rows by name, "events": last id, "episodes": last id, "first": time of its first
    event, or None}. Raises StorageFailed."""
    with schema.reading(path) as connection, schema.decoding(path):
        if connection is None:
            return {"series": {}, "events": 0, "episodes": 0, "first": None}
        return _marks(connection)


def _marks(connection: sqlite3.Connection) -> dict[str, Any]:
    ends = {table: connection.execute(f"SELECT max(id) FROM {table}").fetchone()[0] or 0 for table in _COLUMNS}
    first = connection.execute("SELECT time FROM events ORDER BY id LIMIT 1").fetchone()
    return {"series": series.lengths(connection), **ends, "first": first[0] if first else None}


def rows_since(path: Path, since: Mapping[str, Any], *, most: int = MOST_ROWS) -> dict[str, Any]:
    """What the history at `path` has beyond those marks, of one state of the file: at most about `most` rows.

    {"anew": whether these marks are of another history, "more": whether rows remain, "series", "events", "episodes",
    "distributions", "status": [age in s, JSON text] or None}. Raises StorageFailed.
    """
    with schema.reading(path) as connection, schema.decoding(path):
        if connection is None:
            return {"anew": False, "more": False, "series": {}, "events": [], "episodes": [], "distributions": [],
                    "status": None}
        now = _marks(connection)
        if _is_other(since, now):
            return {"anew": True}
        answer, left, more = dict[str, Any](), most, False
        for table, columns in _COLUMNS.items():  # events first: they say which rows were left behind
            limit = min(left, _MOST_AT_ONCE.get(table, left))
            answer[table] = connection.execute(
                f"SELECT {columns} FROM {table} WHERE id > ? ORDER BY id LIMIT ?", (since[table], limit)).fetchall()
            left -= len(answer[table])
            more |= len(answer[table]) == limit
        answer["series"] = {}
        for name, end in now["series"].items():
            if end > (first := since["series"].get(name, 0)) and left > 0:
                answer["series"][name] = series.raw(connection, name, first=first, most=left)
                left -= len(answer["series"][name])
        distributions = connection.execute(f"SELECT {_DISTRIBUTION} FROM distributions").fetchall() if left > 0 else []
        status = connection.execute("SELECT time, status FROM status LIMIT 1").fetchone()
        return {**answer, "anew": False, "more": more or left <= 0, "distributions": distributions,
                "status": [time.time() - status[0], status[1]] if status else None}


def _is_other(since: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether marks are of another history: of one with more rows, or another first event."""
    shorter = any(since[table] > now[table] for table in _COLUMNS)
    shorter |= any(end > now["series"].get(name, 0) for name, end in since["series"].items())
    return bool(shorter or (since["first"] is not None and since["first"] != now["first"]))


def add(connection: sqlite3.Connection, path: Path, answer: Mapping[str, Any]) -> None:
    """Add what `rows_since` answered to the copy at `path`, in one transaction.

    Raises StorageFailed, also for an answer that no run gives; nothing is added then.
    """
    try:
        checked = _checked(answer)
    except (KeyError, TypeError, ValueError) as error:
        raise StorageFailed(f"the history that was sent for {path} is none, and not added: {error!r:.200}.") from None
    with schema.writing(connection, path), schema.decoding(path):
        for name, rows in checked["series"].items():
            series.append(connection, name, [tuple(row) for row in rows])
        for table, columns in _COLUMNS.items():
            places = ", ".join("?" * len(columns.split(", ")))
            connection.executemany(f"INSERT OR REPLACE INTO {table} ({columns}) VALUES ({places})", checked[table])
        connection.executemany(f"INSERT OR REPLACE INTO distributions ({_DISTRIBUTION}) VALUES (?, ?, ?, ?, ?, ?, ?)",
                               checked["distributions"])
        if checked["status"]:
            age_s, text = checked["status"]
            connection.execute("INSERT OR REPLACE INTO status VALUES (1, ?, ?)", (time.time() - max(0.0, age_s), text))


def _checked(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The answer, if its values have the types and sizes that a run writes. Raises KeyError, TypeError, ValueError."""
    named = dict(answer["series"])
    if len(named) > _MOST_NAMES or any(not 0 < len(name) <= _LONGEST_NAME for name in named):
        raise ValueError("too many series, or too long a name")
    status = answer["status"]
    if status is not None:
        _check([status], "nt")
    tables = {table: _check(answer[table], kinds) for table, kinds in _KINDS.items()}
    return {"series": {name: _check(rows, "nnnno") for name, rows in named.items()}, **tables, "status": status,
            "distributions": _check(answer["distributions"], "tnnnntt")}


def _check(rows: Any, kinds: str) -> _Rows:
    """Rows whose values are of those kinds. Raises TypeError, ValueError."""
    checked = [list(row) for row in rows]
    if len(checked) > 2 * MOST_ROWS:
        raise ValueError(f"{len(checked):,} rows at once")
    for row in checked:
        if len(row) != len(kinds) or not all(map(_is_of, row, kinds)):
            raise ValueError(f"a row {row!r:.100}")
    return checked


def _is_of(value: Any, kind: str) -> bool:
    if kind == "t":
        return type(value) is str and len(value) <= _LONGEST_TEXT
    if value is None:
        return kind == "o"
    return type(value) is float or (type(value) is int and abs(value) < 2**63)
