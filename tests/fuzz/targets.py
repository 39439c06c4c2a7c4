"""What is fuzzed in this process alone: readers of messages and of checkpoints."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
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
from workbench.errors import CheckpointCorrupt, ShapeMismatch, WorkbenchError
from workbench.trajectory import StepBatch
from workbench.wire.messages import GroupActions, GroupStep, Hello, Welcome

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


class Hellos:
    """The first message of an actor's stream."""

    name = "hello"

    def seeds(self) -> list[bytes]:
        return [Hello(1, 2**61, 12, 2, spec, ("left", "right")).encode() for spec in (*SPECS, MIXED)]

    def make(self, mutator: Mutator, seed: bytes, pool: list[bytes]) -> bytes:
        try:
            return mutator.json_bytes(json.loads(seed))
        except (ValueError, RecursionError):
            return mutator.bytes(seed, pool)

    def size(self, data: bytes) -> int:
        return 1

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


def _check_step(came: GroupStep, spec: EnvironmentSpec, message: bytes) -> None:
    step, count = came.step, len(came.step.reward)
    fits = (step.observation.shape == (count, *spec.observation_shape) and step.flags.shape == (count,)
            and (len(step.final_index) == 0) == (step.final_observation is None)
            and len(set(step.final_index.tolist())) == len(step.final_index)
            and (not len(step.final_index) or 0 <= step.final_index.min() <= step.final_index.max() < count))
    if not fits:
        raise Fault("an accepted step has arrays that do not fit each other")
    if came.encode() != message:
        raise Fault("an accepted step does not go out as it came in")


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


READERS: dict[str, type[Target]] = {one.name: one for one in (Hellos, Steps, TensorFiles, Checkpoints)}
