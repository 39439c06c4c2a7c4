"""Recorded episodes as one file of a run, from which it learns: their steps, one after another. NumPy only.

`<run>/demonstrations/steps.safetensors` has, of N steps in E episodes:

    observation   [N, *frame]     x_t, as on the wire: single frames, not normalised
    action        [N, *action]    a_t, as unrolls keep it: u where the environment gets tanh(u)
    reward        float32 [N]     of the transition from x_t, not clipped
    length        int64 [E]       steps of each episode
    end           uint8 [E]       `Flags`: TERMINATED, or TRUNCATED where a time limit or the recording cut it off
    spec          uint8           JSON: the spaces, as `EnvironmentSpec.to_json`

The launch writes it, so that rollouts may be deleted; forks and sweeps link to it. Nothing ever changes it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

import numpy as np

from workbench.checkpoints import tensorfile
from workbench.environment_spec import EnvironmentSpec
from workbench.errors import InvalidInput, StorageFailed
from workbench.rundir.files import opened
from workbench.trajectory import ENDS, Array, Flags

_SPACES = {"parts": "observations with the parts", "observation_shape": "observations of shape",
           "observation_dtype": "observations of type", "actions": "actions",
           "action_bounds": "actions with the bounds"}
_KEPT = ("observation", "action", "reward", "length", "end")


class Demonstration(NamedTuple):
    """One demonstration of T steps; the arrays are [T, ...], as in the file."""

    observation: Array
    action: Array
    reward: Array
    end: Flags


@dataclass(frozen=True)
class Recorded:
    """The contents of the file; see there."""

    spec: EnvironmentSpec
    observation: Array
    action: Array
    reward: Array
    length: Array
    end: Array

    @property
    def first(self) -> Array:
        """int64 [E]: the first step of each episode."""
        first: Array = np.cumsum(self.length) - self.length
        return first

    def __str__(self) -> str:
        """The demonstrations in a line, such as "10 demonstrations of 4,871 steps, mean return 487.1"."""
        mean = float(np.add.reduceat(self.reward.astype(np.float64), self.first).mean())
        number = len(self.length)
        return (f"{number:,} demonstration{'s'[: number != 1]} of {len(self.reward):,} steps"
                f"{' together' if number > 1 else ''}, mean return {mean:.4g}")


def difference(spec: EnvironmentSpec, other: EnvironmentSpec) -> str:
    """What differs first between two pairs of spaces, as "observations of shape (3,), not (4,)"; "" if nothing does."""
    name = spec.unlike(other)
    return f"{_SPACES[name]} {_said(getattr(spec, name))}, not {_said(getattr(other, name))}" if name else ""


def _said(value: Any) -> str:
    if hasattr(value, "kind"):
        return f"{value.kind} {[len(value.sizes)] if value.kind == 'tanh_normal' else list(value.sizes)}"
    if isinstance(value, tuple) and value and hasattr(value[0], "dtype"):
        return ", ".join(f"{part.name or 'observation'} {list(part.shape)} {part.dtype}" for part in value)
    return str(value) if value != () else "none"


def check_spaces(recorded: Recorded, spec: EnvironmentSpec) -> None:
    """Raises InvalidInput unless an environment has the spaces of the demonstrations."""
    if different := difference(spec, recorded.spec):
        raise InvalidInput(f"{spec.name} has {different} as the demonstrations from {recorded.spec.name} have. Launch "
                           "with rollouts of the same environment, options and wrappers.")


def write(path: Path, spec: EnvironmentSpec, episodes: Sequence[Demonstration]) -> None:
    """Write the file, and its folder. Raises StorageFailed."""
    try:
        path.parent.mkdir(mode=0o700)
        with TemporaryFile(dir=path.parent) as scratch, open(path, "xb") as file:
            arrays = {
                "observation": _joined([each.observation for each in episodes], scratch),
                "action": np.concatenate([each.action for each in episodes]),
                "reward": np.concatenate([each.reward for each in episodes]).astype(np.float32),
                "length": np.array([len(each.reward) for each in episodes], np.int64),
                "end": np.array([int(each.end) for each in episodes], np.uint8),
                "spec": np.frombuffer(json.dumps(spec.to_json()).encode(), np.uint8),
            }
            tensorfile.Content.of("demonstrations", arrays).write(file)
        path.chmod(0o600)
    except OSError as error:
        raise StorageFailed(f"cannot write the demonstrations to {path}: {error.strerror or error}. Make room on its "
                            "disk, or give fewer of them.") from None


def _joined(arrays: Sequence[Array], scratch: IO[bytes]) -> Array:
    """The arrays one after another, mapped from `scratch`: all games of a person may be larger than the memory."""
    for array in arrays:
        scratch.write(np.ascontiguousarray(array).data)
    scratch.flush()
    return np.memmap(scratch, arrays[0].dtype, "r", shape=(sum(map(len, arrays)), *arrays[0].shape[1:]))


def link(source: Path, target: Path) -> None:
    """The file in another run's or sweep's folder: by a hard link, or a copy on another disk. Raises StorageFailed."""
    with suppress(OSError):
        target.parent.mkdir(mode=0o700)
        os.link(source, target)
        return
    copy(source, target)


def copy(source: Path, target: Path) -> None:
    """A copy of the file, which is whole or not there. Raises StorageFailed."""
    beside = target.with_name(f".writing-{target.name}")
    try:
        target.parent.mkdir(mode=0o700, exist_ok=True)
        beside.unlink(missing_ok=True)  # it may be a link
        with opened(source) as original, open(beside, "xb") as file:
            shutil.copyfileobj(original, file, 2**20)
        os.replace(beside, target)
    except OSError as error:
        raise StorageFailed(f"cannot copy the demonstrations {source} to {target}: {error.strerror}.") from None


def read(path: Path) -> Recorded:
    """The contents of the file, its observations mapped. Raises StorageFailed if it is gone or damaged."""
    try:
        with opened(path) as file:
            arrays = tensorfile.read(file)
        spec = EnvironmentSpec.from_json(json.loads(arrays["spec"].tobytes()))
        _check(arrays, spec)
        return Recorded(spec, **{name: arrays[name] for name in _KEPT})
    except FileNotFoundError:
        raise StorageFailed(f"{path} is gone: this run learns from the demonstrations in it. Put it back from a copy, "
                            "or launch a new run.") from None
    except (OSError, KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise StorageFailed(f"the demonstrations in {path} cannot be read: {error!s:.200}. Put the file back from a "
                            "copy, or launch a new run.") from None


def _check(arrays: Mapping[str, Array], spec: EnvironmentSpec) -> None:
    """Raises ValueError for what no launch writes."""
    steps, lengths, ends = len(arrays["reward"]), arrays["length"], arrays["end"]
    wanted = {
        "observation": ((steps, *spec.observation_shape), spec.observation_dtype),
        "action": ((steps, *spec.actions.shape), spec.actions.dtype), "reward": ((steps,), "float32"),
        "length": ((len(lengths),), "int64"), "end": ((len(lengths),), "uint8"),
    }
    for name, (shape, dtype) in wanted.items():
        if arrays[name].shape != shape or arrays[name].dtype.name != dtype:
            raise ValueError(f"{name} is {arrays[name].dtype} {arrays[name].shape}, and not {dtype} {shape}")
    if not steps or (lengths < 1).any() or (lengths > steps).any() or lengths.sum() != steps:
        raise ValueError(f"its episodes do not have {steps:,} steps")
    if not np.isin(ends, [int(Flags.TERMINATED), int(Flags.TRUNCATED), int(ENDS)]).all():
        raise ValueError("an episode has no end")
    action, most = arrays["action"], np.array(spec.actions.sizes).reshape(spec.actions.shape)
    if spec.actions.dtype == "int64" and not ((action >= 0) & (action < most)).all():
        raise ValueError("an action is none of the environment's")
