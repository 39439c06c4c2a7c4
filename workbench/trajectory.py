"""Steps and unrolls: the one table of shapes and time indices. NumPy only.

Step t of an unroll holds what is known when the agent sees observation x_t:

    field            shape             what
    observation      [*frame]          x_t, one single frame; after the reset if an episode ended
    reward           []                reward of the transition into x_t, not clipped
    flags            []                `Flags`: how the transition into x_t ended, and whether x_t starts an episode
    previous_action  [*action]         a_{t-1}; 0 where an episode starts
    action           [*action]         a_t, as its distribution keeps it (see `ActionSpec`)
    policy_version   []                updates made by the weights that chose a_t
    bootstrap_value  []                behaviour's value of the true final observation where TRUNCATED, else 0
    behaviour[...]   [...]             what the algorithm keeps of the behaviour's output for x_t (logits, value)

An action's shape is () where it is one of some choices, else one number for each of its parts.

An unroll of length T holds T+1 steps. Its last step is only for the bootstrap and is the first of the next unroll.
`stack_prefix` [frame_stack-1, *frame] holds the frames before x_0, oldest first, zeros before an episode's start;
`initial_state` is the recurrent state before x_0 was seen.
"""

from __future__ import annotations

import enum
import math
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_MOST, _MOST_CHOICES, _MOST_BYTES = 2**31, 2**20, 2**28  # that a spec from outside may ask for
_MOST_AXES, _LONGEST_NAME = 8, 1000


class Flags(enum.IntFlag):
    """What the transition into x_t was, and what x_t is. Stored as uint8."""

    TERMINATED = 1  # the episode ended: discount 0
    TRUNCATED = 2  # the episode was cut off: bootstrap from the true final observation
    LIFE_LOST = 4  # a life was lost and the game goes on: discount 0, no reset
    START = 8  # x_t is the first observation of an episode: recurrent state, frame stack, previous action reset
    ABSENT = 16  # the agent takes no part in this step (it is out of a game that others still play): no step of a life


ENDS = Flags.TERMINATED | Flags.TRUNCATED
NO_DISCOUNT = Flags.TERMINATED | Flags.LIFE_LOST


ActionKind = Literal["categorical", "multi_discrete", "bernoulli", "tanh_normal"]


