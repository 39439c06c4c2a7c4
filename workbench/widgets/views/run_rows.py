"""What rows of runs have in common, in a notebook's table and in JupyterLab's side panel: curves, stamps, actions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from workbench.errors import StorageFailed
from workbench.metrics import MetricsReader
from workbench.rundir import RunDirectory, lock

Row = dict[str, Any]

POINTS = 40  # of a curve, each a mean of equally many rows
CURVES = ("episode_return_mean", "episode_return")  # the first that the run has recorded

_ENDED = ("resume", "delete")
POSSIBLE = {
    "starting": ("stop",), "training": ("stop",), "paused": ("resume", "stop"),
    "stopped": _ENDED, "failed": _ENDED, "dead": _ENDED, "finished": ("delete",),
}  # the actions on a run in each state  # fmt: skip


def read(
    folders: Iterable[Any], before: Mapping[Any, tuple[Any, Row]], stamp_of: Callable[[Any], Any],
    row_of: Callable[[Any], Row | None],
) -> dict[Any, tuple[Any, Row]]:
    """Stamp and row of each folder whose row is not None; a row whose stamp is as `before` is not read again."""
    rows = {}
    for folder in folders:
        mark = stamp_of(folder)
        if mark is not None and folder in before and before[folder][0] == mark:
            rows[folder] = before[folder]
        elif (row := row_of(folder)) is not None:
            rows[folder] = mark, row
    return rows


def stamp(directory: RunDirectory) -> tuple[int, ...] | None:
    """Changes with the run's files; None while the run is alive, since they change every second, or if unknown."""
    try:
        if lock.is_alive(directory):
            return None
    except StorageFailed:
        return None
    return tuple(_modified(path) for path in (directory.record, directory.metrics, Path(f"{directory.metrics}-wal")))


def _modified(path: Path) -> int:
    """The file's modification time; 0 if it is missing or empty, since readers may leave an empty journal."""
    try:
        status = path.stat()
    except OSError:
        return 0
    return status.st_mtime_ns if status.st_size else 0


def curve(directory: RunDirectory) -> list[tuple[float, float]]:
    """Mean returns over frames, ending with the newest value; [] if they cannot be read."""
    reader = MetricsReader(directory.metrics)
    with suppress(StorageFailed):
        for name in CURVES:
            means, ends = reader.means(name, points=POINTS), reader.series(name, max_points=1)
            if len(means["value"]):
                points = [(float(x), round(float(y), 6)) for x, y in zip(means["frames"], means["value"], strict=True)]
                return [*points[:-1], (float(ends["frames"][-1]), float(ends["value"][-1]))]
    return []
