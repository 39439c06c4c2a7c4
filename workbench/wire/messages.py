"""Binary layout of what actors and the learner say to each other. Little-endian; no pickle, no per-tensor protobuf.

The first message of a stream is a `Hello` in JSON, answered by a `Welcome` in JSON or by a gRPC status that says
what does not fit; fields that a receiver does not know are left out. What the actions are called goes beside it, as
metadata of the stream. Each later request is one group of environments, each reply its actions:

    request   header | reward float32[N] | flags uint8[N] | observation[N, *frame] | final_index uint16[K] |
              final_observation[K, *frame] | all else that `trajectory.StepBatch` declares, [N, ...] each: score
              float32, of environments that have one. Floating-point numbers are float32.
    reply     header | action int32[N, *action], or float32 where actions are numbers
"""

from __future__ import annotations

import functools
import json
import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from workbench.errors import ShapeMismatch
from workbench.trajectory import ActionSpec, Array, EnvironmentSpec, FieldSpec, StepBatch

PROTOCOL = 2
_REQUEST = struct.Struct("<4sHHIIff")  # magic, group, K, N, first environment, stepping s, round trip s
_REPLY = struct.Struct("<4sHHIq")  # magic, group, 0, N, policy version
_MAGIC = b"WBS1"
_FIRST = ("reward", "flags", "observation")  # of a step; what else environments give comes after the final observations
_ACTION_NAMES = "x-workbench-action-names-bin"
_LONGEST_NAMES = 4096  # bytes in JSON; a gRPC server takes 8 KiB of metadata
LARGEST_HELLO = 2**16  # bytes; one of Football's has a few hundred
_LARGEST_GROUP = 65_536  # environments
_LONGEST_S = 1e7  # of a time that an actor tells
# What reading JSON raises where it is not what was expected; RecursionError: thousands of brackets.
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)


@dataclass(frozen=True)
class Hello:
    """What an actor says first: who it is, and what its environments look like."""

    actor: int
    run_id: int
    environments: int
    groups: int
    spec: EnvironmentSpec

    def encode(self) -> bytes:
        """JSON bytes."""
        return json.dumps({"protocol": PROTOCOL, **asdict(self)}).encode()

    @classmethod
    def decode(cls, data: bytes) -> Hello:
        """The hello in `data`. Raises ShapeMismatch if it is none, of another protocol, or out of bounds."""
        if len(data) > LARGEST_HELLO:
            raise ShapeMismatch(f"the first message of a stream is no hello: it has {len(data):,} bytes, and "
                                f"{LARGEST_HELLO:,} at most are read.")
        try:
            told: dict[str, Any] = json.loads(data)
            protocol = told["protocol"]
            hello = cls(**{**_known(cls, told), "spec": EnvironmentSpec.from_json(told["spec"])})
        except _UNREADABLE as error:
            raise ShapeMismatch(f"the first message of a stream is no hello: {_short(error)}") from None
        if protocol != PROTOCOL:
            raise ShapeMismatch(
                f"the actor speaks protocol {_short(protocol)}, the learner {PROTOCOL}: install one version.")
        hello._check()
        return hello

    def _check(self) -> None:
        """Raises ShapeMismatch: whoever reads these numbers finds rows of tables by them. A life 0 is none."""
        bounds = {"actor": (0, 2**31), "run_id": (1, 2**63), "environments": (1, _LARGEST_GROUP + 1),
                  "groups": (1, _LARGEST_GROUP + 1)}
        for name, (low, high) in bounds.items():
            value = getattr(self, name)
            if type(value) is not int or not low <= value < high:
                raise ShapeMismatch(f"a hello with {name}={_short(value)} is out of bounds: it must be a whole number "
                                    f"in [{low}, {high:,}).")
        if self.groups > self.environments:
            raise ShapeMismatch(f"a hello with {self.groups} groups of {self.environments} environments is out of "
                                "bounds: each group has one at least.")


@dataclass(frozen=True)
class Welcome:
    """What the learner answers: the seed that this life of the actor starts from."""

    seed: int

    def encode(self) -> bytes:
        """JSON bytes."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> Welcome:
        """The inverse of `encode`. Raises ShapeMismatch if it is no welcome."""
        try:
            welcome = cls(**_known(cls, json.loads(data)))
        except _UNREADABLE as error:
            raise ShapeMismatch(f"the learner's first answer is no welcome: {_short(error)}") from None
        if type(welcome.seed) is not int or not 0 <= welcome.seed < 2**63:
            raise ShapeMismatch(f"the learner's first answer is no welcome: seed={_short(welcome.seed)}")
        return welcome


def _short(said: object) -> str:
    """What somebody else said, for a message: a status of gRPC has a few KiB at most."""
    text = str(said) if isinstance(said, Exception) else repr(said)
    return text if len(text) <= 200 else f"{text[:200]}..."


def _known(kind: type[Hello | Welcome], told: dict[str, Any]) -> dict[str, Any]:
    """What a message of this version has of what was told."""
    return {one.name: told[one.name] for one in fields(kind) if one.name in told}


def names_metadata(names: Sequence[str]) -> tuple[tuple[str, bytes], ...]:
    """Metadata that tells what an actor's actions are called; none where that would be too much of it."""
    told = json.dumps(list(names)).encode()
    return ((_ACTION_NAMES, told),) if len(told) <= _LONGEST_NAMES else ()


