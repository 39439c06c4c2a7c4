"""Two players of one game, one of them frozen: the other learns to beat it, through the real processes."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn

import workbench as wb
from tests.conftest import eventually
from tests.played import code_of
from workbench import checkpoints, rundir
from workbench.algorithms import PolicyValueOutput
from workbench.config import RunConfig
from workbench.environment_spec import EnvironmentSpec
from workbench.errors import InvalidInput, RunFailed, RunNotFound

FIELDS = {"actors": 1, "envs_per_actor": 16, "groups_per_actor": 2, "unroll_length": 8, "batch_size": 8,
          "learner_threads": 1, "learning_rate": 3e-3, "entropy_cost": 0.01, "max_batch": 16}


class Differ:
    """Player 0 gets 1 in each of 8 steps in which its action differs from player 1's, who gets the opposite."""

    metadata = {"name": "differ"}
    possible_agents = ["finder", "hider"]

    def __init__(self) -> None:
        self.agents = []

    def observation_space(self, agent):
        return Box(-1, 1, (2,), np.float32)

    def action_space(self, agent):
        return Discrete(3)

    def reset(self, seed=None, options=None):
        self.agents, self.steps = self.possible_agents[:], 0
        return self._seen(), {agent: {} for agent in self.agents}

    def step(self, actions):
        self.steps += 1
        won = float(actions["finder"] != actions["hider"])
        over = dict.fromkeys(self.agents, self.steps == 8)
        self.agents = [] if self.steps == 8 else self.agents
        rewards = {"finder": won, "hider": -won}
        return self._seen(), rewards, over, dict.fromkeys(over, False), {agent: {} for agent in over}

    def _seen(self):
        return {agent: np.array([1.0, self.steps / 8], np.float32) for agent in self.possible_agents}

    def close(self):
        pass


class AlwaysSecond(nn.Module):
    """Plays action 1."""

    def __init__(self, spec):
        super().__init__()
        self.bias = nn.Parameter(torch.tensor([0.0, 50.0, 0.0]))

    def initial_state(self, batch):
        return ()

    def forward(self, observation, previous_action, reward, start, state):
        return PolicyValueOutput(self.bias.expand(*start.shape, 3), torch.zeros_like(reward)), state


def frozen_run(name="frozen"):
    """A run that has ended, whose one checkpoint always plays action 1."""
    config = RunConfig.build("Differ")
    spec = EnvironmentSpec("Differ", (2,), "float32", 3, agents=2)
    code = code_of(environment=Differ, network=AlwaysSecond)
    run = rundir.create(name, {"config": config.to_json(), "created": 0.0, "state": "stopped", "parent": None,
                               "supervisor_pid": None, "error": None}, code=code)
    return checkpoints.write(
        run.checkpoints, frames=10, requested=True, groups={"model": {"bias": np.array([0.0, 50.0, 0.0], np.float32)}},
        meta={"steps": 1, "updates": 1, "time_s": 0.0, "config": config.to_json(), "environment": spec.to_json()})


@pytest.mark.full
def test_against_a_frozen_checkpoint_the_other_player_learns_to_win(home):
    checkpoint = frozen_run()
    run = wb.launch(Differ, opponent="frozen", total_frames=1_000_000, **FIELDS)
    assert run.config.opponent == str(checkpoint.path)
    run.wait(episode_return=7.5, timeout_s=240, progress=False)
    episodes = run._reader.episodes()
    assert set((episodes["env_id"] % 2).tolist()) == {0}, "the frozen player's episodes are not counted"
    assert episodes["episode_return"][:20].mean() < 7.0, "it had to be learnt"
    for _ in range(4):  # one checkpoint may be of a bad moment
        mine = run.checkpoint()
        won = wb.evaluate(mine, episodes=5)
        if won.returns == (8.0,) * 5:
            break
        run.wait(updates=mine.updates + 20, timeout_s=240, progress=False)
    assert won.returns == (8.0,) * 5 and won.lengths == (8,) * 5
    assert (run.directory.path / "opponent" / "code" / "network.pkl").exists(), "what was typed in a cell goes along"
    run.stop()
    forked = run.fork(mine, opponent=mine, opponent_agents=1, total_frames=10**7)
    assert forked.config.opponent == str(mine.path)
    eventually(lambda: forked.status.episode_return is not None, what="episodes against its own weights")
    forked.stop()
    shutil.rmtree(checkpoint.path.parent.parent)
    forked = run.fork(mine, total_frames=10**7)
    own = run.directory.path / "opponent" / "checkpoints"
    assert Path(forked.config.opponent).parent == own, "the run's own copy, as the one that it names is gone"
    eventually(lambda: forked.status.episode_return is not None, what="episodes against the parent's copy")
    assert (forked.directory.path / "opponent" / "code" / "network.pkl").exists()
    forked.stop()


@pytest.mark.full
def test_both_players_learn_where_there_is_no_opponent(home):
    run = wb.launch(Differ, total_frames=100_000_000, **FIELDS)
    run.wait(updates=20, timeout_s=240, progress=False)
    eventually(lambda: {one % 2 for one in run._reader.episodes()["env_id"].tolist()} == {0, 1}, what="both players")
    episodes = run._reader.episodes()
    returns = [episodes["episode_return"][episodes["env_id"] % 2 == agent] for agent in (0, 1)]
    assert min(returns[0]) >= 0 >= max(returns[1])
    assert len(wb.evaluate(run.checkpoint(), episodes=3).returns) == 3


def test_an_opponent_that_is_nobodys_checkpoint_is_refused_before_anything_starts(home):
    with pytest.raises(RunNotFound, match="nobody"):
        wb.launch(Differ, opponent="nobody", **FIELDS)
    with pytest.raises(InvalidInput, match="there is no checkpoint in"):
        wb.launch(Differ, opponent=str(home / "elsewhere"), **FIELDS)


@pytest.mark.full
@pytest.mark.parametrize(
    ("environment", "fields", "says"),
    [(Differ, {"envs_per_actor": 6, "groups_per_actor": 2}, "must be a multiple of groups_per_actor x 2"),
     ("CartPole-v1", {"opponent": "frozen"}, "an opponent needs agents of its own beside those that learn")],
)
def test_what_does_not_fit_the_games_ends_the_launch_in_words(home, environment, fields, says):
    frozen_run()
    with pytest.raises((InvalidInput, RunFailed), match=says):
        wb.launch(environment, **{**FIELDS, **fields})
