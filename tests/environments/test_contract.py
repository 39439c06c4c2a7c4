"""One suite over every kind of environment; `check_environment` holds the rules."""

import gymnasium
import pytest

from workbench.environments import VectorEnvironment, make
from workbench.environments.contract import seeds_of
from workbench.testing import CatchEnv, CountingEnv, check_environment
from workbench.trajectory import EnvironmentSpec


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


# environment, options, what must have happened in the check, the spec
ENVIRONMENTS = [
    ("ALE/Pong-v5", {"max_frames_per_episode": 200}, "truncated", ((1, 84, 84), "uint8", 6, 4, 4)),
    ("ALE/Breakout-v5", {"life_loss": True}, "lives_lost", ((1, 84, 84), "uint8", 4, 4, 4)),
    ("CartPole-v1", {}, "episodes", ((4,), "float32", 2, 1, 1)),
    ("CartPole-v1", {"max_episode_steps": 12}, "truncated", ((4,), "float32", 2, 1, 1)),
    ("MountainCar-v0", {}, "truncated", ((2,), "float32", 3, 1, 1)),
    ("testing/catch-v0", {}, "episodes", ((1, 36, 36), "uint8", 3, 1, 1)),
    ("testing/cartpole-positions-v0", {}, "episodes", ((2,), "float32", 2, 1, 1)),
    ("testing/counting-v0", {"ends": "alternate", "life": 1}, "truncated", ((4,), "float32", 3, 1, 1)),
    (Pixels, {}, "truncated", ((3, 10, 12), "uint8", 2, 1, 1)),
    (lambda: gymnasium.wrappers.TimeLimit(CatchEnv(), 3), {}, "truncated", ((1, 36, 36), "uint8", 3, 1, 1)),
    (CountingEnv, {"image": True, "life": 1, "ends": "truncated"}, "truncated", ((1, 36, 36), "uint8", 3, 1, 1)),
]


def title(value) -> str | None:
    return value if isinstance(value, str) else getattr(value, "__name__", "").strip("<>") or None


@pytest.mark.parametrize("environment, options, happened, spec", ENVIRONMENTS, ids=title)
def test_it_keeps_the_contract(environment, options, happened, spec):
    steps = 110 if str(environment).startswith("ALE") else 210
    seen = check_environment(environment, options=options, steps=steps)
    assert seen.steps == 3 * steps
    assert getattr(seen, happened) > 0


@pytest.mark.parametrize("environment, options, happened, spec", ENVIRONMENTS, ids=title)
def test_its_spec_says_what_travels(environment, options, happened, spec):
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
