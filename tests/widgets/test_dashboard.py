"""Which charts a run shows: those that its metrics have something for, for both algorithms, looked at as specs."""

from __future__ import annotations

import html
import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.widgets import recorded
from workbench.config import RunConfig
from workbench.config.own_algorithm import described
from workbench.metrics import MetricsWriter
from workbench.metrics.status import RunStatus
from workbench.rundir import RunDirectory, lock
from workbench.widgets.charts import axes, charts, marks, static_render
from workbench.widgets.charts.axes import Axis
from workbench.widgets.charts.live import Figure
from workbench.widgets.panel import dashboard, facts, snapshot

VTRACE = ["Episode return", "Speed", "Losses", "Policy entropy (nats)", "Events", "Policy lag", "Learning rate",
          "Where the time goes"]
R2D2 = ["Episode return", "Speed", "Loss and TD error", "Q-value of actions taken", "Events", "Policy lag",
        "Learning rate", "Replay fill", "Replay ratio", "TD error", "Priorities", "Age of samples",
        "Where the time goes"]
OVER_TIME = {"returns", "scores", "speed", "losses", "entropy", "q_value", "batches", "waits", "replay_fill",
             "replay_ratio", "learning_rate", "memory", "events"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))


def figures(directory: RunDirectory, **how: Any) -> dict[str, Figure]:
    return dashboard.figures(dashboard.read(directory), **how)


def titles(directory: RunDirectory) -> list[str]:
    return [one.title for one in figures(directory).values()]


