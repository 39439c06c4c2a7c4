"""What ends a child process: its parent is gone, or it gives up and says why; and what goes before it: the learner.

The child's standard input is a pipe whose other end only the parent holds. The pipe closes however the parent ends,
SIGKILL included; a thread of the child waits for that and ends the child, with what it started where it leads a process
group, as the processes of a run do.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from workbench.errors import WorkbenchError, record_of
from workbench.rundir import write_atomically
from workbench.wire import child_group

PASSING = 5  # exit code for what a later try may find mended: storage that is away, the lock of a machine that is lost
PEERS_LOST = 4  # exit code of a learner that lost another learner of its group
FATAL = 3  # exit code of an error that a restart does not mend; the reason is in the error file
_NICENESS = 5
_LAST_WORDS_S = 8.0  # DESIGN.md: no orphan after 10 s

orphaned = threading.Event()  # the parent is gone, which would end what this process started


class Lifeline:
    """The thread that ends this process when standard input closes, after `last_words` (8 s at most).

    A user's code that reads standard input (`input()`, `breakpoint()`) finds it empty, and does not wait for ever. What
    the parent left open for this process alone, a lock of its run, no process that an environment starts keeps.
    """

    def __init__(self, last_words: Callable[[], None] | None = None) -> None:
        self.last_words = last_words
        self._parent = take_standard_input()
        self._given = _inheritable()
        self._hand_on_given(False)
        os.register_at_fork(after_in_child=self._drop_given)
        threading.Thread(target=self._watch, name="lifeline", daemon=True).start()

    def hand_on(self) -> None:
        """Make standard input the pipe again, and keep locks, for a program that this process is about to become."""
        os.dup2(self._parent, sys.stdin.fileno())
        self._hand_on_given(True)

    def _hand_on_given(self, handed_on: bool) -> None:
        for descriptor in self._given:
            os.set_inheritable(descriptor, handed_on)

    def _drop_given(self) -> None:
        while self._given:
            with suppress(OSError):
                os.close(self._given.pop())

    def _watch(self) -> None:
        while os.read(self._parent, 4096):
            pass
        orphaned.set()
        with suppress(OSError):  # standard error may be closed, too
            print("the parent process is gone; ending", file=sys.stderr, flush=True)
        if self.last_words is not None:
            timer = threading.Timer(_LAST_WORDS_S, _end, [0])
            timer.daemon = True
            timer.start()
            self.last_words()
        _end(0)


def _end(code: int) -> NoReturn:
    """End this process; with all that it started where it leads them and its parent, who would do that, is gone."""
    if orphaned.is_set():
        child_group.kill(os.getpid())
    os._exit(code)


def _inheritable() -> list[int]:
    """Descriptors beside the standard streams that a program started by this process could inherit."""
    found = []
    for descriptor in map(int, os.listdir("/dev/fd")):
        with suppress(OSError):  # that of the list itself
            if descriptor > 2 and os.get_inheritable(descriptor):
                found.append(descriptor)
    return found


def take_standard_input() -> int:
    """A descriptor of what standard input was; from now on it is empty, for a user's code that reads it."""
    taken, nothing = os.dup(sys.stdin.fileno()), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    return taken


def let_learner_first() -> None:
    """Lowers the priority of this process: inference and training, for which all others wait, get a core first."""
    with suppress(OSError, AttributeError):  # not permitted, or Windows
        os.setpriority(os.PRIO_PROCESS, 0, max(os.getpriority(os.PRIO_PROCESS, 0), _NICENESS))


def at_sigterm(act: Callable[..., object]) -> None:
    """Let SIGTERM call `act` in this process; one that an environment forks, and ends by the signal, it ends."""
    signal.signal(signal.SIGTERM, act)
    os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))


def leave(code: int) -> NoReturn:
    """End this process without Python's own shutdown, during which a thread of torch may abort."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # a full disk, or no reader
            stream.flush()
    _end(code)


def leave_error(path: Path, error: WorkbenchError) -> int:
    """Write why this process gives up to `path`, for its supervisor. Returns FATAL, the exit code that says so."""
    with suppress(OSError):  # a full disk: the exit code remains
        print(error, file=sys.stderr, flush=True)
    with suppress(OSError):
        write_atomically(path, json.dumps(record_of(error)).encode())
    return FATAL
