"""The checkpoint inspector on a run that really trained: what it shows, and what its buttons do."""

from __future__ import annotations

import base64
import json
import math
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ipywidgets.widgets.widget import _instances as open_models

import workbench as wb
from tests.conftest import SMALL, eventually
from tests.widgets import recorded
from workbench import checkpoints
from workbench.checkpoints import Checkpoint, layer_statistics
from workbench.errors import CheckpointCorrupt, InvalidInput, MissingPackage, StorageFailed, UnknownName
from workbench.metrics import MetricsWriter
from workbench.playing.evaluating import evaluation_log
from workbench.playing.evaluating.evaluation import Evaluation
from workbench.running.handle import Run
from workbench.tables import number
from workbench.widgets.inspector import figures, still
from workbench.widgets.inspector.inspector import CheckpointInspector
from workbench.widgets.inspector.task_form import keywords


@pytest.fixture(scope="module")
def run(module_home: Path) -> Iterator[wb.Run]:
    """A run that has stopped, with three checkpoints of different updates."""
    made = wb.launch("CartPole-v1", name="pole", seed=1, progress=False, **SMALL)
    for updates in (10, 40):
        made.wait(updates=updates, timeout_s=240, progress=False)
        made.checkpoint()
    made.wait(updates=made.status.updates + 20, timeout_s=240, progress=False)
    made.stop()
    yield made


@pytest.fixture
def inspector(run: wb.Run) -> Iterator[CheckpointInspector]:
    shown = CheckpointInspector(run)
    settled(shown)
    yield shown
    shown.close()


def settled(shown: CheckpointInspector) -> None:
    eventually(lambda: "reading" not in shown.said.value and shown.layers.rows, what="the layers are read")


def done(shown: CheckpointInspector, name: str) -> str:
    """Click, wait, and what is said then."""
    doing = shown.forms[name]
    doing.button.click()
    eventually(lambda: not doing.busy and doing.message.value, what=name)
    assert not doing.button.disabled
    return str(doing.message.value)


def column(rows: list[dict[str, Any]], name: str) -> list[Any]:
    return [row[name] for row in rows]


def layers_of(checkpoint: Checkpoint) -> list[dict[str, Any]]:
    """The rows that the table of layers has of it; what is not a number is empty there."""
    rows = figures.layer_rows(list(layer_statistics.layers(checkpoint)))
    return [{name: None if value != value else value for name, value in row.items()} for row in rows]


# --- run.checkpoints --------------------------------------------------------------------------------------------------


def test_checkpoints_are_a_list_that_shows_as_a_table(run: wb.Run) -> None:
    found = run.checkpoints
    assert isinstance(found, list) and found == checkpoints.every(run.directory.checkpoints)
    assert len(found) == 3 and found[-1].frames == run.status.frames and found[:2] == list(found)[:2]
    assert [one.frames for one in found] == sorted(one.frames for one in found)
    head, *lines = repr(found).splitlines()
    assert head.split() == ["checkpoint", "frames", "updates", "return", "age", "why", "replay"]
    assert [line.split()[0] for line in lines] == [one.path.name for one in found]
    assert "asked for" in lines[0] and "stopped" in lines[2]
    assert found[0].path.name in found._repr_html_()


