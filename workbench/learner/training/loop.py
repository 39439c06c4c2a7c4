"""The training loop: between two updates it runs other threads' commands, meets the other learners, and waits."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from workbench.algorithms.batch import Batch
from workbench.algorithms.interface import Loss
from workbench.algorithms.own_code import is_own
from workbench.config import EpochsConfig
from workbench.errors import OutOfBounds
from workbench.learner.command_queue import Commands
from workbench.learner.metrics.meters import Meters
from workbench.learner.metrics.recorder import Log
from workbench.learner.orders import Orders
from workbench.learner.run_state import RunState
from workbench.learner.training.checkpoint_writer import CheckpointWriter, NoCheckpoints
from workbench.learner.training.exact_resume import Schedule
from workbench.learner.training.trainer import LAG_UPDATES, MAX_BAD_UPDATES
from workbench.replay import batch_source
from workbench.rundir import NOT_FINITE
from workbench.trajectory import Unroll

POLL_S = 0.1


class TrainingLoop:
    """Trains `state.parts` on the batches of `schedule`.

    A batch comes by `schedule.next` from the run's `Experience`, which takes unrolls from its queue; it is trained on
    once all learners have one. On a CPU an update is over when it was called. A device that runs ahead has update n-1
    behind it then: what follows an update is done one later, and its loss is looked at `LAG_UPDATES` later.
    """

    def __init__(
        self, state: RunState, *, orders: Orders, commands: Commands, log: Log, meters: Meters,
        schedule: Schedule, checkpoints: CheckpointWriter | NoCheckpoints,
    ) -> None:
        self._state, self._parts = state, state.parts
        self._orders, self._commands, self._log, self._meters = orders, commands, log, meters
        self._schedule, self._checkpoints = schedule, checkpoints
        self._draw: Batch | None = None  # waits until all learners have one
        self._updates: deque[Callable[[], None]] = deque()  # what follows updates whose losses are not yet on the host
        # What a device that runs ahead may not have read yet: unrolls whose frames lie in its own table.
        self._held: deque[Sequence[Unroll]] = deque(maxlen=LAG_UPDATES if self._parts.device.keeps_frames else 0)

    def run(self) -> None:
        """Let acting begin, and train until the run is over. Raises the failure of this learner, or PeersLost."""
        with self._parts.device.own_stream(ahead=False):
            self._warm_up()
            self._state.start()
            while not self._state.over:
                self._commands.run_pending()
                self._checkpoints.hold_for_disk()
                self._train()
                self._checkpoints.write_if_due()

    def _warm_up(self) -> None:
        """Record what updates compute, if the device records, and wait until inference has, before actors come."""
        parts, config = self._parts, self._state.hyperparameters
        if parts.trainer.records:
            parts.trainer.warm_up(batch_source.blank_batches(parts.experience, parts.layout, config=config),
                                  config=config)
        while not (self._schedule.is_recorded(timeout_s=POLL_S) or self._state.stopping):
            self._commands.run_pending()

    def _train(self) -> None:
        """Make one update if all learners have a batch."""
        if self._state.stands_still:
            self._commands.wait(POLL_S)
            self._parts.threads.interrupted()
        elif self._draw is None:
            self._draw = self._next_draw()
        draw = self._draw
        log_largest = draw.sample.log_largest if draw is not None and draw.sample is not None else 0.0
        ready = draw is not None and not self._state.stands_still
        if self._orders.meet(ready, log_largest=log_largest) and draw is not None:
            self._draw = None
            self._update(draw)
            if self._state.hyperparameters.echo_factor == 1:
                self._parts.threads.updated()
            else:  # echoes would count as speed
                self._parts.threads.interrupted()

    def _next_draw(self) -> Batch | None:
        try:
            return self._schedule.next(timeout_s=POLL_S)
        except OutOfBounds as error:  # memory ran out while the replay fills
            self._log.event("error", str(error), progress=self._state.progress)
            self._orders.pause(str(error))
            return None

    def _update(self, draw: Batch) -> None:
        state, parts, trainer = self._state, self._parts, self._parts.trainer
        batch, flights = state.learners.batch(draw), _flights_of(draw)
        with self._meters.timing("training"):
            with parts.device.tracing():  # one graph
                loss = trainer.update(batch, config=state.hyperparameters, learning_rate=state.learning_rate,
                                      on_bad=self._on_bad_update)
                if loss is None:
                    self._schedule.skipped()
                else:
                    self._publish()
            arrived, done_at = trainer.arriving(loss), parts.device.done_at() if flights else None
            self._updates.append(partial(self._finish, draw, arrived, flights, done_at))
            unfinished = 1 if parts.device.lags else 0
            if len(self._updates) > unfinished:
                self._updates.popleft()()

    def _finish(
        self, draw: Batch, arrived: Callable[[], Loss | None], flights: list[Any],
        done_at: Callable[[], float] | None,
    ) -> None:
        """Do what follows an update that the device is over with."""
        parts = self._parts
        parts.experience.after_update(draw, arrived(), self._state.hyperparameters)
        if parts.experience.between_rounds and parts.policy.version != parts.trainer.updates:
            with parts.device.tracing():  # the round has ended early
                self._publish()
        if done_at is not None:
            ended = done_at()
            for flight in flights:
                flight.ends("training", ended)
                flight.land()
        self._held.append(draw.unrolls)
        draw.unrolls = ()  # it may be trained on again

    def _publish(self) -> None:
        """Let inference act by the new weights: after each update, or after each round where the run says so."""
        hyperparameters = self._state.hyperparameters
        waits = isinstance(hyperparameters, EpochsConfig) and hyperparameters.publish == "round"
        if self._parts.experience.between_rounds or not waits:
            self._parts.policy.publish(self._parts.trainer.updates)

    def _on_bad_update(self, reason: str) -> None:
        """Log an update that all learners skipped; after too many in a row each learner pauses."""
        trainer = self._parts.trainer
        number = trainer.bad_updates
        self._log.event_of_all("error", f"update skipped, not finite: {reason} ({number} in a row)",
                               progress=self._state.progress)
        if number >= MAX_BAD_UPDATES:
            own = ["the loss"] if is_own(trainer.algorithm) else []
            own += ["the network"] if any(map(is_own, trainer.network.modules())) else []
            mend = f"; or stop the run, mend {' or '.join(own)}, and resume the run with that" if own else ""
            self._state.pause(f"{number} {NOT_FINITE} ({reason}); lower learning_rate, bound "
                              "rewards or gradients (max_abs_reward, max_gradient_norm), or fork from an earlier "
                              f"checkpoint, if there is one{mend}")
            trainer.bad_updates = 0


def _flights_of(draw: Batch) -> list[Any]:
    """The flights of a batch's unrolls, which those lose: a later epoch may train on them again."""
    flights = [unroll.flight for unroll in draw.unrolls if unroll.flight is not None]
    for unroll in draw.unrolls if flights else ():
        unroll.flight = None
    return flights
