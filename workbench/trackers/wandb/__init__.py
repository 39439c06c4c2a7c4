"""Weights & Biases. WANDB_MODE=offline writes below WANDB_DIR (else the workbench's home) for `wandb sync`.

History rows have frames, steps, updates and training_s as columns, and frames as every chart's x axis. W&B's own step
is the row's number, which it wants to grow: a row that comes twice is dropped by it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from workbench.rundir import home
from workbench.trackers.contract import PROJECT, Row, TrackedRun

_EXIT_CODES = {"failed": 1, "dead": 1}


class WandbTracker:
    """See `contract.Tracker`."""

    def begin(self, run: TrackedRun) -> str:
        import wandb

        self._run: Any = wandb.init(
            id=run.identity, name=run.name, project=os.environ.get("WANDB_PROJECT", PROJECT), resume="allow",
            config={**run.config}, tags=[run.tags["environment"][:64], run.tags["algorithm"][:64]],
            dir=os.environ.get("WANDB_DIR", str(home())),
            settings=wandb.Settings(console="off", disable_git=True, disable_code=True, x_disable_stats=True))
        self._run.define_metric("*", step_metric="frames")
        return str(self._run.url or self._run.dir)

    def send(self, rows: Sequence[Row], *, again: bool) -> None:
        for row in rows:
            self._run.log({**row.columns, **({"event": row.event} if row.event else {})}, step=row.number)
            if row.changes:
                self._run.config.update({**row.changes}, allow_val_change=True)

    def finish(self, state: str) -> None:
        self._run.summary["state"] = state
        self._run.finish(exit_code=_EXIT_CODES.get(state, 0))
