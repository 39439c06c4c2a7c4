"""The seam between the learner, an algorithm and a network: what each may expect of the others.

The learner owns data, devices and the optimizer. An algorithm turns network outputs into actions and unrolls into a
loss. A network maps time-major tensors to the outputs that the algorithm asks for; inference is the same call with T=1.
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
    """What a network for V-trace says of x_t.

    Attributes:
        policy_logits: float32 [T, B, A], the parameters of the policy's distribution: logits where actions are choices
            (see `distributions`), A = `spec.actions.parameters`.
        value: float32 [T, B].
    """

    policy_logits: Tensor
    value: Tensor


class QValueOutput(NamedTuple):
    """What a network for R2D2 says of x_t.

    Attributes:
        q_values: float32 [T, B, A], of rescaled returns where the algorithm rescales them.
    """

    q_values: Tensor


NetworkOutput = PolicyValueOutput | QValueOutput


@dataclass(frozen=True)
class Heads:
    """What an algorithm wants on top of a torso.

    Attributes:
        output: the class of the network's outputs.
        recurrent: whether the network chosen by default has an LSTM.
        lstm_size: units of an LSTM.
        dueling_size: units of the hidden layer in each dueling head; 0 without dueling heads.
    """

    output: type[PolicyValueOutput] | type[QValueOutput] = PolicyValueOutput
    recurrent: bool = False
    lstm_size: int = 256
    dueling_size: int = 0


class Network(Protocol):
    """A network with or without memory; any nn.Module with these methods."""

    def initial_state(self, batch: int) -> State:
        """Zeros, each [batch, ...], on the network's device; () without memory."""

    def __call__(
        self, observation: Tensor, previous_action: Tensor, reward: Tensor, start: Tensor, state: State
    ) -> tuple[Any, State]:
        """The output at every step, of the class that `Heads.output` names, and the state after the last.

        Args:
            observation: uint8 or float32 [T, B, *stacked], or such tensors by name where observations have parts.
            previous_action: int64 or float32 [T, B, *action], ignored where `start`.
            reward: float32 [T, B] of the transition into x_t, ignored where `start`.
            start: bool [T, B]; the state is zeroed before step t where it is set.
            state: as `initial_state` returns it, before the first step.
        """


class Roles(NamedTuple):
    """What the environments of a batch's rows act for.

    Attributes:
        rank: float32 [B], place i/(N-1) of the environment among the N that explore: 0 … 1.
        evaluation: bool [B], whether it plays without exploring.
    """

    rank: Tensor
    evaluation: Tensor

    @classmethod
    def evaluating(cls, number: int) -> Roles:
        """Roles of `number` rows that all evaluate."""
        return cls(torch.ones(number), torch.ones(number, dtype=torch.bool))


class Loss(NamedTuple):
    """What one batch gives. Tensors are detached but for `total`, and still on the device.

    Attributes:
        total: the scalar to differentiate.
        scalars: 0-d tensors by metric name.
        samples: tensors of any shape by name, for histograms over `Algorithm.histogram_edges`.
        priorities: [B] for prioritized replay, or None.
        next_states: [B, ...] each, the recurrent state as recomputed before the first step of the unrolls that follow
            these, or None.
    """

    total: Tensor
    scalars: dict[str, Tensor]
    samples: dict[str, Tensor]
    priorities: Tensor | None = None
    next_states: State | None = None


class Algorithm(Protocol):
    """What the learner asks of an algorithm. `config` is the algorithm's live configuration at each call."""

    overlap: int  # steps that consecutive unrolls share beyond the one that every unroll shares (R2D2: burn-in)
    heads: Heads
    histogram_edges: Mapping[str, tuple[float, ...]]  # of `Loss.samples`, ascending; samples beyond them are clipped

    def behaviour_fields(self) -> Mapping[str, FieldSpec]:
        """What of the behaviour's output is kept with every step."""

    def act(
        self, output: Any, *, roles: Roles, greedy: bool, generator: torch.Generator | None, config: Any
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Actions [B, *action] for an output of T=1, and the behaviour fields, each [B, ...]. `greedy`: no chance."""

    def bootstrap(self, output: Any) -> Tensor:
        """Values [B] of final observations (an output of T=1), for episodes that were cut off."""

    def loss(self, network: Network, *, batch: Batch, config: Any) -> Loss:
        """The loss of a batch. Never waits for the device."""

    def prepare(self, network: torch.nn.Module) -> None:
        """Told of the trained network once its weights are in place, before `load_state`, `loss` and `updated`."""

    def updated(self, network: torch.nn.Module, *, updates: int, config: Any) -> None:
        """Told after each update of the network, with the number of updates so far."""

    def to(self, device: torch.device | str) -> Algorithm:
        """Itself, with its learned parameters on `device`."""

    def parameters(self) -> list[torch.nn.Parameter]:
        """Learned parameters beside the network's, for the optimizer."""

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint keeps."""

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Put back what `state` returned."""


@runtime_checkable
class ReplayAlgorithm(Protocol):
    """What an algorithm has beside the above that trains from prioritized replay instead of on each unroll once."""

    def initial_priority(self, unroll: Unroll, *, config: Any) -> float:
        """Priority of a new unroll from what the behaviour said when it acted; no forward pass."""
