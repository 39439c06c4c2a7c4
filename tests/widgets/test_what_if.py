"""The kernel's half of "What if …": what a page asks for, and what all pages are told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import eventually
from tests.learner.test_branch import played
from tests.played import branching_here, checkpoint_in
from tests.widgets.test_player import rollout, sent, told_of
from workbench.errors import InvalidInput, UnknownName
from workbench.playing.rollout import Rollout
from workbench.testing import CatchEnv
from workbench.widgets.episodes.player import RolloutPlayer

Messages = list[tuple[dict[str, Any], list[bytes]]]


@pytest.fixture(autouse=True)
def _here() -> Iterator[None]:
    with branching_here():
        yield


@pytest.fixture
def parent(tmp_path: Path) -> Rollout:
    return played(checkpoint_in(tmp_path, "testing/recall-v0", network="mlp-lstm"))


def asked(shown: RolloutPlayer, messages: Messages, **content: Any) -> dict[str, Any]:
    """What a page is told in the end of a branch that it asks for, or of another future."""
    messages.clear()
    shown._received(shown, {"type": "branch", "view": "v", "index": 0, "step": 2, "hold": 1, **content}, [])
    eventually(lambda: any(one["type"] == "branched" for one, _ in messages), what="an outcome")
    return next(one for one, _ in messages if one["type"] == "branched")


def test_a_branch_is_shown_beside_its_parent_from_the_step_where_they_part(
    parent: Rollout, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = RolloutPlayer([parent])
    messages = sent(shown, monkeypatch)
    other = (int(parent.actions[2]) + 1) % 2
    outcome, name = asked(shown, messages, action=[other]), parent.action_names[other]
    assert not outcome["error"] and outcome["at"] == 2 and "view" not in outcome, "every page is told"
    assert f"action {name}: return" in outcome["text"] and f"and {parent.episode_return:g} without" in outcome["text"]
    [(content, buffers)] = [one for one in messages if one[0]["type"] == "episode"]
    assert (content["index"], content["count"]) == (1, 2), "the parent is there already"
    assert content["header"]["branch"] == {"parent": parent.path.name, "at": 2, "change": f"action {name}"}
    told = told_of(content, buffers)
    assert np.flatnonzero(told["forced"]).tolist() == [2] and not told["edited"].any()
    [futures] = [one for one, _ in messages if one["type"] == "futures"]
    assert [one["key"] for one in futures["options"]] == ["", shown.rollouts[1].path.name]
    assert futures["chosen"] == shown.rollouts[1].path.name
    messages.clear()
    shown._received(shown, {"type": "hello", "view": "w"}, [])
    assert [(one["type"], one.get("index")) for one, _ in messages] == [
        ("episode", 0), ("episode", 1), ("futures", None)]
    assert f"at step 2: action {name}" in shown.still()["text/plain"]


def test_an_observation_is_edited_by_the_places_of_its_numbers(
    parent: Rollout, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = RolloutPlayer([parent])
    messages = sent(shown, monkeypatch)
    shown._received(shown, {"type": "look", "view": "v", "index": 0, "step": 2}, [])
    [(looked, [values])] = messages
    assert (looked["type"], looked["view"], looked["step"], looked["shape"]) == ("looked", "v", 2, [3])
    assert np.frombuffer(values, np.float32).tolist() == parent.observation_rows[2].tolist()
    outcome = asked(shown, messages, observation={"1": 0.5}, hold=3)
    assert "the policy sees x[1] = 0.5 for 3 steps" in outcome["text"]
    assert shown.rollouts[1].edited_at.tolist() == [2, 3, 4]


def test_numbers_of_an_environment_with_a_sketch_have_its_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = played(checkpoint_in(tmp_path, "CartPole-v1", network="mlp"))
    shown = RolloutPlayer([parent])
    messages = sent(shown, monkeypatch)
    shown._received(shown, {"type": "look", "view": "v", "index": 0, "step": 2}, [])
    assert list(messages[0][0]["entries"]) == ["cart position", "cart velocity", "pole angle", "pole velocity"]
    assert "the policy sees pole angle = 0.2:" in asked(shown, messages, observation={"2": 0.2})["text"]
    same = parent.branch(2, observation={"pole angle": 0.2})
    assert same.path == shown.rollouts[1].path == parent.branch(2, observation={"x[2]": 0.2}).path
    with pytest.raises(InvalidInput, match="gives 'pole angle' twice"):
        parent.branch(2, observation={"x[2]": 0.1, "pole angle": 0.2})
    with pytest.raises(UnknownName, match="Did you mean 'pole angle'"):
        parent.branch(2, observation={"pole angel": 0.2})


def test_a_picture_is_looked_at_and_occluded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = played(checkpoint_in(tmp_path, CatchEnv, network="small-cnn-lstm"))
    shown = RolloutPlayer([parent])
    messages = sent(shown, monkeypatch)
    shown._received(shown, {"type": "look", "view": "v", "index": 0, "step": 1}, [])
    [(looked, [values])] = messages
    assert looked["shape"] == list(parent.observation_rows.shape[1:]) and looked["entries"] == []
    assert np.frombuffer(values, np.uint8).tolist() == parent.observation_rows[1].reshape(-1).tolist()
    outcome = asked(shown, messages, observation={"occlude": [0, 0, 5, 5], "shade": 200})
    assert not outcome["error"] and "5x5 pixels at (0, 0) in shade 200" in outcome["text"]


def test_futures_are_chosen_by_name_and_the_recorded_one_comes_back(
    parent: Rollout, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = parent.branch(1, action=0), parent.branch(3, action=1)
    third = second.branch(5, action=0)
    shown = RolloutPlayer([parent])
    messages = sent(shown, monkeypatch)
    for name, paths in (
        (first.path.name, [parent.path, first.path]), (third.path.name, [second.path, third.path]), ("", [parent.path]),
    ):
        assert not asked(shown, messages, type="choose", name=name)["error"]
        assert [one.path for one in shown.rollouts] == paths
    assert asked(shown, messages, type="choose", name="9-gone")["text"] == "no branch: that branch was deleted."


@pytest.mark.parametrize(("wrong", "words"), [
    ({"action": [7]}, "action 7 is not in"), ({"step": 99}, "no step 99"), ({"index": 3}, "not shown any more"),
    ({"observation": {"9": 1}}, "unknown number of the observation"), ({"index": "x"}, "invalid literal"),
    ({"action": {"a": 1}}, "must have no parts"), ({"hold": "x", "action": [0]}, "hold='x'"),
    ({"observation": {"x": 1}}, "invalid literal"), ({"type": "look", "step": -1}, "no step -1"),
])  # fmt: skip
def test_what_cannot_be_is_said_in_words_to_the_page_that_asked(
    parent: Rollout, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, Any], words: str
) -> None:
    shown = RolloutPlayer([parent])
    outcome = asked(shown, sent(shown, monkeypatch), **wrong)
    assert outcome["error"] and outcome["view"] == "v" and outcome["text"].startswith("no branch: ")
    assert words in outcome["text"] and "\n" not in outcome["text"] and shown.rollouts == (parent,)


def test_an_episode_that_has_no_other_future_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for made, words in ((rollout(), "not on disk"), (rollout(algorithm="", path=tmp_path), "no agent"),
                        (rollout(path=tmp_path), "")):
        shown = RolloutPlayer([made])
        messages = sent(shown, monkeypatch)
        shown._received(shown, {"type": "hello", "view": "v"}, [])
        assert (words in messages[0][0]["header"]["why"]) if words else messages[0][0]["header"]["why"] == ""