@dataclass(frozen=True)
class ActionSpec:
    """What an action is. Its kind is also the distribution that a policy chooses it by.

        kind            shape   unrolls keep           the environment gets
        categorical     ()      int64 in [0, n)        the same
        multi_discrete  (K,)    int64 in [0, n_k)      the same
        bernoulli       (K,)    int64, 0 or 1          the same
        tanh_normal     (K,)    float32 u, any number  tanh(u) in [-1, 1]; its adapter stretches it to its own bounds

    Attributes:
        sizes: choices of each part: (n,), (n_1, ..., n_K), (2, ...), and 0 for each number of a tanh_normal.
    """

    kind: ActionKind
    sizes: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one action."""
        return () if self.kind == "categorical" else (len(self.sizes),)

    @property
    def dtype(self) -> str:
        """Of actions in unrolls."""
        return "float32" if self.kind == "tanh_normal" else "int64"

    @property
    def wire_dtype(self) -> str:
        """Of actions on their way to the environment."""
        return "<f4" if self.kind == "tanh_normal" else "<i4"

    @property
    def encoded_size(self) -> int:
        """Numbers by which a network is told of an action: one-hot where there are choices, else one each."""
        return len(self.sizes) if self.kind in ("bernoulli", "tanh_normal") else sum(self.sizes)

    @property
    def parameters(self) -> int:
        """Numbers that a policy says of an action: logits, or means and widths."""
        return 2 * len(self.sizes) if self.kind == "tanh_normal" else self.encoded_size


@dataclass(frozen=True)
class Part:
    """One array of an observation that has several, or that travels packed.

    Attributes:
        name: what the network finds it by; "" where it is the only one.
        shape: as the network sees it: (channels, height, width) or (features,).
        dtype: "uint8", "float32", or "bits": 0 or 255 each as a network sees it, eight to a byte on the wire.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def wire_bytes(self) -> int:
        """Bytes of it on the wire."""
        values = math.prod(self.shape)
        return -(-values // 8) if self.dtype == "bits" else values * np.dtype(self.dtype).itemsize

    @property
    def seen_dtype(self) -> str:
        """Dtype that the network sees."""
        return "uint8" if self.dtype == "bits" else self.dtype


@dataclass(frozen=True)
class EnvironmentSpec:
    """What a learner must know of an environment; the handshake of an actor carries it.

    Attributes:
        observation_shape: of one frame on the wire: (channels, height, width), (features,), or (bytes,) of its parts.
        observation_dtype: "uint8" or "float32".
        num_actions: choices of a categorical action; else `actions.encoded_size`.
        frame_stack: frames that the learner joins along the first axis, oldest first; 1: none.
        frames_per_step: emulator frames per step (action repeats), by which steps become frames.
        actions: what an action is; None: one of `num_actions` choices.
        parts: what the bytes of an observation are, one after another; (): the observation as it is on the wire.
        scored: whether steps carry a score beside the reward, where the reward is shaped.
        agents: rows that belong to one game, side by side; the number of rows is a multiple of it. Steps and frames are
            counted per row.
    """

    name: str
    observation_shape: tuple[int, ...]
    observation_dtype: str
    num_actions: int
    frame_stack: int = 1
    frames_per_step: int = 1
    actions: ActionSpec = None  # type: ignore[assignment]  # filled in below
    parts: tuple[Part, ...] = ()
    scored: bool = False
    agents: int = 1

    def __post_init__(self) -> None:
        if self.actions is None:
            object.__setattr__(self, "actions", ActionSpec("categorical", (self.num_actions,)))

    @property
    def stacked_shape(self) -> tuple[int, ...]:
        """Shape of the stacked frames as they are on the wire: the first axis `frame_stack` times as long."""
        return (self.frame_stack * self.observation_shape[0], *self.observation_shape[1:])

    @property
    def seen(self) -> tuple[Part, ...]:
        """What a network sees, the frames stacked; one part named "" is seen as a plain array."""
        parts = self.parts or (Part("", self.observation_shape, self.observation_dtype),)
        return tuple(Part(one.name, (self.frame_stack * one.shape[0], *one.shape[1:]), one.seen_dtype)
                     for one in parts)

    @property
    def shows_images(self) -> bool:
        """Whether a network sees an image, [channels, height, width]."""
        return any(len(part.shape) == 3 for part in self.seen)

    @property
    def observation_bytes(self) -> int:
        """Bytes of one frame."""
        return math.prod(self.observation_shape) * np.dtype(self.observation_dtype).itemsize

    def to_json(self) -> dict[str, Any]:
        """Plain data; `from_json` is its inverse."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> EnvironmentSpec:
        """The spec that `to_json` wrote. Raises ValueError or TypeError for anything else, KeyError for what lacks."""
        given = {**data, "observation_shape": tuple(data["observation_shape"])}
        if given.get("actions") is not None:
            given["actions"] = ActionSpec(data["actions"]["kind"], tuple(data["actions"]["sizes"]))
        given["parts"] = tuple(Part(one["name"], tuple(one["shape"]), one["dtype"]) for one in data.get("parts", ()))
        spec = cls(**given)
        _check(spec)
        return spec


def _check(spec: EnvironmentSpec) -> None:
    """Raises ValueError for what no environment can be: whoever reads it makes tables and networks of these sizes."""
    actions, parts = spec.actions, spec.parts
    for part in (*parts, Part("", spec.observation_shape, spec.observation_dtype)):
        if not (type(part.name) is str and 0 < len(part.shape) <= _MOST_AXES
                and all(_whole(size) for size in part.shape) and part.dtype in ("uint8", "float32", "bits")):
            raise ValueError(f"no observation has the part {part!r}")
    if type(spec.name) is not str or len(spec.name) > _LONGEST_NAME:
        raise ValueError(f"no environment has the name {str(spec.name)[:_LONGEST_NAME]!r}")
    sizes = {"num_actions": spec.num_actions, "frame_stack": spec.frame_stack, "agents": spec.agents,
             "frames_per_step": spec.frames_per_step}
    for name, size in sizes.items():
        if not _whole(size):
            raise ValueError(f"{name}={size!r} is not a number from 1 to {_MOST:,}")
    least = 0 if actions.kind == "tanh_normal" else 1
    if not (actions.kind in get_args(ActionKind) and 0 < len(actions.sizes) <= _MOST_CHOICES
            and all(type(size) is int and least <= size <= _MOST_CHOICES * least for size in actions.sizes)
            and (actions.kind != "categorical" or len(actions.sizes) == 1)
            and spec.num_actions == actions.encoded_size):
        raise ValueError(f"no action is {actions!r} with num_actions={spec.num_actions}")
    if type(spec.scored) is not bool:
        raise ValueError(f"scored={spec.scored!r} is neither true nor false")
    if spec.observation_dtype == "bits" or spec.frame_stack * spec.observation_bytes > _MOST_BYTES:
        raise ValueError(f"observations of {spec.observation_shape} {spec.observation_dtype}, {spec.frame_stack} of "
                         f"them at once, are more than {_MOST_BYTES:,} bytes or of no known kind")
    names = [part.name for part in parts]
    if parts and (spec.observation_dtype != "uint8" or sum(part.wire_bytes for part in parts) != spec.observation_bytes
                  or len(set(names)) != len(names)):
        raise ValueError(f"the parts {names} do not make up an observation of {spec.observation_bytes} bytes")


def _whole(size: Any) -> bool:
    return type(size) is int and 1 <= size <= _MOST


@dataclass
class StepBatch:
    """One step of N environments, as an environment returns it and an actor sends it.

    Attributes:
        observation: [N, *frame], x_t, after the reset where an episode ended.
        reward: float32 [N], of the transition into x_t.
        flags: uint8 [N], see `Flags`.
        final_index: int [K], which of the N were truncated, ascending.
        final_observation: [K, *frame], their true final observations.
        score: float32 [N], of the transition into x_t as the environment itself counts, where the spec is `scored`.
    """

    observation: Array
    reward: Array
    flags: Array
    final_index: Array = field(default_factory=lambda: np.zeros(0, np.int32))
    final_observation: Array | None = None
    score: Array | None = None


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
