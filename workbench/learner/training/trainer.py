"""One optimizer step on a batch of unrolls, and the guards around it.

An update that is not finite is skipped. A device that runs ahead of the host (`Device.lags`) undoes such a step itself,
and the host learns of it two updates later: so the host never waits for the update that it has just launched.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from workbench.algorithms import returned
from workbench.algorithms.batch import Batch
from workbench.algorithms.interface import Algorithm, Loss, Network, inner
from workbench.algorithms.own_code import is_own, own_code, own_network
from workbench.algorithms.rate_factors import RateFactors
from workbench.learner.devices.device import Device
from workbench.learner.devices.recording import RUNS_TO_RECORD
from workbench.learner.training.data_parallel import Alone, Group, Learners, is_loss
from workbench.learner.training.optimizers import fill_state, lay_out, make_optimizer
from workbench.networks.normalization import Observed
from workbench.trajectory import Array

MAX_BAD_UPDATES = 10  # in a row; then the run pauses
_FINITE = "finite"  # the sum that counts the updates that a device which runs ahead did not skip
LAG_UPDATES = 2  # by which the host checks updates later than a device that runs ahead makes them


class Trainer:
    """The trained network, its optimizer, and the sums of loss terms since the last `drain`."""

    def __init__(self, network: nn.Module, algorithm: Algorithm, device: Device, config: Any) -> None:
        self.network, self.algorithm = network, algorithm
        generator = device.generator(algorithm.training_generator.initial_seed())
        if generator.device != algorithm.training_generator.device:
            algorithm.training_generator = generator
        algorithm.prepare(network)
        algorithm.to(device.torch)
        self.parameters = [*network.parameters(), *algorithm.parameters()]
        self._factors = RateFactors(algorithm, inner(network), config)
        self.optimizer = make_optimizer(
            self._factors.groups, config, foreach=device.foreach, fused=device.fused, capturable=device.capturable)
        self.updates = 0
        self.bad_updates = 0
        self._device = device
        self._recorder = device.recorder(algorithm.training_generator)
        if device.compiles or self._recorder is not None:
            fill_state(self.optimizer)
        self._rates = [torch.zeros((), device=device.torch) for _ in self._factors.groups]  # if updates are recorded
        self._learners: Learners = Alone()
        # Whether another batch may reach other weights: of what ships none does.
        self._varies = is_own(algorithm) or any(is_own(part) for part in network.modules())
        self._lock = threading.Lock()  # of the sums, which another thread drains
        self._sums, self._summed = torch.zeros(0), 0  # of the loss terms `_names`, over `_summed` updates
        self._names: list[str] = []
        self._unchecked: deque[Callable[[], list[torch.Tensor]]] = deque()  # [loss, gradient norm], not yet on the host
        self._samples: dict[str, torch.Tensor] = {}
        self._lags: list[Array] = []

    def join(self, learners: Learners) -> None:
        """From now on train on the batches of all learners together, whose weights are the same, and all else that is
        learnt; the leader's random numbers go on, and each other learner draws its own."""
        self._learners = learners
        self.algorithm.peers = learners.peers
        if isinstance(learners, Group):
            learners.equalise([*self.parameters, *self.network.buffers()])
            with own_code(self.algorithm, "load_state(...)", lets=is_loss):
                kept = self.algorithm.state()
                learners.equalise(kept.values())
                self.algorithm.load_state(kept)
        if not learners.leads:
            generator = self.algorithm.training_generator
            generator.manual_seed(learners.seed(generator.initial_seed(), self.updates))

    @property
    def device(self) -> Device:
        """Where it trains."""
        return self._device

    def warm_up(self, batches: Iterable[Batch], *, config: Any) -> None:
        """Record updates on batches of these shapes, on the CPU, before the first, which then needs no plain run.

        Their losses are not finite, so that they change neither weights nor optimizer.
        """
        generator_state = self.algorithm.training_generator.get_state()
        self._set_rates(0.0, config)
        for batch in batches:
            for value in (batch.reward, batch.weight):
                value.fill_(math.nan)
            placed = self._device.place_batch(batch)
            for _ in range(RUNS_TO_RECORD):
                self._recorded_step(placed, config)
        self.algorithm.training_generator.set_state(generator_state)

    @property
    def records(self) -> bool:
        """Whether the device records updates; those of learners that communicate cannot be recorded."""
        return self._recorder is not None and self._learners.size == 1

    def update(
        self, batch: Batch, *, config: Any, learning_rate: float, on_bad: Callable[[str], None]
    ) -> Loss | None:
        """Run one optimizer step on `batch`. Returns its Loss, or None if the update was skipped.

        Skips an update whose loss or gradient is not finite, and calls `on_bad` with the reason. A device that runs
        ahead counts a skipped update like the others; a later call then calls `on_bad`.

        Args:
            batch: on the CPU, in pinned memory if the device copies from there.
            config: the algorithm's configuration.
        """
        lags = (self.updates - batch.policy_version[:-1]).flatten().numpy()
        self._check_earlier(on_bad)
        with self._device.tracing():
            batch = self._device.place_batch(batch)
            with self._own_code("before_update"):
                self.algorithm.before_update(batch, config=config)
            self._set_rates(learning_rate, config)
            loss, loss_and_norm = self._recorded_step(batch, config)
            if self._device.lags:
                self._unchecked.append(self._device.send([loss_and_norm]))
            elif not self._is_finite(loss_and_norm, on_bad):
                return None
            else:
                lay_out(self.optimizer)
                self.optimizer.step()
            if isinstance(self.network, Observed) and len(self.network.statistics):
                seen = batch.stacked()[:-1, : config.batch_size]  # the last step is the next unroll's first; and
                self.network.observe(seen, self._learners.peers)  # demonstrations that are held out come last
            with self._own_code("after_update"):
                self.algorithm.after_update(loss, config=config)
            with self._own_code("updated"):
                self.algorithm.updated(self.network, updates=self.updates + 1, config=config)
            self.updates += 1
            self._add(loss, lags)
        return loss

    def _set_rates(self, learning_rate: float, config: Any) -> None:
        """Give each group of the optimizer its learning rate."""
        rates: Sequence[float | torch.Tensor] = [learning_rate * factor for factor in self._factors.of(config)]
        if self._recorder is not None:  # recorded updates read these tensors
            rates = [place.fill_(rate) for place, rate in zip(self._rates, rates, strict=True)]
        elif self._device.compiles and len(rates) > 1:  # XLA joins equal numbers, and compiles again when they part
            rates = self._device.place(torch.tensor(rates)).unbind()
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate

    def _recorded_step(self, batch: Batch, config: Any) -> tuple[Loss, torch.Tensor]:
        """As `_step`, launched as a whole if the device records updates."""
        if self._recorder is None or not self.records:
            return self._step(batch, config)

        def work(settings: Any, *inputs: torch.Tensor) -> tuple[Loss, torch.Tensor]:
            rest = iter(inputs)
            loss, loss_and_norm = self._step(batch.map(lambda _: next(rest)), settings)
            return loss._replace(total=loss.total.detach()), loss_and_norm

        loss, loss_and_norm = self._recorder.run(work, list(batch.arrays().values()), settings=config)
        samples = {name: value.clone() for name, value in loss.samples.items()}  # read after the next update
        return loss._replace(samples=samples), loss_and_norm

    def _step(self, batch: Batch, config: Any) -> tuple[Loss, torch.Tensor]:
        """The loss of a batch with its gradients, and [loss, gradient norm].

        On a device that runs ahead, the optimizer's step as well.
        """
        loss, norm = self._differentiate(batch, config)
        loss_and_norm, scalars = torch.stack([loss.total.detach(), norm]), {**loss.scalars, "gradient_norm": norm}
        if self._device.lags:
            finite = torch.isfinite(loss_and_norm).all()
            self._step_where(finite)
            scalars = {name: torch.where(finite, value, 0.0) for name, value in scalars.items()}
            scalars[_FINITE] = finite.float()
        return loss._replace(scalars=scalars), loss_and_norm

    def _differentiate(self, batch: Batch, config: Any) -> tuple[Loss, torch.Tensor]:
        """The loss, and the global norm of its gradient before clipping."""
        with self._device.autocast():
            loss = self._loss(batch, config)
        for parameter in self.parameters:  # as zero_grad, which takes ten times as long
            parameter.grad = None
        self._learners.backward(loss.total, self.parameters, varies=self._varies)
        if loss.enough is not None:
            loss = loss._replace(enough=self._learners.average(loss.enough))  # all learners decide alike
        return loss, self._clip_gradients(config.max_gradient_norm)

    def _loss(self, batch: Batch, config: Any) -> Loss:
        with self._own_code("loss"), own_network(self.network, self._when):
            loss = self.algorithm.loss(cast(Network, self.network), batch=batch, config=config)
        if is_own(self.algorithm):
            returned.check_loss(loss, algorithm=self.algorithm, batch=batch)
        return loss

    def _own_code(self, method: str) -> AbstractContextManager[None]:
        return own_code(self.algorithm, f"{method}(...)", self._when, lets=is_loss)

    @property
    def _when(self) -> str:
        return f" in update {self.updates + 1:,}"

    def arriving(self, loss: Loss | None) -> Callable[[], Loss | None]:
        """Start to copy to the host what the source of batches needs of `loss`. Returns a function that waits for it
        alone."""
        if loss is None or (loss.priorities is None and loss.enough is None):
            return lambda: loss
        own = {name: value for name in ("priorities", "enough") if (value := getattr(loss, name)) is not None}
        states = loss.next_states or ()
        arrive = self._device.send([*own.values(), *states])

        def arrived() -> Loss:
            values = arrive()
            ours: dict[str, Any] = dict(zip(own, values, strict=False))
            return loss._replace(**ours, next_states=tuple(values[len(own) :]) if states else loss.next_states)

        return arrived

    def _is_finite(self, loss_and_norm: torch.Tensor, on_bad: Callable[[str], None]) -> bool:
        """Whether a loss and its gradient norm are finite; calls `on_bad` otherwise. Waits for the device."""
        loss, norm = loss_and_norm.tolist()
        if math.isfinite(loss + norm):
            self.bad_updates = 0
            return True
        self.bad_updates += 1
        on_bad(f"loss {loss:g}, gradient norm {norm:g}")
        return False

    def _check_earlier(self, on_bad: Callable[[str], None]) -> None:
        """Call `on_bad` for updates that the device skipped, among those that it must have finished by now."""
        while len(self._unchecked) > LAG_UPDATES:
            self._is_finite(self._unchecked.popleft()()[0], on_bad)

    @torch.no_grad()
    def _step_where(self, finite: torch.Tensor) -> None:
        """The optimizer's step if `finite`, a bool on the device; otherwise weights and optimizer stay the same."""
        for parameter in self.parameters:
            if parameter.grad is not None:  # otherwise state that the first step creates would not be finite
                parameter.grad = torch.where(finite, parameter.grad, 0.0)
        values = (value for state in self.optimizer.state.values() for value in state.values())
        tensors = [*self.parameters, *(value for value in values if torch.is_tensor(value))]
        before = [(tensor, tensor.clone()) for tensor in tensors]
        self.optimizer.step()
        for tensor, old in before:
            tensor.copy_(torch.where(finite, tensor, old))

    def _clip_gradients(self, max_norm: float) -> torch.Tensor:
        """Clip the gradients, and return their global norm before that."""
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients, foreach=self._device.foreach)
        if max_norm > 0:
            torch.nn.utils.clip_grads_with_norm_(self.parameters, max_norm, norm, foreach=self._device.foreach)
        return norm

    def _add(self, loss: Loss, lags: Array) -> None:
        scalars, samples = loss.scalars, loss.samples
        with self._lock:
            if self._summed == 0 or self._names != list(scalars):
                self._names, self._summed = list(scalars), 0
                self._sums = self._device.place(torch.zeros(len(scalars)))
            self._sums = self._sums + torch.stack([value.float() for value in scalars.values()])
            self._summed += 1
            self._samples = {name: value.float() for name, value in samples.items()}
            self._lags.append(lags)

    def drain(self) -> tuple[dict[str, float], Array, dict[str, Array]]:
        """Means of the loss terms and policy lags of all steps, in updates, since the last call; the newest samples."""
        with self._device.tracing(), self._lock:
            names, sums, number = self._names, self._sums, self._summed
            lags, samples = self._lags, self._samples
            self._summed, self._lags, self._samples = 0, [], {}
        if not number:
            return {}, np.zeros(0, np.int64), {}
        sums_array, *arrays = self._device.fetch([sums, *samples.values()])
        totals = dict(zip(names, sums_array.tolist(), strict=True))
        updates = totals.pop(_FINITE, float(number))
        means = {name: total / updates for name, total in totals.items()} if updates else {}
        finite = {name: array.ravel() for name, array in zip(samples, arrays, strict=True)
                  if array.size and np.isfinite(array).all()}
        return means, np.concatenate(lags), finite
