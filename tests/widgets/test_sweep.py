"""The view of a sweep, on a study written by hand and recorded runs; its charts are drawn by Vega itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import vl_convert

from tests.conftest import eventually
from tests.widgets import swept
from tests.widgets.swept import SPACE
from workbench.running.handle import Run
from workbench.sweeping.sweep_handle import Sweep
from workbench.sweeping.sweep_status import SweepStatus
from workbench.widgets.charts import sweep_chart
from workbench.widgets.views.sweep_view import SweepView


@pytest.fixture
def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sweep:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    return swept.by_hand()


def test_the_table_shows_every_trial_and_marks_the_best(sweep: Sweep) -> None:
    rows = {row["key"]: row for row in SweepView(sweep).table.rows}
    assert list(rows) == [f"mine-{at}" for at in range(6)]
    assert [row["mark"] for row in rows.values()] == ["", "★", "", "", "", ""]
    states = ["finished", "finished", "pruned", "failed", "finished", "open"]
    assert [row["state"] for row in rows.values()] == states
    assert rows["mine-1"]["learning_rate"] == 1e-2 and rows["mine-1"]["network"] == "mlp-lstm"
    assert rows["mine-2"]["curve"] == [[1.0, 10.0], [2.0, 15.0]]
    assert rows["mine-3"]["said"] == "<b>late</b>" and rows["mine-5"]["actions"] == ["show"]  # it does not live


def test_the_lines_meet_each_axis_where_the_value_is(sweep: Sweep) -> None:
    figure = SweepView(sweep).charts.figures["parallel"]
    table = figure.tables["trials"]
    cells = {(int(trial), axis): place for trial, axis, place in
             zip(table["trial"], table["axis"], table["place"], strict=True)}  # fmt: skip
    assert cells[(1, "learning_rate")] == pytest.approx(0.75) and cells[(1, "batch_size")] == pytest.approx(28 / 60)
    assert cells[(1, "network")] == 1.0 and cells[(1, "episode_return")] == 1.0
    kinds = dict(zip(table["trial"].tolist(), table["kind"], strict=True))  # type: ignore[union-attr]
    assert kinds[1] == "best" and kinds[0] == "finished" and kinds[2] == sweep_chart.KINDS[2]


@pytest.mark.parametrize("key", ["parallel", "importance", "history"])
def test_vega_draws_every_chart(sweep: Sweep, key: str) -> None:
    figure = SweepView(sweep).charts.figures[key]
    svg = vl_convert.vegalite_to_svg(figure.altair().to_dict())
    expected = {"parallel": ["learning_rate", "mlp-lstm", "episode_return"], "importance": ["batch_size", "%"],
                "history": ["trial"]}[key]  # fmt: skip
    assert all(text in svg for text in expected)


def test_charts_stay_the_same_while_only_their_data_changes(sweep: Sweep) -> None:
    view = SweepView(sweep)
    before = {key: id(one.chart) for key, one in view.charts.figures.items()}
    view.refresh()
    assert {key: id(one.chart) for key, one in view.charts.figures.items()} == before


def test_without_values_the_charts_say_what_they_wait_for() -> None:
    shown = sweep_chart.figures([], {}, SPACE, metric="episode_return", goal="max")
    for key, why in (("parallel", "no run has a value"), ("importance", "from 4 trials on"), ("history", "no run has")):
        assert why in " ".join(str(shown[key].spec()).split()).replace("', '", " ")


def test_a_saved_notebook_keeps_pictures_and_the_best_trials(sweep: Sweep) -> None:
    bundle = SweepView(sweep).still()
    assert set(bundle) == {"text/html", "image/png", "text/plain"}
    assert bundle["text/html"].count("<img") == 3
    cells = re.findall(r"<td[^>]*>(.*?)</td>", bundle["text/html"])
    assert cells[:7] == ["mine-1", "finished", "300", cells[3], "0.01", "32", "mlp-lstm"] and cells[7] == "mine-4"
    assert "<script" not in bundle["text/html"] and "<b>late</b>" not in bundle["text/html"]
    assert bundle["text/plain"].startswith("SweepStatus(mine: stopped, 5 of 20 trials")


def test_the_best_run_is_one_click_away(sweep: Sweep) -> None:
    view = SweepView(sweep)
    view._buttons["best"].click()
    eventually(lambda: view.panel and view._place.children == (view.panel.view,))
    assert eventually(lambda: view.table.rows[1]["actions"] == ["hide"])
    view.table.act("mine-1", "hide")
    eventually(lambda: view.panel is None and view._place.children == ())
    view.close()


def test_a_trial_that_is_stopped_leaves_no_run_open(sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    view, closed = SweepView(sweep), []
    monkeypatch.setattr(Run, "stop", lambda run: run.status)
    monkeypatch.setattr(Run, "close", lambda run: closed.append(run.name))
    view.table.act("mine-1", "stop")
    eventually(lambda: view.table.said.startswith("mine-1: "))
    assert closed == ["mine-1"]


def test_what_a_button_cannot_do_is_said_under_the_table(sweep: Sweep) -> None:
    view = SweepView(sweep)
    view.table.act("mine-0", "show")
    assert "no run 'mine-0'" in eventually(lambda: view.table.rows[0].get("bad") and view.table.rows[0]["note"])
    assert not view._buttons["resume"].disabled and view._buttons["stop"].disabled


def test_what_can_be_done_with_a_sweep_depends_on_its_state_and_on_what_is_left() -> None:
    def of(state: str, finished: int = 2) -> tuple[str, ...]:
        return SweepStatus("mine", state, 4, 0, finished, 0, 0, "episode_return", 1.0, "mine-0", None, 1.0).possible

    assert of("running") == of("starting") == ("stop",)
    assert of("stopped") == ("resume", "delete") and of("finished", 4) == ("delete",)
    assert of("dead") == ("stop", "resume", "delete")


def test_a_sweep_that_is_gone_is_said_and_ends_nobodys_thread(sweep: Sweep) -> None:
    view = SweepView(sweep)
    (sweep.path / "sweep.json").unlink()
    for asked in (view.table, view.charts):
        view.table.say("")
        asked._handle_custom_msg({"type": "pull"}, [])
        assert view.table.said.startswith("The sweep could not be refreshed")
    view.table.say("")
    assert view.tick() and view.table.said.startswith("The sweep could not be refreshed")
