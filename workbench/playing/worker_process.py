"""Plays in a separate process on the CPU, so that this one loads no torch and a run keeps its accelerator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import Any, BinaryIO

from workbench import imports, rundir
from workbench.checkpoints import Checkpoint
from workbench.config import Setting
from workbench.errors import InvalidInput, WorkbenchError, answer_in
from workbench.launchers.local import clean_environment
from workbench.rundir.files import place_or
from workbench.running.waiting import TIMEOUT
from workbench.wire import child_group

# Arguments of the calls that play.
SEED = Setting("seed", int, 0, "", low=0, high=2**31 - 1)
GREEDY = Setting("greedy", bool, True, "")

_LONGEST_REQUEST = 2**17 - 1  # bytes: Linux's MAX_ARG_STRLEN without its last
_GRACE_S = 3.0  # for what an environment leaves to finish after its end, such as the encoder of a video


def command_of(entry: str, request: Mapping[str, Any]) -> tuple[list[str], dict[str, str]]:
    """`python -m workbench <entry> <request>`, and environment variables that hide the accelerator.

    Raises InvalidInput for a request that no command line takes.
    """
    text = json.dumps(request)
    if len(text) > _LONGEST_REQUEST:
        raise InvalidInput(f"options of {len(text):,} bytes are too long: at most {_LONGEST_REQUEST:,} reach the "
                           "process that plays. Give a file's name instead.")
    command = [sys.executable, "-P", "-m", "workbench", entry, text]
    return command, {**clean_environment(os.environ, sys.path), "CUDA_VISIBLE_DEVICES": ""}


def of(checkpoint: Checkpoint) -> dict[str, Any]:
    """A request's fields that identify a checkpoint, and the classes that the call was given for it."""
    code = None if checkpoint.code is None else str(checkpoint.code)
    return {"checkpoint": str(checkpoint.path), "trust_code": checkpoint.trust_code, "code": code}


def answer_of(
    entry: str, request: Mapping[str, Any], *, timeout_s: float | None, what: str, remedy: str
) -> dict[str, Any]:
    """The answer of `python -m workbench <entry> <request>`, a process that ends with this one.

    What its environment started ends with it, or some seconds later. Raises the error in its answer, WrongType or
    OutOfBounds for `timeout_s`, or WorkbenchError without an answer within it.
    """
    timeout_s = TIMEOUT.check(timeout_s)
    command, environment = command_of(entry, request)
    its_end, our_end = os.pipe()  # see wire.lifeline
    # Files, since a pipe ends only when the last program that an environment started has ended.
    with _in_memory() as out, _in_memory() as errors:
        try:
            with imports.meanwhile(f"{what}: under way in a process of its own…"):
                process = subprocess.Popen(command, env=environment, stdin=its_end, stdout=out, stderr=errors,
                                           cwd=place_or(rundir.home()), process_group=0)
                code = child_group.code_of(process, timeout_s=timeout_s, grace_s=_GRACE_S)
        except subprocess.TimeoutExpired:
            raise WorkbenchError(f"the {what} did not end within {timeout_s:g} s. {remedy}") from None
        finally:
            os.close(its_end)
            os.close(our_end)
        printed, complaint = (_text(file) for file in (out, errors))
    return answer_in(printed, f"the {what} ended with exit code {code} and no result:\n{complaint[-4000:]}")


def _in_memory() -> BinaryIO:
    """A file that needs no disk, where the system has such files."""
    return open(os.memfd_create("output"), "w+b") if hasattr(os, "memfd_create") else tempfile.TemporaryFile()


def _text(file: BinaryIO) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
