"""MLflow, at MLFLOW_TRACKING_URI, else in `mlflow.db` of the workbench's home.

A metric's step is frames; steps, updates and training_s are metrics beside it. An event is a tag. MLflow takes metrics
of one time, step and value for one: a time's milliseconds are of the row's number, so that equal episodes stay two, and
a row that is sent twice stays one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from workbench.rundir import home
from workbench.trackers.contract import PROJECT, Row, TrackedRun

_IDENTITY = "rl-workbench.identity"
_MOST_METRICS, _MOST_PARAMS = 1000, 100  # of one request: mlflow.org/docs/latest/rest-api.html, "Log Batch"
_LONGEST_PARAM, _LONGEST_TAG = 6000, 5000
_NOT_ALLOWED = re.compile(r"[^\w./: -]")  # in a metric's name
_STATUS = {"finished": "FINISHED", "failed": "FAILED", "dead": "FAILED", "stopped": "KILLED"}


class MlflowTracker:
    """See `contract.Tracker`."""

    def begin(self, run: TrackedRun) -> str:
        from mlflow import MlflowClient

        self._client: Any = MlflowClient(os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{home() / 'mlflow.db'}")
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        experiment = self._client.get_experiment_by_name(name)
        experiment_id = experiment.experiment_id if experiment else self._client.create_experiment(name)
        known = self._client.search_runs([experiment_id], f"tags.`{_IDENTITY}` = '{run.identity}'")
        self._id = known[0].info.run_id if known else self._created(experiment_id, run)
        self._client.update_run(self._id, status="RUNNING")
        return f"run {self._id} of experiment {name}"

    def _created(self, experiment_id: str, run: TrackedRun) -> str:
        from mlflow.entities import Param

        created = self._client.create_run(experiment_id, start_time=round(1000 * run.created), run_name=run.name,
                                          tags={**run.tags, _IDENTITY: run.identity})
        params = [Param(name, str(value)[:_LONGEST_PARAM]) for name, value in run.config.items()]
        for first in range(0, len(params), _MOST_PARAMS):
            self._client.log_batch(created.info.run_id, params=params[first:first + _MOST_PARAMS])
        return str(created.info.run_id)

    def send(self, rows: Sequence[Row], *, again: bool) -> None:
        from mlflow.entities import Metric

        metrics = [
            Metric(_NOT_ALLOWED.sub("_", name), float(value), 1000 * int(row.unix_s) + row.number % 1000, row.frames)
            for row in rows for name, value in row.columns.items()]
        known = self._known({metric.key for metric in metrics}) if again else set()
        new = [metric for metric in metrics if (metric.key, metric.step, metric.timestamp, metric.value) not in known]
        for first in range(0, len(new), _MOST_METRICS):
            self._client.log_batch(self._id, metrics=new[first:first + _MOST_METRICS])
        for row in rows:
            if row.event:
                where = f"at {row.frames:,} frames, {row.event}"
                self._client.set_tag(self._id, f"event {row.number:08d}", where[:_LONGEST_TAG])

    def _known(self, keys: set[str]) -> set[tuple[str, int, int, float]]:
        return {(key, metric.step, metric.timestamp, metric.value)
                for key in keys for metric in self._client.get_metric_history(self._id, key)}

    def finish(self, state: str) -> None:
        if state != "running":  # as which it has begun
            self._client.set_terminated(self._id, status=_STATUS[state])
