"""What a supervisor makes of its learner's answers. The learner is written by hand, behind real gRPC."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import eventually
from workbench import checkpoints, rundir
from workbench.config import RunConfig
from workbench.errors import InvalidInput, WorkbenchError
from workbench.metrics import MetricsReader, MetricsWriter
from workbench.metrics.status import LearnerStatus, RunStatus
from workbench.rundir import RunDirectory, lock, untried
from workbench.running.connection import stored_status
from workbench.running.reading.changes import changes, last
from workbench.supervisor.endings import Outcome
from workbench.supervisor.hosts.host import ThisMachine
from workbench.supervisor.hosts.life import ProcessEnding
from workbench.supervisor.process_group import EndedChild
from workbench.supervisor.service import Service
from workbench.supervisor.supervisor import Supervisor
from workbench.wire.lifeline import PASSING
from workbench.wire.rpc import serve


class Learner:
    """Answers as a learner does; what it says and how long it takes is up to the test."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {"state": "training", "reason": "", "frames": 70, "frames_per_second": 9.0}
        self.fault: WorkbenchError | None = None
        self.free = threading.Event()
        self.free.set()
        self.tuned: dict[str, Any] = {}

    def status(self) -> dict[str, Any]:
        if self.fault:
            raise self.fault
        return self.told

    def pause(self) -> None:
        self.free.wait(240)
        self.told = {**self.told, "state": "paused"}

    def resume(self) -> None:
        self.told = {**self.told, "state": "training"}

    def tune(self, changes: dict[str, Any]) -> None:
        time.sleep(0.005)  # an update
        self.tuned |= changes


@pytest.fixture
def run(home: Path) -> RunDirectory:
    config = RunConfig.build("CartPole-v1").to_json()
    return rundir.create("run", {"created": time.time(), "config": config, "state": "starting"})


@pytest.fixture
def learner(run: RunDirectory) -> Iterator[Learner]:
    made = Learner()
    calls = {name: getattr(made, name) for name in ("status", "pause", "resume", "tune")}
    server = serve(run.learner_address(), run.token(), calls=calls)
    yield made
    made.free.set()
    server.stop(0.0)


@pytest.fixture
def supervisor(run: RunDirectory, learner: Learner) -> Iterator[Supervisor]:
    held = lock.hold(lock.of_supervisor(run), wait_s=0)
    assert held is not None
    made = Supervisor(run, MetricsWriter(run.metrics), place=ThisMachine(run, keep_open=held))
    yield made
    made.close()


def test_an_answer_that_is_an_error_is_no_news_and_no_end(supervisor: Supervisor, learner: Learner) -> None:
    supervisor._poll_learner()
    before = supervisor._tracker.at
    learner.fault = WorkbenchError("KeyError: 'steps'")
    supervisor._poll_learner()
    assert (supervisor._tracker.at, supervisor._tracker.mute) == (before, "KeyError: 'steps'")
    learner.fault = None
    supervisor._poll_learner()
    assert supervisor._tracker.mute == ""


def test_a_run_that_goes_on_has_its_counters_and_means_before_its_learner_says_any(run: RunDirectory) -> None:
    told = LearnerStatus(frames=900, steps=225, updates=9, frames_per_second=9.0, episode_return=12.5)
    writer = MetricsWriter(run.metrics)
    writer.status(told.to_json())
    writer.close()
    run.write(lives=1)
    meta = {"steps": 200, "updates": 8, "time_s": 3.0}
    checkpoints.write(run.checkpoints, frames=800, groups={"model": {}}, meta=meta, requested=False)
    held = lock.hold(lock.of_supervisor(run), wait_s=0)
    assert held is not None
    made = Supervisor(run, MetricsWriter(run.metrics), place=ThisMachine(run, keep_open=held))
    status = made.status()
    assert (status.frames, status.steps, status.updates, status.time_s) == (800, 200, 8, 3.0)
    assert (status.episode_return, status.frames_per_second, status.actors) == (12.5, 0.0, ())
    made.end(Outcome("stopped", "stopped at once"))
    made.serve()
    made.close()
    status = stored_status(run)
    assert (status.state, status.frames, status.episode_return) == ("stopped", 800, 12.5)


