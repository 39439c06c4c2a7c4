"""One optimizer step on a batch of unrolls, and the guards around it.

An update that is not finite is skipped. Where the device runs ahead of the host (`Device.lags`) it takes such a step
back itself, and the host learns of it two updates later: nobody waits for an update that was just asked for.
"""

from __future__ import annotations

import inspect
import math
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from workbench.algorithms.batch import Batch
from workbench.algorithms.frame_stacking import stack_frames
from workbench.algorithms.interface import Algorithm, Loss, Network
from workbench.learner.devices.device import Device
from workbench.learner.training.data_parallel import Group
from workbench.networks.normalization import Observed
from workbench.trajectory import Array

MAX_BAD_UPDATES = 10  # in a row; then the run pauses
_FINITE = "finite"  # the name of the sum of updates that a device which runs ahead did not skip
_LAG_UPDATES = 2  # by which the host judges behind a device that runs ahead


def _without_compiler(optimizer: type[torch.optim.Optimizer]) -> Any:
    """The class without the wrappers that keep torch's compiler out of its methods, for which they import it: a second
    of processor time and 70 MB in a process that compiles nothing."""
    names = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
    methods = {name: inspect.unwrap(getattr(optimizer, name)) for name in names}
    return type(optimizer.__name__, (optimizer,), {**methods, "step": torch.no_grad()(inspect.unwrap(optimizer.step))})


def make_optimizer(
    parameters: list[nn.Parameter], config: Any, *, foreach: bool = True, capturable: bool = False
) -> torch.optim.Optimizer:
    """The optimizer that the hyperparameters ask for; `capturable`: one whose step is the same graph every time."""
    if config.optimizer == "rmsprop":
        specific = {"alpha": config.rmsprop_decay, "eps": config.rmsprop_epsilon, "momentum": config.rmsprop_momentum}
        kind: type[torch.optim.Optimizer] = torch.optim.RMSprop
    else:
        specific = {"betas": (config.adam_beta1, config.adam_beta2), "eps": config.adam_epsilon}
        kind = torch.optim.Adam
    made: torch.optim.Optimizer = _without_compiler(kind)(
        parameters, lr=config.learning_rate, foreach=foreach, capturable=capturable, **specific)
    return made


