"""A run whose classes lie in modules beside the notebook keeps them as they were at its launch, wherever it goes on."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.conftest import SMALL, eventually
from workbench.errors import AccessDenied

START_S = 240.0

FILES = {
    "corridor.py": """
import gymnasium, numpy
from corridor_parts import rewards

class Corridor(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 9, (2,), numpy.float32)
    action_space = gymnasium.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return numpy.zeros(2, numpy.float32), {}
    def step(self, action):
        self.steps += 1
        return numpy.full(2, self.steps, numpy.float32), rewards.EACH, self.steps == 4, False, {}

class Doubled(gymnasium.RewardWrapper):
    def reward(self, reward):
        from corridor_parts.factor import FACTOR
        return FACTOR * reward

gymnasium.register("Corridor-v0", entry_point=Corridor)
""",
    "corridor_parts/__init__.py": "",
    "corridor_parts/rewards.py": "EACH = 1.0\n",
    "corridor_parts/factor.py": "FACTOR = 2.0\n",
    "corridor_nets.py": """
from workbench.networks.policy_value import PolicyValueNetwork
from torch import nn

WIDTH = 8
""",
}


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on this process's import path; what is imported from it is forgotten afterwards."""
    folder = tmp_path / "notebook"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(folder)
    yield folder
    for name in [name for name in sys.modules if name.partition("_")[0].partition(".")[0] == "corridor"]:
        del sys.modules[name]


def returns(run: wb.Run) -> set[float]:
    """Different returns of the episodes of its last life, once there are some."""
    eventually(lambda: "episode_return" in run.metric_names)
    return set(run.metrics("episode_return")["value"])


@pytest.mark.full
def test_an_edit_after_the_launch_changes_neither_restarts_nor_forks_nor_what_comes_back_from_storage(
    home: Path, notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corridor: Any = importlib.import_module("corridor")
    run = wb.launch(corridor.Corridor, wrappers=[corridor.Doubled], storage=f"file://{tmp_path}/kept",
                    name="kept", **SMALL)
    try:
        run.wait(updates=5, timeout_s=START_S)
        (notebook / "corridor_parts/factor.py").write_text("FACTOR = 50.0\n")
        (notebook / "corridor.py").write_text("raise RuntimeError('edited')\n")
        pids = [one.pid for one in run.status.actors]
        run.restart_actor(0)
        eventually(lambda: run.status.actors[0].pid not in (None, pids[0])
                   and run.status.actors[0].steps_per_second > 0)
        fork = run.fork(name="forked", learning_rate=1e-4)
        fork.wait(updates=fork.checkpoints[0].updates + 3, timeout_s=START_S)
        fork.stop()
        assert returns(fork) == {8.0}
    finally:
        run.stop()
    assert returns(run) == {8.0}
    assert wb.evaluate(run, episodes=2).returns == (8.0, 8.0)
    shutil.rmtree(notebook)
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "next"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config of the next machine"))
    with pytest.raises(AccessDenied, match="typed in a cell"):
        wb.resume(f"file://{tmp_path}/kept/kept", ready_timeout_s=START_S)
    again = wb.resume(f"file://{tmp_path}/kept/kept", trust_code=True, ready_timeout_s=START_S)
    try:
        again.wait(updates=again.status.updates + 3, timeout_s=START_S)
    finally:
        again.stop()
    assert returns(again) == {8.0}


@pytest.mark.full
def test_an_environment_that_a_module_beside_the_notebook_registers_is_there_after_an_edit(
    home: Path, notebook: Path
) -> None:
    run = wb.launch("corridor:Corridor-v0", **SMALL)
    try:
        run.wait(updates=2, timeout_s=START_S)
        shutil.rmtree(notebook)
        pid = run.status.actors[0].pid
        run.restart_actor(0)
        eventually(lambda: run.status.actors[0].pid not in (None, pid) and run.status.actors[0].steps_per_second > 0)
    finally:
        run.stop()
    assert returns(run) == {4.0} and wb.evaluate(run, episodes=2).returns == (4.0, 4.0)
