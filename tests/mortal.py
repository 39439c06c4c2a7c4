"""Sweeps whose process is killed between any two of its writes to the study, life after life, until they end."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any

import workbench as wb
from tests.conftest import SMALL, eventually, processes_of
from workbench.config import RunConfig
from workbench.sweeping.sweep_folder import SweepFolder

# A sweep's process that ends by SIGKILL in place of one of its writes. Arguments: the sweep's folder, writes before.
_MORTAL = """
import os, signal, sys
from optuna.storages import RDBStorage
from workbench.sweeping import process

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
    if name.startswith(("set_", "_set_trial_param", "_create_new_trial")):
        setattr(RDBStorage, name, mortal(getattr(RDBStorage, name)))
sys.exit(process.main(folder))
"""
SPACE = {"learning_rate": (1e-5, 1e-1), "entropy_cost": (1e-4, 0.1)}
_FIELDS: dict[str, Any] = {**SMALL, "actors": 1, "parallel": 2, "trials": 4}
_MOST_LIVES = 60


def begun(name: str, **fields: Any) -> wb.Sweep:
    """A sweep of four runs that was killed as soon as it had a process."""
    sweep = wb.sweep("CartPole-v1", space=SPACE, name=name, **{**_FIELDS, **fields})
    for process in processes_of(sweep.path):
        process.kill()
    eventually(lambda: sweep.state == "dead")
    return sweep


def lived(sweep: wb.Sweep) -> int:
    """Let it live again and again, one write longer each time, until it finishes; how often it was killed."""
    folder = SweepFolder(sweep.path)
    for life in range(_MOST_LIVES):
        folder.write(state="starting")
        ended = subprocess.run([sys.executable, "-c", _MORTAL, str(sweep.path), str(life)], capture_output=True,
                               text=True, timeout=240)  # fmt: skip
        if ended.returncode == 0:
            return life
        assert ended.returncode == -signal.SIGKILL, ended.stderr
    raise AssertionError(f"it comes to no end in {_MOST_LIVES} lives: {sweep.trials}")


def check_whole(sweep: wb.Sweep, frames: int) -> None:
    """Nothing was lost or done twice: each trial has its fields, its value and its run, which has ended."""
    trials = sweep.trials
    for one in trials:
        assert one.fields.keys() == SPACE.keys() and one.value is not None, one
        config = RunConfig.from_json(wb.attach(one.run).directory.read()["config"])
        assert all(abs(config.value(name) - one.fields[name]) < 1e-12 for name in SPACE), one
        assert (one.frames >= frames) == (one.state == "finished"), one
    assert {run.name for run in wb.runs() if run.name.startswith(sweep.name)} == {one.run for one in trials}
    assert not any(processes_of(wb.attach(one.run).path) for one in trials)
