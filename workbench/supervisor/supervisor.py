"""The supervisor of one run: keeps learner and actors alive, publishes the run's status, and ends the run.

The main thread takes turns in `serve`: it polls the children, starts those that are due, polls the learner's status and
publishes it. RPC threads read the state, call the learner, and leave requests (scale, stop) for the next turn. Each way
in which a run can end is one `Outcome`.
"""

from __future__ import annotations

import os
import queue
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from workbench import trackers
from workbench.config import RunConfig
from workbench.errors import ConnectionLost, WorkbenchError
from workbench.metrics import MetricsWriter
from workbench.metrics.status import LearnerPhase, LearnerStatus, RunStatus
from workbench.rundir import BY_HAND, ENDED, RunDirectory
from workbench.rundir.dated_lines import print_dated
from workbench.supervisor import last_checkpoint, stopping_rules
from workbench.supervisor.account import Account
from workbench.supervisor.change_events import ChangeEvents
from workbench.supervisor.diagnosis import reason
from workbench.supervisor.endings import Endings, Outcome, at_total, failure, finished
from workbench.supervisor.hosts.host import Place
from workbench.supervisor.learner_status import LearnerTracker
from workbench.supervisor.process_group import EndedChild, ProcessGroup, Way
from workbench.supervisor.run_record import RunRecord, earlier_status
from workbench.supervisor.tracking import Trackers
from workbench.tables import counted
from workbench.wire.endpoints import learner_name, reaching
from workbench.wire.rpc import Caller

TURN_S = 0.1
POLL_LEARNER_S = 0.5
PUBLISH_S = 1.0
COMMAND_S = 30.0  # the learner obeys between two updates
_TURN_TO_COMMAND_S = 8.0  # with COMMAND_S less than the time that a client waits
_OUTCOME_S = 10.0  # for attempts to write the run's outcome to a full disk


