"""Vector environments of Gymnasium's own kind: whatever their autoreset mode, nobody sees a step that only resets."""

import functools
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from workbench.environment_spec import ActionSpec, Part
from workbench.environments import make
from workbench.environments.adapters.adapt import vector_by_id, vector_of
from workbench.environments.adapters.batched_vector import NativeVector
from workbench.environments.adapters.gymnasium_vector import GymnasiumVector
from workbench.environments.contract import random_actions
from workbench.errors import EnvironmentFailed, InvalidInput, OutOfBounds, ShapeMismatch
from workbench.playing.worker.played_episode import next_view
from workbench.testing import CountingEnv, check_environment
from workbench.trajectory import ENDS, Flags, StepBatch

MODES = list(AutoresetMode)


def counting(mode=AutoresetMode.SAME_STEP, **options):
    """A factory of vectors of counting environments; those of one vector end at different times."""
    def one(index):
        lengths = [2 + index, 4, 1 if mode != AutoresetMode.NEXT_STEP else 3]
        return CountingEnv(**{"life": index, "ends": "alternate", "episode_length": lengths, **options})

    return lambda num_envs: SyncVectorEnv(
        [functools.partial(one, index) for index in range(num_envs)], autoreset_mode=mode)


def lives(env, steps, seed=0):
    """What each row lived through, steps in which it was ABSENT left out: (observation, reward, flags, final)."""
    batch = env.reset(seed=seed)
    rows = [[(batch.observation[i].tolist(), 0.0, int(batch.flags[i]), None)] for i in range(env.num_envs)]
    taken = [0] * env.num_envs  # the k-th action of a row is the same whatever else happens
    for _ in range(steps):
        absent = (batch.flags & Flags.ABSENT) > 0
        actions = [0 if out else (7 * k + i) % env.spec.num_actions for i, (k, out) in enumerate(
            zip(taken, absent, strict=True))]
        batch = env.step(np.array(actions))
        taken = [k + (not out) for k, out in zip(taken, absent, strict=True)]
        finals = dict(zip(batch.final_index.tolist(), batch.final_observation if len(batch.final_index) else (),
                          strict=True))
        for i in range(env.num_envs):
            if not batch.flags[i] & Flags.ABSENT:
                final = finals.pop(i).tolist() if i in finals else None
                rows[i].append((batch.observation[i].tolist(), float(batch.reward[i]), int(batch.flags[i]), final))
        assert not finals
    return rows


@pytest.mark.parametrize("mode", MODES)
def test_every_row_lives_as_it_would_alone_whatever_the_autoreset_mode(mode):
    lived = lives(vector_of("mine", counting(mode), num_envs=3, seed=0, show=None), 60)
    number = iter(range(3))
    one_by_one = GymnasiumVector("mine", lambda: counting(mode)(3).envs[next(number)], num_envs=3, seed=0)
    for row, expected in zip(lived, lives(one_by_one, 60), strict=True):
        assert len(row) >= 40 and row == expected[: len(row)]
        assert {step[2] & ENDS for step in row} == {0, Flags.TERMINATED, Flags.TRUNCATED}
        assert any(step[3] is not None for step in row)


def test_with_next_step_autoreset_the_end_waits_for_the_start_and_only_its_own_row_is_absent():
    env = vector_of("mine", counting(AutoresetMode.NEXT_STEP), num_envs=2, seed=0, show=None)
    env.reset()
    steps = [env.step(np.zeros(2, int)) for _ in range(4)]
    ended = Flags.TERMINATED | Flags.START
    assert [batch.flags.tolist() for batch in steps] == [[0, 0], [Flags.ABSENT, 0], [ended, Flags.ABSENT], [0, ended]]
    rewards = [CountingEnv.expected_reward(0, step) for step in range(4)]
    assert np.allclose([batch.reward for batch in steps], [
        [rewards[1], rewards[1]], [0, rewards[2]], [rewards[2], 0], [CountingEnv.expected_reward(1, 1), rewards[3]]])


