"""The panel's buttons and controls on a run that really trains, in order of its life."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import CALM, eventually
from tests.widgets.conftest import log
from workbench.running.handle import Run, attach
from workbench.running.launch import launch
from workbench.widgets.panel.panel import RunPanel


@pytest.fixture(scope="module")
def run(module_home: Path) -> Run:
    fields = {**CALM, "actors": 1, "warmup_updates": 0}
    return launch("testing/counting-v0", name="steered", total_frames=10**9, progress=False, **fields)


@pytest.fixture(scope="module")
def panel(run: Run) -> Iterator[RunPanel]:
    shown = RunPanel(run)
    yield shown
    shown.close()


def test_the_panel_follows_the_run(panel: RunPanel, run: Run) -> None:
    run.wait(updates=3, timeout_s=240, progress=False)
    panel.parts.charts._handle_custom_msg({"type": "hello"}, [])
    eventually(lambda: (panel.parts.actor_table.view.rows[0]["steps_per_second"] or 0) > 0)
    assert panel.tick()
    assert "training" in panel.parts.headline.value
    assert "frames/s" in panel.parts.facts.value and "steps/s" in panel.parts.facts.value
    assert "memory of the learner (cpu)" in panel.parts.facts.value


def test_pause_and_resume_act_on_the_run(panel: RunPanel, run: Run) -> None:
    panel.buttons["pause"].click()
    eventually(lambda: run.status.state == "paused", what="paused")
    eventually(lambda: not panel.buttons["resume"].disabled and panel.buttons["pause"].disabled)
    panel.buttons["resume"].click()
    eventually(lambda: run.status.state == "training", what="training again")


def test_a_slider_changes_the_run_once_it_is_let_go(panel: RunPanel, run: Run) -> None:
    panel.controls["learning_rate"].slider.value = 1e-3
    eventually(lambda: run.config.value("learning_rate") == 1e-3)
    eventually(lambda: "learning_rate: 0.0006 → 0.001" in log(panel))
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
    eventually(lambda: "echo_factor: 1 → 2" in log(panel))


def changed(panel: RunPanel) -> list[tuple[object, ...]]:
    return [(one.name, one.old, one.new, one.undone) for one in panel.parts.changes.all]


def test_undo_takes_changes_back_one_after_the_other_and_is_recorded(panel: RunPanel, run: Run) -> None:
    eventually(lambda: not panel.controls["learning_rate"].undo.disabled)
    panel.controls["learning_rate"].undo.click()
    eventually(lambda: run.config.value("learning_rate") == 6e-4)
    eventually(lambda: "learning_rate: 0.001 → 0.0006 (undo)" in log(panel))
    eventually(lambda: panel.controls["learning_rate"].undo.disabled)
    assert panel.controls["learning_rate"].field.value == "0.0006"
    panel.parts.changes.undo.click()  # twice at once: the second goes further back
    panel.parts.changes.undo.click()
    eventually(lambda: run.config.value("echo_factor") == 1)
    eventually(lambda: run.config.value("target_entropy") == 0.5)
    eventually(lambda: list(run.events["kind"]).count("tune") == 7)
    eventually(lambda: changed(panel)[-1] == ("target_entropy", None, 0.5, False))
    assert changed(panel)[0] == ("learning_rate", 6e-4, 1e-3, True)


def test_the_history_is_whole_in_a_panel_that_a_new_kernel_makes(panel: RunPanel, run: Run) -> None:
    another = RunPanel(attach(run.name))
    assert changed(another) == changed(panel) and len(changed(another)) == 7
    assert "returns" in another.parts.charts.figures
    another.close()


def test_the_number_of_actors_follows_its_field_and_undo(panel: RunPanel, run: Run) -> None:
    panel.controls["actors"].field.value = "2"
    eventually(lambda: [one.alive for one in run.status.actors] == [True, True])
    eventually(lambda: len(panel.parts.actor_table.view.rows) == 2)
    panel.controls["actors"].field.value = "0"
    assert "actors=0 is out of bounds" in panel.controls["actors"].message.value
    panel.parts.changes.undo.click()
    eventually(lambda: len(run.status.actors) == 1)
    eventually(lambda: panel.controls["actors"].field.value == "1")


def test_a_killed_actor_is_named_and_comes_back(panel: RunPanel, run: Run) -> None:
    before = run.status.actors[0]
    panel.parts.actor_table.view.act("0", "kill")
    eventually(lambda: "actor-0 killed on request" in list(run.events["message"]))
    eventually(lambda: run.status.actors[0].alive and run.status.actors[0].restarts == before.restarts + 1)
    eventually(lambda: panel.parts.actor_table.view.rows[0]["restarts"] == before.restarts + 1)
    assert run.status.actors[0].pid != before.pid


def test_an_actor_that_is_restarted_by_hand_is_no_failure(panel: RunPanel, run: Run) -> None:
    before, errors = run.status.actors[0], list(run.events["kind"]).count("error")
    panel.parts.actor_table.view.act("0", "restart")
    eventually(lambda: run.status.actors[0].restarts == before.restarts + 1)
    eventually(lambda: "ended; the run starts it again" in panel.parts.actor_table.view.said)
    assert list(run.events["kind"]).count("error") == errors


def test_following_a_run_takes_a_small_share_of_a_core(panel: RunPanel, run: Run) -> None:
    eventually(lambda: run.status.state == "training")
    panel.parts.charts._handle_custom_msg({"type": "hello"}, [])  # a page shows it
    ticks, started, cpu_s = [], time.monotonic(), time.process_time()
    panel.parts.progress.observe(lambda change: ticks.append(change), names="value")
    eventually(lambda: len(ticks) >= 20)
    took = time.monotonic() - started
    share = (time.process_time() - cpu_s) / took
    print(f"{len(ticks)} refreshes in {took:.1f} s took {share:.1%} of a core")
    assert share < 0.08 and took / len(ticks) > 0.45  # of all threads; ticks alone may take background.SHARE


def test_the_checkpoint_button_writes_one(panel: RunPanel, run: Run) -> None:
    def requested() -> int:
        return sum(one.requested for one in run.checkpoints)  # others are written as time passes

    before = requested()
    panel.buttons["checkpoint"].click()
    eventually(lambda: requested() == before + 1)
    eventually(lambda: re.search(r"checkpoint at [\d,.]+ (M )?frames saved", log(panel)))
    assert "Checkpoint(" not in log(panel)


def test_a_second_click_on_checkpoint_writes_no_second_one(panel: RunPanel, run: Run) -> None:
    run.wait(updates=run.status.updates + 2, timeout_s=240, progress=False)
    run.pause()
    before = {one.path for one in run.checkpoints if one.requested}
    button = panel.buttons["checkpoint"]
    eventually(lambda: not button.disabled)
    for _ in range(3):
        button.click()
    assert button.disabled, "one is being written"
    eventually(lambda: not button.disabled)
    eventually(lambda: "checkpoint …" not in log(panel))
    assert len({one.path for one in run.checkpoints if one.requested} - before) == 1
    run.resume()


def test_a_panel_of_a_paused_run_keeps_its_lines_and_says_that_nothing_works(panel: RunPanel, run: Run) -> None:
    panel.parts.charts._handle_custom_msg({"type": "hello"}, [])
    eventually(lambda: "<b>—</b><span>frames/s" not in panel.parts.facts.value)
    names = re.findall("<span>([^<(]+)", panel.parts.facts.value)
    run.pause()
    eventually(lambda: "paused" in panel.refresh(draw=True).status.state)
    assert re.findall("<span>([^<(]+)", panel.parts.facts.value) == names
    assert "<b>—</b><span>frames/s" in panel.parts.facts.value and "<b>0</b>" not in panel.parts.facts.value
    assert "the run is paused" in str(panel.parts.charts.figures["bottleneck"].spec())
    row = panel.parts.actor_table.view.rows[0]
    assert (row["state"], row["steps_per_second"], row["frames_per_second"]) == ("paused", None, None)
    run.resume()


def test_stop_ends_the_run_and_the_panel_becomes_a_picture(panel: RunPanel, run: Run) -> None:
    panel.buttons["stop"].click()
    assert run.status.state == "training"
    panel.buttons["confirm"].click()
    eventually(lambda: run.status.state == "stopped", what="stopped")
    eventually(lambda: not panel.tick(), what="frozen")
    assert all(button.disabled for button in panel.buttons.values() if button.description != "Go on")
    bundle = panel._repr_mimebundle_()
    assert set(bundle) == {"text/html", "image/png", "text/plain"}
    for line in ("wb.resume", "wb.evaluate", "wb.play", "wb.attach(&#x27;steered&#x27;).fork()"):
        assert line in bundle["text/html"]
    assert not re.search(r"\b0 (frames|steps)/s", bundle["text/html"] + bundle["text/plain"])


def test_a_run_that_has_ended_is_evaluated_forked_and_resumed_by_buttons(panel: RunPanel, run: Run) -> None:
    steps = panel.parts.next_steps
    assert steps.view.layout.display == "" and panel.parts.buttons.view.layout.display != "none"
    steps.all["evaluate"].click()
    assert steps.all["evaluate"].disabled
    eventually(lambda: "in 10 episodes at" in steps.notes.view.value)
    steps.all["fork"].click()
    eventually(lambda: "steered-fork-1 trains" in steps.notes.view.value)
    attach("steered-fork-1").stop()
    steps.all["resume-run"].click()
    eventually(lambda: run.status.state == "training", what="training again")
    panel.refresh()
    assert steps.view.layout.display == "none"
    run.stop()
