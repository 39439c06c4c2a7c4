"""What a run has spent in all its lives, how its return went, and whether its target can be reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.config import RunConfig
from workbench.metrics.collapse import followed
from workbench.metrics.status import Course, LearnerStatus, RunStatus, Spent
from workbench.metrics.status_facts import FACTS
from workbench.supervisor import stopping_rules
from workbench.supervisor.stopping_rules import Budget


class Account:
    """The spent hours and cost of one run, and the course of its return. Not thread-safe: callers hold a lock.

    Args:
        name: of the run.
        record: of run.json; that of a fork has what its checkpoint was worth.
        before: the last status of the run's earlier lives; {}: there are none.
        now: the monotonic time from which on this life counts.
    """

    def __init__(self, name: str, record: Mapping[str, Any], before: Mapping[str, Any], now: float) -> None:
        self._name = name
        self._budget = Budget(Spent.from_json(before), now)
        known = {name: value for name, value in before.items() if value is not None}
        self._course = Course.from_json({**record, **known})
        self._misses_score = False

    @property
    def first_mean(self) -> float | None:
        """Where the mean by which the run is judged began; None before it counts."""
        return self._course.first_mean

    def status(self, state: str, learner: LearnerStatus) -> RunStatus:
        """The status of a run in this state, with hours, cost and the course of the return."""
        return RunStatus(self._name, state, **vars(learner), **vars(self._budget.spent), **vars(self._course))

    def spend(self, now: float, price_per_hour: float) -> None:
        """Add the time since the last call, with its cost."""
        self._budget.spend(now, price_per_hour)

    def note(self, config: RunConfig, learner: LearnerStatus) -> tuple[str, str] | None:
        """Follow the mean return and the best one. Returns kind and message of the event where a collapse begins or
        ends, else None."""
        self._budget.note_status(config, learner)
        before, self._course = self._course, followed(self._course, learner)
        status = self.status("training", learner)
        if self._course.collapsed and not before.collapsed:
            return "collapse", (f"{status.collapse}. run.rescue() forks the best checkpoint with half the learning "
                                "rate")
        if before.collapsed and not self._course.collapsed and self._course.best_mean is not None:
            return "recovered", f"{FACTS[learner.judged_by].said(status)}: back from its collapse"
        return None

    def misses_score(self, config: RunConfig, learner: LearnerStatus) -> bool:
        """True once: when episodes have ended, and the environment tells no score to compare with the target."""
        if self._misses_score or config.target_score is None:
            return False
        self._misses_score = stopping_rules.has_no_score(config, learner)
        return self._misses_score
