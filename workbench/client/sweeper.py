"""What a sweep does in its process: it asks the study what to try, launches that, and tells the study what became.

What it knows is in the study and in the runs' folders; another process that takes over adopts the trials that were
under way.
"""

from __future__ import annotations

import shutil
import sys
import time
import warnings
from itertools import takewhile
from typing import Any

from workbench import launchers
from workbench.client import start, sweep_study
from workbench.client.sweep_folder import SweepFolder
from workbench.client.sweep_space import from_json
from workbench.client.sweep_trial import Watched
from workbench.config import RunConfig
from workbench.errors import StorageFailed, WorkbenchError
from workbench.rundir import RunDirectory

PERIOD_S = 0.5
HOPELESS = 3  # trials that failed one after the other, before any other outcome; the sweep ends


class Sweeper:
    """Starts runs, as many at a time as asked for, until there were enough or somebody asks it to stop."""

    def __init__(self, sweep: SweepFolder) -> None:
        record = sweep.read()
        self._sweep, self._record = sweep, record
        self._config = RunConfig.from_json(record["config"])
        self._code = {path.name: path.read_bytes() for path in sweep.code.glob("*.pkl")}
        self._place = launchers.by_name(self._config.launcher)
        self._study = sweep_study.opened(sweep, sampling=True)
        self._ranges = sweep_study.distributions(from_json(record["space"]))
        self._watched: list[Watched] = []

    def run(self) -> dict[str, Any]:
        """Sweep; the fields of sweep.json that say how it ended."""
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
        self.stop()
        return {"state": "stopped"}

    def stop(self) -> None:
        """Stop the runs that are under way, each with a checkpoint; their trials stay open for whoever goes on."""
        left = self._watched
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
                self._begin(sweep_study.under_way(self._study, one.number, self._ranges))

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
        """Watch the trial's run, which is made where it is not there yet."""
        run = self._sweep.run(trial.number)
        try:
            if not run.record.exists():
                self._launch(run.name, trial.params)
                say(f"{run.name}: {trial.params}")
            watched = Watched(self._study, trial, run, self._record["metric"], self._config.total_frames)
            watched.take_over()
        except StorageFailed:
            raise
        except WorkbenchError as error:
            self._failed(trial, run, error)
        else:
            self._watched.append(watched)

    def _launch(self, name: str, fields: dict[str, Any]) -> None:
        config = self._config.replaced(**fields)
        record = start.new_record(
            config, parent=self._record["parent"], code=self._code, preset=self._record["preset"]
        )
        directory = start.created(name, name, record, self._code, self._place)
        start.started(directory, self._place, wait_ready=False, ready_timeout_s=0.0, progress=False).close()

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
        ended = [one for one in sweep_study.trials(self._sweep, self._study) if one.state != "running"]
        failed = list(takewhile(lambda one: one.state == "failed", ended))
        if len(failed) < len(ended) or len(failed) < min(HOPELESS, self._record["trials"]):
            return None
        return f"the first {len(failed)} trials all failed. {failed[-1].run}: {failed[-1].note}"


def say(text: str) -> None:
    """Write a line to the sweep's log."""
    print(time.strftime("%Y-%m-%d %H:%M:%S"), text, flush=True, file=sys.stderr)
