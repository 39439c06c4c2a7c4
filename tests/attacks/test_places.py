"""Places that a user or somebody else has made odd or poor: homes, working directories, umasks, folders in /tmp, names,
memory."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.conftest import SMALL, eventually
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
    with tempfile.TemporaryDirectory(prefix="wb") as sockets:
        env = {**os.environ, "WORKBENCH_HOME": str(odd), "TMPDIR": sockets}
        assert python(LAUNCH, env=env).split() == ["training", "stopped"]
        eventually(lambda: not list(Path(sockets).glob("rl-workbench-*")))
    assert not (odd / "runs" / "odd" / "control.sock").exists()


def in_a_deleted(folder: Path) -> str:
    """Code that goes there, and deletes it."""
    return f"import os\nos.mkdir({str(folder)!r}); os.chdir({str(folder)!r}); os.rmdir({str(folder)!r})\n"


@pytest.mark.full
def test_a_launch_from_a_directory_that_was_deleted(home: Path) -> None:
    assert python(in_a_deleted(home / "gone") + LAUNCH).split() == ["training", "stopped"]


def test_nothing_of_a_home_is_open_to_others_whatever_the_umask(tmp_path: Path) -> None:
    code = ("import os; os.umask(0)\n"
            "from workbench import rundir\nfrom workbench.sweeping import sweep_folder\n"
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


SMALL_SHM = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=64k tmpfs /dev/shm && exec "$@"', "sh")


@pytest.mark.full
@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("unshare"), reason="only root mounts another /dev/shm")
def test_a_run_needs_no_shared_memory(home: Path) -> None:
    code = LAUNCH.replace("name=", "actor_processes=2, name=")
    done = subprocess.run([*SMALL_SHM, sys.executable, "-c", code], check=False, capture_output=True, text=True)
    if "permission denied" in done.stderr.lower():
        pytest.skip(done.stderr)
    assert done.stdout.split() == ["training", "stopped"], done.stderr


@pytest.mark.full
def test_too_little_memory_for_addresses_is_said_to_end_the_learner(home: Path) -> None:
    """As `ulimit -v` does. Torch alone needs more; what fails first, and how, differs from time to time."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (700 * 2**20, resource.RLIM_INFINITY))\n"
    launch = LAUNCH.replace("name=", "ready_timeout_s=60, name=")
    said = python(f"{limit}import workbench as wb\ntry:\n{textwrap.indent(launch, '    ')}"
                  "except wb.errors.WorkbenchError as error:\n    print(type(error).__name__, error)\n")
    assert re.match("(RunFailed|WaitTimeout) .*learner .*ended with (exit code|signal)", said), said


@pytest.mark.full
@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("setpriv"), reason="only root starts processes of others")
def test_two_users_have_runs_of_one_name_side_by_side(tmp_path: Path) -> None:
    """Their homes have such long names that the sockets of both are in /tmp."""
    other = ("setpriv", "--reuid", "65534", "--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search")
    tmp_path.chmod(0o755)
    tmp_path.parent.chmod(0o755)
    running = []
    for user, prefix in (("me", ()), ("other", other)):
        home = tmp_path / user / ("long" * 30)
        home.mkdir(parents=True)
        if prefix:
            for folder in (home, home.parent):
                os.chown(folder, 65534, 65534)
        variables = {**os.environ, "WORKBENCH_HOME": str(home), "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
        running.append(subprocess.Popen([*prefix, sys.executable, "-c", LAUNCH], env=variables, cwd=tmp_path / user,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    for one in running:
        said, complaint = one.communicate()
        assert said.split() == ["training", "stopped"], complaint


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
    try:
        time.sleep(max(0.0, after + 0.2 - (time.monotonic() - begun)))
    except KeyboardInterrupt:
        print("interrupted late")
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
