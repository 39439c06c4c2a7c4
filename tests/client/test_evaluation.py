"""What an evaluation says of its returns, and what it refuses; evaluating itself is tested by the command line."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import workbench as wb
from tests.widgets import recorded
from workbench import checkpoints
from workbench.client import evaluations
from workbench.errors import RunNotFound, StorageFailed


def evaluation(*returns: float) -> wb.Evaluation:
    return wb.Evaluation("CartPole-v1", Path("c"), 1000, 0, True, returns, (1,) * len(returns))


def test_the_confidence_interval_is_students() -> None:
    told = evaluation(1.0, 2.0, 3.0, 4.0)  # standard deviation sqrt(5/3), t(3) = 3.182
    half = 3.182 * math.sqrt(5 / 3) / 2
    assert told.mean == 2.5
    assert told.confidence_interval == pytest.approx((2.5 - half, 2.5 + half))


def test_one_episode_tells_nothing_of_the_mean() -> None:
    assert evaluation(7.0).confidence_interval == (-math.inf, math.inf)


def test_between_the_entries_of_the_table_the_interval_is_wider() -> None:
    returns = [float(number % 2) for number in range(24)]  # 23 degrees of freedom: t of 20 is used
    low, high = evaluation(*returns).confidence_interval
    exact = 2 * 2.0687 * math.sqrt(0.25 * 24 / 23 / 24)
    assert exact < high - low < 1.02 * exact


def test_repr_is_short() -> None:
    assert repr(evaluation(1.0, 1.0)) == "Evaluation(CartPole-v1 at 1,000 frames: mean return 1 [1, 1], 2 episodes)"


def test_a_run_that_is_not_there_is_refused(home: Path) -> None:
    with pytest.raises(RunNotFound):
        wb.evaluate("nobody")


def test_an_evaluation_that_cannot_be_kept_says_what_to_do(home: Path) -> None:
    directory = recorded.new("kept")
    meta = {"steps": 1, "updates": 5, "time_s": 2.0}
    one = checkpoints.write(directory.checkpoints, frames=9, groups={"model": {}}, meta=meta, requested=False)
    (directory.path / evaluations.FILE).symlink_to("/dev/full")
    with pytest.raises(StorageFailed, match="No space left on device. Make room on its disk"):
        evaluations.keep(directory, one, evaluation(1.0))
    (directory.path / evaluations.FILE).unlink()
    (directory.path / evaluations.FILE).mkdir()
    with pytest.raises(StorageFailed, match="Is a directory. Make it writable"):
        evaluations.keep(directory, one, evaluation(1.0))
    directory.path.rename(home / "elsewhere")
    with pytest.raises(RunNotFound, match="kept is gone: the run was deleted"):
        evaluations.keep(directory, one, evaluation(1.0))
