"""A frozen opponent: its rows get its own actions, and nothing of them is learnt."""

import pickle
import shutil

import numpy as np
import pytest
import torch
from torch import nn

from tests.environments.games import CountingGame
from tests.learner.counting import actor_of, check_unroll, rig
from tests.learner.test_agents import games, own, spec_of
from workbench import algorithms, checkpoints
from workbench.algorithms import PolicyValueOutput
from workbench.config import RunConfig
from workbench.environment_spec import EnvironmentSpec
from workbench.environments.pettingzoo.family import ParallelVector
from workbench.errors import InvalidInput, OutOfBounds, ShapeMismatch
from workbench.policies import frozen_opponent as frozen_copy
from workbench.policies import roles
from workbench.policies.player import LoadedPolicy, load_opponent, load_player
from workbench.rundir import RunDirectory
from workbench.testing import CountingEnv
from workbench.trajectory import Flags, StepBatch


class InTurn(nn.Module):
    """Plays 0, 1, 2, 0, ... by the steps that its state has counted; fails where the stack or the previous action do
    not fit that."""

    def __init__(self, spec: EnvironmentSpec) -> None:
        super().__init__()
        self.frames, self.choices = spec.frame_stack, spec.num_actions

    def initial_state(self, batch):
        return (torch.zeros(batch, 1),)

    def forward(self, observation, previous_action, reward, start, state):
        (count,) = state
        count = count.masked_fill(start[0, :, None], 0.0)
        step = count[:, 0].long()
        seen = observation[0].view(len(step), self.frames, 4)
        sent = seen[:, -1].ne(0).any(-1)  # the rest fills the batch up
        assert sent.any()
        told = torch.stack([seen[:, -1, 2].long(), seen.ne(0).any(-1).sum(-1), previous_action[0]])
        actions = torch.where(step > 0, (step - 1) % self.choices, 0)
        right = torch.stack([step, (step + 1).clamp(max=self.frames), actions])
        assert torch.equal(told[:, sent], right[:, sent]), "state, stack or action of another row"
        logits = 1e4 * nn.functional.one_hot(step % self.choices, self.choices).float()
        return PolicyValueOutput(logits[None], torch.zeros_like(reward)), (count + 1,)


def frozen(agents, frame_stack=1):
    config = RunConfig.build("testing/counting-v0")
    spec = spec_of(agents, frame_stack=frame_stack)
    return LoadedPolicy(InTurn(spec), algorithms.build(config, spec=spec), spec, config.hyperparameters)


@pytest.mark.usefixtures("padding")
@pytest.mark.parametrize(("agents", "opponents", "frame_stack"), [(2, 0, 1), (3, 2, 1), (3, 1, 4)])
def test_the_opponents_rows_get_its_actions_and_only_the_others_learn(agents, opponents, frame_stack):
    lengths = (4, 2, 7)[:agents]
    theirs = opponents or agents // 2
    rows = 4 * agents
    got = []
    groups = games(lengths, ("alternate",) * agents, 4)
    groups += [ParallelVector("testing/counting-v0", lambda: CountingGame(lengths=lengths, got=got),
                              num_envs=agents, seed=0)]
    rows += agents
    with (
        rig(spec_of(agents), opposing=frozen(agents, frame_stack), opponent="frozen", opponent_agents=opponents,
            actors=1, envs_per_actor=rows, groups_per_actor=3, max_batch=rows, unroll_length=5) as running,
        actor_of(running.run, groups),
    ):
        ours = [row for row in range(rows) if row % agents < agents - theirs]
        running.collect_of_each(ours, 8)
    assert {unroll.env_id for unroll in running.unrolls} == set(ours)
    assert {episode.env_id for episode in running.episodes} == set(ours)
    for unroll in running.unrolls:
        check_unroll(own(unroll, unroll.env_id % agents), [lengths[unroll.env_id % agents]])
    played = {agent: [] for agent in range(agents)}
    for actions in got:
        for name, action in actions.items():
            played[int(name[1:])].append(int(action))
    for agent in range(agents):
        expected = [step % 3 for _ in range(len(played[agent])) for step in range(lengths[agent])]
        follows = played[agent] == expected[: len(played[agent])]
        assert follows == (agent >= agents - theirs), f"agent {agent}"
    assert running.inference.steps >= sum(len(unroll.reward) - 1 for unroll in running.unrolls)
    assert running.inference.steps <= len(ours) * max(len(one) for one in played.values()) * 2


@pytest.mark.usefixtures("padding")
def test_a_new_life_of_an_actor_begins_anew_for_the_opponent_too():
    """InTurn fails where a row's memory is of another life."""
    with rig(spec_of(2), opposing=frozen(2), opponent="frozen", actors=1, envs_per_actor=2, groups_per_actor=1,
             max_batch=2, unroll_length=3) as running:
        for _ in range(3):
            with actor_of(running.run, games((9, 9), None, 1, groups=1)):
                running.collect(4)
                life = running.streams.lives[0]
            running.streams._end(life)


