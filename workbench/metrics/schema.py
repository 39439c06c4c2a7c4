"""The tables of metrics.sqlite, and connections to it that fail with a clear error.

A series is the rows of one name in `metrics`, numbered 0, 1, 2, ... without gaps in the order in which they came, so
that they lie side by side on disk. `rollups` holds the smallest and largest of each 64 and each 4096 of them, and of
each 64 how many are finite (`number`) with which sum (`total`); both are NULL in what older versions wrote.
A value that is not a number is stored as NULL.
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.errors import StorageFailed, WorkbenchError
from workbench.rundir import RunDirectory
from workbench.rundir.files import opened

VERSION = 1
_OPEN_TIMEOUT_S = 30.0
WRITER_TIMEOUT_S = 5.0  # for other writers; then training waits, and says for what
_READER_TIMEOUT_S = 10.0
_LONGEST_READ_S = 10.0  # of this thread's processor, for one question to a file
_LOOK_EVERY = 100_000  # instructions of SQLite
# functions that SQLite would call for each row that is written
_COMPUTES = re.compile(r"\bCHECK\s*\([^)]*\(|\bDEFAULT\s*\(", re.IGNORECASE)
_OF_EXPRESSIONS = re.compile(r"\(.*\(|\bWHERE\b", re.IGNORECASE | re.DOTALL)
_OF_SEVERAL = bytes.fromhex("d9d505f920a163d7")  # sqlite.org/fileformat2.html, "the rollback journal"
_LONGEST_VALUE = 2**22  # bytes of one value
_MOST_READ = 2**31  # bytes of what one connection reads; rows of a damaged file can share their pages
_MOST_TEXT = 2**27  # bytes of the values of a table, where rows are bounded
_NUMBER_BYTES = 32  # in memory, with its place in a row
_MOST_TABLES = 200  # and indices; Optuna's file has some 30

_TABLES = (
    "CREATE TABLE names (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
    """CREATE TABLE metrics (name_id INTEGER, row INTEGER, frames INTEGER, steps INTEGER, updates INTEGER, time_s REAL,
       value REAL, PRIMARY KEY (name_id, row)) WITHOUT ROWID""",
    """CREATE TABLE rollups (name_id INTEGER, level INTEGER, bucket INTEGER, low_row INTEGER, low REAL,
       high_row INTEGER, high REAL, number INTEGER, total REAL, PRIMARY KEY (name_id, level, bucket)) WITHOUT ROWID""",
    """CREATE TABLE episodes (id INTEGER PRIMARY KEY, frames INTEGER, steps INTEGER, updates INTEGER, time_s REAL,
       kind TEXT, env_id INTEGER, episode_return REAL, length_steps INTEGER, score REAL)""",
    """CREATE TABLE events (id INTEGER PRIMARY KEY, time REAL, kind TEXT, message TEXT, frames INTEGER, steps INTEGER,
       updates INTEGER, time_s REAL, data TEXT)""",
    """CREATE TABLE distributions (name TEXT PRIMARY KEY, frames INTEGER, steps INTEGER, updates INTEGER, time_s REAL,
       edges TEXT, counts TEXT) WITHOUT ROWID""",
    "CREATE TABLE status (id INTEGER PRIMARY KEY CHECK (id = 1), time REAL, status TEXT)",
    f"PRAGMA user_version = {VERSION}",
)

_ADDED = (("episodes", "score", "REAL"), ("rollups", "number", "INTEGER"), ("rollups", "total", "REAL"))


@dataclass(frozen=True)
class Progress:
    """How far a run is: the abscissae of every metric.

    Attributes:
        frames: emulator frames, action repeats counted.
        steps: agent decisions.
        updates: optimizer steps.
        time_s: seconds of training, pauses excluded, continued over a resume.
    """

    frames: int
    steps: int
    updates: int
    time_s: float

    def columns(self) -> tuple[int, int, int, float]:
        """The four as plain numbers, in the order of the tables."""
        return int(self.frames), int(self.steps), int(self.updates), float(self.time_s)


def open_for_writing(path: Path, *, wait_s: float = WRITER_TIMEOUT_S) -> sqlite3.Connection:
    """A connection that writes, and waits that long for other writers; the file and its tables are made where missing.

    Raises StorageFailed.
    """
    with _failing_clearly("write", path):
        _check_plain(path)
        connection = sqlite3.connect(path, timeout=_OPEN_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            _check_schema(connection, path)  # a trigger of a stranger's would run with each row
            _set_journal(connection, "TRUNCATE" if RunDirectory(path.parent).certificate.exists() else "WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            with writing(connection, path):
                if _version(connection, path) == 0:
                    for statement in _TABLES:
                        connection.execute(statement)
                for table, column, kind in _ADDED:
                    if not has_column(connection, table, column):
                        connection.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")
            connection.execute(f"PRAGMA busy_timeout = {round(1000 * wait_s)}")
        except BaseException:
            connection.close()
            raise
        return connection


def has_column(connection: sqlite3.Connection, table: str, column: str) -> bool:
    """Whether a table has that column; older files lack the newer ones until somebody writes to them again."""
    return any(one[1] == column for one in connection.execute(f"PRAGMA table_info({table})"))


def _set_journal(connection: sqlite3.Connection, mode: str) -> None:
    """A write-ahead log is read through shared memory, which ends at this machine: runs on several do without it."""
    deadline = time.monotonic() + _OPEN_TIMEOUT_S
    while True:
        try:
            connection.execute(f"PRAGMA journal_mode = {mode}")
            return
        except sqlite3.OperationalError as error:  # the switch does not wait for other connections by itself
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


@contextmanager
def writing(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    """One transaction that waits for other writers first; all of it is stored, or none. Raises StorageFailed."""
    with _failing_clearly("write", path):
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # SQLite ends it by itself where the disk is full
                connection.execute("ROLLBACK")
            raise


@contextmanager
def reading(path: Path, *, most_rows: int | None = None) -> Iterator[sqlite3.Connection | None]:
    """One consistent view of the file, or None where nothing was stored yet; `most_rows`: that a table may have.

    Raises StorageFailed, also for a file that a stranger made, with other tables or without an end.
    """
    with _failing_clearly("read", path):
        connection = _open_for_reading(path) if path.exists() else None
        if connection is None:
            yield None
            return
        try:
            connection.execute("BEGIN")
            _check_schema(connection, path, most_rows)
            yield connection if _version(connection, path) else None
        finally:
            connection.close()


def check_tables(path: Path, *, most_rows: int) -> None:
    """Raises StorageFailed where a file of SQLite, a run's or another, has more than plain tables and indices, or
    a table of more than `most_rows` rows."""
    with reading(path, most_rows=most_rows):
        pass


def check_whole(path: Path) -> None:
    """Raises StorageFailed where the file was damaged on its way, or is no history of a run."""
    with reading(path) as connection:
        verdict = "it holds nothing" if connection is None else connection.execute("PRAGMA quick_check").fetchone()[0]
        if verdict != "ok":
            raise StorageFailed(f"{path} is damaged: {verdict!s:.200}.")


def _check_rows(connection: sqlite3.Connection, path: Path, table: str, most: int | None) -> None:
    if most is None:
        return
    name = table.replace('"', '""')
    if connection.execute(f'SELECT 1 FROM "{name}" LIMIT 1 OFFSET {most}').fetchone():  # quoted above
        raise StorageFailed(f"cannot read {path}: its table {table!r:.50} has more than {most:,} rows. {_MOVE_AWAY}")
    columns = connection.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall()
    lengths = " + ".join('total(length(CAST("{}" AS BLOB)))'.format(one.replace('"', '""')) for (one,) in columns)
    if connection.execute(f'SELECT {lengths} FROM "{name}"').fetchone()[0] > _MOST_TEXT:  # quoted above
        raise StorageFailed(f"cannot read {path}: the values of its table {table!r:.50} have more than "
                            f"{_MOST_TEXT:,} bytes. {_MOVE_AWAY}")


@contextmanager
def decoding(path: Path) -> Iterator[None]:
    """Around what takes values of the file for numbers, words or JSON. Raises StorageFailed where they are none."""
    try:
        yield
    except WorkbenchError:
        raise
    except (ValueError, TypeError, OverflowError, RecursionError, MemoryError) as error:
        why = f"it holds what no run writes ({error!r:.200})"
        raise StorageFailed(f"cannot read {path}: {why}. {_MOVE_AWAY}") from error


def _check_schema(connection: sqlite3.Connection, path: Path, most_rows: int | None = None) -> None:
    """Raises StorageFailed unless the file has plain tables and indices alone: what else there is could go on for ever.
    """
    found = connection.execute("SELECT type, name, sql FROM sqlite_schema LIMIT ?", (_MOST_TABLES + 1,)).fetchall()
    if len(found) > _MOST_TABLES:
        raise StorageFailed(f"cannot read {path}: it has more than {_MOST_TABLES} tables and indices. {_MOVE_AWAY}")
    for kind, name, sql in found:
        plain = kind == "index" or (kind == "table" and not str(sql).upper().startswith("CREATE VIRTUAL"))
        if plain and kind == "table":
            columns = connection.execute("SELECT hidden FROM pragma_table_xinfo(?)", (name,)).fetchall()
            plain = not any(hidden for (hidden,) in columns)  # of a generated column it is not 0
            plain &= not _COMPUTES.search(str(sql))
            _check_rows(connection, path, name, most_rows)
        elif plain:
            plain = not _OF_EXPRESSIONS.search(str(sql or ""))
        if not plain:
            raise StorageFailed(f"cannot read {path}: no run writes a {kind} such as {name!r:.50}. {_MOVE_AWAY}")


def _check_plain(path: Path) -> None:
    """Raises StorageFailed for a link, or a pipe or device, which SQLite would wait for, here or as its journal."""
    for one in (path, *(path.with_name(path.name + suffix) for suffix in ("-wal", "-shm", "-journal"))):
        try:
            status = one.lstat()
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            raise StorageFailed(f"cannot read {one}: it is no plain file of its own. {_MOVE_AWAY}")
    if _names_another(path.with_name(f"{path.name}-journal")):
        raise StorageFailed(f"cannot read {path}: its journal names another file, which SQLite would delete. "
                            f"{_MOVE_AWAY}")


def _names_another(journal: Path) -> bool:
    """Whether a journal ends as one of several databases does, with the name of a file that is deleted after it."""
    try:
        with opened(journal) as file:
            file.seek(-min(len(_OF_SEVERAL), os.fstat(file.fileno()).st_size), os.SEEK_END)
            return file.read() == _OF_SEVERAL
    except FileNotFoundError:
        return False


def _open_for_reading(path: Path) -> sqlite3.Connection:
    try:
        return _probed(path, "mode=ro")
    except sqlite3.OperationalError:
        journal = path.with_name(path.name + "-wal")
        if journal.exists() and journal.stat().st_size:
            raise  # to leave the journal out would lose the newest rows
        return _probed(path, "mode=ro&immutable=1")  # SQLite wants to create a journal, in a folder where it may not


def _probed(path: Path, options: str) -> sqlite3.Connection:
    _check_plain(path)
    uri = f"{path.absolute().as_uri()}?{options}"
    connection = sqlite3.connect(uri, uri=True, timeout=_READER_TIMEOUT_S, isolation_level=None)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
    connection.row_factory = _bounded(path)
    deadline = time.thread_time() + _LONGEST_READ_S
    connection.set_progress_handler(lambda: time.thread_time() > deadline, _LOOK_EVERY)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _bounded(path: Path) -> Callable[[sqlite3.Cursor, tuple[Any, ...]], tuple[Any, ...]]:
    """What passes rows on as they are, until they are more than fits. Raises StorageFailed."""
    left = _MOST_READ

    def passed(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> tuple[Any, ...]:
        nonlocal left
        left -= _NUMBER_BYTES * len(row)
        for value in row:
            if value.__class__ is str or value.__class__ is bytes:
                left -= len(value)
        if left < 0:
            raise StorageFailed(f"cannot read {path}: one question to it gets more than {_MOST_READ:,} bytes. Ask for "
                                f"less of it, or where no run of yours wrote it, move it away.")
        return row

    return passed


def _version(connection: sqlite3.Connection, path: Path) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version not in (0, VERSION):
        raise StorageFailed(
            f"{path} has format {version}, and this version of rl-workbench knows {VERSION}. "
            "Open it with the version that wrote it, or with a newer one."
        )
    return version


_MOVE_AWAY = "The file is damaged: move it away; checkpoints are not affected."
_REMEDIES = {
    sqlite3.SQLITE_FULL: "Free space on that disk.",
    sqlite3.SQLITE_IOERR: "Check that disk, and that it has free space.",
    sqlite3.SQLITE_BUSY: "Another process holds the file; end it if it hangs.",
    sqlite3.SQLITE_READONLY: "Make the file and its folder writable.",
    sqlite3.SQLITE_CORRUPT: _MOVE_AWAY,
    sqlite3.SQLITE_NOTADB: _MOVE_AWAY,
    sqlite3.SQLITE_TOOBIG: _MOVE_AWAY,
    sqlite3.SQLITE_INTERRUPT: f"It has more rows than can be read in {_LONGEST_READ_S:g} s: move it away.",
}


@contextmanager
def _failing_clearly(verb: str, path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the primary code
        remedy = _REMEDIES.get(code, "Its folder must exist and be yours, or copy the run's folder to one that is.")
        raise StorageFailed(f"cannot {verb} {path}: {error}. {remedy}") from error
