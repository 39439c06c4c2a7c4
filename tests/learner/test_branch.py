"""Branches of a recorded episode begin in exactly the state of the record, and only what was asked for differs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.environments.games import CountingGame
from tests.learner.counting import CountingNetwork
from tests.learner.test_game import playing
from tests.learner.test_rollout import SAME, Drawn
from tests.learner.test_rollout_kinds import Kinds
from tests.played import branching_here, checkpoint_in, rolled_out
from workbench.checkpoints import Checkpoint
from workbench.environment_spec import Part
from workbench.environments import observations
from workbench.errors import EnvironmentFailed, InvalidInput, OutOfBounds, ShapeMismatch, UnknownName, WrongType
from workbench.playing import branching
from workbench.playing import rollout as rollouts
from workbench.playing.observation_edit import change_of, edited
from workbench.playing.rollout import Rollout
from workbench.playing.store import BranchPoint
from workbench.testing import CatchEnv, CountingEnv

COUNTING = {"environment_options": {"life": 1, "episode_length": 9}}
OF_THE_EPISODE = (
    "observation_rows", "actions", "rewards", "values", "policy", "q_values", "means", "state_norm", "scores",
    "terminated", "truncated", "action_names", "action_spec", "parts", "note", "checkpoint", "checkpoint_frames",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _here() -> Iterator[None]:
    with branching_here():
        yield


def played(checkpoint: Checkpoint, **options: Any) -> Rollout:
    """An episode in its run's own folder of rollouts."""
    folder = checkpoint.path.parents[1] / "rollouts"
    folder.mkdir(exist_ok=True)
    return rolled_out(checkpoint, folder / f"{checkpoint.path.name}-seed{options.get('seed', 0)}", **options)


def is_same(one: Rollout, other: Rollout, *, steps: slice = slice(None)) -> None:
    """Two episodes are the same to the last bit, in `steps`."""
    for name in OF_THE_EPISODE:
        mine, theirs = getattr(one, name), getattr(other, name)
        if isinstance(mine, np.ndarray):
            np.testing.assert_array_equal(mine[steps], theirs[steps], err_msg=name)
        elif steps == slice(None) or name not in ("terminated", "truncated"):
            assert mine == theirs, name
    assert (one.frames is None) == (other.frames is None)
    if one.frames is not None and other.frames is not None:
        np.testing.assert_array_equal(np.asarray(one.frames)[steps], np.asarray(other.frames)[steps])


@pytest.mark.parametrize("greedy", [True, False])
@pytest.mark.parametrize("case", [
    pytest.param(one, marks=pytest.mark.full if one in ("sticky atari", "life lost") else ()) for one in SAME])
def test_a_branch_that_forces_the_recorded_action_is_the_recorded_episode(
    tmp_path: Path, case: str, greedy: bool
) -> None:
    environment, fields = SAME[case]
    parent = played(checkpoint_in(tmp_path, environment, **fields), seed=5, greedy=greedy)
    frame = parent.steps // 2
    for forced in (None, parent.actions[frame], parent.actions[frame:].tolist()[:3]):
        branch = parent.branch(frame, action=forced)
        is_same(branch, parent)
        assert branch.branched is not None and branch.branched.frame == frame


@pytest.mark.parametrize("kind", ["numbers", "parts", "switches"])
def test_every_kind_of_action_is_repeated_and_forced(tmp_path: Path, kind: str) -> None:
    checkpoint = checkpoint_in(tmp_path, Kinds, environment_options={"kind": kind, "planes": kind == "switches"})
    parent = played(checkpoint, greedy=False)
    is_same(parent.branch(3), parent)
    mine = {"parts": [2, 1], "switches": [1, 0, 1], "numbers": [-1, 0.25]}[kind]
    branch = parent.branch(2, action=[mine, mine])
    assert branch.actions[2:4].tolist() == [mine, mine] and branch.branched.forced == 2
    is_same(branch, parent, steps=slice(0, 2))
    is_same(branch.branch(4), branch)


def test_only_what_follows_the_forced_actions_differs(tmp_path: Path) -> None:
    checkpoint = checkpoint_in(tmp_path, "testing/counting-v0", network=CountingNetwork, frame_stack=3, **COUNTING)
    parent = played(checkpoint, greedy=False)
    others = (parent.actions[4:6] + 1) % 3
    branch = parent.branch(4, action=others.tolist())
    is_same(branch, parent, steps=slice(0, 4))
    assert branch.actions[4:6].tolist() == others.tolist() and branch.steps == 9
    counts = [CountingEnv.decode(observation) for observation in branch.observations]
    assert [count.step for count in counts] == list(range(10))
    assert [count.action for count in counts] == [-1, *branch.actions.tolist()]
    assert branch.state_norm.tolist() == [*range(1, 10)], "each observation was seen once"
    assert branch.values.tolist() == parent.values.tolist()
    names = ", ".join(map(str, others.tolist()))
    assert branch.branched == BranchPoint(parent.path.name, 4, 2, f"action {names}")
    assert f"branch at step 4: action {names}" in repr(branch)


