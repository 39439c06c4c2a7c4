"""What is fuzzed in this process alone: readers of messages, of shared memory and of checkpoints."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.fuzzing import Fault, Target, plain
from tests.fuzz.mutation import Mutator
from workbench import checkpoints
from workbench.checkpoints import Checkpoint, layer_statistics
from workbench.checkpoints.checkpoint import META, digest
from workbench.checkpoints.tensorfile import Content, read
from workbench.environment_spec import ActionSpec, EnvironmentSpec, NativeSpace, Part
from workbench.errors import CheckpointCorrupt, ConnectionLost, ShapeMismatch, WorkbenchError
from workbench.trajectory import StepBatch
from workbench.wire import shared_rows
from workbench.wire.handover import Handover
from workbench.wire.messages import GroupActions, GroupStep, Hello, Welcome
from workbench.wire.shared_rows import SharedRows

PLAIN = EnvironmentSpec("plain", (4,), "float32", 3)
SPECS = (
    PLAIN,
    EnvironmentSpec("image", (1, 6, 5), "uint8", 3, 4, 4, scored=True),
    EnvironmentSpec("parts", (12,), "uint8", 10, 2, 4, ActionSpec("multi_discrete", (3, 2, 5)),
                    (Part("map", (2, 3, 5), "bits"), Part("speed", (2,), "float32")), True, 3),
    EnvironmentSpec("numbers", (3,), "float32", 3, actions=ActionSpec("tanh_normal", (0, 0, 0), native=NativeSpace(
        (3, 1), low=(0.0, -1.0, 2.0), high=(1.0, 1.0, 3.0)))),
)
MIXED = EnvironmentSpec("mixed", (3,), "float32", 4, actions=ActionSpec.mixed(
    {"move": ActionSpec("categorical", (3,)), "go": ActionSpec("tanh_normal", (0,))}))


def step_message(
    spec: EnvironmentSpec, *, group: int = 0, first_env: int = 0, count: int = 2, finals: int = 0
) -> bytes:
    """A group's step as an actor sends it."""
    random = np.random.default_rng(count)
    shape = spec.observation_shape
    step = StepBatch(
        random.integers(0, 2, (count, *shape)).astype(spec.observation_dtype), random.random(count, np.float32),
        np.full(count, 2 if finals else 8, np.uint8), np.arange(finals, dtype=np.int32),
        random.integers(0, 2, (finals, *shape)).astype(spec.observation_dtype) if finals else None,
        random.random(count, np.float32) if spec.scored else None,
    )
    return GroupStep(group, first_env, step, 0.25, 0.5).encode()


def refusal(error: WorkbenchError) -> str:
    """What refused an input, and why, without numbers."""
    return f"{type(error).__name__}: {plain(str(error))}"


class _Json:
    """One message of JSON."""

    def make(self, mutator: Mutator, seed: bytes, pool: list[bytes]) -> bytes:
        try:
            return mutator.json_bytes(json.loads(seed))
        except (ValueError, RecursionError):
            return mutator.bytes(seed, pool)

    def size(self, data: bytes) -> int:
        return 1


class Hellos(_Json):
    """The first message of an actor's stream."""

    name = "hello"

    def seeds(self) -> list[bytes]:
        return [Hello(1, 2**61, 12, 2, spec, ("left", "right")).encode() for spec in (*SPECS, MIXED)]

    def give(self, data: bytes) -> str:
        try:
            hello = Hello.decode(data)
        except ShapeMismatch as error:
            return refusal(error)
        again = Hello.decode(hello.encode())
        if again != hello or hash(again) != hash(hello):
            raise Fault("an accepted hello does not come out as it went in")
        return "accepted"

    def close(self) -> None:
        pass


class Steps:
    """Later messages of an actor's stream, and what actors are answered. The first byte says of which environment."""

    name = "step"

    def seeds(self) -> list[bytes]:
        steps = [bytes([number]) + step_message(spec, count=count, finals=finals)
                 for number, spec in enumerate(SPECS) for count, finals in ((1, 0), (3, 2))]
        actions = [np.zeros((3, *spec.actions.shape), spec.actions.dtype) for spec in SPECS]
        replies = [bytes([number + 4]) + GroupActions(1, one, 7).encode() for number, one in enumerate(actions)]
        return [*steps, *replies, bytes([8]) + Welcome(7).encode()]

    def make(self, mutator: Mutator, seed: bytes, pool: list[bytes]) -> bytes:
        return mutator.bytes(seed, pool)

    def size(self, data: bytes) -> int:
        return 1

    def give(self, data: bytes) -> str:
        which, message = data[0] % 9 if data else 0, data[1:]
        spec = SPECS[which % 4]
        try:
            if which == 8:
                Welcome.decode(message)
            elif which >= 4:
                _check_actions(GroupActions.decode(message, spec.actions), spec)
            else:
                _check_step(GroupStep.decode(message, spec), spec, message)
        except ShapeMismatch as error:
            return refusal(error)
        return "accepted"

    def close(self) -> None:
        pass


