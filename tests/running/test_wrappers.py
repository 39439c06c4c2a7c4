"""Wrappers and presets of a real run: in its actors, its evaluations, and its forks."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import workbench as wb
from tests.conftest import SMALL, eventually
from tests.rewarding import Rewarding
from workbench import environments, rundir
from workbench.config import RunConfig
from workbench.environments import registration
from workbench.errors import (
    AccessDenied,
    EnvironmentFailed,
    InvalidInput,
    MissingPackage,
    NotLive,
    RunFailed,
    UnknownName,
)
from workbench.running.mending import giving_again, going_on_mended
from workbench.running.starts import checking


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
        with pytest.raises(InvalidInput, match="wrappers: this run's are short, Doubled, and those given are none"):
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


class Corridor(Rewarding):
    length = 4

    def reward(self) -> float:
        return 1.0


class Ends(gymnasium.RewardWrapper):
    """Fails at the twentieth episode of its actor."""

    resets = 0

    def reset(self, **given: Any) -> Any:
        type(self).resets += 1
        if type(self).resets > 20:
            raise ArithmeticError("the twentieth episode")
        return super().reset(**given)

    def reward(self, reward: Any) -> float:
        return float(reward)


@pytest.mark.full
def test_a_run_whose_environment_failed_goes_on_in_the_mended_one(home: Path) -> None:
    failing = wb.launch(Corridor, wrappers=[Ends], name="walk", wait_ready=False, **SMALL)
    with pytest.raises(RunFailed, match="the twentieth episode"):
        failing.wait(timeout_s=240, progress=False)
    mended = type("Ends", (Doubled,), {})
    for given, message in (
        ({"wrappers": [mended]}, r"environment of this run is Corridor, of your own\. Give it, too: environment=Corr"),
        ({"environment": Corridor}, r"this run's are Ends, and those given are none\. Give all of them"),
        ({"environment": Rewarding, "wrappers": [mended]}, "trains in Corridor, and goes on only in a class or funct"),
        ({"environment": Corridor, "wrappers": [mended], "wait_ready": False}, "does not go with environment, wrapp"),
    ):
        with pytest.raises(InvalidInput, match=message):
            wb.resume("walk", **given)

    def nowhere(env: gymnasium.Env) -> gymnasium.Env:
        raise ValueError("no luck")

    nowhere.__name__ = "Ends"
    before = {file.name: file.read_bytes() for file in (home / "runs" / "walk" / "code").iterdir()}
    with pytest.raises(EnvironmentFailed, match="no luck") as caught:
        wb.resume("walk", environment=Corridor, wrappers=[nowhere], progress=False)
    assert caught.value.__notes__ == ["walk is what it was, with the code and the settings that it had."]
    assert {file.name: file.read_bytes() for file in (home / "runs" / "walk" / "code").iterdir()} == before
    assert "the twentieth episode" in wb.attach("walk").status.error

    run = wb.resume("walk", environment=Corridor, wrappers=[mended], progress=False)
    try:
        assert "started again, with mended code" in set(run.events["message"])
        run.wait(updates=run.status.updates + 5, timeout_s=240, progress=False)
        eventually(lambda: run.metrics("episode_return")["value"].max() == 8.0)
        assert set(wb.evaluate(run, episodes=2).returns) == {8.0}
        with pytest.raises(InvalidInput, match=r"environment: walk is alive, and its code.*Stop it first"):
            wb.resume("walk", environment=Corridor)
    finally:
        run.stop()
    (run.path / "code" / "environment.pkl").unlink()
    again = r"Give it again: wb\.resume\('walk', environment=Corridor, wrappers=\[Ends\]\)\.$"
    with pytest.raises(InvalidInput, match=again):
        wb.resume("walk")


def test_nothing_of_an_environment_by_name_can_be_mended(home: Path) -> None:
    def mended(environment: Any, given: Any, name: str = "CartPole-v1", **fields: Any) -> list[str]:
        config = RunConfig.build(name, **fields).to_json()
        run = rundir.create(f"run-{len(rundir.every())}", {"created": 0.0, "config": config, "state": "stopped"})
        return list(checking.mended_code(run, None, None, environment, given, trust_code=False))

    with pytest.raises(InvalidInput, match="neither CartPole-v1 nor a wrapper of it is code of yours"):
        mended(None, [])
    with pytest.raises(InvalidInput, match="must be a name or something that makes an environment"):
        mended(gymnasium.make("CartPole-v1"), None)
    with pytest.raises(InvalidInput, match=r"trains in CartPole-v1, which is no class of yours\. Leave environment"):
        mended(Corridor, None)
    assert mended(None, None) == []
    assert mended(None, [Doubled], wrappers="Doubled") == ["environment.pkl"]
    with pytest.raises(AccessDenied, match="It was not imported"):
        mended(None, [Doubled], "strange:Doors-v0", wrappers="Doubled")
    wb.register_environment("Mine/Corridor-v0", Corridor)
    assert mended(Corridor, None, "Mine/Corridor-v0") == ["environment.pkl"]
    with pytest.raises(InvalidInput, match=r"Register this: wb\.register_environment\('Mine/Corridor-v0', Second\)"):
        mended(type("Second", (Corridor,), {}), None, "Mine/Corridor-v0")
    for text in ({"environment": "Acrobot-v1"}, {"wrappers": "Doubled"}):
        with pytest.raises(NotLive, match="fixed once a run has started|cannot change|is no live field"):
            wb.resume("run-0", **text)


def test_an_environment_that_was_registered_in_another_kernel_is_registered_again(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wrappers in ("", "Doubled"):
        config = RunConfig.build("Mine/Walk-v0", wrappers=wrappers).to_json()
        rundir.create(f"walk{wrappers}", {
            "created": 0.0, "config": config, "state": "stopped", "code": {"environment": True}})
    plain, wrapped = rundir.find("walk"), rundir.find("walkDoubled")

    def mended(run: rundir.RunDirectory, *given: Any) -> list[str]:
        return list(checking.mended_code(run, None, None, *given, trust_code=False))

    again = r"a name that you registered\. Register this: wb\.register_environment\('Mine/Walk-v0', Corridor\), and"
    with pytest.raises(InvalidInput, match=again):
        mended(plain, Corridor, None)
    with pytest.raises(InvalidInput, match=again):
        mended(wrapped, Corridor, [Doubled])
    with pytest.raises(InvalidInput, match=r"wrappers: .* registered\. Register it again: wb\.register_.*YourEnviro"):
        mended(wrapped, None, [Doubled])
    first = "wb.register_environment('Mine/Walk-v0', YourEnvironment), then wb.resume("
    error = EnvironmentFailed("")
    said = [f"Mend it, and go on from the newest checkpoint: {first}'walk', environment=YourEnvironment).",
            f"Mend it, and go on from the newest checkpoint: {first}'walkDoubled', environment=YourEnvironment, "
            "wrappers=[Doubled])."]
    assert [going_on_mended(run, error) for run in (plain, wrapped)] == said
    with pytest.raises(InvalidInput, match=re.escape(f"Give it again: {first}'walk', environment=YourEnvironment).")):
        checking.check_has_code(plain, plain.config())
    monkeypatch.setattr(registration, "_factories", {"Mine/Walk-v0": Corridor})
    assert [going_on_mended(run, error) for run in (plain, wrapped)] == said
    assert mended(plain, Corridor, None) == mended(wrapped, None, [Doubled]) == ["environment.pkl"]


@pytest.mark.parametrize(("environment", "wrappers", "again"), [
    ("CartPole-v1", "Doubled", "wrappers=[Doubled]"), ("doors:Doors-v0", "", "wrappers=[]"),
    ("football/academy", "Doubled", "wrappers=[Doubled]"), ("Corridor", "", "environment=Corridor"),
    ("Corridor", "Doubled", "environment=Corridor, wrappers=[Doubled]"), ("lambda", "", "environment=YourEnvironment"),
])
def test_an_environment_is_given_again_as_it_was(
    home: Path, monkeypatch: pytest.MonkeyPatch, environment: str, wrappers: str, again: str
) -> None:
    def not_installed(name: str, options: Any = None) -> None:
        if name.startswith("football/"):
            raise MissingPackage(f"{name} needs gfootball.")
        registration.check_name(name, options)

    monkeypatch.setattr(environments, "check_name", not_installed)
    config = RunConfig.build(environment, wrappers=wrappers).to_json()
    run = rundir.create("walk", {"config": config, "state": "stopped", "code": {"environment": True}})
    assert giving_again(run, "environment") == f"wb.resume('walk', {again})"
