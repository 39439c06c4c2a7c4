"""One optimizer step on a batch of unrolls, and the guards around it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from workbench.algorithms.base import Algorithm, Loss, Network
from workbench.algorithms.batch import Batch
from workbench.algorithms.frames import stack_frames
from workbench.learner.device import Device
from workbench.networks.observed import Observed
from workbench.trajectory import Array

MAX_BAD_UPDATES = 10  # in a row; then the run pauses


def make_optimizer(parameters: list[nn.Parameter], config: Any) -> torch.optim.Optimizer:
    """The optimizer that the hyperparameters ask for."""
    if config.optimizer == "rmsprop":
        return torch.optim.RMSprop(parameters, lr=config.learning_rate, alpha=config.rmsprop_decay,
                                   eps=config.rmsprop_epsilon, momentum=config.rmsprop_momentum, foreach=True)
    return torch.optim.Adam(parameters, lr=config.learning_rate, betas=(config.adam_beta1, config.adam_beta2),
                            eps=config.adam_epsilon, foreach=True)


def warm_up(config: Any) -> None:
    """Let torch load what the first optimizer needs: a second of processor time, mostly for its compiler."""
    parameter = nn.Parameter(torch.zeros(1))
    parameter.grad = torch.zeros(1)
    make_optimizer([parameter], config).step()


class Trainer:
    """The trained network, its optimizer, and the sums of loss terms since the last look."""

    def __init__(self, network: nn.Module, algorithm: Algorithm, device: Device, config: Any) -> None:
        self.network, self.algorithm = network, algorithm
        algorithm.prepare(network)
        self.parameters = [*network.parameters(), *algorithm.parameters()]
        self.optimizer = make_optimizer(self.parameters, config)
        self.updates = 0
        self.bad_updates = 0
        self._device = device
        self._lock = threading.Lock()  # of the sums, which another thread drains
        self._sums: dict[str, torch.Tensor] = {}
        self._summed = 0
        self._samples: dict[str, torch.Tensor] = {}
        self._lags: list[Array] = []

    def update(
        self, batch: Batch, *, config: Any, learning_rate: float, on_bad: Callable[[str], None]
    ) -> Loss | None:
        """Train on `batch` once; what it gave. One whose loss or gradient is not finite is skipped, and `on_bad` told.

        Args:
            batch: on the CPU, pinned where the device copies from there.
            config: the algorithm's configuration.
        """
        lags = (self.updates - batch.policy_version[:-1]).flatten().numpy()
        batch = batch.to(self._device.torch)
        with self._device.autocast():
            loss = self.algorithm.loss(cast(Network, self.network), batch=batch, config=config)
        self.optimizer.zero_grad(set_to_none=True)
        loss.total.backward()  # type: ignore[no-untyped-call]
        norm = self._clip_gradients(config.max_gradient_norm)
        if not torch.isfinite(norm + loss.total.detach()):
            self.bad_updates += 1
            on_bad(f"loss {loss.total.item():g}, gradient norm {norm.item():g}")
            return None
        self.bad_updates = 0
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.step()
        self.updates += 1
        if isinstance(self.network, Observed) and len(self.network.statistics):
            stacked = stack_frames(batch.observation, stack_prefix=batch.stack_prefix, start=batch.start)
            self.network.observe(stacked[:-1])  # the last step is the next unroll's first
        self.algorithm.updated(self.network, updates=self.updates, config=config)
        self._add({**loss.scalars, "gradient_norm": norm}, loss.samples, lags)
        return loss

    def _clip_gradients(self, max_norm: float) -> torch.Tensor:
        """The global norm before it was clipped."""
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients, foreach=True)
        if max_norm > 0:
            torch.nn.utils.clip_grads_with_norm_(self.parameters, max_norm, norm, foreach=True)
        return norm

    def _add(self, scalars: dict[str, torch.Tensor], samples: dict[str, torch.Tensor], lags: Array) -> None:
        with self._lock:
            for name, value in scalars.items():
                self._sums[name] = self._sums.get(name, torch.zeros_like(value)) + value
            self._summed += 1
            self._samples = samples
            self._lags.append(lags)

    def drain(self) -> tuple[dict[str, float], Array, dict[str, Array]]:
        """Since the last call: means of the loss terms, policy lags of all steps in updates, and the newest samples."""
        with self._lock:
            sums, number, lags, samples = self._sums, self._summed, self._lags, self._samples
            self._sums, self._summed, self._lags, self._samples = {}, 0, [], {}
        means = {name: float(total) / number for name, total in sums.items()}
        plain = {name: sample.float().cpu().numpy().ravel() for name, sample in samples.items()}
        return means, np.concatenate([np.zeros(0, np.int64), *lags]), plain