def fill_state(optimizer: torch.optim.Optimizer) -> None:
    """Makes the state that an optimizer else makes in its first step, which would be a graph unlike all that follow."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = torch.zeros_like(parameter)
    optimizer.step()  # from gradients of zero: weights stay as they are
    optimizer.zero_grad(set_to_none=True)
    for state in optimizer.state.values():
        for value in state.values():
            value.zero_()


class Trainer:
    """The trained network, its optimizer, and the sums of loss terms since the last look."""

    def __init__(self, network: nn.Module, algorithm: Algorithm, device: Device, config: Any) -> None:
        self.network, self.algorithm = network, algorithm
        algorithm.prepare(network)
        self.parameters = [*network.parameters(), *algorithm.parameters()]
        self.optimizer = make_optimizer(
            self.parameters, config, foreach=device.foreach, capturable=device.capturable)
        self.updates = 0
        self.bad_updates = 0
        self._device = device
        if device.kind == "xla":
            fill_state(self.optimizer)
        self._recorder = device.recorder()
        self._rate = torch.zeros((), device=device.torch)  # the learning rate, where updates are recorded
        self._model = network  # as the loss calls it
        self._group: Group | None = None
        self._lock = threading.Lock()  # of the sums, which another thread drains
        self._sums, self._summed = torch.zeros(0), 0  # the newest of `_names` of that many updates
        self._names: list[str] = []
        self._unjudged: deque[Callable[[], list[torch.Tensor]]] = deque()  # [loss, gradient norm] on their way
        self._samples: dict[str, torch.Tensor] = {}
        self._lags: list[Array] = []

    def join(self, group: Group) -> None:
        """From now on train on the batches of all learners together, whose weights are the same."""
        self._group, self._model = group, group.averaged(self.network)

    @property
    def device(self) -> Device:
        """Where it trains."""
        return self._device

    def update(
        self, batch: Batch, *, config: Any, learning_rate: float, on_bad: Callable[[str], None]
    ) -> Loss | None:
        """Train on `batch` once; what it gave. One whose loss or gradient is not finite is skipped, and `on_bad` told.

        A device that runs ahead counts an update that it skips, and `on_bad` is told of it by a later call.

        Args:
            batch: on the CPU, pinned where the device copies from there.
            config: the algorithm's configuration.
        """
        lags = (self.updates - batch.policy_version[:-1]).flatten().numpy()
        self._judge_earlier(on_bad)
        with self._device.tracing():
            batch = self._device.place_batch(batch)
            self._set_rate(learning_rate)
            loss, told = self._recorded(batch, config)
            if self._device.lags:
                self._unjudged.append(self._device.send([told]))
            elif not self._is_finite(told, on_bad):
                return None
            else:
                self.optimizer.step()
            self.updates += 1
            if isinstance(self.network, Observed) and len(self.network.statistics):
                stacked = stack_frames(batch.observation, stack_prefix=batch.stack_prefix, start=batch.start)
                self.network.observe(stacked[:-1], self._group)  # the last step is the next unroll's first
            self.algorithm.updated(self.network, updates=self.updates, config=config)
            self._add(loss, lags)
        return loss

    def _set_rate(self, learning_rate: float) -> None:
        rate: float | torch.Tensor = learning_rate
        if self._recorder is not None:  # a recorded update reads it there
            rate = self._rate.fill_(learning_rate)
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def _recorded(self, batch: Batch, config: Any) -> tuple[Loss, torch.Tensor]:
        """`_judged`, launched as a whole where the device records work. Of several learners it is not: they talk."""
        if self._recorder is None or self._group is not None:
            return self._judged(batch, config)

        def work(settings: Any, *given: torch.Tensor) -> tuple[Loss, torch.Tensor]:
            left = iter(given)
            loss, told = self._judged(batch.map(lambda _: next(left)), settings)
            return loss._replace(total=loss.total.detach()), told

        loss, told = self._recorder.run(work, list(batch.arrays().values()), settings=config)
        samples = {name: value.clone() for name, value in loss.samples.items()}  # read after the next update
        return loss._replace(samples=samples), told

    def _judged(self, batch: Batch, config: Any) -> tuple[Loss, torch.Tensor]:
        """The loss of a batch, and [loss, gradient norm]; where the device runs ahead, the step is made already."""
        loss, norm = self._differentiate(batch, config)
        told, scalars = torch.stack([loss.total.detach(), norm]), {**loss.scalars, "gradient_norm": norm}
        if self._device.lags:
            finite = torch.isfinite(told).all()
            self._step_where(finite)
            scalars = {name: torch.where(finite, value, 0.0) for name, value in scalars.items()}
            scalars[_FINITE] = finite.float()
        return loss._replace(scalars=scalars), told

    def _differentiate(self, batch: Batch, config: Any) -> tuple[Loss, torch.Tensor]:
        """The loss, and the global norm of its gradient before that was clipped."""
        with self._device.autocast():
            loss = self.algorithm.loss(cast(Network, self._model), batch=batch, config=config)
        self.optimizer.zero_grad(set_to_none=True)
        self._backward(loss.total)
        return loss, self._clip_gradients(config.max_gradient_norm)

    def arriving(self, loss: Loss | None) -> Callable[[], Loss | None]:
        """What the replay learns of an update, on its way to the host; calling it waits for that update alone."""
        if loss is None or loss.priorities is None:
            return lambda: loss
        states = loss.next_states or ()
        arrive = self._device.send([loss.priorities, *states])

        def arrived() -> Loss:
            priorities, *rest = arrive()
            return loss._replace(priorities=priorities, next_states=tuple(rest) if states else loss.next_states)

        return arrived

    def _is_finite(self, told: torch.Tensor, on_bad: Callable[[str], None]) -> bool:
        """Whether a loss and its gradient norm are; waits for the device."""
        loss, norm = told.tolist()
        if math.isfinite(loss + norm):
            self.bad_updates = 0
            return True
        self.bad_updates += 1
        on_bad(f"loss {loss:g}, gradient norm {norm:g}")
        return False

    def _judge_earlier(self, on_bad: Callable[[str], None]) -> None:
        """Tell of updates that the device skipped, of those that it has long made."""
        while len(self._unjudged) > _LAG_UPDATES:
            self._is_finite(self._unjudged.popleft()()[0], on_bad)

    @torch.no_grad()
    def _step_where(self, finite: torch.Tensor) -> None:
        """The optimizer's step where `finite`, a bool on the device; else weights and optimizer stay as they are."""
        for parameter in self.parameters:
            if parameter.grad is not None:  # else the optimizer's first step would keep what is not finite
                parameter.grad = torch.where(finite, parameter.grad, 0.0)
        kept = [one for state in self.optimizer.state.values() for one in state.values() if torch.is_tensor(one)]
        before = [(one, one.clone()) for one in (*self.parameters, *kept)]
        self.optimizer.step()
        for one, old in before:
            one.copy_(torch.where(finite, one, old))

    def _backward(self, total: torch.Tensor) -> None:
        """The gradients of `total`, or of the mean of all learners' totals."""
        if self._group is None:
            total.backward()  # type: ignore[no-untyped-call]
            return
        # One that is not finite makes all its gradients so, and their means: all learners skip the same updates.
        total.backward(1 + 0 * total.detach())  # type: ignore[no-untyped-call]
        for parameter in self.algorithm.parameters():
            if parameter.grad is not None:
                self._group.average(parameter.grad)

    def _clip_gradients(self, max_norm: float) -> torch.Tensor:
        """The global norm before it was clipped."""
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
        """Since the last call: means of the loss terms, policy lags of all steps in updates, and the newest samples."""
        with self._device.tracing(), self._lock:
            names, sums, number = self._names, self._sums, self._summed
            lags, samples = self._lags, self._samples
            self._summed, self._lags, self._samples = 0, [], {}
        if not number:
            return {}, np.zeros(0, np.int64), {}
        fetched, *kept = self._device.fetch([sums, *samples.values()])
        totals = dict(zip(names, fetched.tolist(), strict=True))
        made = totals.pop(_FINITE, float(number))
        means = {name: total / made for name, total in totals.items()} if made else {}
        plain = {name: sample.ravel() for name, sample in zip(samples, kept, strict=True) if np.isfinite(sample).all()}
        return means, np.concatenate(lags), plain
