"""`Sweep`: the handle of a sweep. Dropping it, or the kernel that holds it, changes nothing for the sweep."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench import imports
from workbench.config import Setting
from workbench.errors import (
    InvalidInput,
    MissingPackage,
    RunAlive,
    RunFailed,
    RunNotAlive,
    RunNotFound,
    WaitTimeout,
)
from workbench.rundir import ENDED, lock, sealed
from workbench.rundir.files import tail
from workbench.running.handle import Run
from workbench.running.progress import Progress, interactive
from workbench.sweeping import deletion, study
from workbench.sweeping.folder import SweepFolder
from workbench.sweeping.space import Space, from_json
from workbench.sweeping.start import MOST_TRIALS, begin, check_count, sharing_the_machine
from workbench.sweeping.study import Trial

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from optuna import Study

GOING_ON = ("starting", "running", "stopping")
OPEN = "open"  # a trial that was under way when its sweep ended

_STOP_MARGIN_S = 60.0  # for runs to end after their last checkpoints
_POLL_S = 0.2
_LOG_BYTES = 4000
_COMING_S = 10.0  # a supervisor that was started answers within this time


@dataclass(frozen=True, repr=False)
class SweepStatus:
    """One look at a sweep.

    Attributes:
        state: starting, running, stopping, stopped, finished, failed, or dead: its process is gone, and `resume` goes
            on; or "damaged": its files cannot be read.
        trials: runs that there are to be; those that have begun are running, finished, pruned or failed.
        best_value, best_run: of the best trial so far, or None and "".
        error: what made it fail; else None.
        age_s: seconds since it was made.
    """

    name: str
    state: str
    trials: int
    running: int
    finished: int
    pruned: int
    failed: int
    metric: str
    best_value: float | None
    best_run: str
    error: str | None
    age_s: float

    @classmethod
    def damaged(cls, name: str, why: str) -> SweepStatus:
        """Of a sweep whose files cannot be read."""
        return cls(name, "damaged", 0, 0, 0, 0, 0, "", None, "", why, 0.0)

    @property
    def problem(self) -> str:
        """Why its files cannot be read; "" where they can."""
        return self.error or "" if self.state == "damaged" else ""

    @property
    def over(self) -> int:
        """Trials whose outcome is known."""
        return self.finished + self.pruned + self.failed

    def line(self) -> str:
        """State, progress and the best value in one line, without the name."""
        goes_on = self.state in GOING_ON
        counts = {"running" if goes_on else OPEN: self.running, "pruned": self.pruned, "failed": self.failed}
        parts = [self.state, f"{self.over} of {self.trials} trials"]
        parts += [f"{number} {what}" for what, number in counts.items() if number]
        if self.best_value is not None:
            parts.append(f"best {self.metric} {self.best_value:.4g} ({self.best_run})")
        return ", ".join(parts) + (f": {self.error.splitlines()[0]}" if self.error else "")

    def __repr__(self) -> str:
        return f"SweepStatus({self.name}: {self.line()})"


class Sweep:
    """A sweep that goes on in the background. `wb.sweep` and `wb.attach_sweep` return one.

    A bare one shows itself in a cell: all trials as a live table, what had to do with how they came out, and buttons.
    """

    def __init__(self, folder: SweepFolder) -> None:
        self._folder = folder
        record = folder.read()
        self._metric, self._goal = str(record["metric"]), str(record["goal"])
        self._space = from_json(record["space"])
        self._opened: Study | None = None
        self._reading = threading.Lock()
        self._last = f"{record['state']}, {record['trials']} trials"

    @property
    def name(self) -> str:
        """The sweep's name; `wb.attach_sweep(name)` from any kernel finds it again."""
        return self._folder.name

    @property
    def path(self) -> Path:
        """The sweep's folder: its record, Optuna's study (`study.sqlite`), and its log."""
        return self._folder.path

    # --- looking ------------------------------------------------------------------------------------------------

    @property
    def metric(self) -> str:
        """What runs are judged by."""
        return self._metric

    @property
    def goal(self) -> str:
        """"max" or "min"."""
        return self._goal

    @property
    def space(self) -> Space:
        """What is searched: a Span of numbers or a Choice by field."""
        return dict(self._space)

    @property
    def state(self) -> str:
        """starting, running, stopping, stopped, finished, failed, or dead."""
        state = str(self._folder.read()["state"])
        if state in ENDED:
            return state
        if self._folder.alive:
            return "stopping" if self._folder.order_to_stop.exists() else state
        state = str(self._folder.read()["state"])  # it may have ended between the two looks
        return state if state in ENDED else "dead"

    @property
    def trials(self) -> list[Trial]:
        """All trials that have begun, oldest first."""
        with self._reading:
            if self._opened is None:
                self._opened = study.opened(self._folder)
            return study.trials(self._folder, self._opened)

    @property
    def status(self) -> SweepStatus:
        """How the sweep is now."""
        return self.look()[0]

    def look(self) -> tuple[SweepStatus, list[Trial]]:
        """How the sweep is now, and all trials that have begun, oldest first. Of one that has ended both are final."""
        state = self.state  # before the trials: a sweep ends after the last of them is counted
        record, found = self._folder.read(), self.trials
        best = study.best(found, self._goal)
        counts = {what: sum(one.state == what for one in found) for what in ("running", "finished", "pruned", "failed")}
        error = record["error"]
        told = SweepStatus(
            name=self.name, state=state, trials=record["trials"], **counts, metric=self._metric,
            best_value=None if best is None else best.value, best_run="" if best is None else best.run,
            error=None if error is None else str(error["message"]), age_s=max(0.0, time.time() - record["created"]),
        )  # fmt: skip
        self._last = told.line()
        return told, found

    @property
    def table(self) -> pd.DataFrame:
        """One row per trial: trial, run, state, value, frames, minutes, every field that is searched, and note."""
        import pandas as pd

        goes_on = self.state in GOING_ON
        rows = [
            {"trial": one.number, "run": one.run, "state": one.state if goes_on or one.state != "running" else OPEN,
             "value": one.value, "frames": one.frames, "minutes": None if one.seconds is None else one.seconds / 60,
             **{name: one.fields.get(name) for name in self._space}, "note": one.note}
            for one in self.trials
        ]  # fmt: skip
        columns = ["trial", "run", "state", "value", "frames", "minutes", *self._space, "note"]
        table = pd.DataFrame(rows, columns=columns).set_index("trial")
        return table.astype({"value": float, "minutes": float})

    @property
    def best(self) -> Run:
        """The run with the best value, of those that finished if any did.

        Raises InvalidInput where no value is known yet, RunNotFound if that run was deleted.
        """
        return Run(self._folder.run(self._best().number))

    @property
    def best_fields(self) -> dict[str, Any]:
        """What the best trial chose: `wb.launch(environment, **sweep.best_fields)`. Raises InvalidInput as `best`."""
        return dict(self._best().fields)

    def _best(self) -> Trial:
        found = study.best(self.trials, self._goal)
        if found is None:
            raise InvalidInput(f"no run of {self.name} has a value of {self._metric} yet. Wait: {self.name} is "
                               f"{self.state}.")
        return found

    @property
    def importance(self) -> dict[str, float]:
        """How much each field decides whether a trial is among the best quarter, as shares of 1, largest first.

        PED-ANOVA over finished and pruned trials; empty for fewer than 4 of them.
        """
        return study.importance(self.trials, self._space, self._goal)

    @property
    def log(self) -> str:
        """The end of what its process wrote."""
        return tail(self._folder.log, _LOG_BYTES)

    def wait(self, *, timeout_s: float | None = None, progress: bool | None = None) -> SweepStatus:
        """The status when the sweep has ended. Interrupting it leaves the sweep alone.

        Args:
            progress: whether to show a bar; None: where a person looks on.

        Raises RunFailed if it failed, RunNotAlive if its process died, WaitTimeout after `timeout_s`; it goes on.
        """
        deadline = float("inf") if timeout_s is None else time.monotonic() + timeout_s
        total = int(self._folder.read()["trials"])
        shown = interactive() if progress is None else progress
        with Progress(self.name, unit="trials", total=total, shown=shown) as bar:
            while True:
                status = self.status
                bar.show(status.over, status.line())
                if status.state in (*ENDED, "dead"):
                    return self._ended(status)
                if time.monotonic() >= deadline:
                    raise WaitTimeout(f"{self.name} has not ended after {timeout_s:g} s; it goes on. Now: "
                                      f"{status.line()}")
                time.sleep(_POLL_S)

    def _ended(self, status: SweepStatus) -> SweepStatus:
        if status.state == "failed":
            raise RunFailed(f"{self.name} failed: {status.error}")
        if status.state == "dead":
            raise RunNotAlive(f"{self.name} is dead: its process is gone. wb.attach_sweep({self.name!r}).resume() goes "
                              "on; nothing is lost.")
        return status

    # --- steering -----------------------------------------------------------------------------------------------

    def stop(self, *, timeout_s: float | None = None) -> SweepStatus:
        """End the sweep: the runs under way stop with a checkpoint, and stay open for `resume`. The status then.

        Args:
            timeout_s: how long to wait for them; None: as long as their last checkpoints may take.

        Raises WaitTimeout; they go on ending.
        """
        if timeout_s is None:
            timeout_s = self._folder.config().last_checkpoint_s + _STOP_MARGIN_S
        if self.state == "dead":
            self._stop_orphans(timeout_s)
        self._folder.ask_to_stop()
        deadline = time.monotonic() + timeout_s
        while self._folder.alive:
            if time.monotonic() > deadline:
                raise WaitTimeout(f"{self.name} has not ended after {timeout_s:g} s; its runs are still stopping.")
            time.sleep(_POLL_S)
        return self.status

    def _stop_orphans(self, timeout_s: float) -> None:
        """Stop the runs of a sweep that died, which go on without it."""
        with lock.held(self._folder.start_lock, wait_s=lock.LOOK_S) as mine:
            if not mine or lock.is_held(self._folder.lock):
                return  # it is being resumed
            for one in self.trials:
                with suppress(RunNotFound):
                    directory = self._folder.run(one.number)
                    if one.state == "running" and self._folder.owns(directory):
                        _come_up(run := Run(directory))
                        run.stop(timeout_s=timeout_s)
            self._folder.write(state="stopped")

    def resume(
        self, *, trials: int | None = None, parallel: int | None = None, trust_code: bool = False
    ) -> Sweep:
        """Go on with a sweep that was stopped, failed, died or finished; this handle. One that runs is left as it is.

        Trials that were under way go on where they are: a run that lives is watched, one that was stopped or died is
        resumed.

        Args:
            trials, parallel: from now on; None: as before.
            trust_code: let code that was typed in a cell for it execute as you, wherever the sweep comes from.

        Raises AccessDenied for such code that no launch of yours on this machine wrote; OutOfBounds;
        InvalidInput if all trials are done; RunAlive for changes while it runs.
        """
        record = self._folder.read()
        changes = {key: value for key, value in (("trials", trials), ("parallel", parallel)) if value is not None}
        if self.state not in (*ENDED, "dead"):
            if changes:
                raise RunAlive(f"{self.name} is {self.state}. Stop it first, to change {' and '.join(changes)}.")
            return self
        if trials is not None:
            if record["sampler"] == study.PBT:
                raise InvalidInput(f"trials={trials}: the population of {self.name} keeps its size. Leave it out.")
            check_count("trials", trials, MOST_TRIALS)
        if parallel is not None:
            sharing_the_machine(self._folder.config(), self._space, parallel)
        if self.status.over >= (wanted := changes.get("trials", record["trials"])):
            raise InvalidInput(f"{self.name} has done its {wanted} trials. {self._remedy(record, wanted)}")
        trust_code = Setting("trust_code", bool, False, "").check(trust_code)
        runs = [self._folder.run(trial.number) for trial in self.trials]
        for code in (self._folder.code, *(run.code for run in runs if run.record.exists())):
            sealed.check(code, self._folder.config(), trust_code=trust_code)
        begin(self._folder, **changes)
        return self

    def _remedy(self, record: Mapping[str, Any], trials: int) -> str:
        """How to go on once all trials are done."""
        if record["sampler"] != study.PBT:
            return f"Give more: .resume(trials={2 * trials})."
        best = study.best(self.trials, self._goal)
        if best is None or not self._folder.run(best.number).record.exists():
            return "A population keeps its size: begin a new sweep."
        more = 2 * int(record["config"]["total_frames"])
        return ("A population keeps its size: begin a new sweep, or go on with its best run: "
                f"wb.resume({best.run!r}, total_frames={more}).")

    def delete(self, *, runs: bool = False) -> Path:
        """Move the folder of this sweep, which must have ended, to `$WORKBENCH_HOME/trash`; where it is then.

        Nothing is erased: moved back to `sweeps`, it is the sweep that it was.

        Args:
            runs: whether its runs go to the trash as well; else they stay, plain runs as they are.

        Raises RunAlive if it goes on, or one of the runs that are to be moved lives; StorageFailed.
        """
        return deletion.delete(self._folder, runs=runs)

    # --- showing ------------------------------------------------------------------------------------------------

    def panel(self) -> Any:
        """A new live view; a bare `sweep` shows one. Raises MissingPackage without ipywidgets."""
        return imports.widget("views.sweep").SweepView(self)

    def _ipython_display_(self) -> None:
        from IPython.display import display

        try:
            shown = self.panel()
        except MissingPackage as error:
            print(f"{self!r}\n({error})")
        else:
            display(shown)  # type: ignore[no-untyped-call, unused-ignore]

    def __repr__(self) -> str:
        return f"Sweep({self.name}: {self._last})"


def _come_up(run: Run) -> None:
    """Wait for a run whose supervisor may just have been started by a sweep that died in that moment."""
    while run.state == "dead" and 0 <= time.time() - float(run.directory.read().get("created", 0.0)) < _COMING_S:
        time.sleep(_POLL_S)
