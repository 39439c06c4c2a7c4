"""A sweep that is killed at every one of its writes; of a population, see `test_population`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mortal import begun, check_whole, lived

pytestmark = pytest.mark.full

pytest.importorskip("optuna")


def test_killed_at_any_write_a_sweep_ends_as_one_that_was_never_killed(home: Path) -> None:
    sweep = begun("often", pruner="none", total_frames=3000)
    assert lived(sweep) > 8
    status = sweep.status
    assert (status.state, status.finished, status.trials) == ("finished", 4, 4), sweep.trials
    check_whole(sweep, 3000)
