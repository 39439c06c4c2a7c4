"""Writes a run's history: buffered in memory, one transaction per `commit`, and TensorBoard event files beside it.

A commit that fails (full disk) raises and keeps its rows for the next one, up to a bound; beyond it the oldest are
dropped, and an event says how many. Nothing is written twice, and adding a metric never waits for a disk.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.errors import ShapeMismatch, StorageFailed
from workbench.metrics import schema, series
from workbench.metrics.eventfile import EventFile
from workbench.metrics.schema import Progress

_MOST_SCALARS = 10_000  # calls of `scalars`, some thirty rows each
_MOST_EPISODES = 100_000
_MOST_EVENTS = 1_000
_MIRRORED_EPISODES = 100  # of a commit


@dataclass(frozen=True)
class Episode:
    """A finished episode: unclipped return, length in steps; `kind` is "training" or "evaluation".

    Attributes:
        score: sum of the environment's own score, if it has one beside a shaped reward; otherwise None.
    """

    kind: str
    env_id: int
    episode_return: float
    length_steps: int
    score: float | None = None


def _queue(most: int) -> Any:
    return field(default_factory=lambda: deque(maxlen=most))


@dataclass
class PendingRows:
    """Entries for the next commit. Progress is in plain numbers, time is unix time in s."""

    scalars: deque[tuple[float, Progress, dict[str, float]]] = _queue(_MOST_SCALARS)
    episodes: deque[tuple[float, Progress, Episode]] = _queue(_MOST_EPISODES)
    events: deque[tuple[Any, ...]] = _queue(_MOST_EVENTS)
    distributions: dict[str, tuple[float, Progress, list[float], list[int]]] = field(default_factory=dict)
    status: tuple[float, str] | None = None
    dropped: int = 0

    def add(self, queue: deque[Any], item: Any) -> None:
        """Append to one of the queues; a full one drops its oldest item, which is counted."""
        self.dropped += len(queue) == queue.maxlen
        queue.append(item)

    def followed_by(self, newer: PendingRows) -> PendingRows:
        """This batch, whose commit failed, together with the entries since."""
        for name in ("scalars", "episodes", "events"):
            for item in getattr(newer, name):
                self.add(getattr(self, name), item)
        self.distributions.update(newer.distributions)
        self.status = newer.status or self.status
        self.dropped += newer.dropped
        return self

    def __bool__(self) -> bool:
        return bool(self.scalars or self.episodes or self.events or self.distributions or self.status)


class MetricsWriter:
    """The one writer of a process, for all its threads.

    `scalars`, `episode`, `distribution` and `status` cost microseconds and wait for the next `commit`;
    `event` commits at once. Commit about once a second. Raises StorageFailed if the file cannot be written.
    """

    def __init__(self, path: Path, *, tensorboard: Path | None = None, wait_s: float = schema.WRITER_TIMEOUT_S):
        self._path = Path(path)
        self._connection = schema.open_for_writing(self._path, wait_s=wait_s)
        path_only = getattr(os, "O_PATH", None)  # on Linux; to close any other descriptor would drop SQLite's locks
        self._opened: int | None = None if path_only is None else os.open(self._path, path_only)
        self._eventfile = EventFile(tensorboard) if tensorboard else None
        self._pending = PendingRows()
        self._pending_lock = threading.Lock()
        self._commit_lock = threading.Lock()

    def scalars(self, progress: Progress, values: Mapping[str, float]) -> None:
        """Add one row per metric. Not-a-number is stored, and read back as such."""
        plain = {name: float(value) for name, value in values.items()}
        with self._pending_lock:
            self._pending.add(self._pending.scalars, (time.time(), progress, plain))

    def distribution(self, name: str, progress: Progress, edges: Sequence[float], counts: Sequence[int]) -> None:
        """Replace the histogram of that name: N counts between N+1 ascending edges."""
        if len(edges) != len(counts) + 1:
            raise ShapeMismatch(f"distribution {name!r} has {len(counts)} counts and {len(edges)} edges; it needs one "
                                f"edge more than counts: {len(counts) + 1}.")
        plain = (time.time(), progress, [float(edge) for edge in edges], [int(count) for count in counts])
        with self._pending_lock:
            self._pending.distributions[name] = plain

    def episode(
        self, progress: Progress, *, env_id: int, episode_return: float, length_steps: int, kind: str = "training",
        score: float | None = None,
    ) -> None:
        """Add a finished episode; see `Episode`."""
        plain_score = None if score is None else float(score)
        episode = Episode(kind, int(env_id), float(episode_return), int(length_steps), plain_score)
        with self._pending_lock:
            self._pending.add(self._pending.episodes, (time.time(), progress, episode))

    def event(
        self, kind: str, message: str, *, progress: Progress | None = None, data: dict[str, Any] | None = None
    ) -> None:
        """Add an event and commit."""
        columns = progress.columns() if progress else (None,) * 4
        text = message.encode(errors="backslashreplace").decode()  # SQLite takes no lone surrogate
        row = (time.time(), kind, text, *columns, _json(data or {}))
        with self._pending_lock:
            self._pending.add(self._pending.events, row)
        self.commit()

    def status(self, status: dict[str, Any]) -> None:
        """Replace the last known status."""
        with self._pending_lock:
            self._pending.status = (time.time(), _json(status))

    def commit(self) -> None:
        """Store all pending entries in one transaction. Raises StorageFailed; the entries then stay pending."""
        with self._commit_lock:
            with self._pending_lock:
                batch, self._pending = self._pending, PendingRows()
            if not batch:
                return
            try:
                self._check_place()
                with schema.writing(self._connection, self._path), schema.decoding(self._path):
                    _store(self._connection, batch)
            except BaseException:
                with self._pending_lock:
                    self._pending = batch.followed_by(self._pending)
                raise
            if self._eventfile:
                _mirror(self._eventfile, batch)

    def _check_place(self) -> None:
        """Raises StorageFailed where the open file is no longer the one at its path: nobody would read what it gets."""
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            raise StorageFailed(f"{self._path} is gone while its run is alive. Move it back; or stop the run and "
                                "resume it, which begins another one.") from None
        except OSError:
            return  # a file system that is away, of which SQLite tells
        if self._opened is not None and not os.path.samestat(os.fstat(self._opened), there):
            raise StorageFailed(f"{self._path} is another file than the one that its run writes into. Move that one "
                                "back (mv within its disk); or stop the run and resume it: it goes on with this one.")

    def close(self) -> None:
        """Commit and close; safe to call twice."""
        try:
            self.commit()
        finally:
            with self._commit_lock:
                self._connection.close()
                if self._opened is not None:
                    os.close(self._opened)
                    self._opened = None


def _store(connection: sqlite3.Connection, batch: PendingRows) -> None:
    rows: dict[str, list[series.Row]] = {}
    for _, progress, values in batch.scalars:
        for name, value in values.items():
            rows.setdefault(name, []).append((*progress.columns(), value))
    for _, progress, episode in batch.episodes:
        for name, value in _episode_scalars(episode).items():
            rows.setdefault(name, []).append((*progress.columns(), value))
    for name, new in rows.items():
        series.append(connection, name, new)
    connection.executemany(
        "INSERT INTO episodes (frames, steps, updates, time_s, kind, env_id, episode_return, length_steps, "
        "score) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(*progress.columns(), *vars(episode).values()) for _, progress, episode in batch.episodes],
    )
    connection.executemany(
        "INSERT INTO events (time, kind, message, frames, steps, updates, time_s, data) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [*batch.events, *_dropped_event(batch)],
    )
    connection.executemany(
        "INSERT OR REPLACE INTO distributions VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(name, *progress.columns(), json.dumps(edges), json.dumps(counts))
         for name, (_, progress, edges, counts) in batch.distributions.items()],
    )
    if batch.status:
        connection.execute("INSERT OR REPLACE INTO status VALUES (1, ?, ?)", batch.status)


def _episode_scalars(episode: Episode) -> dict[str, float]:
    prefix = "episode" if episode.kind == "training" else episode.kind
    values = {"return": episode.episode_return, "length": float(episode.length_steps), "score": episode.score}
    return {f"{prefix}_{name}": value for name, value in values.items() if value is not None}


def _dropped_event(batch: PendingRows) -> list[tuple[Any, ...]]:
    if not batch.dropped:
        return []
    message = f"{batch.dropped} entries (metrics, episodes, events) were dropped while this file could not be written"
    return [(time.time(), "metrics_dropped", message, None, None, None, None, "{}")]


def _mirror(eventfile: EventFile, batch: PendingRows) -> None:
    """Write a batch for TensorBoard; of very many episodes, one in so many: its records' checksums are slow."""
    for unix_time, progress, values in batch.scalars:
        eventfile.scalars(unix_time, int(progress.frames), values)
    every = 1 + len(batch.episodes) // _MIRRORED_EPISODES
    for unix_time, progress, episode in list(batch.episodes)[::every]:
        eventfile.scalars(unix_time, int(progress.frames), _episode_scalars(episode))
    for name, (unix_time, progress, edges, counts) in batch.distributions.items():
        eventfile.histogram(unix_time, int(progress.frames), name, edges, counts)
    eventfile.flush()


def _json(data: dict[str, Any]) -> str:
    return json.dumps(data, default=_plain)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)
