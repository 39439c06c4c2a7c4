"""Deleting a run: its directory goes to `$WORKBENCH_HOME/trash`, whole and in one step; nothing is erased.

Forks and runs that took its weights go on: a fork has the checkpoint that it began with as its own, and weights were
read when the run started.
"""

from __future__ import annotations

import errno
import os
import time
from itertools import count
from pathlib import Path

from workbench import rundir
from workbench.errors import RunAlive, StorageFailed, WorkbenchError
from workbench.rundir import ENDED, RunDirectory, lock
from workbench.rundir.files import make_private
from workbench.running.connection import checked, stored_status


def delete(directory: RunDirectory) -> Path:
    """Move a run's directory to the trash; where it is then, such as `trash/pong-vtrace-1-20261121-093100`.

    Moved back, it is the run that it was. Raises RunNotFound, AccessDenied, RunAlive, or StorageFailed; nothing was
    moved then.
    """
    checked(directory).check_own()
    with lock.held(lock.of_start(directory), wait_s=lock.LOOK_S) as mine:  # so that nobody starts it meanwhile
        if not mine or lock.is_held(lock.of_supervisor(directory)):
            raise RunAlive(_refusal(directory))
        return moved(directory.path, rundir.trash())


def moved(path: Path, trash: Path) -> Path:
    """Move a folder into the trash under a name with the time in it; where it is then. Raises StorageFailed."""
    stem = f"{path.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    names = (stem if number == 1 else f"{stem}-{number}" for number in count(1))
    there = next(one for name in names if not os.path.lexists(one := trash / name))  # False for too long a name
    try:
        make_private(trash)
        os.rename(path, there)
    except OSError as error:
        other = error.errno == errno.EXDEV
        remedy = f"It is on another disk. Move {path} away by hand." if other else "Make both folders writable."
        raise StorageFailed(f"cannot move {path} to {there}: {error.strerror}. {remedy}") from None
    return there


def _refusal(directory: RunDirectory) -> str:
    name = directory.name
    try:
        state = stored_status(directory).state
    except WorkbenchError:  # damaged, but somebody runs it
        state = "alive"
    if state in ENDED:
        return f"{name} was not deleted: its processes are still ending. Try again in a moment."
    return (f"{name} was not deleted: it is {state}. Stop it first: wb.attach({name!r}).stop(), or "
            f"workbench stop {name}.")