def test_without_widgets_a_cell_shows_the_table(
    run: wb.Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(name: str) -> None:
        raise MissingPackage(f"the {name} needs ipywidgets. Install it: pip install ipywidgets")

    monkeypatch.setattr("workbench.imports.widget", missing)
    run.checkpoints._ipython_display_()
    told = capsys.readouterr().out
    assert run.checkpoints[0].path.name in told and "pip install ipywidgets" in told


# --- what it shows ----------------------------------------------------------------------------------------------------


def test_it_begins_with_the_newest_checkpoint_and_its_layers(inspector: CheckpointInspector, run: wb.Run) -> None:
    newest = run.checkpoints[-1]
    assert inspector.chosen.value == inspector.table.selected == newest.path.name
    assert column(inspector.table.rows, "key") == [one.path.name for one in reversed(run.checkpoints)]
    assert inspector.layers.rows == layers_of(newest)
    assert column(inspector.layers.rows, "name")[0] == "torso.hidden.0.weight", "in the network's order"
    assert all(row["gradient"] > 0 for row in inspector.layers.rows), "a checkpoint of a run tells its gradients"
    assert inspector.said.value == ""
    assert list(inspector.charts.figures) == ["timeline", "histogram"]


def test_gradient_norms_are_of_the_size_that_the_run_recorded(run: wb.Run) -> None:
    newest = run.checkpoints[-1]
    total = math.sqrt(sum(layer.gradient_norm**2 for layer in layer_statistics.layers(newest)))
    recorded_norms = run.metrics("gradient_norm")["value"].to_numpy()  # before clipping
    clip = newest.meta["config"]["hyperparameters"]["max_gradient_norm"]
    assert 0.3 * min(clip, recorded_norms.min()) < total <= clip * 1.001


def test_another_checkpoint_and_its_difference(inspector: CheckpointInspector, run: wb.Run) -> None:
    first, second, _ = run.checkpoints
    inspector.choose(second.path.name, first.path.name)
    eventually(lambda: inspector.differences.rows, what="differences")
    settled(inspector)
    expected = second.diff(first)
    for row in inspector.differences.rows:
        assert row["relative"] == pytest.approx(100 * expected.loc[row["name"], "relative_difference"])
        assert row["cosine"] == pytest.approx(expected.loc[row["name"], "cosine"])
    timeline, histogram = inspector.charts.figures.values()
    assert timeline.tables["chosen"]["x"].tolist() == [second.frames, first.frames]
    assert timeline.tables["chosen"]["label"] == ["first", "second"]
    eventually(lambda: len(inspector.charts.figures["histogram"].tables["second"]["share"]))
    inspector.other.value = inspector.other.options[0]
    eventually(lambda: not inspector.differences.rows)


def test_a_row_of_the_table_chooses_as_the_list_does(inspector: CheckpointInspector, run: wb.Run) -> None:
    name = run.checkpoints[0].path.name
    inspector.table._on_message(None, {"type": "select", "key": name}, [])
    settled(inspector)
    assert inspector.chosen.value == name
    assert inspector.layers.rows == layers_of(run.checkpoints[0])
    inspector.chosen.value = run.checkpoints[1].path.name
    settled(inspector)
    assert inspector.table.selected == run.checkpoints[1].path.name


def test_a_layer_shows_its_histogram(inspector: CheckpointInspector, run: wb.Run) -> None:
    inspector.layers._on_message(None, {"type": "select", "key": "policy.weight"}, [])
    eventually(lambda: inspector.charts.figures["histogram"].title == "Weights of policy.weight")
    weights = run.checkpoints[-1].load("model")["policy.weight"]
    counts, _ = np.histogram(weights.astype(float), layer_statistics.BINS)
    table = inspector.charts.figures["histogram"].tables["first"]
    np.testing.assert_allclose(table["share"], counts / weights.size)


def test_a_layer_of_the_second_checkpoint_alone_is_drawn_as_the_seconds(home: Path) -> None:
    directory = recorded.new("two")
    for frames, layers in ((1, ["a", "gone"]), (2, ["a", "new"])):
        groups = {"model": {name: np.ones((2, 2), np.float32) for name in layers}}
        checkpoints.write(directory.checkpoints, frames=frames, groups=groups, requested=False,
                          meta={"steps": 1, "updates": 1, "time_s": 1.0})
    shown = CheckpointInspector(Run(directory))
    shown.choose(f"{2:012d}", f"{1:012d}")
    settled(shown)

    def drawn(layer: str) -> list[bool]:
        chart = shown.charts.figures["histogram"]
        return [chart.title == f"Weights of {layer}" and len(chart.tables[which]["share"]) > 0
                for which in ("first", "second")]

    for layer, expected in (("a", [True, True]), ("new", [True, False]), ("gone", [False, True])):
        shown._choose_layer(layer)
        eventually(lambda layer=layer, expected=expected: drawn(layer) == expected, what=layer)
    shown._choose_layer("nowhere")
    eventually(lambda: "histogram" not in shown.charts.figures)
    shown.close()


def test_a_closed_inspector_leaves_nothing_in_the_browser(run: wb.Run) -> None:
    before = set(open_models)
    shown = CheckpointInspector(run)
    settled(shown)
    shown.close()
    assert set(open_models) == before


def test_large_numbers_are_said_as_people_say_them(tmp_path: Path) -> None:
    found = Evaluation("x", tmp_path, 9, 0, True, (21_000.0, 22_000.0, 2e6, 3e6, 4e6), (3,) * 5)
    assert "e+" not in figures.interval(found) and "(5 episodes)" in figures.interval(found)
    assert still._cell({"norm": 123_456.7}, name="norm") == "123,457"


def test_a_name_that_is_none_is_refused(inspector: CheckpointInspector) -> None:
    with pytest.raises(UnknownName, match="unknown checkpoint '00'"):
        inspector.choose("00")


def test_a_damaged_checkpoint_says_so_under_the_lists(inspector: CheckpointInspector, run: wb.Run) -> None:
    file = run.checkpoints[0].path / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    try:
        inspector.choose(run.checkpoints[0].path.name)
        eventually(lambda: 'role="alert"' in inspector.said.value and "wrong checksum" in inspector.said.value)
    finally:
        file.write_bytes(whole)
    inspector.choose(run.checkpoints[1].path.name)
    settled(inspector)
    assert inspector.said.value == ""


def test_what_it_draws_is_valid_and_has_no_data_of_its_own(inspector: CheckpointInspector) -> None:
    for figure in inspector.charts.figures.values():
        spec = figure.spec()
        assert spec["description"] and "datasets" not in spec
        assert set(named(spec)) == set(figure.tables) - {"hover"}


def named(spec: Any) -> Iterator[str]:
    """Names of all tables in a specification."""
    if isinstance(spec, dict):
        if isinstance(spec.get("data"), dict):
            yield spec["data"]["name"]
        for value in spec.values():
            yield from named(value)
    elif isinstance(spec, list):
        for value in spec:
            yield from named(value)


def test_a_saved_notebook_keeps_a_picture_a_table_and_text(inspector: CheckpointInspector, run: wb.Run) -> None:
    bundle = inspector.still()
    assert set(bundle) == {"text/html", "text/plain", "image/png"}
    eventually(lambda: inspector.still()["text/plain"] == repr(run.checkpoints), what="both in one second of ages")
    for text in (run.checkpoints[0].path.name, "policy.weight", "Gradient norm", "data:image/png"):
        assert text in bundle["text/html"]
    assert "http" not in bundle["text/html"]


def test_an_error_with_characters_that_no_picture_takes_is_drawn(home: Path) -> None:
    directory = recorded.vtrace("coloured")
    writer = MetricsWriter(directory.metrics)
    writer.event("error", "\x1b[31mNaN\x1b[0m in the loss\x00", progress=recorded.at(60))
    writer.close()
    checkpoints.write(directory.checkpoints, frames=100, groups={"model": {"w": np.ones((2, 2), np.float32)}},
                      meta={"steps": 1, "updates": 1, "time_s": 1.0, "episode_return": 3.0}, requested=False)
    shown = CheckpointInspector(Run(directory))
    settled(shown)
    assert base64.b64decode(shown.still()["image/png"]).startswith(b"\x89PNG")
    shown.close()


def test_a_run_without_checkpoints_says_so(home: Path) -> None:
    shown = CheckpointInspector(Run(recorded.new("young")))
    assert shown.table.rows == [] and shown.layers.rows == []
    for name in ("evaluate", "play", "fork", "export"):
        assert "there is no checkpoint yet" in done(shown, name)
    bundle = shown.still()
    assert "young has no checkpoint yet" in bundle["text/html"] and "image/png" not in bundle
    shown.close()


def test_new_checkpoints_appear_by_themselves(home: Path) -> None:
    directory = recorded.vtrace("growing")
    meta = {"steps": 1, "updates": 1, "time_s": 1.0, "episode_return": 3.0}

    def write(frames: int) -> Checkpoint:
        groups = {"model": {"w": np.ones((2, 2), np.float32) * frames}}
        return checkpoints.write(directory.checkpoints, frames=frames, groups=groups, meta=meta, requested=False)

    first = write(100)
    shown = CheckpointInspector(Run(directory))
    settled(shown)
    assert "does not tell its gradients" in shown.said.value
    write(200)
    assert shown.tick()
    assert column(shown.table.rows, "frames") == [200, 100] and shown.chosen.value == first.path.name
    shutil.rmtree(first.path)
    assert shown.tick()
    settled(shown)
    assert shown.chosen.value == f"{200:012d}" and column(shown.table.rows, "frames") == [200]
    shutil.rmtree(directory.path)
    for asked in (shown.table, shown.charts):
        shown.said.value, shown._stamp = "", ()
        asked._handle_custom_msg({"type": "pull"}, [])
        assert 'role="alert"' in shown.said.value
    assert shown.tick()
    assert 'role="alert"' in shown.said.value
    shown.close()
    assert not shown.tick()


# --- what it does -----------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_evaluating_shows_the_interval_and_keeps_it(inspector: CheckpointInspector, run: wb.Run) -> None:
    first = run.checkpoints[0]
    inspector.choose(first.path.name)
    settled(inspector)
    fields = inspector.forms["evaluate"].fields
    fields["episodes"].value, fields["seed"].value = 4, 7
    said = done(inspector, "evaluate")
    expected = wb.evaluate(first, episodes=4, seed=7)
    assert f"mean return {number(expected.mean)}, 95 % interval {figures.interval(expected)}" in said
    row = next(row for row in inspector.table.rows if row["key"] == first.path.name)
    assert row["evaluation"] == expected.mean and "(4 episodes)" in row["interval"]
    table = inspector.charts.figures["timeline"].tables["evaluated"]
    assert table["value"].tolist() == [expected.mean] and table["x"].tolist() == [first.frames]
    first.verify()
    kept, again = evaluation_log.kept(run.directory)
    assert kept.evaluation == again.evaluation == expected and kept.of(first)
    again = CheckpointInspector(run)  # another kernel
    assert [row["evaluation"] for row in again.table.rows] == [None, None, expected.mean]
    again.close()


@pytest.mark.full
def test_a_fork_starts_with_what_was_typed(inspector: CheckpointInspector, run: wb.Run) -> None:
    fields = inspector.forms["fork"].fields
    fields["name"].value, fields["fields"].value = "shoot", "learning_rate=1e-4, target_entropy=None"
    inspector.choose(run.checkpoints[1].path.name)
    said = done(inspector, "fork")
    assert "wb.attach(&#x27;shoot&#x27;)" in said, said
    fork = wb.attach("shoot")
    try:
        assert fork.config.value("learning_rate") == 1e-4
        assert fork.checkpoints[0].frames == run.checkpoints[1].frames
    finally:
        fork.stop()
    assert "there is already" in done(inspector, "fork") or "there is a run" in done(inspector, "fork")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("learning_rte=1e-4", "Did you mean &#x27;learning_rate&#x27;"),
        ("learning_rate=9", "out of bounds"),
        ("1e-4", "are no changed fields. Type them as in Python"),
        ("learning_rate=__import__(&#x27;os&#x27;)".replace("&#x27;", "'"), "is no plain value"),
        ("a=1) + fork(b=2", "are no changed fields"),
        ("name='x'", "name cannot be given here. It has a field of its own."),
        ("**{}", "** cannot be given here"),
        ("environment='Acrobot-v1'", "cannot change"),
    ],
)
def test_a_wrong_change_is_refused_under_the_button(
    inspector: CheckpointInspector, run: wb.Run, text: str, said: str
) -> None:
    inspector.forms["fork"].fields["fields"].value = text
    told = done(inspector, "fork")
    assert said in told and 'role="alert"' in told
    assert {one.name for one in wb.runs()} <= {"pole", "shoot"}


