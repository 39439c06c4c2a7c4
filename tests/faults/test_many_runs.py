"""A home with fifty runs: all are listed as they are, and each is found, resumed and ended by its name alone."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

import workbench as wb
from tests.conftest import eventually, processes_of
from tests.faults.harm import COUNTING, complete
from workbench import rundir
from workbench.config import RunConfig
from workbench.errors import RunNotFound
from workbench.metrics import MetricsWriter, Progress

ENDED = 48


@pytest.fixture(scope="module")
def ended(module_home: Path) -> None:
    """Runs that have ended in every way."""
    states = ("stopped", "finished", "failed", "training")  # the last one without a supervisor: dead
    for number in range(ENDED):
        config = RunConfig.build("testing/counting-v0", **COUNTING)
        directory = rundir.create(
            f"old-{number}",
            {"created": time.time() - number, "config": config.to_json(), "state": states[number % 4]},
        )
        writer = MetricsWriter(directory.metrics)
        for step in range(50):
            writer.scalars(Progress(step * 100, step * 100, step, float(step)), {"loss": 1.0 / (step + 1)})
        writer.status({"state": states[number % 4], "frames": 4900, "frames_per_second": 10.0})
        writer.close()


@pytest.fixture(scope="module")
def alive(ended: None) -> list[wb.Run]:
    """Two runs that train among those that have ended."""
    return [wb.launch("testing/counting-v0", environment_options={"step_ms": 10.0}, **COUNTING) for _ in range(2)]


@pytest.mark.full
def test_fifty_runs_are_listed_as_they_are(alive: list[wb.Run]) -> None:
    for run in alive:
        complete(run)
    rows = eventually(lambda: (r := wb.runs())[alive[1].name].frames > 0
                      and all(r[run.name].state == "training" for run in alive) and r)
    assert len(rows) == 50
    assert [row.name for row in rows[:2]] == [alive[1].name, alive[0].name], "newest first"
    for number in range(ENDED):
        row = rows[f"old-{number}"]
        assert row.state == ("stopped", "finished", "failed", "dead")[number % 4]
        assert (row.frames, row.frames_per_second) == (4900, 0.0)


def test_each_is_found_by_its_name_and_a_misspelt_one_has_a_near_one(ended: None) -> None:
    assert wb.attach("old-17").metrics("loss")["value"].iloc[-1] == pytest.approx(1 / 50)
    with pytest.raises(RunNotFound, match=r"Did you mean 'old-\d+'"):
        wb.attach("odl-17")


@pytest.mark.full
def test_what_is_done_to_one_touches_no_other(alive: list[wb.Run]) -> None:
    one, other = alive
    before = complete(other)
    again = wb.resume("old-3", total_frames=10**6)
    assert again.wait(updates=5, timeout_s=240).state == "training"
    one.stop()
    assert processes_of(one.path) == []
    shutil.rmtree(wb.attach("old-4").path)
    assert again.delete is not None and wb.attach("old-5").delete().parent == rundir.trash()
    after = other.wait(updates=before.updates + 5, timeout_s=240)
    assert (after.learner_pid, after.supervisor_pid) == (before.learner_pid, before.supervisor_pid)
    assert len(wb.runs()) == 48
    assert json.loads((other.path / "run.json").read_text())["state"] == "training"
