"""A run with the metrics of a week: every second a value of each metric that a panel draws, an episode each second."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence

import numpy as np

from workbench import rundir
from workbench.config import RunConfig
from workbench.metrics import MetricsWriter, Progress, schema, series
from workbench.rundir import RunDirectory
from workbench.widgets.panel.dashboard import LOSSES, MEMORY, RETURNS, SPEEDS, WAITS

WEEK_S = 7 * 24 * 3600
STEPS_PER_SECOND, STEPS_PER_UPDATE, FRAMES_PER_STEP = 1000, 640, 4
NAMES = ("entropy", "learning_rate", "batch_fill", "queue_occupancy", *LOSSES, *SPEEDS, *WAITS, *MEMORY, *RETURNS[:2],
         "episode_length")


def recorded(name: str, *, seconds: int = WEEK_S, names: Sequence[str] = NAMES) -> RunDirectory:
    """A run's directory with such a history, as a learner leaves it but for its TensorBoard files."""
    config = RunConfig.build("ALE/Pong-v5", total_frames=10**10)
    directory = rundir.create(name, {"created": time.time() - seconds, "config": config.to_json(), "state": "training",
                                     "error": None, "supervisor_pid": None, "parent": None})
    connection = schema.open_for_writing(directory.metrics)
    try:
        for faster in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -100000"):
            connection.execute(f"PRAGMA {faster}")
        connection.execute("BEGIN")
        _fill(connection, names, seconds)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()
    writer = MetricsWriter(directory.metrics)
    for number in range(1, 41):
        writer.event("tune", "learning_rate 0.0006 → 0.0003", progress=at(number * seconds // 41))
    last = at(seconds - 1)
    writer.distribution("policy_lag", last, [0, 1, 2, 3], [10, 20, 5])
    writer.status({"state": "training", "frames": last.frames, "steps": last.steps, "updates": last.updates,
                   "time_s": last.time_s, "frames_per_second": 4000.0, "steps_per_second": 1000.0, "episodes": seconds,
                   "bottleneck": {"environments": 0.3, "inference": 0.2, "training": 0.8}})
    writer.close()
    return directory


def at(second: int) -> Progress:
    """How far the run is then."""
    steps = second * STEPS_PER_SECOND
    return Progress(steps * FRAMES_PER_STEP, steps, steps // STEPS_PER_UPDATE, float(second))


def _fill(connection: sqlite3.Connection, names: Sequence[str], seconds: int) -> None:
    """The first series by the code that a learner uses; SQLite copies it to the others, each with a factor."""
    values = np.random.default_rng(0).normal(size=seconds).cumsum().tolist()
    series.append(connection, names[0], [(*at(second).columns(), values[second]) for second in range(seconds)])
    for factor, name in enumerate(names[1:], 2):
        connection.execute("INSERT INTO names (name) VALUES (?)", (name,))
        (own,) = connection.execute("SELECT id FROM names WHERE name = ?", (name,)).fetchone()
        connection.execute("INSERT INTO metrics SELECT ?, row, frames, steps, updates, time_s, value * ? FROM metrics "
                           "WHERE name_id = 1", (own, factor))
        connection.execute("INSERT INTO rollups SELECT ?, level, bucket, low_row, low * ?, high_row, high * ?, "
                           "number, total * ? FROM rollups WHERE name_id = 1", (own, factor, factor, factor))
    connection.execute("INSERT INTO episodes SELECT NULL, frames, steps, updates, time_s, 'training', row % 32, value, "
                       "1000, NULL FROM metrics WHERE name_id = 1")
