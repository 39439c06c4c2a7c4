"""The same widgets in Notebook 7."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.driver import DARK, LIGHT, Notebook
from tests.browser.on_screen import Panel, busy_until, end_cell, pictures, rich_outputs
from tests.conftest import CALM, eventually
from workbench.running.handle import attach

pytestmark = pytest.mark.full

LAUNCH, PANEL, BUSY, PLAYED, RUNS = range(5)
CELLS = [
    f"import workbench as wb\nrun = wb.launch('testing/catch-v0', name='seven', total_frames=10**9, **{CALM})",
    "run = wb.attach('seven')\nrun", busy_until("panel-seven"),
    "wb.rollout(wb.attach('pong').checkpoints[-1], max_steps=60)", "wb.runs()",
]


@pytest.fixture(scope="module")
def notebook(open_notebook, pong) -> Notebook:
    return open_notebook(CELLS, app="notebook", run=[LAUNCH, PANEL])


@pytest.fixture(scope="module")
def panel(notebook: Notebook) -> Panel:
    return Panel(notebook, PANEL)


def test_charts_move(panel: Panel) -> None:
    panel.wait_for_charts()
    before = panel.charts()
    eventually(lambda: sum(old != new for old, new in zip(before, panel.charts(), strict=False)) >= 2)


def test_controls_act_on_the_run_also_while_a_cell_runs(notebook: Notebook, panel: Panel) -> None:
    run = attach("seven")
    notebook.run(BUSY, wait=False)
    panel.press("pause")
    panel.shows_state("paused")
    assert run.state == "paused"
    panel.press("resume")
    panel.shows_state("training")
    assert notebook.cell(BUSY).locator(".jp-InputPrompt").inner_text() == "[*]:"
    end_cell(notebook, "panel-seven")
    notebook.wait(BUSY)
    panel.unfold("hyperparameters")
    panel.type("learning_rate", "2e-4")
    eventually(lambda: run.config.value("learning_rate") == 2e-4)


@pytest.mark.parametrize("theme", [DARK, LIGHT])
def test_nothing_is_cut_off_in_a_narrow_window(notebook: Notebook, panel: Panel, theme: str) -> None:
    notebook.theme(theme)
    notebook.page.set_viewport_size({"width": 800, "height": 1000})
    try:
        eventually(lambda: panel.cut_off() == [])
    finally:
        notebook.page.set_viewport_size({"width": 1400, "height": 1000})


def test_a_rollout_plays(notebook: Notebook) -> None:
    notebook.run(PLAYED)
    player = notebook.output(PLAYED).locator(".wb-player")
    eventually(lambda: any(pictures(player)), what="a first frame")
    player.locator(".wb-play").click()
    expect(player.locator(".wb-where")).to_contain_text("step 60 of 60")


def test_the_table_of_runs_stops_one_and_the_panel_leaves_a_picture(notebook: Notebook, panel: Panel) -> None:
    notebook.run(RUNS)
    row = notebook.output(RUNS).locator("tr[data-key='seven']")
    row.get_by_role("button", name="Stop seven").click()
    row.get_by_role("button", name="Stop", exact=True).click()
    expect(row).to_contain_text("stopped")
    expect(notebook.output(PANEL).locator("img:visible")).to_have_count(1)
    assert "image/png" in rich_outputs(notebook.save(), PANEL)[0]
