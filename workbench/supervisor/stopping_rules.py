"""The rules of a configuration that end a run, by hours, cost, return or lack of progress, and what it has spent.

    field                    the run finishes once
    max_hours                its supervisor has lived for so many hours, in all its lives, pauses included
    max_cost, price_per_hour those hours, each at the price that was set then, have cost so much
    target_return            its mean return is so high
    patience_frames          its best mean return is so many frames old

The mean return is that of environments that evaluate, if any do, else of those that train: over the last 100 episodes,
and of at least LEAST_EPISODES. `total_frames` is the learner's own rule. What was spent is kept in the status, so that
it goes on from there when a run is resumed. Told is what a status tells, by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.config import RunConfig

RULES = ("max_hours", "max_cost", "target_return", "patience_frames")
LEAST_EPISODES = 20  # behind a mean that counts: right after a resume there is one

_HOUR_S = 3600.0


class Budget:
    """What a run has spent so far, and how far its best return reached.

    Args:
        kept: the last status of the run's earlier lives; empty: it has none.
        now: monotonic time, s.
    """

    def __init__(self, kept: Mapping[str, Any], now: float) -> None:
        self._alive_s, self._cost = float(kept.get("alive_s") or 0.0), float(kept.get("cost") or 0.0)
        self._best: float | None = kept.get("best_return")
        self._best_frames: int | None = kept.get("best_return_frames")
        self._at = now

    def spend(self, now: float, price_per_hour: float) -> None:
        """Count the time since the last call."""
        passed_s, self._at = now - self._at, now
        self._alive_s += passed_s
        self._cost += passed_s / _HOUR_S * price_per_hour

    def saw(self, config: RunConfig, told: Mapping[str, Any]) -> None:
        """Take in a status of the learner."""
        mean, frames = mean_return(config, told), int(told.get("frames", 0))
        if self._best_frames is None or (mean is not None and (self._best is None or mean > self._best)):
            self._best, self._best_frames = mean, frames

    def told(self) -> dict[str, Any]:
        """As the status has it."""
        return {"alive_s": self._alive_s, "cost": self._cost, "best_return": self._best,
                "best_return_frames": self._best_frames}


def mean_return(config: RunConfig, told: Mapping[str, Any]) -> float | None:
    """The mean return that rules go by; None where too few episodes are behind it."""
    evaluates = config.evaluating_per_actor > 0
    behind = told.get("evaluation_episodes" if evaluates else "episodes_in_mean") or 0
    mean: float | None = told.get("evaluation_return" if evaluates else "episode_return")
    return mean if behind >= LEAST_EPISODES else None


def reached(config: RunConfig, told: Mapping[str, Any]) -> tuple[str, str]:
    """The field whose rule ends the run now, and in words how it stands; ("", "") if none does."""
    hours, cost = (told.get("alive_s") or 0.0) / _HOUR_S, told.get("cost") or 0.0
    if config.max_hours is not None and hours >= config.max_hours:
        return "max_hours", f"reached max_hours={config.max_hours:g}"
    if config.max_cost is not None and cost >= config.max_cost:
        return "max_cost", f"reached max_cost={config.max_cost:g}, after {hours:.3g} h"
    mean = mean_return(config, told)
    if config.target_return is not None and mean is not None and mean >= config.target_return:
        return "target_return", f"reached target_return={config.target_return:g}: the mean return is {mean:.4g}"
    since = _frames_since_best(told)
    if config.patience_frames is not None and since is not None and since >= config.patience_frames:
        best = told.get("best_return")
        rose = "no mean return" if best is None else f"no mean return above {best:.4g}"
        return "patience_frames", f"reached patience_frames={config.patience_frames:,}: {rose} for {since:,} frames"
    return "", ""


def _frames_since_best(told: Mapping[str, Any]) -> int | None:
    best = told.get("best_return_frames")
    return None if best is None or "frames" not in told else max(0, int(told["frames"]) - int(best))


def seconds_left(config: RunConfig, told: Mapping[str, Any]) -> float | None:
    """Seconds until frames, hours or money are used up, whichever is first; None unless it trains."""
    if told.get("state") != "training" or not told.get("frames_per_second"):
        return None
    left: list[float] = [(config.total_frames - told["frames"]) / told["frames_per_second"]]
    if config.max_hours is not None:
        left.append(config.max_hours * _HOUR_S - (told.get("alive_s") or 0.0))
    if config.max_cost is not None:
        left.append((config.max_cost - (told.get("cost") or 0.0)) / config.price_per_hour * _HOUR_S)
    return max(0.0, min(left))


def spent(config: RunConfig, told: Mapping[str, Any]) -> list[str]:
    """How the rules stand that the configuration has, in words, such as "1.2 of 2 h"."""
    said, since, best = [], _frames_since_best(told), told.get("best_return")
    if config.max_hours is not None:
        said.append(f"{(told.get('alive_s') or 0.0) / _HOUR_S:.3g} of {config.max_hours:g} h")
    if config.price_per_hour:
        most = "" if config.max_cost is None else f" of {config.max_cost:g}"
        said.append(f"cost {told.get('cost') or 0.0:.2f}{most}")
    if config.target_return is not None:
        said.append(f"until a mean return of {config.target_return:g}")
    if config.patience_frames is not None and since is not None:
        rose = "no mean return" if best is None else f"none above the mean return of {best:.4g}"
        said.append(f"{rose} in {since:,} of {config.patience_frames:,} frames")
    return said
