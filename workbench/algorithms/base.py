"""The seam between the learner, an algorithm and a network: what each may expect of the others.

The learner owns data, devices and the optimizer. An algorithm turns network outputs into actions and unrolls into a
loss. A network maps time-major tensors to `NetworkOutput`; inference is the same call with T=1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from workbench.algorithms.batch import Batch

FieldSpec = tuple[tuple[int, ...], str]  # shape of one step's value, NumPy dtype


class NetworkOutput(NamedTuple):
    """What a network says of x_t.

    Attributes:
        policy_logits: float32 [T, B, A].
        value: float32 [T, B].
    """

    policy_logits: Tensor
    value: Tensor


State = tuple[Tensor, ...]


class Network(Protocol):
    """A policy and value network, with or without memory; any nn.Module with these methods."""

    def initial_state(self, batch: int) -> State:
        """Zeros, each [batch, ...], on the network's device; () without memory."""

    def __call__(
        self, observation: Tensor, previous_action: Tensor, reward: Tensor, start: Tensor, state: State
    ) -> tuple[NetworkOutput, State]:
        """The output at every step, and the state after the last.

        Args:
            observation: uint8 or float32 [T, B, *stacked].
            previous_action: int64 [T, B], ignored where `start`.
            reward: float32 [T, B] of the transition into x_t, ignored where `start`.
            start: bool [T, B]; the state is zeroed before step t where it is set.
            state: as `initial_state` returns it, before the first step.
        """


class Loss(NamedTuple):
    """What one batch gives.

    Attributes:
        total: the scalar to differentiate.
        scalars: detached 0-d tensors by metric name; still on the device, so that reading them is the caller's choice.
        importance_ratios: detached π(a|x)/μ(a|x), [T, B], for a histogram.
        priorities: [B] for prioritized replay, or None.
    """

    total: Tensor
    scalars: dict[str, Tensor]
    importance_ratios: Tensor
    priorities: Tensor | None = None


class Algorithm(Protocol):
    """What the learner asks of an algorithm. `config` is the algorithm's live configuration at each call."""

    overlap: int  # steps that consecutive unrolls share beyond the one that every unroll shares (R2D2: burn-in)

    def behaviour_fields(self) -> Mapping[str, FieldSpec]:
        """What of the behaviour's output is kept with every step."""

    def act(
        self, output: NetworkOutput, *, greedy: bool, generator: torch.Generator | None, env_ids: Tensor | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Actions int64 [B] for an output of T=1, and the behaviour fields, each [B, ...]."""

    def bootstrap(self, output: NetworkOutput) -> Tensor:
        """Values [B] of final observations (an output of T=1), for episodes that were cut off."""

    def loss(self, network: Network, *, batch: Batch, config: Any) -> Loss:
        """The loss of a batch. Never waits for the device."""

    def to(self, device: torch.device | str) -> Algorithm:
        """Itself, with its learned parameters on `device`."""

    def parameters(self) -> list[torch.nn.Parameter]:
        """Learned parameters beside the network's, for the optimizer."""

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint keeps."""

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Put back what `state` returned."""
