"""A run whose classes lie in modules beside the notebook keeps them as they were at its launch, wherever it goes on."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import workbench as wb
from tests.conftest import SMALL, eventually, write_files
from workbench.errors import AccessDenied
from workbench.policies.player import load_policy
from workbench.running.starts import checking

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
from torch import nn
from corridor_parts.factor import FACTOR
from workbench.algorithms import PolicyValueOutput

class Small(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.policy, self.value = nn.Linear(2, 2), nn.Linear(2, 1)
        self.factor = FACTOR
    def initial_state(self, batch):
        return ()
    def forward(self, observation, previous_action, reward, start, state):
        return PolicyValueOutput(self.policy(observation), self.value(observation)[..., 0]), state
""",
    "corridor_learning.py": """
import workbench as wb
from corridor_parts.factor import FACTOR

class Learns(wb.Algorithm):
    class Config(wb.LearningConfig):
        learning_rate: float = 1e-3
        unroll_length: int = 10
        batch_size: int = 4
    def loss(self, network, *, batch, config):
        output = self.outputs(network, batch)
        rewards, discounts = self.rewards_and_discounts(batch, config)
        errors = rewards + discounts * output.value[1:].detach() - output.value[:-1]
        log_probs = self.distribution.log_prob(output.policy_logits[:-1], actions=batch.action[:-1])
        total = errors.square().mean() - (errors.detach() * log_probs).mean()
        return wb.Loss(total, {"loss": total.detach(), "factor": total.detach() * 0 + FACTOR})
""",
}


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on this process's import path; what is imported from it is forgotten afterwards."""
    folder = write_files(tmp_path / "notebook", FILES)
    monkeypatch.syspath_prepend(folder)
    yield folder
    for name in [name for name in sys.modules if name.partition("_")[0].partition(".")[0] == "corridor"]:
        del sys.modules[name]


def returns(run: wb.Run) -> set[float]:
    """Different returns of the episodes of its last life, once there are some."""
    eventually(lambda: "episode_return" in run.metric_names)
    return set(run.metrics("episode_return")["value"])


def test_a_launch_says_which_functions_were_edited_since_their_import(
    notebook: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    learning = importlib.import_module("corridor_learning")
    checking.checked_config("CartPole-v1", learning.Learns, None, None, (), {})
    assert capsys.readouterr().out == ""
    file = notebook / "corridor_learning.py"
    file.write_text(file.read_text().replace("errors.square()", "errors.abs()"))
    checking.checked_config("CartPole-v1", learning.Learns, None, None, (), {})
    said = capsys.readouterr().out
    assert said.startswith("corridor_learning.py was edited after it was imported here (Learns.loss), and the ")


@pytest.mark.full
def test_an_edit_after_the_launch_changes_neither_restarts_nor_forks_nor_what_comes_back_from_storage(
    home: Path, notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corridor, nets = (importlib.import_module(name) for name in ("corridor", "corridor_nets"))
    run = wb.launch(corridor.Corridor, wrappers=[corridor.Doubled], network=nets.Small,
                    storage=f"file://{tmp_path}/kept", name="kept", **SMALL)
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
    assert load_policy(run.checkpoints[-1]).network.factor == 2.0
    assert sys.modules["corridor_nets"] is nets, "a kernel keeps its own modules"
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


@pytest.mark.full
def test_a_sweeps_trials_have_the_modules_of_its_beginning(home: Path, notebook: Path) -> None:
    learning, nets = (importlib.import_module(name) for name in ("corridor_learning", "corridor_nets"))
    sweep = wb.sweep("corridor:Corridor-v0", algorithm=learning.Learns, network=nets.Small, trials=1, name="swept",
                     space={"learning_rate": (1e-4, 1e-2)}, total_frames=2_000, actors=1, envs_per_actor=4)
    shutil.rmtree(notebook)
    sweep.wait(timeout_s=START_S)
    (trial,) = sweep.trials
    assert trial.state == "finished", trial
    assert set(wb.attach("swept-0").metrics("factor")["value"]) == {2.0}
