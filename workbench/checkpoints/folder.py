"""The checkpoints of a run: writes, copies, lists and prunes them, so that a reader sees a whole one or none.

A checkpoint is written into a hidden folder beside the others, synced to disk, and renamed. Pruning renames first and
removes afterwards; from a checkpoint that stays, it removes only the replay, a file that may be missing.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy.typing as npt

from workbench.checkpoints.best import BEST, best_whole
from workbench.checkpoints.checkpoint import (
    EXACT,
    META,
    NAME,
    REMEDY,
    REPLAY,
    Checkpoint,
    at,
    encoded_meta,
    file_of,
    opened,
    plain_meta,
)
from workbench.checkpoints.tensorfile import Content
from workbench.errors import CheckpointCorrupt, InvalidInput, StorageFailed
from workbench.rundir.files import locked

_PRUNED_S = 10.0  # longest time in which a checkpoint is removed
_RETRY_S = 0.02
_writing = threading.Lock()  # held by the one writer of this process: an unfinished folder is then a killed one's


def write(
    folder: Path, *, frames: int, groups: Mapping[str, Mapping[str, npt.NDArray[Any]]], meta: Mapping[str, Any],
    requested: bool,
) -> Checkpoint:
    """A new checkpoint of `groups` (arrays by name, by group) in `folder`, on the disk when this returns.

    The arrays may be views or memory maps, and together larger than memory: they are written in chunks.

    Args:
        meta: JSON data with at least steps, updates and time_s; episode_return may be None.
        requested: whether a person asked for it; it is then never pruned.

    Raises InvalidInput for a bad name, dtype or meta, StorageFailed for a full disk; older checkpoints are untouched.
    """
    contents = {file_of(group): Content.of(group, tensors) for group, tensors in groups.items()}
    plain = plain_meta({**meta, "frames": int(frames)})

    def fill(hidden: Path) -> bytes:
        _check_space(folder, {name: content.size_bytes for name, content in contents.items()})
        files = {}
        for name, content in contents.items():
            with _new_file(hidden / name) as file:
                files[name] = {"sha256": content.write(file), "size_bytes": content.size_bytes}
        return encoded_meta(plain, files=files, requested=bool(requested), created=_after_newest(folder))

    return _new_checkpoint(folder, int(frames), fill)


def copy(
    source: Checkpoint, folder: Path, *, without: Collection[str] = (), meta: Mapping[str, Any] | None = None,
    restored: bool = False,
) -> Checkpoint:
    """`source` without some groups, with fields of `meta` changed, as an automatic checkpoint in `folder`; verified.

    Its files are hard links where the disk allows that: they cost no space, and stay if `source` is removed. One that
    is `restored` shares none, so that what damages one leaves the other, and is as old, and as much asked for, as it.
    Raises InvalidInput if `source` is pruned meanwhile, CheckpointCorrupt, StorageFailed.
    """
    plain = plain_meta({**source.meta, **(meta or {})})
    groups = [group for group in source.groups if group not in without]

    def fill(hidden: Path) -> bytes:
        for group in groups:
            _bring(source, file_of(group), hidden, linked=not restored)
        files = {file_of(group): source.files[file_of(group)] for group in groups}
        created = source.created if restored else max(source.created, _after_newest(folder))
        return encoded_meta(plain, files=files, requested=restored and source.requested, created=created)

    return _new_checkpoint(folder, source.frames, fill, copied_from=source.path)


def _bring(source: Checkpoint, name: str, hidden: Path, *, linked: bool) -> None:
    """Put a file of `source` into `hidden`, by a hard link if `linked` and the disk allows it."""
    try:
        if linked and _is_linked(source.path / name, hidden / name):
            return
        _check_space(hidden, {name: source.files[name]["size_bytes"]})
        with opened(source, name) as original, _new_file(hidden / name) as file:
            shutil.copyfileobj(original, file, 2**20)
    except FileNotFoundError:
        raise InvalidInput(f"{source.path / name} is gone: its run pruned it in this moment. Choose a newer "
                           "checkpoint, or one that was asked for: run.checkpoint().") from None


def _is_linked(original: Path, link: Path) -> bool:
    try:
        os.link(original, link)
    except FileNotFoundError:
        raise
    except OSError:  # another disk, or one without hard links
        return False
    return True


def _new_checkpoint(
    folder: Path, frames: int, fill: Callable[[Path], bytes], *, copied_from: Path | None = None
) -> Checkpoint:
    """The checkpoint whose files `fill` puts into a hidden folder, and whose meta.json it returns."""
    with _writing:
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
    hidden = folder / f".writing-{secrets.token_hex(8)}"
    hidden.mkdir(mode=0o700)
    try:
        yield hidden
    except BaseException:
        shutil.rmtree(hidden, ignore_errors=True)
        raise


@contextmanager
def _new_file(path: Path) -> Iterator[BinaryIO]:
    """A private file that is on disk when the block ends."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _check_space(folder: Path, sizes: Mapping[str, int]) -> None:
    """Raises StorageFailed if files of these sizes in bytes do not fit; called before any of them is written."""
    needed, disk = sum(sizes.values()), shutil.disk_usage(folder)
    if needed <= disk.free or not disk.total:  # some network disks report 0
        return
    replay = sizes.get(file_of(REPLAY), 0)
    remedy = f" or leave out the replay ({_size(replay)}): run.tune(save_replay=False);" if replay else ""
    raise StorageFailed(f"cannot write a checkpoint in {folder}: it takes {_size(needed)}, and {_size(disk.free)} are "
                        f"free. Free space on that disk;{remedy} older checkpoints are untouched.")


