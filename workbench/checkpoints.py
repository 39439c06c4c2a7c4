"""Checkpoints on disk: `<frames, 12 digits>/` with `<group>.safetensors` per group of tensors, and `meta.json`.

A checkpoint is written into a hidden folder beside, brought to the disk, and renamed: whoever looks sees all of it or
nothing. `meta.json` has the SHA-256 of every file and of itself; what is loaded was verified. Nothing here is pickle,
and nothing here needs torch.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import safetensors
import safetensors.numpy

from workbench.errors import CheckpointCorrupt, InvalidInput, StorageFailed, UnknownName

if TYPE_CHECKING:
    import pandas as pd

Tensors = dict[str, npt.NDArray[Any]]

FORMAT = 1
_META = "meta.json"
_GROUP = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_NAME = re.compile(r"\d{12,}(-\d+)?", re.ASCII)
_DTYPES = frozenset(
    ("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64")
)
_REMEDY = "Use an older checkpoint (wb.resume does so by itself), and delete this folder."
_one_at_a_time = threading.Lock()  # what this process left behind is then never what it is writing


@dataclass(frozen=True)
class Checkpoint:
    """One finished checkpoint.

    Attributes:
        frames, steps, updates, time_s: progress of the run when it was written.
        episode_return: mean of the last training episodes then, or None.
        requested: whether a person asked for it; such a one is never pruned.
        created: unix time in s; grows from each checkpoint of a run to the next.
        meta: environment, config, network, parameters, as given to `write`.
    """

    path: Path
    frames: int
    steps: int
    updates: int
    time_s: float
    episode_return: float | None
    requested: bool
    created: float
    meta: dict[str, Any] = field(repr=False, hash=False)
    files: dict[str, dict[str, Any]] = field(repr=False, hash=False)

    def __repr__(self) -> str:
        gained = "" if self.episode_return is None else f", episode_return={self.episode_return:.4g}"
        return f"Checkpoint({self.path.name}: frames={self.frames:,}{gained})"

    @property
    def groups(self) -> list[str]:
        """Names of the groups of tensors, such as model and optimizer."""
        return sorted(name.removesuffix(".safetensors") for name in self.files)

    def load(self, group: str) -> Tensors:
        """The tensors of a group by name, verified and writable. Raises CheckpointCorrupt, UnknownName."""
        if group not in self.groups:
            raise UnknownName.among("group of tensors", group, self.groups, f"(in {self.path})")
        data = self._verified(f"{group}.safetensors")
        try:
            return {name: tensor.copy() for name, tensor in safetensors.numpy.load(data).items()}
        except (safetensors.SafetensorError, KeyError, ValueError) as error:
            raise CheckpointCorrupt(f"{self.path / group}.safetensors cannot be read: {error}. {_REMEDY}") from error

    def verify(self) -> None:
        """Raises CheckpointCorrupt where a file is missing, was changed, or is one file too many."""
        for name in sorted(self.files):
            self._verified(name)
        unknown = {path.name for path in self.path.glob("*.safetensors")} - set(self.files)
        if unknown:
            raise CheckpointCorrupt(f"{self.path} has a file that is not its own: {', '.join(sorted(unknown))}. "
                                    "Move it away, or use an older checkpoint.")

    def _verified(self, name: str) -> bytes:
        path, expected = self.path / name, self.files[name]
        try:
            data = path.read_bytes()
        except OSError as error:
            raise CheckpointCorrupt(f"{path} cannot be read: {error.strerror}. {_REMEDY}") from error
        if len(data) != expected["size_bytes"]:
            raise CheckpointCorrupt(
                f"{path} is torn: it has {len(data)} bytes and must have {expected['size_bytes']}. {_REMEDY}"
            )
        if hashlib.sha256(data).hexdigest() != expected["sha256"]:
            raise CheckpointCorrupt(f"{path} was changed after it was written: wrong checksum. {_REMEDY}")
        return data

    def diff(self, other: Checkpoint, *, group: str = "model") -> pd.DataFrame:
        """A table by tensor: shape, norm, other_norm, relative_difference ‖a - b‖ / ‖a‖, only_in (self, other or "").

        The difference is NaN where a tensor is in one of them alone, or the shapes differ.
        """
        import pandas as pd

        mine, theirs = self.load(group), other.load(group)
        rows = [_difference(name, mine.get(name), theirs.get(name)) for name in sorted({*mine, *theirs})]
        columns = ["name", "shape", "norm", "other_norm", "relative_difference", "only_in"]
        return pd.DataFrame(rows, columns=columns).set_index("name")


def _difference(name: str, mine: npt.NDArray[Any] | None, theirs: npt.NDArray[Any] | None) -> tuple[Any, ...]:
    norm, other_norm = _norm(mine), _norm(theirs)
    if mine is None or theirs is None:
        shape = theirs.shape if mine is None and theirs is not None else mine.shape if mine is not None else ()
        return name, shape, norm, other_norm, np.nan, "other" if mine is None else "self"
    if mine.shape != theirs.shape:
        return name, mine.shape, norm, other_norm, np.nan, ""
    distance = _norm(mine.astype(np.float64) - theirs.astype(np.float64))
    relative = distance / norm if norm else (np.inf if distance else 0.0)
    return name, mine.shape, norm, other_norm, relative, ""


def _norm(tensor: npt.NDArray[Any] | None) -> float:
    return np.nan if tensor is None else float(np.linalg.norm(tensor.astype(np.float64).ravel()))


def write(
    folder: Path, *, frames: int, groups: Mapping[str, Mapping[str, npt.NDArray[Any]]], meta: Mapping[str, Any],
    requested: bool,
) -> Checkpoint:
    """A new checkpoint of `groups` (arrays by name, by group) in `folder`, on the disk when this returns.

    Args:
        meta: JSON data with at least steps, updates and time_s; episode_return may be None.
        requested: a person asked for it, so that it is never pruned.

    Raises InvalidInput for a bad name, dtype or meta, StorageFailed for a full disk; older checkpoints are untouched.
    """
    content = {f"{_group_name(group)}.safetensors": _serialised(group, tensors) for group, tensors in groups.items()}
    with _one_at_a_time:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _remove_unfinished(folder)
            files = {name: {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
                     for name, data in content.items()}
            content[_META] = _describe(_after_newest(folder), {**meta, "frames": int(frames)}, files, requested)
            return at(_place(folder, int(frames), content))
        except OSError as error:
            if isinstance(error, StorageFailed):
                raise
            raise StorageFailed(f"cannot write a checkpoint in {folder}: {error.strerror}. Free space on that disk; "
                                "older checkpoints are untouched.") from error


def _group_name(group: str) -> str:
    if not _GROUP.fullmatch(group):
        raise InvalidInput(f"group {group!r} is not a simple name: use lower-case letters, digits and underscores.")
    return group


def _serialised(group: str, tensors: Mapping[str, npt.NDArray[Any]]) -> bytes:
    arrays = {name: np.asarray(tensor) for name, tensor in tensors.items()}
    for name, array in arrays.items():
        if array.dtype.name not in _DTYPES:
            raise InvalidInput(f"tensor {name!r} of group {group!r} has dtype {array.dtype}, which a checkpoint cannot "
                               "hold. Convert it, for example to float32.")
    # safetensors writes an array's memory as it lies there, whatever its strides and byte order.
    return bytes(safetensors.numpy.save({
        name: array.astype(array.dtype.newbyteorder("<"), order="C", copy=False) for name, array in arrays.items()
    }))


def _describe(created: float, meta: dict[str, Any], files: dict[str, Any], requested: bool) -> bytes:
    missing = [name for name in ("steps", "updates", "time_s") if name not in meta]
    if missing:
        raise InvalidInput(f"meta of a checkpoint lacks {', '.join(missing)}.")
    content = {"format": FORMAT, "created": created, "requested": bool(requested), "files": files, "meta": meta}
    try:
        plain = json.loads(json.dumps(content, default=lambda value: value.item()))
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(f"meta of a checkpoint must be JSON data: {error}.") from error
    return json.dumps({**plain, "sha256": _digest(plain)}, indent=1).encode()


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _after_newest(folder: Path) -> float:
    """Now, or a moment after the newest checkpoint where the clock was set back: order of creation is kept."""
    return max([time.time(), *(one.created + 1e-3 for one in every(folder))])


def _place(folder: Path, frames: int, content: Mapping[str, bytes]) -> Path:
    hidden = folder / f".writing-{os.getpid()}-{secrets.token_hex(4)}"
    hidden.mkdir(mode=0o700)
    try:
        for name, data in content.items():
            with open(os.open(hidden / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        _sync(hidden)
        target = _free_name(folder, frames)
        os.rename(hidden, target)
        _sync(folder)
        return target
    except BaseException:
        shutil.rmtree(hidden, ignore_errors=True)
        raise


def _free_name(folder: Path, frames: int) -> Path:
    target, suffix = folder / f"{frames:012d}", 0
    while target.exists():
        suffix += 1
        target = folder / f"{frames:012d}-{suffix}"
    return target


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove_unfinished(folder: Path) -> None:
    for path in (*folder.glob(".writing-*"), *folder.glob(".removing-*")):
        pid = path.name.split("-")[1]
        if not pid.isdigit() or int(pid) == os.getpid() or not _alive(int(pid)):
            shutil.rmtree(path, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def at(path: Path) -> Checkpoint:
    """The checkpoint in that folder; its files are verified when they are loaded.

    Raises InvalidInput where there is none, CheckpointCorrupt where its meta.json is damaged.
    """
    path = Path(path).expanduser().absolute()
    if not path.is_dir():
        raise InvalidInput(f"there is no checkpoint in {path}.")
    described = path / _META
    try:
        content = json.loads(described.read_bytes())
        return _from_meta(path, content)
    except OSError as error:
        raise CheckpointCorrupt(f"{described} cannot be read: {error.strerror}. {_REMEDY}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CheckpointCorrupt(f"{described} is damaged: {error!r}. {_REMEDY}") from error


def _from_meta(path: Path, content: dict[str, Any]) -> Checkpoint:
    if content["format"] != FORMAT:
        raise CheckpointCorrupt(f"{path / _META} has format {content['format']!r}, and this version of rl-workbench "
                                f"knows {FORMAT}. Upgrade it: pip install -U rl-workbench")
    expected = content.pop("sha256")
    if _digest(content) != expected:
        raise CheckpointCorrupt(f"{path / _META} was changed after it was written: wrong checksum. {_REMEDY}")
    files, meta = content["files"], content["meta"]
    for name in files:
        if not (name.endswith(".safetensors") and _GROUP.fullmatch(name.removesuffix(".safetensors"))):
            raise CheckpointCorrupt(f"{path / _META} names a file outside the checkpoint: {name!r}. {_REMEDY}")
    return Checkpoint(
        path, int(meta["frames"]), int(meta["steps"]), int(meta["updates"]), float(meta["time_s"]),
        meta.get("episode_return"), content["requested"], content["created"], meta, files,
    )


def every(folder: Path) -> list[Checkpoint]:
    """All checkpoints whose meta.json is whole, oldest first; unfinished ones are left out."""
    return [found for _, found in _listed(folder) if isinstance(found, Checkpoint)]


def _listed(folder: Path) -> list[tuple[float, Checkpoint | CheckpointCorrupt]]:
    """Checkpoints, or what is wrong with them, by creation."""
    found: list[tuple[float, Checkpoint | CheckpointCorrupt]] = []
    for path in sorted(folder.glob("[0-9]*")):
        if not _NAME.fullmatch(path.name):
            continue
        try:
            modified = path.stat().st_mtime
            checkpoint = at(path)
            found.append((checkpoint.created, checkpoint))
        except CheckpointCorrupt as error:
            found.append((modified, error))
        except (FileNotFoundError, InvalidInput):
            continue  # pruned in the meantime, or a stray file
    return sorted(found, key=lambda pair: pair[0])


def newest_good(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint whose files are all as written, and what was wrong with the newer ones."""
    passed_over: list[str] = []
    for _, found in reversed(_listed(folder)):
        try:
            if isinstance(found, CheckpointCorrupt):
                raise found
            found.verify()
            return found, passed_over
        except CheckpointCorrupt as error:
            passed_over.append(str(error))
    return None, passed_over


def prune(folder: Path, keep: int) -> list[Path]:
    """Remove all automatic checkpoints but the `keep` newest; requested ones and the newest stay. Returns the removed.

    Checkpoints with a damaged meta.json are left for a person to look at. Raises StorageFailed.
    """
    automatic = [one.path for one in every(folder) if not one.requested]
    removed = automatic[: max(0, len(automatic) - max(1, keep))]
    for path in removed:
        hidden = folder / f".removing-{os.getpid()}-{path.name}"
        try:
            os.rename(path, hidden)  # so that nobody meets half of it
        except OSError as error:
            raise StorageFailed(
                f"cannot remove the old checkpoint {path}: {error.strerror}. Make its folder writable."
            ) from error
        shutil.rmtree(hidden, ignore_errors=True)
    return removed
