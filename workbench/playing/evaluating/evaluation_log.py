"""Evaluations that a run keeps: `evaluations.jsonl` in its directory, one JSON object per line, oldest first.

They stay when their checkpoint is pruned, and no file of a checkpoint is touched. A line is written at once, with its
line break before it, so that a torn one spoils itself alone.
"""

from __future__ import annotations

import errno
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from workbench.checkpoints import Checkpoint
from workbench.errors import StorageFailed
from workbench.playing.evaluating.evaluation import Evaluation
from workbench.rundir import RunDirectory, gone
from workbench.rundir.files import last_lines, to_append

FILE = "evaluations.jsonl"
_MOST_BYTES, _MOST = 2**24, 100_000  # of the newest lines: these are read
_LARGEST = 1e300  # of a return: sums of its squares and the like are the reader's


@dataclass(frozen=True)
class Kept:
    """An evaluation with its place in the run.

    Attributes:
        time: unix time in s at which it was kept.
        created: of the checkpoint; tells it from a later one of the same name.
        updates, time_s: of the checkpoint.
    """

    evaluation: Evaluation
    time: float
    created: float
    updates: int
    time_s: float

    def of(self, checkpoint: Checkpoint) -> bool:
        """Whether that checkpoint was evaluated."""
        return (self.evaluation.checkpoint.name, self.created) == (checkpoint.path.name, checkpoint.created)


def keep(directory: RunDirectory, checkpoint: Checkpoint, evaluation: Evaluation) -> Kept:
    """Add an evaluation to those of the run. Raises RunNotFound, StorageFailed."""
    kept = Kept(evaluation, time.time(), checkpoint.created, checkpoint.updates, checkpoint.time_s)
    plain = {**asdict(kept), "evaluation": {**asdict(evaluation), "checkpoint": checkpoint.path.name}}
    path = directory.path / FILE
    try:
        with to_append(path) as file:
            file.write(b"\n" + json.dumps(plain).encode())
    except FileNotFoundError:
        raise gone(directory.path) from None
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "Make room on its disk." if full else "Make it writable."
        raise StorageFailed(f"cannot keep the evaluation in {path}: {error.strerror}. {remedy}") from None
    return kept


def kept(directory: RunDirectory) -> list[Kept]:
    """The evaluations of a run, oldest first, of the newest 16 MiB; lines that are no evaluation are left out."""
    try:
        lines = last_lines(directory.path / FILE, size=_MOST_BYTES, most=_MOST)
    except OSError:
        return []
    found = [_read(directory, line) for line in lines if line]
    return [one for one in found if one is not None]


def _read(directory: RunDirectory, line: bytes) -> Kept | None:
    try:
        plain: dict[str, Any] = json.loads(line)
        told = plain["evaluation"]
        path = directory.checkpoints / Path(told["checkpoint"]).name
        sums = {name: tuple(told.get(name, ())) for name in ("returns", "lengths", "scores")}
        for numbers in sums.values():
            if not all(type(one) in (int, float) and abs(one) < _LARGEST for one in numbers):
                return None
        read = Kept(**{**plain, "evaluation": Evaluation(**{**told, "checkpoint": path, **sums})})
        return read if read.evaluation.returns and isinstance(read.evaluation.environment, str) else None
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None