def test_a_run_that_is_stopped_once_it_has_all_its_frames_has_finished(
    supervisor: Supervisor, run: RunDirectory
) -> None:
    total, meta = supervisor.config.total_frames, {"steps": 200, "updates": 8, "time_s": 3.0}
    checkpoints.write(run.checkpoints, frames=total, groups={"model": {}}, meta=meta, requested=False)
    supervisor._close(Outcome("stopped", "stopped as asked"))
    status = stored_status(run)
    assert (status.state, status.frames) == ("finished", total)
    assert status.reason == f"reached total_frames={total}"
    assert MetricsReader(run.metrics).events()[-1]["kind"] == "finished"


def test_a_learner_that_is_ended_while_it_starts_is_no_error(supervisor: Supervisor, run: RunDirectory) -> None:
    supervisor._group.resize(0)
    list(supervisor._group.start_due())
    assert supervisor._group.learner.alive
    supervisor._wind_up(Outcome("stopped", "stopped as asked"))
    assert [event["kind"] for event in MetricsReader(run.metrics).events()] == ["stop"]


def test_the_mean_of_the_last_checkpoint_takes_part_in_the_best(supervisor: Supervisor, run: RunDirectory) -> None:
    supervisor._note_return(LearnerStatus(frames=700, episode_return=9.0, episodes_in_mean=50))
    meta = {"steps": 200, "updates": 8, "time_s": 3.0, "means": {"episode_return": 11.0, "episodes_in_mean": 60}}
    checkpoints.write(run.checkpoints, frames=800, groups={"model": {}}, meta=meta, requested=False)
    supervisor._close(Outcome("finished", "at its end"))
    status = stored_status(run)
    assert (status.episode_return, status.best_return, status.best_return_frames) == (11.0, 11.0, 800)


def test_a_run_whose_history_is_lost_knows_where_its_mean_began(supervisor: Supervisor, run: RunDirectory) -> None:
    told = LearnerStatus(frames=700, episode_return=9.0, episodes_in_mean=100, judged_by="episode_return",
                         judged_spread=3.0)
    supervisor._note_return(told)
    supervisor._publish()
    run.metrics.unlink()
    again = Supervisor(run, MetricsWriter(run.metrics), place=supervisor._group._place)
    again._note_return(replace(told, frames=900, episode_return=500.0))
    again._note_return(replace(told, frames=950, episode_return=10.0))
    assert again.status().first_mean == 9.0 and again.status().collapsed
    again.close()


def test_a_pause_that_takes_long_keeps_nobody_from_hearing_the_learner(
    supervisor: Supervisor, learner: Learner
) -> None:
    supervisor._poll_learner()
    learner.free.clear()
    with ThreadPoolExecutor(1) as pool:
        pause = pool.submit(supervisor.set_paused, True)
        eventually(supervisor._commanding.locked)
        learner.told["frames"] = 90
        supervisor._poll_learner()
        assert supervisor.status().frames == 90
        assert not pause.done()
        learner.free.set()
        pause.result(240)
    supervisor._poll_learner()
    assert supervisor.state == "paused"


def test_a_change_that_another_kernel_has_undone_or_followed_is_not_undone_again(
    supervisor: Supervisor, run: RunDirectory
) -> None:
    supervisor._poll_learner()
    service = Service(supervisor)
    for rate in (1e-4, 2e-4, 3e-4):
        service.tune({"learning_rate": rate})
    (latest,) = [one for one in last(changes(MetricsReader(run.metrics).events())) if one.name == "learning_rate"]
    undo = {"changes": {"learning_rate": latest.old}, "undoes": latest.event, "made": {"learning_rate": latest.new}}
    assert service.tune(**undo)["new"]["learning_rate"] == 2e-4
    with pytest.raises(InvalidInput, match="learning_rate is 0.0002 now, and no longer 0.0003: it was changed"):
        service.tune(**undo)
    actors = supervisor.config.actors
    with pytest.raises(InvalidInput, match=f"actors is {actors} now, and no longer 9"):
        service.scale(1, made={"actors": 9})
    assert (supervisor.config.value("learning_rate"), supervisor.config.actors) == (2e-4, actors)


