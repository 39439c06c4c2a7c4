"""Binary layout of the messages between actors and the learner. Little-endian; no pickle, no per-tensor protobuf.

The first message of a stream is a `Hello` in JSON, answered by a `Welcome` in JSON or by a gRPC status with the reason
for the refusal. Each later request holds one group of environments, and its reply their actions, unless the actor
shares memory with the learner: then the headers alone are sent, on a socket of their own (see `wire.shared_rows`).

    request   header | what `trajectory.StepBatch` declares, in its order, [N, ...] each: observation, reward float32,
              flags uint8, and score float32 of environments that have one | final_index uint16[K] |
              final_observation[K, *frame]. Floating-point numbers are float32.
    reply     header | action int32[N, *action], or float32 where actions are numbers, or mixed
"""

from __future__ import annotations

import functools
import json
import math
import struct
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from workbench.environment_spec import ActionSpec, EnvironmentSpec
from workbench.errors import ShapeMismatch
from workbench.trajectory import Array, FieldSpec, StepBatch

PROTOCOL = 3
_REQUEST = struct.Struct("<4sHHIIff")  # magic, group, K, N, first environment, stepping s, round trip s
STEP_HEADER_BYTES = _REQUEST.size
_REPLY = struct.Struct("<4sHHIq")  # magic, group, first environment (0 on the wire), N, policy version
_MAGIC = b"WBS1"
LARGEST_HELLO = 2**16  # bytes; one of Football's has a few hundred
_LONGEST_NAMES = 4096  # bytes in JSON of the names of actions
_LARGEST_GROUP = 65_536  # environments
_LONGEST_S = 1e7  # of a duration in a step message
# Errors of reading JSON that is no message of ours; RecursionError: thousands of brackets.
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)


@dataclass(frozen=True)
class Hello:
    """An actor's first message: its number, and what its environments look like.

    Attributes:
        action_names: of the environments; a message has none where they are too long for it.
    """

    actor: int
    run_id: int
    environments: int
    groups: int
    spec: EnvironmentSpec
    action_names: tuple[str, ...] = ()

    def encode(self) -> bytes:
        """The message, as JSON."""
        names = self.action_names if len(json.dumps(self.action_names)) <= _LONGEST_NAMES else ()
        return json.dumps({"protocol": PROTOCOL, **asdict(self), "action_names": names}).encode()

    @classmethod
    def decode(cls, data: bytes) -> Hello:
        """The inverse of `encode`. Raises ShapeMismatch for no hello, another protocol, or numbers out of bounds."""
        if len(data) > LARGEST_HELLO:
            raise ShapeMismatch(f"the first message of a stream is no hello: it has {len(data):,} bytes, and "
                                f"{LARGEST_HELLO:,} at most are read.")
        try:
            message: dict[str, Any] = json.loads(data)
            protocol = message.pop("protocol")
        except _UNREADABLE as error:
            raise _no_hello(error) from None
        if protocol != PROTOCOL:
            raise ShapeMismatch(
                f"the actor speaks protocol {_short(protocol)}, the learner {PROTOCOL}: install the same version.")
        try:
            spec, names = EnvironmentSpec.from_json(message.pop("spec")), tuple(message.pop("action_names"))
            hello = cls(**message, spec=spec, action_names=names)
        except _UNREADABLE as error:
            raise _no_hello(error) from None
        hello._check()
        return hello

    def _check(self) -> None:
        """Raises ShapeMismatch for numbers that are no indices of the learner's tables, and names that are no text."""
        bounds = {"actor": (0, 2**31), "run_id": (1, 2**63), "environments": (1, _LARGEST_GROUP + 1),
                  "groups": (1, _LARGEST_GROUP + 1)}
        for name, (low, high) in bounds.items():
            value = getattr(self, name)
            if type(value) is not int or not low <= value < high:
                raise ShapeMismatch(f"a hello with {name}={_short(value)} is out of bounds: it must be a whole number "
                                    f"in [{low}, {high:,}).")
        if not all(type(name) is str for name in self.action_names):
            raise ShapeMismatch(f"a hello with action_names={_short(self.action_names)}: each must be a text.")
        if self.groups > self.environments:
            raise ShapeMismatch(f"a hello with {self.groups} groups of {self.environments} environments is out of "
                                "bounds: each group has at least one.")


@dataclass(frozen=True)
class Welcome:
    """The learner's answer to a Hello: the seed of this life of the actor.

    Attributes:
        memory: path of the socket where an actor of the learner's machine gets memory to share; "": nowhere.
    """

    seed: int
    memory: str = ""

    def encode(self) -> bytes:
        """The message, as JSON."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> Welcome:
        """The inverse of `encode`. Raises ShapeMismatch if it is no welcome."""
        try:
            welcome = cls(**json.loads(data))
        except _UNREADABLE as error:
            raise ShapeMismatch(f"the learner's first answer is no welcome: {_short(error)}") from None
        if type(welcome.seed) is not int or not 0 <= welcome.seed < 2**63:
            raise ShapeMismatch(f"the learner's first answer is no welcome: seed={_short(welcome.seed)}")
        if type(welcome.memory) is not str:
            raise ShapeMismatch(f"the learner's first answer is no welcome: memory={_short(welcome.memory)}")
        return welcome


def _no_hello(error: Exception) -> ShapeMismatch:
    return ShapeMismatch(f"the first message of a stream is no hello: {_short(error)}")


def _short(value: object) -> str:
    """A peer's value, or an error, as text for a message: a status of gRPC has a few KiB at most."""
    text = str(value) if isinstance(value, Exception) else repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