def test_seeds_are_those_of_environments_that_are_stepped_one_by_one():
    def vector(num_envs):
        return gymnasium.make_vec("CartPole-v1", num_envs=num_envs, vectorization_mode="sync",
                                  vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP})

    native, plain = make("mine", num_envs=3, seed=5, factory=vector), make("CartPole-v1", num_envs=3, seed=5)
    assert isinstance(native, NativeVector)
    a, b = native.reset(), plain.reset()
    rng = np.random.default_rng(0)
    ended = 0
    for _ in range(100):
        assert np.array_equal(a.observation, b.observation) and np.array_equal(a.flags, b.flags)
        assert np.array_equal(a.reward, b.reward)
        actions = random_actions(plain.spec, 3, rng)
        a, b = native.step(actions), plain.step(actions)
        ended += int((a.flags > 0).sum())
    assert ended > 3 and native.action_names == ("left", "right") and native.fps == plain.fps


@pytest.mark.parametrize("mode", MODES)
def test_each_autoreset_mode_keeps_the_contract(mode):
    seen = check_environment(counting(mode), steps=60)
    assert seen.truncated > 5 and seen.episodes > seen.truncated
    assert (seen.absent > 0) == (mode == AutoresetMode.NEXT_STEP)


def test_processes_of_their_own_keep_the_contract():
    seen = check_environment(
        lambda num_envs: gymnasium.make_vec("CartPole-v1", num_envs=num_envs, vectorization_mode="async"), steps=60)
    assert seen.absent > 3  # gymnasium's own default is NEXT_STEP


@pytest.mark.parametrize("mode, made", [("sync", SyncVectorEnv), ("async", AsyncVectorEnv)])
def test_an_id_in_a_vector_of_gymnasiums_is_the_same_environment(mode, made):
    env = vector_by_id("CartPole-v1", vectorization_mode=mode, num_envs=2, seed=3, show=None,
                       options={"max_episode_steps": 5})
    plain = make("CartPole-v1", num_envs=2, seed=3, options={"max_episode_steps": 5})
    try:
        assert isinstance(env._env, made)
        assert lives(env, 12) == lives(plain, 12)
    finally:
        env.close()


