"""The panel's buttons and controls on a run that really trains, in order of its life."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import SMALL, eventually
from workbench.client.run import Run
from workbench.client.start import launch
from workbench.widgets.panel import RunPanel


@pytest.fixture(scope="module")
def run(module_home: Path) -> Run:
    return launch("CartPole-v1", name="steered", total_frames=10**9, progress=False, **{**SMALL, "actors": 1})


@pytest.fixture(scope="module")
def panel(run: Run) -> Iterator[RunPanel]:
    shown = RunPanel(run)
    yield shown
    shown.close()


def test_the_panel_follows_the_run(panel: RunPanel, run: Run) -> None:
    run.wait(updates=3, timeout_s=60, progress=False)
    assert panel.tick()
    assert "training" in panel.headline.value
    assert "frames/s" in panel.sentence.value and "steps/s" in panel.sentence.value


def test_pause_and_resume_act_on_the_run(panel: RunPanel, run: Run) -> None:
    panel.buttons["pause"].click()
    eventually(lambda: run.status.state == "paused", what="paused")
    eventually(lambda: not panel.buttons["resume"].disabled and panel.buttons["pause"].disabled)
    panel.buttons["resume"].click()
    eventually(lambda: run.status.state == "training", what="training again")


def test_a_slider_changes_the_run_once_it_is_let_go(panel: RunPanel, run: Run) -> None:
    panel.controls["learning_rate"].slider.value = 1e-3
    eventually(lambda: run.config.value("learning_rate") == 1e-3)
    eventually(lambda: "learning_rate: 0.0006 → 0.001" in panel.log.value)
    assert panel.controls["learning_rate"].field.value == "0.001"
    assert "tune" in list(run.events["kind"])


def test_a_typed_value_changes_the_run(panel: RunPanel, run: Run) -> None:
    panel.controls["target_entropy"].field.value = "0.5"
    eventually(lambda: run.config.value("target_entropy") == 0.5)
    panel.controls["target_entropy"].field.value = "none"
    eventually(lambda: run.config.value("target_entropy") is None)


def test_a_slider_of_integers_changes_the_run(panel: RunPanel, run: Run) -> None:
    panel.controls["echo_factor"].slider.value = 2
    eventually(lambda: run.config.value("echo_factor") == 2)
    eventually(lambda: "echo_factor: 1 → 2" in panel.log.value)


def test_the_checkpoint_button_writes_one(panel: RunPanel, run: Run) -> None:
    before = len(run.checkpoints)
    panel.buttons["checkpoint"].click()
    eventually(lambda: len(run.checkpoints) == before + 1)
    eventually(lambda: "Checkpoint(" in panel.log.value)


def test_stop_ends_the_run_and_the_panel_becomes_a_picture(panel: RunPanel, run: Run) -> None:
    panel.buttons["stop"].click()
    assert run.status.state == "training"
    panel.buttons["confirm"].click()
    eventually(lambda: run.status.state == "stopped", what="stopped")
    eventually(lambda: not panel.tick(), what="frozen")
    assert set(panel._repr_mimebundle_()) == {"text/html", "image/png", "text/plain"}
