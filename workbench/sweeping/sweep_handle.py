"""`Sweep`: the handle of a sweep. The sweep outlives the handle and its kernel."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from workbench import imports, launchers
from workbench.errors import (
    InvalidInput,
    RunAlive,
    RunFailed,
    RunNotAlive,
    RunNotFound,
    StorageFailed,
    WaitTimeout,
    WorkbenchError,
    checked_arguments,
)
from workbench.rundir import ENDED, RunDirectory, lock, sealed
from workbench.rundir.files import tail
from workbench.running import waiting
from workbench.running.connection import stored_status
from workbench.running.handle import FRESH_S, Run
from workbench.running.progress import ProgressBar, interactive
from workbench.sweeping import study, sweep_folder
from workbench.sweeping.kept_run import withdraw
from workbench.sweeping.space import Space, from_json
from workbench.sweeping.start import MOST_TRIALS, begin, checked_count, checked_parallel, sharing_the_machine
from workbench.sweeping.study import Trial
from workbench.sweeping.sweep_folder import SweepFolder
from workbench.sweeping.sweep_status import GOING_ON, OPEN, SweepStatus
from workbench.sweeping.trial import spent
from workbench.tables import counted, plain

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from optuna import Study

_STOP_MARGIN_S = 60.0  # for runs to end after they wrote their last checkpoints
_POLL_S = 0.2
_LOG_BYTES = 4000
_FIRST_ANSWER_S = 10.0  # the longest time from a supervisor's start to its first answer


class Sweep:
    """A sweep in the background. `wb.sweep` and `wb.attach_sweep` return one.

    A cell shows a bare handle as a live table of all trials, with the importance of each field, and buttons.
    """

    def __init__(self, folder: SweepFolder) -> None:
        self._folder = folder
        record = folder.read()
        self._metric, self._goal = str(record["metric"]), str(record["goal"])
        self._space = from_json(record["space"])
        self._opened: Study | None = None
        self._reading = threading.Lock()
        self._last, self._last_at = f"{record['state']}, {counted(record['trials'], 'trials')}", -math.inf

    @property
    def name(self) -> str:
        """The sweep's name; `wb.attach_sweep(name)` from any kernel finds it again."""
        return self._folder.name

    @property
    def path(self) -> Path:
        """The sweep's folder: its record, Optuna's study (`study.sqlite`), and its log."""
        return self._folder.path

    # --- reading ------------------------------------------------------------------------------------------------

    @property
    def metric(self) -> str:
        """The metric by which runs are judged."""
        return self._metric

    @property
    def goal(self) -> str:
        """"max" or "min"."""
        return self._goal

    @property
    def space(self) -> Space:
        """The space that is searched: a Span of numbers or a Choice by field."""
        return dict(self._space)

    @property
    def state(self) -> str:
        """starting, running, stopping, stopped, finished, failed, or dead."""
        state = str(self._folder.read()["state"])
        if state in ENDED:
            return state
        if self._folder.alive:
            return "stopping" if self._folder.order_to_stop.exists() else state
        state = str(self._folder.read()["state"])  # it may have ended since the first read
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
        """The current status."""
        return self.look()[0]

    def look(self) -> tuple[SweepStatus, list[Trial]]:
        """The current status, and all trials that have begun, oldest first. Both are final once the sweep has ended."""
        state = self.state  # read before the trials, since a sweep ends after its last trial
        record, trials = self._folder.read(), self.trials
        best = study.best(trials, self._goal)
        counts = {kind: sum(trial.state == kind for trial in trials)
                  for kind in ("running", "finished", "pruned", "failed")}
        error = record["error"]
        cost, frames = self._spent(trials) if record["config"].get("price_per_hour") else (0.0, 0)
        status = SweepStatus(
            name=self.name, state=state, trials=record["trials"], **counts, metric=self._metric,
            best_value=None if best is None else best.value, best_run="" if best is None else best.run,
            error=None if error is None else str(error["message"]), age_s=max(0.0, time.time() - record["created"]),
            waiting=sum(bool(trial.waits) for trial in trials) if state in GOING_ON else 0,
            reason=record.get("reason", ""), cost=cost, frames=frames,
        )  # fmt: skip
        self._last, self._last_at = status.line(), time.monotonic()
        return status, trials

    def _spent(self, trials: Sequence[Trial]) -> tuple[float, int]:
        """The cost of all runs, and the frames that they trained."""
        all_spent = [trial.spent for trial in trials]
        for trial in trials:
            if trial.state == "running":
                with suppress(WorkbenchError):
                    all_spent.append(spent(stored_status(self._folder.run(trial.number))))
        return sum(cost for cost, _ in all_spent), sum(frames for _, frames in all_spent)

    @property
    def table(self) -> pd.DataFrame:
        """One row per trial: trial, run, state, value, frames, minutes, each searched field, and note."""
        import pandas as pd

        goes_on = self.state in GOING_ON
        rows = [
            {"trial": trial.number, "run": trial.run,
             "state": trial.state if goes_on or trial.state != "running" else OPEN, "value": trial.value,
             "frames": trial.frames, "minutes": None if trial.seconds is None else trial.seconds / 60,
             **{name: trial.fields.get(name) for name in self._space}, "note": plain(trial.said)}
            for trial in self.trials
        ]  # fmt: skip
        columns = ["trial", "run", "state", "value", "frames", "minutes", *self._space, "note"]
        table = pd.DataFrame(rows, columns=columns).set_index("trial")
        return table.astype({"value": float, "minutes": float})

    @property
    def runs(self) -> list[Run]:
        """The runs of all trials that are there, such as for `wb.compare(sweep.runs)`."""
        directories = (self._folder.run(trial.number) for trial in self.trials)
        return [Run(directory) for directory in directories if directory.record.exists()]

    @property
    def best(self) -> Run:
        """The run with the best value, among finished runs if there are any.

        Raises InvalidInput before any run has a value, RunNotFound if that run was deleted.
        """
        return Run(self._folder.run(self._best().number))

    @property
    def best_fields(self) -> dict[str, Any]:
        """The best trial's values: `wb.launch(environment, **sweep.best_fields)`, beside what all trials
        shared, such as `algorithm=`, `preset=` and `total_frames=`. Raises InvalidInput as `best`."""
        return dict(self._best().fields)

    def _best(self) -> Trial:
        trial = study.best(self.trials, self._goal)
        if trial is None:
            state = self.state
            todo = "Look at its table, and start another one" if state in ENDED else "Wait for its first runs"
            raise InvalidInput(f"no run of {self.name} has a value of {self._metric}, and it is {state}. {todo}.")
        return trial

    @property
    def importance(self) -> dict[str, float]:
        """How much each field decides whether a trial is among the best quarter, as shares of 1, largest first.

        PED-ANOVA over finished and pruned trials; empty for fewer than 4 of them.
        """
        return study.importance(self.trials, self._space, self._goal)

    @property
    def log(self) -> str:
        """The last 4,000 bytes of its process's log."""
        return tail(self._folder.log, _LOG_BYTES)

    @checked_arguments(seconds="timeout_s=60 raises WaitTimeout after a minute; the sweep goes on.")
    def wait(self, *, timeout_s: float | None = None, progress: bool | None = None) -> SweepStatus:
        """Wait until the sweep has ended, and return its status. An interrupt leaves the sweep alone.

        Args:
            progress: whether to show a bar; None: only in an interactive session.

        Raises RunFailed if it failed, RunNotAlive if its process died, WaitTimeout after `timeout_s`.
        """
        timeout_s = waiting.TIMEOUT.check(timeout_s)
        deadline = float("inf") if timeout_s is None else time.monotonic() + timeout_s
        total = int(self._folder.read()["trials"])
        shown = interactive() if progress is None else progress
        with ProgressBar(self.name, unit="trials", total=total, shown=shown) as bar:
            while True:
                status = self.status
                bar.show(status.over, [status.line()])
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

    @checked_arguments()
    def stop(self, *, timeout_s: float | None = None) -> SweepStatus:
        """Stop the sweep and its runs, each with a checkpoint that `resume` continues from. Returns the final status.

        Args:
            timeout_s: how long to wait for the runs; None: as long as their last checkpoints may take.

        Raises WaitTimeout while they are still stopping.
        """
        timeout_s = waiting.TIMEOUT.check(timeout_s)
        if timeout_s is None:
            timeout_s = self._folder.config().last_checkpoint_s + _STOP_MARGIN_S
        before = self.state
        self._folder.ask_to_stop()
        deadline = time.monotonic() + timeout_s
        while self._folder.alive:
            if time.monotonic() > deadline:
                raise WaitTimeout(f"{self.name} has not ended after {timeout_s:g} s; its runs are still stopping.")
            time.sleep(_POLL_S)
        if before not in ENDED:
            self._stop_orphans(timeout_s)
        return self.status

    def _stop_orphans(self, timeout_s: float) -> None:
        """Stop the runs of a process that has died, or was asked to stop before it knew of those of the one before."""
        with lock.held(self._folder.start_lock, wait_s=lock.LOOK_S) as acquired:
            if not acquired or lock.is_held(self._folder.lock):
                return  # it is being resumed
            for trial in self.trials:
                if trial.state == "running":
                    with suppress(RunNotFound, StorageFailed):  # its files are gone or damaged; the others end
                        self._stop_run(self._folder.run(trial.number), timeout_s)
            if self._folder.read()["state"] not in ENDED:
                self._folder.write(state="stopped")

    def _stop_run(self, directory: RunDirectory, timeout_s: float) -> None:
        """Stop a run of the sweep that no process watches, also one that still waits for a machine."""
        if not self._folder.owns(directory) or stored_status(directory).state in ENDED:
            return
        _await_supervisor(run := Run(directory))
        withdraw(directory, launchers.by_name(self._folder.config().launcher))
        if run.status.alive:
            run.stop(timeout_s=timeout_s)

    @checked_arguments()
    def resume(
        self, *, trials: int | None = None, parallel: int | None = None, trust_code: bool = False
    ) -> Sweep:
        """Continue a sweep that was stopped, failed, died or finished; a running one is left as it is. Returns itself.

        Unfinished trials continue: a live run is watched, a stopped or dead one is resumed.

        Args:
            trials, parallel: new values; None: as before.
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
            changes["trials"] = checked_count("trials", trials, MOST_TRIALS)
        if parallel is not None:
            changes["parallel"] = parallel = checked_parallel(self._folder.config(), parallel)
            sharing_the_machine(self._folder.config(), self._space, parallel)
        if (done := self.status.over) >= changes.get("trials", record["trials"]):
            raise InvalidInput(f"{self.name} has done its {counted(done, 'trials')}. {self._remedy(record, done)}")
        checked_count("members", record.get("members", 1), MOST_TRIALS)  # each of which is begun before any trains
        trust_code = sealed.TRUST.check(trust_code)
        runs = [self._folder.run(trial.number) for trial in self.trials]
        for code in (self._folder.code, *(run.code for run in runs if run.record.exists())):
            sealed.check(code, self._folder.config(), trust_code=trust_code)
        begin(self._folder, **changes)
        return self

    def _remedy(self, record: Mapping[str, Any], trials: int) -> str:
        """Advice on how to continue once all trials are done."""
        if record["sampler"] != study.PBT:
            return f"Give more: .resume(trials={2 * trials})."
        best = study.best(self.trials, self._goal)
        if best is None or not self._folder.run(best.number).record.exists():
            return "A population keeps its size: begin a new sweep."
        more = 2 * int(record["config"]["total_frames"])
        return ("A population keeps its size: begin a new sweep, or go on with its best run: "
                f"wb.resume({best.run!r}, total_frames={more}).")

    def delete(self, *, runs: bool = False) -> Path:
        """Move the folder of this ended sweep to `$WORKBENCH_HOME/trash`, and return its new path.

        Nothing is erased: moved back to `sweeps`, the folder is a sweep again.

        Args:
            runs: whether to move its runs to the trash as well; otherwise they stay as plain runs.

        Raises RunAlive while it, or a run that would be moved, is alive; StorageFailed.
        """
        return sweep_folder.delete(self._folder, runs=runs)

    # --- showing ------------------------------------------------------------------------------------------------

    def panel(self) -> Any:
        """A new live view, as a bare `sweep` shows it. Raises MissingPackage without ipywidgets."""
        return imports.widget("views.sweep_view").SweepView(self)

    def _ipython_display_(self) -> None:
        imports.show(self, self.panel)

    def __repr__(self) -> str:
        """The last known status; an old one is first read again from the sweep's files."""
        if time.monotonic() - self._last_at > FRESH_S:
            with suppress(WorkbenchError):  # deleted or damaged: what was known
                self.look()
        return plain(f"Sweep({self.name}: {self._last})")


def _await_supervisor(run: Run) -> None:
    """Wait for the supervisor of a run that a sweep may have started just before it died."""
    created = float(run.directory.read().get("created", 0.0))
    while run.state == "dead" and 0 <= time.time() - created < _FIRST_ANSWER_S:
        time.sleep(_POLL_S)
