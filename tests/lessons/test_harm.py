"""Harm of lesson 11 reaches the process that it names, and no other."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest

import workbench as wb
from tests.conftest import CALM, eventually
from workbench.errors import InvalidInput, RunNotAlive
from workbench.lessons import harm


@pytest.mark.full
def test_harm_reaches_the_process_that_it_names_and_no_other(home: Path) -> None:
    run, other = (wb.launch("testing/counting-v0", **CALM) for _ in range(2))
    found, untouched = harm.processes(run), harm.processes(other)
    actors = [f"actor-{index}" for index in range(CALM["actors"])]
    assert list(found) == [*actors, "learner", "supervisor"]
    with harm.stopped(run, "learner"):
        eventually(lambda: found["learner"].status() == psutil.STATUS_STOPPED)
    eventually(lambda: found["learner"].status() != psutil.STATUS_STOPPED)
    assert harm.kill(run, "actor-0") == found["actor-0"].pid
    eventually(lambda: harm.processes(run).get("actor-0", found["actor-0"]).pid != found["actor-0"].pid)
    assert harm.processes(run)["learner"].pid == found["learner"].pid
    assert harm.processes(other) == untouched
    with pytest.raises(RunNotAlive, match="no process 'actor-9'"):
        harm.kill(run, "actor-9")


def test_waiting_ends_with_the_first_true_value_or_in_time() -> None:
    values = iter([0, "", "there"])
    assert harm.until(lambda: next(values)) == "there"
    assert harm.until(lambda: 0, seconds=0) == 0


@pytest.mark.full
def test_a_full_disk_is_the_learners_alone_and_ends_with_the_block(home: Path) -> None:
    run = wb.launch("testing/counting-v0", **CALM)
    if sys.platform != "linux":
        with pytest.raises(InvalidInput, match="only Linux"), harm.full_disk(run):
            pass
        return
    with harm.full_disk(run):
        eventually(lambda: run.status.reason.startswith("waiting for the disk"))
    eventually(lambda: run.status.state == "training")
