"""A panel in the cell that shows it: followed while a page shows it, a picture once the run has ended."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from ipywidgets import Output, Widget
from ipywidgets.widgets.widget import _instances as open_models

from tests.conftest import eventually
from tests.widgets import recorded
from tests.widgets.conftest import log
from workbench import imports
from workbench.errors import StorageFailed
from workbench.metrics import MetricsWriter
from workbench.rundir import RunDirectory, lock
from workbench.running.handle import Run
from workbench.widgets.charts import static_render
from workbench.widgets.kernel import onlookers
from workbench.widgets.panel import panel as panels
from workbench.widgets.panel.panel import RunPanel

WIDGET = "application/vnd.jupyter.widget-view+json"


def test_a_panel_is_followed_while_its_cell_runs_and_then_while_a_page_shows_it(
    alive: None, panel: RunPanel, cell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onlookers, "UNSEEN_S", 0.0)
    with cell.display_trap:  # a cell runs
        panel._ipython_display_()
        assert panel.tick()
    assert not panel.tick(), "nobody said that the panel is shown"
    monkeypatch.undo()
    panel.parts.charts._handle_custom_msg({"type": "seen"}, [])
    assert panel.tick()
    panel._onlookers._seen_at -= 61.0
    assert not panel.tick(), "the page has gone without a word"


def test_a_page_that_shows_up_gets_all_that_is_new_at_once(
    alive: None, panel: RunPanel, directory: RunDirectory
) -> None:
    directory.write(config=directory.config().with_live(learning_rate=1e-3).to_json())
    writer = MetricsWriter(directory.metrics)
    writer.scalars(recorded.at(recorded.UPDATES + 1), {"frames_per_second": 7000.0})
    writer.status({**recorded.STATUS, "frames": 400_000})
    writer.close()
    panel.parts.charts._handle_custom_msg({"type": "hello"}, [])
    eventually(lambda: "400,000 of 10 M" in panel.parts.progress.value)
    eventually(lambda: panel.controls["learning_rate"].field.value == "0.001")
    eventually(lambda: any(7000.0 in column for table in panel.parts.charts.figures["speed"].tables.values()
                      for column in table.values()))


def test_a_pull_refreshes_in_its_own_thread_and_in_colab_sends_every_widget(
    alive: None, panel: RunPanel, directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded.tell(directory, frames=500_000)
    sent: list[str] = []
    monkeypatch.setattr(Widget, "send_state", lambda widget, key=None: sent.append(widget.model_id))
    panels_pull = panel.parts.charts.on_pull
    assert panels_pull is not None
    panels_pull()
    assert "500,000" not in panel.parts.progress.value, "it was refreshed a moment ago"
    monkeypatch.setitem(sys.modules, "google.colab", sys)
    panels_pull()
    assert "500,000 of 10 M" in panel.parts.progress.value
    assert {panel.parts.headline.model_id, panel.buttons["pause"].model_id} <= set(sent)


def test_a_run_that_ends_leaves_a_picture_and_comes_back_when_it_is_resumed(
    panel: RunPanel, directory: RunDirectory, cell: InteractiveShell
) -> None:
    outputs = cell.display_pub.outputs
    with lock.held(lock.of_supervisor(directory), wait_s=1.0):
        panel._ipython_display_()
        assert WIDGET in outputs[0]["data"] and "image/png" not in outputs[0]["data"]
        live = outputs[0]["transient"]["display_id"]
    eventually(lambda: last(outputs, live).keys() >= {"text/html", "image/png"})
    assert WIDGET not in last(outputs, live)
    with lock.held(lock.of_supervisor(directory), wait_s=1.0):
        eventually(lambda: last(outputs, live)[WIDGET]["model_id"] == panel.view.model_id
              if WIDGET in last(outputs, live) else False)
        assert panel.tick()


def test_a_panel_within_another_view_shows_the_end_in_its_widgets_and_comes_back(
    panel: RunPanel, directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(static_render, "bundle", lambda now: drawn.append(now) or {"text/html": "", "text/plain": ""})
    monkeypatch.setattr(panels, "END_PERIOD_S", 0.1)
    panel._end_task = panels._PeriodicTask(panel._check_end, 0.1)
    with lock.held(lock.of_supervisor(directory), wait_s=1.0):
        panel.parts.charts._handle_custom_msg({"type": "hello"}, [])
        eventually(lambda: "training" in panel.parts.headline.value)
        assert panel.tick()
    eventually(lambda: "dead" in panel.parts.headline.value and not panel.tick())
    with lock.held(lock.of_supervisor(directory), wait_s=1.0):
        eventually(lambda: "training" in panel.parts.headline.value)
        assert panel.tick()
    assert not drawn, "nobody looks at that picture"


def test_the_check_for_the_end_outlives_everything_but_the_run(
    panel: RunPanel, directory: RunDirectory, cell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(error: Exception) -> Callable[..., Any]:
        def fail(*_: Any, **__: Any) -> Any:
            raise error

        return fail

    panel._end_task = panels._PeriodicTask(lambda: False, 60.0)  # only this test checks the end
    panel._ipython_display_()
    eventually(lambda: panel._resting)
    with lock.held(lock.of_supervisor(directory), wait_s=1.0):
        for error in (StorageFailed("the disk went away"), RuntimeError("no picture")):
            with monkeypatch.context() as patched:
                patched.setattr(panel.parts, "draw", failing(error))
                assert panel._check_end(), "it tries again"
                assert str(error) in log(panel)
                assert WIDGET not in panel._repr_mimebundle_(), "it is still the picture"
        assert panel._check_end() and WIDGET in panel._repr_mimebundle_()
    directory.path.rename(directory.path.with_name("elsewhere"))
    assert not panel._check_end()


def test_a_run_shows_one_and_the_same_panel_wherever_it_stands(directory: RunDirectory, cell: InteractiveShell) -> None:
    run = Run(directory)
    run._ipython_display_()
    models, live = len(open_models), [one["data"] for one in cell.display_pub.outputs if WIDGET in one["data"]]
    run._ipython_display_()
    assert len(open_models) == models
    eventually(lambda: run._panel._picture)
    run._panel.close()
    with lock.held(lock.of_supervisor(directory), wait_s=1.0):
        run._ipython_display_()
    shown = [one["data"] for one in cell.display_pub.outputs if WIDGET in one["data"]]
    assert shown[-1][WIDGET] != live[0][WIDGET], "one that was closed is made anew"
    run._panel.close()


def last(outputs: list[Any], display_id: str) -> Any:
    """What stands there now."""
    return [one["data"] for one in outputs if one["transient"]["display_id"] == display_id][-1]


def test_a_cell_shows_the_runs_name_at_once_and_the_panel_in_its_place(
    alive: None, directory: RunDirectory, cell: InteractiveShell
) -> None:
    cell.kernel = object()  # type: ignore[attr-defined]  # as in a notebook
    run = Run(directory)
    run._ipython_display_()
    first, *later = [(one["transient"]["display_id"], one["data"]) for one in cell.display_pub.outputs]
    assert "pong" in first[1]["text/html"] and "reading…" in first[1]["text/html"] and WIDGET not in first[1]
    places = {place for place, _ in later}
    assert WIDGET in last(cell.display_pub.outputs, first[0]) and len(places) == 2, "the panel and the picture"
    run._panel.close()


def test_an_output_widget_gets_no_placeholder_since_it_takes_no_updates(cell: InteractiveShell) -> None:
    cell.kernel = object()  # type: ignore[attr-defined]
    with closing(Output()) as captured:
        captured.msg_id = "that of the cell"
        with imports.meanwhile("evaluating…"):
            assert cell.display_pub.outputs == []


def test_a_placeholder_without_a_view_leaves_nothing(cell: InteractiveShell) -> None:
    cell.kernel = object()  # type: ignore[attr-defined]
    with imports.meanwhile("evaluating…"):
        assert "evaluating…" in cell.display_pub.outputs[0]["data"]["text/html"]
    assert cell.display_pub.outputs[-1]["data"] == {"text/html": "", "text/plain": ""}
