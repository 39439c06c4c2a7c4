"""What all tests share: a private home, and the end of everything that was started in it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

from tests.hosts import OtherHost, other_host
from workbench import rundir
from workbench.environments import registration
from workbench.errors import WorkbenchError
from workbench.rundir import lock
from workbench.running.connection import Control
from workbench.sweeping import sweep_folder

CHECKOUT = Path(__file__).parent.parent
LONG_S = 60.0  # what a test of make test may take without being named
LONGEST_S = 240.0  # of any wait: an event that comes at all comes sooner, also on a slow machine with other work

for _library in ("OMP", "OPENBLAS", "MKL"):  # before torch is imported: workers with two threads each on two cores
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")  # wait for each other, ten times as long beside other work
sys.modules["rfc3987_syntax"] = None  # jsonschema would build 39 grammars of it: seconds of each worker, for a format

with suppress(ModuleNotFoundError):  # environments other than .venv have no hypothesis
    from hypothesis import HealthCheck, settings

    # The same examples in every run, whatever failed here before, and however slow the machine draws them.
    settings.register_profile("tests", derandomize=True, database=None, deadline=None,
                              suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("tests")

# A run that is quick to start and to step, and small.
SMALL = {"actors": 2, "envs_per_actor": 4, "batch_size": 4, "unroll_length": 10, "learner_threads": 1}
# One of testing/counting-v0 or testing/catch-v0 that leaves the processor to others while tests look and steer.
CALM = {**SMALL, "environment_options": {"step_ms": 10.0}, "network": "mlp"}


# folders whose files take longest
FIRST = ("browser", "notebooks", "launchers", "running", "playing", "sweeping", "faults")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, so that all workers end together."""
    items.sort(key=lambda item: FIRST.index(item.path.parent.name) if item.path.parent.name in FIRST else len(FIRST))


class ByFile(LoadScopeScheduling):
    """Keeps the tests of a file in one worker, since they share what they start; those of the browser share it, too."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "tests/browser" if file.startswith("tests/browser/") else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    """What `pytest -n 2` deals its workers."""
    config.option.loadscopereorder = False
    return ByFile(config, log)


_BEGAN = time.monotonic()


@pytest.hookimpl(trylast=True)  # after the letter of the test itself
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Name a failure when it happens, and what took long: whoever ends a run early knows both."""
    if "PYTEST_XDIST_WORKER" in os.environ or not (report.failed or report.duration > LONG_S):
        return
    how = "FAILED" if report.failed else "took long"
    minutes, seconds = divmod(int(time.monotonic() - _BEGAN), 60)
    print(f"\n{minutes}:{seconds:02} {how} after {report.duration:.0f} s: {report.nodeid} ({report.when})", flush=True)
    if report.failed:
        print(str(report.longrepr)[-2_000:], flush=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the seconds of each folder, so that growth is seen."""
    seconds: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    for report in (one for some in terminalreporter.stats.values() for one in some if hasattr(one, "duration")):
        folder = str(Path(report.nodeid.partition("::")[0]).parent)
        seconds[folder] += report.duration
        tests[folder] += report.when == "call"
    terminalreporter.section("seconds by folder, all workers together")
    for folder, spent in seconds.most_common():
        terminalreporter.line(f"{spent:9.1f} s {tests[folder]:6,} tests  {folder}")
    terminalreporter.line(f"{seconds.total():9.1f} s {tests.total():6,} tests")


@pytest.fixture(scope="session", autouse=True)
def _whatever_the_shell() -> None:
    """A shell that starts the tests in the background lets them ignore SIGINT, and their children would inherit it.
    As they would a umask by which others may write into what they make, which is refused as code.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.umask(0o022)


@pytest.fixture(scope="session", autouse=True)
def _nobodys_ipython(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Kernels and shells of the tests neither run the startup files of whoever tests, nor write in that history."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))
        yield


def _variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("WORKBENCH_")}


@pytest.fixture(autouse=True)
def _leaves_nothing() -> Iterator[None]:
    """What a test registers is its own: no later test of the same worker lists it. So are variables of the workbench.

    Without `monkeypatch`, which would then end after all other fixtures: these clean up without a test's patches.
    """
    before = _variables()
    with mock.patch.dict(registration._factories):
        yield
    for name in _variables():
        del os.environ[name]
    os.environ.update(before)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built once."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(CHECKOUT)]
    built = subprocess.run(command, check=False, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    (made,) = folder.glob("rl_workbench-*.whl")
    return made


def processes_of(run_dir: Path) -> list[psutil.Process]:
    """Living processes that were started for the run in `run_dir`."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        command = process.info["cmdline"] or []
        if str(run_dir) in command and "workbench" in command and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


def open_files() -> set[tuple[str, str]]:
    """Descriptors of this process, and what they are of. What is new is a test's own; others may go at any time."""
    found = set()
    for link in os.scandir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the scan's own, and what is closed meanwhile
            found.add((link.name, os.readlink(link)))
    return found


def eventually(check: Callable[[], Any], *, what: str = "") -> Any:
    """The first true value of `check`, tried again and again; fails with `what` after LONGEST_S."""
    deadline = time.monotonic() + LONGEST_S
    while True:
        value = check()
        if value:
            return value
        assert time.monotonic() < deadline, f"not within {LONGEST_S} s: {what or check}"
        time.sleep(0.05)


def write_files(folder: Path, texts: Mapping[str, str]) -> Path:
    """Write texts into files of a folder, by their names there; the folder."""
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def gone(process: psutil.Process) -> bool:
    """Whether it has ended, though its parent may not have looked yet."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def _end_all() -> None:
    for folder in sweep_folder.listed()[0]:  # they would start other runs
        with suppress(OSError):
            folder.order_to_stop.touch()
        _kill_all(processes_of(folder.path))
    for directory in rundir.every():
        with suppress(WorkbenchError):
            if lock.is_alive(directory):
                Control(directory).call("stop", grace_s=0.0)
    for directory in rundir.every():
        deadline = time.monotonic() + 10
        while processes_of(directory.path) and time.monotonic() < deadline:
            time.sleep(0.05)
        _kill_all(processes_of(directory.path))


def _kill_all(processes: list[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def private_home(path: Path | None = None) -> Iterator[Path]:
    """A home, at `path` or in a new folder, for a fixture to yield from; all sweeps and runs in it are ended after."""
    before = os.environ.get("WORKBENCH_HOME")
    path = path or Path(tempfile.mkdtemp(prefix="wb-"))  # short: a socket's path may have 107 bytes
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


@pytest.fixture
def host() -> Iterator[OtherHost]:
    """Another machine."""
    with other_host() as made:
        yield made
