"""The metrics of each slow run point to its bottleneck, and no longer once it is mended."""

from __future__ import annotations

from pathlib import Path

import pytest

import workbench as wb
from tests.conftest import eventually
from workbench.errors import OutOfBounds
from workbench.lessons import harm, slow_run
from workbench.lessons.slow_runs import SLOW, cores_used, mended, shares
from workbench.metrics import limiting_part

WHILE_S = 8.0  # of training: shares are means over it


def settled(run: wb.Run) -> dict[str, float]:
    """Shares of a run that has trained for a while."""
    run.wait(updates=2, timeout_s=900)
    begun = run.status.time_s
    eventually(lambda: run.status.time_s > begun + WHILE_S and len(run.metrics("time_training")) > WHILE_S / 2)
    return shares(run, seconds=WHILE_S)


@pytest.mark.full
@pytest.mark.parametrize("number", SLOW)
def test_the_metrics_of_a_slow_run_point_to_its_bottleneck(home: Path, number: int) -> None:
    found = settled(slow_run(number))
    assert limiting_part.limit(found) == SLOW[number].limit, found


@pytest.mark.full
@pytest.mark.parametrize("number", [2, 3])
def test_a_mended_run_has_less_of_its_bottleneck_or_another_one(home: Path, number: int) -> None:
    """The others keep theirs, and are faster. Groups also wait for a batch where inference has become the limit."""
    slow = settled(slow_run(number))
    for run in wb.runs():
        wb.attach(run.name).stop()
    found = settled(mended(number))
    relieved = {2: "inference", 3: "batch_wait"}[number]
    assert found[relieved] < slow[relieved] or limiting_part.limit(found) != SLOW[number].limit, (slow, found)


@pytest.mark.full
def test_environments_that_compute_use_their_core_and_those_that_wait_do_not(home: Path) -> None:
    computed_s = {}
    for number in (1, 5):
        run = slow_run(number)
        run.wait(updates=2, timeout_s=900)
        before, process = run.status.steps, harm.process(run, "actor-0")
        begun_s = sum(process.cpu_times()[:2])
        steps = eventually(lambda run=run, before=before: (now := run.status.steps) > before + 500 and now - before)
        computed_s[number] = (sum(process.cpu_times()[:2]) - begun_s) / steps
        assert cores_used(run, "actor-0", seconds=1.0) >= 0
        run.stop()
    assert computed_s[5] > 3 * computed_s[1], computed_s


def test_a_number_that_is_not_there_is_said() -> None:
    with pytest.raises(OutOfBounds, match="1 to 5"):
        slow_run(6)