class WritesInPlace(gymnasium.Env):
    """Counts its steps in the array that it has returned."""

    observation_space, action_space = Box(-1e6, 1e6, (1,), np.float32), Discrete(2)

    def __init__(self, render_mode: str | None = None) -> None:
        self._count = np.zeros(1, np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        assert options is None, "nobody gave any"
        self._count[0] = 0
        return self._count, {}

    def step(self, action):
        self._count += 1
        return self._count, 0.0, False, bool(self._count[0] == 3), {}


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_the_last_observation_is_true_also_of_an_environment_that_writes_into_it_at_its_reset(mode, monkeypatch):
    monkeypatch.setitem(gymnasium.registry, "InPlace-v0", gymnasium.envs.registration.EnvSpec(
        "InPlace-v0", entry_point=WritesInPlace))
    env = vector_by_id("InPlace-v0", vectorization_mode=mode, num_envs=2, seed=0, show=None, options={})
    try:
        env.reset()
        ends = [env.step(np.zeros(2, int)) for _ in range(3)][-1]
        assert ends.final_observation.tolist() == [[3], [3]] and ends.observation.tolist() == [[0], [0]]
    finally:
        env.close()


def test_a_vector_that_hands_over_what_such_an_environment_overwrites_is_refused_in_words():
    def vector(num_envs):
        return SyncVectorEnv([WritesInPlace] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)

    env = vector_of("mine", vector, num_envs=2, seed=0, show=None)
    env.reset()
    with pytest.raises(EnvironmentFailed, match="writes into the array that it has returned.*autoreset_mode=Autoreset"):
        for _ in range(5):
            env.step(np.zeros(2, int))


class ResetsElsewhere(WritesInPlace):
    begins = False

    def reset(self, *, seed=None, options=None):
        self.begins = True
        return np.full(1, 7, np.float32), {}

    def step(self, action):
        if self.begins:
            self._count[0], self.begins = 0, False
        return super().step(action)


def test_a_vector_whose_environments_reset_into_an_array_of_its_own_loses_nothing():
    def vector(num_envs):
        return SyncVectorEnv([ResetsElsewhere] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)

    env = vector_of("mine", vector, num_envs=2, seed=0, show=None)
    env.reset()
    steps = [env.step(np.zeros(2, int)) for _ in range(6)]
    assert [batch.final_observation.tolist() for batch in steps[2::3]] == [[[3], [3]]] * 2


def test_gymnasiums_own_vector_of_cartpole_resets_a_row_in_a_step_of_its_own_that_nobody_sees():
    env = make("CartPole-v1", num_envs=4, seed=0, options={"vectorization_mode": "vector_entry_point"})
    for row in lives(env, 150):
        ends = [step for step in row if step[2] & ENDS]
        assert len(ends) > 2 and all(step[1] == 1 and step[2] == Flags.TERMINATED | Flags.START for step in ends)
        assert all(np.abs(step[0]).max() <= 0.05 for step in ends)  # a reset state


def test_an_error_in_another_process_says_where_its_line_is():
    failing = {"where": "step", "at": 2}
    for mode, said in (("async", "vectorization_mode=\"sync\""), ("sync", "raise RuntimeError(self._message)")):
        env = make("testing/failing-v0", num_envs=2, seed=0, options={"vectorization_mode": mode, **failing})
        env.reset()
        with pytest.raises(EnvironmentFailed, match="on purpose") as caught:
            for _ in range(3):
                env.step(np.zeros(2, np.int64))
        env.close()
        assert said in str(caught.value)


def test_an_unknown_vectorization_mode_is_refused():
    with pytest.raises(OutOfBounds, match="vectorization_mode='fast' must be 'sync'"):
        vector_by_id("CartPole-v1", vectorization_mode="fast", num_envs=2, seed=0, show=None, options={})


def test_members_of_observations_and_actions_of_several_parts_go_through():
    class Many(gymnasium.Env):
        observation_space = gymnasium.spaces.Dict({
            "at": Box(-1, 1, (2,), np.float64), "seen": Box(0, 255, (4, 5, 3), np.uint8), "turn": Discrete(3)})
        action_space = Box(np.array([-2, 0], np.float32), np.array([2, 1], np.float32))

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.observation_space.seed(seed if seed is not None else int(self.np_random.integers(99)))
            self.steps = 0
            return self.observation_space.sample(), {}

        def step(self, action):
            assert self.action_space.contains(action)
            self.steps += 1
            return self.observation_space.sample(), float(action[0]), False, self.steps == 4, {}

    def vector(num_envs):
        return SyncVectorEnv([Many for _ in range(num_envs)], autoreset_mode=AutoresetMode.SAME_STEP)

    env = make("mine", num_envs=3, seed=1, factory=vector)
    assert env.spec.parts == (Part("at", (2,), "float32"), Part("seen", (3, 4, 5), "uint8"),
                              Part("turn", (3,), "float32"))
    assert env.spec.actions == ActionSpec("tanh_normal", (0, 0))
    assert check_environment(vector, steps=20).truncated == 15


# --- envpool ---------------------------------------------------------------------------------------------------------


def pool(name, **options):
    envpool = pytest.importorskip("envpool", reason="envpool is not installed")
    return lambda num_envs, seed: envpool.make_gymnasium(name, num_envs=num_envs, seed=seed, **options)


@pytest.mark.parametrize("name, options, kind", [
    ("CartPole-v1", {"max_episode_steps": 15}, "categorical"), ("FrozenLake-v1", {}, "categorical"),
    ("Pendulum-v1", {"max_episode_steps": 12}, "tanh_normal"),
])  # fmt: skip
def test_envpools_environments_keep_the_contract(name, options, kind):
    factory = pool(name, **options)
    assert make("mine", num_envs=1, seed=0, factory=factory).spec.actions.kind == kind
    seen = check_environment(factory, steps=50)
    assert seen.episodes > 2 and seen.absent > 2


def test_an_envpool_gets_its_seed_when_it_is_made_and_every_reset_makes_it_anew():
    env = make("mine", num_envs=2, seed=7, factory=pool("CartPole-v1"))
    first, again, other = env.reset(), env.reset(), env.reset(seed=8)
    assert np.array_equal(first.observation, again.observation)
    assert not np.array_equal(first.observation, other.observation)


def test_an_envpool_without_a_seed_or_with_a_batch_of_its_own_is_refused():
    with pytest.raises(InvalidInput, match="give it the parameters num_envs and seed"):
        make("mine", num_envs=2, seed=0, factory=lambda num_envs: pool("CartPole-v1")(num_envs, 0))
    with pytest.raises(InvalidInput, match="leave out batch_size"):
        make("mine", num_envs=4, seed=0, factory=pool("CartPole-v1", batch_size=2))


# --- what is wrong ---------------------------------------------------------------------------------------------------


def spoilt(mode=AutoresetMode.SAME_STEP, **changes):
    """A factory of vectors of two that return `changes`, and otherwise behave; functions are called with the result."""

    class Spoilt(gymnasium.vector.VectorEnv):
        metadata: ClassVar = {"autoreset_mode": mode}
        single_observation_space = changes.get("observation_space", Box(-1, 1, (2,), np.float32))
        single_action_space = Discrete(2)

        def __init__(self, num_envs):
            self.num_envs = num_envs

        def reset(self, *, seed=None, options=None):
            if options is not None:
                return changes.get("masked", (np.zeros((2, 2), np.float32), {}))
            return changes.get("reset", (np.zeros((2, 2), np.float32), {}))

        def step(self, actions):
            values = {"observation": np.zeros((2, 2), np.float32), "reward": np.zeros(2),
                      "terminated": np.zeros(2, bool), "truncated": np.zeros(2, bool), "info": {}}  # fmt: skip
            if "raises" in changes:
                raise ValueError("ran dry")
            return changes.get("step", tuple({**values, **changes}[name] for name in values))

    return Spoilt


BOTH = np.ones(2, bool)
WRONG = {
    "no mode": (None, {}, r"in constructor: metadata\['autoreset_mode'\] must be a gymnasium.vector.AutoresetMode"),
    "reset must return two": ("SAME_STEP", {"reset": np.zeros((2, 2))}, r"must return \(observations, infos\)"),
    "step must return five": ("SAME_STEP", {"step": (1, 2)}, r"in step: it must return \(observations, rewards"),
    "shape": ("SAME_STEP", {"observation": np.zeros((3, 2))}, r"shape \(3, 2\); the observation space has shape .2, 2"),
    "NaN": ("SAME_STEP", {"observation": np.array([[0, 0], [0, np.nan]])}, r"\(index 1\).*value nan"),
    "rewards": ("SAME_STEP", {"reward": np.zeros(3)}, r"rewards must be numbers of shape \[2\], not float64 \[3\]"),
    "NaN as reward": ("SAME_STEP", {"reward": np.array([0, np.nan])}, r"\(index 1\).*reward nan is not a finite"),
    "flags": ("SAME_STEP", {"terminated": np.zeros(2)}, r"terminations must be bool of shape \[2\], not float64"),
    "no final_obs": ("SAME_STEP", {"terminated": BOTH}, r'info\["final_obs"\] must hold the last observations'),
    "a wrong final_obs": ("SAME_STEP", {"truncated": BOTH, "info": {"final_obs": np.zeros((2, 5))}}, r"shape \(5,\)"),
    "reset of all": ("DISABLED", {"terminated": np.array([True, False]), "masked": (np.ones((2, 2)), {})},
                     "must reset those in the mask and leave the others as they are"),
    "an end at the start": ("NEXT_STEP", {"terminated": BOTH}, "ended in the step that begins it"),
    "a final_obs by keys": ("SAME_STEP", {"terminated": BOTH, "info": {"final_obs": {"a": np.zeros((2, 2))}}},
                            r'info\["final_obs"\] must have an observation for each .* has none at 0'),
    "raises": ("SAME_STEP", {"raises": True}, "'mine' raised ValueError in step: ran dry\n\nTraceback"),
}


@pytest.mark.parametrize("mode, changes, words", WRONG.values(), ids=WRONG)
def test_what_a_vector_returns_wrongly_is_an_error_that_says_the_rule(mode, changes, words):
    def run() -> None:
        env = make("mine", num_envs=2, seed=0, factory=spoilt(mode and AutoresetMode[mode], **changes))
        env.reset()
        for _ in range(2):
            env.step(np.zeros(2, int))

    with pytest.raises(EnvironmentFailed, match=words):
        run()


def test_a_vector_that_keeps_the_rules_is_not_refused():
    env = make("mine", num_envs=2, seed=0, factory=spoilt())
    assert env.reset().flags.tolist() == [Flags.START] * 2 and env.step(np.zeros(2, int)).flags.tolist() == [0, 0]
    assert env.action_names == ("0", "1") and env.render(0) is None
    env.close()
    env.close()


def test_a_vector_of_another_number_is_refused():
    with pytest.raises(OutOfBounds, match="made a vector of 2 environments where 3 are wanted: give it a parameter"):
        make("mine", num_envs=3, seed=0, factory=lambda: spoilt()(2))


def test_spaces_that_are_not_supported_are_named():
    with pytest.raises(ShapeMismatch, match=r"mine has the observation space Text"):
        make("mine", num_envs=2, seed=0, factory=spoilt(observation_space=gymnasium.spaces.Text(4)))


# --- what it shows ---------------------------------------------------------------------------------------------------


class Drawn(CountingEnv):
    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 7}
    render_mode = "rgb_array"
    action_names = ("wait", "go", "stop")

    def render(self):
        return np.full((2, 3, 3), 16 * self._episode + self._step, np.uint8)


