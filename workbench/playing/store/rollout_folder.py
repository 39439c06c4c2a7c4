"""The folder of one rollout: filled under a hidden name while the episode is played, and then renamed."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from workbench import rundir
from workbench.checkpoints import Checkpoint, Tensors, tensorfile
from workbench.checkpoints.checkpoint import digest
from workbench.errors import InvalidInput, StorageFailed
from workbench.playing.store.pictures import PictureWriter, StoredFrames
from workbench.rundir.files import LARGEST_RECORD, content, make_private, opened
from workbench.trajectory import Array

FORMAT = 2  # 1 had no actions but choices, and no parts
RECORD, STEPS, FRAMES = "rollout.json", "steps.safetensors", "frames.bin"
_GREATEST = 0.999  # quantile of an episode's saliency that becomes 255: extreme steps do not darken the rest
_SAMPLE = 1_000_000  # values from which the quantile is estimated
_CHUNK = 512  # rows
_FULL = (errno.ENOSPC, errno.EDQUOT)
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST)


class Stored(NamedTuple):
    """The contents of a folder: `rollout.json`, the arrays by name, and the frames."""

    record: dict[str, Any]
    arrays: Tensors
    frames: StoredFrames | None


class _Rows:
    """Rows of one array, in an unnamed file until all are written."""

    def __init__(self, first: Array, file: BinaryIO) -> None:
        self._file, self._row, self._count = file, first, 0

    def append(self, row: Array) -> None:
        self._file.write(np.ascontiguousarray(row, self._row.dtype).data)
        self._count += 1

    def array(self) -> Array:
        """All rows, mapped."""
        self._file.flush()
        return np.memmap(self._file, self._row.dtype, "r", shape=(self._count, *self._row.shape))


class RolloutWriter:
    """Fills `folder` step by step; `finish` completes it. Raises StorageFailed on a full disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open = ExitStack()
        self._rows: dict[str, _Rows] = {}
        self._pictures: PictureWriter | None = None

    def __enter__(self) -> RolloutWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            with _writing(self._folder):
                self._open.close()  # flushes, which fails again on a full disk
        except StorageFailed:
            if kind is None:
                raise

    def append(self, **rows: Any) -> None:
        """Add a row to each of these arrays, with the dtype and shape of its first row."""
        with _writing(self._folder):
            for name, row in rows.items():
                if name not in self._rows:
                    self._rows[name] = _Rows(np.asarray(row), self._scratch())
                self._rows[name].append(np.asarray(row))

    def show(self, frame: Array) -> tuple[str, bytes]:
        """Add a frame, uint8 [H, W, 3]. Returns its format, "PNG" or "JPEG", and the encoded file."""
        with _writing(self._folder):
            if self._pictures is None:
                file = open(self._folder / FRAMES, "wb")  # noqa: SIM115  # the stack closes it
                self._pictures = PictureWriter(self._open.enter_context(file))
            picture = self._pictures.append(frame)
            return self._pictures.kind, picture

    def finish(self, record: Mapping[str, Any], *, into: Path | None = None) -> None:
        """Write the arrays and `record` (JSON data). Rows named "saliency" become bytes, see `_as_bytes`.

        `into`: another folder, which gets a copy of everything so far; this one can still grow.
        """
        folder = into or self._folder
        with _writing(folder):
            arrays = {name: rows.array() for name, rows in self._rows.items()}
            if "saliency" in arrays:
                arrays["saliency"] = self._as_bytes(arrays["saliency"])
            if self._pictures is not None:
                self._pictures.flush()
                arrays["frame_ends"] = np.array(self._pictures.ends, np.int64)
                if folder != self._folder:
                    shutil.copyfile(self._folder / FRAMES, folder / FRAMES)
            with open(folder / STEPS, "wb") as file:
                tensorfile.Content.of("steps", arrays).write(file)
            kind = self._pictures.kind if self._pictures is not None else None
            (folder / RECORD).write_text(json.dumps({**record, "format": FORMAT, "frames": kind}, indent=1))

    def _as_bytes(self, saliency: Array) -> Array:
        """The saliency as uint8, where 255 is the 99.9th percentile of the episode (of few values the maximum)."""
        values = saliency.reshape(-1)
        sample = values[:: max(1, len(values) // _SAMPLE)]
        greatest = float(np.quantile(sample, _GREATEST, method="higher")) or float(sample.max())
        file = self._scratch()
        for at in range(0, len(saliency), _CHUNK):
            part = saliency[at : at + _CHUNK].astype(np.float32) / (greatest or 1.0)
            file.write((part.clip(0, 1) * 255).round().astype(np.uint8).data)
        file.flush()
        return np.memmap(file, np.uint8, "r", shape=saliency.shape)

    def _scratch(self) -> BinaryIO:
        """An unnamed file on the same disk, removed with the writer."""
        return self._open.enter_context(TemporaryFile(dir=self._folder))


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if isinstance(error, StorageFailed):
            raise
        remedy = " Free space on that disk, or play fewer steps: max_steps=1000." if error.errno in _FULL else ""
        raise StorageFailed(
            f"cannot write the rollout in {folder.parent}: {error.strerror or error}.{remedy}") from None


# --- paths ------------------------------------------------------------------------------------------------------------


def rollout_path(checkpoint: Checkpoint, name: str) -> Path:
    """The folder of a checkpoint's rollout `name`: in its run, or in the workbench's home if it has no run.

    In the home the folder's name has a digest of the checkpoint, since exported ones may share one name.
    """
    if (run := rundir.of_checkpoint(checkpoint.path)) is not None:
        return run.rollouts / f"{checkpoint.path.name}-{name}"
    content = digest({"meta": checkpoint.meta, "files": checkpoint.files})[:8]
    return rundir.home() / "rollouts" / f"{checkpoint.path.name}-{content}-{name}"


def is_rollout(folder: Path) -> bool:
    """Whether `folder` holds a rollout."""
    return os.path.isfile(folder / RECORD)  # False also for a name that is too long


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A hidden folder to fill, which then replaces `target`, or is removed if the block raises.

    Readers of the replaced folder keep their open files, and several processes may replace it. Raises StorageFailed.
    """
    while (inode := _inode(target)) and not is_rollout(target):
        if _inode(target) == inode:  # otherwise another process replaced it meanwhile
            raise StorageFailed(f"{target} is there and is no rollout. It stays as it is: move it, or delete it.")
    with scratch_beside(target) as hidden:
        yield hidden
        with _writing(target):
            _swap(hidden, target, target.with_name(f"{hidden.name}-before"))


def _inode(path: Path) -> int:
    """The inode, which changes when a path is replaced; 0 if there is nothing."""
    try:
        return path.lstat().st_ino
    except OSError:  # also for a name that is too long
        return 0


@contextmanager
def scratch_beside(target: Path) -> Iterator[Path]:
    """A hidden folder beside `target`, removed after the block. Raises StorageFailed."""
    with ExitStack() as stack:
        with _writing(target):
            make_private(target.parent)
            hidden = stack.enter_context(rundir.hidden_beside(target))
        yield hidden


def _swap(hidden: Path, target: Path, before: Path) -> None:
    """Rename `hidden` to `target`, which is moved to `before`, and back again on failure."""
    while True:
        with suppress(FileNotFoundError):
            target.rename(before)
        try:
            hidden.rename(target)
            return
        except BaseException as error:
            if not (isinstance(error, OSError) and error.errno in _TAKEN):  # taken by a faster process
                with suppress(OSError):
                    before.rename(target)
                raise
        finally:
            shutil.rmtree(before, ignore_errors=True)


def read(folder: Path) -> Stored:
    """The contents of a rollout's folder. Raises InvalidInput if there is none, StorageFailed if it is damaged."""
    try:
        record = json.loads(content(folder / RECORD, largest=2 * LARGEST_RECORD))
        if record["format"] not in range(1, FORMAT + 1):
            raise StorageFailed(f"{folder} has format {record['format']!r}, and this version of rl-workbench knows "
                                f"1 to {FORMAT}. Read it with the version that wrote it, or with a newer one.")
        with opened(folder / STEPS) as file:
            arrays = tensorfile.read(file)
        frames = None
        if record["frames"]:
            ends = arrays.pop("frame_ends").tolist()
            try:
                frames = StoredFrames(folder / FRAMES, ends=ends, kind=record["frames"])
            except (FileNotFoundError, ValueError) as error:  # the steps are whole without them
                why = f"its frames are damaged ({error!s:.200})"
                record["note"] = "; ".join(filter(None, [record.get("note"), why]))
    except FileNotFoundError as error:
        raise InvalidInput(f"there is no rollout in {folder}: {Path(error.filename).name} is missing.") from None
    except StorageFailed:
        raise
    except OSError as error:  # such as too many open files, which deleting the folder would not fix
        raise StorageFailed(f"the rollout in {folder} cannot be read now: {error}.") from None
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise StorageFailed(f"the rollout in {folder} is damaged: {error!s:.200}. Move the folder away.") from None
    return Stored(record, arrays, frames)
