"""One suite over every kind of environment; `check_environment` holds the rules."""

import copy
import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from workbench.actor.main import play
from workbench.environment_spec import ActionSpec, EnvironmentSpec, Part
from workbench.environments import VectorEnvironment, make
from workbench.environments.contract import WithEndings, random_actions, seeds_of
from workbench.errors import EnvironmentFailed
from workbench.testing import CatchEnv, CountingEnv, check_environment
from workbench.trajectory import ENDS, Flags, StepBatch
from workbench.wire.messages import GroupActions, GroupStep


class Pixels(gymnasium.Env):
    """Colour images with the channels last, numbered actions from 5, one end of each kind in turn."""

    observation_space = gymnasium.spaces.Box(0, 255, (10, 12, 3), "uint8")
    action_space = gymnasium.spaces.Discrete(2, start=5)
    episodes = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episodes = 0 if seed is not None else self.episodes + 1
        self.steps = 0
        return self._draw(), {}

    def step(self, action):
        assert action in (5, 6)
        self.steps += 1
        over = self.steps == 4
        return self._draw(), float(action), over and self.episodes % 2 == 0, over and self.episodes % 2 == 1, {}

    def _draw(self):
        return self.np_random.integers(0, 256, (10, 12, 3)).astype("uint8")


class Sampled(gymnasium.Env):
    """Observations drawn from a space, actions checked against one; episodes of 5 steps, cut off."""

    def __init__(self, *, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.steps += 1
        numbers = gymnasium.spaces.flatten(self.action_space, action) if isinstance(action, dict) else action
        return self.observation_space.sample(), float(np.mean(numbers)), False, self.steps == 5, {}


class TwoArrays(CountingEnv):
    """A count beside a choice, in episodes of 4 steps that are cut off."""

    def __init__(self):
        super().__init__(episode_length=4, ends="truncated")
        self.observation_space = Dict({"choice": Discrete(2), "count": self.observation_space})

    def _observation(self):
        return {"choice": self._step % 2, "count": super()._observation()}


def sampled(observation_space, action_space):
    def build():
        return Sampled(observation_space=copy.deepcopy(observation_space), action_space=copy.deepcopy(action_space))
    return build


MANY = Dict({"camera": Box(0, 255, (4, 6, 3), np.uint8), "more": Tuple([Box(-1, 1, (3,)), Discrete(2)])})

# environment, options, what must have happened in the check, the spec
ENVIRONMENTS = [
    ("ALE/Pong-v5", {"max_frames_per_episode": 200}, "truncated", ((1, 84, 84), "uint8", 6, 4, 4)),
    pytest.param("ALE/Breakout-v5", {"life_loss": True}, "lives_lost", ((1, 84, 84), "uint8", 4, 4, 4),
                 marks=pytest.mark.full),
    ("CartPole-v1", {}, "episodes", ((4,), "float32", 2, 1, 1)),
    ("CartPole-v1", {"max_episode_steps": 12}, "truncated", ((4,), "float32", 2, 1, 1)),
    ("MountainCar-v0", {}, "truncated", ((2,), "float32", 3, 1, 1)),
    ("testing/catch-v0", {}, "episodes", ((1, 36, 36), "uint8", 3, 1, 1)),
    ("testing/cartpole-positions-v0", {}, "episodes", ((2,), "float32", 2, 1, 1)),
    ("testing/counting-v0", {"ends": "alternate", "life": 1}, "truncated", ((4,), "float32", 3, 1, 1)),
    (Pixels, {}, "truncated", ((3, 10, 12), "uint8", 2, 1, 1)),
    (lambda: gymnasium.wrappers.TimeLimit(CatchEnv(), 3), {}, "truncated", ((1, 36, 36), "uint8", 3, 1, 1)),
    (CountingEnv, {"image": True, "life": 1, "ends": "truncated"}, "truncated", ((1, 36, 36), "uint8", 3, 1, 1)),
    ("FrozenLake-v1", {}, "episodes", ((16,), "float32", 4, 1, 1)),
    ("Pendulum-v1", {}, "truncated", ((3,), "float32", 1, 1, 1, ActionSpec("tanh_normal", (0,)))),
    pytest.param("Hopper-v5", {"width": 32, "height": 32}, "episodes",
                 ((11,), "float32", 3, 1, 1, ActionSpec("tanh_normal", (0,) * 3)), marks=pytest.mark.full),
    (sampled(MANY, Box(-1, 3, (2,), np.float64)), {}, "truncated",
     ((92,), "uint8", 2, 1, 1, ActionSpec("tanh_normal", (0, 0)),
      (Part("camera", (3, 4, 6), "uint8"), Part("more/0", (3,), "float32"), Part("more/1", (2,), "float32")))),
    (sampled(MultiBinary((3, 4, 5)), MultiDiscrete([2, 3], start=[0, 4])), {}, "truncated",
     ((8,), "uint8", 5, 1, 1, ActionSpec("multi_discrete", (2, 3)), (Part("", (3, 4, 5), "bits"),))),
    (sampled(Box(-1, 1, (2, 2)), MultiBinary(3)), {}, "truncated",
     ((4,), "float32", 3, 1, 1, ActionSpec("bernoulli", (2, 2, 2)))),
    (sampled(Box(-1, 1, (3,)), Dict({"b": Tuple([Discrete(3, start=1), MultiBinary(2)]), "a": Box(0, 5, (2,))})), {},
     "truncated", ((3,), "float32", 7, 1, 1, ActionSpec.mixed({
         "a": ActionSpec("tanh_normal", (0, 0)), "b/0": ActionSpec("categorical", (3,)),
         "b/1": ActionSpec("bernoulli", (2, 2))}))),
]
NEEDS = {"ALE/": "ale_py", "Hopper": "mujoco"}


def title(value) -> str | None:
    return value if isinstance(value, str) else getattr(value, "__name__", "").strip("<>") or None


def skip_without_its_package(environment) -> None:
    for start, package in NEEDS.items():
        if str(environment).startswith(start) and importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")


@pytest.mark.parametrize("environment, options, happened, spec", ENVIRONMENTS, ids=title)
def test_it_keeps_the_contract(environment, options, happened, spec):
    skip_without_its_package(environment)
    steps = 80 if str(environment).startswith("ALE") else 210
    seen = check_environment(environment, options=options, steps=steps)
    assert seen.steps == 3 * steps
    assert getattr(seen, happened) > 0


@pytest.mark.parametrize("environment, options", [
    ("ALE/Pong-v5", {"max_frames_per_episode": 80}), ("testing/counting-v0", {"episode_length": 3, "life": 1}),
], ids=title)
def test_one_that_loses_its_endings_is_told(environment, options, monkeypatch):
    skip_without_its_package(environment)
    monkeypatch.setattr(WithEndings, "ending", lambda self, index: None)
    with pytest.raises(EnvironmentFailed, match="the rule 'ending'"):
        check_environment(environment, options=options, steps=30)


@pytest.mark.parametrize("environment, options, happened, spec", ENVIRONMENTS, ids=title)
def test_its_spec_says_what_travels(environment, options, happened, spec):
    skip_without_its_package(environment)
    name = environment if isinstance(environment, str) else "mine"
    env = make(name, num_envs=1, seed=0, options=options, factory=None if name != "mine" else environment)
    try:
        assert isinstance(env, VectorEnvironment)
        assert env.spec == EnvironmentSpec(name, *spec)
    finally:
        env.close()


def test_neighbouring_seeds_share_no_environment_seed():
    seeds = {int(one) for seed in range(50) for one in seeds_of(seed, 32)}
    assert len(seeds) == 50 * 32
    assert all(0 <= one < 2**31 for one in seeds)


def resident_kb() -> int:
    """Memory of this process that is in use, in KiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc/self/statm on this system")
@pytest.mark.parametrize("environment, options", [
    ("CartPole-v1", {}), ("testing/counting-v0", {"ends": "truncated", "episode_length": 4}),
    (TwoArrays, {}),
    (lambda num_envs: gymnasium.make_vec("CartPole-v1", num_envs=num_envs, vectorization_mode="vector_entry_point"),
     {}),
], ids=["CartPole", "counting", "several arrays", "native"])
def test_ten_thousand_episodes_leave_nothing_behind_in_memory(environment, options):
    named = isinstance(environment, str)
    env = make(environment if named else "mine", num_envs=16, seed=0, options=options, show="endings",
               factory=None if named else environment)
    rng = np.random.default_rng(0)

    def played(episodes: int) -> None:
        while episodes > 0:
            batch = env.step(random_actions(env.spec, 16, rng))
            episodes -= int(((batch.flags & ENDS) > 0).sum())

    env.reset()
    played(1_000)
    before = resident_kb()
    played(10_000)
    env.close()
    assert resident_kb() - before < 1_024, "KiB; a StepBatch or an observation kept of each episode would be more"


def own_vector(flags: list[list[int]], finals: list[list[int]]) -> Any:
    """A user's own VectorEnvironment of two rows, whose reset and steps come with these flags and final indices."""
    steps = iter(zip(flags, finals, strict=True))

    def next_step(*_: Any, **__: Any) -> StepBatch:
        own, index = next(steps)
        return StepBatch(np.zeros((2, 3), np.float32), np.zeros(2, np.float32), np.array(own, np.uint8),
                         final_index=np.array(index, np.int32),
                         final_observation=np.zeros((len(index), 3), np.float32) if index else None)

    return SimpleNamespace(spec=EnvironmentSpec("own", (3,), "float32", 2), num_envs=2, reset=next_step, step=next_step)


class Answering:
    """What an actor's stream does: it answers each step of the group; EOFError once the run is over."""

    def send(self, message: GroupStep) -> None:
        self.left = 2

    def exchange(self, message: GroupStep | None = None) -> GroupActions:
        if not self.left:
            raise EOFError
        self.left -= 1
        return GroupActions(0, np.zeros(2, np.int64), 0)


CUT, OVER = int(Flags.TRUNCATED | Flags.START), int(Flags.TERMINATED | Flags.START)


@pytest.mark.parametrize("flags, finals, said", [
    ([[8, 0]], [[]], "reset: flags must be START everywhere, and are .8, 0."),
    ([[8, 8], [1, 0]], [[], []], "step: an end, TERMINATED or TRUNCATED, must come with START, and the flags are"),
    ([[8, 8], [0, CUT]], [[], []], r"step: final_index must hold the truncated rows \[1\], and holds \[\]"),
    ([[8, 8], [OVER, 0]], [[], [0]], r"step: final_index must hold the truncated rows \[\], and holds \[0\]"),
    ([[8, 8], [0, 0]], [[], [1]], r"step: final_index must hold the truncated rows \[\], and holds \[1\]"),
])
def test_an_actor_refuses_steps_of_a_users_own_vector_that_would_break_unrolls(flags, finals, said):
    with pytest.raises(EnvironmentFailed, match=f"'own' broke a rule in {said}.*wb.check_environment tests all rules"):
        play([own_vector(flags, finals)], Answering(), seed=0)


def test_an_actor_takes_ends_lost_lives_and_absent_rows_as_the_contract_has_them():
    flags = [[8, 8], [CUT, OVER], [int(Flags.LIFE_LOST), int(Flags.ABSENT)]]
    with pytest.raises(EOFError):
        play([own_vector(flags, [[], [0], []])], Answering(), seed=0)
