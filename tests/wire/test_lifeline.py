"""A child ends with its parent, and code in it that asks for input is not answered by the pipe between them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import eventually

CHILD = """
import time
from workbench.wire.lifeline import Lifeline
Lifeline()
try:
    input("go on? ")
except EOFError:
    print("empty", flush=True)
time.sleep(600)
"""


def test_a_child_finds_its_input_empty_and_ends_once_the_pipe_is_closed() -> None:
    child = subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdin is not None and child.stdout is not None
        assert child.stdout.readline() == "go on? empty\n"
        assert child.poll() is None
        child.stdin.close()
        assert child.wait(60) == 0
    finally:
        child.kill()
        child.wait()


STARTS = """
import subprocess, sys, time
from workbench.wire import lifeline
life = lifeline.Lifeline()
if sys.argv[1] == "last words":  # a learner's main thread ends beside the thread of its lifeline
    life.last_words = lambda: time.sleep(600)
print(subprocess.Popen(["sleep", "600"]).pid, flush=True)
if sys.argv[1] == "last words":
    lifeline.orphaned.wait()
    lifeline.leave(0)
time.sleep(600)
"""


@pytest.mark.parametrize("words", ["none", "last words"])
@pytest.mark.parametrize("leads", [True, False])
def test_what_a_child_started_ends_with_it_where_it_leads_a_group(words: str, leads: bool) -> None:
    """A child that leads none ends nobody but itself."""
    other = subprocess.Popen(["sleep", "600"], process_group=0)
    child = subprocess.Popen([sys.executable, "-c", STARTS, words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True, process_group=0 if leads else other.pid)
    started = None
    try:
        assert child.stdin is not None and child.stdout is not None
        started = int(child.stdout.readline())
        child.stdin.close()
        child.wait(60)
        if leads:
            eventually(lambda: not _is_there(started), what="what the child started is gone")
        else:
            assert _is_there(started)
        assert other.poll() is None
    finally:
        for process in (child, other):
            process.kill()
            process.wait()
        if started is not None and _is_there(started):
            os.kill(started, 9)


def _is_there(pid: int) -> bool:
    """Whether the process lives: one that nobody reaps has no command line."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except FileNotFoundError:
        return False


KEEPS = """
import os, subprocess, sys
from workbench.wire.lifeline import Lifeline
lifeline, look = Lifeline(), "import os, sys; print(os.path.exists('/dev/fd/' + sys.argv[1]), flush=True)"
command = [sys.executable, "-c", look, sys.argv[1]]
subprocess.run(command, close_fds=False)  # as programs do that are no Python
if not (forked := os.fork()):
    print(os.path.exists("/dev/fd/" + sys.argv[1]), flush=True)
    os._exit(0)
os.waitpid(forked, 0)
lifeline.hand_on()
os.execv(sys.executable, command)
"""


def test_a_lock_that_a_child_inherits_is_its_own_and_of_what_it_becomes(tmp_path: Path) -> None:
    with open(tmp_path / "lock", "w") as lock:
        command = [sys.executable, "-c", KEEPS, str(lock.fileno())]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                 pass_fds=(lock.fileno(),))
        try:
            assert child.stdout is not None
            assert child.stdout.read().split() == ["False", "False", "True"]
        finally:
            child.kill()
            child.wait()