def _size(number: int) -> str:
    return f"{number / 2**30:.1f} GiB" if number >= 2**30 else f"{number / 2**20:.2f} MiB"


def _after_newest(folder: Path) -> float:
    """Now, or just after the newest checkpoint if the clock was set back: the order of creation stays."""
    return max([time.time(), *(checkpoint.created + 1e-3 for checkpoint in every(folder))])


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
    """Remove what killed processes left: only a run's leading learner writes there, one after the other."""
    for path in (*folder.glob(".writing-*"), *folder.glob(".removing-*")):
        shutil.rmtree(path, ignore_errors=True)


def every(folder: Path) -> list[Checkpoint]:
    """All checkpoints whose meta.json is whole, oldest first, without unfinished ones."""
    return [entry for _, entry in _listed(folder) if isinstance(entry, Checkpoint)]


def newest(folder: Path) -> Checkpoint | None:
    """The last of `every`; None if there is none."""
    return next(reversed(every(folder)), None)


def _listed(folder: Path) -> list[tuple[float, Checkpoint | CheckpointCorrupt]]:
    """Checkpoints, or their errors, each with its time of creation, oldest first."""
    entries: list[tuple[float, Checkpoint | CheckpointCorrupt]] = []
    for path in sorted(folder.glob("[0-9]*")):
        if not NAME.fullmatch(path.name):
            continue
        try:
            modified = path.lstat().st_mtime
            checkpoint = at(path)
            entries.append((checkpoint.created, checkpoint))
        except CheckpointCorrupt as error:
            entries.append((modified, error))
        except (FileNotFoundError, InvalidInput):
            continue  # pruned meanwhile, or a stray file or link
        except OSError as error:
            entries.append((0.0, CheckpointCorrupt(f"{path} cannot be read: {error.strerror}.")))
    return sorted(entries, key=lambda pair: pair[0])