def test_a_pause_is_in_the_runs_record_until_it_ends(
    supervisor: Supervisor, learner: Learner, run: RunDirectory
) -> None:
    supervisor.set_paused(True)
    assert run.read()["paused"] == "paused by hand"
    learner.told["state"] = "training"
    supervisor._poll_learner()
    assert learner.told["state"] == "paused", "a learner that missed the pause is told again"
    supervisor.set_paused(False)
    assert run.read()["paused"] is None


def test_nobody_sees_what_the_learner_counts_now_with_the_state_it_had_before(
    supervisor: Supervisor, learner: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner.told |= {"state": "paused", "held": True}
    supervisor._poll_learner()
    follow = supervisor._follow
    with ThreadPoolExecutor(1) as pool:
        looks: list[Future[RunStatus]] = []

        def looked_at_before(*news: Any, **more: Any) -> None:
            looks.append(pool.submit(supervisor.status))
            wait(looks, timeout=0.2)
            follow(*news, **more)

        monkeypatch.setattr(supervisor, "_follow", looked_at_before)
        learner.told |= {"state": "training", "held": False, "frames": 90}
        supervisor._poll_learner()
        seen = looks[0].result(240)
    assert (seen.state, seen.frames) == ("training", 90)


def test_a_pause_that_the_learner_made_itself_is_kept_with_its_reason(
    supervisor: Supervisor, learner: Learner, run: RunDirectory
) -> None:
    learner.told |= {"state": "paused", "reason": "10 updates in a row were not finite"}
    supervisor._poll_learner()
    assert supervisor.state == "paused"
    assert run.read()["paused"] == "10 updates in a row were not finite"
    events = MetricsReader(run.metrics).events()
    assert [(one["kind"], one["message"]) for one in events] == [("pause", "10 updates in a row were not finite")]
    Service(supervisor).pause()
    assert run.read()["paused"] == "10 updates in a row were not finite", "a hand that pauses it again changes nothing"
    Service(supervisor).stop()
    assert supervisor.status().reason == "stopped as asked, after a pause: 10 updates in a row were not finite"


def test_counters_stay_and_speeds_go_while_no_learner_lives(supervisor: Supervisor, learner: Learner) -> None:
    supervisor._poll_learner()  # its process is not the supervisor's: none of those lives
    assert supervisor.status().frames_per_second == 0.0
    learner.told = {"state": "waiting", "reason": "waiting for the first actor"}
    supervisor._poll_learner()
    assert supervisor.status().frames == 70
    assert supervisor.status().frames_per_second == 0.0


def test_what_a_resume_changed_is_told_once_and_before_any_later_change(learner: Learner, run: RunDirectory) -> None:
    before = run.config().replaced(actors=3, learning_rate=1e-3, entropy_cost=0.5, launcher="inline")
    run.write(lives=1, config_before=before.to_json())
    service = Service(Supervisor(run, MetricsWriter(run.metrics), place=ThisMachine(run, keep_open=0)))
    for value in (0.02, 0.03):
        service.tune({"entropy_cost": value})
    now, events = run.config(), MetricsReader(run.metrics).events()
    assert [(one["kind"], one["data"]["old"]) for one in events] == [
        ("tune", {"learning_rate": 1e-3, "entropy_cost": 0.5}), ("scale", {"actors": 3}),
        ("move", {"launcher": "inline"}), ("tune", {"entropy_cost": 0.01}), ("tune", {"entropy_cost": 0.02}),
    ]
    undone = [last(changes(events[:number])) for number in (5, 3)]  # where a run is cannot be taken back
    assert [one.name for each in undone for one in each] == ["entropy_cost", "actors"]
    assert events[0]["data"]["new"]["entropy_cost"] == 0.01 and events[1]["message"] == f"actors 3 → {now.actors}"
    assert run.read()["config_before"] is None


def test_values_that_stay_the_same_are_no_event(learner: Learner, run: RunDirectory) -> None:
    service = Service(Supervisor(run, MetricsWriter(run.metrics), place=ThisMachine(run, keep_open=0)))
    now = run.config().value("discount")
    assert service.tune({"discount": now}) == {"old": {"discount": now}, "new": {"discount": now}}
    service.tune({"discount": now, "entropy_cost": 0.5})
    assert [one["message"] for one in MetricsReader(run.metrics).events()] == ["entropy_cost 0.01 → 0.5"]


def test_changes_made_at_the_same_time_are_all_kept(
    supervisor: Supervisor, learner: Learner, run: RunDirectory
) -> None:
    service = Service(supervisor)

    def tune(name: str) -> None:
        for step in range(1, 21):
            service.tune({name: step / 1000})

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(tune, ["learning_rate", "entropy_cost"]))
    config = run.config()
    assert learner.tuned == {"learning_rate": 0.02, "entropy_cost": 0.02, "warmup_updates": 0}, "a tuned rate ends it"
    assert (config.value("learning_rate"), config.value("entropy_cost")) == (0.02, 0.02)


