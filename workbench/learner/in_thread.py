"""A learner as a thread of a user's process, whose random numbers and threads it leaves alone."""

from __future__ import annotations

import torch

from workbench.learner.learner import Learner


class LeaveRequested(Exception):
    """The learner was asked to end at once."""


class ThreadLearner(Learner):
    """A learner that installs no signal handler and leaves torch's random numbers alone."""

    def _build(self) -> None:
        devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
        with torch.random.fork_rng(devices=devices):  # all our parts draw from their own generators
            super()._build()

    def end(self) -> None:
        """End after a last checkpoint."""
        self.stop()

    def leave(self) -> None:
        """End after the current update, without a checkpoint: `run` raises `LeaveRequested`."""
        self.state.fail(LeaveRequested())
