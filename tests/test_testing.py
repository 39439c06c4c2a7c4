"""The environments with known answers, and the check that finds broken ones."""

import gymnasium
import numpy as np
import pytest

from workbench.environments import make
from workbench.errors import EnvironmentFailed, InvalidInput
from workbench.testing import (
    CatchEnv,
    CountingEnv,
    FailingEnv,
    HiddenVelocityCartPoleEnv,
    RecallEnv,
    check_environment,
)
from workbench.trajectory import Flags, StepBatch


def played(env, policy, episodes: int) -> list[float]:
    """Returns of a policy that maps (observation, memory) to (action, memory)."""
    returns = []
    for episode in range(episodes):
        observation, _ = env.reset(seed=episode)
        over, total, memory = False, 0.0, None
        while not over:
            action, memory = policy(observation, memory)
            observation, reward, terminated, truncated, _ = env.step(action)
            total, over = total + reward, terminated or truncated
        returns.append(total)
    return returns


def follow_the_ball(observation, _):
    board = observation[0, ::6, ::6] > 0
    ball = int(np.argmax(board[:-1].any(axis=0)))
    paddle = int(np.argmax(board[-1]))
    return 1 + int(np.sign(ball - paddle)), None


def test_the_best_return_of_catch_is_1_and_is_reached_from_every_column():
    assert set(played(CatchEnv(), follow_the_ball, 60)) == {CatchEnv.best_return}


def test_a_random_policy_catches_few_balls():
    rng = np.random.default_rng(0)
    assert -0.8 < np.mean(played(CatchEnv(), lambda *_: (rng.integers(3), None), 400)) < -0.4


def test_catch_out_of_reach_is_refused():
    with pytest.raises(InvalidInput, match="out of reach"):
        CatchEnv(rows=3, columns=9)


def test_recall_gives_1_to_who_remembers_and_0_to_who_does_not():
    def remember(observation, cue):
        cue = cue or observation[0]
        return int(cue > 0), cue

    assert set(played(RecallEnv(length=5), remember, 40)) == {RecallEnv.best_return}
    assert abs(np.mean(played(RecallEnv(length=5), lambda *_: (1, None), 200))) < 0.2


def test_cartpole_without_velocities_is_balanced_by_who_compares_observations_and_by_nobody_else():
    def towards_the_fall(observation, last):
        velocity = (observation - last) / 0.02 if last is not None else np.zeros(2)
        return int(observation[1] + 0.3 * velocity[1] > 0), observation

    best = HiddenVelocityCartPoleEnv.best_return
    assert set(played(HiddenVelocityCartPoleEnv(), towards_the_fall, 10)) == {best}
    assert max(played(HiddenVelocityCartPoleEnv(), lambda now, _: (towards_the_fall(now, None)[0], None), 20)) < 100


def test_cartpole_without_velocities_is_cartpole_otherwise():
    ours, theirs = HiddenVelocityCartPoleEnv(), gymnasium.make("CartPole-v1")
    assert check_environment(HiddenVelocityCartPoleEnv).episodes > 0
    assert np.array_equal(ours.observation_space.high, theirs.observation_space.high[[0, 2]])
    observation, whole = ours.reset(seed=3)[0], theirs.reset(seed=3)[0]
    over = False
    while not over:
        assert observation.dtype == np.float32 and np.array_equal(observation, whole[[0, 2]])
        (observation, *rest), (whole, *expected) = ours.step(1), theirs.step(1)
        assert rest == expected
        over = rest[1]


@pytest.mark.parametrize("image", [False, True])
def test_a_count_is_read_back_from_its_observation(image):
    env = CountingEnv(episode_length=[2, 1000], image=image, num_actions=300)
    assert CountingEnv.decode(env.reset()[0]) == (env.life, 0, 0, -1)
    assert [env.step(7)[2], env.step(7)[2]] == [False, True]
    env.reset()
    for _ in range(300):
        observation, reward, *_ = env.step(299)
    assert CountingEnv.decode(observation) == (env.life, 1, 300, 299)
    assert reward == CountingEnv.expected_reward(1, 300)


def test_counting_lives_differ_between_instances_and_rewards_between_neighbours():
    assert len({CountingEnv().life for _ in range(100)}) == 100
    rewards = [CountingEnv.expected_reward(0, step) for step in range(1, 98)]
    assert len(set(rewards)) == 97 and min(rewards) > 0 and max(rewards) < 1


def test_counting_refuses_an_end_that_it_does_not_know():
    with pytest.raises(InvalidInput, match="'sometimes'"):
        CountingEnv(ends="sometimes")


@pytest.mark.parametrize("where, calls", [("reset", 1), ("step", 2)])
def test_failing_fails_in_the_call_it_was_told(where, calls):
    env = FailingEnv(where=where, at=2)
    env.reset()
    steps = 0
    with pytest.raises(RuntimeError, match="on purpose"):
        while True:
            *_, over, _, _ = env.step(0)
            steps += 1
            if over:
                env.reset()
    assert steps == {"reset": 7, "step": 1}[where]
    with pytest.raises(RuntimeError, match="on purpose"):
        FailingEnv(where="constructor")


# Vector environments that keep every rule but one.


