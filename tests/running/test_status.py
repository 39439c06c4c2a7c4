"""What a status says in one line, and the table of live hyperparameters; both algorithms."""

from __future__ import annotations

import json
import math
from dataclasses import replace

from workbench.config import RunConfig
from workbench.config.settings import GROUPS
from workbench.metrics.status import ActorStatus, LearnerPhase, LearnerStatus, RunStatus
from workbench.metrics.status_facts import FACTS
from workbench.running.reading.changes import hyperparameters


def test_a_line_says_the_evaluation_and_how_full_the_replay_is() -> None:
    data = {"state": "training", "frames": 1000, "episode_return": 3.0, "evaluation_return": 18.2,
            "evaluation_episodes": 7, "replay_unrolls": 1234.0, "replay_capacity": 5000}
    status = RunStatus.from_json(data, name="one")
    assert status.line().endswith("mean return 3, evaluation return 18.2, replay 1,234 of 5,000 unrolls")
    assert status.evaluation_episodes == 7


def test_a_line_says_the_scores_beside_the_returns() -> None:
    status = RunStatus("one", "paused", frames=10, episode_return=3.0, episode_score=0.25, evaluation_return=4.0,
                       evaluation_score=1.0)
    assert status.line() == "paused, 10 frames, mean return 3 (score 0.25), evaluation return 4 (score 1)"


def test_a_speed_is_that_of_now_or_the_average_and_never_nothing() -> None:
    moving = RunStatus("one", "training", frames=8000, steps=2000, time_s=4.0, frames_per_second=2400.0,
                       steps_per_second=600.0)
    assert moving.speed == "2,400 frames/s (600 steps/s)" and moving.speed in moving.line()
    ended = replace(moving, state="stopped", frames_per_second=0.0, steps_per_second=0.0)
    assert ended.speed == "on average 2,000 frames/s (500 steps/s)"
    just_begun, paused = RunStatus("one", "training"), replace(moving, state="paused")
    assert just_begun.speed == paused.speed == "" and RunStatus("one", "failed").speed == ""
    assert "frames/s" not in just_begun.line()


def test_a_full_replay_is_no_news_in_a_line() -> None:
    status = RunStatus("one", "training", replay_unrolls=5000, replay_capacity=5000)
    assert "replay" not in status.line() and status.replay == "5,000 of 5,000 unrolls"


def test_a_status_without_replay_and_evaluation_speaks_of_neither() -> None:
    status = RunStatus.from_json({"state": "training", "replay_unrolls": None, "replay_capacity": None,
                                  "evaluation_return": None, "evaluation_episodes": 0}, name="one")
    assert status.replay == "" and "replay" not in status.line() and "evaluation" not in status.line()


def test_a_status_comes_through_json_as_it_was() -> None:
    actors = (ActorStatus(0, pid=7, alive=True, steps=3, last_seen_s=0.5), ActorStatus(12, connected=True))
    status = RunStatus("one", "training", frames=10, actors=actors, bottleneck={"training": 0.8}, alive_s=3.0,
                       learner_pids=(7, None), episode_return=-1.5, error="E: why")
    data = json.loads(json.dumps(status.to_json()))
    assert data["actors"]["12"]["connected"] and data["alive_s"] == 3.0 and data["learner_pids"] == [7, None]
    assert RunStatus.from_json(data) == status
    phase = LearnerPhase("paused", "full", held=True, floods=("many",))
    assert LearnerPhase.from_json(json.loads(json.dumps(phase.to_json()))) == phase


def test_of_json_only_what_a_field_can_be_is_kept() -> None:
    odd = {"frames": "many", "steps": True, "updates": 10**400, "time_s": math.nan, "episode_return": None,
           "hint": None, "actors": {"1": {"pid": "7", "steps": 5}, "x": {}, "2": 3}, "bottleneck": {"a": "", "b": 1},
           "learner_pids": [1, "2", None], "state": 3, "alive_s": [], "later": 1, "name": "theirs"}
    assert RunStatus.from_json(odd, name="mine") == RunStatus(
        "mine", actors=(ActorStatus(1, steps=5), ActorStatus(2)), bottleneck={"b": 1}, learner_pids=(1, None))
    for data in (None, [], "x", 7, {"actors": []}, {"bottleneck": []}, {"learner_pids": {}}):
        assert RunStatus.from_json(data, name="mine") == RunStatus("mine")


def test_a_status_of_a_learner_that_stands_still_keeps_all_but_its_speeds_and_hint() -> None:
    actors = (ActorStatus(0, steps=4, steps_per_second=1.0),)
    status = LearnerStatus(frames=5, frames_per_second=2.0, hint="more actors", actors=actors)
    assert status.standing_still() == LearnerStatus(frames=5, actors=(ActorStatus(0, steps=4),))


def test_every_fact_of_an_empty_status_can_be_shown_and_named() -> None:
    status = RunStatus("one")
    texts = {name: (fact.named(status), fact.said(status)) for name, fact in FACTS.items()}
    assert texts["frames"] == ("frames", "0 frames") and texts["policy_lag"] == ("policy lag, updates", "")
    assert FACTS["policy_lag"].said(replace(status, policy_lag=1.41421)) == "policy lag 1.414 updates"
    evaluated = replace(status, evaluation_episodes=40)
    assert FACTS["evaluation_return"].named(evaluated) == "evaluation return (40 episodes)"


def test_the_table_of_live_fields_shows_bounds_of_every_kind() -> None:
    table = hyperparameters(RunConfig.build("CartPole-v1", algorithm="r2d2"))
    assert (table["save_replay"].kind, table["save_replay"].value) == (bool, False)
    rows = {line.split()[0]: line for line in repr(table).splitlines()}
    assert "True, False" in rows["save_replay"] and "None" not in rows["save_replay"]
    assert "0.001 to 1000" in rows["replay_ratio"]
    assert "1 to 10 M updates" in rows["target_update_period"]
    groups = [row.group for row in table]
    assert table[0].name == "learning_rate" and groups == sorted(groups, key=GROUPS.index)


def test_a_line_says_how_often_actors_began_again() -> None:
    actors = tuple(ActorStatus(index=index, restarts=index) for index in range(3))
    assert RunStatus("one", "finished", frames=10, actors=actors).line().endswith(", actors began again 3 times")
