"""Every widget by keyboard, by screen reader and in both themes, as axe-core judges it; a panel in a narrow page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.axe import barriers
from tests.browser.driver import DARK, LIGHT, Browser, Notebook
from tests.browser.on_screen import Panel
from tests.conftest import CALM
from tests.widgets import swept
from workbench.running.handle import Run
from workbench.running.launch import launch

NARROW = 600  # pixels
SETTLED_MS = 2000  # until colours have faded from one theme to the other, and the page is laid out anew
ROLLOUT, PANEL, RUNS, INSPECTOR, PLAYER, WALL, COMPARE, ENDED, SWEEP = range(9)
CELLS = [
    "import workbench as wb\nrun = wb.attach('reached')\npong = wb.attach('pong')\n"
    "played = wb.rollout(pong.checkpoints[-1], seed=1, max_steps=60, saliency='gradient')",
    "run", "wb.runs()", "pong.checkpoints", "played", "run.watch()",
    "wb.compare(['reached', 'pong'], 'frames_per_second')", "pong.dashboard()", "wb.attach_sweep('reached-sweep')",
]
ROOTS = {PANEL: ".workbench-panel", RUNS: ".workbench-runs", INSPECTOR: ".workbench-inspector", PLAYER: ".wb-player",
         WALL: ".wb-wall", COMPARE: ".workbench-compare", ENDED: ".workbench-next", SWEEP: ".workbench-sweep"}
VIEWS = {"table of runs": RUNS, "inspector": INSPECTOR, "player": PLAYER, "wall": WALL, "compare": COMPARE,
         "next steps of an ended run": ENDED, "sweep": SWEEP}
SECTIONS = ("hyperparameters", "actors", "history")


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """A small run that is alive."""
    started = launch("testing/catch-v0", name="reached", total_frames=10**9, progress=False, **CALM)
    started.wait(updates=5, timeout_s=240, progress=False)
    yield started
    started.stop()


@pytest.fixture(scope="module")
def notebook(open_notebook, pong: Run, run: Run) -> Notebook:
    swept.by_hand("reached-sweep")
    opened: Notebook = open_notebook(CELLS)
    opened.run(ROLLOUT)
    return opened


def shown(notebook: Notebook, cell: int) -> Locator:
    """The widget of a cell, once it is there."""
    root = notebook.output(cell).locator(ROOTS[cell]).first
    if not root.count():
        notebook.run(cell)
    expect(root).to_be_visible()
    root.scroll_into_view_if_needed()
    return root


def both_themes(notebook: Notebook, root: Locator) -> list[str]:
    """What is wrong with a widget in the light theme and in the dark one."""
    wrong = []
    for theme in (DARK, LIGHT):
        notebook.theme(theme)
        notebook.page.wait_for_timeout(SETTLED_MS)
        wrong += [f"{theme}: {one}" for one in barriers(root)]
    return wrong


def unfolded(notebook: Notebook, cell: int) -> Panel:
    """The panel of a cell, with all of its sections open."""
    panel = Panel(notebook, cell)
    shown(notebook, cell)
    for section in SECTIONS:
        if panel.part(f"toggle-{section}").count():
            panel.unfold(section)
    return panel


def test_the_panel_of_a_live_run_keeps_nobody_out(notebook: Notebook) -> None:
    panel = unfolded(notebook, PANEL)
    panel.wait_for_charts()
    wrong = both_themes(notebook, panel.root)
    assert not wrong, "\n".join(wrong)


@pytest.mark.full
@pytest.mark.parametrize("view", VIEWS)
def test_no_view_keeps_anybody_out(notebook: Notebook, view: str) -> None:
    wrong = both_themes(notebook, shown(notebook, VIEWS[view]))
    assert not wrong, "\n".join(wrong)


@pytest.mark.full
def test_a_panel_can_be_used_in_a_narrow_page(notebook: Notebook, browser: Browser) -> None:
    panel, page = unfolded(notebook, PANEL), browser.page
    wide = page.viewport_size
    assert wide is not None
    notebook.command("application:toggle-left-area")
    try:
        page.set_viewport_size({"width": NARROW, "height": wide["height"]})
        page.wait_for_timeout(SETTLED_MS)
        wrong = panel.cut_off()
    finally:
        page.set_viewport_size(wide)
        notebook.command("application:toggle-left-area")
    assert not wrong, "\n".join(wrong)


@pytest.mark.full
def test_a_fault_would_be_seen(notebook: Notebook) -> None:
    root = shown(notebook, PANEL)
    root.evaluate("""root => root.insertAdjacentHTML('beforeend',
      '<div id="planted"><button></button><button tabindex="-1">no key</button></div>')""")
    try:
        kinds = {one.partition(":")[0] for one in barriers(root)}
    finally:
        root.evaluate("root => root.querySelector('#planted').remove()")
    assert kinds == {"button-name", "only by pointer"}
