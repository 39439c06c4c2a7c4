"""`runs()`: every run in the home, from its files alone."""

from __future__ import annotations

import time
from dataclasses import dataclass

from workbench import rundir
from workbench.client.control import stored_status
from workbench.client.tables import Columns, Table, duration
from workbench.errors import RunNotFound, StorageFailed


@dataclass(frozen=True)
class RunSummary:
    """One line of `runs()`.

    Attributes:
        age_s: seconds since the run was launched.
        state: as in `RunStatus`.
    """

    name: str
    state: str
    age_s: float
    environment: str
    algorithm: str
    frames: int
    frames_per_second: float
    episode_return: float | None


_COLUMNS: Columns = {
    "name": lambda row: row.name,
    "state": lambda row: row.state,
    "age": lambda row: duration(row.age_s),
    "environment": lambda row: row.environment,
    "algorithm": lambda row: row.algorithm,
    "frames": lambda row: f"{row.frames:,}",
    "frames/s": lambda row: f"{row.frames_per_second:,.0f}" if row.state == "training" else "",
    "return": lambda row: "" if row.episode_return is None else f"{row.episode_return:.4g}",
}


def runs() -> Table[RunSummary]:
    """All runs, newest first, as a table; `runs()["name"]` finds one. Reads only files, so it works for dead runs."""
    rows = []
    for directory in rundir.every():
        try:
            rows.append(_summary(directory))
        except (RunNotFound, StorageFailed):
            continue  # deleted in this moment, or damaged
    return Table(rows, _COLUMNS, empty=f"no runs in {rundir.home() / 'runs'}")


def _summary(directory: rundir.RunDirectory) -> RunSummary:
    record, status = directory.read(), stored_status(directory)
    config = record["config"]
    return RunSummary(
        directory.name,
        status.state,
        max(0.0, time.time() - record.get("created", time.time())),
        config["environment"],
        config["algorithm"],
        status.frames,
        status.frames_per_second,
        status.episode_return,
    )
