"""What all tests share: a private home, and the end of everything that was started in it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from workbench import rundir
from workbench.client import sweep_folder
from workbench.client.control import Control
from workbench.errors import WorkbenchError
from workbench.supervisor import lock

# A run that is quick to start and to step, and small.
SMALL = {"actors": 2, "envs_per_actor": 4, "batch_size": 4, "unroll_length": 10, "learner_threads": 1}


@pytest.fixture(scope="session", autouse=True)
def _threads() -> None:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> None:
    """A shell that starts the tests in the background lets them ignore SIGINT, and their children would inherit it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def processes_of(run_dir: Path) -> list[psutil.Process]:
    """Living processes that were started for the run in `run_dir`."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        command = process.info["cmdline"] or []
        if str(run_dir) in command and "workbench" in command and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


def eventually(check: Callable[[], Any], *, within_s: float = 30.0, what: str = "") -> Any:
    """The first true value of `check`, tried until the deadline; fails with `what` after it."""
    deadline = time.monotonic() + within_s
    while True:
        value = check()
        if value:
            return value
        assert time.monotonic() < deadline, f"not within {within_s} s: {what or check}"
        time.sleep(0.05)


def gone(process: psutil.Process) -> bool:
    """Whether it has ended, though its parent may not have looked yet."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def _end_all() -> None:
    for directory in rundir.every():
        if lock.is_alive(directory):
            with suppress(WorkbenchError):
                Control(directory).call("stop", grace_s=0.0)
    for directory in rundir.every():
        deadline = time.monotonic() + 10
        while processes_of(directory.path) and time.monotonic() < deadline:
            time.sleep(0.05)
        for process in processes_of(directory.path):
            with suppress(psutil.NoSuchProcess):
                process.kill()


def private_home() -> Iterator[Path]:
    """A home for a fixture to yield from; every run in it is ended after it."""
    before = os.environ.get("WORKBENCH_HOME")
    path = Path(tempfile.mkdtemp(prefix="wb-"))  # short: a socket's path may have 107 bytes
    os.environ["WORKBENCH_HOME"] = str(path)
    try:
        yield path
    finally:
        os.environ["WORKBENCH_HOME"] = str(path)
        _end_all()
        shutil.rmtree(path, ignore_errors=True)
        if before is None:
            del os.environ["WORKBENCH_HOME"]
        else:
            os.environ["WORKBENCH_HOME"] = before


def private_home_with_sweeps() -> Iterator[Path]:
    """A private home whose sweeps are ended before its runs are."""
    for path in private_home():
        try:
            yield path
        finally:
            for folder in sweep_folder.every():
                folder.order_to_stop.touch()
                for process in processes_of(folder.path):
                    with suppress(psutil.NoSuchProcess):
                        process.kill()


@pytest.fixture(scope="module")
def module_home() -> Iterator[Path]:
    """A home for the tests of one file; every run in it is ended after them."""
    yield from private_home()


@pytest.fixture
def home() -> Iterator[Path]:
    """A home for one test; every run in it is ended after it."""
    yield from private_home()


def mounted_disk(folder: Path, *, size: str) -> Iterator[Path]:
    """A disk of that size to fill, for a fixture to yield from; skips where none can be mounted."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a full disk is tried on a small tmpfs, which only root can mount")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
