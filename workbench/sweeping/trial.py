"""One running trial: watches its run, judges it, and waits for its end.

A verdict is recorded before the run is stopped, and the trial is over once no process of the run is left. So a process
that takes over from a killed sweep continues at the same place, and no run is counted twice or forgotten.

A lost machine is no verdict: `kept_run` lets the run go on, also one that a signal ended. A run that a cloud's notice
ended says that the sweep's own machine goes.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from workbench import checkpoints
from workbench.errors import ConnectionLost, RunNotAlive, RunNotFound, StorageFailed, UnknownName, WorkbenchError
from workbench.launchers.contract import Launcher
from workbench.metrics.status import RunStatus
from workbench.metrics.status_facts import FACTS
from workbench.rundir import NOT_FINITE, RunDirectory, lock
from workbench.running.connection import Control, stored_status
from workbench.supervisor import stopping_rules
from workbench.sweeping import study as sweep_study
from workbench.sweeping.kept_run import KeptRun, withdraw
from workbench.sweeping.objective import MARKS, MetricCurve, passed

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import Trial

DELETED = "its run was deleted"
UNREADABLE_S = 600.0  # a trial fails when its run's files are unreadable for longer; a full disk may recover
_ASK_AGAIN_S = 5.0  # between requests to stop


def has_trained(run: RunDirectory, status: RunStatus, frames: int) -> bool:
    """Whether a run has ended with so many frames, also if it was stopped once it had them, or its supervisor died once
    a checkpoint had them."""
    if status.state == "dead":
        newest = checkpoints.newest(run.checkpoints)
        return newest is not None and newest.frames >= frames
    return status.state in ("finished", "stopped") and status.frames >= frames


class WatchedTrial:
    """A trial and its run.

    Attributes:
        trial: the study's trial.
        verdict: its outcome: "finished", "pruned" or "failed"; "" before it is decided.
        note: the reason for the verdict.
        end: frames at which its run ends by itself.
        taken_back: that its cloud takes this machine back, in words; "": it does not.
    """

    def __init__(
        self, study: Study, trial: Trial, run: RunDirectory, place: Launcher, metric: str, total_frames: int
    ) -> None:
        self._study, self.trial, self.run, self._place = study, trial, run, place
        self._kept = KeptRun(run, place, waits=str(trial.user_attrs.get(sweep_study.WAITS, "")))
        self._metric, self._total, self.end = metric, total_frames, total_frames
        self._curve, self._control = MetricCurve(run, metric, self._total), Control(run)
        self.verdict, self.note = (str(trial.user_attrs.get(name, "")) for name in ("verdict", "note"))
        self._marks = max(study.get_trials(deepcopy=False)[trial.number].intermediate_values, default=0)
        self._asked = 0.0
        self._unreadable_since: float | None = None
        self.taken_back, self._noted_waits = "", self.waits

    @property
    def waits(self) -> str:
        """What its run waits for to begin or to go on, in words; "": nothing."""
        return "" if self.verdict else self._kept.waits

    @property
    def trains(self) -> bool:
        """Whether its run has made an update."""
        with suppress(WorkbenchError):
            return stored_status(self.run).updates > 0
        return False

    def take_over(self) -> None:
        """Go on with its run if it ended while unwatched. Raises WorkbenchError."""
        if self.verdict:
            return
        status = stored_status(self.run)
        if status.state in ("stopped", "stopping") and not has_trained(self.run, status, self.end):
            self.begin()

    def begin(self, **changes: Any) -> None:
        """Begin its run, or go on with it, with these changes; it may wait for a machine. Raises WorkbenchError."""
        self._kept.begin(**changes)

    def look(self) -> bool:
        """Judge the trial, and return whether it is over and counted. Never raises for a faulty run."""
        try:
            status = stored_status(self.run)
            died_at_end = status.state == "dead" and has_trained(self.run, status, self.end)
            if not self.verdict and (died_at_end or self._kept.has_supervisor(status)):
                self._judge(status)
            self._note_waits()
            self._unreadable_since = None
            return bool(self.verdict) and self._ended(status)
        except RunNotFound:
            self.fail(DELETED)
            return True
        except StorageFailed as error:
            return self._give_up(error)
        except WorkbenchError as error:
            self._decide("failed", str(error))
            return False

    def fail(self, why: str) -> None:
        """Count it as failed: no process of its run is left, if there ever was one."""
        self._decide("failed", why)
        self._count(None)

    def replace(self, note: str) -> None:
        """Count it as pruned, when no process of its run is left; earlier notes stay."""
        try:
            status = stored_status(self.run)
        except RunNotFound:
            self.look()
            return
        self._curve.follow()
        self._report(min(passed(status.frames, self._total), MARKS - 1))
        self._decide("pruned", self.note if note in self.note else "; ".join(filter(None, [self.note, note])))
        self._count(status)

    def stop(self) -> bool:
        """Ask the run to stop, without a verdict. Returns whether it has ended. On a full disk the trial stays open."""
        with suppress(*sweep_study.refusals()):
            if self._study.get_trials(deepcopy=False)[self.trial.number].state.is_finished():
                return True
        try:
            status = stored_status(self.run)
        except RunNotFound:
            with suppress(*sweep_study.refusals()):
                self.look()
            return True
        except StorageFailed:  # a request to stop would fail, too
            return not lock.is_alive(self.run)
        if self.verdict or status.state in ("finished", "failed"):
            with suppress(*sweep_study.refusals()):
                return self.look() or (not self.verdict and self._gone(status))
        gone = self._gone(status)
        if gone:
            self._kept.waits = ""
            with suppress(*sweep_study.refusals()):
                self._note_waits()
        return gone

    # --- judging ------------------------------------------------------------------------------------------------

    def _judge(self, status: RunStatus) -> None:
        """Report new values to the study, and decide the verdict if it is clear."""
        alive, through = lock.is_alive(self.run), has_trained(self.run, status, self._total)
        if (status.state == "finished" or through) and alive:
            return  # its last rows may not be on disk yet
        self._curve.follow()
        if status.state == "finished" and self._curve.covered and (not status.frames or status.unread):
            raise StorageFailed(status.warning or f"cannot read the status in {self.run.metrics}.")
        frames = status.frames if self._curve.covered is None or not alive else min(status.frames, self._curve.covered)
        if status.state == "failed":
            self._decide("failed", status.error or status.reason)
        elif through:
            self._report(MARKS - 1)
            self._finish()
        elif status.state == "finished" and status.frames < self.end:
            self._end_early(status)
        elif frames < self._total and not self._report(min(passed(frames, self._total), MARKS - 1)):
            self._decide("pruned", f"worse than others at {self._marks * self._total // MARKS:,} frames")
        elif status.state == "paused" and NOT_FINITE in (why := self.run.read().get("paused") or ""):
            self._decide("pruned", f"diverged: {why}")
        elif status.state == "stopped" and not has_trained(self.run, status, self.end):
            self._note_stop(status)

    def _note_stop(self, status: RunStatus) -> None:
        """Judge a run that was stopped: by hand, or since its machine is taken back."""
        ended_by = self.run.read().get("ended_by")
        if ended_by == "notice":
            self.taken_back = status.reason.partition(":")[0] or "this machine is taken back"
        elif ended_by == "signal":
            self.begin()
        else:
            self._decide("pruned", f"stopped by hand at {FACTS['frames'].said(status)}")

    def _end_early(self, status: RunStatus) -> None:
        """Judge a run that one of its stopping rules ended: it has finished if it reached its target."""
        self._report(min(passed(status.frames, self._total), MARKS - 1))
        field, why = stopping_rules.reached(self.run.config(), status)
        note = f"{why or status.reason}, at {FACTS['frames'].said(status)}"
        if field in stopping_rules.TARGETS:
            self._finish(note)
        else:
            self._decide("pruned", note)

    def _report(self, mark: int) -> bool:
        """Report the values at marks up to `mark` to the study. Returns False once it would prune."""
        for at in range(self._marks + 1, mark + 1):
            value = self._curve.value(at)
            if value is None:
                self._check_expected(at)
                continue
            self.trial.report(value, at)
            self._marks = at
            if self.trial.should_prune():
                return False
        return True

    def _check_expected(self, mark: int) -> None:
        """Raises UnknownName if the run will never record the metric. Episodes may be long, so those are awaited."""
        names = self._curve.names()
        if mark > 2 and names and not self._metric.startswith(("episode_", "evaluation_")):
            raise UnknownName.among("metric", self._metric, names)

    def _finish(self, note: str = "") -> None:
        value = self._curve.value()
        if value is None:
            raise UnknownName.among("metric", self._metric, self._curve.names(), "The run has finished without it.")
        self.trial.set_user_attr("value", value)
        self._decide("finished", "; ".join(filter(None, [self.note, note])))

    def _note_waits(self) -> None:
        if self.waits != self._noted_waits:
            self.trial.set_user_attr(sweep_study.WAITS, self.waits)
            self._noted_waits = self.waits

    def _decide(self, verdict: str, note: str) -> None:
        self.trial.set_user_attr("note", note)
        self.trial.set_user_attr("verdict", verdict)
        self.verdict, self.note = verdict, note

    # --- ending -------------------------------------------------------------------------------------------------

    def _give_up(self, error: StorageFailed) -> bool:
        """Whether the trial is over since its run's files were unreadable for UNREADABLE_S; until then it waits."""
        now = time.monotonic()
        self._unreadable_since = self._unreadable_since or now
        if now - self._unreadable_since <= UNREADABLE_S:
            return False
        self._decide("failed", str(error))
        if over := not lock.is_alive(self.run):
            self._count(None)
        return over

    def _ended(self, status: RunStatus) -> bool:
        """Whether the run has ended and the trial is counted; asks a live run to stop."""
        if not self._gone(status):
            return False
        if self.verdict == "pruned" and has_trained(self.run, status, self._total):
            self.note = ""  # it was through before it could be stopped
            self._judge(status)
        self._count(status)
        return True

    def _gone(self, status: RunStatus) -> bool:
        if status.alive:
            self._ask()
            return False
        if status.state == "dead":
            withdraw(self.run, self._place)
        self._control.close()
        return not lock.is_alive(self.run)

    def _ask(self) -> None:
        if time.monotonic() - self._asked > _ASK_AGAIN_S:
            self._asked = time.monotonic()
            with suppress(RunNotAlive, ConnectionLost, RunNotFound, StorageFailed):
                why = f"by its sweep{f': {self.note}' if self.verdict else ''}"
                self._control.call("stop", timeout_s=5.0, grace_s=None, why=why)

    def _count(self, status: RunStatus | None) -> None:
        """Tell the study that the trial is over. `status`: of its run; None: there is none."""
        from optuna.trial import TrialState

        if status is not None:  # else those of its last mark count
            self.trial.set_user_attr("frames", status.frames)
            if status.cost:
                self.trial.set_user_attr(sweep_study.SPENT, spent(status))
        if self.verdict == "finished":
            self._study.tell(self.trial, self.trial.user_attrs["value"])
        else:
            self._study.tell(self.trial, state=TrialState.PRUNED if self.verdict == "pruned" else TrialState.FAIL)


def spent(status: RunStatus) -> tuple[float, int]:
    """What a run has cost, and the frames that it trained, which a fork counts from its parent on."""
    return status.cost, status.frames - (status.first_frames or 0)
