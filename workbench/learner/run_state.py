"""The state of a learner: its present configuration, whether it holds or ends, and its progress.

All threads read it. Only the training thread changes it, except by `stop` and `fail`, which any thread may call.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from workbench.config import RunConfig
from workbench.environment_spec import EnvironmentSpec
from workbench.learner.devices.device import Device
from workbench.learner.inference.batcher import Batcher
from workbench.learner.inference.inference import Inference
from workbench.learner.inference.published_weights import PublishedPolicy
from workbench.learner.training.data_parallel import Learners
from workbench.learner.training.thread_count import Threads
from workbench.learner.training.trainer import Trainer
from workbench.metrics import Progress
from workbench.replay.experience import Experience
from workbench.replay.unroll_fields import UnrollLayout


@dataclass(frozen=True)
class Parts:
    """The parts of a learner that depend on the environment, built when the first actor has described it.

    Attributes:
        device: of training.
        threads: of torch, in the training thread.
        network_name: as shown to people.
        layout: of unrolls.
        experience: the source of training's batches.
        policy: the weights that inference uses.
    """

    spec: EnvironmentSpec
    device: Device
    threads: Threads
    network_name: str
    layout: UnrollLayout
    trainer: Trainer
    experience: Experience
    policy: PublishedPolicy
    inference: Inference


class Clock:
    """Seconds of training, without pauses."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._state: tuple[float, float | None] = seconds, None  # seconds before, since when it runs; replaced as one

    def run(self, running: bool) -> None:
        """Start the clock, or stop it."""
        self._state = self.seconds, (time.monotonic() if running else None)

    @property
    def seconds(self) -> float:
        """Seconds so far, also for a thread that does not start and stop it."""
        before, since = self._state
        return before if since is None else before + time.monotonic() - since


class RunState:
    """The state of one learner.

    Args:
        learners: all learners of the run.
        paused: the reason why the run is paused; None: it is not.

    Attributes:
        config: the run's configuration.
        hyperparameters: of the run; this learner's share of them if there are several.
        batcher: of inference; follows the configuration, and pauses with training.
        paused: the reason, or None.
        hold_reason: why training waits for the disk; "" if it does not.
        failure: the error that `Learner.run` will raise.
        ready: set once `parts` and all counters may be read.
        ended: set when `Learner.run` is over.
        last_reason: of the checkpoint at the end.
        writing_replay: whether a checkpoint with its replay is being written.
        first_updates: updates with which this life began.
    """

    parts: Parts
    first_updates: int

    def __init__(self, config: RunConfig, *, learners: Learners, paused: str | None) -> None:
        self.learners = learners
        self.config, self.hyperparameters = config, config.hyperparameters
        self.batcher = Batcher(max_batch=self.max_batch, timeout_s=config.batch_timeout_ms / 1000)
        self.paused, self.hold_reason = paused, ""
        self.stopping, self.writing_replay = False, False
        self.last_reason = "stopped"
        self.failure: BaseException | None = None
        self.ready, self.ended = threading.Event(), threading.Event()
        self._last: Progress | None = None  # once training is over
        self.clock = Clock()

    def configure(self, config: RunConfig) -> None:
        """Use `config` from now on."""
        self.config, self.hyperparameters = config, self.learners.share(config.hyperparameters)
        self.batcher.configure(max_batch=self.max_batch, timeout_s=config.batch_timeout_ms / 1000)

    @property
    def environments(self) -> int:
        """Environments of this learner's actors."""
        config = self.config
        return len(range(self.learners.rank, config.actors, config.learners)) * config.envs_per_actor

    @property
    def max_batch(self) -> int:
        """Environments in a full inference batch."""
        return self.config.max_batch or max(1, self.environments // 2)

    @property
    def largest_batch(self) -> int:
        """Most environments in an inference batch: no group is split."""
        return max(self.max_batch, self.config.envs_per_actor)

    def seed(self, number: int, *more: int) -> int:
        """A seed that differs for each use of random numbers, and for each learner of a group."""
        return self.learners.seed(self.config.seed + number, *more)

    # ---- whether it goes on -----------------------------------------------------------------------------------------

    def begin(self, parts: Parts, time_s: float) -> None:
        """Begin with these parts, after `time_s` seconds of training."""
        self.parts, self.first_updates, self.clock = parts, parts.trainer.updates, Clock(time_s)

    def start(self) -> None:
        """Begin to act and train, unless paused or held; all parts are built."""
        self.ready.set()
        self._stand_or_go()

    def pause(self, reason: str | None) -> None:
        """Pause training and acting, or let them go on (None)."""
        self.paused = reason
        self._stand_or_go()

    def hold(self, reason: str) -> None:
        """Hold training and acting while the disk refuses data, or let them go on ("")."""
        self.hold_reason = reason
        self._stand_or_go()

    def stop(self, *, finished: bool = False) -> None:
        """End training at the next opportunity; or finish it, at another goal than `total_frames`."""
        self.stopping, self.last_reason = True, "finished" if finished else "stopped"

    @property
    def counts(self) -> bool:
        """Whether what is acted still counts."""
        return self._last is None

    def end_training(self) -> None:
        """Count no more: steps that are acted from now on are trained on by nobody, nor in the last checkpoint."""
        self._last = self.progress

    def fail(self, error: BaseException) -> None:
        """Let `Learner.run` raise `error`, or what failed first, after the current update."""
        self.failure, self.stopping = self.failure or error, True

    def raise_failure(self) -> None:
        """Raises the error that `fail` got, if any."""
        if self.failure is not None:
            raise self.failure

    @property
    def stands_still(self) -> bool:
        """Whether training and acting are paused or held."""
        return self.paused is not None or bool(self.hold_reason)

    def _stand_or_go(self) -> None:
        self.batcher.pause(self.stands_still)
        self.clock.run(not self.stands_still and self.ready.is_set())

    @property
    def over(self) -> bool:
        """Whether training ends; the same answer in all learners."""
        return self.learners.stops(self.stopping) or self.finished

    # ---- how far it is ----------------------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether total_frames is reached."""
        return self.ready.is_set() and self.progress.frames >= self.config.total_frames

    @property
    def progress(self) -> Progress:
        """Frames, steps and updates of all learners so far, and training time."""
        if self._last is not None:
            return self._last
        parts = self.parts
        steps = self.learners.steps(parts.inference.steps)
        return Progress(steps * parts.spec.frames_per_step, steps, parts.trainer.updates, self.clock.seconds)

    @property
    def learning_rate(self) -> float:
        """The present learning rate: warmed up over the first updates, and decayed if configured."""
        hyperparameters, progress = self.hyperparameters, self.progress
        rate: float = hyperparameters.learning_rate * min(
            1.0, (progress.updates + 1) / max(1, hyperparameters.warmup_updates))
        if hyperparameters.learning_rate_schedule == "linear":
            rate *= max(0.0, 1.0 - progress.frames / self.config.total_frames)
        return rate
