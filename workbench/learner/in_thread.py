"""A learner as a thread of somebody else's process, whose random numbers and threads go on as if it were not there."""

from __future__ import annotations

import torch

from workbench.learner.learner import Learner


class Left(Exception):
    """The learner was told to leave at once."""


class ThreadLearner(Learner):
    """A learner that installs no signal handler and leaves torch's random numbers alone."""

    def _build(self) -> None:
        devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
        with torch.random.fork_rng(devices=devices):  # everything of ours draws from generators of its own
            super()._build()

    def end(self) -> None:
        """End after a last checkpoint."""
        self.stop()

    def leave(self) -> None:
        """End after the update of now, without a checkpoint: `run` raises `Left`."""
        self.state.fail(Left())
