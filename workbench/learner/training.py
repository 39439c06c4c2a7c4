"""One optimizer step from a list of unrolls, and the guards around it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from workbench.algorithms.base import Algorithm, Network
from workbench.algorithms.batch import collate
from workbench.learner.device import Device
from workbench.trajectory import Array, Unroll

MAX_BAD_UPDATES = 10  # in a row; then the run pauses
LAG_BINS = 64  # policy lags of LAG_BINS - 1 and more share the last bin


def make_optimizer(parameters: list[nn.Parameter], config: Any) -> torch.optim.Optimizer:
    """The optimizer that the hyperparameters ask for."""
    if config.optimizer == "rmsprop":
        return torch.optim.RMSprop(parameters, lr=config.learning_rate, alpha=config.rmsprop_decay,
                                   eps=config.rmsprop_epsilon, momentum=config.rmsprop_momentum, foreach=True)
    return torch.optim.Adam(parameters, lr=config.learning_rate, betas=(config.adam_beta1, config.adam_beta2),
                            eps=config.adam_epsilon, foreach=True)


class Trainer:
    """The trained network, its optimizer, and the sums of loss terms since the last look."""

    def __init__(self, network: nn.Module, algorithm: Algorithm, device: Device, config: Any) -> None:
        self.network, self.algorithm = network, algorithm
        self.parameters = [*network.parameters(), *algorithm.parameters()]
        self.optimizer = make_optimizer(self.parameters, config)
        self.updates = 0
        self.bad_updates = 0
        self._device = device
        self._lock = threading.Lock()  # of the sums, which another thread drains
        self._sums: dict[str, torch.Tensor] = {}
        self._summed = 0
        self._ratios: torch.Tensor | None = None
        self._lags = np.zeros(LAG_BINS, np.int64)

    def update(
        self, unrolls: Sequence[Unroll], *, config: Any, learning_rate: float, on_bad: Callable[[str], None]
    ) -> None:
        """Train on `unrolls` once. An update whose loss or gradient is not finite is skipped and told to `on_bad`."""
        self._count_lags(unrolls)
        batch = collate(unrolls, pin_memory=self._device.kind == "cuda").to(self._device.torch)
        with self._device.autocast():
            loss = self.algorithm.loss(cast(Network, self.network), batch=batch, config=config)
        self.optimizer.zero_grad(set_to_none=True)
        loss.total.backward()  # type: ignore[no-untyped-call]
        norm = self._clip_gradients(config.max_gradient_norm)
        if not torch.isfinite(norm + loss.total.detach()):
            self.bad_updates += 1
            on_bad(f"loss {loss.total.item():g}, gradient norm {norm.item():g}")
            return
        self.bad_updates = 0
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.step()
        self.updates += 1
        self._add({**loss.scalars, "gradient_norm": norm}, loss.importance_ratios)

    def _clip_gradients(self, max_norm: float) -> torch.Tensor:
        """The global norm before it was clipped."""
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients, foreach=True)
        if max_norm > 0:
            torch.nn.utils.clip_grads_with_norm_(self.parameters, max_norm, norm, foreach=True)
        return norm

    def _count_lags(self, unrolls: Sequence[Unroll]) -> None:
        acted = np.concatenate([unroll.policy_version[:-1] for unroll in unrolls])
        lags = np.bincount(np.clip(self.updates - acted, 0, LAG_BINS - 1).ravel(), minlength=LAG_BINS)
        with self._lock:
            self._lags += lags

    def _add(self, scalars: dict[str, torch.Tensor], ratios: torch.Tensor) -> None:
        with self._lock:
            for name, value in scalars.items():
                self._sums[name] = self._sums.get(name, torch.zeros_like(value)) + value
            self._summed += 1
            self._ratios = ratios

    def drain(self) -> tuple[dict[str, float], Array, Array | None]:
        """Since the last call: means of the loss terms, histogram of policy lags, and the newest importance ratios."""
        with self._lock:
            sums, number, lags, ratios = self._sums, self._summed, self._lags, self._ratios
            self._sums, self._summed, self._ratios, self._lags = {}, 0, None, np.zeros(LAG_BINS, np.int64)
        means = {name: float(total) / number for name, total in sums.items()}
        return means, lags, None if ratios is None else ratios.float().cpu().numpy().ravel()
