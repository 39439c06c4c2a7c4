"""Sketches show an environment as it is: their shapes stand where its own state says."""

from __future__ import annotations

from typing import Any, cast

import gymnasium
import numpy as np
import pytest

from workbench.environment_spec import EnvironmentSpec
from workbench.environments import sketches
from workbench.environments.sketches import Sketch, sketch_of
from workbench.trajectory import Array

NAMES = ("CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Acrobot-v1", "Pendulum-v1")


def steps(name: str, number: int = 60) -> tuple[Array, list[Any]]:
    """Observations and the states of the environment that they were made of, under random actions."""
    environment = gymnasium.make(name)
    environment.action_space.seed(1)
    observations, states = [environment.reset(seed=1)[0]], [_state(environment)]
    for _ in range(number):
        observation, _, terminated, truncated, _ = environment.step(environment.action_space.sample())
        observations.append(observation)
        states.append(_state(environment))
        if terminated or truncated:
            break
    environment.close()
    return np.array(observations), states


def _state(environment: gymnasium.Env[Any, Any]) -> list[float]:
    return [float(value) for value in cast("Any", environment.unwrapped).state]


def spec(name: str, shape: tuple[int, ...]) -> EnvironmentSpec:
    return EnvironmentSpec(name, shape, "float32", 2)


def sketch(name: str) -> Sketch:
    made = sketch_of(spec(name, gymnasium.spec(name).make().observation_space.shape))  # type: ignore[arg-type]
    assert made is not None
    return made


def tip(pose: Array, length: float) -> tuple[float, float]:
    """The end of a rod that points up from its place and is turned by its angle."""
    x, y, angle = pose.tolist()
    return x - length * np.sin(angle), y + length * np.cos(angle)


@pytest.mark.parametrize("name", NAMES)
def test_a_sketch_has_a_pose_for_each_shape_and_a_range_for_each_number(name: str) -> None:
    drawing, (observations, _) = sketch(name), steps(name)
    poses = drawing.poses(observations)
    assert poses.shape == (len(observations), len(drawing.shapes), 3) and poses.dtype == np.float32
    assert len(drawing.names) == len(drawing.ranges) == observations.shape[1]
    low, high = np.array(drawing.ranges).T
    assert (observations[0] >= low).all() and (observations[0] <= high).all()


def test_the_pole_leans_to_the_side_to_which_it_falls_and_stands_on_its_cart() -> None:
    observations, states = steps("CartPole-v1")
    for pose, (x, _, angle, _) in zip(sketch("CartPole-v1").poses(observations), states, strict=True):
        assert pose[1][0] == pytest.approx(x, abs=1e-5)
        assert tip(pose[2], 1.0) == pytest.approx((x + np.sin(angle), 0.1 + np.cos(angle)), abs=1e-5)


def test_the_car_is_on_the_valley() -> None:
    observations, states = steps("MountainCar-v0")
    for pose, (x, _) in zip(sketch("MountainCar-v0").poses(observations), states, strict=True):
        assert pose[2][:2].tolist() == pytest.approx([x, np.sin(3 * x) * 0.45 + 0.55], abs=1e-5)


def test_both_links_hang_as_gymnasium_draws_them() -> None:
    observations, states = steps("Acrobot-v1")
    for pose, (first, second, *_) in zip(sketch("Acrobot-v1").poses(observations), states, strict=True):
        joint = np.sin(first), -np.cos(first)  # of acrobot.py: p1 = (-cos, sin), p2 = p1 + (-cos, sin) of both angles
        end = joint[0] + np.sin(first + second), joint[1] - np.cos(first + second)
        assert tip(pose[1], -1.0) == pytest.approx(joint, abs=1e-5)
        assert tip(pose[2], -1.0) == pytest.approx(end, abs=1e-5)


def test_the_pendulum_stands_upright_at_angle_zero() -> None:
    observations, states = steps("Pendulum-v1")
    for pose, (angle, _) in zip(sketch("Pendulum-v1").poses(observations), states, strict=True):
        assert tip(pose[1], 1.0) == pytest.approx((-np.sin(angle), np.cos(angle)), abs=1e-5)


def test_what_is_drawn_is_where_the_pose_says() -> None:
    drawing = sketch("CartPole-v1")
    left = sketches.draw(drawing, np.array([-1.5, 0, 0, 0]))
    right = sketches.draw(drawing, np.array([1.5, 0, 0, 0]))
    orange = [np.argwhere((picture == (213, 94, 0)).all(-1)).mean(0) for picture in (left, right)]
    assert orange[0][1] < left.shape[1] / 2 < orange[1][1]
    np.testing.assert_allclose(orange[0][0], orange[1][0], atol=1)


def test_an_environment_of_another_name_or_with_other_numbers_is_not_drawn() -> None:
    assert sketch_of(spec("Hopper-v5", (11,))) is None and sketch_of(spec("CartPole-v1", (5,))) is None
    assert sketch_of(spec("testing/CartPole-v1", (4,))) is None


def test_a_number_that_is_none_ends_nothing() -> None:
    drawing = sketch("CartPole-v1")
    assert np.isfinite(drawing.poses(np.full((1, 4), np.nan))).all()
    assert sketches.draw(drawing, np.array([np.inf, 0, np.nan, 1e30])).ndim == 3
