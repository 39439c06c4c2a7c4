"""JupyterLab's side panel on real runs: what it lists, opens, steers, and tells."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.axe import barriers_by_theme, missed_by_tab
from tests.browser.driver import Browser, Notebook, Server
from tests.conftest import CALM, eventually
from tests.widgets import swept
from tests.widgets.test_compare import noisy
from workbench import rundir
from workbench.running.handle import Run
from workbench.running.launch import launch

TAB = ".lm-TabBar-tab[data-id='rl-workbench-runs']"
OPENED = ".wb-tab:not(.lm-mod-hidden)"


@pytest.fixture(scope="module")
def alive(browser_home: Path) -> Iterator[Run]:
    """A run that is alive, side-b; side-a, which was stopped, and a sweep are beside it."""
    noisy("side-a", episodes=60, learning_rate=1e-3).write(state="stopped")
    run = launch("testing/catch-v0", name="side-b", learning_rate=5e-4, total_frames=10**9, progress=False,
                 **{**CALM, "actors": 1})
    run.wait(updates=5, timeout_s=240, progress=False)
    swept.by_hand("side-sweep")
    yield run
    if run.status.alive:
        run.stop()


@pytest.fixture(scope="module")
def notebook(open_notebook, alive: Run) -> Notebook:
    return open_notebook(["1 + 1"])


@pytest.fixture(scope="module")
def panel(notebook: Notebook) -> Locator:
    notebook.page.locator(TAB).click()
    panel = notebook.page.get_by_role("region", name="RL Workbench: runs and sweeps")
    expect(panel).to_be_visible()
    return panel


def row(panel: Locator, name: str, kind: str = "run") -> Locator:
    return panel.locator(f"li[data-kind='{kind}'][data-name='{name}']")


def do(panel: Locator, name: str, action: str, *, sure: bool = False) -> None:
    row(panel, name).get_by_role("button", name=f"{action} {name}").click()
    if sure:
        row(panel, name).get_by_role("group").get_by_role("button", name=action, exact=True).click()


def close_tab(notebook: Notebook, browser: Browser) -> None:
    """Close the tab that is in front, and wait until its kernel is gone."""
    sessions = len(notebook.server.ask("GET", "/api/sessions"))
    notebook.page.locator("#jp-main-dock-panel .lm-TabBar-tab.jp-mod-current .lm-TabBar-tabCloseIcon").click()
    eventually(lambda: len(notebook.server.ask("GET", "/api/sessions")) == sessions - 1, what="a kernel less")
    browser.forgive("Could not send widget sync message")  # ipywidgets, of views that go when their kernel has gone


def test_it_lists_runs_and_sweeps_and_follows_them(panel: Locator) -> None:
    expect(row(panel, "side-a").locator(".wb-state")).to_have_text("stopped")
    expect(row(panel, "side-b").locator(".wb-state")).to_have_text("training")
    expect(row(panel, "side-b").get_by_role("img", name=re.compile("Return of side-b so far"))).to_be_visible()
    before = row(panel, "side-b").inner_text()
    expect(row(panel, "side-b")).not_to_have_text(before)
    sweep = row(panel, "side-sweep", "sweep")
    expect(sweep).to_contain_text("of 20 trials")
    expect(sweep).to_contain_text("best episode_return 300 (side-sweep-1)")
    panel.get_by_label("Which runs to list").select_option("going")
    expect(row(panel, "side-a")).to_have_count(0)
    expect(row(panel, "side-b")).to_be_visible()
    panel.get_by_label("Which runs to list").select_option("all")


def test_everything_that_can_be_pressed_has_a_name(panel: Locator) -> None:
    for control in panel.locator("button:visible, select:visible, input:visible").all():
        name = control.get_attribute("aria-label") or control.inner_text()
        assert name.strip(), control.evaluate("node => node.outerHTML")


@pytest.mark.full
def test_it_keeps_nobody_out(panel: Locator, notebook: Notebook) -> None:
    do(panel, "side-a", "Delete")
    findings = [*barriers_by_theme(notebook, panel), *missed_by_tab(panel)]
    row(panel, "side-a").get_by_role("button", name="Cancel").click()
    assert not findings, "\n".join(findings)


@pytest.mark.full
@pytest.mark.parametrize("width", [1000, 600])
def test_it_is_whole_in_a_narrow_window(panel: Locator, notebook: Notebook, width: int) -> None:
    whole = "root => root.scrollWidth <= root.clientWidth && root.getBoundingClientRect().right <= innerWidth"
    notebook.page.set_viewport_size({"width": width, "height": 1000})
    try:
        eventually(lambda: panel.evaluate(whole), what=f"nothing cut off at {width} px")
    finally:
        notebook.page.set_viewport_size({"width": 1400, "height": 1000})


@pytest.mark.full
def test_attach_puts_a_cell_into_the_notebook_and_runs_it(panel: Locator, notebook: Notebook) -> None:
    do(panel, "side-b", "Attach")
    expect(notebook.panel.locator(".jp-Cell .workbench-panel").first).to_contain_text("side-b")
    source = notebook.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.content.activeCell.model.sharedModel.getSource()")
    assert source == 'import workbench as wb\n\nrun = wb.attach("side-b")\nrun'


@pytest.mark.full
def test_a_panel_opens_in_a_tab_of_its_own_whose_kernel_ends_with_it(
    panel: Locator, notebook: Notebook, browser: Browser, alive: Run
) -> None:
    row(panel, "side-b").get_by_role("button", name="side-b", exact=True).press("Enter")
    view = notebook.page.locator(OPENED)
    expect(view.locator(".workbench-panel").first).to_contain_text("side-b")
    expect(view.locator(".jp-CodeConsole-input, .jp-InputArea").locator("visible=true")).to_have_count(0)
    row(panel, "side-b").get_by_role("button", name="side-b", exact=True).click()  # is shown again, not opened twice
    expect(notebook.page.locator(".wb-tab")).to_have_count(1)
    close_tab(notebook, browser)
    assert alive.status.alive


def test_a_run_that_is_dragged_onto_another_is_compared_with_it(
    panel: Locator, notebook: Notebook, browser: Browser
) -> None:
    row(panel, "side-b").locator(".wb-facts").last.drag_to(row(panel, "side-a").locator(".wb-facts").last)
    notebook.page.set_viewport_size({"width": 1400, "height": 420})
    view = notebook.page.locator(OPENED)
    expect(view.locator(".vega-embed").first).to_be_visible()
    expect(view).to_contain_text("learning_rate")
    content = view.locator(".jp-CodeConsole-content")
    eventually(lambda: content.evaluate("node => node.scrollHeight > node.clientHeight + 100"), what="more than fits")
    assert content.evaluate("node => node.scrollTop") == 0, "a tab begins at its top"
    content.hover()
    notebook.page.mouse.wheel(0, 300)
    eventually(lambda: content.evaluate("node => node.scrollTop > 50"), what="it scrolls when somebody scrolls")
    notebook.page.set_viewport_size({"width": 1400, "height": 1000})
    close_tab(notebook, browser)


@pytest.mark.full
def test_runs_are_chosen_and_compared_by_keyboard(panel: Locator, notebook: Notebook, browser: Browser) -> None:
    compare = panel.get_by_role("button", name=re.compile("^Compare( 2)?$"))
    expect(compare).to_be_disabled()
    for name in ("side-a", "side-b"):
        panel.get_by_role("checkbox", name=f"Compare {name}").press("Space")
    compare.press("Enter")
    expect(notebook.page.locator(OPENED).locator(".vega-embed").first).to_be_visible()
    close_tab(notebook, browser)


def test_a_run_is_stopped_after_a_yes_and_resumed(panel: Locator, notebook: Notebook, alive: Run) -> None:
    do(panel, "side-b", "Stop")
    notebook.page.keyboard.press("Escape")
    expect(row(panel, "side-b").get_by_role("button", name="Stop side-b")).to_be_focused()
    assert alive.state == "training"
    do(panel, "side-b", "Stop", sure=True)
    expect(row(panel, "side-b").locator(".wb-state")).to_have_text("stopped")
    assert alive.state == "stopped"
    expect(panel.get_by_role("list", name="News")).to_be_hidden()  # a person who stops a run knows it
    do(panel, "side-b", "Resume")
    expect(row(panel, "side-b").locator(".wb-state")).to_have_text("training")


def test_what_happens_to_a_run_is_told(
    panel: Locator, notebook: Notebook, browser: Browser, alive: Run
) -> None:
    """By the browser, once that is allowed, on the sidebar's icon and in the page's title."""
    page = notebook.page
    browser.grant("notifications", notebook.server.base)
    page.evaluate("""() => { window.shown = []; const Real = Notification; window.Notification = class extends Real {
        constructor(title, how) { super(title, how); window.shown.push([title, how.body]) } } }""")
    panel.get_by_role("button", name="Notify me").click()
    expect(panel.get_by_role("button", name="Notifications on")).to_be_visible()
    page.locator(TAB).click()  # hides the panel
    expect(panel).to_be_hidden()
    supervisor = alive.status.supervisor_pid
    assert supervisor
    os.kill(supervisor, signal.SIGKILL)
    expect(page.locator(TAB)).to_have_attribute("data-wb-news", "1")
    badge = "tab => { const {position, height} = getComputedStyle(tab, '::before'); return [position, height]; }"
    assert page.locator(TAB).evaluate(badge) == ["absolute", "15px"]
    expect(page).to_have_title(re.compile(r"^\(1\) "))
    (told,) = page.evaluate("() => window.shown")
    assert told[0] == "side-b has died" and "supervisor is gone" in told[1]
    page.locator(TAB).click()
    expect(panel.get_by_role("list", name="News")).to_contain_text("side-b has died")
    expect(page.locator(TAB)).not_to_have_attribute("data-wb-news", "1")
    expect(page).not_to_have_title(re.compile(r"^\("))
    panel.get_by_role("button", name="Dismiss: side-b has died").click()
    expect(panel.get_by_role("list", name="News")).to_be_hidden()


@pytest.mark.full
def test_a_sweep_is_deleted_after_a_yes_and_its_runs_stay(panel: Locator, browser_home: Path) -> None:
    sweep = row(panel, "side-sweep", "sweep")
    sweep.get_by_role("button", name="Delete side-sweep").click()
    sweep.get_by_role("group").get_by_role("button", name="Delete", exact=True).click()
    expect(sweep).to_have_count(0)
    expect(row(panel, "side-sweep-1")).to_be_visible()
    assert list((browser_home / "trash").glob("side-sweep*"))


@pytest.mark.full
def test_delete_asks_once_and_moves_the_run_to_the_trash(panel: Locator, browser_home: Path) -> None:
    do(panel, "side-a", "Delete")
    row(panel, "side-a").get_by_role("button", name="Cancel").click()
    assert "side-a" in [directory.name for directory in rundir.every()]
    do(panel, "side-a", "Delete", sure=True)
    expect(row(panel, "side-a")).to_have_count(0)
    assert "side-a" not in [directory.name for directory in rundir.every()]
    assert list((browser_home / "trash").glob("side-a*"))


@pytest.mark.full
def test_a_damaged_run_is_one_bad_row_and_its_text_is_no_markup(panel: Locator, browser_home: Path) -> None:
    name = "<b onclick=alert(1)>"
    folder = browser_home / "runs" / name
    folder.mkdir()
    (folder / "run.json").write_text("{")
    bad = panel.locator("li").filter(has_text=name)
    expect(bad.locator(".wb-state")).to_have_text("damaged")
    expect(bad.locator("b")).to_have_count(0)
    expect(row(panel, "side-b")).to_be_visible()
    (folder / "run.json").unlink()
    expect(bad).to_have_count(0)


@pytest.mark.full
def test_a_tab_comes_back_with_the_page(panel: Locator, notebook: Notebook, servers, alive: Run) -> None:
    server: Server = servers("jupyterlab")
    page = notebook.page
    page.goto(f"{server.base}/lab/workspaces/side?token={server.token}")
    page.locator(TAB).click()
    name = row(page.locator(".wb-lab"), "side-b").get_by_role("button", name="side-b", exact=True)
    name.click()
    expect(page.locator(OPENED)).to_contain_text("wb.resume('side-b')")  # it is dead by now
    eventually(lambda: "workbench-panel-run-side-b" in str(server.ask("GET", "/lab/api/workspaces/side")),
               what="the tab in the saved workspace")
    page.reload()
    expect(page.locator(OPENED)).to_contain_text("wb.resume('side-b')")  # it is dead by now
