"""A sweep whose process is killed between any two of its writes to the study, life after life, until it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.conftest import SMALL, eventually, private_home_with_sweeps, processes_of
from workbench.client.sweep_folder import SweepFolder
from workbench.config import RunConfig

pytest.importorskip("optuna")
pytestmark = pytest.mark.timeout(420)

# A sweep's process that ends by SIGKILL in place of one of its writes. Arguments: the sweep's folder, writes before.
MORTAL = """
import os, signal, sys
from optuna.storages import RDBStorage
from workbench.client import sweep_process

folder, left = sys.argv[1], int(sys.argv[2])

def mortal(write):
    def written(*args, **fields):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return write(*args, **fields)
    return written

for name in dir(RDBStorage):
    if name.startswith(("set_", "create_new_trial")):
        setattr(RDBStorage, name, mortal(getattr(RDBStorage, name)))
sys.exit(sweep_process.main(folder))
"""
SPACE = {"learning_rate": (1e-5, 1e-1), "entropy_cost": (1e-4, 0.1)}
FIELDS: dict[str, Any] = {**SMALL, "actors": 1, "parallel": 2, "trials": 4}
MOST_LIVES = 60


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    yield from private_home_with_sweeps()


def lived(sweep: wb.Sweep) -> int:
    """Let it live again and again, one write longer each time, until it finishes; how often it was killed."""
    folder = SweepFolder(sweep.path)
    for life in range(MOST_LIVES):
        folder.write(state="starting")
        ended = subprocess.run([sys.executable, "-c", MORTAL, str(sweep.path), str(life)], capture_output=True,
                               text=True, timeout=200)  # fmt: skip
        if ended.returncode == 0:
            return life
        assert ended.returncode == -signal.SIGKILL, ended.stderr
    raise AssertionError(f"it comes to no end in {MOST_LIVES} lives: {sweep.trials}")


def begun(**fields: Any) -> wb.Sweep:
    """A sweep that was killed as soon as it had a process."""
    sweep = wb.sweep("CartPole-v1", space=SPACE, **{**FIELDS, **fields})
    for process in processes_of(sweep.path):
        process.kill()
    eventually(lambda: sweep.state == "dead")
    return sweep


def fields_of(trial: Any) -> dict[str, Any]:
    config = RunConfig.from_json(wb.attach(trial.run).directory.read()["config"])
    return {name: config.value(name) for name in SPACE}


@pytest.mark.parametrize("sampler", ["tpe", "pbt"])
def test_killed_at_any_write_it_ends_as_one_that_was_never_killed(home: Path, sampler: str) -> None:
    how: dict[str, Any] = {"generations": 3} if sampler == "pbt" else {"pruner": "none"}
    sweep = begun(name=f"often-{sampler}", sampler=sampler, total_frames=3000, **how)
    assert lived(sweep) > 8
    status, trials = sweep.status, sweep.trials
    assert (status.state, status.finished, status.failed) == ("finished", 4, 0), trials
    assert status.pruned == (2 if sampler == "pbt" else 0) and len(trials) == 4 + status.pruned
    for one in trials:
        assert one.fields.keys() == SPACE.keys() and one.value is not None, one
        assert fields_of(one) == pytest.approx(one.fields), one
        assert (one.frames >= 3000) == (one.state == "finished")
        assert one.note.count("a fork of") == (one.number >= 4) + (one.state == "pruned"), one
    assert {run.name for run in wb.runs() if run.name.startswith(sweep.name)} == {one.run for one in trials}
    assert not any(processes_of(wb.attach(one.run).path) for one in trials)
