"""How many unrolls a replay can hold: by its configuration, the size of an unroll, and the machine's free memory."""

from __future__ import annotations

import dataclasses
import itertools
import shutil
from contextlib import suppress
from pathlib import Path

import psutil

from workbench.config import ReplayConfig
from workbench.config.hardware import ROOT, control_groups
from workbench.errors import OutOfBounds
from workbench.replay.unroll_fields import UnrollLayout
from workbench.rundir.files import content, write_atomically

_MOST = 100_000  # unrolls, if no size is configured: SEED gcp/train_atari.sh
_NOTE = "capacity"  # the file with the planned capacity of a replay of automatic size
_RESERVE_BYTES = 2**28  # of free memory, below which a replay stops growing
_USABLE = 0.9  # of free memory; the rest is for batches and other processes

# Of a control group, versions 2 and 1: the files of limit and usage, and the name of the usage that can be reclaimed.
_GROUP_FILES = (("memory.max", "memory.current", "inactive_file"),
                ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"))


def planned_capacity(config: ReplayConfig, layout: UnrollLayout, *, free_bytes: int, where: str) -> int:
    """Unrolls that the replay will hold: `replay_size`, or (0) as many as fit, at most 100,000.

    It may take `replay_memory_gb`; with 0, half of the free bytes, or 90 % of them if `replay_size` is set.

    Args:
        free_bytes: of which the replay can take 90 %.
        where: "memory" or "disk", for the messages.

    Raises:
        OutOfBounds: it would not fit, or would hold fewer than two batches.
    """
    usable = int(_USABLE * free_bytes)
    allowance = int(config.replay_memory_gb * 2**30) or (usable if config.replay_size else free_bytes // 2)
    capacity = config.replay_size or min(_MOST, allowance // layout.unroll_bytes)
    limits = f"{_gib(free_bytes)} of {where} are free"
    if config.replay_memory_gb:
        limits += f" and replay_memory_gb is {config.replay_memory_gb:g}"
    lowest = 2 * config.batch_size
    if capacity < lowest:
        remedy = (f"Set replay_size to {lowest:,} or more, or a smaller batch_size." if config.replay_size else
                  _remedy("a larger replay_memory_gb, a smaller batch_size", where))
        raise OutOfBounds(f"a replay of {capacity:,} unrolls does not hold two batches, {lowest:,} unrolls of "
                          f"{layout.unroll_bytes:,} bytes; {limits}. {remedy}")
    size, largest = capacity * layout.unroll_bytes, min(allowance, usable)
    if size > largest:
        remedy = "a smaller replay_size" if config.replay_size else "a smaller replay_memory_gb"
        if allowance < usable:
            remedy += ", a larger replay_memory_gb"
        raise OutOfBounds(f"a replay of {capacity:,} unrolls of {layout.unroll_bytes:,} bytes needs {_gib(size)}, "
                          f"but may take {_gib(largest)}; {limits}. {_remedy(remedy, where)}")
    return capacity


def lasting_capacity(config: ReplayConfig, layout: UnrollLayout, *, folder: Path) -> int:
    """`planned_capacity` of the run with the replay folder `folder`, which has a note of it.

    An automatic size is planned once, so that a resumed run has the same capacity; it is planned anew only if that no
    longer fits.
    """
    where = "disk" if config.replay_storage == "disk" else "memory"
    free, note = free_bytes(config, folder), folder / _NOTE
    capacity = 0
    if not config.replay_size and note.exists():
        with suppress(OutOfBounds, OSError, ValueError):
            before = dataclasses.replace(config, replay_size=int(content(note, largest=100)))
            capacity = planned_capacity(before, layout, free_bytes=free, where=where)
    capacity = capacity or planned_capacity(config, layout, free_bytes=free, where=where)
    with suppress(OSError):  # without a note, a resumed run plans anew
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(note, str(capacity).encode())
    return capacity


def check_memory(config: ReplayConfig, *, unrolls: int, capacity: int) -> None:
    """Raises OutOfBounds if memory runs out while a replay in memory fills, since other processes need more."""
    if config.replay_storage == "disk":
        return
    free = free_bytes(config, Path())
    if free < _RESERVE_BYTES:
        raise OutOfBounds(
            f"only {_gib(free)} of memory are free, and the replay holds {unrolls:,} of {capacity:,} unrolls. End what "
            "else takes memory, and resume; or stop this run, and fork it with a smaller replay_size or "
            "replay_storage='disk'."
        )


def _remedy(first: str, where: str) -> str:
    on_disk = ", replay_storage='disk'" if where == "memory" else ""
    return f"Set {first}{on_disk}, a smaller unroll_length or a smaller burn_in."


def _gib(size: int) -> str:
    return f"{size / 2**30:,.3g} GiB"


def free_bytes(config: ReplayConfig, folder: Path) -> int:
    """Free bytes for the replay: on the disk of `folder`, which need not exist yet, or in memory.

    Memory that the system can reclaim counts as free. A container's lower limit counts instead of the machine's.
    """
    if config.replay_storage == "disk":
        existing = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
        return shutil.disk_usage(existing).free
    return min([psutil.virtual_memory().available, *group_free_bytes()])


def group_free_bytes(root: Path = ROOT) -> list[int]:
    """Free bytes in each control group of this process that has a limit, with its parent groups, v2 or v1."""
    free_bytes = []
    for folder, (limit, usage, reclaimable) in itertools.product(control_groups("memory", root), _GROUP_FILES):
        with suppress(OSError, ValueError):  # no such file; "max": no limit
            free = int((folder / limit).read_text()) - int((folder / usage).read_text())
            statistics = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
            free_bytes.append(max(0, free + int(statistics.get(reclaimable, 0))))
    return free_bytes
