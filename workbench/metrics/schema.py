"""The tables of metrics.sqlite, and connections to it that fail with a clear error.

A series is the rows of one name in `metrics`, numbered 0, 1, 2, ... without gaps in order of arrival, so that they lie
side by side on disk. `rollups` holds the smallest and largest of each 64 and each 4096 rows, and for each 64 rows the
number of finite values (`number`) and their sum (`total`). A value that is not a number is stored as NULL.
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from workbench.errors import StorageFailed, WorkbenchError
from workbench.rundir import RunDirectory
from workbench.rundir.files import opened

VERSION = 1
CHANGES = ("tune", "scale", "move")  # the kinds of events that change a run's configuration
STEERED = CHANGES[:2]  # those of a live run
_OPEN_TIMEOUT_S = 30.0
WRITER_TIMEOUT_S = 5.0  # for other writers; training waits meanwhile, and names what it waits for
_READER_TIMEOUT_S = 10.0
_LONGEST_READ_S = 10.0  # processor time of this thread for one connection
_DEADLINE_CHECK_EVERY = 100_000  # instructions of SQLite
# functions that SQLite would call for each written row
_COMPUTES = re.compile(r"\bCHECK\s*\([^)]*\(|\bDEFAULT\s*\(", re.IGNORECASE)
_OF_EXPRESSIONS = re.compile(r"\(.*\(|\bWHERE\b", re.IGNORECASE | re.DOTALL)
_OF_SEVERAL = bytes.fromhex("d9d505f920a163d7")  # sqlite.org/fileformat2.html, "the rollback journal"
_LONGEST_VALUE = 2**22  # bytes of one value
_MOST_READ = 2**31  # bytes that one connection reads; rows of a damaged file can share their pages
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


@dataclass(frozen=True)
class Progress:
    """The progress of a run: the abscissae of every metric.

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

    @classmethod
    def of(cls, source: Any) -> Progress:
        """The progress that a checkpoint or a status tells."""
        return cls(*(getattr(source, name) for name in COUNTERS))

    def columns(self) -> tuple[int, int, int, float]:
        """The four as plain numbers, in the order of the tables."""
        return int(self.frames), int(self.steps), int(self.updates), float(self.time_s)


COUNTERS = tuple(field.name for field in fields(Progress))