def test_typed_fields_are_read_as_python_reads_them() -> None:
    assert keywords("a=1e-4, b='x', c=None, d=[1, -2],", reserved={}) == {"a": 1e-4, "b": "x", "c": None, "d": [1, -2]}
    assert keywords("  ", reserved={}) == {}


@pytest.mark.full
def test_exporting_makes_a_copy_that_a_run_can_start_from(
    inspector: CheckpointInspector, run: wb.Run, tmp_path: Path
) -> None:
    inspector.forms["export"].fields["path"].value = str(tmp_path / "taken" / "away")
    said = done(inspector, "export")
    assert f"exported to {tmp_path}/taken/away" in said and "wb.launch(..., checkpoint=" in said
    copy = checkpoints.at(tmp_path / "taken" / "away")
    copy.verify()
    assert not copy.diff(run.checkpoints[-1])["difference"].any()
    assert wb.evaluate(copy, episodes=2).returns == wb.evaluate(run.checkpoints[-1], episodes=2).returns
    heir = wb.launch("CartPole-v1", name="heir", checkpoint=copy.path, learning_rate=0.0, progress=False, **SMALL)
    try:
        weights = heir.checkpoint().load("model")["policy.weight"]
        np.testing.assert_array_equal(weights, copy.load("model")["policy.weight"])
    finally:
        heir.stop()
    assert "is there already. Choose another name." in done(inspector, "export")