def test_an_edited_observation_is_what_the_policy_and_its_memory_see_and_nobody_else(tmp_path: Path) -> None:
    checkpoint = checkpoint_in(tmp_path, "testing/counting-v0", network=CountingNetwork, frame_stack=3, **COUNTING)
    parent = played(checkpoint)
    branch = parent.branch(4, observation=[0, 0, 0, 0], hold=2)
    unseen = np.array([0, 0, 0, 0, 1, 2, 2, 1, 0])  # of the three frames in its stack
    assert branch.values.tolist() == (parent.values - unseen).tolist()
    np.testing.assert_array_equal(branch.observation_rows[:, 2], parent.observation_rows[:, 2])
    assert branch.edited_at.tolist() == [4, 5] and not branch.edited.any() and branch.edited.shape == (2, 4)
    assert branch.branched.change == "the policy sees x[0] = 0, x[1] = 0, x[2] = 0, x[3] = 0 for 2 steps"


def test_a_memory_is_that_of_the_step_also_after_an_edit(tmp_path: Path) -> None:
    """Of an LSTM: the same observation after another memory is another opinion, and the same memory the same."""
    parent = played(checkpoint_in(tmp_path, "testing/recall-v0", network="mlp-lstm"), greedy=False)
    seen = parent.observation_rows[3]
    same = parent.branch(3, observation=seen.tolist(), action=int(parent.actions[3]))
    is_same(same, parent)
    assert same.edited_at.tolist() == [3]
    other = parent.branch(3, observation={0: float(seen[0]) + 0.5}, action=int(parent.actions[3]))
    is_same(other, parent, steps=slice(0, 3))
    assert other.values[3] != parent.values[3]
    assert other.observation_rows[4].tolist() == parent.observation_rows[4].tolist()
    assert other.values[4] != parent.values[4], "the memory keeps what it saw"


def test_a_branch_of_a_branch_repeats_what_was_forced_and_edited(tmp_path: Path) -> None:
    checkpoint = checkpoint_in(tmp_path, "testing/counting-v0", network=CountingNetwork, frame_stack=3, **COUNTING)
    parent = played(checkpoint, greedy=False)
    first = parent.branch(2, action=(int(parent.actions[2]) + 1) % 3, observation={"x[0]": 0.0, 1: 0, 2: 0, 3: 0})
    second = first.branch(6, action=(int(first.actions[6]) + 1) % 3)
    is_same(second, first, steps=slice(0, 6))
    assert second.edited_at.tolist() == [2] and second.actions[6] != first.actions[6]
    is_same(first.branch(5), first)
    assert [branch.path for branch in parent.branches] == [first.path]
    assert second.path in [branch.path for branch in first.branches] and second.path.parent == first.path.parent
    assert second.parent.path == first.path and first.parent.path == parent.path and parent.parent is None


def test_a_picture_is_occluded_for_the_policy_alone(tmp_path: Path) -> None:
    parent = played(checkpoint_in(tmp_path, CatchEnv, network="small-cnn-lstm", frame_stack=2))
    branch = parent.branch(1, observation={"occlude": (3, 30, 36, 4), "shade": 9}, hold=2)
    height, width = parent.observation_rows.shape[2:]
    expected = parent.observation_rows[1].copy()
    expected[:, 30:34, 3:] = 9
    np.testing.assert_array_equal(branch.edited[0], expected)
    assert branch.branched.change == f"the policy sees {width - 3}x4 pixels at (3, 30) in shade 9 for 2 steps"
    grey = parent.branch(1, observation={"shade": 128})
    assert (grey.edited == 128).all() and "the whole picture in shade 128" in repr(grey)
    np.testing.assert_array_equal(np.asarray(grey.frames)[1], np.asarray(parent.frames)[1])


def test_planes_of_bits_are_occluded_too(tmp_path: Path) -> None:
    checkpoint = checkpoint_in(tmp_path, Kinds, environment_options={"kind": "numbers", "planes": True})
    parent = played(checkpoint)
    branch = parent.branch(2, observation={"occlude": (0, 0, 36, 36), "shade": 0})
    assert branch.edited.shape == (1, *parent.observation_rows.shape[1:])
    is_same(branch, parent, steps=slice(0, 2))