class Shared:
    """Memory that an actor shares with the learner: headers, and indices of final observations in its rows.

    The first byte says of which environment, and whether the learner reads a step or the actor its actions; the second
    how long the header is. What follows the header goes to the indices.
    """

    name = "shared"
    environments = 4

    def __init__(self) -> None:
        self._actors: list[SharedRows] = []
        self._learners: list[SharedRows] = []
        for spec in SPECS:
            descriptor = shared_rows.create(spec, self.environments)
            for side in (self._actors, self._learners):
                side.append(SharedRows(descriptor, spec, self.environments))
            os.close(descriptor)

    def seeds(self) -> list[bytes]:
        made = []
        for number, spec in enumerate(SPECS):
            for count, finals, first in ((1, 0, 0), (3, 2, 1)):
                step = GroupStep.decode(step_message(spec, first_env=first, count=count, finals=finals), spec)
                header = self._actors[number].write(step)
                index = self._actors[number]._final_index.tobytes()
                made.append(bytes([number, len(header)]) + header + index)
            actions = GroupActions(1, np.zeros((3, *spec.actions.shape), spec.actions.dtype), 7)
            header = self._learners[number].write_actions(actions, 1)
            made.append(bytes([number + 4, len(header)]) + header)
        return made

    def make(self, mutator: Mutator, seed: bytes, pool: list[bytes]) -> bytes:
        size = seed[1] if len(seed) > 1 else 0
        header, index = seed[2 : 2 + size], seed[2 + size :]
        if mutator.maybe(0.6):
            header = mutator.bytes(header)[:255]
        if mutator.maybe(0.6):
            index = mutator.bytes(index)
        return seed[:1] + bytes([len(header)]) + header + index

    def size(self, data: bytes) -> int:
        return 1

    def give(self, data: bytes) -> str:
        which, size = (*data[:2], 0, 0)[:2]
        spec, actor, learner = SPECS[which % 4], self._actors[which % 4], self._learners[which % 4]
        packet, room = data[2 : 2 + size], actor._final_index.nbytes
        actor._final_index[:] = np.frombuffer(data[2 + size :][:room].ljust(room, b"\0"), np.uint16)
        try:
            if which % 8 >= 4:
                _check_actions(actor.read_actions(packet), spec)
                return "accepted"
            came, sent = learner.read(packet)
        except ShapeMismatch as error:
            return refusal(error)
        index = came.step.final_index.copy()
        actor._final_index[:] = 2**16 - 1  # after it was checked
        count = len(came.step.reward)
        if not (_fits(came.step, spec) and 0 < count <= self.environments - came.first_env):
            raise Fault("an accepted step has arrays that do not fit each other")
        if index.tolist() != came.step.final_index.tolist() or not 0 <= time.perf_counter() - sent <= 60:
            raise Fault("an actor changes what was checked")
        return "accepted"

    def close(self) -> None:
        pass


class Requests(_Json):
    """What is asked of the socket that hands memory over."""

    name = "handover"
    token, actor, run_id = "token-of-the-run", 3, 2**61

    def __init__(self) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="wb-fuzz-"))
        self._memory = shared_rows.create(PLAIN, 2)
        self._given: list[socket.socket] = []
        self._handover = self._begun()

    def _begun(self) -> Handover:
        return Handover(str(self._home / "memory"), self.token, self._grant)

    def _grant(self, actor: int, run_id: int, connection: socket.socket) -> int:
        if (actor, run_id) != (self.actor, self.run_id):
            raise ConnectionLost("no life of that actor waits for memory")
        self._given.append(connection)
        return os.dup(self._memory)

    def seeds(self) -> list[bytes]:
        return [json.dumps({"token": self.token, "actor": self.actor, "run_id": self.run_id}).encode()]

    def give(self, data: bytes) -> str:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(5)
            connection.connect(self._handover.path)
            connection.send(data)
            try:
                answer, descriptors, _, _ = socket.recv_fds(connection, 4096, 4)
            except TimeoutError:
                self._handover.close()
                self._handover = self._begun()
                raise Fault("nobody answers any more") from None
        for descriptor in (*descriptors, *(one.detach() for one in self._given)):
            os.close(descriptor)
        self._given.clear()
        if not descriptors:
            if not answer:
                raise Fault("a refusal without words")
            return f"refused: {plain(answer.decode(errors='replace'))}"
        if str(json.loads(data)["token"]) != self.token or len(descriptors) > 1:
            raise Fault("memory for a stranger")
        return "accepted"

    def close(self) -> None:
        self._handover.close()
        os.close(self._memory)
        shutil.rmtree(self._home, ignore_errors=True)


