"""The learner, killed in mid-update, mid-checkpoint and mid-metric-write: each moment is hit on purpose.

A learner is stopped (SIGSTOP) when the moment is seen, and killed if it still is in it, so that no luck is needed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import workbench as wb
from tests.conftest import eventually
from tests.faults.killing import (
    MOMENTS,
    Moment,
    kill,
    restored_from,
    stopped_within,
    training_s,
    unexplained,
    whole_checkpoints,
)
from tests.faults.witness import ENVIRONMENT, RUN, evidence, watching
from workbench import checkpoints
from workbench.metrics import MetricsReader

INTERVAL_S = 2.0  # between checkpoints
UPDATE_S = 0.01
SLOWLY = {**RUN, "environment_options": {**RUN["environment_options"], "step_ms": 20.0}}
SLACK_S = 20.0  # of an update and a checkpoint on a machine that is busy


@pytest.fixture(scope="module")
def seen(module_home: Path) -> Path:
    return module_home / "seen"


@pytest.fixture(scope="module")
def run(seen: Path) -> wb.Run:
    return wb.launch(ENVIRONMENT, name="mortal", network=watching(seen, update_s=UPDATE_S), actors=1, envs_per_actor=8,
                     checkpoint_interval_s=1000.0, keep_checkpoints=3, **SLOWLY)


@pytest.mark.full
def test_before_its_first_checkpoint_a_run_begins_again_and_says_so(run: wb.Run) -> None:
    store = MetricsReader(run.directory.metrics)
    eventually(lambda: max(store.series("learning_rate")["frames"], default=0) > 0)
    assert whole_checkpoints(run) == []
    run.tune(checkpoint_interval_s=INTERVAL_S)  # of the next life
    kill(run.status.learner_pid)
    eventually(lambda: restored_from(run) == [0])
    eventually(lambda: whole_checkpoints(run))
    assert "there is no checkpoint yet: begins again at 0 frames" in set(run.events["message"])
    assert unexplained(run.directory) == []


@pytest.mark.parametrize("moment", [MOMENTS[0], *(pytest.param(one, marks=pytest.mark.full) for one in MOMENTS[1:])])
def test_a_learner_goes_on_from_its_newest_checkpoint_wherever_it_was_killed(
    run: wb.Run, seen: Path, moment: Moment
) -> None:
    if run.config.checkpoint_interval_s != INTERVAL_S:  # where this test runs alone
        run.tune(checkpoint_interval_s=INTERVAL_S)
    eventually(lambda: whole_checkpoints(run))
    before, restored = run.status, restored_from(run)
    stopped_within(before.learner_pid or 0, moment(run, seen))
    at_s = training_s(run)
    kill(before.learner_pid)
    left = set(run.directory.checkpoints.glob(".writing-*"))
    newest, wrong = checkpoints.newest_good(run.directory.checkpoints)
    assert newest is not None and wrong == []
    eventually(lambda: len(restored_from(run)) > len(restored))
    assert restored_from(run)[-1] == newest.frames
    assert at_s - newest.time_s <= INTERVAL_S + SLACK_S, "more than an interval is lost"
    eventually(lambda: whole_checkpoints(run)[-1].frames > newest.frames, what="it does not go on")
    assert not any(path.exists() for path in left), "half a checkpoint is left"
    assert unexplained(run.directory) == []
    assert evidence(seen).wrong == []
