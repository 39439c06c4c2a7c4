"""What a collapse is: on made series, on random ones, and on the learning curves of the runs that ship."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from workbench.metrics.collapse import EPISODES, followed, judged_by
from workbench.metrics.status import Course, LearnerStatus, RunStatus
from workbench.playing import pretrained

# As a run on CartPole that was ruined by its learning rate, and one on Pong that learned to win: means of 100 episodes.
CARTPOLE = (22, 41, 96, 171, 230, 312, 402, 455, 490, 500, 498, 500, 500, 471, 500, 340, 171, 62, 12, 9, 9, 9)
PONG = (-20.3, -20.6, -20.9, -20.4, -19.8, -19.1, -17.0, -14.2, -11.0, -12.3, -6.5, -1.2, 4.0, 2.1, 9.9, 14.5, 17.2)


EACH = 5  # episodes between two looks at the status


def course_of(returns: Iterable[float], *, start: Course | None = None) -> list[Course]:
    """The course at each look, as a learner's status tells the mean and the spread of the last hundred episodes."""
    last: deque[float] = deque(maxlen=100)
    courses, course = [], start or Course()
    began = course.best_mean_frames or 0
    for number, value in enumerate(returns):
        last.append(value)
        if number % EACH != EACH - 1:
            continue
        status = LearnerStatus(frames=began + number, judged_by="episode_return", episode_return=float(np.mean(last)),
                               episodes_in_mean=len(last), judged_spread=float(np.std(last)))
        courses.append(course := followed(course, status))
    return courses


def turns(courses: list[Course]) -> list[bool]:
    """Whether the run has collapsed, at each change of that."""
    states = [False, *(course.collapsed for course in courses)]
    return [after for before, after in zip(states, states[1:], strict=False) if before != after]


def episodes(means: Iterable[float], scatter: float, *, each: int = 100, seed: int = 0) -> np.ndarray:
    """So many noisy returns around each mean."""
    random = np.random.default_rng(seed)
    return np.concatenate([random.normal(mean, scatter, each) for mean in means])


def test_a_run_that_falls_from_its_best_has_collapsed_once_and_the_best_is_known() -> None:
    courses = course_of(np.clip(episodes(CARTPOLE, 30), 9, 500))
    assert turns(courses) == [True]
    assert courses[-1].best_mean == pytest.approx(500, abs=15) and 900 <= courses[-1].best_mean_frames <= 1500
    assert courses[-1].first_mean == pytest.approx(25, abs=6)


