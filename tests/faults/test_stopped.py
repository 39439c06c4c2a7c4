"""A laptop that sleeps: processes stand still (SIGSTOP) and go on (SIGCONT). None is taken for dead."""

from __future__ import annotations

from pathlib import Path

import pytest

import workbench as wb
from tests.conftest import eventually
from tests.faults.harm import COUNTING, complete, messages, processes, stopped
from workbench.errors import ConnectionLost

SUPERVISOR, LEARNER = 0, 1


@pytest.fixture(scope="module")
def run(module_home: Path) -> wb.Run:
    return wb.launch("testing/counting-v0", **COUNTING)


def check_unharmed(run: wb.Run, before: wb.RunStatus) -> None:
    """All processes are those from before, and train on; nothing was counted as a failure."""
    after = eventually(
        lambda: (s := run.status).updates > before.updates + 3 and s.reason == "" and s,
        what="training goes on",
    )
    assert processes(after) == processes(before)
    assert [actor.restarts for actor in after.actors] == [actor.restarts for actor in before.actors]
    assert messages(run, "error") == []
    assert complete(run).state == "training"


def test_a_learner_that_stands_still_is_said_to_be_silent_and_goes_on(run: wb.Run) -> None:
    before = complete(run)
    with stopped([processes(before)[LEARNER]]):
        silent = eventually(lambda: (s := run.status).reason.startswith("the learner has not answered for")
                            and s.frames_per_second == 0.0 and s)
        assert silent.state == "training"
    check_unharmed(run, before)


@pytest.mark.full
def test_an_actor_that_stands_still_holds_nobody_back(run: wb.Run) -> None:
    before = complete(run)
    with stopped([processes(before)[2]]):
        run.wait(updates=run.status.updates + 20, timeout_s=240)
        eventually(lambda: "actor 0 has made no step for" in run.status.reason)
    check_unharmed(run, before)


@pytest.mark.full
def test_all_actors_that_stand_still_are_named(run: wb.Run) -> None:
    before = complete(run)
    with stopped(processes(before)[2:]):
        eventually(lambda: (why := run.status.reason).count("has made no step for") == 2 and why)
    check_unharmed(run, before)


@pytest.mark.full
def test_a_run_trains_on_while_its_supervisor_stands_still(run: wb.Run) -> None:
    before = complete(run)
    with stopped([processes(before)[SUPERVISOR]]):
        rows = len(run.metrics("loss"))
        eventually(lambda: len(run.metrics("loss")) > rows + 2, what="the learner trains on and writes metrics")
        told = run.status
        assert (told.state, told.supervisor_pid) == ("training", before.supervisor_pid)
        assert wb.runs()[run.name].state == "training", "it is not dead: it can come back at any moment"
        with pytest.raises(ConnectionLost, match="did not answer 'tune'"):
            run._control.call("tune", timeout_s=0.5, changes={"entropy_cost": 0.02})
    check_unharmed(run, before)


@pytest.mark.full
def test_a_whole_run_that_sleeps_goes_on_where_it_was(run: wb.Run) -> None:
    before = complete(run)
    with stopped(processes(before)):
        asleep = run.status
        assert (asleep.state, asleep.frames >= before.frames) == ("training", True)
        eventually(lambda: wb.runs()[run.name].frames_per_second == 0.0, what="what was last known is old")
    check_unharmed(run, before)


@pytest.mark.full
@pytest.mark.parametrize("times", [25])
def test_sleeping_and_waking_again_and_again_breaks_nothing(run: wb.Run, times: int) -> None:
    before = complete(run)
    pids = processes(before)
    for number in range(times):
        some = pids if number % 4 == 3 else [pids[number % len(pids)]]
        with stopped(some):
            pass
        with stopped(some[::-1]):
            eventually(lambda: run.last_status)
    check_unharmed(run, before)


@pytest.mark.full
def test_a_stop_that_meets_sleeping_actors_ends_them(run: wb.Run) -> None:
    before = complete(run)
    with stopped(processes(before)[2:]):
        assert run.stop().state == "stopped"
    assert run.checkpoints[-1].frames == run.status.frames