def layers(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """All layers that have a mark, however deep, each with the data that it draws."""
    if "layer" not in spec:
        return [spec]
    inherited = {"data": spec["data"]} if "data" in spec else {}
    return [one for layer in spec["layer"] for one in layers({**inherited, **layer})]


def of_mark(figure: Figure, kind: str) -> list[dict[str, Any]]:
    return [one for one in layers(figure.spec()) if one["mark"]["type"] == kind]


def everything(name: str) -> RunDirectory:
    """A run that has recorded all that there is a chart of."""
    directory = recorded.r2d2(name)
    writer = MetricsWriter(directory.metrics)
    for update in (100, 119):
        writer.scalars(recorded.at(update), dict.fromkeys(dashboard.SERIES, 0.5))
    writer.event("tune", "replay_ratio 0.75 → 1", progress=recorded.at(60))
    writer.event("checkpoint", "100,000 frames", progress=recorded.at(70))
    writer.close()
    return directory


def test_a_vtrace_run_shows_the_charts_of_vtrace() -> None:
    assert titles(recorded.vtrace("one")) == VTRACE


def test_an_r2d2_run_shows_the_charts_of_replay_beside_what_all_runs_have() -> None:
    assert titles(recorded.r2d2("one")) == R2D2


@pytest.mark.parametrize("algorithm", ["vtrace", "r2d2"])
def test_no_chart_is_without_data(algorithm: str) -> None:
    for key, one in figures(getattr(recorded, algorithm)("one")).items():
        assert any(len(column) for table in one.tables.values() for column in table.values()), key


def test_every_chart_names_the_tables_that_it_has_and_says_what_it_is() -> None:
    for key, one in figures(everything("one")).items():
        named = {layer["data"]["name"] for layer in layers(one.spec())}
        assert named <= one.tables.keys(), key
        one.chart.to_dict(validate=True)
        assert one.spec()["description"] and one.spec()["title"] == one.title, key
        for name, table in one.tables.items():
            assert len({len(column) for column in table.values()}) == 1, (key, name)


@pytest.mark.parametrize("algorithm", ["vtrace", "r2d2"])
def test_four_charts_and_the_strip_of_events_are_shown_and_the_rest_is_in_groups(algorithm: str) -> None:
    drawn = figures(getattr(recorded, algorithm)("one"))
    shown = [key for key, one in drawn.items() if not one.group]
    assert len(shown) == 5 and shown[0] == "returns" and shown[-1] == "events" and list(drawn)[:5] == shown
    assert {one.group for one in drawn.values()} == {"", "Learning", "System"}
    assert [key for key, one in drawn.items() if one.row] == ["events"]


def test_one_strip_shows_every_event_and_no_other_chart_has_any() -> None:
    drawn = figures(everything("one"))
    assert drawn.keys() >= OVER_TIME
    strip = drawn["events"].tables["events"]
    assert strip["message"] == ["replay_ratio 0.75 → 1", "100,000 frames"]
    assert strip["kind"] == ["tune", "checkpoint"] and strip["lane"] == ["steering", "checkpoints"]
    pointed = [layer for layer in layers(drawn["events"].spec()) if layer["data"]["name"] == "events"]
    assert [{tip["field"] for tip in layer["encoding"]["tooltip"]} for layer in pointed] == [
        {"kind", "message", "x"}] * 2
    assert [key for key, one in drawn.items() if "events" in one.tables] == ["events"]


def test_kinds_of_events_differ_in_shape_or_colour_and_none_has_the_colour_of_the_curve() -> None:
    looks = {kind: (mark.shape, mark.colour) for kind, mark in marks.EVENT_MARKS.items()}
    assert len(set(looks.values())) == len(looks)
    four = [looks[kind] for kind in ("restart", "error", "tune", "checkpoint")]
    assert len({shape for shape, _ in four}) == len({colour for _, colour in four}) == 4
    assert charts.COLOURS[1] not in {colour for _, colour in looks.values()}
    assert looks["kill"][1] != looks["error"][1] and marks.EVENT_MARKS["kill"].lane != "faults"
    for _, colour in looks.values():  # seen on white and on black
        own = sum(share * ((int(colour[at : at + 2], 16) / 255 + 0.055) / 1.055) ** 2.4
                  for share, at in ((0.2126, 1), (0.7152, 3), (0.0722, 5)))
        assert 1.05 / (own + 0.05) > 3 and (own + 0.05) / 0.056 > 3, colour


@pytest.mark.parametrize("axis", axes.AXES)
def test_all_charts_of_time_have_the_same_ends(axis: Axis) -> None:
    directory = recorded.vtrace("one")
    writer = MetricsWriter(directory.metrics)
    writer.scalars(recorded.at(60), {"entropy": 1.0, "batch_fill": 0.5})  # others go on for twice as long
    writer.event("error", "late", progress=recorded.at(130))
    writer.close()
    drawn = {key: one for key, one in figures(directory, axis=axis).items() if dashboard.over_time(one)}
    assert drawn.keys() == OVER_TIME & drawn.keys() and "batches" in drawn
    ends = {tuple(one.tables["span"]["x"]) for one in drawn.values()}
    ((low, high),) = ends
    last = {"frames": 130 * 2560, "updates": 130, "hours": 65 / 3600}[axis]
    assert high == pytest.approx(last) and low == pytest.approx(last / 130)
    for key, one in drawn.items():
        assert "span" in {layer["data"]["name"] for layer in layers(one.spec())}, key


@pytest.mark.parametrize(("axis", "last"), [("frames", 120 * 2560), ("updates", 120), ("hours", 60 / 3600)])
def test_one_switch_changes_the_axis_of_every_chart_of_time(axis: Axis, last: float) -> None:
    for key, one in figures(everything("one"), axis=axis).items():
        if key not in OVER_TIME:
            continue
        points = [table["x"] for name, table in one.tables.items() if name.startswith(("line", "training", "span"))]
        assert max(column[-1] for column in points) == pytest.approx(last, rel=0.02), key
        assert {layer["encoding"]["x"]["title"] for layer in layers(one.spec())
                if layer["encoding"].get("x", {}).get("field") == "x"} == {axis, *([None] if one.row else [])}, key


def test_the_same_run_a_moment_later_has_the_same_charts_over_other_data() -> None:
    directory = everything("one")
    before = figures(directory)
    writer = MetricsWriter(directory.metrics)
    writer.scalars(recorded.at(121), dict.fromkeys(dashboard.SERIES - {"loss", "td_error"}, 0.5))
    writer.close()
    after = figures(directory)
    assert {key: id(one.chart) for key, one in before.items()} == {key: id(one.chart) for key, one in after.items()}
    assert len(after["speed"].tables["line0"]["x"]) == len(before["speed"].tables["line0"]["x"]) + 1


def test_a_run_whose_rewards_are_shaped_shows_the_score_beside_the_return() -> None:
    directory = recorded.vtrace("one")
    assert "scores" not in figures(directory) and "score" not in snapshot.sentence(dashboard.read(directory))
    writer = MetricsWriter(directory.metrics)
    for update in (121, 122):
        writer.scalars(recorded.at(update), {"episode_score_mean": 0.5, "evaluation_score_mean": 0.75})
        writer.episode(recorded.at(update), env_id=0, episode_return=1.0, length_steps=9, score=float(update))
        writer.episode(recorded.at(update), env_id=1, episode_return=1.0, length_steps=9, score=2.0, kind="evaluation")
    writer.status(recorded.STATUS | {"episode_score": 0.5, "evaluation_return": 3.0, "evaluation_score": 0.75})
    writer.close()
    drawn = figures(directory)["scores"]
    assert list(figures(directory))[:2] == ["returns", "scores"] and not drawn.wide
    assert drawn.tables["training"]["value"].tolist() == [121.0, 122.0]
    assert drawn.tables["evaluation_mean"]["value"].tolist() == [0.75, 0.75]
    assert "score of every episode" in drawn.spec()["description"]
    now = dashboard.read(directory)
    sentence = snapshot.sentence(now)
    assert "mean return -20 (score 0.5)" in sentence and "evaluation return 3 (score 0.75)" in sentence
    assert dict(snapshot.facts(now)).items() >= {"mean score": "0.5", "evaluation score": "0.75"}.items()
    said = re.sub("<[^>]*>", " ", facts.facts(now))
    assert re.search(r"0.5 +mean score", said) and re.search(r"0.75 +evaluation score", said)


def test_a_new_run_says_what_its_charts_wait_for() -> None:
    def said(directory: RunDirectory) -> dict[str, str]:
        drawn = figures(directory)
        assert list(drawn)[-1] == "events" and not len(drawn.pop("events").tables["events"]["x"])
        return {one.title: " ".join(one.spec()["mark"]["text"]) for one in drawn.values()}

    waiting = {"Episode return": "no episode has ended yet", "Speed": "no measurement yet"}
    assert said(recorded.new("a")) == waiting | dict.fromkeys(("Losses", "Policy entropy (nats)"), "no update yet")
    assert said(recorded.new("b", "r2d2")) == waiting | dict.fromkeys(
        ("Losses", "Q-value of actions taken"), "no update before the replay holds 5,000 unrolls")
    asked = recorded.new("c", "r2d2", replay_min_size=300)
    assert said(asked)["Losses"] == "no update before the replay holds 300 unrolls"


def test_a_filling_replay_is_shown_before_the_first_update() -> None:
    made = figures(recorded.r2d2("one", filling=True))
    assert list(made) == ["returns", "speed", "losses", "q_value", "events", "replay_fill", "bottleneck"]
    assert " ".join(made["losses"].spec()["mark"]["text"]) == "no update before the replay holds 5,000 unrolls"
    assert layers(made["replay_fill"].spec())[0]["encoding"]["y"]["scale"] == {"domain": [0, 1]}


def test_charts_follow_from_metrics_and_not_from_the_algorithm() -> None:
    directory = recorded.vtrace("one")
    writer = MetricsWriter(directory.metrics)
    writer.distribution("priority", recorded.at(120), [0.1, 1, 10], [1, 1])
    writer.episode(recorded.at(120), env_id=3, episode_return=1.0, length_steps=10, kind="evaluation")
    writer.close()
    made = figures(directory)
    assert set(titles(directory)) == {*VTRACE, "Priorities"}
    assert any(one["mark"].get("shape") == "diamond" for one in of_mark(made["returns"], "point"))


def test_evaluation_has_its_own_marks_line_and_colour_beside_training() -> None:
    figure = figures(recorded.r2d2("one"))["returns"]
    drawn = [(one["mark"]["type"], one["data"]["name"]) for one in layers(figure.spec())]
    for layer in (("circle", "training"), ("line", "mean"), ("point", "evaluation"), ("line", "evaluation_mean")):
        assert layer in drawn
    (key,) = [one["encoding"]["color"] for one in layers(figure.spec()) if one["data"]["name"] == "alone"]
    assert key["legend"]["title"] is None
    assert len(set(key["scale"]["range"])) == len(key["scale"]["domain"]) == 3
    assert set(figure.tables["evaluation"]["value"]) == {-18.0} and set(figure.tables["training"]["value"]) == {-20.0}


def test_without_evaluation_returns_need_no_legend() -> None:
    figure = figures(recorded.vtrace("one"))["returns"]
    shown = {one["data"]["name"]: one["encoding"] for one in layers(figure.spec())}
    assert shown["alone"]["color"]["legend"] is None
    assert not any("stroke" in encoding or "shape" in encoding for encoding in shown.values())


def test_series_and_events_stay_apart_for_the_colour_blind_and_on_white_and_on_black() -> None:
    # Viénot, Brettel and Mollon 1999: what is seen without the long or the middle cones, in linear RGB.
    protan = np.array([[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]])
    deutan = np.array([[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]])
    light = np.array([0.2126, 0.7152, 0.0722])

    def linear(colour: str) -> Any:
        parts = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
        return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)

    for colour in charts.COLOURS:
        own = linear(colour) @ light
        assert 1.05 / (own + 0.05) > 3 and (own + 0.05) / (linear("#111111") @ light + 0.05) > 3, colour
    for seen in (np.eye(3), protan, deutan):
        for one, other in itertools.combinations(charts.COLOURS, 2):
            apart = np.abs((seen @ linear(one)).clip(0) ** (1 / 2.2) - (seen @ linear(other)).clip(0) ** (1 / 2.2))
            assert apart.max() > 0.1, (one, other)


