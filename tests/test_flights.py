"""Flights as a table, a timeline and a trace."""

from __future__ import annotations

import json

import pytest

from workbench.metrics.flights import STAGES, Flights

SECONDS = {"step": 0.002, "wait": 0.001, "inference": 0.003, "wire": 0.0, "unroll": 0.1, "queue": 0.05, "training": 0.2}


def flights(number=5, learners=1):
    answer = {str(rank): [
        {"env": at, "born": 100.0 * rank + 0.1 * at, "seconds": {name: (1 + at) * one for name, one in SECONDS.items()}}
        for at in range(number)] for rank in range(learners)}
    return Flights.of("pong", answer)


def test_a_table_has_each_stage_with_its_share_of_life():
    found = flights(5)
    assert [stage.name for stage in found] == list(STAGES)
    assert sum(stage.share for stage in found) == pytest.approx(1)
    queue = found["queue"]
    assert queue.mean == pytest.approx(0.15) and queue.median == pytest.approx(0.15)
    assert queue.begins == pytest.approx(3 * (0.002 + 0.001 + 0.003 + 0.1))
    assert "in the queue  150 ms" in repr(found)
    html = found._repr_html_()
    assert "Where an observation of pong spends its life: 1.07 s on average, 5 of them followed" in html
    assert html.count("<tr") == 1 + len(STAGES)


def test_a_replay_ends_a_life_in_its_own_stage():
    found = Flights.of("pong", {"0": [{"env": 0, "born": 1.0, "seconds": {
        name: one for name, one in SECONDS.items() if name != "training"}}]})
    assert [stage.name for stage in found][-1] == "queue"


def test_a_run_without_an_update_says_what_to_wait_for(tmp_path):
    for found in (Flights.of("pong", {"0": []}), Flights.of("pong", {})):
        assert "Wait for the first update" in repr(found) and "Wait for the first update" in found._repr_html_()
        assert json.loads(found.save_trace(tmp_path / "none.json").read_text())["traceEvents"] == []


def test_a_trace_nests_stages_in_flights_and_flights_in_lanes_without_overlap(tmp_path):
    trace = json.loads(flights(6, learners=2).save_trace(tmp_path / "trace.json").read_text())
    names = [event for event in trace["traceEvents"] if event["ph"] == "M"]
    assert [event["args"]["name"] for event in names] == ["pong, learner 0", "pong, learner 1"]
    slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    lives = [event for event in slices if event["name"].startswith("environment ")]
    lives = [life for life in lives if life["name"] != "environment"]
    assert len(lives) == 12 and len({(one["pid"], one["tid"]) for one in lives}) > 2
    for life in lives:
        lane = [one for one in slices if (one["pid"], one["tid"]) == (life["pid"], life["tid"]) and one is not life]
        inside = [one for one in lane if life["ts"] <= one["ts"] < life["ts"] + life["dur"]
                  or (one["dur"] == 0 and life["ts"] <= one["ts"] <= life["ts"] + life["dur"])]
        assert sum(one["dur"] for one in inside) == pytest.approx(life["dur"])
        for one in lives:
            apart = one["ts"] >= life["ts"] + life["dur"] - 1e-6 or life["ts"] >= one["ts"] + one["dur"] - 1e-6
            assert one is life or (one["pid"], one["tid"]) != (life["pid"], life["tid"]) or apart
