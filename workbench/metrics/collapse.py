"""Whether a run's return has collapsed: the one definition, as a pure function of one status after the other.

A run is judged by one mean over the last hundred episodes, or more (`LearnerStatus.episode_return`): of environments
that evaluate, if any do, else of those that train; of the score, where the environment tells one beside a shaped
reward, else of the return (`judged_by`).

    first ──────────▶ best ──────────▶ now
           rise                fall

It has collapsed once it has lost more than two thirds of its rise, and recovered once it misses less than one third.
Rise and fall must both be at least as large as the scatter of single episodes: a mean of a hundred scatters a tenth as
much, so that noise alone, a fresh run or a warm-up is no collapse, whatever the sign and the size of returns. A learner
that goes on from before its best has lost that best, and is judged by what comes then.
"""

from __future__ import annotations

import math
from dataclasses import replace

from workbench.metrics.status import Course, JudgedBy, LearnerStatus, judged_mean

EPISODES = 100  # behind a mean by which a run collapses
LEAST_EPISODES = 20  # behind a mean that ends a run or makes a checkpoint its best: the first to end are short ones
LOST, MISSED = 2 / 3, 1 / 3  # of the rise: more than this begins a collapse, less than this ends one


def judged_by(*, evaluates: bool, scored: bool) -> JudgedBy:
    """The name of the mean by which a run is judged.

    Args:
        evaluates: whether any environment does.
        scored: whether its episodes have scores.
    """
    if evaluates:
        return "evaluation_score" if scored else "evaluation_return"
    return "episode_score" if scored else "episode_return"


def followed(course: Course, status: LearnerStatus) -> Course:
    """The course after one more status; the same where fewer than EPISODES are behind its mean."""
    mean, episodes = judged_mean(status)
    if status.frames < (course.best_mean_frames or 0):
        course = Course(first_mean=course.first_mean)
    if mean is None or not math.isfinite(mean) or episodes < EPISODES:
        return course
    spread = status.judged_spread or 0.0
    if course.first_mean is None:
        course = replace(course, first_mean=mean)
    if course.best_mean is None or mean > course.best_mean:
        return replace(course, best_mean=mean, best_mean_frames=status.frames, best_mean_spread=spread, collapsed=False)
    return replace(course, collapsed=_collapsed(course, mean, spread))


def is_lost(course: Course, mean: float) -> bool:
    """Whether a mean is so far below the run's best that most of its rise is gone."""
    if course.best_mean is None or course.first_mean is None:
        return False
    return course.best_mean - mean > LOST * (course.best_mean - course.first_mean)


def _collapsed(course: Course, mean: float, spread: float) -> bool:
    assert course.best_mean is not None and course.first_mean is not None
    rise, fall = course.best_mean - course.first_mean, course.best_mean - mean
    if course.collapsed:
        return fall > MISSED * rise
    scatter = math.sqrt(((course.best_mean_spread or 0.0) ** 2 + spread**2) / 2)  # of episodes, then and now
    return is_lost(course, mean) and min(rise, fall) > scatter
