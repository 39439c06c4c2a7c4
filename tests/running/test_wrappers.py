"""Wrappers and presets of a real run: in its actors, its evaluations, and its forks."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import workbench as wb
from tests.conftest import SMALL, eventually
from workbench.errors import EnvironmentFailed, InvalidInput, UnknownName
from workbench.running import checking


def short(env: gymnasium.Env) -> gymnasium.Env:
    """Travels by value."""
    return gymnasium.wrappers.TimeLimit(env, max_episode_steps=4)


class Doubled(gymnasium.RewardWrapper):
    def reward(self, reward: Any) -> float:
        return 2.0 * float(reward)


@pytest.mark.full
def test_a_runs_wrappers_are_there_in_all_that_plays_its_environment(home: Path) -> None:
    run = wb.launch("CartPole-v1", wrappers=[short, Doubled], **SMALL)
    try:
        run.wait(updates=5, timeout_s=240)
        eventually(lambda: "episode_return" in run.metric_names)  # they are written once a second
        assert run.config.wrappers == "short, Doubled" and run.config.environment == "CartPole-v1"
        assert set(run.metrics("episode_return")["value"]) == {8.0}
        fork = run.fork(name="forked", learning_rate=1e-4)
        fork.wait(updates=fork.checkpoints[0].updates + 3, timeout_s=240)
        fork.stop()
        assert fork.config.wrappers == "short, Doubled"
        assert set(fork.metrics("episode_return")["value"]) == {8.0}
        with pytest.raises(InvalidInput, match="wrappers cannot change from 'short, Doubled' to ''"):
            run.fork(wrappers="")
    finally:
        run.stop()
    assert wb.evaluate(run, episodes=2).returns == (8.0, 8.0)
    assert wb.rollout(run).episode_return == 8.0
    again = wb.resume(run.name)
    again.wait(updates=again.status.updates + 3, timeout_s=240)
    again.stop()
    assert set(again.metrics("episode_return")["value"]) == {8.0}


@pytest.mark.full
def test_a_wrapper_that_fails_reaches_the_caller(home: Path) -> None:
    def broken(env: gymnasium.Env) -> gymnasium.Env:
        raise ValueError("no luck")

    with pytest.raises(EnvironmentFailed, match="raised ValueError in constructor: no luck") as caught:
        wb.launch("CartPole-v1", wrappers=[broken], **SMALL)
    assert 'raise ValueError("no luck")' in str(caught.value)


@pytest.mark.parametrize(("environment", "given", "error", "words"), [
    ("CartPole-v1", {"wrappers": [3]}, InvalidInput, "wrapper 3 must be something"),
    ("CartPole-v1", {"wrappers": Doubled}, InvalidInput, r"wrappers=\[Doubled\]"),
    ("ALE/Pong-v5", {"wrappers": [Doubled]}, InvalidInput, "wrappers cannot go around ALE/Pong-v5"),
    ("CartPole-v1", {"preset": "seed-scoring"}, UnknownName, "preset of CartPole-v1 'seed-scoring'"),
])  # fmt: skip
def test_wrong_ones_start_nothing(
    home: Path, environment: str, given: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        wb.launch(environment, **given)
    assert len(wb.runs()) == 0


@pytest.mark.full
def test_a_run_is_launched_with_its_preset_and_a_fork_keeps_it(home: Path) -> None:
    pytest.importorskip("minigrid", reason="the extra minigrid is not installed")
    run = wb.launch("MiniGrid-Empty-5x5-v0", learning_rate=1e-3, **SMALL)
    run.wait(updates=2, timeout_s=240)
    run.stop()
    record = json.loads(run.directory.record.read_text())
    assert record["preset"] == "minigrid" and record["config"]["network"] == "small-cnn-lstm"
    assert run.config.value("learning_rate") == 1e-3 and run.config.value("max_abs_reward") == 0.0
    fork = run.fork(entropy_cost=0.02)
    fork.stop()
    record = json.loads(fork.directory.record.read_text())
    assert record["preset"] == "minigrid" and record["config"]["network"] == "small-cnn-lstm"


def test_a_wrapper_with_running_means_is_launched_with_a_word_on_where_they_are_not(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrappers = [partial(gymnasium.wrappers.NormalizeObservation, epsilon=1e-6), gymnasium.wrappers.NormalizeReward]
    for given, words in ((wrappers, "NormalizeObservation and NormalizeReward: each environment keeps running means"),
                         ([Doubled], "")):
        checking.checked_config("CartPole-v1", "vtrace", None, None, given, {})
        said = capsys.readouterr().out
        assert (words in said) if words else "running means" not in said