def test_the_replay_ratio_stands_beside_the_one_asked_for_now() -> None:
    def dashed(directory: RunDirectory) -> tuple[Any, Any]:
        figure = figures(directory)["replay_ratio"]
        assert any(one["data"]["name"] == "asked" and one["mark"]["strokeDash"] for one in of_mark(figure, "rule"))
        return figure.tables["asked"]["value"][0], figure.tables["asked"]["text"]

    directory = recorded.r2d2("one")
    assert dashed(directory) == (0.75, ["asked for 0.75"])
    directory.write(config=directory.config().with_live(replay_ratio=1.5).to_json())
    assert dashed(directory) == (1.5, ["asked for 1.5"])


def test_losses_of_r2d2_have_a_logarithmic_axis_and_those_of_vtrace_a_linear_one() -> None:
    def scale(figure: Figure) -> dict[str, Any]:
        found: dict[str, Any] = layers(figure.spec())[0]["encoding"]["y"]["scale"]
        return found

    made = figures(recorded.r2d2("one"))["losses"]
    assert made.title == "Loss and TD error" and scale(made)["type"] == "log"
    assert scale(figures(recorded.vtrace("two"))["losses"]) == {"zero": False}


@pytest.mark.parametrize(("key", "kind"), [("td_error", "log"), ("priority", "log"), ("sample_age", "log"),
                                           ("policy_lag", None)])
