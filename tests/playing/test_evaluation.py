"""What an evaluation says of its returns, and what it refuses; evaluating itself is tested by the command line."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.conftest import eventually, gone
from tests.played import Starts, checkpoint_in, started_in
from tests.widgets import recorded
from workbench import checkpoints
from workbench.checkpoints import Checkpoint, folder
from workbench.environments.atari.vector import AtariVector
from workbench.errors import (
    CheckpointCorrupt,
    EnvironmentFailed,
    InvalidInput,
    OutOfBounds,
    RunNotFound,
    StorageFailed,
    UnknownName,
)
from workbench.playing import worker_process
from workbench.playing.evaluating import evaluation_log
from workbench.playing.worker import evaluate


def evaluation(*returns: float) -> wb.Evaluation:
    return wb.Evaluation("CartPole-v1", Path("c"), 1000, 0, True, returns, (1,) * len(returns))


def test_the_confidence_interval_is_students() -> None:
    told = evaluation(1.0, 2.0, 3.0, 4.0, 5.0)  # standard deviation sqrt(5/2), t(4) = 2.77645
    half = 2.776445105 * math.sqrt(5 / 2) / math.sqrt(5)
    assert told.mean == 3 and not told.no_interval
    assert told.confidence_interval == pytest.approx((3 - half, 3 + half))


@pytest.mark.parametrize(("returns", "why"), [
    ((7.0,), "fewer than 5 episodes"), ((1.0, 2.0, 3.0, 4.0), "fewer than 5 episodes"),
    ((500.0,) * 20, "all returns are equal"),
])
def test_no_interval_is_told_of_few_episodes_or_of_equal_ones(returns: tuple[float, ...], why: str) -> None:
    told = evaluation(*returns)
    assert told.confidence_interval == told.interval() == told.interval("mean") == (-math.inf, math.inf)
    assert told.no_interval == why and f"(no interval: {why})" in repr(told) and "inf" not in repr(told)


def test_repr_is_short() -> None:
    told = evaluation(1.0, 1.0, 2.0, 2.0, 3.0, 3.0)
    assert repr(told) == (
        "Evaluation(CartPole-v1 at 1,000 frames: mean return 2 [1.061, 2.939], 6 episodes)")


def test_a_run_that_is_not_there_is_refused(home: Path) -> None:
    with pytest.raises(RunNotFound):
        wb.evaluate("nobody")


def test_an_evaluation_that_cannot_be_kept_says_what_to_do(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = recorded.new("kept")
    meta = {"steps": 1, "updates": 5, "time_s": 2.0}
    one = checkpoints.write(directory.checkpoints, frames=9, groups={"model": {}}, meta=meta, requested=False)
    full = "No space left on device. Make room on its disk"
    with monkeypatch.context() as patch, pytest.raises(StorageFailed, match=full):
        patch.setattr(evaluation_log, "to_append", lambda path: open("/dev/full", "ab"))  # noqa: SIM115
        evaluation_log.keep(directory, one, evaluation(1.0))
    (directory.path / evaluation_log.FILE).mkdir()
    with pytest.raises(StorageFailed, match="Is a directory. Make it writable"):
        evaluation_log.keep(directory, one, evaluation(1.0))
    directory.path.rename(home / "elsewhere")
    with pytest.raises(RunNotFound, match="kept is gone: the run was deleted"):
        evaluation_log.keep(directory, one, evaluation(1.0))


def test_a_checkpoint_that_its_run_prunes_before_it_is_read_gives_way_to_the_next(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = checkpoint_in(home / "runs")
    next_one = first.path.with_name("000000002400")
    ask, asked = worker_process.answer_of, []

    def pruned(entry: str, request: dict[str, Any], **more: Any) -> dict[str, Any]:
        asked.append(request["checkpoint"])
        assert not folder._is_removed(Path(asked[-1])), "its run may prune it only while nobody is about to read it"
        if len(asked) == 1:
            checkpoints.write(next_one.parent, frames=2400, groups={"model": first.load("model")}, meta=first.meta,
                              requested=True)
            shutil.rmtree(first.path)
        return ask(entry, request, **more)

    monkeypatch.setattr(worker_process, "answer_of", pruned)
    evaluation = wb.evaluate(home / "runs" / "run", episodes=1)
    assert asked == [str(first.path), str(next_one)] and evaluation.checkpoint_frames == 2400
    with pytest.raises(CheckpointCorrupt, match="is gone"):
        wb.evaluate(first, episodes=1)


def test_an_episode_that_goes_on_beyond_the_most_steps_is_said(home: Path) -> None:
    with pytest.raises(EnvironmentFailed, match=r"of CartPole-v1 goes on after 5 steps.*Give more max_steps"):
        wb.evaluate(checkpoint_in(home / "runs"), episodes=1, max_steps=5)
    with pytest.raises(OutOfBounds, match="max_steps=0"):
        wb.evaluate(checkpoint_in(home / "more"), max_steps=0)


# --- Atari's protocols ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pong(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """Nobody trained it."""
    return checkpoint_in(tmp_path_factory.mktemp("pong"), "ALE/Pong-v5", environment_options={"life_loss": True})


def on_pong(protocol: str | None, *returns: float, **more: Any) -> wb.Evaluation:
    return wb.Evaluation("ALE/Pong-v5", Path("c"), 4, 0, True, returns, (1,) * len(returns), protocol, **more)


def test_an_evaluation_on_atari_is_normalized_by_the_scores_of_its_own_starts() -> None:
    assert on_pong(None, 14.6, 14.6).human_normalized == 1.0
    assert on_pong("noop-starts", -20.7).human_normalized == 0.0
    assert on_pong("human-starts", 15.5).human_normalized == 1.0
    assert evaluation(1.0).human_normalized is None
    told = on_pong("sticky-actions", 14.6, 14.6, differs="six actions")
    assert repr(told) == ("Evaluation(ALE/Pong-v5 at 4 frames: mean return 14.6 (no interval: fewer than 5 "
                          "episodes), 2 episodes, 100 % human-normalized, sticky-actions with six actions)")


def test_a_score_is_told_apart_from_the_return() -> None:
    told = wb.Evaluation("football/5_vs_5", Path("c"), 1, 0, True, (1.5, 0.5), (9, 9), scores=(1.0, 0.0))
    assert (told.mean, told.mean_score) == (1.0, 0.5) and "mean score 0.5" in repr(told)
    assert evaluation(1.0).mean_score is None


def test_what_an_evaluation_adds_is_kept_with_its_run(home: Path) -> None:
    directory = recorded.new("kept")
    meta = {"steps": 1, "updates": 5, "time_s": 2.0}
    one = checkpoints.write(directory.checkpoints, frames=9, groups={"model": {}}, meta=meta, requested=False)
    for told in (on_pong("sticky-actions", 1.0, differs="fewer actions"), evaluation(2.0),
                 wb.Evaluation("f", one.path, 1, 0, True, (1.0,), (9,), scores=(0.5,))):
        evaluation_log.keep(directory, one, told)
        again = evaluation_log.kept(directory)[-1].evaluation
        assert (again.returns, again.protocol, again.differs, again.scores) == (
            told.returns, told.protocol, told.differs, told.scores)
    text = (directory.path / evaluation_log.FILE).read_text().replace(', "scores": [0.5]', "")  # of an older version
    (directory.path / evaluation_log.FILE).write_text(text)
    assert evaluation_log.kept(directory)[-1].evaluation.scores == ()


@pytest.mark.full
def test_human_starts_are_played_one_episode_each(pong: Checkpoint, tmp_path: Path) -> None:
    starts = tmp_path / "pong.json"
    starts.write_text(json.dumps({"game": "pong", "frames_per_action": 4, "starts": [[0] * 30, [3] * 60, [4] * 90]}))
    told = wb.evaluate(pong, protocol="human-starts", starts=starts)
    assert len(told.returns) == 3 and told.protocol == "human-starts" and told.differs == ""
    again = wb.evaluate(pong, protocol="human-starts", starts=starts, seed=5)
    assert told.returns == again.returns  # nothing is random
    assert told.human_normalized == pytest.approx((told.mean + 18.0) / 33.5)


@pytest.mark.parametrize(("protocol", "sticky", "noops", "minutes"), [
    ("sticky-actions", 0.25, 0, 5), ("sticky-actions-30min", 0.25, 0, 30), ("noop-starts", 0.0, 30, 30)])
def test_a_protocol_makes_the_environment_that_it_asks_for(
    pong: Checkpoint, protocol: str, sticky: float, noops: int, minutes: int
) -> None:
    made = evaluate._by_protocol(pong, protocol, None, episodes=2, num_envs=2, seed=0)
    assert isinstance(made, AtariVector)
    assert (made._options.repeat_action_probability, made._options.noop_max) == (sticky, noops)
    assert made._options.max_frames_per_episode == minutes * 60 * 60
    assert not made._options.life_loss and made.spec.frame_stack == 4
    made.close()


@pytest.mark.parametrize(("given", "error", "words"), [
    ({"protocol": "sticky"}, UnknownName, "Did you mean 'sticky-actions'"),
    ({"protocol": "human-starts"}, InvalidInput, "the published start points were never released. Give a file"),
    ({"protocol": "human-starts", "starts": "/none.json"}, InvalidInput, "cannot read the starts in /none.json"),
    ({"protocol": "noop-starts", "starts": "x.json"}, InvalidInput, "is for protocol='human-starts' only"),
    ({"starts": "x.json"}, InvalidInput, "is for protocol='human-starts' only"),
])  # fmt: skip
def test_a_wrong_protocol_is_refused(
    pong: Checkpoint, given: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        wb.evaluate(pong, **given)


def test_no_episodes_are_not_the_usual_number(pong: Checkpoint) -> None:
    with pytest.raises(OutOfBounds, match="episodes=0"):
        wb.evaluate("no-such-run", episodes=0)  # before a checkpoint is looked for


def test_what_is_not_atari_has_no_protocol(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is a way to evaluate on Atari, and this policy plays CartPole-v1"):
        wb.evaluate(checkpoint_in(tmp_path, "CartPole-v1"), protocol="noop-starts")


@pytest.mark.full
def test_whole_games_by_a_protocol_are_played_and_say_what_differs(pong: Checkpoint) -> None:
    told = wb.evaluate(pong, protocol="sticky-actions", episodes=1)
    assert told.differs == "the game's minimal action set instead of all 18"
    assert -21 <= told.returns[0] <= 21 and told.lengths[0] <= 4500


def test_intervals_are_of_games_where_several_agents_play_one() -> None:
    """As wide as if one agent of each game had been asked: what its team gets is no news."""
    returns, games = tuple(float(game) for game in range(6) for _ in range(11)), tuple(np.repeat(range(6), 11).tolist())
    alone, team, few = (
        wb.Evaluation("football/5_vs_5", Path("c"), 1, 0, True, some, (9,) * len(some), games=of)
        for some, of in ((returns[::11], ()), (returns, games), (returns[:44], games[:44])))
    assert team.confidence_interval == pytest.approx(alone.confidence_interval)
    assert team.interval("mean") == pytest.approx(alone.interval("mean"))
    assert few.no_interval == "fewer than 5 games"


def test_what_an_environment_started_keeps_nobody_waiting_and_ends_with_it(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = checkpoint_in(home / "runs", Starts)
    monkeypatch.setenv("STARTED", str(tmp_path / "started"))
    assert wb.evaluate(checkpoint, episodes=2, timeout_s=120).returns == (3.0, 3.0)
    eventually(lambda: all(map(gone, started_in(tmp_path / "started"))), what="the end of what it started")


@pytest.mark.parametrize("timeout_s", ["x", math.nan, -1])
def test_a_time_that_is_none_is_refused_before_anything_is_played(home: Path, timeout_s: Any) -> None:
    with pytest.raises(OutOfBounds, match="timeout_s"):
        wb.evaluate(checkpoint_in(home / "runs"), episodes=1, timeout_s=timeout_s)