@pytest.mark.parametrize("mode", MODES)
def test_an_ending_is_told_with_its_frame_where_that_can_be_drawn(mode):
    def vector(num_envs):
        made = SyncVectorEnv([functools.partial(Drawn, episode_length=3, life=1)] * num_envs, autoreset_mode=mode)
        made.render_mode = "rgb_array"
        return made

    env = make("mine", num_envs=2, seed=0, factory=vector, show="endings")
    assert env.fps == 7 and env.action_names == ("wait", "go", "stop")
    env.reset()
    assert env.render(1).tolist() == np.zeros((2, 3, 3)).tolist()
    flags, steps = 0, 0
    while not flags & Flags.TERMINATED:
        assert env.ending(0) is None
        flags, steps = int(env.step(np.zeros(2, int)).flags[0]), steps + 1
    assert steps == (4 if mode == AutoresetMode.NEXT_STEP else 3)
    observation, frame = env.ending(1)
    assert CountingEnv.decode(observation).step == 3
    assert frame is None if mode == AutoresetMode.SAME_STEP else frame[0, 0, 0] == 3
    before = np.full((2, 3, 3), 2, np.uint8)
    seen = next_view(env, StepBatch(np.zeros(2), np.zeros(2), np.zeros(2)), ended=True, before=before)[1]
    assert seen is (before if frame is None else env.ending(0).frame), "the frame before stands in for it"
    assert env.render(0)[0, 0, 0] == 16


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_vector_that_is_watched_draws_the_last_frames_of_its_episodes(mode):
    env = make("CartPole-v1", num_envs=1, seed=0, options={"vectorization_mode": mode}, show="frames")
    try:
        env.reset()
        first = env.render(0)
        while not env.step(np.zeros(1, int)).flags[0] & Flags.TERMINATED:
            pass
        assert env.ending(0).frame.shape == first.shape
        assert np.abs(env.ending(0).frame.astype(int) - env.render(0)).max() > 0, "which is the next episode's first"
    finally:
        env.close()
