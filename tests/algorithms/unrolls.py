"""Random unrolls, and a network whose outputs are its parameters."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from workbench.algorithms import PolicyValueOutput
from workbench.algorithms.interface import FieldSpec
from workbench.environment_spec import EnvironmentSpec
from workbench.trajectory import Array, Flags, Unroll


def random_unroll(
    spec: EnvironmentSpec,
    *,
    length: int,
    rng: np.random.Generator,
    state: Sequence[Array] = (),
    ends: float = 0.3,
    behaviour: Mapping[str, FieldSpec] | None = None,
) -> Unroll:
    """An unroll of `length` + 1 steps with arbitrary contents; a share `ends` of them follows some kind of end.

    `behaviour` are the fields of an algorithm, those of V-trace if None.
    """
    steps = length + 1
    behaviour = behaviour or {"policy_logits": ((spec.num_actions,), "float32"), "value": ((), "float32")}
    kinds = [Flags.TERMINATED | Flags.START, Flags.TRUNCATED | Flags.START, Flags.LIFE_LOST,
             Flags.TERMINATED | Flags.TRUNCATED | Flags.START]
    flags = np.where(rng.random(steps) < ends, rng.choice([int(kind) for kind in kinds], steps), 0).astype(np.uint8)
    started = (flags & Flags.START) != 0
    truncated = (flags & (Flags.TRUNCATED | Flags.TERMINATED)) == Flags.TRUNCATED

    def frames(*lead: int) -> Array:
        return rng.integers(0, 256, (*lead, *spec.observation_shape)).astype(spec.observation_dtype)

    return Unroll(
        env_id=0,
        run_id=0,
        observation=frames(steps),
        stack_prefix=frames(spec.frame_stack - 1),
        reward=rng.normal(0, 2, steps).astype(np.float32),
        flags=flags,
        previous_action=np.where(started, 0, rng.integers(0, spec.num_actions, steps)),
        action=rng.integers(0, spec.num_actions, steps),
        policy_version=np.arange(steps),
        bootstrap_value=np.where(truncated, rng.normal(0, 3, steps), 0).astype(np.float32),
        behaviour={
            name: rng.normal(size=(steps, *shape)).astype(dtype) for name, (shape, dtype) in behaviour.items()
        },
        initial_state=tuple(state),
    )


def with_final_observations(unroll: Unroll, *, places: int, after: int, rng: np.random.Generator) -> Unroll:
    """`unroll` with arbitrary final observations of the first `places` steps after step `after` that were truncated."""
    ends = unroll.flags & int(Flags.TRUNCATED | Flags.TERMINATED)
    steps = [t for t in np.flatnonzero(ends == int(Flags.TRUNCATED)).tolist() if t > after][:places]
    frames = rng.integers(0, 256, (places, *unroll.observation.shape[1:])).astype(unroll.observation.dtype)
    return dataclasses.replace(unroll, final_step=np.array(steps + [0] * (places - len(steps))),
                               final_observation=frames)


def log_softmax(logits: list[float]) -> list[float]:
    """In Python's floats."""
    total = math.log(sum(map(math.exp, logits)))
    return [logit - total for logit in logits]


class TableNetwork(nn.Module):
    """Says what its tables hold, whatever it sees."""

    def __init__(self, policy_logits: Tensor, value: Tensor) -> None:
        super().__init__()
        self.policy_logits, self.value = nn.Parameter(policy_logits), nn.Parameter(value)

    def initial_state(self, batch: int) -> tuple[Tensor, ...]:
        return ()

    def forward(self, *inputs: Tensor | tuple[Tensor, ...]) -> tuple[PolicyValueOutput, tuple[Tensor, ...]]:
        return PolicyValueOutput(self.policy_logits, self.value), ()


def random_tables(length: int, batch: int, actions: int, rng: np.random.Generator) -> TableNetwork:
    def normal(*shape: int) -> Tensor:
        return torch.from_numpy(rng.normal(size=shape).astype(np.float32))

    return TableNetwork(normal(length + 1, batch, actions), normal(length + 1, batch))
