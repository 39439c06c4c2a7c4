"""Exports a checkpoint: a copy as a folder that can be loaded where it is, or the same as one .zip.

It holds weights and settings, and no code: classes typed in cells stay with the run, and calls are given them anew.
"""

from __future__ import annotations

import os
import secrets
import shutil
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from workbench.checkpoints.checkpoint import META, REPLAY, Checkpoint, encoded_meta, file_of, opened
from workbench.errors import CheckpointCorrupt, InvalidInput, StorageFailed


def export(
    checkpoint: Checkpoint, target: str | Path, *, replay: bool = False, weights_only: bool = False,
    beside: Mapping[str, bytes] | None = None,
) -> Path:
    """Verify and copy a checkpoint. Returns the new path: `wb.launch(..., checkpoint=folder)` starts from its weights.

    A class typed in a cell is not in it: give it again, to `wb.launch(..., checkpoint=...)`, and a network or an
    algorithm to `wb.evaluate` and `wb.rollout`, too.

    Args:
        target: the new folder; one that ends in .zip becomes a file, to be unzipped to a folder of that name.
        replay: whether the copy holds the replay, which may be large.
        weights_only: leave out the optimizer and all else that only training needs; what a user's own algorithm has
            learnt beside the network stays, since it may act by it.
        beside: more files by name, such as a card.

    Raises:
        InvalidInput: the name is in use, or there is no replay to copy.
        CheckpointCorrupt: the checkpoint is damaged, or was deleted.
        StorageFailed: it cannot be written there; no file remains.
    """
    path = Path(target).expanduser().absolute()
    if replay and not checkpoint.has_replay:
        raise InvalidInput(f"{checkpoint.path} has no replay. Export it without.")
    if os.path.lexists(path):
        raise InvalidInput(f"{path} is there already. Choose another name.")
    checkpoint.verify(replay=replay)
    groups = [group for group in checkpoint.groups if replay or group != REPLAY]
    if weights_only:
        acting = ("model", "algorithm") if checkpoint.config.own_algorithm else ("model",)
        groups = [group for group in groups if group in acting]
    names = [file_of(group) for group in groups]
    hidden = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    texts = {META: _meta_of(checkpoint, names), **(beside or {})}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        (checkpoint.path / META).lstat()  # fails if it was pruned; its content was read before, and is not read again
        if path.suffix.lower() == ".zip":
            _zip(checkpoint, names, texts, hidden, inside=path.stem)
        else:
            _copy(checkpoint, names, texts, hidden)
        os.rename(hidden, path)
    except (OSError, CheckpointCorrupt) as error:
        missing = [name for name in (META, *names) if not (checkpoint.path / name).exists()]
        if missing:
            raise CheckpointCorrupt(f"{checkpoint.path / missing[0]} is gone: its run pruned it in this moment. Export "
                                    "a newer checkpoint, or one that was asked for: run.checkpoint().") from None
        if isinstance(error, CheckpointCorrupt):
            raise
        raise StorageFailed(f"cannot write {path}: {error.strerror or error}. Choose another place, or free space "
                            "there.") from error
    finally:
        shutil.rmtree(hidden, ignore_errors=True)  # a folder
        with suppress(OSError):
            hidden.unlink()
    return path


def _meta_of(checkpoint: Checkpoint, names: list[str]) -> bytes:
    """meta.json of a copy with these files alone."""
    return encoded_meta(checkpoint.meta, files={name: checkpoint.files[name] for name in names},
                        requested=checkpoint.requested, created=checkpoint.created)


def _copy(checkpoint: Checkpoint, names: list[str], texts: Mapping[str, bytes], folder: Path) -> None:
    folder.mkdir()  # as the user's umask says, like the files in it: an export is to be handed on
    for name, data in texts.items():
        (folder / name).write_bytes(data)
    for name in names:
        with opened(checkpoint, name) as theirs, open(folder / name, "xb") as ours:
            shutil.copyfileobj(theirs, ours, 2**20)


def _zip(checkpoint: Checkpoint, names: list[str], texts: Mapping[str, bytes], file: Path, *, inside: str) -> None:
    """Without compression: weights look like noise to a compressor. `inside`: the folder that it becomes."""
    with zipfile.ZipFile(file, "x", zipfile.ZIP_STORED, strict_timestamps=False) as archive:
        for name, data in texts.items():
            archive.writestr(f"{inside}/{name}", data)
        for name in names:
            with opened(checkpoint, name) as theirs, archive.open(f"{inside}/{name}", "w", force_zip64=True) as ours:
                shutil.copyfileobj(theirs, ours, 2**20)
