"""How many unrolls a replay can hold: what is asked for, what one unroll takes, and what the machine has."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from workbench.config import R2D2Config
from workbench.errors import OutOfBounds
from workbench.replay.unroll_fields import UnrollLayout
from workbench.rundir.files import content, write_atomically

_MOST = 100_000  # unrolls, where no size is asked for: SEED gcp/train_atari.sh
_NOTE = "capacity"  # the file that says what a replay of automatic size was planned to hold
_RESERVE_BYTES = 2**28  # of memory, below which a replay does not grow any more
_USABLE = 0.9  # of what is free: the rest is left to batches, and to others

# In a control group: the limit, what is used, and the name of what of that is given up when memory is short.
_GROUP_V1 = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
_GROUP_V2 = "memory.max", "memory.current", "inactive_file"


def planned_capacity(config: R2D2Config, layout: UnrollLayout, *, free_bytes: int, where: str) -> int:
    """Unrolls that the replay shall hold: `replay_size`, or with 0 as many as it may, at most 100,000.

    It may take `replay_memory_gb`; with 0, half of what is free, or 90 % of it for a `replay_size` that is asked for.

    Args:
        free_bytes: of which the replay can take 90 %.
        where: "memory" or "disk", for the messages.

    Raises:
        OutOfBounds: it would not fit, or would hold fewer than two batches.
    """
    usable = int(_USABLE * free_bytes)
    allowed = int(config.replay_memory_gb * 2**30) or (usable if config.replay_size else free_bytes // 2)
    capacity = config.replay_size or min(_MOST, allowed // layout.unroll_bytes)
    there = f"{_gib(free_bytes)} of {where} are free"
    if config.replay_memory_gb:
        there += f" and replay_memory_gb is {config.replay_memory_gb:g}"
    lowest = 2 * config.batch_size
    if capacity < lowest:
        remedy = (f"Set replay_size to {lowest:,} or more, or a smaller batch_size." if config.replay_size else
                  _remedy("a larger replay_memory_gb, a smaller batch_size", where))
        raise OutOfBounds(f"a replay of {capacity:,} unrolls does not hold two batches, {lowest:,} unrolls of "
                          f"{layout.unroll_bytes:,} bytes; {there}. {remedy}")
    needed, granted = capacity * layout.unroll_bytes, min(allowed, usable)
    if needed > granted:
        remedy = "a smaller replay_size" if config.replay_size else "a smaller replay_memory_gb"
        if allowed < usable:
            remedy += ", a larger replay_memory_gb"
        raise OutOfBounds(f"a replay of {capacity:,} unrolls of {layout.unroll_bytes:,} bytes needs {_gib(needed)}, "
                          f"but may take {_gib(granted)}; {there}. {_remedy(remedy, where)}")
    return capacity


def lasting_capacity(config: R2D2Config, layout: UnrollLayout, *, folder: Path) -> int:
    """`planned_capacity` for the run whose replay lies in `folder`, where it is noted.

    An automatic size is planned once in a run's life, so that a resumed run holds what it held; it is planned anew only
    if that does not fit any more.
    """
    where = "disk" if config.replay_storage == "disk" else "memory"
    free, note = free_bytes(config, folder), folder / _NOTE
    capacity = 0
    if not config.replay_size and note.exists():
        with suppress(OutOfBounds, OSError, ValueError):
            before = dataclasses.replace(config, replay_size=int(content(note, largest=100)))
            capacity = planned_capacity(before, layout, free_bytes=free, where=where)
    capacity = capacity or planned_capacity(config, layout, free_bytes=free, where=where)
    with suppress(OSError):  # without the note a resumed run plans anew
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(note, str(capacity).encode())
    return capacity


def check_memory(config: R2D2Config, *, unrolls: int, capacity: int) -> None:
    """Raises OutOfBounds if memory runs out while a replay in memory fills: others may take what was planned with."""
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


def free_bytes(config: R2D2Config, folder: Path) -> int:
    """Bytes that are free where the replay will lie: on the disk of `folder`, which need not be there, or in memory.

    Memory that the system gives up when asked counts as free; so do a container's limits, where they are lower.
    """
    if config.replay_storage == "disk":
        there = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
        return shutil.disk_usage(there).free
    return min([psutil.virtual_memory().available, *group_free_bytes()])


def group_free_bytes(root: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")) -> list[int]:
    """Bytes that each control group with a limit leaves to this process: its own and those above, v2 or v1."""
    found = []
    for folder, (limit, usage, reclaimable) in _groups(root, membership):
        with suppress(OSError, ValueError):  # no such file; "max": no limit
            free = int((folder / limit).read_text()) - int((folder / usage).read_text())
            statistics = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
            found.append(max(0, free + int(statistics.get(reclaimable, 0))))
    return found


def _groups(root: Path, membership: Path) -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """Folders of the groups that this process is in, and the names of their files.

    In a container the path may be the host's, which is not there; the container's own group is then the root.
    """
    lines = membership.read_text().splitlines() if membership.exists() else []
    for _, controllers, path in (line.split(":", 2) for line in lines):
        if not controllers:
            base, names = root, _GROUP_V2
        elif "memory" in controllers.split(","):
            base, names = root / "memory", _GROUP_V1
        else:
            continue
        here = base / path.lstrip("/")
        yield from ((folder, names) for folder in (here, *here.parents) if folder.is_relative_to(base))
