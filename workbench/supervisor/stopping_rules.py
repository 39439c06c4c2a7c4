"""The rules of a configuration that finish a run, by hours, cost, return or lack of progress, and its budget so far.

    field                    limit of
    max_hours                the hours in which a supervisor of the run was alive, pauses included
    max_cost, price_per_hour the cost of those hours, each at the price of its time
    target_return            the mean return
    target_score             the mean score, where the environment tells one
    patience_frames          the frames since the best mean return

A mean is that of environments that evaluate, if any do, else of those that train: over the last 100 episodes
(or one for each environment, if there are more), and of at least LEAST_EPISODES. `total_frames` is the learner's own
rule. The status holds the hours and the cost, so that a resumed run goes on with them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from workbench.config import RunConfig
from workbench.metrics.collapse import LEAST_EPISODES
from workbench.metrics.status import LearnerStatus, RunStatus, Spent
from workbench.metrics.status_facts import FACTS, exact

RULES = ("max_hours", "max_cost", "target_return", "target_score", "patience_frames")
BUDGETS = ("max_hours", "max_cost")
TARGETS = ("target_return", "target_score")

_HOUR_S = 3600.0


class Budget:
    """Adds to `spent`, the hours, cost and best return of the run's earlier lives, from the monotonic time `now` on."""

    def __init__(self, spent: Spent, now: float) -> None:
        self.spent, self._at = spent, now

    def spend(self, now: float, price_per_hour: float) -> None:
        """Add the time since the last call, with its cost."""
        passed_s, self._at = now - self._at, now
        self.spent = replace(self.spent, alive_s=self.spent.alive_s + passed_s,
                             cost=self.spent.cost + passed_s / _HOUR_S * price_per_hour)

    def note_status(self, config: RunConfig, status: LearnerStatus) -> None:
        """Take in the frames and the mean return of a status."""
        if self.spent.first_frames is None:
            self.spent = replace(self.spent, first_frames=status.frames)
        mean, best, best_at = mean_of("return", config, status), self.spent.best_return, self.spent.best_return_frames
        if best_at is None or status.frames < best_at or (mean is not None and (best is None or mean > best)):
            self.spent = replace(self.spent, best_return=mean, best_return_frames=status.frames)


def mean_of(what: str, config: RunConfig, status: LearnerStatus) -> float | None:
    """The mean "return" or "score" that the rules use; None where too few episodes are behind it."""
    name = mean_name(what, config)
    return getattr(status, name) if (FACTS[name].episodes(status) or 0) >= LEAST_EPISODES else None


def mean_name(what: str, config: RunConfig) -> str:
    """The name of the mean "return" or "score" that the rules use, as in a status."""
    return f"{'evaluation' if config.evaluating_per_actor else 'episode'}_{what}"


def target_reached(config: RunConfig, mean: Callable[[str], float | None]) -> tuple[str, str, float]:
    """The target that is reached by `mean` of "return" or "score": its field, which of both, and the mean; ("", "", 0)
    if none is."""
    for field in TARGETS:
        what, target = field.removeprefix("target_"), getattr(config, field)
        value = mean(what)
        if target is not None and value is not None and value >= target:
            return field, what, value
    return "", "", 0.0


def reached(config: RunConfig, status: RunStatus) -> tuple[str, str]:
    """The field whose rule ends the run now, and the reason in words; ("", "") if none does."""
    if config.max_hours is not None and status.alive_s / _HOUR_S >= config.max_hours:
        return "max_hours", f"reached max_hours={config.max_hours:g}"
    if config.max_cost is not None and status.cost >= config.max_cost:
        return "max_cost", f"reached max_cost={config.max_cost:g}, after {FACTS['alive_s'].shown(status)} h"
    field, what, mean = target_reached(config, lambda what: mean_of(what, config, status))
    if field:
        return field, f"reached {field}={config.value(field):g}: the mean {what} is {exact(mean)}"
    since = _frames_since_best(status)
    if config.patience_frames is not None and since is not None and since >= config.patience_frames:
        best = FACTS["best_return"].shown(status)
        rose = f"no mean return above {best}" if best else "no mean return"
        return "patience_frames", f"reached patience_frames={config.patience_frames:,}: {rose} for {since:,} frames"
    return "", ""


def _frames_since_best(status: RunStatus) -> int | None:
    best = status.best_return_frames
    return None if best is None else max(0, int(status.frames) - int(best))


def has_no_score(config: RunConfig, status: LearnerStatus) -> bool:
    """Whether episodes have ended, and the environment told no score of them."""
    return mean_of("return", config, status) is not None and mean_of("score", config, status) is None


def seconds_left(config: RunConfig, status: RunStatus) -> float | None:
    """Seconds until the first limit of frames, hours or cost; None unless the run trains."""
    if status.state != "training" or not status.frames_per_second:
        return None
    limits_s: list[float] = [(config.total_frames - status.frames) / status.frames_per_second]
    if config.max_hours is not None:
        limits_s.append(config.max_hours * _HOUR_S - status.alive_s)
    if config.max_cost is not None:
        limits_s.append((config.max_cost - status.cost) / config.price_per_hour * _HOUR_S)
    return max(0.0, min(limits_s))


def spent(config: RunConfig, status: RunStatus) -> list[str]:
    """The state of each rule of the configuration, in words, such as "1.2 of 2 h"."""
    words, since, best = [], _frames_since_best(status), FACTS["best_return"].shown(status)
    if config.max_hours is not None:
        words.append(f"{FACTS['alive_s'].shown(status)} of {config.max_hours:g} h")
    if config.price_per_hour:
        limit = "" if config.max_cost is None else f" of {config.max_cost:g}"
        each = FACTS["cost_per_billion_frames"].shown(status)
        words.append(FACTS["cost"].said(status) + limit + (f" ({each} per billion frames)" if each else ""))
    if config.target_return is not None:
        words.append(f"until a mean return of {config.target_return:g}")
    if config.target_score is not None:
        words.append(f"until a mean score of {config.target_score:g}"
                     f"{', which this environment does not tell' * has_no_score(config, status)}")
    if config.patience_frames is not None and since is not None:
        rose = f"none above the mean return of {best}" if best else "no mean return"
        words.append(f"{rose} in {since:,} of {config.patience_frames:,} frames")
    return words
