"""Trackio, in TRACKIO_DIR, or on the Space of TRACKIO_SPACE_ID, or on the server of TRACKIO_SERVER_URL.

The step is frames; steps, updates and training_s are columns beside it. Trackio writes in a thread of its own: what it
has not written when its process is killed is lost.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from workbench.trackers.contract import PROJECT, Row, TrackedRun


class TrackioTracker:
    """See `contract.Tracker`."""

    def begin(self, run: TrackedRun) -> str:
        import trackio

        project = os.environ.get("TRACKIO_PROJECT", PROJECT)
        self._run: Any = trackio.init(project=project, name=run.identity, config={**run.config}, resume="allow",
                                      embed=False, auto_log_gpu=False, auto_log_cpu=False)
        return f"run {run.identity} of project {project}"

    def send(self, rows: Sequence[Row], *, again: bool) -> None:
        for row in rows:
            event = {"event": row.event} if row.event else {}
            self._run.log({**row.columns, **event, "row": row.number}, step=row.frames)

    def finish(self, state: str) -> None:
        self._run.finish()
