"""Policies that ship with the package: listed, played, looked at, gone on from; and nothing is written beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.conftest import eventually
from workbench.errors import InvalidInput, UnknownName
from workbench.playing import pretrained

NAMES = [one.name for one in wb.pretrained()]


@pytest.fixture(autouse=True)
def _untouched() -> Any:
    before = contents()
    yield
    assert contents() == before


def contents() -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in pretrained.FOLDER.rglob("*")}


def test_what_ships_is_a_table() -> None:
    assert {"cartpole", "football", "pong", "recall"} <= set(NAMES)
    rows = repr(wb.pretrained()).splitlines()
    assert rows[0].split() == ["name", "environment", "algorithm", "plays", "frames", "size"]
    assert [row.split()[0] for row in rows[1:]] == sorted(NAMES)
    assert wb.pretrained()["recall"] == wb.pretrained("recall")


def test_a_misspelt_policy_gets_the_nearest_name() -> None:
    with pytest.raises(UnknownName, match=r"unknown pretrained policy 'cartpol'. Did you mean 'cartpole'\? wb.pretrai"):
        wb.pretrained("cartpol")


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_is_small_whole_and_says_how_it_was_trained(name: str) -> None:
    policy = wb.pretrained(name)
    policy.verify()
    assert isinstance(policy, wb.Checkpoint) and policy.groups == ["model"]
    assert sorted(file.name for file in policy.path.iterdir()) == ["card.md", "meta.json", "model.safetensors"]
    assert policy.files["model.safetensors"]["size_bytes"] < 8 * 2**20
    assert policy.meta[pretrained.JUDGED]["episodes"] >= 20
    assert f"run = wb.launch('{policy.config.environment}'" in policy.card and "## What ships" in policy.card
    assert policy.card._repr_markdown_() == policy.card
    for text in (policy.card, (policy.path / "meta.json").read_text()):
        assert str(Path.home()) not in text and "/tmp/" not in text, "a path of the machine that trained it"


@pytest.mark.parametrize(("name", "episodes", "margin"), [
    ("recall", 20, 0.15), pytest.param("pong", 3, 3.0, marks=pytest.mark.full),
    pytest.param("football", 20, 0.25, marks=pytest.mark.full),
])  # fmt: skip
def test_a_policy_plays_as_its_card_says(home: Path, name: str, episodes: int, margin: float) -> None:
    policy = wb.pretrained(name)
    assert wb.evaluate(policy, episodes=episodes, seed=7).mean >= policy.meta[pretrained.JUDGED]["mean"] - margin


def test_rollouts_of_a_policy_are_kept_in_the_home(home: Path) -> None:
    policy = wb.pretrained("recall")
    episode = wb.rollout(policy, seed=1)
    assert episode.path is not None and episode.path.parent == home / "rollouts"
    assert "recall" in episode.path.name and episode.terminated


@pytest.mark.full
def test_a_person_plays_with_its_advice(home: Path) -> None:
    with wb.play(wb.pretrained("cartpole")) as game:
        game.hand_over()
        assert game.step().advice is not None


@pytest.mark.full
def test_a_fork_goes_on_from_the_weights_with_its_runs_configuration(home: Path) -> None:
    policy = wb.pretrained("cartpole")
    with pytest.raises(InvalidInput, match="environment cannot change from 'CartPole-v1' to 'Acrobot-v1' in a fork"):
        policy.fork(environment="Acrobot-v1")
    fork = policy.fork(name="onward", envs_per_actor=4, learning_rate=1e-5, progress=False)
    assert fork.directory.parent()["checkpoint"] == str(policy.path)
    assert (fork.config.environment, fork.config.envs_per_actor) == ("CartPole-v1", 4)
    assert fork.config.value("unroll_length") == policy.config.value("unroll_length")
    status = fork.wait(episode_return=150, timeout_s=280, progress=False)  # untrained it would begin with about 20
    assert status.updates < 2000, "it began with what it had learnt"


@pytest.mark.full
def test_the_inspector_shows_evaluates_and_plays_what_ships(home: Path) -> None:
    shown = wb.pretrained().inspect()
    assert set(shown.chosen.options) == set(NAMES)
    shown.choose("recall", "cartpole")
    eventually(lambda: shown.layers.rows and "reading" not in shown.said.value)
    evaluating = shown.forms["evaluate"]
    evaluating.fields["episodes"].value = 5
    evaluating.button.click()
    kept = home / "pretrained" / "evaluations.jsonl"
    eventually(lambda: kept.exists() and "recall" in kept.read_text())
    shown.close()
    with pytest.raises(InvalidInput, match="recall ships without a replay"):
        shown._owner.fork(wb.pretrained("recall"), name=None, replay=True, progress=False)


def test_an_installation_without_policies_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pretrained, "FOLDER", tmp_path)
    assert repr(wb.pretrained()) == "no policy ships with this installation"
    with pytest.raises(UnknownName, match="unknown pretrained policy 'pong'"):
        wb.pretrained("pong")