def test_histograms_have_the_axis_of_their_edges(key: str, kind: str | None) -> None:
    figure = figures(recorded.r2d2("one"))[key]
    x = figure.spec()["encoding"]["x"]
    assert x["scale"].get("type") == kind
    bars = figure.tables["bars"]
    assert np.sum(bars["share"]) == pytest.approx(1.0)
    if kind == "log":
        low, high = x["scale"]["domain"]
        assert 0 < low <= min(bars["low"]) * 1.001 and max(bars["high"]) <= high * 1.001
        assert 2 <= len(x["axis"]["values"]) <= 8 and all(low <= tick <= high for tick in x["axis"]["values"])


def test_the_largest_part_stands_out_of_the_bottleneck() -> None:
    figure = charts.bottleneck({"environments": 0.3, "training": 0.8, "training_wait": 0.9})
    kinds = dict(zip(figure.tables["parts"]["part"], figure.tables["parts"]["kind"], strict=True))
    assert kinds == {"environments": "work", "training": "most", "training waits": "wait"}


def test_the_longest_stage_of_a_life_stands_out_with_its_time() -> None:
    directory = recorded.vtrace("one")
    assert "life" not in figures(directory), "a run of an older version"
    writer = MetricsWriter(directory.metrics)
    for update, queue_s in ((120, 9.0), (121, 0.5)):
        writer.scalars(recorded.at(update), {
            "life_step_s": 0.002, "life_wait_s": 0.001, "life_unroll_s": 0.097, "life_queue_s": queue_s})
    writer.close()
    parts = figures(directory)["life"].tables["parts"]
    assert parts["part"] == ["environment", "batch wait", "unroll fills", "in the queue"]
    assert parts["kind"] == ["work", "wait", "wait", "most"] and parts["text"][-2:] == ["97 ms", "500 ms"]
    assert parts["share"] == pytest.approx([0.002 / 0.6, 0.001 / 0.6, 0.097 / 0.6, 0.5 / 0.6])


