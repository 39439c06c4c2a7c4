"""The checkpoints of a run: written, copied, listed and pruned so that whoever looks sees all of one or nothing.

A checkpoint is made in a hidden folder beside, brought to the disk, and renamed. Pruning renames first and removes
then; from a checkpoint that stays it removes the replay alone, a file that may be missing.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy.typing as npt

from workbench.checkpoints.checkpoint import META, REPLAY, Checkpoint, at, described, file_of, opened, plain_meta
from workbench.checkpoints.tensorfile import Content
from workbench.errors import CheckpointCorrupt, InvalidInput, StorageFailed

_NAME = re.compile(r"\d{12,}(-\d+)?", re.ASCII)
_one_at_a_time = threading.Lock()  # what this process left behind is then never what it is writing


def write(
    folder: Path, *, frames: int, groups: Mapping[str, Mapping[str, npt.NDArray[Any]]], meta: Mapping[str, Any],
    requested: bool,
) -> Checkpoint:
    """A new checkpoint of `groups` (arrays by name, by group) in `folder`, on the disk when this returns.

    The arrays may be views or memory maps, and together larger than memory: they are written in chunks.

    Args:
        meta: JSON data with at least steps, updates and time_s; episode_return may be None.
        requested: a person asked for it, so that it is never pruned.

    Raises InvalidInput for a bad name, dtype or meta, StorageFailed for a full disk; older checkpoints are untouched.
    """
    content = {file_of(group): Content.of(group, tensors) for group, tensors in groups.items()}
    plain = plain_meta({**meta, "frames": int(frames)})

    def fill(hidden: Path) -> bytes:
        _check_space(folder, {name: one.size_bytes for name, one in content.items()})
        files = {}
        for name, one in content.items():
            with _new_file(hidden / name) as file:
                files[name] = {"sha256": one.write(file), "size_bytes": one.size_bytes}
        return described(plain, files=files, requested=bool(requested), created=_after_newest(folder))

    return _made(folder, int(frames), fill)


def copy(
    source: Checkpoint, folder: Path, *, without: Collection[str] = (), meta: Mapping[str, Any] | None = None
) -> Checkpoint:
    """`source` without some groups, with fields of `meta` changed, as an automatic checkpoint in `folder`; verified.

    Its files are hard links where the disk allows that, so that it costs no space, and stays when `source` goes.
    Raises InvalidInput if `source` is pruned in this moment, CheckpointCorrupt, StorageFailed.
    """
    plain = plain_meta({**source.meta, **(meta or {})})
    groups = [group for group in source.groups if group not in without]

    def fill(hidden: Path) -> bytes:
        for group in groups:
            _link(source, file_of(group), hidden)
        files = {file_of(group): source.files[file_of(group)] for group in groups}
        return described(plain, files=files, requested=False, created=_after_newest(folder))

    return _made(folder, source.frames, fill, copied_from=source.path)


def _link(source: Checkpoint, name: str, hidden: Path) -> None:
    try:
        try:
            os.link(source.path / name, hidden / name)
        except FileNotFoundError:
            raise
        except OSError:  # another disk, or one without hard links
            _check_space(hidden, {name: source.files[name]["size_bytes"]})
            with opened(source, name) as theirs, _new_file(hidden / name) as ours:
                shutil.copyfileobj(theirs, ours, 2**20)
    except FileNotFoundError:
        raise InvalidInput(f"{source.path / name} is gone: its run pruned it in this moment. Choose a newer "
                           "checkpoint, or one that was asked for: run.checkpoint().") from None


def _made(
    folder: Path, frames: int, fill: Callable[[Path], bytes], *, copied_from: Path | None = None
) -> Checkpoint:
    """The checkpoint whose files `fill` puts into a hidden folder, and whose meta.json it returns."""
    with _one_at_a_time:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _remove_unfinished(folder)
            with _hidden(folder) as hidden:
                content = fill(hidden)
                with _new_file(hidden / META) as file:
                    file.write(content)
                if copied_from is not None:
                    _verify(hidden, copied_from)
                _sync(hidden)
                target = _free_name(folder, frames)
                os.rename(hidden, target)
            _sync(folder)
            return at(target)
        except OSError as error:
            if isinstance(error, StorageFailed):
                raise
            raise StorageFailed(f"cannot write a checkpoint in {folder}: {error.strerror}. Free space on that disk; "
                                "older checkpoints are untouched.") from error


def _verify(hidden: Path, copied_from: Path) -> None:
    try:
        at(hidden).verify()
    except CheckpointCorrupt as error:
        raise CheckpointCorrupt(str(error).replace(str(hidden), str(copied_from))) from None


@contextmanager
def _hidden(folder: Path) -> Iterator[Path]:
    hidden = folder / f".writing-{os.getpid()}-{secrets.token_hex(4)}"
    hidden.mkdir(mode=0o700)
    try:
        yield hidden
    except BaseException:
        shutil.rmtree(hidden, ignore_errors=True)
        raise


@contextmanager
def _new_file(path: Path) -> Iterator[BinaryIO]:
    """A private file that is on the disk when the block ends."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _check_space(folder: Path, sizes: Mapping[str, int]) -> None:
    """Raises StorageFailed if files of these sizes in bytes do not fit, before any of them is begun."""
    needed, disk = sum(sizes.values()), shutil.disk_usage(folder)
    if needed <= disk.free or not disk.total:  # some network disks do not know
        return
    replay = sizes.get(file_of(REPLAY), 0)
    remedy = f" or leave out the replay ({_size(replay)}): run.tune(save_replay=False);" if replay else ""
    raise StorageFailed(f"cannot write a checkpoint in {folder}: it takes {_size(needed)}, and {_size(disk.free)} are "
                        f"free. Free space on that disk;{remedy} older checkpoints are untouched.")


