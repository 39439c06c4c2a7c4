"""What a user's factory made decides the adapter."""

from typing import ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from workbench.environments import make
from workbench.environments.adapters.adapt import vector_of
from workbench.environments.adapters.batched_vector import NativeVector
from workbench.environments.adapters.gymnasium_vector import GymnasiumVector
from workbench.errors import EnvironmentFailed, InvalidInput, OutOfBounds
from workbench.testing import CatchEnv, CountingEnv


def test_one_environment_is_made_for_each_row_and_the_first_is_not_thrown_away():
    made = []

    def factory(seed=None):
        made.append(seed)
        return CountingEnv()

    env = vector_of("mine", factory, num_envs=3, seed=5, show=None)
    assert isinstance(env, GymnasiumVector) and env.num_envs == 3
    assert made == [None] * 3  # a seed of its own for each comes with reset


def test_a_vector_of_gymnasium_is_asked_for_once_with_the_number_of_rows():
    asked = []

    def factory(num_envs):
        asked.append(num_envs)
        return gymnasium.vector.SyncVectorEnv([CatchEnv] * num_envs)

    assert isinstance(vector_of("mine", factory, num_envs=3, seed=5, show=None), NativeVector) and asked == [3]


def test_a_vector_of_ours_is_taken_as_it_is_with_a_seed_that_neighbours_do_not_share():
    seeds = []

    def factory(num_envs, seed):
        seeds.append(seed)
        return make("testing/catch-v0", num_envs=num_envs, seed=seed)

    made = [vector_of("mine", factory, num_envs=2, seed=seed, show=None) for seed in (5, 5, 6)]
    assert all(env.spec.name == "testing/catch-v0" for env in made)
    assert seeds[0] == seeds[1] and abs(seeds[0] - seeds[2]) > 65_536
    with pytest.raises(OutOfBounds, match="made a vector of 4 environments where 2 are wanted"):
        vector_of("mine", lambda: make("testing/catch-v0", num_envs=4, seed=0), num_envs=2, seed=0, show=None)


def test_a_parallel_game_of_pettingzoo_becomes_rows_of_agents_and_one_of_turns_is_refused():
    pytest.importorskip("pettingzoo", reason="pettingzoo is not installed")
    from pettingzoo.utils.conversions import parallel_to_aec
    from pettingzoo.utils.env import ParallelEnv

    class Two(ParallelEnv):
        metadata: ClassVar = {"name": "two"}
        possible_agents: ClassVar = ["a", "b"]
        made = 0

        def __init__(self):
            Two.made += 1
            self.agents = []

        def observation_space(self, agent):
            return Box(0, 9, (1,))

        def action_space(self, agent):
            return Discrete(2)

        def reset(self, seed=None, options=None):
            self.agents = ["a", "b"]
            return {"a": np.zeros(1, np.float32), "b": np.ones(1, np.float32)}, {"a": {}, "b": {}}

    env = make("mine", num_envs=4, seed=0, factory=Two)
    assert Two.made == 2 and env.spec.agents == 2
    assert env.reset().observation.tolist() == [[0], [1], [0], [1]]
    with pytest.raises(InvalidInput, match="agents take turns.*aec_to_parallel"):
        make("mine", num_envs=4, seed=0, factory=lambda: parallel_to_aec(Two()))


@pytest.mark.parametrize("made", [3, None, "CartPole-v1"])
def test_something_that_is_no_environment_is_named(made):
    with pytest.raises(EnvironmentFailed, match="not a gymnasium.Env"):
        vector_of("mine", lambda: made, num_envs=1, seed=0, show=None)