@pytest.mark.parametrize("index", [None, 0])
def test_an_ending_that_passes_is_tried_again_and_said_once(
    supervisor: Supervisor, run: RunDirectory, index: int | None
) -> None:
    error = {"type": "StorageFailed", "message": "another learner of run still lives after 12 s"}
    child = ThisMachine(run, keep_open=0).learner(0, threads=1)
    for recent in range(1, 30):
        ending = ProcessEnding(PASSING, error, recent, first=recent == 1)
        supervisor._after_ending(EndedChild(child, index, ending))
    supervisor.close()
    said = [event["message"] for event in MetricsReader(run.metrics).events() if event["kind"] == "error"]
    assert said == ["learner ended with StorageFailed: another learner of run still lives after 12 s"]
    assert supervisor._outcome is None


def test_a_run_that_ends_before_its_first_update_says_that_it_has_learnt_nothing(
    supervisor: Supervisor, learner: Learner, run: RunDirectory
) -> None:
    learner.told |= {"state": "finished", "updates": 0}
    supervisor._poll_learner()
    child = ThisMachine(run, keep_open=0).learner(0, threads=1)
    supervisor._after_ending(EndedChild(child, None, ProcessEnding(0, None, 1, first=True)))
    assert supervisor._outcome is not None and supervisor._outcome.state == "finished"
    assert "before the first update, so that nothing was learnt. Give more frames" in supervisor._outcome.message


def test_mended_code_is_untried_until_it_has_made_an_update(
    learner: Learner, run: RunDirectory
) -> None:
    meta = {"steps": 200, "updates": 8, "time_s": 3.0}
    checkpoints.write(run.checkpoints, frames=800, groups={"model": {}}, meta=meta, requested=False)
    untried.begin(run, {"algorithm.pkl": b"mended"}, None)
    supervisor = Supervisor(run, MetricsWriter(run.metrics), place=ThisMachine(run, keep_open=0))
    learner.told |= {"updates": 8, "reason": "filling the replay"}
    supervisor._poll_learner()
    assert supervisor.state == "training" and untried.is_there(run)
    supervisor._close(Outcome("finished", "reached max_hours=1"))
    assert untried.is_there(run)
    learner.told |= {"updates": 9}
    supervisor._poll_learner()
    assert not untried.is_there(run)
    supervisor.close()


@pytest.mark.parametrize(("updates", "kept"), [(8, True), (9, False)])
def test_a_last_checkpoint_tells_that_mended_code_has_trained(run: RunDirectory, updates: int, kept: bool) -> None:
    meta = {"steps": 200, "updates": 8, "time_s": 3.0}
    checkpoints.write(run.checkpoints, frames=800, groups={"model": {}}, meta=meta, requested=False)
    untried.begin(run, {"algorithm.pkl": b"mended"}, None)
    supervisor = Supervisor(run, MetricsWriter(run.metrics), place=ThisMachine(run, keep_open=0))
    meta |= {"updates": updates}
    checkpoints.write(run.checkpoints, frames=900, groups={"model": {}}, meta=meta, requested=False)
    supervisor._close(Outcome("stopped", "stopped as asked"))
    assert untried.is_there(run) is kept
    supervisor.close()


def test_mended_code_has_trained_once_the_learner_says_so_wherever_it_began(
    supervisor: Supervisor, learner: Learner, run: RunDirectory
) -> None:
    supervisor._tracker.at_start = LearnerStatus(updates=8)  # of a checkpoint that turned out to be damaged
    untried.begin(run, {"algorithm.pkl": b"mended"}, None)
    learner.told |= {"updates": 5}
    supervisor._poll_learner()
    assert untried.is_there(run)
    learner.told |= {"trained": True}
    supervisor._poll_learner()
    assert not untried.is_there(run)
