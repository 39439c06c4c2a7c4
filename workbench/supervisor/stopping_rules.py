"""The rules of a configuration that end a run, by hours, cost, return or lack of progress, and what it has spent.

    field                    the run finishes once
    max_hours                its supervisor has lived for so many hours, in all its lives, pauses included
    max_cost, price_per_hour those hours, each at the price that was set then, have cost so much
    target_return            its mean return is so high
    patience_frames          its best mean return is so many frames old

The mean return is that of environments that evaluate, if any do, else of those that train: over the last 100 episodes,
and of at least LEAST_EPISODES. `total_frames` is the learner's own rule. What was spent is kept in the status, so that
it goes on from there when a run is resumed.
"""

from __future__ import annotations

from dataclasses import replace

from workbench.config import RunConfig
from workbench.metrics.status import LearnerStatus, RunStatus, Spent
from workbench.metrics.status_facts import FACTS, exact

RULES = ("max_hours", "max_cost", "target_return", "patience_frames")
LEAST_EPISODES = 20  # behind a mean that counts: right after a resume there is one

_HOUR_S = 3600.0


class Budget:
    """Counts what a run has spent so far, `spent`, from that of its earlier lives and the monotonic time `now` on."""

    def __init__(self, spent: Spent, now: float) -> None:
        self.spent, self._at = spent, now

    def spend(self, now: float, price_per_hour: float) -> None:
        """Count the time since the last call."""
        passed_s, self._at = now - self._at, now
        self.spent = replace(self.spent, alive_s=self.spent.alive_s + passed_s,
                             cost=self.spent.cost + passed_s / _HOUR_S * price_per_hour)

    def saw(self, config: RunConfig, status: LearnerStatus) -> None:
        """Take in a status of the learner."""
        mean, best = mean_return(config, status), self.spent.best_return
        if self.spent.best_return_frames is None or (mean is not None and (best is None or mean > best)):
            self.spent = replace(self.spent, best_return=mean, best_return_frames=status.frames)


def mean_return(config: RunConfig, status: LearnerStatus) -> float | None:
    """The mean return that rules go by; None where too few episodes are behind it."""
    if config.evaluating_per_actor > 0:
        mean, episodes = status.evaluation_return, status.evaluation_episodes
    else:
        mean, episodes = status.episode_return, status.episodes_in_mean or 0
    return mean if episodes >= LEAST_EPISODES else None


def reached(config: RunConfig, status: RunStatus) -> tuple[str, str]:
    """The field whose rule ends the run now, and in words how it stands; ("", "") if none does."""
    if config.max_hours is not None and status.alive_s / _HOUR_S >= config.max_hours:
        return "max_hours", f"reached max_hours={config.max_hours:g}"
    if config.max_cost is not None and status.cost >= config.max_cost:
        return "max_cost", f"reached max_cost={config.max_cost:g}, after {FACTS['alive_s'].shown(status)} h"
    mean = mean_return(config, status)
    if config.target_return is not None and mean is not None and mean >= config.target_return:
        return "target_return", f"reached target_return={config.target_return:g}: the mean return is {exact(mean)}"
    since = _frames_since_best(status)
    if config.patience_frames is not None and since is not None and since >= config.patience_frames:
        best = FACTS["best_return"].shown(status)
        rose = f"no mean return above {best}" if best else "no mean return"
        return "patience_frames", f"reached patience_frames={config.patience_frames:,}: {rose} for {since:,} frames"
    return "", ""


def _frames_since_best(status: RunStatus) -> int | None:
    best = status.best_return_frames
    return None if best is None else max(0, int(status.frames) - int(best))


def seconds_left(config: RunConfig, status: RunStatus) -> float | None:
    """Seconds until frames, hours or money are used up, whichever is first; None unless it trains."""
    if status.state != "training" or not status.frames_per_second:
        return None
    left: list[float] = [(config.total_frames - status.frames) / status.frames_per_second]
    if config.max_hours is not None:
        left.append(config.max_hours * _HOUR_S - status.alive_s)
    if config.max_cost is not None:
        left.append((config.max_cost - status.cost) / config.price_per_hour * _HOUR_S)
    return max(0.0, min(left))


def spent(config: RunConfig, status: RunStatus) -> list[str]:
    """How the rules stand that the configuration has, in words, such as "1.2 of 2 h"."""
    words, since, best = [], _frames_since_best(status), FACTS["best_return"].shown(status)
    if config.max_hours is not None:
        words.append(f"{FACTS['alive_s'].shown(status)} of {config.max_hours:g} h")
    if config.price_per_hour:
        words.append(FACTS["cost"].said(status) + ("" if config.max_cost is None else f" of {config.max_cost:g}"))
    if config.target_return is not None:
        words.append(f"until a mean return of {config.target_return:g}")
    if config.patience_frames is not None and since is not None:
        rose = f"none above the mean return of {best}" if best else "no mean return"
        words.append(f"{rose} in {since:,} of {config.patience_frames:,} frames")
    return words
