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


def code_of(process: subprocess.Popen[Any], *, timeout_s: float | None = None) -> int:
    """The exit code of a child that has ended; neither it nor the rest of its group is left, whatever is raised.

    Raises subprocess.TimeoutExpired.
    """
    longest_s = math.inf if timeout_s is None else timeout_s
    deadline = time.monotonic() + longest_s
    try:
        while not has_ended(process.pid):
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(process.args, longest_s)
            time.sleep(_POLL_S)
    finally:
        kill(process.pid)
        process.wait()
    return process.returncode
