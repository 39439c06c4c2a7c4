"""Every widget by keyboard, by screen reader and in both themes, as axe-core judges it; a panel in a narrow page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.axe import SETTLED_MS, barriers, barriers_by_theme, missed_by_tab, whole
from tests.browser.driver import Browser, Notebook
from tests.browser.on_screen import Panel
from tests.conftest import CALM
from tests.widgets import recorded, swept
from workbench.running.handle import Run
from workbench.running.launch import launch

NARROW = 600  # pixels
IMPORT, PANEL, RUNS, INSPECTOR, PLAYER, WALL, COMPARE, ENDED, DEAD, SWEEP, GAME = range(11)
CELLS = [
    "import workbench as wb\nrun, pong = wb.attach('reached'), wb.attach('pong')",
    "panel = run.dashboard()\npanel.parts.notes.say('the disk is full', bad=True)\npanel", "wb.runs()",
    "pong.checkpoints",
    "wb.rollout(pong.checkpoints[-1], seed=1, max_steps=60, saliency='gradient')", "run.watch()",
    "wb.compare(['reached', 'pong'], 'frames_per_second')", "pong.dashboard()", "wb.attach('gone').dashboard()",
    "wb.attach_sweep('reached-sweep')", "wb.play(pong.checkpoints[-1], seed=1)",
]
ROOTS = {PANEL: ".workbench-panel", RUNS: ".workbench-runs", INSPECTOR: ".workbench-inspector", PLAYER: ".wb-player",
         WALL: ".wb-wall", COMPARE: ".workbench-compare", SWEEP: ".workbench-sweep", GAME: ".wb-game"}
VIEWS = {"inspector": INSPECTOR, "player": PLAYER, "wall": WALL, "comparison": COMPARE, "panel of an ended run": ENDED,
         "panel of a dead run": DEAD, "sweep": SWEEP, "game": GAME}
SECTIONS = ("hyperparameters", "actors", "history")
PLANTED = """<div id="planted"><p style="color: #bbb; background: #fff">hard to read</p><button></button></div>"""


@pytest.fixture(scope="module")
def run(browser_home: Path) -> Iterator[Run]:
    """A small run that is alive; a run that has died is beside it."""
    recorded.vtrace("gone")
    started = launch("testing/catch-v0", name="reached", total_frames=10**9, progress=False, **CALM)
    started.wait(updates=5, timeout_s=240, progress=False)
    started.tune(learning_rate=1e-4)
    yield started
    started.stop()


@pytest.fixture(scope="module")
def notebook(open_notebook, pong: Run, run: Run) -> Notebook:
    swept.by_hand("reached-sweep")
    return open_notebook(CELLS, run=[IMPORT])


@pytest.fixture(scope="module")
def panel(notebook: Notebook) -> Panel:
    """The panel of the live run, with all of its sections open."""
    notebook.run(PANEL)
    panel = Panel(notebook, PANEL)
    for section in SECTIONS:
        panel.unfold(section)
    panel.wait_for_charts()
    return panel


def shown(notebook: Notebook, cell: int) -> Locator:
    """The widget of a cell, once it is there, with all that can be unfolded."""
    root = notebook.cell(cell).locator(ROOTS.get(cell, ".jp-Cell-outputArea"))
    notebook.run(cell)
    expect(root).to_be_visible()
    root.locator("details:not(.workbench-card-menu)").evaluate_all("all => all.forEach(one => (one.open = true))")
    return root


def test_the_panel_of_a_live_run_keeps_nobody_out(notebook: Notebook, panel: Panel) -> None:
    findings = barriers_by_theme(notebook, panel.root)
    assert not findings, "\n".join(findings)


def test_tab_walks_through_all_controls_of_a_panel(panel: Panel) -> None:
    missed = missed_by_tab(panel.root)
    assert not missed, "\n".join(missed)


def test_planted_faults_are_seen(panel: Panel) -> None:
    """A test of the tests: text of too little contrast, a button without a name, and one that no key reaches."""
    panel.root.evaluate("(root, planted) => root.insertAdjacentHTML('afterbegin', planted)", PLANTED)
    planted = panel.root.locator("#planted")
    try:
        with whole(planted):
            kinds = {finding.partition(":")[0] for finding in barriers(planted)}
        planted.evaluate("root => (root.querySelector('button').tabIndex = -1)")
        missed = missed_by_tab(planted)
    finally:
        planted.evaluate("root => root.remove()")
    assert kinds == {"button-name", "color-contrast"}
    assert len(missed) == 1


@pytest.mark.full
def test_a_paused_panel_that_asks_and_refuses_keeps_nobody_out(notebook: Notebook, panel: Panel, run: Run) -> None:
    run.pause()
    panel.shows_state("paused")
    panel.press("stop")
    panel.type("discount", "7")
    expect(panel.part("error-discount")).to_contain_text("7")
    try:
        findings = barriers_by_theme(notebook, panel.root)
    finally:
        panel.press("cancel")
        run.resume()
    assert not findings, "\n".join(findings)


@pytest.mark.full
@pytest.mark.parametrize("view", VIEWS)
def test_no_view_keeps_anybody_out(notebook: Notebook, view: str) -> None:
    root = shown(notebook, VIEWS[view])
    findings = [*barriers_by_theme(notebook, root), *missed_by_tab(root)]
    assert not findings, "\n".join(findings)


@pytest.mark.full
def test_the_table_of_runs_and_a_panel_in_it_keep_nobody_out(notebook: Notebook, browser_home: Path) -> None:
    damaged = browser_home / "runs" / "damaged"
    damaged.mkdir()
    (damaged / "run.json").write_text("{")
    table = shown(notebook, RUNS)
    expect(table.locator(".wb-bad").first).to_be_visible()
    table.get_by_role("button", name="Attach gone").click()
    expect(table.locator(".workbench-panel .workbench-over")).to_contain_text("dead")
    table.get_by_role("button", name="Delete pong").click()
    findings = [*barriers_by_theme(notebook, table), *missed_by_tab(table)]
    shutil.rmtree(damaged)
    assert not findings, "\n".join(findings)


@pytest.mark.full
def test_a_panel_can_be_used_in_a_narrow_page(notebook: Notebook, panel: Panel, browser: Browser) -> None:
    page = browser.page
    wide = page.viewport_size
    assert wide is not None
    notebook.command("application:toggle-left-area")
    try:
        page.set_viewport_size({"width": NARROW, "height": wide["height"]})
        page.wait_for_timeout(SETTLED_MS)
        findings = [*panel.cut_off(), *barriers_by_theme(notebook, panel.root), *missed_by_tab(panel.root)]
    finally:
        page.set_viewport_size(wide)
        notebook.command("application:toggle-left-area")
    assert not findings, "\n".join(findings)


@pytest.mark.full
def test_views_whose_kernel_has_gone_keep_nobody_out(notebook: Notebook, panel: Panel) -> None:
    views = [panel.root, shown(notebook, PLAYER), shown(notebook, RUNS)]
    notebook.restart()
    expect(panel.part("gone")).to_be_visible()
    findings = [finding for view in views for finding in barriers_by_theme(notebook, view)]
    assert not findings, "\n".join(findings)
