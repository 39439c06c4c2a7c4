"""Kernels to kill: processes that make one call of the public API each, as a cell does, started within milliseconds.

`python -m tests.faults.kernels` imports everything, and for each line (a JSON string of code) forks a process that runs
it, and answers with its id. It ends, and they with it, when its standard input is closed.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import workbench as wb
from tests.faults.killing import kill

ROOT = Path(__file__).parents[2]


class Kernels:
    """Starts kernels, one for each call."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._started: list[int] = []

    def start(self, code: str) -> int:
        """The id of a process that runs `code`, in which `wb` is the workbench."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(code) + "\n")
        self._process.stdin.flush()
        pid = int(self._process.stdout.readline())
        self._started.append(pid)
        return pid

    def end(self, pid: int) -> None:
        """Kill that process if it has not ended; it was started here, and its id is its own until all have ended."""
        with suppress(ProcessLookupError):
            kill(pid)


@contextmanager
def kernels(log: Path) -> Iterator[Kernels]:
    """Kernels that find the workbench's home where this process does; their errors go to `log`."""
    with open(log, "ab") as errors, subprocess.Popen(
        [sys.executable, "-m", "tests.faults.kernels"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
        text=True, cwd=ROOT,
    ) as process:
        made = Kernels(process)
        try:
            yield made
        finally:
            assert process.stdin is not None
            for pid in made._started:
                made.end(pid)
            process.stdin.close()


def _load() -> None:
    """Import what calls would import themselves, so that they are killed in what they do and not before."""
    for name in wb.__all__:
        with suppress(ImportError, wb.WorkbenchError):
            getattr(wb, name)
    for name in ("running.starts.fork", "playing.rollout", "playing.worker_process", "sweeping.study"):
        importlib.import_module(f"workbench.{name}")
    with suppress(ImportError):
        importlib.import_module("optuna.storages")


def _run(code: str) -> None:
    """Become a process that runs `code`."""
    silent = os.open(os.devnull, os.O_RDWR)
    os.dup2(silent, 0)
    os.dup2(silent, 1)
    try:
        exec(code, {"wb": wb})
    except BaseException:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(0)


def main() -> None:
    _load()
    for line in iter(sys.stdin.readline, ""):  # children stay zombies, so that no id is used again
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            _run(json.loads(line))
        print(pid, flush=True)


if __name__ == "__main__":
    main()