def _check_step(came: GroupStep, spec: EnvironmentSpec, message: bytes) -> None:
    if not _fits(came.step, spec):
        raise Fault("an accepted step has arrays that do not fit each other")
    if came.encode() != message:
        raise Fault("an accepted step does not go out as it came in")


def _fits(step: StepBatch, spec: EnvironmentSpec) -> bool:
    """Whether a step's arrays fit each other."""
    count = len(step.reward)
    return (step.observation.shape == (count, *spec.observation_shape) and step.flags.shape == (count,)
            and (len(step.final_index) == 0) == (step.final_observation is None)
            and len(set(step.final_index.tolist())) == len(step.final_index)
            and (not len(step.final_index) or bool(0 <= step.final_index.min() <= step.final_index.max() < count)))


def _check_actions(came: GroupActions, spec: EnvironmentSpec) -> None:
    if came.actions.shape[1:] != spec.actions.shape or came.actions.dtype != spec.actions.dtype:
        raise Fault("accepted actions are of another shape or dtype")


class Checkpoints:
    """A folder that somebody gave us: meta.json, and files of tensors whose checksums may be right.

    The first byte of an input says what the rest is: 0 meta.json as it is, 1 its content (signed here), 2 and 3 the
    files of model and optimizer (with their checksums noted), 4 a model whose checksum nobody noted.
    """

    name = "checkpoint"

    def __init__(self) -> None:
        memory = Path("/dev/shm")
        self._home = Path(tempfile.mkdtemp(prefix="wb-fuzz-", dir=memory if memory.is_dir() else None))
        self._good = _small_checkpoint(self._home)
        self._meta = json.loads((self._good.path / META).read_bytes())
        del self._meta["sha256"]
        self._files = {name: (self._good.path / name).read_bytes() for name in self._good.files}
        self._dirty: set[str] = set()

    def seeds(self) -> list[bytes]:
        content = json.dumps(self._meta).encode()
        signed = (self._good.path / META).read_bytes()
        model, optimizer = self._files["model.safetensors"], self._files["optimizer.safetensors"]
        return [b"\0" + signed, b"\1" + content, b"\2" + model, b"\3" + optimizer, b"\4" + model]

    def make(self, mutator: Mutator, seed: bytes, pool: list[bytes]) -> bytes:
        kind, data = seed[:1], seed[1:]
        if kind == b"\1":
            try:
                return kind + mutator.json_bytes(json.loads(data))
            except (ValueError, RecursionError):
                return kind + mutator.bytes(data)
        if kind in b"\2\3" and mutator.maybe(0.7):
            return kind + _with_other_header(mutator, data)
        return kind + mutator.bytes(data)

    def size(self, data: bytes) -> int:
        return 1

    def give(self, data: bytes) -> str:
        kind, content = data[0] % 5 if data else 0, data[1:]
        self._restore()
        if kind == 0:
            self._put(META, content)
        elif kind == 1:
            self._put(META, _signed(content))
        else:
            name = "optimizer.safetensors" if kind == 3 else "model.safetensors"
            self._put(name, content)
            if kind != 4:
                sums = {"sha256": hashlib.sha256(content).hexdigest(), "size_bytes": len(content)}
                files = {**self._meta["files"], name: sums}
                self._put(META, _signed(json.dumps({**self._meta, "files": files}).encode()))
        try:
            _read_all(self._good.path, listed=len(content) % 8 == 0)
        except WorkbenchError as error:
            if not isinstance(error, CheckpointCorrupt):
                raise Fault(f"refused as {type(error).__name__}") from error
            return refusal(error)
        return "accepted"

    def _put(self, name: str, data: bytes) -> None:
        (self._good.path / name).write_bytes(data)
        self._dirty.add(name)

    def _restore(self) -> None:
        for name in self._dirty:
            whole = self._files.get(name) or _signed(json.dumps(self._meta).encode())
            (self._good.path / name).write_bytes(whole)
        self._dirty.clear()

    def close(self) -> None:
        shutil.rmtree(self._home, ignore_errors=True)