def newest_good(
    folder: Path, *, replay: bool = True, only: Callable[[Checkpoint], bool] = lambda _: True
) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint whose files are all as written, and the errors of the newer ones.

    Args:
        replay: whether to verify its replay, too, which means to read it.
        only: whether to consider a checkpoint.
    """
    errors: list[str] = []
    for _, entry in reversed(_listed(folder)):
        if isinstance(entry, Checkpoint) and not only(entry):
            continue
        try:
            if isinstance(entry, CheckpointCorrupt):
                raise entry
            entry.verify(replay=replay)
            return entry, errors
        except CheckpointCorrupt as error:
            errors.append(str(error).removesuffix(f" {REMEDY}"))  # which is being done
    return None, errors


def prune(folder: Path, keep: int) -> list[Path]:
    """Remove all automatic checkpoints but the `keep` newest and the best, and the replay of these but for the newest.

    Of those that are too many, as lives write them that train nothing, those go first whose weights a later one has.
    The best is that of all whole checkpoints; those that were written because they were the best till then (`BEST`) are
    not counted, and go once a better one is there. Requested checkpoints stay whole. Those with a damaged meta.json
    stay, for a person to inspect, and those that are `held`. Returns the folders removed. Raises StorageFailed.
    """
    every_one = every(folder)
    automatic = [checkpoint for checkpoint in every_one if not checkpoint.requested]
    counted = [checkpoint for checkpoint in automatic if checkpoint.meta.get("reason") != BEST]
    last_with = {_weights(checkpoint): checkpoint for checkpoint in counted}
    repeated_first = sorted(counted, key=lambda checkpoint: last_with[_weights(checkpoint)] is checkpoint)
    kept = [*repeated_first[-max(1, keep):], best_whole(every_one)]
    try:
        removed = [one.path for one in automatic if one not in kept and _is_removed(one.path)]
        _drop_replays(checkpoint for checkpoint in automatic if checkpoint not in counted[-1:])
    except OSError as error:
        raise _cannot_remove(folder, error) from error
    return removed


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Keeps its run from pruning a checkpoint while the block lasts: a process is starting that is to read it."""
    with _locked(path, fcntl.LOCK_SH, wait_s=_PRUNED_S):  # for a run that prunes now: then it is gone
        yield


def _is_removed(path: Path) -> bool:
    """Remove a checkpoint unless it is held; whether it was removed. Raises OSError."""
    with _locked(path, fcntl.LOCK_EX) as is_free:
        if is_free:
            remove(path)
    return is_free


@contextmanager
def _locked(path: Path, kind: int, *, wait_s: float = 0.0) -> Iterator[bool]:
    """Holds a lock of a checkpoint; yields False where another process has one for longer than `wait_s`. Where there
    are no locks, nobody has."""
    with ExitStack() as stack:
        is_free, deadline = False, time.monotonic() + wait_s
        try:
            descriptor = _opened_to_lock(path / META, kind)
            stack.callback(os.close, descriptor)
            while not (is_free := locked(descriptor, path, kind | fcntl.LOCK_NB)) and time.monotonic() < deadline:
                time.sleep(_RETRY_S)
        except OSError:  # it is gone, or its storage has no locks
            is_free = True
        yield is_free


def _opened_to_lock(path: Path, kind: int) -> int:
    with suppress(PermissionError):
        if kind == fcntl.LOCK_EX:  # NFS asks for a file that may be written, which a folder never may
            return os.open(path, os.O_RDWR | os.O_NONBLOCK)
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK)


def _weights(checkpoint: Checkpoint) -> object:
    """Alike for checkpoints with the same weights; that of a fork, and where an exact run goes on, is like no other."""
    alone = "fork" in checkpoint.meta or checkpoint.meta.get("reason") == EXACT
    model = checkpoint.files.get(file_of("model"))
    return checkpoint.path if alone or model is None else model["sha256"]


def remove(path: Path) -> None:
    """Remove a checkpoint's folder, so that no reader meets half of it. Raises OSError."""
    hidden = path.with_name(f".removing-{secrets.token_hex(8)}")
    os.rename(path, hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def drop_replays(folder: Path) -> None:
    """Remove the replay of all automatic checkpoints, to make room for a new one. Raises StorageFailed."""
    try:
        _drop_replays(checkpoint for checkpoint in every(folder) if not checkpoint.requested)
    except OSError as error:
        raise _cannot_remove(folder, error) from error


def _drop_replays(checkpoints: Iterable[Checkpoint]) -> None:
    for checkpoint in checkpoints:
        (checkpoint.path / file_of(REPLAY)).unlink(missing_ok=True)


def _cannot_remove(folder: Path, error: OSError) -> StorageFailed:
    return StorageFailed(f"cannot remove old checkpoints in {folder}: {error.strerror} ({error.filename}). Make its "
                         "folders writable.")
