"""Who explores how much, and who only evaluates."""

import numpy as np
import pytest

from workbench.config import RunConfig
from workbench.policies import roles


def r2d2(**fields) -> RunConfig:
    return RunConfig.build("x", algorithm="r2d2", **fields)


def test_the_last_environments_of_each_actor_evaluate():
    config = r2d2(actors=3, envs_per_actor=4, evaluation_envs_per_actor=2)
    assert roles.evaluating(np.arange(12), config).tolist() == [False, False, True, True] * 3


def test_those_that_train_have_the_ranks_of_the_ladder_of_epsilons():
    config = r2d2(actors=3, envs_per_actor=4, evaluation_envs_per_actor=1)
    ids = np.arange(12)
    training = ~roles.evaluating(ids, config)
    np.testing.assert_allclose(roles.ranks(ids, config)[training], np.linspace(0, 1, 9), rtol=1e-6)


def test_scaling_moves_nobody_between_training_and_evaluation():
    small, large = r2d2(actors=1, envs_per_actor=8), r2d2(actors=5, envs_per_actor=8)
    ids = np.arange(8)
    assert (roles.evaluating(ids, small) == roles.evaluating(ids, large)).all()


@pytest.mark.parametrize("asked", [0, 1, 7, 100])
def test_at_least_one_environment_of_an_actor_trains(asked):
    config = r2d2(actors=1, envs_per_actor=3, evaluation_envs_per_actor=asked)
    assert (~roles.evaluating(np.arange(3), config)).sum() == max(1, 3 - asked)


def test_a_lone_environment_has_a_rank():
    config = r2d2(actors=1, envs_per_actor=1)
    assert roles.ranks(np.arange(1), config).tolist() == [0.0]


@pytest.mark.parametrize("learners", [1, 2, 4])
def test_every_environment_has_one_row_at_one_learner(learners: int) -> None:
    config = RunConfig.build("x", actors=4, envs_per_actor=5, learners=learners)
    places = [config.row_of(env) for env in range(20)]
    assert len(set(places)) == 20 and {rank for rank, _ in places} == set(range(learners))
    assert [config.env_of(*place) for place in places] == list(range(20))
    assert places[5] == (1 % learners, 5 if learners == 1 else 0)
