"""The log of a run's evaluations: `evaluations.jsonl` in its directory, one JSON object per line, oldest first.

Entries stay when their checkpoint is pruned, and no file of a checkpoint is changed. Each line is written in one piece
after a line break, so that a torn line leaves the others intact.
"""

from __future__ import annotations

import errno
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from workbench.checkpoints import Checkpoint
from workbench.environments.atari.protocols import PROTOCOLS
from workbench.errors import RunNotFound, StorageFailed
from workbench.playing.evaluating.evaluation import Evaluation
from workbench.rundir import RunDirectory, gone, of_checkpoint
from workbench.rundir.files import last_lines, to_append
from workbench.running.progress import notify

FILE = "evaluations.jsonl"
_MOST_BYTES, _MOST = 2**24, 100_000  # bytes and number of the newest lines, which are read
_LARGEST = 1e300  # of a return, so that statistics of it stay finite


@dataclass(frozen=True)
class LoggedEvaluation:
    """An evaluation with its place in the run.

    Attributes:
        time: Unix time in s at which it was logged.
        created: of the checkpoint; distinguishes it from a later one of the same name.
        updates, time_s: of the checkpoint.
    """

    evaluation: Evaluation
    time: float
    created: float
    updates: int
    time_s: float

    def of(self, checkpoint: Checkpoint) -> bool:
        """Whether it is an evaluation of that checkpoint."""
        return (self.evaluation.checkpoint.name, self.created) == (checkpoint.path.name, checkpoint.created)


def keep(directory: RunDirectory, checkpoint: Checkpoint, evaluation: Evaluation) -> LoggedEvaluation:
    """Add an evaluation to the run's log. Raises RunNotFound, StorageFailed."""
    entry = LoggedEvaluation(evaluation, time.time(), checkpoint.created, checkpoint.updates, checkpoint.time_s)
    data = {**asdict(entry), "evaluation": {**asdict(evaluation), "checkpoint": checkpoint.path.name}}
    path = directory.path / FILE
    try:
        with to_append(path) as file:
            file.write(b"\n" + json.dumps(data).encode())
    except FileNotFoundError:
        raise gone(directory.path) from None
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "Make room on its disk." if full else "Make it writable."
        raise StorageFailed(f"cannot keep the evaluation in {path}: {error.strerror}. {remedy}") from None
    return entry


def keep_in_its_run(checkpoint: Checkpoint, evaluation: Evaluation) -> None:
    """As `keep`, in the run that wrote the checkpoint, if it lies in one. What prevents it is said, and no more."""
    if (run := of_checkpoint(checkpoint.path)) is not None:
        try:
            keep(run, checkpoint, evaluation)
        except (RunNotFound, StorageFailed) as error:
            notify(str(error))


def kept(directory: RunDirectory) -> list[LoggedEvaluation]:
    """The evaluations of a run in its newest 16 MiB of log, oldest first, without invalid lines."""
    try:
        lines = last_lines(directory.path / FILE, size=_MOST_BYTES, most=_MOST)
    except OSError:
        return []
    entries = [_read(directory, line) for line in lines if line]
    return [entry for entry in entries if entry is not None]


def _read(directory: RunDirectory, line: bytes) -> LoggedEvaluation | None:
    try:
        data: dict[str, Any] = json.loads(line)
        evaluation = data["evaluation"]
        path = directory.checkpoints / Path(evaluation["checkpoint"]).name
        sums = {name: tuple(evaluation.get(name, ())) for name in ("returns", "lengths", "scores", "games")}
        for numbers in sums.values():
            if not all(type(number) in (int, float) and abs(number) < _LARGEST for number in numbers):
                return None
        entry = LoggedEvaluation(**{**data, "evaluation": Evaluation(**{**evaluation, "checkpoint": path, **sums})})
        return entry if entry.evaluation.returns and _fits(entry) else None
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None


def _fits(entry: LoggedEvaluation) -> bool:
    """Whether its fields have the types by which it is shown and compared, and its protocol is known."""
    shown, known = entry.evaluation, (None, *PROTOCOLS)
    texts, counts = (shown.environment, shown.differs), (shown.checkpoint_frames, shown.seed, entry.updates)
    return (all(type(text) is str for text in texts) and all(type(count) is int for count in counts)
            and type(shown.greedy) is bool and shown.protocol in known
            and len(shown.games) in (0, len(shown.returns))
            and all(type(number) in (int, float) for number in (entry.time, entry.created, entry.time_s)))