def test_roles_are_those_of_whole_games():
    config = RunConfig.build("x", algorithm="r2d2", actors=2, envs_per_actor=9, evaluation_envs_per_actor=1,
                             opponent="frozen", opponent_agents=1)
    ids = np.arange(18)
    assert roles.evaluating(ids, config, 3).tolist() == ([False] * 6 + [True] * 3) * 2
    assert roles.opposing(ids, config, 3).tolist() == [False, False, True] * 6
    training = ~roles.evaluating(ids, config, 3) & ~roles.opposing(ids, config, 3)
    np.testing.assert_allclose(roles.ranks(ids, config, 3)[training], np.linspace(0, 1, 8), rtol=1e-6)


@pytest.mark.parametrize(
    ("fields", "agents", "says"),
    [
        ({"envs_per_actor": 8}, 3, "envs_per_actor=8 must be a multiple of groups_per_actor x agents: 3 agents"),
        ({"opponent": "x"}, 1, r"1 play\(s\) each game"),
        ({"opponent": "x", "opponent_agents": 2}, 2, r"choose opponent_agents in \[1, 2\)"),
    ],
)
def test_games_that_do_not_fit_are_refused_in_words(fields, agents, says):
    with pytest.raises(OutOfBounds, match=says):
        roles.check(RunConfig.build("x", **fields), spec_of(agents))


def written(folder, spec, **fields):
    """A checkpoint of a default network that nobody trained."""
    from workbench import networks

    config = RunConfig.build("testing/counting-v0", **fields)
    heads = algorithms.build(config, spec=spec).heads
    network = networks.build(config.network, spec=spec, heads=heads, seed=0)
    model = {name: value.numpy() for name, value in network.state_dict().items()}
    return checkpoints.write(
        folder, frames=1, requested=True, groups={"model": model},
        meta={"steps": 1, "updates": 1, "time_s": 0.0, "config": config.to_json(), "environment": spec.to_json()})


def recorded(folder) -> RunDirectory:
    """A run's directory as far as its record makes it one."""
    folder.mkdir()
    run = RunDirectory(folder)
    run.record.write_text("{}")
    return run


def test_an_opponent_of_other_spaces_or_one_that_is_gone_is_refused_in_words(tmp_path):
    found = written(tmp_path, spec_of(2))
    assert load_opponent(found, spec_of(2)).spec == spec_of(2)
    wider = EnvironmentSpec("wider", (5,), "float32", 3, agents=2)
    with pytest.raises(ShapeMismatch, match=r"with observation_shape=\(4,\), and wider has \(5,\)"):
        load_opponent(found, wider)
    more = EnvironmentSpec("more", (4,), "float32", 4, agents=2)
    with pytest.raises(ShapeMismatch, match="actions="):
        load_opponent(found, more)
    with pytest.raises(InvalidInput, match="the opponent's checkpoint is gone"):
        frozen_copy.kept(RunDirectory(tmp_path / "run"), str(tmp_path / "gone"))


def test_the_opponents_checkpoint_stays_when_its_run_is_pruned(tmp_path):
    given = written(tmp_path / "theirs" / "checkpoints", spec_of(2))
    run = recorded(tmp_path / "run")
    copied = frozen_copy.kept(run, str(given.path))
    assert copied.groups == ["model"]
    ours = written(run.checkpoints, spec_of(2), opponent=str(given.path))
    weights = given.load("model")
    shutil.rmtree(tmp_path / "theirs")
    assert frozen_copy.kept(run, str(given.path)).path == copied.path
    player = load_player(ours, num_envs=2, seed=0)
    for name, tensor in player.opponent.policy.network.state_dict().items():
        np.testing.assert_array_equal(tensor.numpy(), weights[name])


def test_a_player_of_such_a_run_plays_against_its_opponent(tmp_path):
    opponent = written(tmp_path / "frozen", spec_of(2))
    run = recorded(tmp_path / "run")
    found = written(run.checkpoints, spec_of(2), opponent=str(opponent.path))
    player = load_player(found, num_envs=4, seed=0)
    assert player.theirs.tolist() == [False, True] * 2 and player.opponent is not None
    step = StepBatch(np.ones((4, 4), np.float32), np.zeros(4, np.float32), np.full(4, Flags.START, np.uint8))
    sent = player.act(step, greedy=True)
    assert np.array_equal(sent[player.theirs], player.opponent.chosen[player.theirs])
    alone = load_player(opponent, num_envs=4, seed=0)
    assert not alone.theirs.any() and alone.opponent is None
    assert CountingEnv.decode(step.observation[0]).step == 1


def test_a_checkpoint_that_lies_in_no_run_does_not_choose_whose_code_is_loaded(tmp_path):
    """An exported one, from anybody: its meta.json names a folder whose run has a network typed in a cell."""
    theirs = recorded(tmp_path / "theirs")
    theirs.code.mkdir()
    (theirs.code / "network.pkl").write_bytes(pickle.dumps(Touches(str(tmp_path / "loaded"))))
    opponent = written(theirs.checkpoints, spec_of(2))
    alone = written(tmp_path / "exported", spec_of(2), opponent=str(opponent.path))
    with pytest.raises(InvalidInput, match="was trained against an opponent, which lies with its run"):
        load_player(alone, num_envs=4, seed=0)
    assert not (tmp_path / "loaded").exists()


class Touches:
    """Whose unpickling leaves a file behind."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")