def open_for_writing(path: Path, *, wait_s: float = WRITER_TIMEOUT_S) -> sqlite3.Connection:
    """A connection that writes, and waits that long for other writers. Creates the file and its tables if missing.

    Raises StorageFailed.
    """
    with _failing_clearly("write", path):
        _check_plain(path)
        connection = sqlite3.connect(path, timeout=_OPEN_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            _check_schema(connection, path)  # another user's trigger would run with each row
            _set_journal(connection, "TRUNCATE" if RunDirectory(path.parent).certificate.exists() else "WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            with writing(connection, path):
                if _version(connection, path) == 0:
                    for statement in _TABLES:
                        connection.execute(statement)
            connection.execute(f"PRAGMA busy_timeout = {round(1000 * wait_s)}")
        except BaseException:
            connection.close()
            raise
        return connection


def _set_journal(connection: sqlite3.Connection, mode: str) -> None:
    """Set the journal. A WAL needs shared memory, so that a run on several machines must have another one."""
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
    """One transaction, stored whole or not at all; it first waits for other writers. Raises StorageFailed."""
    with _failing_clearly("write", path):
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # SQLite itself ends it on a full disk
                connection.execute("ROLLBACK")
            raise


@contextmanager
def reading(path: Path, *, most_rows: int | None = None) -> Iterator[sqlite3.Connection | None]:
    """One consistent view of the file, or None if nothing was stored yet. A table has at most `most_rows` rows.

    Raises StorageFailed, also for a file that no run wrote: with other tables, or with endless content.
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
    """Raises StorageFailed if a file of SQLite, a run's or another, has anything but plain tables and indices, or a
    table of more than `most_rows` rows."""
    with reading(path, most_rows=most_rows):
        pass


def holds_nothing(path: Path) -> bool:
    """Whether there is no history, or an empty file in its place."""
    return not path.exists() or not path.stat().st_size


def check_whole(path: Path) -> None:
    """Raises StorageFailed if the file was damaged on its way, or is no history of a run."""
    with reading(path) as connection:
        verdict = "it holds nothing" if connection is None else connection.execute("PRAGMA quick_check").fetchone()[0]
        if verdict != "ok":
            raise StorageFailed(f"cannot read {path}: {verdict!s:.200}. {_MOVE_AWAY}")


def _check_rows(connection: sqlite3.Connection, path: Path, table: str, most: int | None) -> None:
    if most is None:
        return
    name = table.replace('"', '""')
    if connection.execute(f'SELECT 1 FROM "{name}" LIMIT 1 OFFSET {most}').fetchone():  # quoted above
        raise StorageFailed(f"cannot read {path}: its table {table!r:.50} has more than {most:,} rows. {_MOVE_AWAY}")
    columns = connection.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall()
    lengths = " + ".join('total(length(CAST("{}" AS BLOB)))'.format(column.replace('"', '""')) for (column,) in columns)
    if connection.execute(f'SELECT {lengths} FROM "{name}"').fetchone()[0] > _MOST_TEXT:  # quoted above
        raise StorageFailed(f"cannot read {path}: the values of its table {table!r:.50} have more than "
                            f"{_MOST_TEXT:,} bytes. {_MOVE_AWAY}")


@contextmanager
def decoding(path: Path) -> Iterator[None]:
    """For a block that decodes values of the file. Raises StorageFailed if they are of other types."""
    try:
        yield
    except WorkbenchError:
        raise
    except (ValueError, TypeError, OverflowError, RecursionError, MemoryError) as error:
        raise StorageFailed(f"cannot read {path}: it holds what no run writes ({error!r:.200}). "
                            f"{_MOVE_AWAY}") from error


def _check_schema(connection: sqlite3.Connection, path: Path, most_rows: int | None = None) -> None:
    """Raises StorageFailed unless the file has plain tables and indices alone: anything else could run endlessly."""
    entries = connection.execute("SELECT type, name, sql FROM sqlite_schema LIMIT ?", (_MOST_TABLES + 1,)).fetchall()
    if len(entries) > _MOST_TABLES:
        raise StorageFailed(f"cannot read {path}: it has more than {_MOST_TABLES} tables and indices. {_MOVE_AWAY}")
    for kind, name, sql in entries:
        plain = kind == "index" or (kind == "table" and not str(sql).upper().startswith("CREATE VIRTUAL"))
        if plain and kind == "table":
            columns = connection.execute("SELECT hidden FROM pragma_table_xinfo(?)", (name,)).fetchall()
            plain = not any(hidden for (hidden,) in columns)  # not 0 for a generated column
            plain &= not _COMPUTES.search(str(sql))
            _check_rows(connection, path, name, most_rows)
        elif plain:
            plain = not _OF_EXPRESSIONS.search(str(sql or ""))
        if not plain:
            raise StorageFailed(f"cannot read {path}: no run writes a {kind} such as {name!r:.50}. {_MOVE_AWAY}")


def _check_plain(path: Path) -> None:
    """Raises StorageFailed if the file or a journal is a link, or a pipe or device, for which SQLite would wait."""
    for file in (path, *(path.with_name(path.name + suffix) for suffix in ("-wal", "-shm", "-journal"))):
        try:
            status = file.lstat()
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            raise StorageFailed(f"cannot read {file}: it is no plain file of its own. {_MOVE_AWAY}")
    if _names_another(path.with_name(f"{path.name}-journal")):
        raise StorageFailed(f"cannot read {path}: its journal names another file, which SQLite would delete. "
                            f"{_MOVE_AWAY}")


def _names_another(journal: Path) -> bool:
    """Whether a journal ends like one of several databases: with the name of a file that SQLite deletes after it."""
    try:
        with opened(journal) as file:
            file.seek(-min(len(_OF_SEVERAL), os.fstat(file.fileno()).st_size), os.SEEK_END)
            return file.read() == _OF_SEVERAL
    except FileNotFoundError:
        return False


def _open_for_reading(path: Path) -> sqlite3.Connection:
    try:
        return _connect_to_read(path, "mode=ro")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_READONLY_ROLLBACK and path.stat().st_uid == os.geteuid():
            _connect_to_read(path, "mode=rw").close()  # which undoes the half of a write that a killed writer left
            return _connect_to_read(path, "mode=ro")
        if any(journal.exists() and journal.stat().st_size for journal in _journals(path)):
            raise  # without the journal, the newest rows would be missing, or half a write be there
        return _connect_to_read(path, "mode=ro&immutable=1")  # for a folder in which SQLite can create no journal


def _journals(path: Path) -> tuple[Path, Path]:
    return path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-journal")


def _connect_to_read(path: Path, options: str) -> sqlite3.Connection:
    _check_plain(path)
    uri = f"{path.absolute().as_uri()}?{options}"
    connection = sqlite3.connect(uri, uri=True, timeout=_READER_TIMEOUT_S, isolation_level=None)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
    connection.row_factory = _bounded(path)
    deadline = time.thread_time() + _LONGEST_READ_S
    connection.set_progress_handler(lambda: time.thread_time() > deadline, _DEADLINE_CHECK_EVERY)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _bounded(path: Path) -> Callable[[sqlite3.Cursor, tuple[Any, ...]], tuple[Any, ...]]:
    """A row factory that returns rows unchanged, up to _MOST_READ bytes. It then raises StorageFailed."""
    budget = _MOST_READ

    def count(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> tuple[Any, ...]:
        nonlocal budget
        budget -= _NUMBER_BYTES * len(row)
        for value in row:
            if value.__class__ is str or value.__class__ is bytes:
                budget -= len(value)
        if budget < 0:
            raise StorageFailed(f"cannot read {path}: one question to it gets more than {_MOST_READ:,} bytes. Ask for "
                                "less of it, or move it away if no run of yours wrote it.")
        return row

    return count


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
    sqlite3.SQLITE_READONLY_ROLLBACK: "Its writer was killed within a write, which is undone when its owner looks at "
                                      "the run where it can be written; or copy the run's folder to one of yours.",
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
        code = getattr(error, "sqlite_errorcode", 0)
        remedy = _REMEDIES.get(code) or _REMEDIES.get(code & 0xFF) or (  # the low byte is the primary code
            "Its folder must exist and be yours, or copy the run's folder to one that is.")
        raise StorageFailed(f"cannot {verb} {path}: {error}. {remedy}") from error