def test_an_exported_zip_is_the_checkpoint_again_when_unzipped(run: wb.Run, tmp_path: Path) -> None:
    newest = run.checkpoints[-1]
    path = checkpoints.export(newest, tmp_path / "one.zip")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "out")
    copy = checkpoints.at(tmp_path / "out" / "one")
    copy.verify()
    assert (copy.frames, copy.meta, copy.files) == (newest.frames, newest.meta, newest.files)


def test_an_export_that_fails_leaves_nothing(run: wb.Run, tmp_path: Path) -> None:
    newest = run.checkpoints[-1]
    (tmp_path / "file").touch()
    with pytest.raises(StorageFailed, match="cannot write"):
        checkpoints.export(newest, tmp_path / "file" / "copy")
    with pytest.raises(InvalidInput, match="has no replay"):
        checkpoints.export(newest, tmp_path / "copy", replay=True)
    damaged = checkpoints.at(checkpoints.export(newest, tmp_path / "damaged"))
    (damaged.path / "rng.safetensors").write_bytes(b"x")
    with pytest.raises(CheckpointCorrupt, match="is torn"):
        checkpoints.export(damaged, tmp_path / "again")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["damaged", "file"]


@pytest.mark.full
def test_playing_shows_one_or_two_episodes_on_the_same_seed(inspector: CheckpointInspector, run: wb.Run) -> None:
    fields = inspector.forms["play"].fields
    fields["seed"].value, fields["steps"].value = 3, 30
    said = done(inspector, "play")
    assert 'role="alert"' not in said and f"{run.checkpoints[-1].path.name}: return" in said
    (player,) = inspector.stage.children
    inspector.other.value = run.checkpoints[0].path.name
    before = set(open_models)
    said = done(inspector, "play")
    assert said.count(": return") == 2
    assert inspector.stage.children[0] is not player
    assert len(set(open_models)) == len(before), "the player before was closed"


