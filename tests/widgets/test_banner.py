"""The banner of a run whose return has collapsed: what it says, rescues, hides, and leaves in a saved picture."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import eventually
from tests.widgets import recorded
from tests.written_checkpoints import save
from workbench import checkpoints
from workbench.rundir import RunDirectory
from workbench.running.connection import stored_status
from workbench.running.handle import Run, attach
from workbench.widgets.charts import static_render
from workbench.widgets.inspector.inspector import CheckpointInspector
from workbench.widgets.panel import dashboard
from workbench.widgets.panel.banner import Banner
from workbench.widgets.panel.panel import RunPanel

COLLAPSED = {"judged_by": "episode_return", "episode_return": 9.0, "episodes_in_mean": 100, "best_mean": 500.0,
             "best_mean_frames": 2_380_000, "collapsed": True, "frames": 4_000_000}


def judged(directory: RunDirectory, frames: int, mean: float) -> None:
    save(directory.checkpoints, frames, judged={"by": "episode_return", "mean": mean, "episodes": 100},
         episode_return=mean)


class Rescued(Run):
    """A run that is rescued by another one on disk, without processes."""

    failing = False

    def rescue(self, **_: Any) -> Run:
        if self.failing:
            raise OSError("no room on the disk")
        recorded.vtrace("pong-fork-1")
        return attach("pong-fork-1")


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDirectory:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    directory = recorded.vtrace("pong")
    for frames, mean in ((1_000_000, 300.0), (2_379_000, 498.0), (4_000_000, 9.0)):
        judged(directory, frames, mean)
    return directory


@pytest.fixture
def panel(directory: RunDirectory) -> Iterator[RunPanel]:
    shown = RunPanel(Rescued(directory))
    yield shown
    shown.close()


def text(banner: Banner) -> str:
    return str(banner._text.value)


def test_the_banner_is_there_from_the_collapse_on_and_names_the_best_checkpoint(
    panel: RunPanel, directory: RunDirectory
) -> None:
    banner = panel.parts.banner
    assert banner.view.layout.display == "none" and banner.view.children == ()
    recorded.tell(directory, **COLLAPSED)
    panel.refresh()
    assert banner.view.layout.display == "" and not banner.rescue.disabled
    assert text(banner).startswith(
        "Mean return 9, 98 % below its best of 500 at 2.38 M frames. Its best checkpoint is ")
    assert "at 2.379 M frames (mean return 498 of 100 episodes). Fork it with half the learning rate?" in text(banner)
    recorded.tell(directory, **COLLAPSED | {"collapsed": False})
    panel.refresh()
    assert banner.view.layout.display == "none"


def test_nothing_is_rescued_with_a_checkpoint_from_after_the_collapse(
    panel: RunPanel, directory: RunDirectory
) -> None:
    for path in sorted(directory.checkpoints.iterdir())[:2]:
        shutil.rmtree(path)
    recorded.tell(directory, **COLLAPSED, first_mean=8.0)
    panel.refresh()
    assert not checkpoints.is_collapsed(checkpoints.every(directory.checkpoints)[0],
                                        replace(stored_status(directory), best_mean_frames=5_000_000)), "it came before"
    assert panel.parts.banner.rescue.disabled
    assert "no checkpoint from before: a new run has to learn it again" in text(panel.parts.banner)


def test_what_is_dismissed_comes_back_with_the_next_collapse(panel: RunPanel, directory: RunDirectory) -> None:
    banner = panel.parts.banner
    recorded.tell(directory, **COLLAPSED)
    panel.refresh()
    banner.dismiss.click()
    panel.refresh()
    assert banner.view.layout.display == "none"
    for collapsed in (False, True):
        recorded.tell(directory, **COLLAPSED | {"collapsed": collapsed})
        panel.refresh()
    assert banner.view.layout.display == ""


def test_one_click_rescues_the_run_and_shows_both_in_one_chart(panel: RunPanel, directory: RunDirectory) -> None:
    banner = panel.parts.banner
    recorded.tell(directory, **COLLAPSED)
    panel.refresh()
    banner.rescue.click()
    eventually(lambda: banner._place.children)
    assert "pong-fork-1 goes on from 2.379 M frames with half the learning rate" in banner._result.value
    assert "wb.attach(&#x27;pong-fork-1&#x27;)" in banner._result.value and banner.rescue.disabled
    chart = banner._place.children[0].children[0]
    assert "pong" in str(chart.figures["comparison"].tables["curves"]["run"])
    assert set(chart.figures["comparison"].tables["curves"]["run"]) == {"pong", "pong-fork-1"}
    drawn = chart.figures["comparison"]
    banner._follow()
    assert chart.figures["comparison"] is not drawn and chart.figures["comparison"].chart is drawn.chart
    banner.dismiss.click()
    assert banner._place.children == () and banner.view.layout.display == "none"


def test_a_rescue_that_was_dismissed_says_nothing_more_and_blocks_no_other(
    panel: RunPanel, directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = SimpleNamespace(series=lambda name: {"value": []})
    monkeypatch.setattr("workbench.widgets.panel.banner.MetricsReader", lambda path: nothing)
    panel_banner = panel.parts.banner
    recorded.tell(directory, **COLLAPSED)
    panel.refresh()
    panel_banner.rescue.click()
    eventually(lambda: panel_banner._rescued is not None and not panel_banner._starting)
    panel_banner.dismiss.click()
    eventually(lambda: not panel_banner._actions._working)
    assert panel_banner._result.value == "" and not panel_banner._starting


def test_a_rescue_that_fails_says_why_and_can_be_tried_again(panel: RunPanel, directory: RunDirectory) -> None:
    banner = panel.parts.banner
    recorded.tell(directory, **COLLAPSED)
    panel.refresh()
    panel._run.failing = True
    banner.rescue.click()
    eventually(lambda: "no room on the disk" in banner._result.value)
    eventually(lambda: not banner._starting)
    panel.refresh()
    assert not banner.rescue.disabled


def test_a_run_without_a_checkpoint_has_nothing_to_rescue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    directory = recorded.vtrace("bare")
    recorded.tell(directory, **COLLAPSED)
    panel = RunPanel(Run(directory))
    assert panel.parts.banner.rescue.disabled and "There is no checkpoint" in text(panel.parts.banner)
    panel.close()


def test_a_run_that_ended_after_a_collapse_has_a_button_that_rescues_it(
    panel: RunPanel, directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, kept = panel.parts.next_steps, []
    recorded.tell(directory, state="stopped", **COLLAPSED | {"collapsed": False})
    panel.refresh()
    assert steps.view.layout.display == "" and steps.all["rescue-run"].layout.display == "none"
    recorded.tell(directory, state="stopped", **COLLAPSED)
    panel.refresh()
    assert steps.all["rescue-run"].layout.display == ""
    monkeypatch.setattr(Run, "rescue", lambda _, **fields: kept.append(fields) or Rescued.rescue(panel._run))
    steps.all["rescue-run"].click()
    eventually(lambda: "wb.compare([&#x27;pong&#x27;, &#x27;pong-fork-1&#x27;])" in steps.notes.view.value)
    assert kept == [{"progress": False}]


def test_a_saved_picture_has_the_line_to_copy(directory: RunDirectory) -> None:
    assert "rescue" not in static_render.page(dashboard.read(directory), "")
    recorded.tell(directory, **COLLAPSED)
    page = static_render.page(dashboard.read(directory), "")
    assert "98 % below its best of 500 at 2.38 M frames" in page
    assert "wb.attach(&#x27;pong&#x27;).rescue()</code>" in page
    assert "98 % below its best" in static_render.text(dashboard.read(directory))


def test_the_inspector_marks_the_best_checkpoint(directory: RunDirectory) -> None:
    inspector = CheckpointInspector(Run(directory))
    notes = {row["name"]: row.get("note") for row in inspector.table.rows}
    assert notes == {"000004000000": None, "000002379000": "the best of the run: mean return 498 of 100 episodes",
                     "000001000000": None}
    best = inspector.charts.figures["timeline"].tables["best"]
    assert best["x"].tolist() == [2_379_000] and best["value"].tolist() == [498]
    inspector.close()
