"""Wrappers given by the user: around what, in which order, and what is said of wrong ones."""

from __future__ import annotations

import functools
import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit, TransformReward

from workbench.config import RunConfig
from workbench.environments import make, make_configured
from workbench.environments.adapters.code_by_value import dumps, loads
from workbench.environments.adapters.wrapping import Wrapped, checked_wrappers
from workbench.errors import EnvironmentFailed, InvalidInput
from workbench.testing import CountingEnv
from workbench.trajectory import Flags

SHORT = functools.partial(TimeLimit, max_episode_steps=3)


class Times(gymnasium.RewardWrapper):
    """Multiplies rewards."""

    def __init__(self, env: gymnasium.Env, by: float = 10.0) -> None:
        super().__init__(env)
        self.by = by

    def reward(self, reward: Any) -> float:
        return float(reward) * self.by


def rewards_and_flags(environment: Any, steps: int) -> tuple[list[float], list[int]]:
    environment.reset()
    played = [environment.step(np.zeros(1, int)) for _ in range(steps)]
    environment.close()
    return [float(one.reward[0]) for one in played], [int(one.flags[0]) for one in played]


@pytest.mark.parametrize(("name", "factory"), [
    ("CartPole-v1", None), ("mine", CountingEnv), ("testing/counting-v0", None)])
def test_wrappers_go_around_each_environment_by_name_or_factory(name: str, factory: Any) -> None:
    plain, _ = rewards_and_flags(make(name, num_envs=1, seed=0, factory=factory), 4)
    wrapped = make(name, num_envs=1, seed=0, factory=Wrapped(factory, (SHORT, Times)))
    rewards, flags = rewards_and_flags(wrapped, 4)
    assert flags == [0, 0, Flags.TRUNCATED | Flags.START, 0]
    assert rewards[:3] == pytest.approx([10 * one for one in plain[:3]])


def test_the_first_wrapper_is_the_innermost() -> None:
    plus = functools.partial(TransformReward, func=lambda reward: reward + 1)
    first, second = (
        rewards_and_flags(make("CartPole-v1", num_envs=1, seed=0, factory=Wrapped(None, wrappers)), 1)[0]
        for wrappers in ((plus, Times), (Times, plus)))
    assert (first, second) == ([20.0], [11.0])


def test_wrappers_and_a_factory_travel_together() -> None:
    wrapped = loads(dumps(Wrapped(lambda length=5: CountingEnv(episode_length=length), (lambda env: Times(env, 2.0),))))
    _, flags = rewards_and_flags(make("mine", num_envs=1, seed=0, factory=wrapped, options={"length": 2}), 2)
    assert flags[1] & Flags.START
    assert wrapped.names == "lambda"


def test_a_vector_of_a_factorys_own_is_wrapped_too() -> None:
    def pole(num_envs: int) -> Any:
        return gymnasium.make_vec("CartPole-v1", num_envs=num_envs, vectorization_mode="sync", vector_kwargs={
            "autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP})

    from gymnasium.wrappers.vector import TransformReward as TransformRewards

    tenfold = functools.partial(TransformRewards, func=lambda rewards: 10 * rewards)
    environment = make("pole", num_envs=3, seed=0, factory=Wrapped(pole, (tenfold,)))
    environment.reset()
    assert environment.step(np.zeros(3, int)).reward.tolist() == [10.0] * 3


@pytest.mark.parametrize(("name", "options", "words"), [
    ("ALE/Pong-v5", {}, "wrappers cannot go around ALE/Pong-v5, which steps many games at once"),
    ("CartPole-v1", {"vectorization_mode": "sync"}, "makes a vector of them"),
])  # fmt: skip
def test_what_steps_many_games_at_once_is_not_wrapped(name: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        make(name, num_envs=1, seed=0, options=options, factory=Wrapped(None, (Times,)))


@pytest.mark.parametrize(("given", "words"), [
    (Times, r"must be a list of wrappers: wrappers=\[Times\]"),
    ("Times", "must be a list of wrappers"),
    ([Times, 3], "wrapper 3 must be something that takes an environment"),
])  # fmt: skip
def test_what_is_no_list_of_wrappers_is_refused(given: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        checked_wrappers(given)


def test_a_wrapper_that_forgets_to_return_is_named() -> None:
    def forgetful(env: Any) -> Any:
        Times(env)

    with pytest.raises(EnvironmentFailed, match="wrapper forgetful returned None"):
        make("CartPole-v1", num_envs=1, seed=0, factory=Wrapped(None, (forgetful,)))


def test_a_run_with_wrappers_is_not_played_without_them() -> None:
    config = RunConfig.build("CartPole-v1", wrappers="Times")
    with pytest.raises(InvalidInput, match=r"wrappers around CartPole-v1 \(Times\) .* play the checkpoint in its run"):
        make_configured(config, num_envs=1, seed=0)
    make_configured(config, num_envs=1, seed=0, factory=Wrapped(None, (Times,))).close()


CELL = """
import gymnasium
class Fragile(gymnasium.Wrapper):
    def __init__(self, env):
        super().__init__(env)
        self.left = 2
    def step(self, action):
        self.left -= 1
        return self.env.step([action, 0][1 // self.left])  # nothing is left
"""
KERNEL = """
import linecache, sys
cell, out = sys.argv[1:]
name = "/nowhere/ipykernel_1/cell.py"
linecache.cache[name] = (len(cell), None, cell.splitlines(True), name)
exec(compile(cell, name, "exec"), globals())
from workbench.environments.adapters.code_by_value import dumps
from workbench.environments.adapters.wrapping import Wrapped
open(out, "wb").write(dumps(Wrapped(None, (Fragile,))))
"""


def test_an_error_in_a_wrapper_typed_in_a_cell_shows_the_cells_line(tmp_path: Any) -> None:
    subprocess.run([sys.executable, "-c", KERNEL, CELL, str(tmp_path / "code")], check=True, timeout=240)
    environment = make("CartPole-v1", num_envs=1, seed=0, factory=loads((tmp_path / "code").read_bytes()))
    environment.reset()
    environment.step(np.zeros(1, int))
    with pytest.raises(EnvironmentFailed) as caught:
        environment.step(np.zeros(1, int))
    assert "environment 'CartPole-v1' (index 0) raised ZeroDivisionError in step" in str(caught.value)
    assert 'File "/nowhere/ipykernel_1/cell.py", line 9, in step' in str(caught.value)
    assert "[1 // self.left])  # nothing is left" in str(caught.value)
