"""Normalised rewards are those of OpenAI Baselines' VecNormalize, written out step by step."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from tests.algorithms.unrolls import random_unroll
from workbench import algorithms
from workbench.algorithms import collate
from workbench.config import RunConfig
from workbench.environment_spec import EnvironmentSpec
from workbench.learner.inference.discounted_returns import DiscountedReturns
from workbench.trajectory import Flags, StepBatch

SPEC = EnvironmentSpec("vector", (3,), "float32", 2)
STEPS, ENVS, GAMMA = 300, 3, 0.9


class SlowVecNormalize:
    """The returns of VecNormalize, and all of them so far; without the weight of 1e-4 that its first variance has."""

    def __init__(self) -> None:
        self.ret, self.every = [0.0] * ENVS, list[float]()

    def step(self, rewards: list[float], dones: list[bool]) -> list[float]:
        """The returns before those of finished episodes are reset."""
        self.ret = [GAMMA * ret + reward for ret, reward in zip(self.ret, rewards, strict=True)]
        told = list(self.ret)
        self.every += told
        self.ret = [0.0 if done else ret for ret, done in zip(self.ret, dones, strict=True)]
        return told

    def normalised(self, reward: float) -> float:
        mean = sum(self.every) / len(self.every)
        variance = sum((ret - mean) ** 2 for ret in self.every) / len(self.every)
        return max(-10.0, min(10.0, reward / math.sqrt(variance + 1e-8)))


def step_of(rewards: Any, flags: Any) -> StepBatch:
    return StepBatch(np.zeros((len(rewards), 3), np.float32), np.asarray(rewards, np.float32),
                     np.asarray(flags, np.uint8))


def algorithm_of(algorithm: str = "vtrace", **fields: Any) -> tuple[Any, Any]:
    config = RunConfig.build("vector", algorithm=algorithm, normalize_rewards=True, max_abs_reward=0.0, **fields)
    return algorithms.build(config, spec=SPEC), config.hyperparameters


@pytest.mark.parametrize("algorithm", ["vtrace", "ppo", "awr", "vmpo"])
def test_rewards_are_divided_by_the_deviation_of_their_discounted_returns(algorithm: str) -> None:
    random, slow, returns = np.random.default_rng(0), SlowVecNormalize(), DiscountedReturns(ENVS)
    normalises, config = algorithm_of(algorithm, discount=GAMMA)
    rows = np.arange(ENVS)
    assert (returns.add(rows, step_of([0.0] * ENVS, [Flags.START] * ENVS), discount=GAMMA) == 0).all()
    kinds = [0, 0, 0, Flags.TERMINATED | Flags.START, Flags.TRUNCATED | Flags.START, Flags.LIFE_LOST]
    for first in range(0, STEPS, 50):
        columns: dict[str, list[Any]] = {"reward": [np.zeros(ENVS)], "flags": [np.zeros(ENVS)], "r": [np.zeros(ENVS)]}
        for _ in range(first, first + 50):
            rewards, flags = random.normal(200, 800, ENVS).astype(np.float32), random.choice(kinds, ENVS)
            told = returns.add(rows, step_of(rewards, flags), discount=GAMMA)
            expected = slow.step(rewards.tolist(), [bool(flag) for flag in flags])
            np.testing.assert_allclose(told, expected, rtol=1e-5, atol=1e-3)
            for name, value in (("reward", rewards), ("flags", flags), ("r", told)):
                columns[name].append(value)
        unroll = random_unroll(SPEC, length=50, rng=random, behaviour=normalises.behaviour_fields())
        batch = collate([unroll] * ENVS)
        batch.reward = torch.from_numpy(np.stack(columns["reward"]).astype(np.float32))
        batch.behaviour["discounted_return"] = torch.from_numpy(np.stack(columns["r"]).astype(np.float32))
        raw = batch.reward.clone()
        normalises.before_update(batch, config=config)
        assert torch.equal(batch.reward, raw)
        ours = normalises.rewards(batch, config)
        for t in (0, 7, 49):
            for env in range(ENVS):
                assert float(ours[t, env]) == pytest.approx(slow.normalised(float(raw[t + 1, env])), rel=1e-4, abs=1e-6)
    metric = normalises.normalisation()["return_deviation"]
    assert float(metric) == pytest.approx(1000.0 / slow.normalised(1000.0), rel=1e-4)


def test_a_reward_after_nothing_but_zeros_is_bounded_and_one_that_is_not_finite_spoils_nothing() -> None:
    normalises, config = algorithm_of(reward_scale=0.5)
    batch = collate([random_unroll(SPEC, length=4, rng=np.random.default_rng(0), ends=0.0,
                                   behaviour=normalises.behaviour_fields())])
    batch.reward.zero_()
    batch.behaviour["discounted_return"].zero_()
    normalises.before_update(batch, config=config)
    batch.reward[1] = 3.0
    assert normalises.rewards(batch, config)[0, 0] == 10
    assert normalises.rewards_and_discounts(batch, config)[0][0, 0] == 5, "reward_scale comes after it"
    batch.behaviour["discounted_return"][2] = math.inf
    normalises.before_update(batch, config=config)
    assert normalises.rewards(batch, config).isfinite().all()


def test_a_new_life_begins_at_zero_and_room_for_more_environments_changes_no_return() -> None:
    returns = DiscountedReturns(1)
    returns.add(np.array([0]), step_of([4.0], [0]), discount=0.5)
    returns.resize(2)
    assert returns.add(np.array([0, 1]), step_of([1.0, 1.0], [0, 0]), discount=0.5).tolist() == [3.0, 1.0]
    returns.forget(np.array([0]))
    told = returns.add(np.array([0, 1]), step_of([9.0, 1.0], [Flags.START, 0]), discount=0.5)
    assert told.tolist() == [0.0, 1.5], "the first reward of a life belongs to no transition"


def test_it_is_a_field_of_each_step_only_where_rewards_are_normalised() -> None:
    assert "discounted_return" in algorithm_of()[0].behaviour_fields()
    plain = algorithms.build(RunConfig.build("vector"), spec=SPEC)
    assert list(plain.behaviour_fields()) == ["policy_logits", "value"]