class Supervisor:
    """One run, from its start to its outcome.

    Attributes:
        state: starting, training, paused, stopping, stopped, finished or failed.
        config: with live changes.
        changes: records them.
    """

    def __init__(self, run: RunDirectory, writer: MetricsWriter, *, place: Place) -> None:
        self.run = run
        self.config: RunConfig = run.config()
        self.state = "starting"
        self._learners = [Caller(reaching(run, learner_name(rank)), run.token())
                          for rank in range(self.config.learners)]
        self.learner = self._learners[0]
        self._run_record = RunRecord(run, writer)
        record = run.read()
        self._life = int(record.get("lives", 0)) + 1
        self.changes = ChangeEvents(self.config, record.get("config_before"), event=self.event)
        self._group = ProcessGroup(place, learner_threads=self.config.learner_threads, learners=self.config.learners,
                                   begin=partial(run.rendezvous.unlink, missing_ok=True))
        self._guard = threading.RLock()
        self._wake = threading.Event()
        self._outcome: Outcome | None = None
        self._commanding = threading.Lock()
        self._paused: str | None = None  # the reason, which run.json has, too
        self._actors_to_end: queue.SimpleQueue[tuple[int, Way]] = queue.SimpleQueue()
        self._tracker = LearnerTracker()
        self._endings = Endings(self._tracker)
        before = earlier_status(run) if self._life > 1 else {}
        self._state_before = before.get("state")
        self._tracker.at_start = last_checkpoint.known_at_start(run, before)
        self._account = Account(run.name, record, before, time.monotonic())
        self._trackers = Trackers(run, trackers.named(self.config.track), self.event)
        self._polled_at = self._published_at = 0.0

    # --- what RPC threads use -----------------------------------------------------------------------------------

    def status(self) -> RunStatus:
        """The learner's last status, with the run's state, its reason, and the processes."""
        with self._guard:
            status, outcome = self._counted(), self._outcome
            error = outcome.error if outcome else None
            return replace(
                status, eta_s=stopping_rules.seconds_left(self.config, status),
                reason=outcome.message if outcome else reason(
                    self.state, self._tracker, self._group, self._endings.words),
                warning=status.warning or self._run_record.warning,
                error=f"{error['type']}: {error['message']}" if error else None, supervisor_pid=self._pid(),
                learner_pid=self._group.learner.pid, learner_pids=tuple(life.pid for life in self._group.learners),
                actors=tuple(self._tracker.actors(status, self._group.actors)))

    def _counted(self) -> RunStatus:
        """The learner's last status, with hours, cost and the course of the return."""
        return self._account.status(self.state, self._tracker.current(self._group.learner))

    def _pid(self) -> int | None:
        return None if self.state in ENDED else os.getpid()

    def ask_learner(self, method: str, *, timeout_s: float = COMMAND_S, rank: int = 0, **arguments: Any) -> Any:
        """The answer of the learner of that rank. Raises the learner's error, or ConnectionLost without an answer."""
        try:
            return self._learners[rank].call(method, timeout_s=timeout_s, **arguments)
        except ConnectionLost as error:
            down = "" if self._group.learner.alive else " (no learner lives now)"
            raise ConnectionLost(
                f"the learner did not answer {method!r}{down}: it is starting, restarting or busy. Try again soon."
            ) from error

    @contextmanager
    def commanding(self) -> Iterator[None]:
        """Held while learner and run.json change together. Raises WorkbenchError if another call holds it too long."""
        if not self._commanding.acquire(timeout=_TURN_TO_COMMAND_S):
            raise WorkbenchError("the learner is busy with an earlier command; nothing was changed. Try again soon.")
        try:
            yield
        finally:
            self._commanding.release()

    def set_paused(self, paused: bool) -> None:
        """Pause or resume training; a learner that restarts meanwhile starts paused. What has paused itself stays so,
        with its reason."""
        with self.commanding():
            self._poll_learner()
            if paused and self.paused_by_itself:
                return
            self.ask_learner("pause" if paused else "resume")
            self._poll_learner()  # so that the next status is not of the time before
            with self._guard:
                self._hold(BY_HAND if paused else None)
            self.event("pause" if paused else "resume", "paused" if paused else "training goes on")
        self._wake.set()

    @property
    def paused_by_itself(self) -> str:
        """Why the run has paused itself; "" if it has not."""
        return "" if self._paused in (None, BY_HAND) else str(self._paused)

    def _hold(self, why: str | None) -> None:
        """Set the reason why training is paused, or (None) that it goes on; in the run's files, too."""
        self._paused = why
        if self._outcome is None:
            self.state = "training" if why is None else "paused"
        self._tracker.restart_clocks()
        self._publish()

    def change(self, config: RunConfig) -> None:
        """Make `config` the run's configuration, on disk, too; the next turn starts or ends actors by it."""
        with self._guard:
            self.config = config
            self._record()
        self._wake.set()

    def restart_actor(self, index: int, way: Way = "replace") -> None:
        """Replace the process of an actor in the next turn; "kill": after a back-off, as after a crash; "move":
        wherever the run's place finds room."""
        self._actors_to_end.put((index, way))
        self._wake.set()

    def actor_indices(self) -> list[int]:
        """Indices of the actors that belong to the run."""
        with self._guard:
            return sorted(self._group.actors)

    def end(self, outcome: Outcome) -> None:
        """Request the run's end; the first outcome counts."""
        with self._guard:
            self._outcome = self._outcome or outcome
        self._wake.set()

    def event(self, kind: str, message: str, **data: Any) -> None:
        """Record an event at the progress of the last status; without progress before a resumed learner's first."""
        has_progress = self._tracker.status is not None or self._life == 1
        progress = self._tracker.progress if has_progress else None
        self._run_record.event(kind, message, progress=progress, data=data or None)

    # --- the main thread ----------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Keep the run alive until it has an outcome, then end all its processes and record the outcome."""
        try:
            self._begin()
            while self._outcome is None:
                self._turn()
                self._wake.wait(TURN_S)
                self._wake.clear()
            self._wind_up(self._outcome)
        except BaseException:
            fault = {"type": "RunFailed", "message": f"the supervisor failed:\n{traceback.format_exc()}"}
            self._outcome = Outcome("failed", "the supervisor failed", fault)
            self._group.kill()
            self._close(self._outcome)
            raise

    def close(self) -> None:
        """Write pending entries; called after `serve`, when no more calls come."""
        self._run_record.close()

    def _begin(self) -> None:
        self._record()
        if self._life == 1:
            self.event("launch", f"launched with {counted(self.config.actors, 'actors')}")
        else:
            with_code = ", with mended code" if self.run.read().get("mended") == self._life else ""
            cut_off = self._state_before is not None and self._state_before not in ENDED
            after = ". Its life before had no end: its supervisor was killed, or its machine" if cut_off else ""
            self.event("resume", f"started again{with_code}{after}", life=self._life)

    def _turn(self) -> None:
        with self._guard:
            self._group.resize(self.config.actors)
            for child, index in self._group.start_due():
                former = self._endings.before_restart(index)
                if child.restarts > 0:
                    self.event("restart", f"{child.name} restarted after {former}")
            while not self._actors_to_end.empty():
                index, way = self._actors_to_end.get()
                if way == "kill":
                    self._endings.expect_kill(index)
                self._group.end_actor(index, way)
            self._end_hung()
            for ended_child in self._group.poll():
                self._after_ending(ended_child)
        self._trackers.turn()
        now = time.monotonic()
        if now - self._polled_at >= POLL_LEARNER_S and self._group.learner.alive:
            self._poll_learner()
            self._polled_at = now
        self._apply_stopping_rules(now)
        if now - self._published_at >= PUBLISH_S:
            self._publish()
            self._published_at = now

    def _apply_stopping_rules(self, now: float) -> None:
        """Update hours and cost, and end the run if a rule of its configuration says so."""
        with self._guard:
            self._account.spend(now, self.config.price_per_hour)
            status = self._counted()
            _, why = stopping_rules.reached(self.config, status)
        if why:
            self.end(finished(why, self._tracker.progress.updates))
        elif self._account.misses_score(self.config, status):
            self.event("error", f"target_score={self.config.target_score:g} can end nothing: this environment tells no "
                                "score. target_return goes by the return")

    def _end_hung(self) -> None:
        """Kill actors whose environments hang; they restart as after a crash."""
        limit_s = self.config.step_timeout_s
        hung = self._tracker.hung() if limit_s and self.state in ("starting", "training") else []
        for index, seconds in hung:
            if seconds > limit_s:
                self.event("error", f"actor-{index} made no step for {seconds:.0f} s, which step_timeout_s={limit_s:g} "
                                    "does not allow: an environment hangs. It is ended and started anew")
                self._group.end_actor(index, "kill")
                self._tracker.stalls.forget(index)

    def _poll_learner(self) -> None:
        """Read the learner's status. Its state counts only if no command, which may take COMMAND_S, is under way."""
        is_idle = self._commanding.acquire(blocking=False)
        try:
            answer = self.learner.call("status", timeout_s=1.0)
            phase = LearnerPhase.from_json(answer)
            if is_idle and self._paused is not None and phase.state in ("waiting", "training"):
                self.learner.call("pause", timeout_s=1.0)  # it has restarted since the pause
                phase = replace(phase, state="paused")
            self._note_status(phase, LearnerStatus.from_json(answer) if "frames" in answer else None, follow=is_idle)
        except ConnectionLost:
            self._tracker.mute = ""
        except WorkbenchError as error:
            if str(error) != self._tracker.mute:
                print_dated(f"the learner gives no status: {error}")
            self._tracker.mute = str(error)
        finally:
            if is_idle:
                self._commanding.release()

    def _note_status(self, phase: LearnerPhase, status: LearnerStatus | None, *, follow: bool) -> None:
        """Take in a learner's answer and, to `follow`, its state, in one step for other threads."""
        with self._guard:
            alive = {index for index, child in self._group.actors.items() if child.alive}
            floods = self._tracker.note_status(phase, status, alive=alive)
            if self._tracker.has_trained:
                self._run_record.adopt_mended_code()
            for flood in floods:
                self.event("error", flood)
            if status is not None:
                self._note_return(status)
                self.changes.record_resumption()  # now that events have a progress
            if follow:
                self._follow(phase)

    def _note_return(self, status: LearnerStatus) -> None:
        """Follow the mean return; once for each collapse, and for each recovery from one, record an event."""
        if event := self._account.note(self.config, status):
            self.event(*event)

    def _follow(self, phase: LearnerPhase) -> None:
        """Make the run's state that of the learner."""
        if phase.state == "paused":
            if self._paused is None and phase.held:
                if self.state != "paused":
                    self.event("pause", phase.reason)
                self.state = "paused"
            elif self._paused is None:
                self._hold(phase.reason or "the learner paused itself")
                self.event("pause", self._paused or "")
            self._tracker.restart_clocks()
        elif phase.state == "training":
            if self.state == "starting":
                self._tracker.restart_clocks()
            elif self.state == "paused":
                self.event("resume", "the disk takes what the run makes again; training goes on")
            self.state = "training"

    def _after_ending(self, ended: EndedChild) -> None:
        """Decide whether a child's end is the run's end; otherwise it restarts after its back-off."""
        ending = ended.ending
        if not self._endings.note(ended):
            return
        if ended.index is None and ending.code == 0 and self._has_reached_total():
            self.end(at_total(self.config, self._tracker.progress.updates))
        elif self._endings.is_hopeless(ended, starting=self.state == "starting"):
            self.end(failure(ended))
        else:
            kind, message = self._endings.event(ended)
            detail = ending.error["message"] if ending.error else ""
            self.event(kind, message, traceback=detail, failures=ending.recent)

    def _has_reached_total(self) -> bool:
        newest = last_checkpoint.newest(self.run)
        has_frames = newest is not None and newest.frames >= self.config.total_frames
        return has_frames or self._tracker.phase.state == "finished"

    def _publish(self) -> None:
        """Write the status row, then run.json if it has changed.

        A reader who finds in run.json that the run has ended therefore finds its last counters in the row.
        """
        with self._guard:
            self._run_record.status(self.status())
            self._record()

    def _record(self) -> None:
        """Write the supervisor's fields of run.json if they have changed."""
        with self._guard:
            self._run_record.record({
                "state": self.state, "error": self._outcome.error if self._outcome else None,
                "ended_by": self._outcome.ended_by if self._outcome else None,
                "supervisor_pid": self._pid(), "lives": self._life, "paused": self._paused,
                "config": self.config.to_json(), "config_before": self.changes.before_resume,
                "first_mean": self._account.first_mean,  # without which no collapse is seen, should the history be lost
            })

    def _wind_up(self, outcome: Outcome) -> None:
        """End the learner, which writes a last checkpoint, then the actors, each within a bounded time."""
        with self._guard:
            self.state = "stopping"
        self._publish()
        problem, whole = last_checkpoint.end_learner(self.learner, self._group, outcome, self.config, self._tracker)
        if problem:
            self.event("error", problem)
        self._group.end_actors()
        self._close(outcome, whole=whole)

    def _close(self, outcome: Outcome, *, whole: bool = True) -> None:
        """Record the outcome; `whole`: whether the learner wrote its last checkpoint."""
        last = last_checkpoint.newest(self.run)
        frames = last.frames if last else 0
        if outcome.state == "stopped" and not whole and frames < self._tracker.progress.frames:
            outcome = replace(outcome, message=f"{outcome.message}, without a last checkpoint: resumed, it goes on at "
                                               f"{frames:,} frames")
        with self._guard:
            if last is not None and last.frames >= self._tracker.progress.frames:
                self._tracker.status = last_checkpoint.at(last, self._tracker.known)
                self._note_return(self._tracker.status)
            if outcome.state == "stopped" and frames >= self.config.total_frames:
                outcome = at_total(self.config, self._tracker.progress.updates)  # while it was being stopped
            self.state, self._outcome = outcome.state, outcome
            if self._tracker.has_trained:
                self._run_record.adopt_mended_code()
        data = {"error": outcome.error} if outcome.error else {}
        self.event(outcome.state if outcome.state != "stopped" else "stop", outcome.message, **data)
        deadline = time.monotonic() + _OUTCOME_S
        self._publish()
        while self._run_record.warning and time.monotonic() < deadline:
            time.sleep(TURN_S)
            self._publish()