def test_memory_leaves_out_an_accelerator_that_is_not_there() -> None:
    directory = recorded.vtrace("one")
    writer = MetricsWriter(directory.metrics)
    writer.scalars(recorded.at(121), {"accelerator_memory_gb": 0.0, "learner_memory_gb": 1.5, "memory_gb": 9.0})
    writer.close()
    assert "Lines of learner, machine" in figures(directory)["memory"].spec()["description"]


def test_empty_bins_at_both_ends_of_a_logarithmic_histogram_are_left_out() -> None:
    edges, counts, log = axes.binned(list(np.geomspace(1e-3, 1e3, 7)), [0, 0, 4, 0, 2, 0])
    assert log and counts == pytest.approx([4, 0, 2])
    assert edges == pytest.approx([0.1, 1, 10, 100])


def test_a_linear_histogram_begins_where_its_edges_do() -> None:
    edges, counts, log = axes.binned([0, 1, 2, 3, 4], [0, 5, 3, 0])
    assert (edges.tolist(), counts.tolist(), log) == ([0, 1, 2, 3], [0, 5, 3], False)


@pytest.mark.parametrize(("edges", "log"), [
    (range(11), False), ((0, 1, 2), False), ((0, 5), False), (np.linspace(0.1, 3, 9), False),
    ((-2, -1, 0, 1, 2), False), ((1, 2, 4, 8), True), ((0, 1, 10, 100), True), ((0, 1, 2, 3, 5, 8, 13, 21, 34), True),
])  # fmt: skip
def test_a_histogram_is_logarithmic_where_its_edges_grow_by_a_factor(edges: Any, log: bool) -> None:
    assert axes.binned(list(edges), [1] * (len(edges) - 1))[2] is log


def test_bins_that_differ_on_the_axis_become_bars_of_equal_width_with_the_same_sum() -> None:
    edges = [*range(64), *(64 * 2 ** (power / 4) for power in range(29))]  # the policy lag's: by ones, then by 19 %
    random = np.random.default_rng(0)
    counts = np.histogram(random.uniform(0, 8000, 10_000), edges)[0]
    new, bars, log = axes.binned(edges, counts)
    assert log and len(bars) <= axes.BARS
    widths = np.diff(np.log(new))
    assert widths == pytest.approx(np.full(len(widths), widths[0]))
    assert sum(bars) == pytest.approx(counts.sum())
    above = [share for edge, share in zip(new, bars, strict=False) if edge > 100]
    assert all(later > earlier for earlier, later in itertools.pairwise(above[:-1]))  # evenly spread over lags


def test_many_equal_bins_become_few_whole_ones() -> None:
    new, bars, log = axes.binned(list(range(101)), [1] * 100)
    assert not log and len(bars) <= axes.BARS
    assert new.tolist() == list(range(0, 103, 3)) and bars[:-1].tolist() == [3] * 33


def series(values: Any, **columns: Any) -> dict[str, Any]:
    rows = np.arange(len(values))
    return {"frames": rows, "steps": rows, "updates": rows, "time_s": rows * 1.0, "value": np.array(values, float)}


