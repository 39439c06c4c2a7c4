"""A child ends with its parent, and code in it that asks for input is not answered by the pipe between them."""

from __future__ import annotations

import subprocess
import sys

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