class Unseeded(Drawn):
    """Its rewards are of no seed."""

    def step(self, action: int) -> Any:
        observation, _, *rest = super().step(action)
        return observation, float(np.random.default_rng().random()), *rest


class Shrinking(Drawn):
    """Each episode is shorter than the one before; a file counts them."""

    def __init__(self, file: str, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.file = Path(file)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        with open(self.file, "a") as file:
            file.write("x")
        return super().reset(seed=seed)

    def step(self, action: int) -> Any:
        observation, reward, *_ = super().step(action)
        return observation, reward, self.number >= 8 - 2 * self.file.stat().st_size, False, {}


@pytest.mark.parametrize(("environment", "options", "words"), [
    ("testing/counting-v0", {"episode_length": 9}, "the observation of step 0 is another"),
    (Unseeded, {}, r"step 1 gave the reward \S+ and not \S+"),
    (Shrinking, {"file": "file"}, "the episode ended earlier"),
])
def test_an_environment_that_does_not_repeat_itself_is_refused_in_words(
    tmp_path: Path, environment: Any, options: dict[str, Any], words: str
) -> None:
    options = {name: str(tmp_path / value) if name == "file" else value for name, value in options.items()}
    parent = played(checkpoint_in(tmp_path, environment, environment_options=options))
    with pytest.raises(EnvironmentFailed, match=f"does not repeat itself.*{words}"):
        parent.branch(parent.steps - 1, action=1)
    assert parent.branches == [] and not list(parent.path.parent.glob("*/.making-*"))


def test_a_policy_that_is_another_one_is_refused_in_words(tmp_path: Path) -> None:
    parent = played(checkpoint_in(tmp_path / "a", "testing/recall-v0", network="mlp-lstm", seed=3))
    other = checkpoint_in(tmp_path / "b", "testing/recall-v0", network="mlp-lstm", seed=4)
    with pytest.raises(EnvironmentFailed, match="does not repeat its opinion of step 0"):
        with_checkpoint(parent, other).branch(4, action=1)


def with_checkpoint(parent: Rollout, checkpoint: Checkpoint) -> Rollout:
    """The rollout moved out of its run, as if that checkpoint had played it."""
    away = parent.path.rename(checkpoint.path.parents[2] / "away")
    return dataclasses.replace(parent, path=away, checkpoint=checkpoint.path)


def test_a_rollout_that_moved_with_its_run_is_branched_by_the_checkpoint_there(tmp_path: Path) -> None:
    parent = played(checkpoint_in(tmp_path / "a", "testing/recall-v0"))
    (tmp_path / "a").rename(tmp_path / "moved")
    moved = rollouts.load(tmp_path / "moved" / "run" / "rollouts" / parent.path.name)
    branch = moved.branch(3)
    is_same(dataclasses.replace(branch, checkpoint=parent.checkpoint), parent)
    assert branch.checkpoint.is_relative_to(tmp_path / "moved")


def test_an_episode_that_a_person_played_is_gone_on_with_by_the_agent(tmp_path: Path) -> None:
    checkpoint = checkpoint_in(tmp_path, "testing/recall-v0", network="mlp-lstm")
    with playing(checkpoint, tmp_path / "kept") as (game, _):
        for action in (0, 1, None, 1, 0, 1, None, None, None):
            game.do({"do": "step", "id": 1, "action": action})
    [parent] = [rollouts.load(path) for path in (tmp_path / "kept").iterdir()]
    branch = parent.branch(5)
    np.testing.assert_array_equal(branch.observation_rows[:6], parent.observation_rows[:6])
    np.testing.assert_array_equal(branch.values[:6], parent.values[:6])
    assert branch.actions[:5].tolist() == [0, 1, int(parent.actions[2]), 1, 0] and branch.by_person is None


def test_a_game_of_several_agents_is_repeated_with_all_of_them(tmp_path: Path) -> None:
    checkpoint = checkpoint_in(tmp_path, partial(CountingGame, lengths=(5, 7), number=1), agents=2)
    parent = played(checkpoint, greedy=False)
    is_same(parent.branch(2), parent)
    assert parent.branch(2, action=2).actions[2] == 2


def test_a_branch_goes_on_to_the_end_or_to_where_its_episode_was_cut(tmp_path: Path) -> None:
    checkpoint = checkpoint_in(tmp_path, "testing/counting-v0", **COUNTING)
    cut = played(checkpoint, max_steps=6)
    assert cut.branch(3).steps == 6 and "cut off" in cut.branch(3).end
    assert cut.branch(3, max_steps=100).terminated and cut.branch(3, max_steps=4).steps == 4


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"frame": 9}, OutOfBounds, r"frame=9 .*\[0, 8\]"), ({"frame": -1}, OutOfBounds, "frame=-1"),
    ({"frame": "x"}, WrongType, "frame='x' must be a whole number"),
    ({"action": 3}, ShapeMismatch, "action 3 is not in"),
    ({"action": "UP"}, UnknownName, "unknown action 'UP'"), ({"action": []}, InvalidInput, "0 actions are forced"),
    ({"action": 0.5}, ShapeMismatch, "must be integers"), ({"action": {}}, InvalidInput, "must have no parts"),
    ({"observation": {}}, WrongType, "numbers by name"), ({"observation": {"y": 1}}, UnknownName, r"number .*'y'"),
    ({"observation": {9: 1}}, UnknownName, "9"), ({"observation": [1, 2]}, InvalidInput, "2 numbers.* has 4"),
    ({"observation": {0: float("nan")}}, OutOfBounds, "nan"), ({"observation": {0: "x"}}, WrongType, "'x'"),
    ({"observation": "x"}, WrongType, "numbers by name"), ({"hold": 0}, OutOfBounds, "hold=0"),
    ({"max_steps": 2}, OutOfBounds, r"max_steps=2 .*\[3,"),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "kind", "words"), WRONG, ids=str)
