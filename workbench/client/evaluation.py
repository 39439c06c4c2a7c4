"""`evaluate`: play whole episodes with a checkpoint's policy, in a process of its own on the CPU."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from pathlib import Path

from workbench.checkpoints import Checkpoint
from workbench.client import own_process
from workbench.client.run import Run
from workbench.client.start import chosen_checkpoint
from workbench.config import Setting

# Two-sided 97.5 % quantiles of Student's t by degrees of freedom; beyond the table the next smaller entry is used,
# which makes the interval a little too wide, never too narrow. Source: any table of the t distribution.
_T_QUANTILES = {
    1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228, 11: 2.201,
    12: 2.179, 13: 2.160, 14: 2.145, 15: 2.131, 16: 2.120, 17: 2.110, 18: 2.101, 19: 2.093, 20: 2.086, 25: 2.060,
    30: 2.042, 40: 2.021, 60: 2.000, 120: 1.980, 1000: 1.962,
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Returns of whole episodes played by one checkpoint's policy.

    Attributes:
        returns: sums of unclipped rewards, by episode.
        lengths: steps, by episode.
        checkpoint_frames: how long the policy had been trained.
    """

    environment: str
    checkpoint: Path
    checkpoint_frames: int
    seed: int
    greedy: bool
    returns: tuple[float, ...]
    lengths: tuple[int, ...]

    @property
    def mean(self) -> float:
        """Mean return."""
        return statistics.fmean(self.returns)

    @property
    def confidence_interval(self) -> tuple[float, float]:
        """95 % confidence interval of the mean return (Student's t); (-inf, inf) for one episode."""
        count = len(self.returns)
        if count < 2:
            return (-math.inf, math.inf)
        quantile = _T_QUANTILES[max(known for known in _T_QUANTILES if known <= count - 1)]
        half = quantile * statistics.stdev(self.returns) / math.sqrt(count)
        return (self.mean - half, self.mean + half)

    def __repr__(self) -> str:
        low, high = self.confidence_interval
        return (
            f"Evaluation({self.environment} at {self.checkpoint_frames:,} frames: mean return {self.mean:.4g} "
            f"[{low:.4g}, {high:.4g}], {len(self.returns)} episodes)"
        )


def evaluate(
    checkpoint: Checkpoint | Run | str | Path,
    *,
    episodes: int = 10,
    seed: int = 0,
    greedy: bool = True,
    timeout_s: float | None = None,
) -> Evaluation:
    """Returns and lengths of `episodes` whole episodes; the same for the same seed.

    Args:
        checkpoint: a Checkpoint, its folder, or a run (its newest good one).
        greedy: take the likeliest action; False: sample from the policy.

    Raises:
        InvalidInput, CheckpointCorrupt: no good checkpoint there.
        EnvironmentFailed, NetworkFailed: with the traceback.
        WorkbenchError: the process ended without a result, or not within `timeout_s`.
    """
    found = chosen_checkpoint(checkpoint)
    request = {
        "checkpoint": str(found.path),
        "episodes": Setting("episodes", int, 10, "", low=1, high=1_000_000).check(episodes),
        "seed": Setting("seed", int, 0, "", low=0, high=2**31 - 1).check(seed),
        "greedy": Setting("greedy", bool, True, "").check(greedy),
    }
    told = own_process.answer_of(
        "_evaluate", request, timeout_s=timeout_s, what="evaluation", remedy="Ask for fewer episodes."
    )
    return Evaluation(
        environment=told.get("environment", found.meta["environment"]["name"]),
        checkpoint=found.path,
        checkpoint_frames=found.frames,
        seed=seed,
        greedy=greedy,
        returns=tuple(float(one) for one in told["returns"]),
        lengths=tuple(int(one) for one in told["lengths"]),
    )
