"""When a rule of a run's configuration ends it, what it has spent, and how long it has left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from workbench.config import RunConfig
from workbench.errors import OutOfBounds
from workbench.metrics.status import RunStatus, Spent
from workbench.supervisor.stopping_rules import Budget, reached, seconds_left, spent


def config(**fields: Any) -> RunConfig:
    return RunConfig.build("CartPole-v1", total_frames=10_000, **fields)


def training(mean: float | None, frames: int, *, episodes: int = 100, **more: Any) -> RunStatus:
    return RunStatus("one", "training", frames=frames, episode_return=mean, episodes_in_mean=episodes,
                     frames_per_second=10.0, **more)


def test_each_hour_costs_what_it_cost_then_and_a_later_life_goes_on_from_there() -> None:
    first = Budget(Spent(), now=100.0)
    first.spend(100.0 + 1800, price_per_hour=2.0)
    first.spend(100.0 + 3600, price_per_hour=6.0)
    assert first.spent.alive_s == 3600 and first.spent.cost == pytest.approx(4.0)
    second = Budget(first.spent, now=5.0)
    second.spend(5.0 + 3600, price_per_hour=1.0)
    assert second.spent.alive_s == 7200 and second.spent.cost == pytest.approx(5.0)


@pytest.mark.parametrize(("fields", "held", "words"), [
    ({"max_hours": 2.0}, RunStatus("one", alive_s=7199.0), "reached max_hours=2"),
    ({"max_cost": 3.0, "price_per_hour": 1.5}, RunStatus("one", cost=2.99), "reached max_cost=3, after 2 h"),
    ({"target_return": 475.0}, training(474.9, 100), "reached target_return=475: the mean return is 475"),
    ({"patience_frames": 500}, training(9.0, 1499, best_return=9.5, best_return_frames=1000),
     "reached patience_frames=500: no mean return above 9.5 for 500 frames"),
    ({"patience_frames": 500}, training(None, 499, best_return=None, best_return_frames=0),
     "reached patience_frames=500: no mean return for 500 frames"),
])  # fmt: skip
def test_a_rule_ends_a_run_when_it_is_reached_and_not_before(
    fields: dict[str, Any], held: RunStatus, words: str
) -> None:
    assert reached(config(**fields), held) == ("", "")
    now = replace(held, alive_s=7200.0, cost=3.0, episode_return=475.0, frames=held.frames + 1)
    assert reached(config(**fields), now) == (next(iter(fields)), words)
    assert reached(config(), now) == ("", ""), "without rules a run goes on"


def test_a_mean_of_few_episodes_ends_nothing_and_is_no_best_one() -> None:
    lucky = training(500.0, 10, episodes=19)
    assert reached(config(target_return=475.0), lucky) == ("", "")
    budget = Budget(Spent(), now=0.0)
    budget.note_status(config(), lucky)
    assert budget.spent.best_return is None
    assert reached(config(target_return=475.0), replace(lucky, episodes_in_mean=20))[0] == "target_return"


def test_environments_that_evaluate_are_what_the_rules_go_by() -> None:
    evaluating = config(target_return=10.0, evaluation_envs_per_actor=1)
    now = training(50.0, 10, evaluation_return=9.0, evaluation_episodes=30)
    assert reached(evaluating, now) == ("", "")
    assert reached(evaluating, replace(now, evaluation_return=10.0))[0] == "target_return"


def test_a_target_of_the_score_goes_by_the_score_alone_and_says_where_there_is_none() -> None:
    scored = training(50.0, 10, episode_score=0.8, evaluation_score=0.95)
    assert reached(config(target_score=0.9), scored) == ("", "")
    assert reached(config(target_score=0.8), scored) == (
        "target_score", "reached target_score=0.8: the mean score is 0.8")
    evaluating = config(target_score=0.9, evaluation_envs_per_actor=1)
    assert reached(evaluating, replace(scored, evaluation_episodes=19)) == ("", "")
    assert reached(evaluating, replace(scored, evaluation_episodes=20))[0] == "target_score"
    assert spent(config(target_score=0.9), scored) == ["until a mean score of 0.9"]
    assert spent(config(target_score=0.9), training(50.0, 10)) == [
        "until a mean score of 0.9, which this environment does not tell"]


def test_the_best_return_keeps_its_place_until_a_higher_one_comes() -> None:
    budget = Budget(Spent(), now=0.0)
    for mean, frames in ((None, 300), (5.0, 1000), (4.0, 2000), (5.0, 3000), (6.0, 4000), (5.5, 5000)):
        budget.note_status(config(), training(mean, frames))
        if frames == 300:
            assert budget.spent.best_return_frames == 300, "a fork counts from where it begins"
    assert (budget.spent.best_return, budget.spent.best_return_frames) == (6.0, 4000)
    for mean, frames, best in ((None, 0, (None, 0)), (3.0, 800, (3.0, 800))):  # the learner began again
        budget.note_status(config(), training(mean, frames))
        assert (budget.spent.best_return, budget.spent.best_return_frames) == best


def test_the_time_left_is_that_of_what_is_used_up_first() -> None:
    now = training(1.0, 9000, alive_s=3600.0, cost=2.0)
    assert seconds_left(config(), now) == 100.0
    assert seconds_left(config(max_hours=1.01), now) == pytest.approx(36.0)
    assert seconds_left(config(max_hours=1.01, max_cost=2.0, price_per_hour=5.0), now) == 0.0
    assert seconds_left(config(), replace(now, state="paused")) is None
    assert seconds_left(config(), replace(now, frames_per_second=0.0)) is None


def test_what_is_spent_is_said_for_the_rules_that_there_are() -> None:
    now = training(1.0, 9000, alive_s=5400.0, cost=2.0, best_return=4.0, best_return_frames=8000)
    assert spent(config(), now) == []
    assert spent(config(max_hours=2.0, max_cost=9.0, price_per_hour=1.0, patience_frames=3000), now) == [
        "1.5 of 2 h", "cost 2.00 of 9 (222,222.22 per billion frames)",
        "none above the mean return of 4 in 1,000 of 3,000 frames"]
    assert spent(config(price_per_hour=1.0, target_return=7.0), now) == [
        "cost 2.00 (222,222.22 per billion frames)", "until a mean return of 7"]


def test_a_cost_without_a_price_is_refused() -> None:
    with pytest.raises(OutOfBounds, match="max_cost=5 is never reached with price_per_hour=0. Say what an hour costs"):
        config(max_cost=5.0)


def test_a_billion_frames_cost_what_the_frames_of_this_run_did_and_none_of_its_parents() -> None:
    budget = Budget(Spent(), now=0.0)
    budget.note_status(config(), training(None, 4_000_000))  # a fork begins where its parent was
    budget.spend(3600.0, price_per_hour=2.0)
    budget.note_status(config(), training(None, 6_000_000))
    status = training(None, 6_000_000, **vars(budget.spent))
    assert status.cost_per_billion_frames == pytest.approx(2.0 / 2e6 * 1e9)
    assert spent(config(price_per_hour=2.0), status)[-1] == "cost 2.00 (1,000.00 per billion frames)"
    assert training(None, 100).cost_per_billion_frames is None, "no price"
