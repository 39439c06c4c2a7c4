"""The best of a run's checkpoints: that whose last episodes had the highest mean when it was written.

Which mean that is stands in `metrics.collapse`: of environments that evaluate, if any do; of scores, where there are
any.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from workbench.checkpoints.checkpoint import REMEDY, Checkpoint, is_number
from workbench.errors import CheckpointCorrupt
from workbench.metrics.collapse import LEAST_EPISODES, is_lost
from workbench.metrics.status import JUDGED, RunStatus
from workbench.metrics.status_facts import FACTS, exact

BEST = "best"  # reason of a checkpoint that was written because its run was never better


@dataclass(frozen=True)
class Standing:
    """How good a checkpoint was when it was written.

    Attributes:
        by: name of the mean, as in a status.
        mean, episodes: it, and how many episodes are behind it.
    """

    by: str
    mean: float
    episodes: int

    def __str__(self) -> str:
        return f"{FACTS[self.by].title} {exact(self.mean)} of {self.episodes} episodes"


def standing(checkpoint: Checkpoint) -> Standing | None:
    """The standing that its meta.json tells; None where too few episodes are behind it.

    Older versions wrote the mean return of training alone, over up to a hundred episodes.
    """
    judged = checkpoint.meta.get("judged")
    if judged is None:
        judged = {"by": "episode_return", "mean": checkpoint.episode_return,
                  "episodes": checkpoint.meta.get("episodes")}
    if not isinstance(judged, dict):
        return None
    by, mean, episodes = (judged.get(name) for name in ("by", "mean", "episodes"))
    if not is_number(mean) or not math.isfinite(mean) or type(episodes) is not int or episodes < LEAST_EPISODES:
        return None
    if not isinstance(by, str) or by not in JUDGED:
        return None
    return Standing(by, float(mean), min(episodes, 100))


def best(checkpoints: Sequence[Checkpoint]) -> Checkpoint | None:
    """The one with the highest mean, the earliest of several; None where none has enough episodes behind it.

    They are compared by the mean that the newest one was judged by.
    """
    pairs = [(checkpoint, judged) for checkpoint in checkpoints if (judged := standing(checkpoint)) is not None]
    same = [(checkpoint, judged.mean) for checkpoint, judged in pairs if judged.by == pairs[-1][1].by]
    return max(same, key=lambda pair: pair[1])[0] if same else None


def best_whole(checkpoints: Sequence[Checkpoint]) -> Checkpoint | None:
    """The best one with all its files, which are not read."""
    return best([checkpoint for checkpoint in checkpoints if not checkpoint.is_torn])


def best_good(checkpoints: Sequence[Checkpoint]) -> tuple[Checkpoint | None, list[str]]:
    """The best one whose files are all as written, and the errors of better ones; its replay is not checked."""
    candidates, errors = list(checkpoints), list[str]()
    while (found := best(candidates)) is not None:
        try:
            found.verify(replay=False)
            return found, errors
        except CheckpointCorrupt as error:
            errors.append(str(error).removesuffix(f" {REMEDY}"))  # which is being done
            candidates.remove(found)
    return None, errors


def is_collapsed(checkpoint: Checkpoint, status: RunStatus) -> bool:
    """Whether it was written when its run, of that status, had collapsed already: nothing is rescued with it."""
    judged, is_later = standing(checkpoint), checkpoint.frames > (status.best_mean_frames or 0)
    return (status.collapsed and is_later and judged is not None and judged.by == status.judged_by
            and is_lost(status, judged.mean))
