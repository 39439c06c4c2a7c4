"""A child that leads a process group, so that what it started ends with it: `subprocess.Popen(..., process_group=0)`.

A group keeps its number until the child is reaped, which is therefore the last thing to do.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import time
from contextlib import suppress
from typing import Any

import psutil

_POLL_S = 0.02


def kill(pid: int) -> None:
    """SIGKILL to the whole group that a process leads; to nobody where it leads none, or none is left."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def has_ended(pid: int) -> bool:
    """Whether our child has ended. It is not reaped, so that no other process can get its pid and group."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # code of the user's, in whose process we may be, reaps all children
        return True


def _has_done_well(pid: int) -> bool:
    """Whether our child, which has ended, did so with the exit code 0."""
    with suppress(ChildProcessError):
        ending = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return ending is not None and ending.si_code == os.CLD_EXITED and ending.si_status == 0
    return False


def _others_in(group: int) -> bool:
    """Whether others than its leader live in a group."""
    for pid in psutil.pids():
        with suppress(OSError, psutil.Error):  # it has ended
            if pid != group and os.getpgid(pid) == group and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                return True
    return False


def wait_for_others(group: int, longest_s: float) -> None:
    """Let what lives in a group beside its leader end by itself, such as the encoder of a video."""
    deadline = time.monotonic() + longest_s
    while time.monotonic() < deadline and _others_in(group):
        time.sleep(5 * _POLL_S)  # a look at all processes takes some milliseconds


def code_of(process: subprocess.Popen[Any], *, timeout_s: float | None = None, grace_s: float = 0.0) -> int:
    """The exit code of a child that has ended; neither it nor the rest of its group is left, whatever is raised.

    Args:
        grace_s: for what is left of the group to end by itself after the exit code 0; and for a child that is given up
            to close what it has opened, after SIGTERM.

    Raises subprocess.TimeoutExpired.
    """
    longest_s = math.inf if timeout_s is None else timeout_s
    deadline = time.monotonic() + longest_s
    try:
        while not has_ended(process.pid):
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(process.args, longest_s)
            time.sleep(_POLL_S)
        if grace_s and _has_done_well(process.pid):
            wait_for_others(process.pid, grace_s)
    except BaseException:
        given_up_at = time.monotonic() + grace_s
        if grace_s:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
        while time.monotonic() < given_up_at and not has_ended(process.pid):
            time.sleep(_POLL_S)
        raise
    finally:
        kill(process.pid)
        process.wait()
    return process.returncode
