"""How a learner stands: its configuration as it is now, whether it holds or ends, and how far it is.

All threads read it. The training thread changes it, but for `stop` and `fail`, which may come from any thread.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from workbench.config import RunConfig
from workbench.learner.devices.device import Device
from workbench.learner.inference.batcher import Batcher
from workbench.learner.inference.inference import Inference
from workbench.learner.inference.published_weights import PublishedPolicy
from workbench.learner.training.data_parallel import Learners
from workbench.learner.training.trainer import Trainer
from workbench.metrics import Progress
from workbench.replay.batch_source import Experience
from workbench.trajectory import EnvironmentSpec


@dataclass(frozen=True)
class Parts:
    """What depends on the environment, and waits for the first actor: the network, and what acts by it and trains it.

    Attributes:
        device: that trains.
        threads: of torch, in the thread that trains.
        network_name: as a person knows it.
        experience: what training takes its batches from.
        policy: the weights that inference uses.
    """

    spec: EnvironmentSpec
    device: Device
    threads: int
    network_name: str
    trainer: Trainer
    experience: Experience
    policy: PublishedPolicy
    inference: Inference


class Clock:
    """Seconds of training; stands still while paused."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._before = seconds
        self._since: float | None = None

    def run(self, running: bool) -> None:
        """Start it, or stop it."""
        self._before, self._since = self.seconds, (time.monotonic() if running else None)

    @property
    def seconds(self) -> float:
        """What it shows."""
        return self._before + (time.monotonic() - self._since if self._since is not None else 0.0)


class RunState:
    """The state of one learner.

    Args:
        learners: all learners of the run.
        paused: the reason, where the run is paused.

    Attributes:
        config: the run's configuration.
        hyperparameters: its hyperparameters; of several learners this one's share.
        batcher: of inference; it goes by the configuration, and stands still with training.
        paused: the reason, or None.
        held: why training waits for the disk; "" if it does not.
        failure: what `Learner.run` will raise.
        ready: set when all is there; `parts`, and what is counted, may be looked at from then on.
        ended: set when `Learner.run` is over.
        writing_replay: whether a checkpoint with its replay is being written.
        parts: what was built for the environment.
        first_updates: updates with which this life began.
    """

    parts: Parts
    first_updates: int

    def __init__(self, config: RunConfig, *, learners: Learners, paused: str | None) -> None:
        self.learners = learners
        self.config, self.hyperparameters = config, config.hyperparameters
        self.batcher = Batcher(max_batch=self.max_batch, timeout_s=config.batch_timeout_ms / 1000)
        self.paused, self.held = paused, ""
        self.stopping, self.writing_replay = False, False
        self.failure: BaseException | None = None
        self.ready, self.ended = threading.Event(), threading.Event()
        self.clock = Clock()

    def configure(self, config: RunConfig) -> None:
        """Go by `config` from now on."""
        self.config, self.hyperparameters = config, self.learners.share(config.hyperparameters)
        self.batcher.max_batch = self.max_batch
        self.batcher.timeout_s = config.batch_timeout_ms / 1000

    @property
    def environments(self) -> int:
        """Environments of this learner's actors."""
        config = self.config
        return len(range(self.learners.rank, config.actors, config.learners)) * config.envs_per_actor

    @property
    def max_batch(self) -> int:
        """Environments in a whole batch of inference."""
        return self.config.max_batch or max(1, self.environments // 2)

    def seed(self, number: int, *more: int) -> int:
        """A seed of its own for each use of random numbers, and for each learner of a group."""
        return self.learners.seed(self.config.seed + number, *more)

    # ---- whether it goes on -----------------------------------------------------------------------------------------

    def begin(self, parts: Parts, time_s: float) -> None:
        """Count with these parts, from `time_s` seconds of training on."""
        self.parts, self.first_updates, self.clock = parts, parts.trainer.updates, Clock(time_s)

    def start(self) -> None:
        """All is there: begin to act and train, unless something holds it."""
        self.ready.set()
        self._stand_or_go()

    def pause(self, reason: str | None) -> None:
        """Hold training and acting, or let them go on (None)."""
        self.paused = reason
        self._stand_or_go()

    def hold(self, reason: str) -> None:
        """Hold training and acting while the disk takes nothing, or let them go on ("")."""
        self.held = reason
        self._stand_or_go()

    def stop(self) -> None:
        """End training soon."""
        self.stopping = True

    def fail(self, error: BaseException) -> None:
        """Let `Learner.run` raise `error` after the update of now."""
        self.failure, self.stopping = error, True

    def raise_failure(self) -> None:
        """Raises what `fail` was called with, if it was."""
        if self.failure is not None:
            raise self.failure

    @property
    def stands_still(self) -> bool:
        """Whether training and acting are held."""
        return self.paused is not None or bool(self.held)

    def _stand_or_go(self) -> None:
        self.batcher.pause(self.stands_still)
        self.clock.run(not self.stands_still and self.ready.is_set())

    @property
    def over(self) -> bool:
        """Whether training ends, for all learners at once."""
        return self.learners.stops(self.stopping) or self.finished

    # ---- how far it is ----------------------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether total_frames is reached."""
        return self.ready.is_set() and self.progress.frames >= self.config.total_frames

    @property
    def progress(self) -> Progress:
        """Frames, steps and updates of all learners, and training time, so far."""
        parts = self.parts
        steps = self.learners.steps(parts.inference.steps)
        return Progress(steps * parts.spec.frames_per_step, steps, parts.trainer.updates, self.clock.seconds)

    @property
    def learning_rate(self) -> float:
        """The learning rate now: warmed up over the first updates, and decayed if so asked."""
        hyperparameters, progress = self.hyperparameters, self.progress
        rate: float = hyperparameters.learning_rate * min(
            1.0, (progress.updates + 1) / max(1, hyperparameters.warmup_updates))
        if hyperparameters.learning_rate_schedule == "linear":
            rate *= max(0.0, 1.0 - progress.frames / self.config.total_frames)
        return rate
