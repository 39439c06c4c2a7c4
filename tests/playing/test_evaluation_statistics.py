"""Statistics of evaluations agree with SciPy's on known samples, and refuse what does not go together."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import workbench as wb
from tests.played import checkpoint_in
from workbench.errors import InvalidInput, OutOfBounds, UnknownName
from workbench.playing.evaluating import statistics as ours

SAMPLE = [12.0, 3.5, 8.25, 40.0, 7.0, 9.5, 11.0, 2.0, 10.5, 6.0, 14.0]


def evaluation(
    *returns: float, game: str = "CartPole-v1", run: str = "a", protocol: str | None = None, greedy: bool = True
) -> wb.Evaluation:
    return wb.Evaluation(game, Path(run), 1000, 0, greedy, returns, (1,) * len(returns), protocol)


def aggregated(scores: Any, **options: Any) -> wb.Aggregate:
    """Of scores [runs, games]."""
    given = [evaluation(score, game=f"game-{game}", run=f"{run}-{game}") for run, row in enumerate(scores)
             for game, score in enumerate(row)]
    return wb.aggregate(given, score=lambda one: one.mean, **{"resamples": 100, **options})


@pytest.mark.parametrize("degrees", [*range(1, 41), 99, 100, 999, 1000, 1001, 5000, 10**6])
@pytest.mark.parametrize("probability", [0.6, 0.9, 0.975, 0.9995])
def test_students_quantile_is_scipys(degrees: int, probability: float) -> None:
    assert ours.student_quantile(probability, degrees) == pytest.approx(stats.t.ppf(probability, degrees), rel=1e-8)


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_the_interval_of_the_mean_is_scipys(confidence: float) -> None:
    expected = stats.t.interval(confidence, len(SAMPLE) - 1, np.mean(SAMPLE), stats.sem(SAMPLE))
    assert ours.student_interval(np.array(SAMPLE), confidence=confidence) == pytest.approx(expected)
    assert evaluation(*SAMPLE).confidence_interval == pytest.approx(
        stats.t.interval(0.95, len(SAMPLE) - 1, np.mean(SAMPLE), stats.sem(SAMPLE)))


@pytest.mark.parametrize("count", range(1, 12))
def test_the_interquartile_mean_is_scipys_trimmed_mean(count: int) -> None:
    assert evaluation(*SAMPLE[:count]).iqm == pytest.approx(stats.trim_mean(SAMPLE[:count], 0.25))
    scores = np.random.default_rng(0).normal(size=(count, 5))
    assert ours.iqm(scores) == pytest.approx(stats.trim_mean(scores, 0.25, axis=None))


@pytest.mark.parametrize(("name", "of"), [
    ("mean", np.mean), ("median", np.median), ("iqm", lambda x, axis: stats.trim_mean(x, 0.25, axis=axis))])
def test_the_bootstrap_interval_over_episodes_is_scipys(name: str, of: Any) -> None:
    drawn = np.random.default_rng(1).exponential(size=40) * 100
    expected = stats.bootstrap((drawn,), of, method="percentile", n_resamples=20_000, rng=np.random.default_rng(2))
    low, high = evaluation(*drawn).interval(name, resamples=20_000)
    width = high - low
    assert low == pytest.approx(expected.confidence_interval.low, abs=0.03 * width)
    assert high == pytest.approx(expected.confidence_interval.high, abs=0.03 * width)


@pytest.mark.parametrize("name", ["iqm", "mean", "median", "optimality_gap"])
def test_the_stratified_interval_over_games_is_scipys_of_several_samples(name: str) -> None:
    """SciPy draws each of several samples anew by itself, which is what stratified by game means."""
    generator = np.random.default_rng(3)
    scores = generator.normal([0.2, 0.9, 1.5, 4.0], [0.1, 0.3, 0.2, 1.0], size=(8, 4))

    def together(*games: Any, axis: int) -> Any:
        joined = np.stack(games, -1)  # [resamples, runs, games]
        return {
            "iqm": lambda: stats.trim_mean(joined.reshape(*joined.shape[:-2], -1), 0.25, axis=-1),
            "mean": lambda: joined.mean((-2, -1)),
            "median": lambda: np.median(joined.mean(-2), -1),
            "optimality_gap": lambda: 1 - np.minimum(joined, 1).mean((-2, -1)),
        }[name]()

    expected = stats.bootstrap(tuple(scores.T), together, method="percentile", n_resamples=20_000, vectorized=True,
                               rng=np.random.default_rng(4)).confidence_interval
    told = getattr(aggregated(scores, resamples=20_000), name)
    width = told.high - told.low
    assert told.low == pytest.approx(expected.low, abs=0.03 * width)
    assert told.high == pytest.approx(expected.high, abs=0.03 * width)
    assert told.low < told.value < told.high


def test_a_performance_profile_is_scipys_survival_function_with_intervals_that_hold() -> None:
    scores = np.random.default_rng(5).normal([0.0, 1.0], 1.0, size=(30, 2))
    told = aggregated(scores).profile()
    flat = stats.ecdf(scores.ravel()).sf
    assert told["share"].to_numpy() == pytest.approx(flat.evaluate(told["score"].to_numpy()))
    assert (told["score"].iloc[0], told["score"].iloc[-1], told["share"].iloc[-1]) == (scores.min(), scores.max(), 0)
    assert (told["low"] <= told["share"]).all() and (told["share"] <= told["high"]).all()
    half = aggregated(scores).profile([0.5], resamples=20_000).iloc[0]
    # Within each game a share of resampled runs is binomial.
    error = math.sqrt(sum(p * (1 - p) / 30 for p in (scores > 0.5).mean(0))) / 2
    assert (half["high"] - half["low"]) / 2 == pytest.approx(1.96 * error, rel=0.1)


def test_the_probability_of_improvement_is_mann_and_whitneys_u_in_the_mean_over_games() -> None:
    generator = np.random.default_rng(6)
    ours_, theirs = generator.integers(0, 8, size=(9, 3)) + 1.0, generator.integers(0, 8, size=(7, 3)) + 0.0
    expected = np.mean([stats.mannwhitneyu(ours_[:, game], theirs[:, game]).statistic / 63 for game in range(3)])
    told = aggregated(ours_).improvement_over(aggregated(theirs))
    assert told.value == pytest.approx(expected)

    def superior(*games: Any, axis: int) -> Any:
        mine, others = games[:3], games[3:]
        return np.mean([((a[..., :, None] > b[..., None, :]) + (a[..., :, None] == b[..., None, :]) / 2).mean((-2, -1))
                        for a, b in zip(mine, others, strict=True)], 0)

    scipys = stats.bootstrap((*ours_.T, *theirs.T), superior, method="percentile", n_resamples=20_000, vectorized=True,
                             rng=np.random.default_rng(7)).confidence_interval
    told = aggregated(ours_).improvement_over(aggregated(theirs), resamples=20_000)
    assert (told.low, told.high) == pytest.approx((scipys.low, scipys.high), abs=0.03 * (told.high - told.low))
    assert aggregated(theirs).improvement_over(aggregated(ours_)).value == pytest.approx(1 - told.value)


def test_games_are_compared_by_name_and_others_refused() -> None:
    games = ("x", "y")
    some = [wb.aggregate([evaluation(value[name], game=name, run=f"{name}{run}") for name in order for run in (0, 1)],
                         score=lambda one: one.mean, resamples=100)
            for order, value in ((games, {"x": 1.0, "y": 5.0}), (games[::-1], {"x": 0.0, "y": 4.0}))]
    assert some[0].improvement_over(some[1]).value == 1.0
    with pytest.raises(InvalidInput, match="given of x, y does not compare with return of CartPole-v1"):
        some[0].improvement_over(wb.aggregate([evaluation(1.0)]))
    with pytest.raises(InvalidInput, match=r"thresholds=\[nan\] must be numbers, such as"):
        some[0].profile([math.nan])
    alone = wb.aggregate([evaluation(1.0)]).profile([0.5, 2.0])
    assert alone.to_numpy().tolist() == [[0.5, 1.0, -math.inf, math.inf], [2.0, 0.0, -math.inf, math.inf]]


def test_the_bootstrap_is_the_same_for_the_same_seed_however_much_fits_in_memory(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    one = evaluation(*SAMPLE)
    first = one.interval()
    assert one.interval() == first != one.interval(seed=1)
    monkeypatch.setattr(ours, "_MOST_AT_ONCE", 1000)
    assert one.interval() == first


def test_atari_games_are_aggregated_by_their_human_normalized_scores() -> None:
    games = {"ALE/Pong-v5": (14.6, -20.7), "ALE/Breakout-v5": (30.5, 1.7)}  # a professional tester, and random play
    given = [evaluation(returns[run], game=game, run=f"{game}-{run}", protocol="noop-starts")
             for game, returns in games.items() for run in (0, 1)]
    told = wb.aggregate(given)
    assert told.score == "human-normalized" and told.environments == tuple(games) and told.runs == 2
    assert told.scores.tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert (told.iqm.value, told.mean.value, told.median.value) == (0.5, 0.5, 0.5)
    assert told.optimality_gap is not None and told.optimality_gap.value == 0.5
    assert repr(told).startswith("Aggregate(2 environments, 2 runs each, trained for 1,000 frames, human-normalized: "
                                 "IQM 0.5 [0, 1], median 0.5")


def test_returns_of_one_environment_have_no_optimality_gap_and_one_run_tells_nothing_of_others() -> None:
    told = wb.aggregate([evaluation(10.0, 20.0)])
    assert told.score == "return" and told.optimality_gap is None
    assert (told.mean.value, told.mean.low, told.mean.high) == (15.0, -math.inf, math.inf)
    equal = wb.aggregate([evaluation(500.0, run="a"), evaluation(500.0, run="b")])
    assert (equal.iqm.low, equal.iqm.high) == (-math.inf, math.inf)
    assert "IQM 500 (no interval: no spread)" in repr(equal)


def test_an_aggregate_says_for_how_many_frames_its_runs_were_trained() -> None:
    one, other = evaluation(1.0, 3.0, run="a"), replace(evaluation(2.0, 4.0, run="b"), checkpoint_frames=50_000)
    assert wb.aggregate([one, other]).frames == (one.checkpoint_frames, 50_000)
    assert "2 runs each, trained for 1,000 to 50,000 frames" in repr(wb.aggregate([one, other]))


def test_an_aggregate_names_the_algorithms_that_trained_its_runs(tmp_path: Path) -> None:
    made = [checkpoint_in(tmp_path / name, algorithm=name) for name in ("vtrace", "ppo")]
    told = wb.aggregate([replace(evaluation(1.0 + at), checkpoint=one.path) for at, one in enumerate(made)])
    assert told.algorithms == ("vtrace", "ppo") and "trained by vtrace and ppo for" in repr(told)
    assert wb.aggregate([evaluation(1.0)]).algorithms == ()


@pytest.mark.parametrize(("given", "words"), [
    ([], "no evaluation to aggregate"),
    ([1.0], "1.0 is no evaluation. Give what wb.evaluate returned"),
    ([evaluation(1.0), evaluation(2.0)], "a was given 2 times. Give one evaluation of each training run"),
    ([evaluation(1.0), evaluation(2.0, run="b"), evaluation(3.0, run="c", game="x")],
     "the same number of runs, and there are 1 of x, 2 of CartPole-v1"),
    ([evaluation(1.0), evaluation(3.0, run="c", game="x")], "nobody has published human scores of CartPole-v1, and"),
    ([evaluation(1.0, game="ALE/Pong-v5"), evaluation(3.0, run="c", game="ALE/Pong-v5", protocol="noop-starts")],
     "played in different ways, greedily, greedily by noop-starts: their"),
    ([evaluation(1.0), evaluation(2.0, run="b", greedy=False)], "played in different ways, greedily, sampling: their"),
    ([evaluation(math.nan)], "a score is not finite"),
])  # fmt: skip
def test_what_does_not_go_together_is_refused(given: list[Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        wb.aggregate(given)


def test_wrong_arguments_are_refused() -> None:
    one = evaluation(*SAMPLE)
    with pytest.raises(UnknownName, match="unknown statistic 'means'. Did you mean 'mean'"):
        one.interval("means")
    with pytest.raises(OutOfBounds, match="confidence=95 must lie between 0 and 1, such as 0.95"):
        one.interval(confidence=95)
    with pytest.raises(OutOfBounds, match="resamples=1 must be a whole number"):
        one.interval(resamples=1)
