"""`compare` on the files of runs, and its chart computed by Vega itself."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import vl_convert

import workbench as wb
from tests.widgets import recorded, swept
from workbench import rundir
from workbench.errors import InvalidInput, OutOfBounds, RunNotFound, StorageFailed, UnknownName, WrongArguments
from workbench.metrics import MetricsReader, MetricsWriter, Progress
from workbench.rundir import RunDirectory
from workbench.running.handle import Run
from workbench.widgets.charts.compare_chart import NEIGHBOURS
from workbench.widgets.views.compare import Comparison, compare


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def both(home: Path) -> Comparison:
    recorded.vtrace("pong-1")
    recorded.r2d2("pong-2")
    return compare(["pong-1", "pong-2"])


def noisy(name: str, *, episodes: int, every: int = 100, **fields: Any) -> RunDirectory:
    """A run with a return that grows, and noise."""
    directory, random = recorded.new(name, **fields), np.random.default_rng(episodes)
    writer = MetricsWriter(directory.metrics)
    for at in range(1, episodes + 1):
        progress = Progress(frames=at * every, steps=at * every // 4, updates=at, time_s=at * 0.9)
        writer.episode(progress, env_id=0, episode_return=at / 10 + random.normal(), length_steps=10)
    writer.close()
    return directory


def test_the_chart_has_a_row_per_point_of_every_run(both: Comparison) -> None:
    assert both.runs == ("pong-1", "pong-2")
    assert both.data.groupby("run", sort=False).size().to_dict() == {"pong-1": 120, "pong-2": 120}
    assert both.data["hours"].max() == pytest.approx(recorded.UPDATES * 0.5 / 3600)
    spec = both.chart.to_dict()
    assert sorted(len(one) for one in spec["datasets"].values())[-1] == 240
    assert {one["name"]: one["value"] for one in spec["params"] if "bind" in one and "value" in one} == {
        "smoothing": 0.01, "axis": "frames"
    }
    binds = {one["name"]: one["bind"]["input"] for one in spec["params"] if isinstance(one.get("bind"), dict)}
    assert binds == {"smoothing": "range", "axis": "select"}


def smooth_by_hand(data: pd.DataFrame, axis: str, share: float) -> dict[str, list[float]]:
    span = data[axis].max() - data[axis].min()
    found: dict[str, list[float]] = {}
    for name, run in data.groupby("run", sort=False):
        x, value = run[axis].tolist(), run["value"].tolist()
        for at in range(len(x)):
            weights = [math.exp(-abs(other - x[at]) / (share * span)) for other in x]
            weights[at] = 2.0
            mean = sum(w * v for w, v in zip(weights, value, strict=True)) / sum(weights)
            nearby = value[max(0, at - NEIGHBOURS) : at + NEIGHBOURS + 1]
            found.setdefault(str(name), []).append(min(max(mean, min(nearby)), max(nearby)))
    return found


@pytest.mark.parametrize(("axis", "smoothing"), [("frames", 0.1), ("hours", 0.5), ("updates", 0.001),
                                               ("share", 0.05)])
def test_lines_are_means_weighted_by_distance_within_the_range_of_their_neighbours(axis: str, smoothing: float) -> None:
    noisy("short", episodes=40, every=300)
    noisy("long", episodes=90)
    found = compare(["short", "long"], axis=axis, smoothing=smoothing)
    expected = smooth_by_hand(found.data, axis, max(smoothing, 1 / 600))
    drawn = heights(found)
    for name, line in expected.items():
        np.testing.assert_allclose(drawn[name], line, atol=0.02, err_msg=name)


def heights(found: Comparison, low: float = -5, high: float = 15) -> dict[str, list[float]]:
    """The values of the strong lines, read off the drawing that Vega made with a y axis between these ends."""
    spec = found.chart.to_dict()
    for layer in spec["layer"]:
        if layer["mark"]["type"] in ("line", "point"):
            layer["encoding"]["y"].update(scale={"domain": [low, high], "nice": False})
    svg = vl_convert.vegalite_to_svg(spec)
    lines = re.findall(r'<path aria-label="([^"]*)"[^>]*d="(M[^"]*)"[^>]*stroke-width="2.5"', svg)
    height = 340
    values = {}
    for label, path in lines:
        name = next(one for one in found.runs if one in label)
        y = [float(pair.split(",")[1]) for pair in re.split("[ML]", path)[1:]]
        values[name] = [high - one / height * (high - low) for one in y]
    return values


@pytest.mark.parametrize("smoothing", [None, 0.0, 0.05, 0.5])
@pytest.mark.parametrize("axis", ["frames", "hours", "share"])
def test_a_plateau_stays_one_until_the_run_collapses(axis: str, smoothing: float | None) -> None:
    """A run that held 500 until 2.65 M frames and fell to 9 is drawn as just that, however it is smoothed."""
    writer = MetricsWriter(recorded.new("collapsed").metrics)
    for update in range(1, 1001):
        frames = update * 4_000
        value = 500.0 * min(1, frames / 400_000) if frames <= 2_650_000 else 9.0
        progress = Progress(frames=frames, steps=frames, updates=update, time_s=update * 0.9)
        writer.episode(progress, env_id=0, episode_return=value, length_steps=10)
    writer.close()
    found = compare("collapsed", axis=axis, **({} if smoothing is None else {"smoothing": smoothing}))
    drawn, value = heights(found, 0, 520)["collapsed"], found.data["value"].to_numpy()
    assert len(drawn) == len(value)
    for at, height in enumerate(drawn):
        nearby = value[max(0, at - NEIGHBOURS) : at + NEIGHBOURS + 1]
        assert nearby.min() - 0.01 <= height <= nearby.max() + 0.01, found.data["frames"][at]
    assert drawn[int(np.flatnonzero(value == 500)[-1]) - NEIGHBOURS] == pytest.approx(500, abs=0.01)
    assert drawn[int(np.flatnonzero(value == 9)[0]) + NEIGHBOURS] == pytest.approx(9, abs=0.01)


def test_a_short_run_is_as_long_as_a_long_one_over_its_share() -> None:
    noisy("short", episodes=5)
    noisy("long", episodes=500)
    found = compare(["short", "long"], axis="share").data
    for _, run in found.groupby("run"):
        assert 0 < run["share"].min() <= 0.2 and run["share"].max() == 1.0


@pytest.mark.parametrize(("smoothing", "words"), [(0.02, "strong: mean over ±2.0% of the axis; thin: as recorded"),
                                                  (0.0, ">as recorded<")])
def test_the_chart_says_what_its_lines_are(smoothing: float, words: str) -> None:
    noisy("one", episodes=30)
    assert words in vl_convert.vegalite_to_svg(compare("one", smoothing=smoothing).chart.to_dict())


@pytest.fixture
def groups(home: Path) -> Comparison:
    """Three seeds of one kind beside one run that went on longer and was tuned."""
    for seed in (1, 2, 3):
        writer = MetricsWriter(recorded.new(f"kind-{seed}", seed=seed).metrics)
        for at in range(1, 41):
            progress = Progress(frames=at * 100 * seed, steps=at, updates=at * seed, time_s=at * 36.0)
            writer.episode(progress, env_id=0, episode_return=float(at * 100 * seed + seed), length_steps=10)
        writer.close()
    directory = noisy("other", episodes=50, learning_rate=1e-3)
    return compare({"kind": [f"kind-{seed}" for seed in (1, 2, 3)], "other": directory.path})


def test_groups_are_means_of_their_runs_at_equal_frames_as_far_as_all_go(groups: Comparison) -> None:
    assert groups.runs == ("kind", "other")
    kind = groups.data[groups.data["run"] == "kind"]
    assert kind["frames"].iloc[0] == 300 and kind["frames"].iloc[-1] == 4000  # the first of one, the last of another
    np.testing.assert_allclose(kind["value"], kind["frames"] + 2)
    np.testing.assert_allclose(kind["low"], kind["frames"] + 1)
    np.testing.assert_allclose(kind["high"], kind["frames"] + 3)
    np.testing.assert_allclose(kind["updates"], kind["frames"] / 100)
    other = groups.data[groups.data["run"] == "other"]
    assert (other["low"] == other["value"]).all() and len(other) == 100


def test_a_band_is_drawn_behind_the_line_of_a_group(groups: Comparison) -> None:
    svg = vl_convert.vegalite_to_svg(groups.chart.to_dict())
    assert len(re.findall(r'<path aria-label="[^"]*smooth_low[^"]*"', svg)) == 2
    assert "line: mean of the runs; band: lowest to highest, over ±1.0% of the axis" in svg
    assert "Episode return of 2 groups" in svg
    assert groups.still()["image/png"]


def test_a_group_may_be_a_generator_or_rows_of_the_table_of_runs(groups: Comparison) -> None:
    rows = [one for one in wb.runs() if one.name == "other"]
    again = compare({"kind": (f"kind-{seed}" for seed in (1, 2, 3)), "other": rows})
    pd.testing.assert_frame_equal(again.data, groups.data)
    assert set(compare(wb.runs()).runs) == {"kind-1", "kind-2", "kind-3", "other"}


def test_a_group_whose_runs_have_no_frames_in_common_is_left_out(
    groups: Comparison, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = MetricsWriter(recorded.new("later").metrics)
    writer.episode(Progress(frames=10**6, steps=1, updates=1, time_s=1.0), env_id=0, episode_return=1.0, length_steps=1)
    writer.close()
    recorded.new("empty")
    assert compare({"kind": "kind-1", "none": ["empty"]}).runs == ("kind",)
    assert capsys.readouterr().out.splitlines() == ["Left out: empty, without 'episode_return' so far.",
                                                    "So there is no run left in the group 'none'."]
    found = compare({"apart": ["kind-1", "later"], "other": "other"})
    assert found.runs == ("other",) and set(found.data["run"]) == {"other"} == set(found.differences.columns)
    assert "Left out: apart, whose runs have no frames in common" in capsys.readouterr().out
    with pytest.raises(InvalidInput, match="no group has runs with frames in common"):
        compare({"apart": ["kind-1", "later"]})


def test_groups_differ_in_all_values_of_their_runs(groups: Comparison) -> None:
    assert groups.differences.loc["seed"].tolist()[0] == "1, 2, 3"
    assert groups.differences.loc["learning_rate"].tolist() == [6e-4, 1e-3]
    same = compare({"a": ["kind-1", "kind-2"], "b": ["kind-3"]})
    assert list(same.differences.index) == ["seed"]


def test_without_smoothing_the_lines_are_the_values() -> None:
    noisy("one", episodes=30)
    found = compare("one", smoothing=0)
    np.testing.assert_allclose(heights(found)["one"], found.data["value"], atol=0.02)


def test_a_long_run_is_thinned_to_means_that_leave_nothing_out() -> None:
    directory = noisy("long", episodes=12_345)
    whole = MetricsReader(directory.metrics).series("episode_return")
    found = compare(["long"]).data
    assert len(found) == 1000
    parts = np.arange(12_345) * 1000 // 12_345
    for column in ("frames", "value"):
        expected = [whole[column][parts == part].mean() for part in range(1000)]
        np.testing.assert_allclose(found[column], expected)


def test_many_runs_stay_below_what_altair_draws() -> None:
    for at in range(12):
        noisy(f"run-{at}", episodes=600)
    found = compare([f"run-{at}" for at in range(12)])
    assert len(found.data) <= 4500 and set(found.data["run"]) == set(found.runs)
    found.chart.to_dict()
    signs = found.chart.to_dict()["layer"][1]["encoding"]
    looks = list(zip(signs["color"]["scale"]["range"], map(tuple, signs["strokeDash"]["scale"]["range"]), strict=True))
    assert len(set(looks)) == 12


def test_only_the_fields_that_differ_are_listed_with_what_was_tuned(home: Path) -> None:
    recorded.vtrace("plain")
    directory = recorded.new("other", actors=4, learning_rate=6e-4)
    writer = MetricsWriter(directory.metrics)
    writer.episode(recorded.at(1), env_id=0, episode_return=1, length_steps=1)
    for update, old, new in ((10, 6e-4, 3e-4), (20, 3e-4, 1e-4)):
        writer.event("tune", f"learning_rate {old} → {new}", progress=recorded.at(update),
                     data={"old": {"learning_rate": old}, "new": {"learning_rate": new}})
    writer.close()
    record = directory.read()
    record["config"]["hyperparameters"]["learning_rate"] = 1e-4
    directory.write(config=record["config"], parent={"checkpoint": "/x/plain/checkpoints/000000000007", "take": "all",
                                                     "optimizer": True, "replay": False, "run": "plain"})
    (directory.path / "code" / "network.pkl").write_bytes(b"code")
    table = compare([Run(RunDirectory(home / "runs" / "plain")), directory.path]).differences
    assert list(table.columns) == ["plain", "other"]
    assert set(table.index) == {"actors", "learning_rate", "network code", "started from"}
    assert table.loc["actors"].tolist() == [2, 4]
    assert table.loc["learning_rate"].tolist() == [
        6e-4, "0.0006 → 0.0003 (at 25,600 frames) → 0.0001 (at 51,200 frames)"
    ]
    assert table.loc["started from", "other"] == "plain 000000000007"
    assert table.loc["network code", "other"].startswith("your own (")


def test_runs_of_two_algorithms_differ_in_the_fields_that_one_has_alone(both: Comparison) -> None:
    assert both.differences.loc["algorithm"].tolist() == ["vtrace", "r2d2"]
    assert both.differences.loc["burn_in"].tolist() == ["", 40]
    assert "environment" not in both.differences.index


def test_the_same_configuration_says_so() -> None:
    recorded.vtrace("a")
    recorded.vtrace("b")
    found = compare(["a", "b"])
    assert found.differences.empty
    assert list(compare(Run(rundir.find("a"))).runs) == ["a"]
    assert "do not differ" in found.still()["text/html"]


def test_runs_without_the_metric_are_left_out_and_named(
    both: Comparison, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded.new("new")
    found = compare(["pong-1", "new", "pong-2"], "policy_loss")
    assert found.runs == ("pong-1",) and set(found.data["run"]) == {"pong-1"}
    assert capsys.readouterr().out == "Left out: new, pong-2, without 'policy_loss' so far.\n"
    assert list(found.differences.columns) == ["pong-1", "new", "pong-2"]


@pytest.mark.parametrize(
    ("runs", "metric", "how", "error", "said"),
    [
        ([], "loss", {}, InvalidInput, r"got no runs.*wb\.runs\(\) lists them"),
        (["pong-1", "pong-1"], "loss", {}, InvalidInput, "pong-1 is given twice"),
        (["pong-1", 3], "loss", {}, InvalidInput, "3 is no run"),
        (5, "loss", {}, InvalidInput, "5 is no run. Give handles, names"),
        ({"a": ["pong-1"], "b": []}, "loss", {}, InvalidInput, r"the group 'b' has no runs\. Give each a"),
        ({1: "pong-1"}, "loss", {}, InvalidInput, "the group 1 is no text"),
        ({"a": {"x": "pong-1"}}, "loss", {}, InvalidInput, "the group 'a' has a dict for its runs"),
        ({"a": "pong-1", "b": ["pong-1"]}, "loss", {}, InvalidInput, "pong-1 is given twice"),
        (["pong-1"], ["loss"], {}, InvalidInput, r"metric=\['loss'\] must be the name of one"),
        (["pong-1", "pong-3"], "loss", {}, RunNotFound, r"no run 'pong-3'.*Did you mean 'pong-[12]'"),
        (["pong-1", "pong-2"], "los", {}, UnknownName,
         r"unknown metric 'los'\. Did you mean 'loss'\? pong-1, pong-2 do not have it"),
        (["pong-1"], "rollout/ep_rew_mean", {}, UnknownName, "Did you mean 'episode_return_mean'?.*run.metric_names"),
        (["new"], "loss", {}, UnknownName, r"new does not have it\. Nothing was recorded by new\."),
        ("pong-1", "pong-2", {}, UnknownName, r"is a run. Give several runs as a list: wb\.compare\(\[run_a, run_b\]"),
        (["pong-1"], "loss", {"axis": "frame"}, UnknownName, "unknown axis 'frame'. Did you mean 'frames'"),
        (["pong-1"], "loss", {"smoothing": 2}, OutOfBounds, r"smoothing=2 is out of bounds: it must lie in \[0, 0.5\]"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused_in_words(
    both: Comparison, runs: Any, metric: Any, how: Any, error: type[Exception], said: str
) -> None:
    recorded.new("new")
    with pytest.raises(error, match=said):
        compare(runs, metric, **how)
    with pytest.raises(WrongArguments, match=r"wb\.compare\(\[run_a, run_b\]\)"):
        compare()  # type: ignore[call-arg]


def test_a_deleted_run_is_not_found_and_a_comparison_stays(both: Comparison, home: Path, tmp_path: Path) -> None:
    handle = Run(RunDirectory(home / "runs" / "pong-1"))
    shutil.rmtree(handle.path)
    with pytest.raises(RunNotFound):
        compare([handle, "pong-2"])
    assert both.save(tmp_path / "kept.svg").exists()


def test_it_is_saved_as_what_its_name_ends_in(both: Comparison, tmp_path: Path) -> None:
    assert both.save(tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in both.save(str(tmp_path / "a.svg")).read_text()
    spec = json.loads(both.save(tmp_path / "a.json").read_text())
    assert "vega-lite" in spec["$schema"]
    page = both.save(tmp_path / "a.html").read_text()
    assert "burn_in" in page and "vegaEmbed" in page
    around = re.sub("<script>.*?</script>", "", page, flags=re.DOTALL)
    assert len(around) < 20_000 and not re.search("src=|href=|url", around), "it needs nothing else"
    with pytest.raises(InvalidInput, match=r"'a\.gif' says no format. End it in one of \.html"):
        both.save(tmp_path / "a.gif")
    with pytest.raises(StorageFailed, match="cannot write .*No such file"):
        both.save(tmp_path / "none" / "a.png")


def test_no_text_of_a_run_ends_the_script_of_a_page(home: Path, tmp_path: Path) -> None:
    directory = recorded.vtrace("evil")
    writer = MetricsWriter(directory.metrics)
    writer.event("tune", "</script><script>alert(1)</script>", progress=recorded.at(3))
    writer.close()
    page = compare("evil").save(tmp_path / "a.html").read_text()
    assert "alert(1)" in page and "</script><script>alert(1)" not in page


def test_a_cell_shows_the_chart_with_its_controls_and_the_differences(both: Comparison) -> None:
    charts, table = both.view.children
    (figure,) = charts.figures.values()
    assert figure.tables["curves"]["run"][:1] == ["pong-1"] and len(figure.tables["curves"]["value"]) == 240
    assert set(figure.tables) == {"curves", "tunes"}
    assert "burn_in" in table.value
    assert "workbench-compare" in both.view._dom_classes
    assert "curves" in json.dumps(figure.spec()) and '"smoothing"' in json.dumps(figure.spec())
    bundle = both.still()
    assert set(bundle) == {"text/html", "image/png", "text/plain"} and "burn_in" in bundle["text/html"]
    assert all(str(value) in bundle["text/plain"] for value in both.differences.to_numpy().ravel()), "1e-08 is not 0.0"
    assert repr(both).startswith("Comparison(episode_return of pong-1, pong-2: they differ in ")
    both.view.close()


def test_the_runs_of_a_sweep_are_compared_by_one_call(home: Path) -> None:
    sweep = swept.by_hand()
    assert compare(sweep.runs).runs == ("mine-1",)  # the only one of its runs that is there
    with pytest.raises(InvalidInput, match=r"is no run\. .* Those of a sweep are sweep\.runs\.$"):
        compare(sweep)  # type: ignore[arg-type]