class StepHeader(NamedTuple):
    """What precedes a group's arrays: see `GroupStep`; `finals` of its environments were truncated."""

    group: int
    finals: int
    environments: int
    first_env: int
    stepping_s: float
    round_trip_s: float

    @classmethod
    def decode(cls, data: bytes) -> StepHeader:
        """The header at the start of `data`. Raises ShapeMismatch if it is none, or numbers are out of bounds."""
        if len(data) < _REQUEST.size:
            raise ShapeMismatch(f"a step message of {len(data)} bytes is shorter than its header of {_REQUEST.size}.")
        magic, *values = _REQUEST.unpack_from(data)
        header = cls(*values)
        if magic != _MAGIC or not 0 < header.environments <= _LARGEST_GROUP:
            raise ShapeMismatch(f"a step message of {len(data)} bytes does not fit this version: it begins with "
                                f"{magic!r}, and is of {header.environments} environments.")
        times = [header.stepping_s, header.round_trip_s]
        if not all(0 <= time_s <= _LONGEST_S for time_s in times):  # also refuses NaN
            raise ShapeMismatch(f"a step message has durations of {times} s; each must lie in [0, {_LONGEST_S:g}].")
        return header

    def check_finals(self, index: Array) -> None:
        """Raises ShapeMismatch unless `index`, int [finals], names different environments of the group."""
        if len(index) and (index.max() >= self.environments or len(np.unique(index)) != len(index)):
            raise ShapeMismatch(f"final observations are of environments {index.tolist()}, the group has "
                                f"{self.environments}: each must be one of these, and differ from the others.")


@dataclass
class GroupStep:
    """One group of environments of an actor after a step.

    Attributes:
        group: number of the group within its actor.
        first_env: the actor's number of the group's first environment; the others follow.
        stepping_s: time the actor took to step this group.
        round_trip_s: time from the group's previous message to its actions.
    """

    group: int
    first_env: int
    step: StepBatch
    stepping_s: float = 0.0
    round_trip_s: float = 0.0

    def header(self) -> bytes:
        """The start of the request message."""
        return _REQUEST.pack(_MAGIC, self.group, len(self.step.final_index), len(self.step.reward), self.first_env,
                             self.stepping_s, self.round_trip_s)

    def encode(self) -> bytes:
        """The request message."""
        step = self.step
        parts = [array.astype("<f4", copy=False) if array.dtype.kind == "f" else array
                 for array in step.arrays().values()]
        if len(step.final_index):
            assert step.final_observation is not None
            parts += [step.final_index.astype("<u2"), step.final_observation]
        return b"".join([self.header(), *(np.ascontiguousarray(part).data for part in parts)])

    @classmethod
    def decode(cls, data: bytes, spec: EnvironmentSpec) -> GroupStep:
        """The step in `data`, as views of it. Raises ShapeMismatch if lengths, indices or durations do not fit."""
        header = StepHeader.decode(data)
        group, finals, count, first_env, *times = header
        declared, each = _layout(spec)
        size = _REQUEST.size + count * each + finals * (2 + spec.observation_bytes)
        if len(data) != size:
            raise ShapeMismatch(
                f"a step message of {len(data)} bytes does not fit {count} environments of {spec.name} "
                f"with observations {spec.observation_shape} {spec.observation_dtype}"
                f"{' and scores' if spec.scored else ''}: {size} bytes expected."
            )
        cursor = _Cursor(data, _REQUEST.size)
        arrays = {name: cursor.take(count, of) for name, of in declared.items()}
        index = cursor.take(finals, ((), "<u2")).astype(np.int32)
        header.check_finals(index)
        final = cursor.take(finals, (spec.observation_shape, spec.observation_dtype)) if finals else None
        return cls(group, first_env, StepBatch.of(arrays, final_index=index, final_observation=final), *times)


@functools.lru_cache(16)  # a learner has one spec, and asks for each message
def _layout(spec: EnvironmentSpec) -> tuple[dict[str, FieldSpec], int]:
    """Fields of a step, and the bytes that each environment has of them."""
    specs = StepBatch.specs(spec)
    return specs, sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in specs.values())


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

    def header(self, first_env: int = 0) -> bytes:
        """The start of the reply message."""
        return _REPLY.pack(_MAGIC, self.group, first_env, len(self.actions), self.policy_version)

    def encode(self) -> bytes:
        """The reply message."""
        wire_dtype = "<f4" if self.actions.dtype.kind == "f" else "<i4"
        return self.header() + self.actions.astype(wire_dtype).tobytes()

    @classmethod
    def decode(cls, data: bytes, actions: ActionSpec) -> GroupActions:
        """The inverse of `encode`. Raises ShapeMismatch if the length does not fit."""
        header = data[: _REPLY.size].ljust(_REPLY.size, b"\0")
        magic, group, _, count, version = _REPLY.unpack(header)
        size = _REPLY.size + 4 * count * math.prod(actions.shape)
        if magic != _MAGIC or len(data) != size:
            raise ShapeMismatch(f"a message of actions of {len(data)} bytes does not fit {count} actions that are "
                                f"{actions.kind} {list(actions.sizes)}: {size} bytes expected.")
        values = _Cursor(data, _REPLY.size).take(count, (actions.shape, actions.wire_dtype))
        return cls(group, values.astype(actions.dtype), version)

    @staticmethod
    def decode_header(data: bytes) -> tuple[int, int, int, int]:
        """Group, first environment, N and policy version of a `header`. Raises ShapeMismatch if it is none."""
        if len(data) != _REPLY.size or not data.startswith(_MAGIC):
            raise ShapeMismatch(f"a message of {len(data)} bytes is no header of actions, which has {_REPLY.size}.")
        return _REPLY.unpack(data)[1:]
