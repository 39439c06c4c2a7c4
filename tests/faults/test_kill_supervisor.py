"""The supervisor, killed at any moment of its life: nothing of the run is left after 10 s, and `wb.resume` goes on."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import workbench as wb
from tests.conftest import eventually, processes_of
from tests.faults.killing import kill, unexplained, whole_checkpoints
from tests.faults.witness import ENVIRONMENT, RUN, evidence, watching
from workbench import checkpoints


@pytest.fixture(scope="module")
def seen(module_home: Path) -> Path:
    return module_home / "seen"


@pytest.fixture(scope="module")
def run(seen: Path) -> wb.Run:
    return wb.launch(ENVIRONMENT, name="orphaned", network=watching(seen), actors=2, envs_per_actor=4,
                     checkpoint_interval_s=1.0, **RUN)


def none_is_left(run: wb.Run) -> None:
    eventually(lambda: not processes_of(run.path), what="no orphan is left")
    eventually(lambda: run.status.state == "dead")


@pytest.mark.full
def test_a_run_whose_supervisor_is_killed_while_it_trains_goes_on(run: wb.Run, seen: Path) -> None:
    run.wait(updates=run.status.updates + 20, timeout_s=240)
    eventually(lambda: whole_checkpoints(run))
    kill(run.status.supervisor_pid)
    none_is_left(run)
    newest, wrong = checkpoints.newest_good(run.directory.checkpoints)
    assert newest is not None and wrong == []
    again = wb.resume(run.name)
    assert again.wait(updates=newest.updates + 20, timeout_s=240).state == "training"
    assert unexplained(run.directory) == []
    assert evidence(seen).wrong == []


def test_a_learner_whose_supervisor_is_gone_already_ends_before_it_has_loaded_torch(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "workbench", "_learner", str(tmp_path)]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240)
    assert ended.returncode == 0 and "the parent process is gone" in ended.stderr
    assert not re.search(r"\| +torch$", ended.stderr, re.MULTILINE)


@pytest.mark.full
@pytest.mark.parametrize("seed", [1, 2])
def test_a_supervisor_that_is_killed_while_it_starts_its_children_leaves_none(run: wb.Run, seed: int) -> None:
    if run.status.alive:
        kill(run.status.supervisor_pid)
        none_is_left(run)
    wb.resume(run.name, wait_ready=False)
    pid = eventually(lambda: run.status.supervisor_pid)
    time.sleep(random.Random(seed).uniform(0.0, 2.0))  # any moment will do
    kill(pid)
    none_is_left(run)
    again = wb.resume(run.name)
    assert again.wait(updates=again.status.updates + 5, timeout_s=240).state == "training"
    assert unexplained(run.directory) == []