def test_a_rate_that_stands_still_has_a_tick_on_its_logarithmic_axis() -> None:
    for rate in (6e-4, 1e-4, 1.4e-3, 3.0):
        y = layers(charts.lines({"rate": series([rate] * 2)}, title="", log=True).spec())[0]["encoding"]["y"]
        low, high = y["scale"]["domain"]
        assert low < rate < high
        assert y["axis"]["values"] and all(low <= tick <= high for tick in y["axis"]["values"])


def test_a_value_of_zero_makes_a_logarithmic_axis_linear() -> None:
    spec = charts.lines({"rate": series([0.0, 1.0])}, title="", log=True).spec()
    assert "type" not in layers(spec)[0]["encoding"]["y"]["scale"]


def test_a_stepped_line_holds_values_that_were_there() -> None:
    figure = charts.lines({"rate": series([1.0] * 501 + [0.5] * 499)}, title="", stepped=True)
    (line,) = [one for one in layers(figure.spec()) if one["mark"]["type"] == "line"]
    assert line["mark"]["interpolate"] == "step-after" and line["data"]["name"] == "line0"


def test_a_series_of_one_row_is_a_point() -> None:
    figure = charts.lines({"a": series([3.0]), "b": series([1.0, 2.0])}, title="")
    assert figure.tables["alone"] == {"x": [0.0], "value": [3.0], "series": ["a"]}


def test_the_readout_says_the_mean_of_each_stretch_and_what_lies_between() -> None:
    values = np.arange(8000.0)
    values[5] = np.nan
    table = marks.readout([(np.arange(8000.0), values), (np.array([0.0, 7999.0]), np.array([0.0, 1.0]))])
    assert len(table["x"]) == marks.STRETCHES and table["x"][0] == 0 and table["x2"][-1] == 7999
    assert table["v0"] == pytest.approx(table["middle"], abs=1.0)
    assert table["v1"][40] == pytest.approx(0.5, abs=0.01)
    assert not len(marks.readout([(np.zeros(0), np.zeros(0))])["x"])


def test_a_series_says_nothing_before_its_first_row_and_after_its_last() -> None:
    table = marks.readout([(np.array([0.0, 80.0]), np.ones(2)), (np.array([20.0, 40.0]), np.array([1.0, 2.0]))])
    assert np.isfinite(table["v0"]).all()
    assert table["middle"][np.isfinite(table["v1"])] == pytest.approx(np.arange(20.5, 41))
    figure = charts.lines({"a": series([1.0, 2.0])}, title="")
    (layer,) = [one for one in layers(figure.spec()) if one["mark"]["type"] == "rect"]
    assert layer["transform"][0]["calculate"].startswith("isValid(datum.v0) ?")  # what is missing would be a 0


@pytest.mark.parametrize("axis", axes.AXES)
def test_the_mean_of_a_long_noisy_series_is_its_mean_and_not_the_middle_of_its_extremes(axis: Axis) -> None:
    directory = recorded.new("one")
    losses = np.random.default_rng(0).exponential(size=20_000)
    writer = MetricsWriter(directory.metrics)
    for update, loss in enumerate(losses):
        writer.scalars(recorded.at(update), {"loss": float(loss)})
        if update % 5000 == 0:
            writer.commit()
    writer.close()
    shown = figures(directory, axis=axis)["losses"].tables["readout"]["v0"]
    assert shown.mean() == pytest.approx(losses.mean(), rel=0.005)
    assert shown == pytest.approx(losses.reshape(marks.STRETCHES, -1).mean(1), abs=0.06)


def test_one_chart_that_cannot_be_drawn_says_why_and_the_others_are_shown() -> None:
    now = dashboard.read(recorded.vtrace("one"))
    whole = dashboard.figures(now)
    found = dashboard.figures(replace(now, histograms={"policy_lag": ([0, 1, 2], [1])}))
    assert found.keys() == whole.keys() and found["losses"].chart is whole["losses"].chart
    assert " ".join(found["policy_lag"].spec()["mark"]["text"]).startswith("cannot be drawn: ")
    assert found["policy_lag"].title == "Policy lag"


@pytest.mark.parametrize("values", [[5e-324, 1.0], [1.0, 1.7e308], [5e-324, 1.7e308], [1e-310] * 2])
def test_numbers_at_the_ends_of_what_there_are_have_a_logarithmic_axis(values: list[float]) -> None:
    y = layers(charts.lines({"rate": series(values)}, title="", log=True).spec())[0]["encoding"]["y"]
    low, high = y["scale"]["domain"]
    assert 0 < low < high < np.inf and y["axis"]["values"]


