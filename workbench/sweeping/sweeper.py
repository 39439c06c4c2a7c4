"""What a sweep does in its process: it asks the study what to try, launches that, and tells the study what became.

What it knows is in the study and in the runs' folders; another process that takes over adopts the trials that were
under way.
"""

from __future__ import annotations

import shutil
import sys
import time
import warnings
from contextlib import suppress
from itertools import takewhile
from typing import Any

from workbench import launchers
from workbench.config import RunConfig
from workbench.errors import RunExists, RunNotFound, WorkbenchError
from workbench.rundir import RunDirectory, sealed
from workbench.running import starting
from workbench.sweeping import study
from workbench.sweeping.folder import SweepFolder
from workbench.sweeping.space import from_json
from workbench.sweeping.trial import DELETED, Watched

PERIOD_S = 0.5
HOPELESS = 3  # trials that failed one after the other, before any other outcome; the sweep ends
AGAIN_S = 5.0  # after a disk has refused something
SAY_AGAIN_S = 600.0


class Sweeper:
    """Starts runs, as many at a time as asked for, until there were enough or somebody asks it to stop."""

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
        self._watched: list[Watched] = []
        self._last: list[Watched] = []  # that were watched when a disk refused something
        self._said: dict[str, float] = {}  # what a disk refused, and when that was said

    def run(self) -> dict[str, Any]:
        """Sweep; the fields of sweep.json that say how it ended.

        Where a disk is full, it waits, as its runs do, and takes over what has become of them.
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
        return {"state": "stopped"}

    def _go_on(self) -> dict[str, Any] | None:
        """Sweep from where the study and the runs are; how it ended, None: it was asked to stop."""
        self._adopt()
        while not self._sweep.order_to_stop.exists():
            self._fill()
            self._watched = [one for one in self._watched if not self._over(one)]
            error = self._hopeless()
            if error is not None:
                self.stop()
                return {"state": "failed", "error": {"type": "RunFailed", "message": error}}
            if not self._watched and self._begun() >= self._record["trials"]:
                return {"state": "finished"}
            time.sleep(PERIOD_S)
        return None

    def _wait(self, error: Exception) -> None:
        """Say what was refused, now and then, and leave everything alone for some seconds."""
        why = error if isinstance(error, WorkbenchError) else error.__cause__ or error
        text, now = str(why).partition("\n")[0], time.monotonic()
        if now - self._said.get(text, float("-inf")) > SAY_AGAIN_S:
            say(f"waiting for the disk, to go on by itself: {text}")
            self._said[text] = now
        self._last, self._watched = self._under_way(), []
        time.sleep(AGAIN_S)

    def _under_way(self) -> list[Watched]:
        """Whose runs may live; where a disk has refused something, not all are watched again yet."""
        return list({one.run.name: one for one in [*self._last, *self._watched]}.values())

    def stop(self) -> None:
        """Stop the runs that are under way, each with a checkpoint; their trials stay open for whoever goes on."""
        left = self._under_way()
        while left:
            left = [one for one in left if not one.stop()]
            time.sleep(PERIOD_S if left else 0)

    # --- beginning ----------------------------------------------------------------------------------------------

    def _adopt(self) -> None:
        """Go on with trials that an earlier process has begun."""
        for one in self._study.get_trials(deepcopy=False):
            if one.state.name == "RUNNING":
                run = self._sweep.run(one.number)
                if not run.record.exists():  # the folder of a run that was just being made
                    shutil.rmtree(run.path, ignore_errors=True)
                self._begin(study.under_way(self._study, one.number, self._ranges))
        self._last = []

    def _begun(self) -> int:
        return sum(one.state.name != "WAITING" for one in self._study.get_trials(deepcopy=False))

    def _fill(self) -> None:
        """Begin trials while there is room; one at a time, so that a sweep can be stopped meanwhile."""
        if len(self._watched) < self._record["parallel"] and self._begun() < self._record["trials"]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of values that were asked for and lie outside
                trial = self._study.ask(self._ranges)
            self._begin(trial)

    def _begin(self, trial: Any) -> None:
        """Watch the trial's run, which is made where the trial has had none yet."""
        run = self._sweep.run(trial.number)
        watched = Watched(self._study, trial, run, self._record["metric"], self._config.total_frames)
        try:
            self._provide(trial, run)
            self._watched.append(watched)
            watched.take_over()
        except study.refusals():
            raise
        except WorkbenchError as error:
            self._watched = [one for one in self._watched if one is not watched]
            self._failed(trial, run, error)

    def _provide(self, trial: Any, run: RunDirectory) -> None:
        """See that the trial's run is there.

        Raises RunNotFound if it was made once, and is gone; RunExists if it is somebody else's; what making it raises.
        """
        if not run.record.exists():
            if study.had_run(self._study, trial.number):
                raise RunNotFound(DELETED)
            self._make(trial, run)
        self._check_own(trial, run)
        if study.MADE not in trial.user_attrs:
            trial.set_user_attr(study.MADE, True)

    def _check_own(self, trial: Any, run: RunDirectory) -> None:
        if not self._sweep.owns(run, of=trial.user_attrs.get("of")):
            raise RunExists(f"there is a run {run.name!r} that is not the sweep's; rename or delete it")

    def _make(self, trial: Any, run: RunDirectory) -> None:
        self._created(run, trial.params)
        starting.started(run, self._place, wait_ready=False, ready_timeout_s=0.0, progress=False)
        say(f"{run.name}: {trial.params}")

    def _created(self, run: RunDirectory, fields: dict[str, Any], state: str = "starting") -> None:
        """Make the directory of a run with these fields, which says whose it is."""
        record = starting.new_record(self._config.replaced(**fields), parent=self._parent, code=self._code,
                                     preset=self._record["preset"], state=state)
        starting.created(run.name, run.name, {**record, "sweep": self._sweep.name}, self._code, self._place)

    def _failed(self, trial: Any, run: RunDirectory, error: WorkbenchError) -> None:
        """Count a trial whose run cannot be made or started."""
        from optuna.trial import TrialState

        say(f"{run.name}: failed: {error}")
        trial.set_user_attr("note", str(error))
        trial.set_user_attr("verdict", "failed")
        self._study.tell(trial, state=TrialState.FAIL)

    # --- ending -------------------------------------------------------------------------------------------------

    def _over(self, one: Watched) -> bool:
        over = one.look()
        if over:
            say(f"{one.run.name}: {one.verdict}{': ' if one.note else ''}{one.note}")
        return over

    def _hopeless(self) -> str | None:
        """Why the sweep cannot come to anything: all trials of the beginning failed; None: it may."""
        ended, before = self._ended(), self._over_before
        failed = list(takewhile(lambda one: one.state == "failed", ended))
        enough = before + min(HOPELESS, self._record["trials"] - before)  # who resumes it may have mended the cause
        if len(failed) < len(ended) or len(failed) < enough:
            return None
        return f"the first {len(failed)} trials all failed. {failed[-1].run}: {failed[-1].note}"

    def _ended(self) -> list[study.Trial]:
        return [one for one in study.trials(self._sweep, self._study) if one.state != "running"]


def say(text: str) -> None:
    """Write a line to the sweep's log, which a full disk may refuse."""
    with suppress(OSError):
        print(time.strftime("%Y-%m-%d %H:%M:%S"), text, flush=True, file=sys.stderr)
