"""Which charts a run shows: those that its metrics have something for, for both algorithms, looked at as specs."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.widgets import recorded
from workbench.metrics import MetricsWriter
from workbench.rundir import RunDirectory
from workbench.supervisor import lock
from workbench.widgets import charts, dashboard, picture, snapshot

VTRACE = ["Episode return", "Speed", "Losses", "Policy entropy (nats)", "Learning rate", "Policy lag",
          "Where the time goes"]
R2D2 = ["Episode return", "Speed", "Loss and TD error", "Q-value of actions taken", "Replay fill", "Replay ratio",
        "TD error", "Priorities", "Age of samples", "Learning rate", "Policy lag", "Where the time goes"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))


def specs(directory: RunDirectory) -> dict[str, dict[str, Any]]:
    """The chart's specifications by title."""
    made = [chart.to_dict() for row in dashboard.rows(dashboard.read(directory)) for chart in row]
    return {spec["title"]: spec for spec in made}


def layers(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """All layers that have a mark, however deep."""
    return [one for layer in spec["layer"] for one in layers(layer)] if "layer" in spec else [spec]


def mark(layer: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = layer["mark"]
    return found


def test_a_vtrace_run_shows_the_charts_of_vtrace() -> None:
    assert list(specs(recorded.vtrace("one"))) == VTRACE


def test_an_r2d2_run_shows_the_charts_of_replay_beside_what_all_runs_have() -> None:
    assert list(specs(recorded.r2d2("one"))) == R2D2


@pytest.mark.parametrize("algorithm", ["vtrace", "r2d2"])
def test_no_chart_is_without_data(algorithm: str) -> None:
    for title, spec in specs(getattr(recorded, algorithm)("one")).items():
        assert any(len(data) for data in spec["datasets"].values()), title


def test_rows_are_as_equal_as_can_be_and_none_has_more_than_four_charts() -> None:
    def lengths(directory: RunDirectory) -> list[int]:
        return [len(row) for row in dashboard.rows(dashboard.read(directory))]

    assert lengths(recorded.vtrace("a")) == [3, 4]
    assert lengths(recorded.r2d2("b")) == [3, 3, 3, 3]
    assert lengths(recorded.r2d2("c", filling=True)) == [3, 2]


def test_a_new_run_says_what_its_charts_wait_for() -> None:
    def said(directory: RunDirectory) -> dict[str, str]:
        return {title: " ".join(spec["mark"]["text"]) for title, spec in specs(directory).items()}

    waiting = {"Episode return": "no episode has ended yet", "Speed": "nothing was measured yet"}
    assert said(recorded.new("a")) == waiting | {"Losses": "no update yet"}
    assert said(recorded.new("b", "r2d2")) == waiting | {"Losses": "no update before the replay holds 5,000 unrolls"}
    asked = recorded.new("c", "r2d2", replay_min_size=300)
    assert said(asked)["Losses"] == "no update before the replay holds 300 unrolls"


def test_a_filling_replay_is_shown_before_the_first_update() -> None:
    made = specs(recorded.r2d2("one", filling=True))
    assert list(made) == ["Episode return", "Speed", "Losses", "Replay fill", "Where the time goes"]
    assert " ".join(made["Losses"]["mark"]["text"]) == "no update before the replay holds 5,000 unrolls"
    assert made["Replay fill"]["layer"][0]["encoding"]["y"]["scale"] == {"domain": [0, 1]}


def test_charts_follow_from_metrics_and_not_from_the_algorithm() -> None:
    directory = recorded.vtrace("one")
    writer = MetricsWriter(directory.metrics)
    writer.distribution("priority", recorded.at(120), [0.1, 1, 10], [1, 1])
    writer.episode(recorded.at(120), env_id=3, episode_return=1.0, length_steps=10, kind="evaluation")
    writer.close()
    made = specs(directory)
    assert list(made) == [*VTRACE[:4], "Priorities", *VTRACE[4:]]
    assert any(mark(layer).get("shape") == "diamond" for layer in layers(made["Episode return"]))


def test_evaluation_has_its_own_marks_line_and_colour_beside_training() -> None:
    spec = specs(recorded.r2d2("one"))["Episode return"]
    found = {}
    for layer in layers(spec):
        kinds = {row["kind"] for row in spec["datasets"][layer["data"]["name"]]}
        found[mark(layer)["type"], mark(layer).get("shape")] = (kinds, layer["encoding"]["color"])
    assert found["circle", None][0] == {"training"}
    assert found["point", "diamond"][0] == {"evaluation"}
    lines = [{row["kind"] for row in spec["datasets"][layer["data"]["name"]]}
             for layer in layers(spec) if mark(layer)["type"] == "line"]
    assert lines == [{"training mean"}, {"evaluation"}]
    colour = found["circle", None][1]
    assert colour["legend"] is not None
    by_kind = dict(zip(colour["scale"]["domain"], colour["scale"]["range"], strict=True))
    assert len(set(by_kind.values())) == 3
    each = {row["value"] for row in spec["datasets"][layers(spec)[2]["data"]["name"]]}
    assert each == {-18.0}


def test_events_keep_their_own_colours_beside_evaluation() -> None:
    directory = recorded.r2d2("one")
    writer = MetricsWriter(directory.metrics)
    writer.event("tune", "replay_ratio 0.75 → 1", progress=recorded.at(60))
    writer.close()
    spec = specs(directory)["Episode return"]
    assert spec["resolve"] == {"scale": {"color": "independent"}}
    assert mark(spec["layer"][-1])["type"] == "rule"
    assert spec["layer"][-1]["encoding"]["color"]["scale"]["domain"] == ["tune"]


def test_without_evaluation_returns_need_no_legend() -> None:
    spec = specs(recorded.vtrace("one"))["Episode return"]
    kinds = [mark(layer)["type"] for layer in layers(spec)]
    assert kinds == ["circle", "line", "rule"]
    assert layers(spec)[0]["encoding"]["color"]["legend"] is None


def test_the_replay_ratio_stands_beside_the_one_asked_for_now() -> None:
    def dashed(directory: RunDirectory) -> tuple[float, str]:
        spec = specs(directory)["Replay ratio"]
        rule, text = spec["layer"][-2:]
        assert rule["mark"]["type"] == "rule" and rule["mark"]["strokeDash"]
        (row,) = spec["datasets"][rule["data"]["name"]]
        return row["value"], text["mark"]["text"]

    directory = recorded.r2d2("one")
    assert dashed(directory) == (0.75, "asked for 0.75")
    directory.write(config=directory.config().with_live(replay_ratio=1.5).to_json())
    assert dashed(directory) == (1.5, "asked for 1.5")


def test_losses_of_r2d2_have_a_logarithmic_axis_and_those_of_vtrace_a_linear_one() -> None:
    def scale(spec: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = spec["layer"][0]["encoding"]["y"]["scale"]
        return found

    made = specs(recorded.r2d2("one"))["Loss and TD error"]
    assert scale(made)["type"] == "log"
    assert {row["series"] for row in next(iter(made["datasets"].values()))} == {"loss", "TD error"}
    assert scale(specs(recorded.vtrace("two"))["Losses"]) == {"zero": False}


@pytest.mark.parametrize(("title", "kind"), [("TD error", "log"), ("Priorities", "log"), ("Age of samples", "log"),
                                             ("Policy lag", None)])
def test_histograms_have_the_axis_of_their_edges(title: str, kind: str | None) -> None:
    spec = specs(recorded.r2d2("one"))[title]
    x = spec["encoding"]["x"]
    assert x["scale"].get("type") == kind
    bars = next(iter(spec["datasets"].values()))
    assert sum(bar["share"] for bar in bars) == pytest.approx(1.0)
    assert min(bar["low"] for bar in bars) > 0 or kind is None
    if kind == "log":
        ticks = [tick for tick in x["axis"]["values"] if x["scale"]["domain"][0] <= tick <= x["scale"]["domain"][1]]
        assert 2 <= len(ticks) <= 8 and ticks == x["axis"]["values"]


def test_empty_bins_at_both_ends_of_a_logarithmic_histogram_are_left_out() -> None:
    edges, counts, log = charts.binned(list(np.geomspace(1e-3, 1e3, 7)), [0, 0, 4, 0, 2, 0])
    assert log and counts == pytest.approx([4, 0, 2])
    assert edges == pytest.approx([0.1, 1, 10, 100])


def test_a_linear_histogram_begins_where_its_edges_do() -> None:
    assert charts.binned([0, 1, 2, 3, 4], [0, 5, 3, 0]) == ([0, 1, 2, 3], [0, 5, 3], False)


@pytest.mark.parametrize(("edges", "log"), [
    (range(11), False), ((0, 1, 2), False), ((0, 5), False), (np.linspace(0.1, 3, 9), False),
    ((-2, -1, 0, 1, 2), False), ((1, 2, 4, 8), True), ((0, 1, 10, 100), True), ((0, 1, 2, 3, 5, 8, 13, 21, 34), True),
])  # fmt: skip
def test_a_histogram_is_logarithmic_where_its_edges_grow_by_a_factor(edges: Any, log: bool) -> None:
    assert charts.binned(list(edges), [1] * (len(edges) - 1))[2] is log


def test_bins_that_differ_on_the_axis_become_bars_of_equal_width_with_the_same_sum() -> None:
    edges = [*range(64), *(64 * 2 ** (power / 4) for power in range(29))]  # the policy lag's: by ones, then by 19 %
    random = np.random.default_rng(0)
    counts = np.histogram(random.uniform(0, 8000, 10_000), edges)[0]
    new, bars, log = charts.binned(edges, counts.tolist())
    assert log and len(bars) <= charts.BARS
    widths = np.diff(np.log(new))
    assert widths == pytest.approx(np.full(len(widths), widths[0]))
    assert sum(bars) == pytest.approx(counts.sum())
    above = [share for edge, share in zip(new, bars, strict=False) if edge > 100]
    assert all(later > earlier for earlier, later in itertools.pairwise(above[:-1]))  # evenly spread over lags


def test_many_equal_bins_become_few_whole_ones() -> None:
    new, bars, log = charts.binned(list(range(101)), [1] * 100)
    assert not log and len(bars) <= charts.BARS
    assert new == list(range(0, 103, 3)) and bars[:-1] == [3] * 33


def test_a_rate_that_stands_still_has_a_tick_on_its_logarithmic_axis() -> None:
    for rate in (6e-4, 1e-4, 1.4e-3, 3.0):
        chart = charts.lines({"rate": pd.DataFrame({"frames": [0, 1], "value": [rate] * 2})}, title="", log=True)
        y = chart.to_dict()["layer"][0]["encoding"]["y"]
        low, high = y["scale"]["domain"]
        assert low < rate < high
        assert y["axis"]["values"] and all(low <= tick <= high for tick in y["axis"]["values"])


def test_a_value_of_zero_makes_a_logarithmic_axis_linear() -> None:
    chart = charts.lines({"rate": pd.DataFrame({"frames": [0, 1], "value": [0.0, 1.0]})}, title="", log=True)
    assert "type" not in chart.to_dict()["layer"][0]["encoding"]["y"]["scale"]


def test_a_stepped_line_holds_values_that_were_there() -> None:
    rates = pd.DataFrame({"frames": range(1000), "value": [1.0] * 501 + [0.5] * 499})
    spec = charts.lines({"rate": rates}, title="", stepped=True).to_dict()
    assert {row["value"] for row in next(iter(spec["datasets"].values()))} == {1.0, 0.5}


@pytest.mark.parametrize("filling", [False, True])
def test_an_r2d2_run_can_be_drawn(filling: bool) -> None:
    drawn = picture.svg(dashboard.rows(dashboard.read(recorded.r2d2("one", filling=filling))))
    for title in ("Episode return", "Replay fill", *(() if filling else ("Priorities", "Age of samples"))):
        assert title in drawn
    assert ("no update before the replay" in drawn) is filling


def test_replay_and_evaluation_are_said_in_plain_words() -> None:
    directory = recorded.r2d2("one")
    with lock.held(lock.of_supervisor(directory), wait_s=1.0):
        now = snapshot.read(directory)
        said = snapshot.sentence(now)
    for part in ("mean return -20 · evaluation 18.25 · policy lag 1,523 updates · replay 1,234 of 5,000 unrolls",
                 "307,200 of 10 M frames"):
        assert part in said
    facts = dict(snapshot.facts(now))
    assert facts["evaluation"] == "18.25 (40 episodes)" and facts["replay"] == "1,234 of 5,000 unrolls"


def test_a_run_without_replay_does_not_speak_of_one() -> None:
    now = snapshot.read(recorded.vtrace("one"))
    assert "replay" not in snapshot.sentence(now) and "evaluation" not in snapshot.sentence(now)
    assert not {"replay", "evaluation"} & dict(snapshot.facts(now)).keys()
