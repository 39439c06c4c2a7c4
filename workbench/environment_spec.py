"""What a learner must know of an environment: its observations and its actions. NumPy only.

An actor's handshake and every checkpoint carry one as JSON; one from outside is checked before anything is made of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any, Literal, get_args

import numpy as np

_MOST, _MOST_CHOICES, _MOST_BYTES = 2**31, 2**20, 2**28  # that a spec from outside may ask for
_MOST_AXES, _MOST_NATIVE_AXES, _LONGEST_NAME = 8, 64, 1000
NEARLY_1 = 1 - 1e-6  # the largest number of a tanh_normal action that u can stand for in float32
ACTION_MASK = "action_mask"  # the member of an observation that says which choices are allowed


ActionKind = Literal["categorical", "multi_discrete", "bernoulli", "tanh_normal", "mixed"]
ACTION_KINDS: tuple[str, ...] = get_args(ActionKind)
ACTION_WORDS = {"categorical": "one choice", "multi_discrete": "several choices", "bernoulli": "switches",
                "tanh_normal": "numbers", "mixed": "mixed"}


@dataclass(frozen=True)
class NativeSpace:
    """How an environment counts, measures and shapes an action of one kind; the columns of each without axes.

    Attributes:
        shape: of one action.
        start: the first choice of each column, or switches' 0; () for numbers.
        low, high: bounds of each number; () for choices.
    """

    shape: tuple[int, ...]
    start: tuple[int, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | None) -> NativeSpace | None:
        """The space of which `data` is `asdict`, not checked; None of None. Raises TypeError where it is none."""
        return None if data is None else cls(**{name: tuple(values) for name, values in dict(data).items()})


@dataclass(frozen=True)
class ActionSpec:
    """What an action is. Its kind is also the distribution that a policy chooses it by.

        kind            shape   unrolls keep           the environment gets
        categorical     ()      int64 in [0, n)        the same
        multi_discrete  (K,)    int64 in [0, n_k)      the same
        bernoulli       (K,)    int64, 0 or 1          the same
        tanh_normal     (K,)    float32 u, any number  tanh(u) in [-1, 1]; its adapter stretches it to its own bounds
        mixed           (K,)    float32, its parts one after another: numbers as tanh_normal, choices and switches as
                                whole numbers, which float32 holds exactly up to 2**24 and no part has that many

    Attributes:
        sizes: choices of each column: (n,), (n_1, ..., n_K), (2, ...), and 0 for each number of a tanh_normal; of a
            mixed action those of its parts.
        parts: of a mixed action, in the order of its columns; none of them is mixed.
        native: the environment's own space of it; None: of a mixed one, whose parts have theirs, or as it is here, or
            not known (of a checkpoint from before it was kept). Networks do not depend on it.
    """

    kind: ActionKind
    sizes: tuple[int, ...]
    parts: tuple[ActionPart, ...] = ()
    native: NativeSpace | None = field(default=None, compare=False, repr=False)

    @classmethod
    def mixed(cls, parts: Mapping[str, ActionSpec]) -> ActionSpec:
        """A mixed action of `parts` by name."""
        return cls("mixed", tuple(chain.from_iterable(part.sizes for part in parts.values())),
                   tuple(ActionPart(name, part) for name, part in parts.items()))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ActionSpec:
        """The spec of which `data` is `asdict`, not checked. Raises KeyError or TypeError where it is none."""
        kind, sizes = data["kind"], tuple(data["sizes"])
        return cls(kind, sizes, tuple(
            ActionPart(part["name"], cls.from_json({**part["actions"], "parts": ()}))
            for part in data.get("parts", ())), NativeSpace.from_json(data.get("native")))

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one action."""
        return () if self.kind == "categorical" else (len(self.sizes),)

    @property
    def dtype(self) -> str:
        """Of actions in unrolls."""
        return "float32" if self.kind in ("tanh_normal", "mixed") else "int64"

    @property
    def wire_dtype(self) -> str:
        """Of actions on their way to the environment."""
        return "<f4" if self.dtype == "float32" else "<i4"

    @property
    def encoded_size(self) -> int:
        """Numbers by which a network is told of an action: one-hot where there are choices, else one each."""
        if self.parts:
            return sum(part.actions.encoded_size for part in self.parts)
        return len(self.sizes) if self.kind in ("bernoulli", "tanh_normal") else sum(self.sizes)

    @property
    def parameters(self) -> int:
        """Numbers that a policy says of an action: logits, or means and widths."""
        if self.parts:
            return sum(part.actions.parameters for part in self.parts)
        return 2 * len(self.sizes) if self.kind == "tanh_normal" else self.encoded_size


