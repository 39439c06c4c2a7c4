"""What a run survives, on one run that is killed in every way, and what is said when it does not."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import workbench as wb
from tests.conftest import CALM, eventually, processes_of
from tests.faults.killing import kill
from workbench.errors import InvalidInput, RunFailed, RunNotAlive

NAME = "tough"

LAUNCH = f"""
import time, workbench as wb
wb.launch("testing/counting-v0", name={NAME!r}, **{CALM!r})
print("launched", flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def orphan(module_home: Path) -> str:
    """A run whose launching process was killed with SIGKILL."""
    with subprocess.Popen(
        [sys.executable, "-c", LAUNCH], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as kernel:
        try:
            assert kernel.stdout is not None
            assert kernel.stdout.readline() == "launched\n"
        finally:
            os.killpg(kernel.pid, signal.SIGKILL)
    return NAME


@pytest.fixture
def run(orphan: str) -> wb.Run:
    """The run, alive and training, whatever the test before did to it."""
    run = wb.attach(orphan)
    return run if run.status.state == "training" else wb.resume(orphan)


def test_a_run_outlives_the_process_that_launched_it(run: wb.Run) -> None:
    status = run.wait(updates=run.status.updates + 5, timeout_s=240)
    assert status.state == "training"
    assert run.events["kind"].iloc[0] == "launch"


def test_a_killed_actor_is_restarted(run: wb.Run) -> None:
    before = run.status
    kill(before.actors[0].pid)
    after = eventually(
        lambda: (s := run.status).actors[0].pid not in (None, before.actors[0].pid) and s.actors[0].steps > 0 and s
    )
    assert after.actors[0].restarts == before.actors[0].restarts + 1
    assert after.actors[1].pid == before.actors[1].pid
    assert after.learner_pid == before.learner_pid
    assert "actor-0 restarted after signal 9 (SIGKILL)" in set(run.events["message"])


@pytest.mark.full
def test_an_actor_can_be_restarted_on_demand(run: wb.Run) -> None:
    failures = len(run.events.query("kind == 'error'"))
    before = run.status.actors[1].pid
    run.restart_actor(1)
    eventually(lambda: run.status.actors[1].pid not in (None, before))
    eventually(lambda: "actor-1 restarted after a request" in set(run.events["message"]))
    assert len(run.events.query("kind == 'error'")) == failures


def named_while_stopped(run: wb.Run, pid: int | None, says: str) -> None:
    """The run's reason names the actor while its process is stopped, and not for long after."""
    assert pid
    os.kill(pid, signal.SIGSTOP)
    try:
        eventually(lambda: says in run.status.reason, what=says)
    finally:
        os.kill(pid, signal.SIGCONT)
    eventually(lambda: run.status.reason == "")


def test_an_actor_that_hangs_is_named(run: wb.Run) -> None:
    steps = run.status.actors[0].steps
    eventually(lambda: run.status.actors[0].steps > steps + 200)  # of this life
    named_while_stopped(run, run.status.actors[0].pid, "actor 0 has made no step for")


@pytest.mark.full
def test_an_actor_that_hangs_before_it_has_come_is_named(run: wb.Run) -> None:
    before = run.status.actors[0].pid
    run.restart_actor(0)
    pid = eventually(lambda: (one := run.status.actors[0].pid) not in (None, before) and one)
    named_while_stopped(run, pid, "actor 0 has been starting for")


def test_a_killed_learner_goes_on_from_its_checkpoint(run: wb.Run) -> None:
    made = run.checkpoint()
    before = run.status
    kill(before.learner_pid)
    down = eventually(lambda: "it ended with signal 9 (SIGKILL)" in (s := run.status).reason and s)
    assert down.reason.startswith("the learner is being restarted")
    assert (down.frames_per_second, down.frames >= before.frames) == (0.0, True)
    eventually(lambda: wb.runs()[NAME].frames_per_second == 0.0)
    restored = f"continues from the checkpoint at {made.frames:,} frames"
    eventually(lambda: restored in set(run.events["message"]))
    after = eventually(
        lambda: (s := run.status).learner_pid not in (None, before.learner_pid) and s.updates > made.updates and s,
    )
    assert after.supervisor_pid == before.supervisor_pid
    assert after.frames > made.frames
    assert run.metrics("loss")["updates"].is_monotonic_increasing, "its curve goes back to what was left behind"
    events = run.events
    assert "learner restarted after signal 9 (SIGKILL)" in set(events["message"])


@pytest.mark.full
def test_a_paused_run_stays_paused_when_its_learner_dies(run: wb.Run) -> None:
    run.pause()
    made, before = run.checkpoint(), run.status
    assert made.updates == before.updates
    kill(before.learner_pid)
    eventually(lambda: run.events["message"].iloc[-1].startswith(f"continues from the checkpoint at {made.frames:,}"))
    paused = eventually(lambda: (s := run.status).state == "paused" and s.reason == "paused by hand" and s)
    assert paused.updates == before.updates
    run.resume()
    run.wait(updates=run.status.updates + 2, timeout_s=240)


@pytest.mark.full
def test_a_run_without_a_supervisor_leaves_no_orphan_and_can_be_resumed(run: wb.Run) -> None:
    made, before = run.checkpoint(), run.hyperparameters["learning_rate"].value
    kill(run.status.supervisor_pid)
    eventually(lambda: not processes_of(run.path), what="no orphan is left")
    status = eventually(lambda: (s := run.status).state == "dead" and s)
    assert status.reason == f"its supervisor is gone. wb.resume('{NAME}') continues it from its newest checkpoint."
    assert status.frames > 0
    assert (wb.runs()[NAME].state, wb.runs()[NAME].frames_per_second) == ("dead", 0.0)
    assert len(run.metrics("loss")) > 0
    with pytest.raises(RunNotAlive, match=r"tough is dead: .* wb.resume\('tough'\)"):
        run.tune(learning_rate=1e-3)
    with pytest.raises(RunNotAlive, match="is dead at"):
        run.wait(frames=10**12, timeout_s=240)
    again = wb.resume(NAME, learning_rate=4e-4, actors=1)
    assert again.status.frames >= made.frames
    assert again.hyperparameters["learning_rate"].value == 4e-4
    assert len(again.status.actors) == 1
    resumed = again.events[again.events["kind"] == "resume"]
    assert resumed["frames"].isna().iloc[-1], "nobody knew yet where the run stood"
    assert resumed["message"].iloc[-1] == ("started again. Its life before had no end: its supervisor was killed, or "
                                           "its machine")
    assert again.undo() == {"old": {"actors": 1}, "new": {"actors": 2}}
    assert again.events["message"].iloc[-1] == "undo: actors 1 → 2"
    undone = again.undo()  # with the end of its warm-up, where that still went on
    assert (undone["old"]["learning_rate"], undone["new"]["learning_rate"]) == (4e-4, before)


def test_a_run_is_supervised_once(run: wb.Run) -> None:
    second = subprocess.run(
        [sys.executable, "-m", "workbench", "_supervisor", str(run.path)], capture_output=True, text=True, timeout=240
    )
    assert second.returncode == 1
    assert "has a supervisor already" in second.stderr
    assert run.wait(updates=run.status.updates + 2, timeout_s=240).state == "training"


@pytest.mark.full
def test_a_hangup_is_ignored_and_sigterm_is_an_orderly_stop(run: wb.Run) -> None:
    pid = run.status.supervisor_pid
    assert pid
    os.kill(pid, signal.SIGHUP)
    assert run.wait(updates=run.status.updates + 2, timeout_s=240).supervisor_pid == pid
    os.kill(pid, signal.SIGTERM)
    eventually(lambda: run.status.state == "stopped")
    assert run.checkpoints[-1].frames == run.status.frames
    eventually(lambda: not processes_of(run.path))


def zombies() -> set[int]:
    """Children of this process that ended and that nobody has waited for."""
    return {one.pid for one in psutil.Process().children() if one.status() == psutil.STATUS_ZOMBIE}


def test_stop_writes_a_last_checkpoint_and_ends_everything(run: wb.Run) -> None:
    before = zombies()  # of tests that came earlier in this process
    status = run.stop()
    assert status.state == "stopped"
    assert processes_of(run.path) == []
    assert run.checkpoints[-1].frames == status.frames
    assert run.stop().state == "stopped"
    with pytest.raises(RunNotAlive, match="is stopped"):
        run.checkpoint()
    assert zombies() <= before


def test_a_stop_without_a_last_checkpoint_says_where_the_run_goes_on(run: wb.Run) -> None:
    made = run.checkpoint()
    eventually(lambda: run.status.updates > made.updates)
    kill(run.status.learner_pid)
    status = run.stop()
    left = f"without a last checkpoint: resumed, it goes on at {run.checkpoints[-1].frames:,} frames"
    assert status.state == "stopped" and status.reason.endswith(left)


@pytest.mark.full
def test_a_finished_run_says_so_and_goes_on_with_more_frames(run: wb.Run) -> None:
    run.tune(total_frames=run.status.frames + 300)
    status = run.wait(timeout_s=240)
    assert status.state == "finished"
    assert status.frames >= run.config.total_frames
    assert run.events["kind"].iloc[-1] == "finished"
    eventually(lambda: not processes_of(run.path))
    with pytest.raises(InvalidInput, match=r"it reached total_frames=.* Give a larger one: wb.resume\('tough', total"):
        wb.resume(NAME)
    with pytest.raises(InvalidInput, match=rf"total_frames=100\. Give a larger one: .*={2 * status.frames}\)"):
        wb.resume(NAME, total_frames=100)
    again = wb.resume(NAME, total_frames=10**8)
    assert again.wait(frames=status.frames + 100, timeout_s=240).state == "training"


@pytest.mark.full
def test_a_full_disk_is_a_warning_and_hides_no_outcome(run: wb.Run) -> None:
    pid = run.status.supervisor_pid
    assert pid
    _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, most))  # no file of the supervisor can be written
    eventually(lambda: str(run.path) in run.status.warning)
    assert run.tune(entropy_cost=0.007)["new"] == {"entropy_cost": 0.007}
    assert run.config.value("entropy_cost") != 0.007
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))
    eventually(lambda: run.status.warning == "" and run.config.value("entropy_cost") == 0.007)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, most))
    learner = run.status.learner_pid
    run._control.call("stop", grace_s=10.0)
    eventually(lambda: not psutil.pid_exists(learner))
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))
    eventually(lambda: not processes_of(run.path))
    assert run.status.state == "stopped"
    assert run.events["kind"].iloc[-1] == "stop"


def test_a_learner_that_dies_again_and_again_without_an_update_fails_the_run(run: wb.Run) -> None:
    died: set[int] = set()

    def has_given_up() -> bool:
        pid = run.status.learner_pid
        if pid is not None and pid not in died:
            died.add(pid)
            kill(pid)
        return run.status.state == "failed"

    eventually(has_given_up)
    assert len(died) in (6, 7), "one may have trained before it was killed"
    with pytest.raises(RunFailed, match=r"learner ended with signal 9 \(SIGKILL\) again and again. Its log ends:"):
        run.wait(timeout_s=240)
