"""What algorithms with a state value as their baseline share: its loss, PopArt, and normalised rewards."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from workbench.algorithms.batch import Batch
from workbench.algorithms.interface import DISCOUNTED_RETURN, Algorithm, Loss
from workbench.algorithms.popart import PopArtValue, value_head
from workbench.algorithms.running_statistics import RunningStatistics
from workbench.environment_spec import EnvironmentSpec
from workbench.errors import NetworkFailed
from workbench.trajectory import FieldSpec

_PREFIX = "discounted_returns."  # of the statistics' names in a checkpoint


def baseline_loss(values: Tensor, *, targets: Tensor) -> Tensor:
    """½ mean (G - V)², a scalar; the targets have no gradient (halved as in SEED)."""
    return 0.5 * (targets.detach() - values).square().mean()


class BaselineAlgorithm(Algorithm):
    """An actor and a critic whose configuration has the fields of `BaselineFields`.

    With `normalize_values` the critic's head is a `PopArtValue`. A loss puts values, their targets and advantages
    through `in_deviations`, which makes it the loss of normalised values, and returns the targets as
    `Loss.value_targets`.

    With `normalize_rewards` rewards are divided by the running standard deviation of their discounted returns, and
    clipped to ±10 (OpenAI Baselines' VecNormalize). Inference adds up these returns, one step after another.
    """

    def __init__(self, config: Any, *, spec: EnvironmentSpec) -> None:
        super().__init__(config, spec=spec)
        self.heads = dataclasses.replace(self.heads, popart=config.normalize_values)
        self._value_head: PopArtValue | None = None
        self._returns = RunningStatistics(()) if config.normalize_rewards else None

    def behaviour_fields(self) -> Mapping[str, FieldSpec]:
        """Also the discounted return so far, where rewards are normalised."""
        added: dict[str, FieldSpec] = {} if self._returns is None else {DISCOUNTED_RETURN: ((), "float32")}
        return {**super().behaviour_fields(), **added}

    def prepare(self, network: nn.Module) -> None:
        """Finds the value head. Raises NetworkFailed for a user's network without one where values are normalised."""
        self._value_head = value_head(network) if self.heads.popart else None
        if self.heads.popart and self._value_head is None:
            raise NetworkFailed("normalize_values=True needs a value that workbench.networks.PopArtValue(features) "
                                f"computes, and {type(network).__name__} has none. Use it as the last layer of the "
                                "value, or leave normalize_values out.")

    # ---- training ---------------------------------------------------------------------------------------------------

    def in_deviations(self, values: Tensor) -> Tensor:
        """Values, targets or advantages, divided by the deviation of PopArt; as they are without it."""
        return values if self._value_head is None else values * self._value_head.per_deviation

    def rewards(self, batch: Batch, config: Any) -> Tensor:
        """r_t of steps 1 … T, [T, B], normalised where the configuration says so."""
        rewards = super().rewards(batch, config)
        return rewards if self._returns is None else self._returns.scaled(rewards)

    def normalisation(self) -> dict[str, Tensor]:
        """Metrics of what normalises: 0-d tensors by name."""
        metrics = {}
        if self._value_head is not None:
            metrics["value_mean"] = self._value_head.mean.clone()
            metrics["value_deviation"] = self._value_head.moments.deviation
        if self._returns is not None:
            metrics["return_deviation"] = self._returns.deviation
        return metrics

    def before_update(self, batch: Batch, *, config: Any) -> None:
        """Adds the discounted returns of steps 1 … T to their statistics: rewards are then normalised by these too."""
        if self._returns is not None:
            self._returns.add(batch.behaviour[DISCOUNTED_RETURN][1:].flatten(), self.peers)

    def after_update(self, loss: Loss, *, config: Any) -> None:
        """Lets the value head follow the targets of its update."""
        if self._value_head is not None and loss.value_targets is not None:
            self._value_head.follow(loss.value_targets, step_size=config.popart_step_size, peers=self.peers)

    # ---- what it has learnt beside the network ----------------------------------------------------------------------

    def to(self, device: torch.device | str) -> BaselineAlgorithm:
        """Returns itself, with its statistics on `device`."""
        super().to(device)
        if self._returns is not None:
            self._returns.to(device)
        return self

    def state(self) -> dict[str, Tensor]:
        if self._returns is None:
            return {}
        return {_PREFIX + name: value.clone() for name, value in self._returns.state_dict().items()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        if self._returns is not None:
            self._returns.load_state_dict({name.removeprefix(_PREFIX): value for name, value in state.items()
                                           if name.startswith(_PREFIX)})
