"""Games of several agents, and scores, through real inference: every row is a life of its own."""

import dataclasses
import itertools

import numpy as np
import pytest

from tests.environments.games import CountingGame
from tests.learner.counting import actor_of, check_consecutive, check_replayed, check_unroll, rig
from tests.played import code_of
from workbench.actor.main import make_groups
from workbench.config import RunConfig
from workbench.environment_spec import EnvironmentSpec
from workbench.environments import make
from workbench.environments.contract import VectorEnvironment
from workbench.environments.pettingzoo.family import ParallelVector
from workbench.errors import OutOfBounds
from workbench.rundir import RunDirectory, write_atomically
from workbench.testing import CountingEnv
from workbench.trajectory import Flags, StepBatch


def spec_of(agents, **more):
    return EnvironmentSpec("testing/counting-v0", (4,), "float32", 3, agents=agents, **more)


def games(lengths, ends, number, groups=2):
    return [
        ParallelVector("testing/counting-v0", lambda: CountingGame(lengths=lengths, ends=ends),
                       num_envs=number // groups * len(lengths), seed=0)
        for _ in range(groups)
    ]


def own(unroll, agent):
    """The unroll with rewards as CountingEnv's, which are 1/2**agent of this agent's, exactly."""
    return dataclasses.replace(unroll, reward=unroll.reward / np.float32(2**agent))


@pytest.mark.parametrize(
    ("lengths", "ends", "unroll_length", "overlap"),
    [
        ((3, 7, 5), ("terminated",) * 3, 5, 0),
        ((1, 6), ("alternate", "truncated"), 4, 0),
        ((9, 2, 4), ("truncated", "alternate", "terminated"), 3, 2),
    ],
)
def test_no_unroll_mixes_games_or_agents_and_what_was_held_back_comes_once(lengths, ends, unroll_length, overlap):
    agents = len(lengths)
    rows = 4 * agents
    with (
        rig(spec_of(agents), overlap=overlap, actors=1, envs_per_actor=rows, groups_per_actor=2, max_batch=rows,
            unroll_length=unroll_length) as running,
        actor_of(running.run, games(lengths, ends, 4)),
    ):
        running.collect_of_each(range(rows), 12)
    for unroll in running.unrolls:
        agent = unroll.env_id % agents
        assert not (unroll.flags & Flags.ABSENT).any(), "a step in which the agent had no part"
        assert {CountingEnv.decode(frame).life % 10 for frame in unroll.observation} == {agent}
        check_unroll(own(unroll, agent), [lengths[agent]])
    check_consecutive(running.unrolls, shared=overlap + 1)
    check_replayed(running)
    seen = set(itertools.chain.from_iterable(unroll.flags.tolist() for unroll in running.unrolls))
    assert int(Flags.START | Flags.TERMINATED) in seen
    assert (int(Flags.START | Flags.TRUNCATED) in seen) == (ends != ("terminated",) * 3)
    for env_id in range(rows):
        agent = env_id % agents
        mine = [one for one in running.episodes if one.env_id == env_id]
        assert len(mine) > 4
        for number, episode in enumerate(mine):
            rewards = [CountingGame.reward(number, agent, step) for step in range(1, lengths[agent] + 1)]
            assert (episode.length_steps, episode.kind, episode.score) == (lengths[agent], "training", None)
            assert episode.episode_return == pytest.approx(sum(rewards), rel=1e-5)


def test_whole_games_evaluate():
    lengths = (2, 3)
    with (
        rig(spec_of(2), algorithm="r2d2", actors=1, envs_per_actor=8, groups_per_actor=2, max_batch=8, unroll_length=5,
            burn_in=0, evaluation_envs_per_actor=3) as running,
        actor_of(running.run, games(lengths, ("terminated",) * 2, 4)),
    ):
        running.collect_of_each(range(4), 5)
    assert {unroll.env_id for unroll in running.unrolls} == {0, 1, 2, 3}
    kinds = {(episode.kind, episode.env_id) for episode in running.episodes}
    assert kinds == {("evaluation" if env_id >= 4 else "training", env_id) for env_id in range(8)}


class Scored:
    """CountingEnvs that tell three times the reward as their score, and 5 at the end of every episode."""

    def __init__(self, num_envs):
        self._envs = make("testing/counting-v0", num_envs=num_envs, seed=0, options={"episode_length": [2, 5]})
        self.num_envs, self.fps, self.action_names = num_envs, 15.0, ()
        self.spec = dataclasses.replace(self._envs.spec, scored=True)
        self.render, self.ending, self.close = self._envs.render, self._envs.ending, self._envs.close

    def reset(self, *, seed=None) -> StepBatch:
        return self._scored(self._envs.reset(seed=seed))

    def step(self, actions) -> StepBatch:
        return self._scored(self._envs.step(actions))

    def _scored(self, batch):
        ended = (batch.flags & Flags.TERMINATED) > 0
        return dataclasses.replace(batch, score=3 * batch.reward + np.float32(5) * ended)


def test_scores_of_episodes_are_summed_apart_from_their_returns():
    made = Scored(3)
    assert isinstance(made, VectorEnvironment)
    with (
        rig(made.spec, actors=1, envs_per_actor=3, groups_per_actor=1, max_batch=3, unroll_length=4) as running,
        actor_of(running.run, [made]),
    ):
        running.collect(40)
    assert len(running.episodes) > 20
    for episode in running.episodes:
        assert episode.score == pytest.approx(3 * episode.episode_return + 5, rel=1e-5)


def test_groups_that_hold_no_whole_games_are_refused_in_words(tmp_path):
    run = RunDirectory(tmp_path)
    run.code.mkdir()
    write_atomically(run.code / "environment.pkl", code_of(environment=unchecked)["environment.pkl"])
    config = RunConfig.build("pairs", actors=1, envs_per_actor=6, groups_per_actor=2)
    with pytest.raises(OutOfBounds, match="envs_per_actor=6 must be a multiple of groups_per_actor x 2 = 4"):
        make_groups(config, run)
    assert [group.num_envs for group in make_groups(config.replaced(envs_per_actor=8), run)] == [4, 4]


def unchecked(num_envs):
    """A vector that does not look at the number itself."""
    made = Scored(num_envs)
    made.spec = dataclasses.replace(made.spec, agents=2)
    return made
