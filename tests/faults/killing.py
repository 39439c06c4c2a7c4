"""SIGKILL, and what must hold of a run's records after it."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import psutil

import workbench as wb
from tests.conftest import eventually
from workbench import checkpoints
from workbench.metrics import MetricsReader
from workbench.rundir import RunDirectory

Moment = Callable[[wb.Run, Path], Callable[[], bool]]  # of a run with a witness: whether its learner is in it now

_ORIGINS = ("restore", "fork")  # events that say from which frames on a learner counts


def kill(pid: int | None) -> None:
    """SIGKILL to a process that lives."""
    assert pid
    os.kill(pid, signal.SIGKILL)


def unexplained(run: RunDirectory) -> list[str]:
    """Where stored counters go back and no event says from where on the learner counts again, in words."""
    restored = [event["frames"] for event in MetricsReader(run.metrics).events() if event["kind"] in _ORIGINS]
    return [why for name, frames in _counters(run) for why in _unexplained(name, frames, restored)]


def _counters(run: RunDirectory) -> Iterator[tuple[str, Sequence[int]]]:
    """Frames of the rows of each series, and of all episodes, in the order in which they were stored."""
    reader = MetricsReader(run.metrics)
    for name in reader.names():
        yield name, reader.series(name)["frames"].tolist()
    yield "episodes", reader.episodes()["frames"].tolist()


def _unexplained(name: str, frames: Sequence[int], restored: Sequence[int]) -> Iterator[str]:
    """Each time that frames go back must be a later one of the events, and rows go on from there."""
    at = -1
    for place in (np.flatnonzero(np.diff(frames) < 0) + 1).tolist():
        before, after = frames[place - 1], frames[place]
        at = next((n for n in range(at + 1, len(restored)) if restored[n] <= after), len(restored))
        if at == len(restored):
            yield f"{name} goes from {before} to {after} frames, and events say {list(restored)}"


def whole_checkpoints(run: wb.Run) -> list[wb.Checkpoint]:
    """All checkpoints of a run, oldest first, each read through. Raises CheckpointCorrupt."""
    found = []
    for path in run.directory.checkpoints.glob("[0-9]*"):
        try:
            one = checkpoints.at(path)
            one.verify()
            found.append(one)
        except wb.WorkbenchError:
            if path.exists():  # else it was pruned meanwhile
                raise
    return sorted(found, key=lambda one: one.created)


def restored_from(run: wb.Run) -> list[int]:
    """Frames of the checkpoints that learners of this run went on from, in order."""
    events = run.events
    return [int(frames) for frames in events[events["kind"] == "restore"]["frames"]]


def training_s(run: wb.Run) -> float:
    """Seconds of training that the metrics tell of."""
    return float(MetricsReader(run.directory.metrics).series("learning_rate")["time_s"][-1])


# --- moments of a learner ---------------------------------------------------------------------------------------------


def updating(_: wb.Run, seen: Path) -> Callable[[], bool]:
    """Whether the learner is in an update, in the network's forward pass."""
    return Path(f"{seen}.updating").exists


def writing_a_checkpoint(run: wb.Run, _: Path) -> Callable[[], bool]:
    """Whether there is half a checkpoint."""
    folder = run.directory.checkpoints
    return lambda: any(name.startswith(".writing-") for name in os.listdir(folder))


def writing_metrics(run: wb.Run, _: Path) -> Callable[[], bool]:
    """Whether a transaction is under way that writes into the store."""
    connection = sqlite3.connect(run.directory.metrics, timeout=0, isolation_level=None)

    def writes() -> bool:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            assert "locked" in str(error), error
            return True
        connection.execute("ROLLBACK")
        return False

    return writes


def stopped_within(pid: int, moment: Callable[[], bool]) -> None:
    """Stop a process in a moment, and find it there however long one looks."""
    process = psutil.Process(pid)

    def hit() -> bool:
        while not moment():
            time.sleep(0.0002)  # leaves the moment to the one that is watched
        process.suspend()
        if all(_again(moment) for _ in range(10)):
            return True
        process.resume()
        return False

    eventually(hit, what="the learner was never met in that moment")


def _again(moment: Callable[[], bool]) -> bool:
    time.sleep(0.02)
    return moment()


MOMENTS: list[Moment] = [updating, writing_a_checkpoint, writing_metrics]