@pytest.mark.parametrize(("edges", "counts", "bars"), [
    ([3, 3], [7], {2.5: 7}), ([1, 3, 3, 5], [2, 4, 1], {1: 2, 3: 5}), ([0, 1, 2, np.inf], [1, 2, 3], {0: 1, 1: 5}),
    ([-np.inf, 0, 1, 2], [1, 2, 3], {0: 3, 1: 3}), ([0, np.nan, 2, 4], [1, 2, 3], {0: 3, 2: 3}),
    ([np.nan, np.nan], [4], {-0.5: 4}), ([0, 1e-200, 1e-190, 1e-170], [1, 1, 1], None),
])  # fmt: skip
def test_bins_without_width_or_end_lose_no_count(edges: Any, counts: Any, bars: dict[float, int] | None) -> None:
    figure = charts.histogram(edges, counts, title="", x="x").tables["bars"]
    assert np.sum(figure["share"]) == pytest.approx(1.0)
    places, shares, _ = axes.binned(edges, counts)
    assert np.isfinite(places).all() and (np.diff(places) > 0).all() and len(shares) <= axes.BARS
    assert bars is None or dict(zip(places.tolist(), shares.tolist(), strict=False)) == bars


def test_a_restored_and_a_forked_run_are_marked() -> None:
    directory = recorded.vtrace("one")
    writer = MetricsWriter(directory.metrics)
    for kind in ("restore", "fork"):
        writer.event(kind, "from a checkpoint", progress=recorded.at(70))
    writer.close()
    assert figures(directory)["events"].tables["events"]["kind"] == ["tune", "restore", "fork"]


def test_a_figure_can_be_taken_away_with_its_data_inside() -> None:
    figure = figures(recorded.r2d2("one"))["returns"]
    spec = figure.altair().to_dict()
    assert len(spec["datasets"]["training"]) == recorded.UPDATES
    assert spec["datasets"]["mean"][0]["value"] == -20.0


@pytest.mark.parametrize("filling", [False, True])
def test_an_r2d2_run_can_be_drawn_without_a_browser(filling: bool) -> None:
    import vl_convert

    drawn = vl_convert.vegalite_to_svg(static_render.joined(figures(recorded.r2d2("one", filling=filling))))
    for title in ("Episode return", "Replay fill", *(() if filling else ("Priorities", "Age of samples"))):
        assert title in drawn
    assert ("no update before the replay" in drawn) is filling


LABEL = re.compile(r'text-anchor="(\w+)" transform="translate\(([-\d.]+),[-\d.]+\)"[^>]* opacity="1">([^<]*)<')
CHARACTER = 5.6  # px of a digit in the font of labels


@pytest.mark.parametrize("factor", [1, 4, 50])
def test_labels_of_the_frames_axis_keep_a_distance_in_a_picture(factor: int) -> None:
    import vl_convert

    now = dashboard.read(everything("one"))
    series = {name: {**rows, "frames": rows["frames"] * factor} for name, rows in now.series.items()}
    drawn = static_render.joined(dashboard.figures(replace(now, series=series, events=())))
    axes_of_frames = [part for part in vl_convert.vegalite_to_svg(drawn).split("role-axis-label") if ">frames<" in part]
    gaps = []
    for part in axes_of_frames:
        labels = [(anchor, float(x), len(text) * CHARACTER) for anchor, x, text in LABEL.findall(part.split("</g>")[0])]
        starts = [x - {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor] * width for anchor, x, width in labels]
        ends = [start + width for start, (_, _, width) in zip(starts, labels, strict=True)]
        gaps += [start - end for start, end in zip(starts[1:], ends, strict=False)]
    assert len(axes_of_frames) > 8 and min(gaps) > 8.0