def test_a_wrong_argument_is_named_before_anything_is_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], kind: type[Exception], words: str
) -> None:
    parent = played(checkpoint_in(tmp_path, "testing/counting-v0", **COUNTING))
    monkeypatch.setattr(branching.worker_process, "answer_of", None)
    with pytest.raises(kind, match=words):
        parent.branch(**{"frame": 2, **asked})


def test_planes_of_switches_are_occluded_by_nothing_unless_they_are_to_be_on() -> None:
    parts = (Part("", (4, 8, 9), "bits"),)
    row = observations.encode({"": np.full((4, 8, 9), 255, np.uint8)}, parts)
    off = edited(row, change_of({"occlude": (1, 2, 3, 4)}, row, parts=parts), parts=parts)
    seen = observations.by_name(off[None], parts)[""][0]
    assert (seen[:, 2:6, 1:4] == 0).all() and (seen == 0).sum() == 4 * 12
    on = edited(off, change_of({"occlude": (1, 2, 3, 4), "shade": 255}, off, parts=parts), parts=parts)
    assert (on == row).all()
    with pytest.raises(OutOfBounds, match=r"shade=128: these planes are of switches, which are off \(0\) or on"):
        change_of({"shade": 128}, row, parts=parts)


@pytest.mark.parametrize(("asked", "words"), [
    ({"occlude": (1, 2, 3)}, "four whole numbers"), ({"occlude": (99, 0, 1, 1)}, "occlude left=99"),
    ({"shade": 256}, "shade=256"), ({"grey": 1}, "unknown change of a picture 'grey'"), ([1, 2], "must be a dict"),
    ({"occlude": "abcd"}, "four whole numbers"), ({"occlude": (0, 0, 0, 1)}, "occlude width=0"),
])
def test_a_wrong_change_of_a_picture_is_named(tmp_path: Path, asked: Any, words: str) -> None:
    parent = played(checkpoint_in(tmp_path, CatchEnv, network="small-cnn-lstm"))
    with pytest.raises(InvalidInput, match=words):
        parent.branch(2, observation=asked)


def test_the_oldest_branches_make_room_and_the_same_question_has_one_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(branching, "MOST_BRANCHES", 3)
    checkpoint = checkpoint_in(tmp_path, "testing/counting-v0", **COUNTING)
    parent = played(checkpoint)
    first = [parent.branch(frame, action=1) for frame in (1, 2, 3)]
    again = parent.branch(1, action=1)
    assert again.path == first[0].path
    newest = parent.branch(4, action=1)
    assert [branch.path for branch in parent.branches] == [one.path for one in (first[2], again, newest)]
    assert [one.path for one in rollouts.every(run_of(checkpoint))] == [parent.path]


def run_of(checkpoint: Checkpoint) -> Any:
    return rollouts.RunDirectory(checkpoint.path.parents[1])


def test_an_episode_without_an_agent_or_without_a_folder_is_refused(tmp_path: Path) -> None:
    parent = played(checkpoint_in(tmp_path, "testing/counting-v0", **COUNTING))
    with pytest.raises(InvalidInput, match="no agent in this episode"):
        dataclasses.replace(parent, algorithm="").branch(1)
    for path in (None, tmp_path / "gone"):
        with pytest.raises(InvalidInput, match="not on disk"):
            dataclasses.replace(parent, path=path).branch(1)
    assert dataclasses.replace(parent, path=None).branches == []


