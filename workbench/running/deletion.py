"""Deleting a run: one rename moves its directory to `$WORKBENCH_HOME/trash`; nothing is erased.

Its forks, and runs that started from its weights, go on: each has its own copy of the checkpoint.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from workbench import checkpoints, rundir
from workbench.copies import place_of_copy
from workbench.errors import (
    AlgorithmFailed,
    EnvironmentFailed,
    InvalidInput,
    NetworkFailed,
    RunAlive,
    StorageFailed,
    WorkbenchError,
)
from workbench.rundir import ENDED, RunDirectory, lock
from workbench.rundir.files import make_private
from workbench.running import waiting
from workbench.running.connection import Control, still_there, stored_status

END_S = 60.0  # for the processes of a run that failed
_LAST_S = 5.0  # for those of a run that says it has ended


def delete(directory: RunDirectory) -> Path:
    """Move a run's directory to the trash; returns its new path, such as `trash/pong-vtrace-1-20261121-093100`.

    Move it back, and the run is there again. Raises RunNotFound, AccessDenied, RunAlive, StorageFailed, or InvalidInput
    for the copy of a run, and then moves nothing.
    """
    still_there(directory).check_own()
    place = ""
    with suppress(WorkbenchError):  # what is damaged can be deleted
        place = place_of_copy(directory)
    if place:
        raise InvalidInput(f"{directory.path} is the copy of a run, which another machine may go on with. If nobody "
                           "needs it, delete that folder itself.")
    with lock.held(lock.of_start(directory), wait_s=lock.LOOK_S) as mine:  # so that no process starts it meanwhile
        if mine and lock.is_held(lock.of_supervisor(directory)) and _state(directory) in ENDED:
            with suppress(WorkbenchError):
                waiting.until_ended(Control(directory), _LAST_S)
        if not mine or lock.is_held(lock.of_supervisor(directory)):
            raise RunAlive(_refusal(directory))
        lock.end_left_behind(directory)
        return moved(directory.path, rundir.trash())


@contextmanager
def trashed_if_refused(directory: RunDirectory) -> Iterator[None]:
    """Where what only the learner can check refuses a start, its new run, which has trained nothing, is none any more.
    """
    try:
        yield
    except (InvalidInput, AlgorithmFailed, EnvironmentFailed, NetworkFailed) as error:
        with suppress(WorkbenchError):  # then it stays, as a failed run
            waiting.until_ended(Control(directory), END_S)
            every = checkpoints.every(directory.checkpoints)
            begun_with = max((one.updates for one in every if "fork" in one.meta), default=0)
            trained = any(one.updates > begun_with for one in every)
            if directory.read()["state"] == "failed" and not trained:
                error.add_note(f"{directory.name} has trained nothing, and lies in {delete(directory)} now.")
        raise


def moved(path: Path, trash: Path) -> Path:
    """Move a folder into the trash under a name with the time in it; returns its new path. Raises StorageFailed."""
    stem = f"{path.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    names = (stem if number == 1 else f"{stem}-{number}" for number in count(1))
    target = next(free for name in names if not os.path.lexists(free := trash / name))  # False for too long a name
    try:
        make_private(trash)
        os.rename(path, target)
    except OSError as error:
        elsewhere = error.errno == errno.EXDEV
        remedy = f"It is on another disk. Move {path} away by hand." if elsewhere else "Make both folders writable."
        raise StorageFailed(f"cannot move {path} to {target}: {error.strerror}. {remedy}") from None
    return target


def _state(directory: RunDirectory) -> str:
    try:
        return stored_status(directory).state
    except WorkbenchError:  # its files are damaged, but it has processes
        return "alive"


def _refusal(directory: RunDirectory) -> str:
    name, state = directory.name, _state(directory)
    if state in ENDED:
        return f"{name} was not deleted: its processes are still ending. Try again in a moment."
    return f"{name} was not deleted: it is {state}. Stop it first: wb.attach({name!r}).stop()."
