"""The panel on a real metrics database, filled by the writer that a learner uses."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.widgets import recorded
from workbench import rundir
from workbench.client.run import Run
from workbench.config import RunConfig
from workbench.rundir import RunDirectory
from workbench.supervisor import lock
from workbench.widgets import charts, picture, snapshot
from workbench.widgets.background import Actions, Refresher
from workbench.widgets.panel import RunPanel


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDirectory:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    return recorded.vtrace("pong")


@pytest.fixture
def panel(directory: RunDirectory) -> Iterator[RunPanel]:
    shown = RunPanel(Run(directory))
    yield shown
    shown.close()


def until(condition: Callable[[], Any], timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


@pytest.mark.parametrize("algorithm", ["vtrace", "r2d2"])
def test_every_live_field_has_a_control_with_the_value_in_force(
    algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    directory = recorded.new("one", algorithm, learning_rate=2e-3)
    panel = RunPanel(Run(directory))
    assert panel.controls.keys() == {name for name, one in directory.config().all_settings().items() if one.live}
    assert panel.controls["learning_rate"].field.value == "0.002"
    assert ("save_replay" in panel.controls) == (algorithm == "r2d2")
    panel.close()


def test_a_value_out_of_bounds_is_refused_in_words_under_its_control(panel: RunPanel) -> None:
    control = panel.controls["learning_rate"]
    control.field.value = "7"
    assert "learning_rate=7.0 is out of bounds: it must lie in [0, 1]" in control.message.value
    assert control.message.layout.display == ""
    assert control.field.value == "0.0006"


def test_what_is_no_number_is_refused_in_words(panel: RunPanel) -> None:
    control = panel.controls["learning_rate"]
    control.field.value = "fast"
    assert "is not a number" in control.message.value


def test_a_dead_run_says_so_under_the_control_and_how_to_continue(panel: RunPanel) -> None:
    control = panel.controls["learning_rate"]
    control.slider.value = 1e-3
    until(lambda: control.message.value and "wb.resume" in control.message.value)
    assert control.slider.value == pytest.approx(6e-4)
    assert "dead" in panel.headline.value
    assert panel.buttons["pause"].disabled and panel.buttons["stop"].disabled


def test_a_button_shows_the_error_it_meets(panel: RunPanel) -> None:
    panel.buttons["checkpoint"].disabled = False
    panel.buttons["checkpoint"].click()
    until(lambda: "alert" in panel.log.value)
    assert "is dead" in panel.log.value


def test_stop_asks_once_before_it_acts(panel: RunPanel) -> None:
    assert panel.buttons["confirm"].layout.display == "none"
    panel.buttons["stop"].click()
    assert panel.buttons["confirm"].layout.display == ""
    panel.buttons["cancel"].click()
    assert panel.buttons["confirm"].layout.display == "none"
    assert panel.log.value == ""


def test_a_checkbox_asks_the_run_and_goes_back_where_it_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    shown = RunPanel(Run(recorded.r2d2("pong")))
    control = shown.controls["save_replay"]
    control.field.value = True
    until(lambda: control.message.value and "wb.resume" in control.message.value)
    assert control.field.value is False
    shown.close()


def test_controls_follow_changes_made_elsewhere(panel: RunPanel, directory: RunDirectory) -> None:
    directory.write(config=directory.config().with_live(learning_rate=1e-3).to_json())
    panel.refresh()
    assert panel.controls["learning_rate"].field.value == "0.001"
    assert panel.controls["learning_rate"].slider.value == pytest.approx(1e-3)


def test_the_state_is_said_in_plain_words(directory: RunDirectory) -> None:
    with lock.held(lock.of_supervisor(directory), wait_s=1.0) as held:
        assert held
        now = snapshot.read(directory)
        assert now.status.state == "training"
        assert snapshot.reason(now) == "training 80% of the time"
        said = snapshot.sentence(now)
    for part in ("307,200 of 10 M frames (3.1%)", "5,000 frames/s, 1,250 steps/s", "120 episodes", "mean return -20",
                 "policy lag 1.4 updates", "about 32 min left"):
        assert part in said


def test_the_static_picture_loads_nothing_from_anywhere(panel: RunPanel) -> None:
    bundle = panel._repr_mimebundle_()
    assert bundle["application/vnd.jupyter.widget-view+json"]["model_id"] == panel.view.model_id
    assert base64.b64decode(bundle["image/png"]).startswith(b"\x89PNG")
    page = bundle["text/html"]
    assert "<script" not in page and "http" not in page and "<link" not in page
    assert re.search(r'<img alt="Charts of pong: [^"]+" style="[^"]+" src="data:image/png;base64,', page)
    assert "learning_rate 0.0006 → 0.0003" in page
    assert bundle["text/plain"].startswith("pong: dead")
    json.dumps(bundle)


def test_a_run_without_metrics_has_a_picture_of_its_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    empty = rundir.create("new", {"created": time.time(), "config": RunConfig.build("CartPole-v1").to_json(),
                                  "state": "starting", "error": None})
    bundle = picture.bundle(snapshot.read(empty))
    assert "image/png" not in bundle and "CartPole-v1" in bundle["text/html"]


def test_a_frozen_panel_is_a_picture_and_nothing_else(panel: RunPanel) -> None:
    panel.freeze()
    bundle = panel._repr_mimebundle_()
    assert set(bundle) == {"text/html", "image/png", "text/plain"}
    assert not panel.tick()


def test_charts_are_drawn_in_the_notebooks_own_text_colour(panel: RunPanel) -> None:
    panel.refresh(draw=True)
    drawn = panel.charts.value
    assert drawn.startswith("<svg") and "currentColor" in drawn
    assert "Episode return" in drawn and "Policy lag" in drawn and "Where the time goes" in drawn
    assert 'aria-label="' in drawn


def test_charts_thin_long_series_and_keep_their_mean() -> None:
    import numpy as np
    import pandas as pd

    long = pd.DataFrame({"frames": np.arange(100_000.0), "value": np.sin(np.arange(100_000.0))})
    assert len(charts.thinned(long)) == charts.POINTS
    assert charts.thinned(long)["value"].mean() == pytest.approx(long["value"].mean(), abs=1e-3)
    sampled = charts.sampled(long)
    assert len(sampled) == charts.POINTS and sampled["frames"].iloc[[0, -1]].tolist() == [0.0, 99_999.0]


def test_one_thread_refreshes_all_panels_and_ends_with_the_last() -> None:
    class Shown:
        def __init__(self, lives: int) -> None:
            self.lives = lives

        def tick(self) -> bool:
            self.lives -= 1
            return self.lives > 0

    refresher = Refresher(period_s=0.01)
    shown = [Shown(2), Shown(5)]
    for one in shown:
        refresher.add(one)
    until(lambda: not refresher.running)
    assert [one.lives for one in shown] == [0, 0]


def test_actions_are_done_in_order_and_one_at_a_time() -> None:
    actions, done = Actions(), []
    for number in range(50):
        actions.submit(lambda number=number: done.append(number))
    until(lambda: len(done) == 50)
    assert done == list(range(50))