def names_in(metadata: Iterable[tuple[str, str | bytes]]) -> tuple[str, ...]:
    """What the actions are called, from a stream's metadata; () where nobody says."""
    try:
        return tuple(map(str, json.loads(dict(metadata)[_ACTION_NAMES])))
    except _UNREADABLE:
        return ()


@dataclass
class GroupStep:
    """One group of environments of an actor after a step.

    Attributes:
        group: number of the group within its actor.
        first_env: the actor's number of the group's first environment; the others follow.
        stepping_s: time the actor took to step this group.
        round_trip_s: time from this group's message before to its actions.
    """

    group: int
    first_env: int
    step: StepBatch
    stepping_s: float = 0.0
    round_trip_s: float = 0.0

    def encode(self) -> bytes:
        """The request message."""
        step = self.step
        arrays = {name: array.astype("<f4", copy=False) if array.dtype.kind == "f" else array
                  for name, array in step.arrays().items()}
        header = _REQUEST.pack(
            _MAGIC, self.group, len(step.final_index), len(step.reward), self.first_env,
            self.stepping_s, self.round_trip_s,
        )
        parts = [arrays.pop(name) for name in _FIRST]
        if len(step.final_index):
            assert step.final_observation is not None
            parts += [step.final_index.astype("<u2"), step.final_observation]
        return b"".join([header, *(np.ascontiguousarray(part).data for part in (*parts, *arrays.values()))])

    @classmethod
    def decode(cls, data: bytes, spec: EnvironmentSpec) -> GroupStep:
        """The step in `data`; its arrays are views. Raises ShapeMismatch if lengths, indices or times do not fit."""
        if len(data) < _REQUEST.size:
            raise ShapeMismatch(f"a step message of {len(data)} bytes is shorter than its header of {_REQUEST.size}.")
        magic, group, finals, count, first_env, *times = _REQUEST.unpack_from(data)
        first, rest, each = _layout(spec)
        expected = _REQUEST.size + count * each + finals * (2 + spec.observation_bytes)
        if magic != _MAGIC or len(data) != expected or not 0 < count <= _LARGEST_GROUP:
            raise ShapeMismatch(
                f"a step message of {len(data)} bytes does not fit {count} environments of {spec.name} "
                f"with observations {spec.observation_shape} {spec.observation_dtype}"
                f"{' and scores' if spec.scored else ''}: {expected} bytes expected."
            )
        if not all(0 <= time_s <= _LONGEST_S for time_s in times):  # also refuses NaN
            raise ShapeMismatch(f"a step message tells of times {times} s, which are none.")
        at = _Cursor(data, _REQUEST.size)
        arrays = {name: at.take(count, declared) for name, declared in first}
        index = at.take(finals, ((), "<u2")).astype(np.int32)
        if finals and (index.max() >= count or len(np.unique(index)) != finals):
            raise ShapeMismatch(f"final observations are of environments {index.tolist()}, the group has {count}.")
        final = at.take(finals, (spec.observation_shape, spec.observation_dtype)) if finals else None
        arrays |= {name: at.take(count, declared) for name, declared in rest}
        return cls(group, first_env, StepBatch.of(arrays, final_index=index, final_observation=final), *times)


@functools.lru_cache(16)  # a learner has one spec, and asks for each message
def _layout(spec: EnvironmentSpec) -> tuple[list[tuple[str, FieldSpec]], list[tuple[str, FieldSpec]], int]:
    """Fields of a step before and behind the final observations, and the bytes that each environment has of them."""
    specs = StepBatch.specs(spec)
    each = sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in specs.values())
    return [(name, specs.pop(name)) for name in _FIRST], list(specs.items()), each


@dataclass
class _Cursor:
    """Takes arrays one after the other from a message."""

    data: bytes
    offset: int

    def take(self, count: int, spec: FieldSpec) -> Array:
        shape, dtype = spec
        size = count * math.prod(shape)
        array = np.frombuffer(self.data, dtype, size, self.offset).reshape(count, *shape)
        self.offset += array.nbytes
        return array


@dataclass(frozen=True)
class GroupActions:
    """The actions for one group as its environments take them, [N, *action], and the policy version that chose them."""

    group: int
    actions: Array
    policy_version: int

    def encode(self) -> bytes:
        """The reply message."""
        header = _REPLY.pack(_MAGIC, self.group, 0, len(self.actions), self.policy_version)
        wire_dtype = "<f4" if self.actions.dtype.kind == "f" else "<i4"
        return header + self.actions.astype(wire_dtype).tobytes()

    @classmethod
    def decode(cls, data: bytes, actions: ActionSpec) -> GroupActions:
        """The inverse of `encode`. Raises ShapeMismatch if the length does not fit."""
        header = data[: _REPLY.size].ljust(_REPLY.size, b"\0")
        magic, group, _, count, version = _REPLY.unpack(header)
        expected = _REPLY.size + 4 * count * math.prod(actions.shape)
        if magic != _MAGIC or len(data) != expected:
            raise ShapeMismatch(f"a message of actions of {len(data)} bytes does not fit {count} actions that are "
                                f"{actions.kind} {list(actions.sizes)}: {expected} bytes expected.")
        values = _Cursor(data, _REPLY.size).take(count, (actions.shape, actions.wire_dtype))
        return cls(group, values.astype(actions.dtype), version)