class Broken:
    """Counting environments whose batches are changed by `spoil(batch, is_reset)` on their way out."""

    def __init__(self, spoil, num_envs, seed, **options):
        self._env = make("testing/counting-v0", num_envs=num_envs, seed=seed,
                         options={"life": 1, "ends": "alternate", **options})
        self.spec, self.num_envs, self._spoil = self._env.spec, num_envs, spoil

    def reset(self, *, seed=None):
        return self._spoil(self._env.reset(seed=seed), True)

    def step(self, actions):
        return self._spoil(self._env.step(actions), False)

    def render(self, index):
        return None

    def close(self):
        self._env.close()


def changed(**fields):
    """A spoiler that computes fields of the step's batch anew."""
    def spoil(batch, is_reset):
        return batch if is_reset else StepBatch(**{**vars(batch), **{k: f(batch) for k, f in fields.items()}})
    return spoil


def at_reset(**fields):
    def spoil(batch, is_reset):
        return StepBatch(**{**vars(batch), **{k: f(batch) for k, f in fields.items()}}) if is_reset else batch
    return spoil


def first_instead_of_final(batch):
    return batch.observation[batch.final_index]


BROKEN = {
    "observation of step.*shape": changed(observation=lambda batch: batch.observation[:, :2]),
    "observation of reset.*dtype float32, has float64": at_reset(observation=lambda b: b.observation.astype(float)),
    "reward of step.*dtype float32": changed(reward=lambda batch: batch.reward.astype(float)),
    "reward of step.*finite": changed(reward=lambda batch: batch.reward * np.nan),
    "reward after reset": at_reset(reward=lambda batch: batch.reward + 1),
    "START after reset": at_reset(flags=lambda batch: batch.flags * 0),
    "reset after the end": changed(flags=lambda batch: batch.flags & ~np.uint8(Flags.START)),
    "'START'.*without": changed(flags=lambda batch: batch.flags & np.uint8(Flags.START)),
    "LIFE_LOST": changed(flags=lambda batch: batch.flags | (batch.flags > 0) * np.uint8(Flags.LIFE_LOST)),
    "'flags'": changed(flags=lambda batch: batch.flags | np.uint8(32)),
    "final observation.*final_index": changed(final_index=lambda batch: batch.final_index[:0]),
    "final observation.*shape": changed(final_observation=lambda batch: batch.observation[:, :1]),
    "final observation.*equals the first of the next": changed(final_observation=first_instead_of_final),
}


@pytest.mark.parametrize("rule, spoil", BROKEN.items(), ids=BROKEN)
def test_a_broken_rule_about_batches_is_said(rule, spoil):
    with pytest.raises(EnvironmentFailed, match=f"breaks the rule .*{rule}"):
        check_environment(lambda num_envs, seed: Broken(spoil, num_envs, seed))


def test_the_vectors_that_are_spoilt_keep_the_contract_otherwise():
    assert check_environment(lambda num_envs, seed: Broken(lambda b, _: b, num_envs, seed)).truncated > 0


def test_a_trajectory_that_the_seed_does_not_repeat_is_said():
    with pytest.raises(EnvironmentFailed, match="same seed, same trajectory.*second instance"):
        check_environment(CountingEnv)  # every instance has a life of its own

    rng = np.random.default_rng()
    drifting = changed(reward=lambda batch: rng.random(len(batch.reward)).astype(np.float32))
    with pytest.raises(EnvironmentFailed, match="same seed, same trajectory.*the reward differs at step 1"):
        check_environment(lambda num_envs, seed: Broken(drifting, num_envs, seed))


def test_environments_that_share_state_are_said():
    class Shared(CountingEnv):
        total = 0

        def reset(self, *, seed=None, options=None):
            if seed is not None:
                Shared.total = 0
            return super().reset(seed=seed, options=options)

        def step(self, action):
            Shared.total += int(action)
            observation, _, *rest = super().step(action)
            return observation, float(Shared.total), *rest

    with pytest.raises(EnvironmentFailed, match="independence.*must not depend on the actions of the others"):
        check_environment(lambda: Shared(life=1))


def test_an_array_that_is_used_again_is_said():
    buffer = np.zeros((3, 4), np.float32)

    def reuse(batch):
        buffer[...] = batch.observation
        return buffer

    with pytest.raises(EnvironmentFailed, match="arrays belong to the caller"):
        check_environment(lambda num_envs, seed: Broken(changed(observation=reuse), num_envs, seed))


def test_actions_that_are_not_refused_are_said():
    class Lax(Broken):
        def step(self, actions):
            return super().step(np.resize(actions, self.num_envs) % self.spec.num_actions)

    with pytest.raises(EnvironmentFailed, match="wrong actions.*must raise ShapeMismatch"):
        check_environment(lambda num_envs, seed: Lax(lambda b, _: b, num_envs, seed))


@pytest.mark.parametrize("observation, words", [
    (np.full(4, 2.0, np.float32), r"values in \[2.0, 2.0\].* is not in Box"),
    (np.zeros(4), "float64"),
])  # fmt: skip
def test_an_observation_outside_its_space_is_said(observation, words):
    class Outside(CountingEnv):
        def __init__(self):
            super().__init__(life=1)
            self.observation_space = gymnasium.spaces.Box(-1, 1, (4,), np.float32)

        def _observation(self):
            return observation

    with pytest.raises(EnvironmentFailed, match=f"observation space.*{words}"):
        check_environment(Outside)
