"""The interfaces between the learner, an algorithm and a network.

The learner owns data, devices and the optimizer. An algorithm turns network outputs into actions and unrolls into a
loss. A network maps time-major tensors to the outputs that the algorithm needs; inference is the same call with T=1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from workbench.algorithms.batch import Batch
from workbench.trajectory import FieldSpec, Unroll

State = tuple[Tensor, ...]


class PolicyValueOutput(NamedTuple):
    """The output of a network for V-trace.

    Attributes:
        policy_logits: float32 [T, B, A], the parameters of the policy's distribution: logits where actions are choices
            (see `distributions`), A = `spec.actions.parameters`.
        value: float32 [T, B], V(x_t).
    """

    policy_logits: Tensor
    value: Tensor


class QValueOutput(NamedTuple):
    """The output of a network for R2D2.

    Attributes:
        q_values: float32 [T, B, A], Q(x_t, ·), rescaled if the algorithm rescales returns.
    """

    q_values: Tensor


NetworkOutput = PolicyValueOutput | QValueOutput


@dataclass(frozen=True)
class Heads:
    """The heads that an algorithm needs on top of a torso.

    Attributes:
        output: the class of the network's outputs.
        recurrent: whether the default network has an LSTM.
        lstm_size: units of an LSTM.
        dueling_size: units of the hidden layer in each dueling head; 0 for no dueling heads.
    """

    output: type[PolicyValueOutput] | type[QValueOutput] = PolicyValueOutput
    recurrent: bool = False
    lstm_size: int = 256
    dueling_size: int = 0


class Network(Protocol):
    """A network with or without memory: any nn.Module with these methods."""

    def initial_state(self, batch: int) -> State:
        """Zeros, each [batch, ...], on the network's device; () without memory."""

    def __call__(
        self, observation: Tensor, previous_action: Tensor, reward: Tensor, start: Tensor, state: State
    ) -> tuple[Any, State]:
        """The output at every step, of the class that `Heads.output` names, and the state after the last.

        Args:
            observation: uint8 or float32 [T, B, *stacked], or a dict of such tensors where observations have parts.
            previous_action: int64 or float32 [T, B, *action], ignored where `start`.
            reward: float32 [T, B] of the transition into x_t, ignored where `start`.
            start: bool [T, B]; where set, the state is zeroed before step t.
            state: before the first step, shaped as in `initial_state`.
        """


class Roles(NamedTuple):
    """Whether the environment of each row explores, and how much.

    Attributes:
        rank: float32 [B], rank i/(N-1) of the environment among the N that explore: 0 … 1.
        evaluation: bool [B], whether it acts without exploring.
    """

    rank: Tensor
    evaluation: Tensor

    @classmethod
    def evaluating(cls, rows: int) -> Roles:
        """Roles of `rows` rows that all evaluate."""
        return cls(torch.ones(rows), torch.ones(rows, dtype=torch.bool))


class Loss(NamedTuple):
    """The loss of a batch and its metrics. Tensors are on the device, and detached except `total`.

    Attributes:
        total: the scalar to differentiate.
        scalars: 0-d tensors by metric name.
        samples: tensors of any shape by name, for histograms over `Algorithm.histogram_edges`.
        priorities: [B] for prioritized replay, or None.
        next_states: [B, ...] each, the recomputed recurrent state before the first step of the next unrolls, or None.
    """

    total: Tensor
    scalars: dict[str, Tensor]
    samples: dict[str, Tensor]
    priorities: Tensor | None = None
    next_states: State | None = None


class Algorithm(Protocol):
    """What the learner needs of an algorithm. `config` is the algorithm's live configuration at each call."""

    overlap: int  # steps that consecutive unrolls share beyond the one that every unroll shares (R2D2: burn-in)
    heads: Heads
    histogram_edges: Mapping[str, tuple[float, ...]]  # of `Loss.samples`, ascending; samples beyond them are clipped

    def behaviour_fields(self) -> Mapping[str, FieldSpec]:
        """The fields of the behaviour's output that are stored with every step."""

    def act(
        self, output: Any, *, roles: Roles, greedy: bool, generator: torch.Generator | None, config: Any
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Actions [B, *action] for an output of T=1, and the behaviour fields [B, ...]; `greedy`: nothing is random."""

    def bootstrap(self, output: Any) -> Tensor:
        """Values [B] of final observations (an output of T=1), for truncated episodes."""

    def loss(self, network: Network, *, batch: Batch, config: Any) -> Loss:
        """The loss of a batch. Never waits for the device."""

    def prepare(self, network: torch.nn.Module) -> None:
        """Called once the network's weights are in place, before `load_state`, `loss` and `updated`."""

    def updated(self, network: torch.nn.Module, *, updates: int, config: Any) -> None:
        """Called after each update of the network, with the number of updates so far."""

    def to(self, device: torch.device | str) -> Algorithm:
        """Returns itself, with its learned parameters on `device`."""

    def parameters(self) -> list[torch.nn.Parameter]:
        """Learned parameters beside the network's, for the optimizer."""

    def state(self) -> dict[str, Tensor]:
        """The tensors that a checkpoint keeps."""

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restores what `state` returned."""


@runtime_checkable
class ReplayAlgorithm(Protocol):
    """The further method of an algorithm that trains from prioritized replay instead of on each unroll once."""

    def initial_priority(self, unroll: Unroll, *, config: Any) -> float:
        """Priority of a new unroll, from the behaviour's stored outputs; no forward pass."""