def _size(number: int) -> str:
    return f"{number / 2**30:.1f} GiB" if number >= 2**30 else f"{number / 2**20:.2f} MiB"


def _after_newest(folder: Path) -> float:
    """Now, or a moment after the newest checkpoint where the clock was set back: order of creation is kept."""
    return max([time.time(), *(one.created + 1e-3 for one in every(folder))])


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


def newest_good(
    folder: Path, *, replay: bool = True, only: Callable[[Checkpoint], bool] = lambda _: True
) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint whose files are all as written, and what was wrong with the newer ones.

    Args:
        replay: whether its replay must be as written, too; that takes reading it.
        only: which checkpoints come into question.
    """
    passed_over: list[str] = []
    for _, found in reversed(_listed(folder)):
        if isinstance(found, Checkpoint) and not only(found):
            continue
        try:
            if isinstance(found, CheckpointCorrupt):
                raise found
            found.verify(replay=replay)
            return found, passed_over
        except CheckpointCorrupt as error:
            passed_over.append(str(error))
    return None, passed_over


def prune(folder: Path, keep: int) -> list[Path]:
    """Remove all automatic checkpoints but the `keep` newest, and the replay of all of those but the newest.

    Requested ones keep everything. Checkpoints with a damaged meta.json are left for a person to look at. Raises
    StorageFailed. Returns the folders removed.
    """
    automatic = [one for one in every(folder) if not one.requested]
    kept = automatic[-max(1, keep):]
    removed = [one.path for one in automatic[: -len(kept)]] if kept else []
    try:
        for path in removed:
            hidden = folder / f".removing-{os.getpid()}-{path.name}"
            os.rename(path, hidden)  # so that nobody meets half of it
            shutil.rmtree(hidden, ignore_errors=True)
        _drop_replays(kept[:-1])
    except OSError as error:
        raise _cannot_remove(folder, error) from error
    return removed


def drop_replays(folder: Path) -> None:
    """Remove the replay of all automatic checkpoints, to make room for another. Raises StorageFailed."""
    try:
        _drop_replays(one for one in every(folder) if not one.requested)
    except OSError as error:
        raise _cannot_remove(folder, error) from error


def _drop_replays(automatic: Iterable[Checkpoint]) -> None:
    for one in automatic:
        (one.path / file_of(REPLAY)).unlink(missing_ok=True)


def _cannot_remove(folder: Path, error: OSError) -> StorageFailed:
    return StorageFailed(f"cannot remove what is old in {folder}: {error.strerror} ({error.filename}). Make its "
                         "folders writable.")