def test_the_rows_of_a_picture_are_of_one_width_and_in_the_order_of_the_panel() -> None:
    for directory in (recorded.vtrace("one"), recorded.r2d2("two"), everything("three"), recorded.new("four")):
        drawn = figures(directory)
        rows = static_render.in_rows(drawn)
        assert [key for row in rows for key, _ in row] == list(drawn)
        assert rows[0] == [("returns", 1.0)] and [("events", 1.0)] in rows
        for row in rows:
            assert len(row) <= static_render.MOST and sum(share for _, share in row) == pytest.approx(1.0)


def test_the_plots_of_a_picture_begin_and_end_in_the_same_columns() -> None:
    rows = static_render.joined(figures(recorded.vtrace("one")))["vconcat"]
    assert {sum(cell["width"] for cell in row["hconcat"]) + static_render.BETWEEN * (len(row["hconcat"]) - 1)
                       for row in rows} <= {static_render.WIDTH - 1, static_render.WIDTH, static_render.WIDTH + 1}


def test_replay_and_evaluation_are_said_in_plain_words() -> None:
    directory = recorded.r2d2("one")
    with lock.held(lock.of_supervisor(directory), wait_s=1.0):
        now = snapshot.read(directory)
        said = snapshot.sentence(now)
    for part in ("mean return -20 · evaluation return 18.2 · policy lag 1,523 updates · replay 1,234 of 5,000 unrolls",
                 "307,200 of 10 M frames"):
        assert part in said
    facts = dict(snapshot.facts(now))
    assert facts["evaluation return (40 episodes)"] == "18.2" and facts["replay"] == "1,234 of 5,000 unrolls"


def test_a_large_return_is_written_as_people_read_it() -> None:
    directory = recorded.vtrace("one")
    now = snapshot.read(directory)
    status = replace(now.status, episode_return=21345.6, evaluation_return=-12345.6)
    now = replace(now, status=status)
    assert "mean return 21,346 · evaluation return -12,346" in snapshot.sentence(now)
    assert {**dict(snapshot.facts(now))}.items() >= {"mean return": "21,346", "evaluation return": "-12,346"}.items()


def test_a_run_without_replay_does_not_speak_of_one() -> None:
    now = snapshot.read(recorded.vtrace("one"))
    assert "replay" not in snapshot.sentence(now) and "evaluation" not in snapshot.sentence(now)
    assert not {"replay", "evaluation return"} & dict(snapshot.facts(now)).keys()


def test_metrics_of_an_own_algorithm_are_drawn_whatever_they_are_called_and_those_of_every_run_are_not() -> None:
    class Config(wb.ReplayConfig):
        gain: float = 1.0

    config = RunConfig.build("CartPole-v1", algorithm="Own", own_algorithm=described(Config, taken={}))
    drawn = dashboard._AndOwn(type(config.hyperparameters))
    own = ("gradient_penalty", "batch_accuracy", "sample_entropy", "update_size", "memory_read", "replay_loss")
    assert all(name in drawn for name in own)
    assert not any(name in drawn for name in ("gradient_norm", "cpu_percent", "time_training"))


def test_more_lines_than_colours_are_dashed_and_all_are_named() -> None:
    rows = {"frames": np.array([0, 1]), "steps": np.array([0, 1]), "updates": np.array([0, 1]),
            "time_s": np.array([0.0, 1.0]), "value": np.array([0.0, 1.0])}
    names = [f"metric_{number}" for number in range(8)]
    figure = charts.lines(dict.fromkeys(names, rows), title="own", axis="frames")
    shown = {one["data"]["name"]: one for one in layers(figure.spec())}
    assert shown["alone"]["encoding"]["color"]["scale"]["domain"] == names
    assert "strokeDash" in shown["line6"]["mark"] and "strokeDash" not in shown["line0"]["mark"]


def test_a_saved_picture_continues_a_run_that_reached_its_target_by_taking_the_target_out() -> None:
    config = RunConfig.build("CartPole-v1", target_return=100.0, total_frames=1_000)
    status = RunStatus("x", "finished", frames=500, episode_return=120.0, episodes_in_mean=100)
    for made, call in ((config, "target_return=None"), (config.replaced(target_return=None), "total_frames=2_000")):
        lines = html.unescape(static_render.next_lines(snapshot.Snapshot("x", made, status)))
        assert f"wb.resume('x', {call})" in lines