@dataclass(frozen=True)
class ActionPart:
    """A part of a mixed action, chosen independently of the others.

    Attributes:
        name: the keys that lead to it in a Dict or Tuple, as "outer/inner"; a Tuple's are "0", "1", ...
    """

    name: str
    actions: ActionSpec


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

    def unlike(self, other: EnvironmentSpec) -> str:
        """The first attribute by which a policy of one cannot play the other; "" if it can."""
        # parts first: observations that have some are bytes, whose number tells nobody anything
        names = ("parts", "observation_shape", "observation_dtype", "actions")
        differing = next((name for name in names if getattr(self, name) != getattr(other, name)), "")
        return differing or ("action_bounds" if self._stretches_unlike(other) else "")

    def _stretches_unlike(self, other: EnvironmentSpec) -> bool:
        """Whether the same numbers become other ones there, as far as that is known of both."""
        ours, theirs = self.action_bounds, other.action_bounds
        return len(ours) == len(theirs) and not np.allclose(ours, theirs, rtol=1e-6, atol=0)  # float32's, float64's

    @property
    def action_bounds(self) -> tuple[tuple[float, float], ...]:
        """What the environment stretches each number of an action to; () where there are none, or not known."""
        actions = self.actions
        spaces = (one.native for one in (actions, *(part.actions for part in actions.parts)))
        return tuple(chain.from_iterable(zip(space.low, space.high, strict=True) for space in spaces if space))

    def differing(self, other: EnvironmentSpec, whose: str) -> str:
        """The first such attribute, as "OTHER with actions=..., and WHOSE has ..."; `whose`: this one in words."""
        name = self.unlike(other)
        if not name:
            return ""
        return f"{other.name} with {name}={getattr(other, name)!s:.500}, and {whose} has {getattr(self, name)!s:.500}"

    @property
    def seen(self) -> tuple[Part, ...]:
        """What a network sees, the frames stacked; one part named "" is seen as a plain array."""
        parts = self.parts or (Part("", self.observation_shape, self.observation_dtype),)
        return tuple(Part(one.name, (self.frame_stack * one.shape[0], *one.shape[1:]), one.seen_dtype)
                     for one in parts)

    @property
    def action_mask(self) -> Part | None:
        """The part of an observation with a number for each choice, 0 where it is not allowed; None: all are."""
        kind, form = self.actions.kind, ((self.actions.parameters,), "float32")
        return next((part for part in self.parts if part.name == ACTION_MASK and (part.shape, part.dtype) == form
                     and kind in ("categorical", "multi_discrete")), None)

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
            given["actions"] = ActionSpec.from_json(data["actions"])
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
    if not (_is_action(actions) and spec.num_actions == actions.encoded_size):
        raise ValueError(f"no action is {actions!r:.{_LONGEST_NAME}} with num_actions={spec.num_actions}")
    if type(spec.scored) is not bool:
        raise ValueError(f"scored={spec.scored!r} is neither true nor false")
    if spec.observation_dtype == "bits" or spec.frame_stack * spec.observation_bytes > _MOST_BYTES:
        raise ValueError(f"observations of {spec.observation_shape} {spec.observation_dtype}, {spec.frame_stack} of "
                         f"them at once, are more than {_MOST_BYTES:,} bytes or of no known kind")
    names = [part.name for part in parts]
    if parts and (spec.observation_dtype != "uint8" or sum(part.wire_bytes for part in parts) != spec.observation_bytes
                  or len(set(names)) != len(names)):
        raise ValueError(f"the parts {names} do not make up an observation of {spec.observation_bytes} bytes")


def _is_action(actions: ActionSpec) -> bool:
    if actions.kind == "mixed":
        names = {part.name for part in actions.parts if type(part.name) is str and len(part.name) <= _LONGEST_NAME}
        return (0 < len(names) == len(actions.parts) and len(actions.sizes) <= _MOST_CHOICES and actions.native is None
                and all(part.actions.kind != "mixed" and _is_action(part.actions) for part in actions.parts)
                and actions.sizes == tuple(chain.from_iterable(part.actions.sizes for part in actions.parts)))
    least = 0 if actions.kind == "tanh_normal" else 1
    return (actions.kind in ACTION_KINDS and 0 < len(actions.sizes) <= _MOST_CHOICES and not actions.parts
            and all(type(size) is int and least <= size <= _MOST_CHOICES * least for size in actions.sizes)
            and (actions.kind != "categorical" or len(actions.sizes) == 1) and _is_native(actions))


def _is_native(actions: ActionSpec) -> bool:
    space, columns = actions.native, len(actions.sizes)
    if space is None:
        return True
    ends = (*space.low, *space.high)
    return (len(space.shape) <= _MOST_NATIVE_AXES and all(map(_whole, space.shape))
            and math.prod(space.shape) == columns
            and len(space.low) == len(space.high) == (columns if actions.kind == "tanh_normal" else 0)
            and all(type(end) is float and math.isfinite(end) for end in ends)
            and len(space.start) == columns - len(space.low) and all(type(first) is int for first in space.start))


def _whole(size: Any) -> bool:
    return type(size) is int and 1 <= size <= _MOST
