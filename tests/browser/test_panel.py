"""The panel of a real run in JupyterLab: every control, in the order of the run's life."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.driver import DARK, LIGHT, Browser, Notebook
from tests.browser.on_screen import Panel, actor_row, busy_until, end_cell, pictures, rich_outputs
from tests.conftest import CALM, eventually
from workbench.running.handle import Run, attach

LAUNCH, PANEL, BUSY = range(3)
SLOW = {**CALM, "environment_options": {"step_ms": 20.0}}
CELLS = [
    f"import workbench as wb\nrun = wb.launch('testing/catch-v0', name='seen', total_frames=10**9, **{SLOW})",
    "run = wb.attach('seen')\nrun",
    busy_until("panel-seen"),
]


@pytest.fixture(scope="module")
def notebook(open_notebook) -> Iterator[Notebook]:
    """Its run ends with this file, since it would train beside all tests that follow."""
    yield open_notebook(CELLS, run=[LAUNCH, PANEL])
    if attach("seen").status.alive:
        attach("seen").stop()


@pytest.fixture(scope="module")
def panel(notebook: Notebook) -> Panel:
    return Panel(notebook, PANEL)


@pytest.fixture(scope="module")
def run(notebook: Notebook, browser_home: Path) -> Run:
    return attach("seen")


def kinds(run: Run) -> list[str]:
    return list(run.events["kind"])


def changes_of(run: Run) -> int:
    """Fields changed so far; a tuned learning rate that ends a warm-up is two."""
    return sum(len(data["new"]) for kind, data in run.events[["kind", "data"]].itertuples(index=False)
               if kind in ("tune", "scale"))


def test_charts_move_while_the_run_trains(panel: Panel) -> None:
    panel.shows_state("training")
    panel.wait_for_charts()
    before = panel.charts()
    eventually(lambda: sum(old != new for old, new in zip(before, panel.charts(), strict=False)) >= 3,
               what="three charts that changed")


def test_progress_and_speed_are_said_in_words(panel: Panel) -> None:
    expect(panel.root).to_contain_text("frames/s")
    expect(panel.root).to_contain_text("steps/s")
    expect(panel.part("progress")).to_contain_text("of 1 G frames")


def test_pause_and_resume_act_on_the_run(panel: Panel, run: Run) -> None:
    expect(panel.part("resume")).to_be_disabled()
    panel.press("pause")
    panel.shows_state("paused")
    assert run.state == "paused" and "pause" in kinds(run)
    expect(panel.part("pause")).to_be_disabled()
    panel.press("resume")
    panel.shows_state("training")
    assert run.state == "training" and "resume" in kinds(run)


@pytest.mark.full
def test_checkpoint_now_writes_one(panel: Panel, run: Run) -> None:
    def requested() -> int:
        return sum(one.requested for one in run.checkpoints)  # others are written as time passes

    before = requested()
    panel.press("checkpoint")
    expect(panel.part("log")).to_contain_text("frames saved")
    expect(panel.part("log")).not_to_contain_text("Checkpoint(")
    assert requested() == before + 1


def test_nothing_moves_while_the_run_pauses_and_commands_answer(panel: Panel, run: Run) -> None:
    def top() -> float:
        charts, root = panel.part("charts-place").bounding_box(), panel.root.bounding_box()
        assert charts and root
        return round(charts["y"] - root["y"])

    before = top()
    for button, state in (("pause", "paused"), ("resume", "training")):
        panel.press(button)
        panel.shows_state(state)
        assert top() == before, state
    panel.press("checkpoint")
    expect(panel.part("log")).to_contain_text("frames saved")
    assert top() == before


def test_a_typed_value_changes_the_run_and_undo_takes_it_back(panel: Panel, run: Run) -> None:
    panel.unfold("hyperparameters")
    panel.type("learning_rate", "2e-4")
    eventually(lambda: run.config.value("learning_rate") == 2e-4, what="tuned")
    panel.press("undo-learning_rate")
    eventually(lambda: run.config.value("learning_rate") == 6e-4, what="undone")
    expect(panel.field("learning_rate")).to_have_value("0.0006")
    eventually(lambda: kinds(run).count("tune") == 2, what="both are recorded")


@pytest.mark.full
def test_a_slider_changes_the_run(panel: Panel, run: Run) -> None:
    panel.unfold("hyperparameters")
    panel.slide("learning_rate", 0.7)
    eventually(lambda: run.config.value("learning_rate") > 6e-4, what="tuned by the slider")
    shown = f"{run.config.value('learning_rate'):g}"
    expect(panel.field("learning_rate")).to_have_value(shown)


@pytest.mark.full
def test_a_slider_shows_its_value_while_it_is_dragged_and_changes_nothing_before(panel: Panel, run: Run) -> None:
    panel.unfold("hyperparameters")
    slider, mouse, before = panel.part("slider-learning_rate"), panel.notebook.page.mouse, changes_of(run)
    rate, readout = run.config.value("learning_rate"), slider.locator(".widget-readout")
    expect(slider).to_contain_text("…")
    expect(readout).to_be_hidden()
    slider.scroll_into_view_if_needed()
    handle = slider.locator(".noUi-touch-area").bounding_box()
    assert handle is not None
    x, y = handle["x"] + handle["width"] / 2, handle["y"] + handle["height"] / 2
    mouse.move(x, y)
    mouse.down()
    mouse.move(x - 25, y, steps=5)
    expect(readout).to_be_visible()
    shown = float(readout.inner_text())
    assert rate / 4 < shown < rate and changes_of(run) == before
    mouse.up()
    eventually(lambda: run.config.value("learning_rate") == pytest.approx(shown, rel=0.01), what="tuned at the end")
    expect(readout).to_be_hidden()
    panel.press("undo-learning_rate")
    eventually(lambda: run.config.value("learning_rate") == rate, what="undone")


def test_an_error_goes_when_the_field_is_emptied_or_committed_again(panel: Panel, run: Run) -> None:
    panel.unfold("hyperparameters")
    error = panel.part("error-discount")
    for settle in (lambda: panel.field("discount").fill(""), lambda: panel.type("discount", "0.99")):
        panel.type("discount", "1.5")
        expect(error).to_contain_text("out of bounds")
        expect(panel.field("discount")).to_have_value("0.99")  # the value in force is back: no answer is on its way
        settle()
        expect(error).to_be_hidden()
    expect(panel.field("discount")).to_have_value("0.99")


@pytest.mark.full
def test_a_search_leaves_few_fields(panel: Panel) -> None:
    panel.unfold("hyperparameters")
    search = panel.part("search").locator("input")
    search.fill("lambda")
    expect(panel.part("field-discount")).to_be_hidden()
    expect(panel.part("field-lambda_")).to_be_visible()
    expect(panel.part("group").filter(visible=True)).to_have_count(1)
    search.fill("")
    expect(panel.part("field-discount")).to_be_visible()


@pytest.mark.full
def test_the_undo_of_actors_stands_beside_their_field(panel: Panel) -> None:
    field, undo = panel.field("actors").bounding_box(), panel.part("undo-actors").bounding_box()
    assert field and undo and 0 <= undo["x"] - (field["x"] + field["width"]) < 15


def test_a_wrong_value_is_refused_under_its_field(panel: Panel, run: Run) -> None:
    panel.unfold("hyperparameters")
    before = run.config.value("learning_rate")
    panel.type("learning_rate", "-1")
    expect(panel.part("error-learning_rate")).to_contain_text("learning_rate=-1")
    expect(panel.field("learning_rate")).to_have_value(f"{before:g}")
    for right in (5e-4, 6e-4):
        panel.type("learning_rate", f"{right:g}")
        eventually(lambda right=right: run.config.value("learning_rate") == right)
        expect(panel.part("error-learning_rate")).to_have_text("")


@pytest.mark.full
def test_the_history_lists_changes_and_takes_the_last_one_back(panel: Panel, run: Run) -> None:
    before = run.config.value("learning_rate")
    run.tune(learning_rate=before * 2)
    eventually(lambda: run.config.value("learning_rate") != before)
    panel.unfold("history")
    before = run.config.value("learning_rate")
    rows = panel.part("history").locator("tbody tr")
    eventually(lambda: rows.count() == changes_of(run) > 0, what="a row for each change")  # both come later
    panel.press("undo-last")
    eventually(lambda: run.config.value("learning_rate") != before, what="the last change taken back")
    panel.fold("history")


def test_every_live_field_has_a_control(panel: Panel, run: Run) -> None:
    live = [name for name, one in run.config.all_settings().items() if one.live]
    panel.unfold("hyperparameters")
    for name in live:
        expect(panel.part(f"field-{name}")).to_be_visible()
    panel.fold("hyperparameters")
    expect(panel.part(f"field-{live[0]}")).to_be_hidden()


@pytest.mark.full
def test_the_number_of_actors_changes(panel: Panel, run: Run) -> None:
    panel.type("actors", "3")
    eventually(lambda: len(run.status.actors) == 3, what="three actors")
    panel.unfold("actors")
    expect(actor_row(panel, 2)).to_contain_text("alive")
    panel.type("actors", "2")
    expect(actor_row(panel, 2)).to_have_count(0)
    assert "scale" in kinds(run)


def test_one_switch_sets_the_axis_of_all_charts(panel: Panel) -> None:
    for axis in ("updates", "hours", "frames"):
        before = panel.charts()
        panel.part("axis").get_by_role("button", name=axis).click()
        eventually(lambda before=before: all(one != old for one, old in zip(panel.charts()[:2], before, strict=False)),
                   what=f"charts over {axis}")


def test_four_charts_are_shown_and_the_sections_of_others_stay_as_they_are(panel: Panel) -> None:
    shown = panel.part("charts").first.locator(".workbench-card-title")
    expect(shown).to_have_text(["Episode return", re.compile("Speed"), "Losses", "Policy entropy (nats)", "Events"])
    section = panel.part("charts-section").filter(has_text="System")
    expect(section.locator("canvas")).to_have_count(0)
    section.locator("> summary").click()
    section.locator(".workbench-card").first.scroll_into_view_if_needed()  # a card is drawn once it is seen
    expect(section.locator("canvas").first).to_be_visible()
    before = panel.charts()
    eventually(lambda: panel.charts() != before, what="a refresh")
    expect(section.locator("canvas").first).to_be_visible()
    section.locator("> summary").click()
    expect(section.locator("canvas").first).to_be_hidden()


def test_the_pointer_marks_one_place_in_all_charts_of_time(panel: Panel) -> None:
    cards = panel.part("charts").first.locator(".workbench-card")
    cards.last.scroll_into_view_if_needed()
    expect(cards.last.locator("canvas")).to_be_visible()
    cards.nth(1).locator("canvas").hover()
    for card in (1, 2, 3, 4):  # the first one may be above the window
        expect(cards.nth(card).locator(".workbench-card-line")).to_be_visible()
    panel.part("axis").first.hover()
    expect(panel.part("charts").first.locator(".workbench-card-line:visible")).to_have_count(0)


def test_the_strip_says_what_an_event_was(panel: Panel, run: Run) -> None:
    run.tune(entropy_cost=0.02)
    card = panel.part("charts").first.locator(".workbench-card", has_text="Events")
    card.scroll_into_view_if_needed()
    strip = card.locator("canvas")
    expect(strip).to_be_visible()
    tip = panel.notebook.page.locator("#workbench-chart-tooltip.visible", has_text="entropy_cost")

    def pointed() -> bool:
        box = strip.bounding_box()
        assert box is not None
        for x in range(80, int(box["width"]), 5):
            panel.notebook.page.mouse.move(box["x"] + x, box["y"] + 10)
            if tip.count():
                return True
        return False

    eventually(pointed, what="a tooltip of the change")
    panel.part("axis").first.hover()
    run.undo("entropy_cost")


@pytest.mark.full
def test_an_actor_that_is_killed_is_named_and_started_again(panel: Panel, run: Run) -> None:
    panel.unfold("actors")
    first = run.status.actors[0]
    assert first.pid
    os.kill(first.pid, signal.SIGKILL)
    row = actor_row(panel, 0)
    expect(row).not_to_contain_text(str(first.pid))
    expect(row).to_contain_text("alive")
    eventually(lambda: run.status.actors[0].restarts == first.restarts + 1, what="one more restart")
    told = list(run.events[run.events["kind"] == "restart"]["message"])
    assert "actor-0 restarted after signal 9 (SIGKILL)" in told


@pytest.mark.full
def test_an_actor_is_restarted_and_killed_from_its_row(panel: Panel, run: Run) -> None:
    row = actor_row(panel, 1)
    for action in ("Restart", "Kill"):
        before = run.status.actors[1]
        row.get_by_role("button", name=action).click()
        if action == "Kill":
            row.get_by_role("button", name=action).last.click()
        eventually(lambda before=before: run.status.actors[1].restarts == before.restarts + 1, what=action)
        eventually(lambda before=before: run.status.actors[1].alive and run.status.actors[1].pid != before.pid)
        expect(row).to_contain_text("alive")


@pytest.mark.full
def test_a_control_answers_while_a_cell_runs(notebook: Notebook, panel: Panel, run: Run) -> None:
    notebook.run(BUSY, wait=False)
    for button, state in (("pause", "paused"), ("resume", "training")):
        panel.press(button)
        pressed = time.monotonic()
        panel.shows_state(state)
        print(f"{button}: {time.monotonic() - pressed:.2f} s until the panel shows it")
    assert notebook.cell(BUSY).locator(".jp-InputPrompt").inner_text() == "[*]:"
    end_cell(notebook, "panel-seen")
    notebook.wait(BUSY)


@pytest.mark.full
def test_every_control_is_reached_by_the_keyboard(notebook: Notebook, panel: Panel, run: Run) -> None:
    panel.unfold("hyperparameters")
    panel.part("pause").focus()
    reached = {"workbench-pause"}
    for _ in range(150):
        reached |= set(notebook.page.evaluate(
            "() => [...(document.activeElement.closest('[class*=workbench-]')?.classList ?? [])]"))
        assert notebook.page.evaluate("() => document.activeElement.getAttribute('role') !== 'slider'"), "has no name"
        notebook.page.keyboard.press("Tab")
    live = [name for name, one in run.config.all_settings().items() if one.live]
    wanted = {f"workbench-{name}" for name in ("pause", "checkpoint", "stop", "field-actors", "toggle-actors")}
    assert wanted | {f"workbench-field-{name}" for name in live} <= reached
    panel.fold("hyperparameters")
    panel.part("pause").focus()
    notebook.page.keyboard.press("Enter")
    panel.shows_state("paused")
    panel.part("resume").focus()
    notebook.page.keyboard.press("Enter")
    panel.shows_state("training")


@pytest.mark.full
@pytest.mark.parametrize("theme", [DARK, LIGHT])
def test_nothing_is_cut_off_in_a_narrow_window(notebook: Notebook, panel: Panel, theme: str) -> None:
    notebook.theme(theme)
    notebook.page.set_viewport_size({"width": 800, "height": 1000})
    try:
        panel.unfold("hyperparameters")
        panel.unfold("actors")
        expect(panel.field("learning_rate")).to_be_visible()
        expect(actor_row(panel, 0)).to_be_visible()
        eventually(lambda: panel.cut_off() == [])
    finally:
        panel.fold("hyperparameters")
        notebook.page.set_viewport_size({"width": 1400, "height": 1000})


@pytest.mark.full
def test_a_refreshed_page_shows_the_whole_history(notebook: Notebook, panel: Panel) -> None:
    notebook.save()
    notebook.reload()
    panel.wait_for_charts()
    panel.shows_state("training")


@pytest.mark.full
def test_a_notebook_that_is_opened_without_its_kernel_shows_a_picture_until_the_cell_is_run(
    notebook: Notebook, panel: Panel, browser: Browser
) -> None:
    notebook.save()
    notebook.page.goto("about:blank")
    notebook.server.end_kernels()
    notebook.open()
    expect(notebook.output(PANEL).locator("img:visible")).to_have_count(1)
    notebook.shows_no_broken_widget(browser)
    notebook.write(LAUNCH, "import workbench as wb")
    notebook.run(LAUNCH)
    notebook.run(PANEL)
    panel.wait_for_charts()
    expect(notebook.output(PANEL).locator("img:visible")).to_have_count(0)


def is_detached(panel: Panel, icons: int) -> None:
    expect(panel.part("gone")).to_be_visible()
    for part in ("detached", "last seen", "wb.attach('seen')"):
        expect(panel.part("gone")).to_contain_text(part)
    for part in ("headline", "eta", "pause", "stop"):
        expect(panel.part(part)).to_be_hidden()
    assert icons == 0


# Views with ipywidgets' picture of a broken chain.
BROKEN = """() => [...document.querySelectorAll('.jupyter-widgets-disconnected')].filter(
  view => view.checkVisibility() && !['none', 'normal'].includes(getComputedStyle(view, '::before').content)).length"""


@pytest.mark.full
def test_a_panel_whose_kernel_has_gone_says_so_and_how_to_see_the_run_again(
    notebook: Notebook, panel: Panel, browser: Browser
) -> None:
    expect(panel.part("gone")).to_be_hidden()
    notebook.restart()
    expect(panel.part("gone")).to_be_visible()
    is_detached(panel, notebook.page.evaluate(BROKEN))
    notebook.run(LAUNCH)
    notebook.run(PANEL)
    panel.wait_for_charts()
    expect(panel.part("gone")).to_be_hidden()
    notebook.save()
    notebook.server.end_kernels()
    expect(panel.part("gone")).to_be_visible()
    is_detached(panel, notebook.page.evaluate(BROKEN))
    notebook.page.goto("about:blank")
    notebook.open()
    notebook.shows_no_broken_widget(browser)


# What an output showed first: the number of the animation frame in which each was seen.
FIRST = """at => { const seen = window.firstSeen = {}; let frame = 0; const look = () => { frame += 1;
  const output = document.querySelectorAll('.jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook .jp-Cell')[at];
  if (output.textContent.includes('reading…')) seen.skeleton ??= frame;
  if (output.querySelector('.workbench-panel')) seen.panel ??= frame; else requestAnimationFrame(look) }; look() }"""


@pytest.mark.full
def test_a_restarted_kernel_shows_all_again(notebook: Notebook, panel: Panel) -> None:
    notebook.restart()
    notebook.run(LAUNCH)
    notebook.command("notebook:clear-all-cell-outputs")
    notebook.page.evaluate(FIRST, PANEL)
    notebook.run(PANEL)
    panel.wait_for_charts()
    seen = notebook.page.evaluate("() => window.firstSeen")
    assert seen["skeleton"] < seen["panel"], "name, state and grey places come first"
    panel.shows_state("training")
    panel.unfold("history")
    expect(panel.part("history")).to_contain_text("learning_rate")


def test_stop_asks_once(panel: Panel, run: Run) -> None:
    expect(panel.part("confirm")).to_be_hidden()
    panel.press("stop")
    expect(panel.part("confirm")).to_be_visible()
    panel.press("cancel")
    expect(panel.part("confirm")).to_be_hidden()
    assert run.state == "training"


@pytest.mark.full
def test_a_run_that_ended_leaves_a_picture(notebook: Notebook, panel: Panel, run: Run) -> None:
    panel.press("stop")
    panel.press("confirm")
    eventually(lambda: run.state == "stopped", what="stopped")
    expect(notebook.output(PANEL).locator("img")).to_be_visible()
    for name in ("resume-run", "evaluate", "play", "fork"):
        expect(notebook.output(PANEL).locator(f".workbench-{name}")).to_be_enabled()
    first, *_ = rich_outputs(notebook.save(), PANEL)
    assert first["image/png"] and "stopped" in first["text/html"] and "wb.resume(" in first["text/html"]
    assert "application/vnd.jupyter.widget-view+json" not in first
    notebook.output(PANEL).locator(".workbench-play").click()
    game = notebook.output(PANEL).locator(".wb-game")
    before = eventually(lambda: any(pictures(game)) and pictures(game), what="a picture of the game")

    def moved() -> bool:
        game.locator(".wb-stage").press("ArrowLeft")
        return pictures(game) != before

    eventually(moved, what="a game that a key moves on")


@pytest.mark.full
def test_the_picture_is_there_in_a_notebook_that_is_opened_without_its_kernel(
    notebook: Notebook, browser: Browser
) -> None:
    notebook.page.goto("about:blank")
    notebook.server.end_kernels()
    notebook.open()
    expect(notebook.output(PANEL).locator("img")).to_be_visible()
    notebook.shows_no_broken_widget(browser)
