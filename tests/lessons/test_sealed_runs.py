"""Each broken run shows what its feedback says, and learns once its fault, and nothing else, is mended."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import workbench as wb
from tests.conftest import eventually
from workbench.errors import OutOfBounds, UnknownName
from workbench.lessons import broken_run, remedy
from workbench.lessons.sealed_runs import SEALED, USUAL

LOOK, LEARN = 12_000, 60_000  # frames
ROWS = 3  # of a curve whose beginning and end are compared
COIN = math.log(2)  # entropy of two actions by chance, in nats


def mean(run: wb.Run, metric: str, *, since: int = 0, share: float = 0.5) -> float:
    """Mean over the last `share` of the frames since then."""
    rows = run.metrics(metric)
    return float(rows[rows.frames >= since + (1 - share) * (rows.frames.max() - since)].value.mean())


def check_symptom(number: int, run: wb.Run) -> None:
    """What `evidence` and WHERE_TO_LOOK say of this run."""
    value_loss, policy_loss = run.metrics("baseline_loss").value, abs(mean(run, "policy_loss"))
    first, last = value_loss.iloc[0], mean(run, "baseline_loss", share=0.3)
    match SEALED[number].fault:
        case "learning_rate" | "max_gradient_norm":
            assert last > 0.7 * first and mean(run, "gradient_norm") > 1
        case "entropy_cost":
            assert last < 0.6 * first and abs(mean(run, "entropy_loss")) > 3 * policy_loss
        case "discount":
            assert last < 0.01 and policy_loss < 0.05
        case "reward_scale":
            assert max(value_loss) < 0.01
        case "pg_rho_clip":
            assert last < 0.6 * first and policy_loss < 1e-2


@pytest.mark.full
@pytest.mark.parametrize("number", SEALED)
def test_a_broken_run_shows_its_fault_and_learns_once_that_is_mended(home: Path, number: int) -> None:
    run = broken_run(number)
    run.wait(frames=LOOK, timeout_s=900)
    eventually(lambda: len(run.metrics("baseline_loss")) >= ROWS)  # a fast machine is there in 2 s
    before = run.status
    assert mean(run, "entropy") > COIN - 0.05 and mean(run, "episode_return") < 35
    check_symptom(number, run)
    run.tune(**remedy(number, SEALED[number].fault))
    run.wait(frames=before.frames + LEARN, episode_return=80, timeout_s=900)
    assert mean(run, "episode_return", since=before.frames, share=0.2) > 50
    assert mean(run, "entropy", since=before.frames, share=0.2) < COIN - 0.02


@pytest.mark.full
def test_mending_what_is_not_broken_helps_nothing(home: Path) -> None:
    run = broken_run(2)
    for field in set(SEALED[2].fields) - {SEALED[2].fault}:
        run.tune(**remedy(2, field))
    frames = run.status.frames
    run.wait(frames=frames + LOOK, timeout_s=900)
    assert mean(run, "episode_return", since=frames) < 35


def test_no_value_gives_a_run_away_by_being_the_only_unusual_one() -> None:
    for sealed in SEALED.values():
        assert sealed.fields.keys() == USUAL.keys()
        assert sum(sealed.fields[name] != USUAL[name] for name in USUAL) >= len(USUAL) - 1
    for field in USUAL:
        assert len({sealed.fields[field] for sealed in SEALED.values()}) >= 4, field


def test_a_number_or_a_field_that_is_not_there_is_said() -> None:
    with pytest.raises(OutOfBounds, match="1 to 6"):
        broken_run(7)
    with pytest.raises(UnknownName, match="learning_rate"):
        remedy(1, "learning_rat")
