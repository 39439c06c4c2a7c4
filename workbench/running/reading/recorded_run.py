"""`RecordedRun`: what a run has written, read from its directory alone, whether it lives or not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from workbench import checkpoints
from workbench.checkpoints import Checkpoint
from workbench.config import RunConfig
from workbench.errors import InvalidInput, NamesNearest, UnknownName, WrongType, checked_arguments, printable
from workbench.metrics import COUNTERS, MetricsReader
from workbench.metrics.meanings import SYNONYMS, described
from workbench.rundir import RunDirectory
from workbench.running import remote
from workbench.running.connection import still_there
from workbench.running.progress import notify
from workbench.running.reading.changes import Hyperparameter, hyperparameters
from workbench.running.reading.checkpoint_list import Checkpoints, Owner
from workbench.tables import Table

if TYPE_CHECKING:
    import pandas as pd

    from workbench.playing.rollout import Rollout
    from workbench.running.card.card import Card

_ONE_METRIC = "Give one name a call: run.metrics('episode_return'). run.metric_names lists the names."


class RecordedRun(NamesNearest):
    """The part of a `Run` that asks none of its processes."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory.that_is_there()
        self._reader = MetricsReader(self._directory.metrics)

    @property
    def name(self) -> str:
        """The run's name, or its address on a cluster; `wb.attach(name)` from any kernel finds it again."""
        return self._directory.name

    @property
    def directory(self) -> RunDirectory:
        """Where the run is on disk: its record, metrics, checkpoints and logs."""
        return self._directory

    @property
    def path(self) -> Path:
        """The run's directory as a path."""
        return self._directory.path

    @property
    def config(self) -> RunConfig:
        """The configuration, live changes included."""
        return self._directory.config()

    @property
    def hyperparameters(self) -> Table[Hyperparameter]:
        """The fields that `tune` can change, with value, default, bounds and unit."""
        return hyperparameters(self.config)

    @checked_arguments(name=_ONE_METRIC)
    def metrics(self, name: str) -> pd.DataFrame:
        """One metric up to now: columns frames, steps, updates, time_s, value. Raises UnknownName with the nearest.

        A metric of the run's algorithm, or of every run, has no rows until it is recorded. What a killed learner did
        after its last checkpoint is not of it: that was trained anew.
        """
        import pandas as pd

        if not isinstance(name, str):
            raise WrongType(f"metrics({name!r:.100}): {_ONE_METRIC}")
        names = {*self.metric_names, *described(type(self.config.hyperparameters))}
        if name not in names:
            raise UnknownName.among("metric", name, names, "run.metric_names lists those recorded.", SYNONYMS)
        return pd.DataFrame(self._reader.series(name))

    @property
    def metric_names(self) -> list[str]:
        """The names of the run's metrics, sorted."""
        still_there(self._directory)
        return self._reader.names()

    @property
    def events(self) -> pd.DataFrame:
        """The run's events, oldest first: time, kind, message, frames, steps, updates, time_s, data.

        An event before the first status of a resumed learner has no frames, steps and updates.
        """
        import pandas as pd

        from workbench.metrics.event_table import EventTable

        still_there(self._directory)
        columns = ["time", "kind", "message", *COUNTERS, "data"]
        table = EventTable(self._reader.events(), columns=columns)
        table["time"] = pd.to_datetime(table["time"], unit="s")
        table["message"] = table["message"].map(printable)
        return table.astype(dict.fromkeys(("frames", "steps", "updates"), "Int64"))  # which has missing values

    @property
    def checkpoints(self: Owner) -> Checkpoints:
        """Checkpoints on disk, oldest first: a list, which a cell shows as the inspector."""
        return Checkpoints(checkpoints.every(still_there(self.directory).checkpoints), self)

    @property
    def best(self: Owner) -> Checkpoint | None:
        """The good checkpoint on disk whose last episodes had the highest mean, the earliest of several; or None.

        The mean is that of the last episodes (`status`), of 20 at least, when it was written: of environments that
        evaluate, if any do; of scores, where there are any. Pruning keeps this checkpoint.
        """
        return checkpoints.best_good(self.checkpoints)[0]

    @property
    def rollouts(self) -> list[Rollout]:
        """The rollouts on disk that `wb.rollout` played with this run's checkpoints, oldest first, without branches."""
        from workbench.playing.rollout import every

        return every(still_there(self._directory))

    def card(self) -> Card:
        """One page to judge this run by and to repeat it: `.save("pong.md")` or .html.

        It has environment, preprocessing, hyperparameters with units, changes, seed, machine, versions, results and
        curve.
        """
        from workbench.running.card.card import card

        return card(self._directory)

    @checked_arguments(service="run.track('wandb'), for example.")
    def track(self, service: str, *, timeout_s: float | None = None) -> int:
        """Send the run's history to "wandb", "mlflow" or "trackio", and return the number of rows that were new to it.

        Each metric goes once, however often this is called: later calls send what was recorded since. The service's own
        environment variables say where it is and hold its key. `wb.launch(..., track="wandb")` sends it while the run
        learns. See docs/tools.md.

        Raises UnknownName, MissingPackage; InvalidInput while the run's own process sends it there; WorkbenchError with
        the service's error, or after `timeout_s`.
        """
        from workbench import trackers
        from workbench.playing import worker_process

        remote.check_here(self._directory, "its history is sent from there",
                          f"Launch with track={service!r}, or call run.track on the cluster.")
        run = still_there(self._directory)
        if not isinstance(service, str) or trackers.named(service) != (service,):
            raise InvalidInput(
                f"service={service!r:.100} is not one tracker. Give one of {', '.join(trackers.TRACKERS)}.")
        trackers.check_installed(service)
        run.check_own()
        answer = worker_process.answer_of("_track", {"run": str(run.path), "tracker": service}, timeout_s=timeout_s,
                                          what=f"tracking by {service}", remedy="Call it again: it goes on from there.")
        notify(f"{answer['rows']:,} rows of {run.name} went to {service}: {answer['where']}.")
        return int(answer["rows"])