# --- evaluations that are kept ----------------------------------------------------------------------------------------


def test_a_torn_line_spoils_itself_alone(home: Path) -> None:
    directory = recorded.new("kept")
    meta = {"steps": 1, "updates": 5, "time_s": 2.0}
    one = checkpoints.write(directory.checkpoints, frames=9, groups={"model": {}}, meta=meta, requested=False)
    found = Evaluation("x", one.path, 9, 0, True, (1.0, 2.0), (3, 4))
    assert evaluation_log.kept(directory) == []
    evaluation_log.keep(directory, one, found)
    with open(directory.path / evaluation_log.FILE, "ab") as file:
        file.write(b'\n{"evaluation": {"environ')
    evaluation_log.keep(directory, one, found)
    kept = evaluation_log.kept(directory)
    assert [other.evaluation for other in kept] == [found, found] and kept[0].updates == 5
    shutil.rmtree(one.path)
    later = checkpoints.write(directory.checkpoints, frames=9, groups={"model": {}}, meta=meta, requested=False)
    assert not kept[0].of(later), "it is another checkpoint of the same name"
    assert (directory.path / evaluation_log.FILE).stat().st_mode & 0o777 == 0o600
    assert json.loads((directory.path / evaluation_log.FILE).read_bytes().splitlines()[1])["evaluation"]["seed"] == 0
