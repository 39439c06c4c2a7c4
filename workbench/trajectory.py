"""Steps and unrolls: the one table of shapes and time indices. NumPy only.

Step t of an unroll holds what is known when the agent sees observation x_t:

    field            shape             what
    observation      [*frame]          x_t, one single frame; after the reset if an episode ended
    reward           []                reward of the transition into x_t, not clipped
    flags            []                `Flags`: how the transition into x_t ended, and whether x_t starts an episode
    previous_action  []                a_{t-1}; 0 where an episode starts
    action           []                a_t
    policy_version   []                updates made by the weights that chose a_t
    bootstrap_value  []                behaviour's value of the true final observation where TRUNCATED, else 0
    behaviour[...]   [...]             what the algorithm keeps of the behaviour's output for x_t (logits, value)

An unroll of length T holds T+1 steps. Its last step is only for the bootstrap and is the first of the next unroll.
`stack_prefix` [frame_stack-1, *frame] holds the frames before x_0, oldest first, zeros before an episode's start;
`initial_state` is the recurrent state before x_0 was seen.
"""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Flags(enum.IntFlag):
    """What the transition into x_t was, and what x_t is. Stored as uint8."""

    TERMINATED = 1  # the episode ended: discount 0
    TRUNCATED = 2  # the episode was cut off: bootstrap from the true final observation
    LIFE_LOST = 4  # a life was lost and the game goes on: discount 0, no reset
    START = 8  # x_t is the first observation of an episode: recurrent state, frame stack, previous action reset


ENDS = Flags.TERMINATED | Flags.TRUNCATED
NO_DISCOUNT = Flags.TERMINATED | Flags.LIFE_LOST


@dataclass(frozen=True)
class EnvironmentSpec:
    """What a learner must know of an environment; the handshake of an actor carries it.

    Attributes:
        observation_shape: of one frame on the wire: (channels, height, width) or (features,).
        observation_dtype: "uint8" or "float32".
        num_actions: size of the discrete action space.
        frame_stack: frames that the learner joins along the first axis, oldest first; 1: none.
        frames_per_step: emulator frames per step (action repeats), by which steps become frames.
    """

    name: str
    observation_shape: tuple[int, ...]
    observation_dtype: str
    num_actions: int
    frame_stack: int = 1
    frames_per_step: int = 1

    @property
    def stacked_shape(self) -> tuple[int, ...]:
        """Shape of what a network sees: the frame's, with the first axis `frame_stack` times as long."""
        return (self.frame_stack * self.observation_shape[0], *self.observation_shape[1:])

    @property
    def observation_bytes(self) -> int:
        """Bytes of one frame."""
        return int(np.prod(self.observation_shape)) * np.dtype(self.observation_dtype).itemsize

    def to_json(self) -> dict[str, Any]:
        """Plain data; `from_json` is its inverse."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> EnvironmentSpec:
        """The spec that `to_json` wrote."""
        return cls(**{**data, "observation_shape": tuple(data["observation_shape"])})


@dataclass
class StepBatch:
    """One step of N environments, as an environment returns it and an actor sends it.

    Attributes:
        observation: [N, *frame], x_t, after the reset where an episode ended.
        reward: float32 [N], of the transition into x_t.
        flags: uint8 [N], see `Flags`.
        final_index: int [K], which of the N were truncated, ascending.
        final_observation: [K, *frame], their true final observations.
    """

    observation: Array
    reward: Array
    flags: Array
    final_index: Array = field(default_factory=lambda: np.zeros(0, np.int32))
    final_observation: Array | None = None


@dataclass
class Unroll:
    """T+1 consecutive steps of one environment's life; arrays as in the table above with a leading [T+1]."""

    env_id: int
    run_id: int
    observation: Array
    stack_prefix: Array
    reward: Array
    flags: Array
    previous_action: Array
    action: Array
    policy_version: Array
    bootstrap_value: Array
    behaviour: dict[str, Array]
    initial_state: tuple[Array, ...]