@pytest.mark.parametrize(("name", "fell"), [("cartpole", True), ("football", False), ("pong", False), ("recall", True)])
def test_the_runs_that_ship_fell_only_where_their_curve_shows_it_and_ended_well(name: str, fell: bool) -> None:
    card = (pretrained.FOLDER / name / pretrained.CARD).read_text()
    line, number = re.search(r'<polyline points="([^"]+)"', card), re.search(r"\| episodes \| ([\d,]+)", card)
    assert line is not None and number is not None
    curve = [-float(point.partition(",")[2]) for point in line[1].split()]  # of means; y grows downwards in an SVG
    each = min(100, int(number[1].replace(",", "")) // len(curve))
    courses = course_of(episodes(curve, 0.3 * (max(curve) - min(curve)), each=each))
    assert (len(turns(courses)) > 0) == fell and not courses[-1].collapsed
    assert turns(course_of(episodes([min(curve)] * 2, 0.2), start=courses[-1])) == [True]


@pytest.mark.parametrize("scatter", [0.5, 2.0, 4.0])
def test_negative_returns_are_no_collapse_while_they_grow_and_are_one_when_they_fall_back(scatter: float) -> None:
    learned = course_of(episodes(PONG, scatter))
    assert turns(learned) == []
    assert turns(course_of(episodes([-20.9] * 3, 0.3), start=learned[-1])) == [True]


def test_a_collapse_that_passes_is_a_recovery_and_a_second_one_counts_again() -> None:
    assert turns(course_of(episodes([0, 50, 100, 20, 10, 90, 95, 5], 5))) == [True, False, True]


def test_between_one_third_and_two_thirds_nothing_changes() -> None:
    fallen, between = course_of(episodes([0, 100, 20], 3)), episodes([50, 60, 40, 55, 50], 3)
    assert turns(fallen) == [True]
    assert turns(course_of(between, start=replace(fallen[-1], collapsed=False))) == []
    assert course_of(between, start=fallen[-1])[-1].collapsed


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("noise", ["normal", "heavy", "rare"])
def test_noise_alone_is_never_a_collapse(noise: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    returns = {"normal": lambda: random.normal(-5, 40, 10_000), "heavy": lambda: random.exponential(100, 10_000),
               "rare": lambda: 400.0 * (random.random(10_000) < 0.03)}[noise]()
    assert turns(course_of(returns)) == []


@pytest.mark.parametrize("seed", range(5))
def test_a_random_walk_collapses_only_where_it_has_lost_two_thirds_of_what_it_had_gained(seed: int) -> None:
    walk = np.cumsum(np.random.default_rng(seed).normal(0, 1, 10_000))
    courses = course_of(walk)
    means = np.convolve(walk, np.ones(100) / 100, "valid")[::EACH]
    changes = turns(courses)
    assert all(first != second for first, second in zip(changes, changes[1:], strict=False))
    for number, (before, after) in enumerate(zip(courses[19:], courses[20:], strict=False), start=1):
        if after.collapsed and not before.collapsed:
            rise = after.best_mean - after.first_mean
            assert after.best_mean == pytest.approx(means[: number + 1].max())
            assert after.best_mean - means[number] > 2 / 3 * rise > 0
    assert len(changes) <= 40, "it does not flicker"


def test_a_fresh_run_that_gets_a_little_worse_has_not_collapsed() -> None:
    assert turns(course_of(episodes([-20.0, -19.9, -20.6, -21.0, -21.0], 0.4))) == []
    assert turns(course_of([500.0] * 60 + [9.0] * 39)) == [], "too few episodes"


def test_a_fork_that_begins_at_the_best_collapses_as_its_ancestors_began_low() -> None:
    assert turns(course_of(episodes([500, 250, 9], 10))) == [], "where it is not known how low it could be"
    assert turns(course_of(episodes([500, 250, 9], 10), start=Course(first_mean=22.0))) == [True]


def test_after_a_restart_nothing_counts_before_a_hundred_episodes() -> None:
    known = Course(first_mean=0.0, best_mean=100.0, best_mean_frames=7, best_mean_spread=1.0)
    few = LearnerStatus(frames=9, judged_by="episode_return", episode_return=0.0, episodes_in_mean=EPISODES - 1)
    assert followed(known, few) is known
    assert followed(known, replace(few, episodes_in_mean=EPISODES)).collapsed
    assert followed(known, replace(few, episode_return=float("nan"), episodes_in_mean=EPISODES)) is known


def test_a_life_that_is_lost_takes_its_best_along() -> None:
    known = Course(first_mean=20.0, best_mean=301.1, best_mean_frames=61_424, best_mean_spread=100.0, collapsed=True)
    again = LearnerStatus(frames=4816, judged_by="episode_return", episode_return=27.5, episodes_in_mean=EPISODES)
    assert followed(known, replace(again, episode_return=None)) == Course(first_mean=20.0)
    assert followed(known, again) == Course(first_mean=20.0, best_mean=27.5, best_mean_frames=4816, best_mean_spread=0)


def test_evaluations_come_before_training_and_scores_before_shaped_rewards() -> None:
    names = {(evaluates, scored): judged_by(evaluates=evaluates, scored=scored)
             for evaluates in (False, True) for scored in (False, True)}
    assert list(names.values()) == ["episode_return", "episode_score", "evaluation_return", "evaluation_score"]


def test_a_status_says_its_collapse_in_words_and_keeps_it_as_json() -> None:
    status = RunStatus("cartpole", "training", frames=4_000_000, episode_return=9.0, episodes_in_mean=100,
                       judged_by="episode_return", best_mean=500.0, best_mean_frames=2_380_000, collapsed=True)
    assert status.collapse == "mean return 9, 98 % below its best of 500 at 2,380,000 frames"
    assert status.line() == "training, 4,000,000 frames, mean return 9, collapsed from 500"
    assert RunStatus.from_json(status.to_json(), name="cartpole") == status
    healthy = replace(status, collapsed=False)
    assert healthy.collapse == "" and "collapsed" not in healthy.line()
    assert replace(status, best_mean=18.0, episode_return=-20.0).collapse == (
        "mean return -20, far below its best of 18 at 2,380,000 frames")
    odd = RunStatus.from_json({**status.to_json(), "judged_by": "to_json"}, name="odd")
    assert odd.collapse == "" and odd.line()


def held_out(kind: str, random: np.random.Generator) -> tuple[list[float], float]:
    """Means of a learning curve that no threshold was chosen on, and its rise."""
    best = 10 ** random.uniform(0, 4)
    low = -random.uniform(0, 1) * best if random.random() < 0.5 else random.uniform(0, 0.2) * best
    rise, up = best - low, np.linspace(low, best, random.integers(5, 40)).tolist()
    return {
        "plateau": [*up, *[best] * 60], "early dip": [low + 0.1 * rise, low, low + 0.05 * rise, *up[2:], *[best] * 10],
        "collapse": [*up, *[best] * 10, *np.linspace(best, low, 4), *[low] * 10],
        "slow collapse": [*up, *np.linspace(best, low, 60), *[low] * 5],
        "to a fifth": [*up, *[best] * 10, *[low + 0.2 * rise] * 15],
    }[kind], rise


@pytest.mark.parametrize("scatter", [0.05, 0.2, 0.4])
@pytest.mark.parametrize(("kind", "fell"), [
    ("plateau", False), ("early dip", False), ("collapse", True), ("slow collapse", True), ("to a fifth", True)])
def test_curves_that_no_threshold_was_chosen_on_are_judged_as_a_person_would(
    kind: str, fell: bool, scatter: float
) -> None:
    for seed in range(2000, 2010):
        random = np.random.default_rng(seed)
        means, rise = held_out(kind, random)
        assert bool(turns(course_of(random.normal(np.repeat(means, 40), scatter * rise)))) == fell, f"seed {seed}"