def _small_checkpoint(folder: Path) -> Checkpoint:
    weight = np.arange(12, dtype=np.float32).reshape(3, 4)
    groups: dict[str, dict[str, Any]] = {
        "model": {"weight": weight, "bias": np.ones(3, np.float16), "seen": np.array([True, False]),
                  "none": np.zeros((0, 2), np.int64), "number": np.array(2.5)},
        "optimizer": {"0.step": np.array(7.0, np.float32), "0.exp_avg_sq": weight**2, "1.step": np.array(3, np.int64),
                      "1.exp_avg_sq": np.ones(3, np.float32)},
    }
    config = {"hyperparameters": {"adam_beta2": 0.999, "rmsprop_decay": 0.99}}
    meta = {"steps": 250, "updates": 12, "time_s": 3.5, "episode_return": 18.25, "episodes": 3, "reason": "interval",
            "trained": ["weight", "bias"], "config": config, "environment": PLAIN.to_json()}
    return checkpoints.write(folder, frames=1000, groups=groups, meta=meta, requested=False)


def _signed(content: bytes) -> bytes:
    """meta.json with the checksum of what it says, as far as it can be read."""
    try:
        told = json.loads(content)
        told["sha256"] = digest({name: value for name, value in told.items() if name != "sha256"})
        return json.dumps(told).encode()
    except (ValueError, TypeError, AttributeError, RecursionError):
        return content


def _with_other_header(mutator: Mutator, data: bytes) -> bytes:
    size = int.from_bytes(data[:8], "little")
    try:
        header = mutator.json_bytes(json.loads(data[8 : 8 + size]))
    except (ValueError, RecursionError):
        return mutator.bytes(data)
    told = len(header) if mutator.maybe(0.95) else mutator.random.choice((0, 1, 2**31, 2**63, 2**64 - 1))
    return told.to_bytes(8, "little") + header + data[8 + size :]


def _read_all(folder: Path, *, listed: bool) -> None:
    """Everything that reads a checkpoint without torch; `listed`: also what looks for the newest good one."""
    found = checkpoints.newest_good(folder.parent)[0] if listed else None
    checkpoint = checkpoints.at(folder)
    repr(checkpoint)
    for group in checkpoint.groups:
        for tensor in checkpoint.load(group).values():
            tensor.tobytes()
    if "model" in checkpoint.groups:
        for _ in layer_statistics.layers(checkpoint):
            pass
    if listed:
        checkpoint.verify()
        if found is None:
            raise Fault("a checkpoint is good and is not found")
        for group in checkpoint.groups[:1]:
            list(layer_statistics.differences(checkpoint, checkpoint, group=group))


class TensorFiles:
    """The bytes of a safetensors file, without the checksum before them."""

    name = "tensorfile"

    def __init__(self) -> None:
        self._file = os.fdopen(os.memfd_create("fuzz"), "r+b", buffering=0)

    def seeds(self) -> list[bytes]:
        arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(3, np.uint8), "c": np.array(1)}
        content = Content.of("model", arrays)
        whole = content.header + b"".join(array.tobytes() for array in content.arrays)
        return [whole, (2).to_bytes(8, "little") + b"{}"]

    def make(self, mutator: Mutator, seed: bytes, pool: list[bytes]) -> bytes:
        return _with_other_header(mutator, seed) if mutator.maybe(0.7) else mutator.bytes(seed, pool)

    def size(self, data: bytes) -> int:
        return 1

    def give(self, data: bytes) -> str:
        self._file.truncate(0)
        self._file.seek(0)
        self._file.write(data)
        try:
            arrays = read(self._file)
        except ValueError as error:  # which `Checkpoint.open` makes a CheckpointCorrupt
            return f"ValueError: {plain(str(error))}"
        if sum(array.nbytes for array in arrays.values()) > len(data):
            raise Fault("arrays have more bytes than their file")
        for array in arrays.values():
            array.tobytes()
        return "accepted"

    def close(self) -> None:
        self._file.close()


READERS: dict[str, type[Target]] = {
    one.name: one for one in (Hellos, Steps, Shared, Requests, TensorFiles, Checkpoints)}
