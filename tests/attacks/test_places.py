"""Places that a user or somebody else has made odd: homes, working directories, umasks, folders in /tmp, names."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.conftest import SMALL
from workbench import rundir
from workbench.errors import AccessDenied, RunNotFound, WorkbenchError
from workbench.rundir import RunDirectory


def python(code: str, **kwargs: Any) -> str:
    """What a plain Python prints that runs this."""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, **kwargs)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


LAUNCH = f"""
import workbench as wb
run = wb.launch("CartPole-v1", name="odd", **{SMALL!r})
print(run.wait(updates=2, timeout_s=240).state)
run.tune(learning_rate=1e-3)
print(run.stop().state)
"""


@pytest.mark.parametrize("name", ["a#b", pytest.param("a?b,c", marks=pytest.mark.full),
                                  pytest.param("50 %41 ü", marks=pytest.mark.full)])
def test_a_home_whose_name_means_something_in_an_address(home: Path, name: str) -> None:
    odd = home / name
    assert python(LAUNCH, env={**os.environ, "WORKBENCH_HOME": str(odd)}).split() == ["training", "stopped"]
    assert not (odd / "runs" / "odd" / "control.sock").exists()


def in_a_deleted(folder: Path) -> str:
    """Code that goes there, and deletes it."""
    return f"import os\nos.mkdir({str(folder)!r}); os.chdir({str(folder)!r}); os.rmdir({str(folder)!r})\n"


def test_a_launch_from_a_directory_that_was_deleted(home: Path) -> None:
    assert python(in_a_deleted(home / "gone") + LAUNCH).split() == ["training", "stopped"]


def test_nothing_of_a_home_is_open_to_others_whatever_the_umask(tmp_path: Path) -> None:
    code = ("import os; os.umask(0)\n"
            "from workbench import rundir\nfrom workbench.client import sweep_folder\n"
            "rundir.create('one', {}, code={'environment.pkl': b''})\n"
            "sweep_folder.create('two', {}, {}, lambda sweep: None)\n"
            "from workbench.rundir import sealed\nsealed.sealed('environment.pkl', b'')\n")
    homes = {"WORKBENCH_HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    python(code, env={**os.environ, **homes})
    for path in (*(tmp_path / "home").rglob("*"), tmp_path / "home", *(tmp_path / "config").rglob("*")):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o022, path
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700


@pytest.mark.parametrize("planted", ["link", "dangling link", "file", "open to others"])
def test_a_folder_that_somebody_planted_for_sockets_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    run = RunDirectory(tmp_path / ("long" * 40))
    folder = Path(run.supervisor_address.removeprefix("unix:")).parent
    assert folder.parent == tmp_path and stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.rmdir()
    (tmp_path / "mine").mkdir(mode=0o700)
    if planted == "file":
        folder.touch()
    elif planted == "open to others":
        folder.mkdir()
        folder.chmod(0o777)
    else:
        folder.symlink_to(tmp_path / ("mine" if planted == "link" else "nowhere"))
    with pytest.raises(AccessDenied, match="is not a folder of yours alone"):
        run.learner_address()


NAMES = ["x" * 300, "x" * 5000, "~nobody-such/x", "~", "", ".", "a\0b", "ü" * 200, "../..", "/", None, 7, b"run", []]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: f"{name!r:.12}")
def test_a_name_of_anything_is_no_run(home: Path, name: Any) -> None:
    for find in (wb.attach, wb.resume, wb.attach_sweep):
        with pytest.raises(RunNotFound):
            find(name)
    for take in (wb.evaluate, wb.rollout, wb.play):
        with pytest.raises(WorkbenchError):
            take(name)


def test_names_are_looked_for_from_a_directory_that_was_deleted(home: Path, tmp_path: Path) -> None:
    rundir.create("one", {})
    code = (in_a_deleted(tmp_path / "gone") +
            "import workbench as wb\nprint(wb.runs()['one'].state)\n"
            "try:\n    wb.attach('two')\nexcept wb.errors.RunNotFound as error:\n    print('not found')\n")
    assert python(code) == "damaged\nnot found\n"


INTERRUPTED = """
import os, signal, threading, time, sys
import workbench as wb
signal.signal(signal.SIGINT, signal.default_int_handler)
after = float(sys.argv[1])
threading.Thread(target=lambda: (time.sleep(after), os.kill(os.getpid(), signal.SIGINT)), daemon=True).start()
begun = time.monotonic()
try:
    wb.launch("CartPole-v0-of-nothing")
except KeyboardInterrupt:
    print("interrupted")
except wb.errors.UnknownName:
    time.sleep(max(0.0, after + 0.2 - (time.monotonic() - begun)))
"""
AGAIN = """
try:
    wb.launch("CartPole-v0-of-nothing")
except wb.errors.UnknownName:
    print("again")
"""


@pytest.mark.parametrize("share", [0.2, *(pytest.param(one / 10, marks=pytest.mark.full) for one in range(1, 10))])
def test_an_interrupt_of_the_first_call_leaves_the_next_one_whole(home: Path, share: float) -> None:
    """At any share of the seconds that the first call takes, which are imports for the most part."""
    code = ("import time, workbench as wb\nbegun = time.monotonic()\ntry:\n    wb.launch('x')\n"
            "except wb.errors.UnknownName:\n    print(time.monotonic() - begun)")
    whole = float(python(code))
    done = subprocess.run([sys.executable, "-c", INTERRUPTED + AGAIN, str(share * whole)], check=False,
                          capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.endswith("again\n"), done.stdout + done.stderr
