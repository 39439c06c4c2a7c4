"""The loop of a sweep's process: asks the study for values, launches a run with them, and reports the outcome.

All of its state is in the study and in the runs' folders, so another process can take over and adopt running trials.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from workbench import launchers
from workbench.config import RunConfig
from workbench.errors import ConnectionLost, RunExists, RunNotFound, WorkbenchError
from workbench.replay import demonstration_file
from workbench.rundir import RunDirectory, sealed
from workbench.rundir.dated_lines import print_dated
from workbench.running.starts import starting
from workbench.sweeping import study
from workbench.sweeping.space import from_json
from workbench.sweeping.sweep_folder import SweepFolder
from workbench.sweeping.trial import DELETED, WatchedTrial

PERIOD_S = 0.5
HOPELESS = 3  # a sweep ends when its first so many trials all failed
AGAIN_S = 5.0  # between attempts while a disk refuses to write
SAY_AGAIN_S = 600.0  # between log lines on the same refusal


class Sweeper:
    """Starts runs, `parallel` at a time, until all trials are over or the sweep is asked to stop."""

    def __init__(self, sweep: SweepFolder) -> None:
        record = sweep.read()
        self._sweep, self._record = sweep, record
        self._config = RunConfig.from_json(record["config"])
        self._code = sealed.every(sweep.code, self._config)
        self._parent = sweep.parent()
        self._place = launchers.by_name(self._config.launcher)
        self._study = study.opened(sweep, sampling=True)
        self._ranges = study.distributions(from_json(record["space"]))
        self._over_before = len(self._ended())  # trials of earlier lives
        self._watched: list[WatchedTrial] = []
        self._last: list[WatchedTrial] = []  # trials that were watched when a disk refused to write
        self._logged_s: dict[str, float] = {}  # time of the last log line, by text of the refusal
        self._reason = ""  # why it ends before its time

    def run(self) -> dict[str, Any]:
        """Sweep until the end, and return the fields of sweep.json that record the outcome.

        On a full disk, or without its cluster, it waits, as its runs do, and then adopts them again.
        """
        while not self._sweep.order_to_stop.exists():
            try:
                ended = self._go_on()
            except study.refusals() as error:
                if not self._sweep.study.exists():
                    raise
                self._wait(error)
            else:
                if ended is not None:
                    return ended
        self.stop()
        return {"state": "stopped", "reason": self._reason}

    def _go_on(self) -> dict[str, Any] | None:
        """Sweep from the state of study and runs. Returns the outcome, or None after a request to stop."""
        self._adopt()
        while not self._sweep.order_to_stop.exists():
            self._fill()
            self._watched = [watched for watched in self._watched if not self._over(watched)]
            error = self._hopeless()
            if error is not None:
                self.stop()
                return {"state": "failed", "error": {"type": "RunFailed", "message": error}}
            if not self._watched and self._begun() >= self._record["trials"]:
                return {"state": "finished"}
            time.sleep(PERIOD_S)
        return None

    def _wait(self, error: Exception) -> None:
        """Log the refusal, at most every 10 minutes, and wait for some seconds."""
        why = error if isinstance(error, WorkbenchError) else error.__cause__ or error
        text, now = str(why).partition("\n")[0], time.monotonic()
        if now - self._logged_s.get(text, float("-inf")) > SAY_AGAIN_S:
            what = "cluster" if isinstance(error, ConnectionLost) else "disk"
            print_dated(f"waiting for the {what}, to go on by itself: {text}")
            self._logged_s[text] = now
        self._last, self._watched = self._under_way(), []
        time.sleep(AGAIN_S)

    def _under_way(self) -> list[WatchedTrial]:
        """Trials whose runs may be alive, including those not adopted again after a refusal of the disk."""
        return list({watched.run.name: watched for watched in [*self._last, *self._watched]}.values())

    def stop(self) -> None:
        """Stop the running runs, each with a checkpoint; their trials stay open for a later process."""
        remaining = self._under_way()
        while remaining:
            remaining = [watched for watched in remaining if not watched.stop()]
            time.sleep(PERIOD_S if remaining else 0)

    # --- beginning ----------------------------------------------------------------------------------------------

    def _adopt(self) -> None:
        """Continue the trials that an earlier process began."""
        for trial in self._study.get_trials(deepcopy=False):
            if trial.state.name == "RUNNING":
                self._begin(study.under_way(self._study, trial.number, self._ranges))
        self._last = []

    def _begun(self) -> int:
        return sum(trial.state.name != "WAITING" for trial in self._study.get_trials(deepcopy=False))

    def _fill(self) -> None:
        """Begin one trial if there is room, and no earlier one waits for a machine; only one, so that the sweep can be
        stopped in between."""
        if self._has_room(self._watched) and self._begun() < self._record["trials"]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about enqueued values outside their range
                trial = self._study.ask(self._ranges)
            self._begin(trial)

    def _has_room(self, watched: Sequence[WatchedTrial]) -> bool:
        """Whether another run may begin beside these."""
        return len(watched) < self._record["parallel"] and not any(each.waits for each in watched)

    def _watch(self, trial: Any, run: RunDirectory) -> WatchedTrial:
        return WatchedTrial(self._study, trial, run, self._place, self._record["metric"], self._config.total_frames)

    def _begin(self, trial: Any) -> None:
        """Watch the trial's run, after creating it if the trial never had one."""
        run = self._sweep.run(trial.number)
        watched, is_new = self._watch(trial, run), not run.record.exists()
        try:
            self._provide(trial, run)
            self._watched.append(watched)
            if is_new:
                watched.begin()
            else:
                watched.take_over()
        except study.refusals():
            raise
        except WorkbenchError as error:
            self._watched = [other for other in self._watched if other is not watched]
            self._record_failure(watched, error)

    def _provide(self, trial: Any, run: RunDirectory) -> None:
        """Ensure that the trial's run exists.

        Raises RunNotFound if it was deleted, RunExists if it is not the sweep's, and the errors of creating it.
        """
        if not run.record.exists():
            if study.MADE in trial.user_attrs:
                raise RunNotFound(DELETED)
            self._make(trial, run)
        if not self._sweep.owns(run, of=trial.user_attrs.get("of")):
            raise RunExists(f"there is a run {run.name!r} that is not the sweep's; rename or delete it")
        if study.MADE not in trial.user_attrs:
            trial.set_user_attr(study.MADE, True)

    def _make(self, trial: Any, run: RunDirectory) -> None:
        self._create(run, trial.params)
        print_dated(f"{run.name}: {trial.params}")

    def _create(self, run: RunDirectory, fields: dict[str, Any], state: str = "starting") -> None:
        """Create the directory of a run with these fields and the sweep's name."""
        record = starting.new_record(self._config.replaced(**fields), parent=self._parent, code=self._code,
                                     preset=self._record["preset"], state=state,
                                     network=self._record.get("network", True))

        def prepare(new: RunDirectory) -> None:
            if self._config.imitates:
                demonstration_file.link(self._sweep.demonstrations, new.demonstrations)

        starting.created(run.name, run.name, {**record, "sweep": self._sweep.name}, self._code, self._place, prepare)

    @staticmethod
    def _record_failure(watched: WatchedTrial, error: WorkbenchError) -> None:
        """Record the failure of a trial whose run cannot be created or started."""
        print_dated(f"{watched.run.name}: failed: {error}")
        watched.fail(str(error))

    # --- ending -------------------------------------------------------------------------------------------------

    def _over(self, watched: WatchedTrial) -> bool:
        """Whether a trial is over. Where its cloud takes this machine back, the sweep is asked to stop."""
        waited, over, name = watched.waits, watched.look(), watched.run.name
        if over:
            print_dated(f"{name}: {watched.verdict}{': ' if watched.note else ''}{watched.note}")
        elif watched.waits != waited:
            print_dated(f"{name} waits: {watched.waits}" if watched.waits else f"{name} waits no more")
        if watched.taken_back and not self._reason:
            self._reason = f"{watched.taken_back}: resume() goes on, on the next machine"
            print_dated(self._reason)
            self._sweep.ask_to_stop()
        return over

    def _hopeless(self) -> str | None:
        """The error of a sweep whose first trials all failed, and none trains; None while there is hope."""
        before = self._over_before
        every = self._study.get_trials(deepcopy=False)
        failed = list(takewhile(lambda trial: trial.state.name == "FAIL", every))
        if len(failed) < before + min(HOPELESS, self._record["trials"] - before):  # a resume may have mended the cause
            return None
        if any(watched.trains for watched in self._watched):
            return None
        last = failed[-1]
        return (f"the first {len(failed)} trials all failed. {self._sweep.run(last.number).name}: "
                f"{last.user_attrs.get('note', '')}")

    def _ended(self) -> list[study.Trial]:
        return [trial for trial in study.trials(self._sweep, self._study) if trial.state != "running"]
