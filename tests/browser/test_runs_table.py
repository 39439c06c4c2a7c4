"""The table of runs and the comparison of two, in JupyterLab."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.driver import Notebook
from tests.browser.on_screen import Panel, pictures
from tests.conftest import CALM, eventually
from tests.widgets.test_compare import noisy
from workbench import rundir
from workbench.running.handle import Run
from workbench.running.launch import launch

RUNS, COMPARE = range(2)
CELLS = ["import workbench as wb\nwb.runs()", "wb.compare(['row-a', 'row-b'], 'episode_return')"]


@pytest.fixture(scope="module")
def alive(browser_home: Path) -> Iterator[Run]:
    """A run that is alive, row-b; row-a, which was stopped, is beside it."""
    noisy("row-a", episodes=60, learning_rate=1e-3).write(state="stopped")
    run = launch("testing/catch-v0", name="row-b", learning_rate=5e-4, total_frames=10**9, progress=False,
                 **{**CALM, "actors": 1})
    run.wait(updates=5, timeout_s=240, progress=False)
    yield run
    run.stop()


@pytest.fixture(scope="module")
def notebook(open_notebook, alive: Run) -> Notebook:
    return open_notebook(CELLS, run=[RUNS])


@pytest.fixture(scope="module")
def table(notebook: Notebook) -> Locator:
    return notebook.output(RUNS).locator("table[aria-label='Runs']")


def row(table: Locator, name: str) -> Locator:
    return table.locator(f"tr[data-key='{name}']")


def names(table: Locator) -> list[str]:
    return [one.get_attribute("data-key") or "" for one in table.locator("tbody tr[data-key]").all()]


def do(table: Locator, name: str, action: str, *, sure: bool = False) -> None:
    """Press the button of a row, and the one that says so once more where it asks."""
    row(table, name).get_by_role("button", name=f"{action} {name}").click()
    if sure:
        row(table, name).get_by_role("button", name=action, exact=True).click()


def test_it_lists_the_runs_and_follows_them(table: Locator) -> None:
    expect(row(table, "row-a")).to_contain_text("stopped")
    expect(row(table, "row-b")).to_contain_text("training")
    before = row(table, "row-b").inner_text()
    expect(row(table, "row-b")).not_to_have_text(before)
    expect(row(table, "row-b").locator("svg, canvas")).to_have_count(1)


def test_a_click_on_a_header_sorts(table: Locator) -> None:
    header = table.get_by_role("button", name="name", exact=True)
    header.click()
    first = names(table)
    assert first == sorted(first) or first == sorted(first, reverse=True)
    header.click()
    assert names(table) == first[::-1]


@pytest.mark.full
def test_attach_shows_the_panel_of_that_run(notebook: Notebook, table: Locator) -> None:
    do(table, "row-b", "Attach")
    panel = Panel(notebook, RUNS)
    panel.shows_state("training")
    panel.wait_for_charts()
    expect(panel.part("headline")).to_contain_text("row-b")
    do(table, "row-b", "Detach")
    expect(panel.root).to_have_count(0)


@pytest.mark.full
def test_a_run_is_stopped_and_resumed_from_its_row(table: Locator, alive: Run) -> None:
    do(table, "row-b", "Stop", sure=True)
    eventually(lambda: alive.state == "stopped", what="stopped")
    expect(row(table, "row-b")).to_contain_text("stopped")
    do(table, "row-b", "Resume")
    eventually(lambda: alive.state == "training", what="training again")
    expect(row(table, "row-b")).to_contain_text("training")


def test_two_runs_are_compared_in_one_chart(notebook: Notebook) -> None:
    notebook.run(COMPARE)
    output = notebook.output(COMPARE)
    expect(output.first).to_contain_text("learning_rate")
    chart = output.locator(".vega-embed")
    eventually(lambda: all(pictures(chart)) and pictures(chart), what="a drawn chart")
    before = pictures(chart)
    chart.locator("select").select_option("updates")
    eventually(lambda: pictures(chart) != before, what="another axis")
    before = pictures(chart)
    chart.locator("input[type=range]").fill("0.4")
    eventually(lambda: pictures(chart) != before, what="a smoother line")


@pytest.mark.full
def test_delete_asks_once_and_moves_the_run_to_the_trash(table: Locator, browser_home: Path) -> None:
    row(table, "row-a").get_by_role("button", name="Delete row-a").click()
    row(table, "row-a").get_by_role("button", name="Cancel").click()
    assert "row-a" in [one.name for one in rundir.every()]
    do(table, "row-a", "Delete", sure=True)
    expect(row(table, "row-a")).to_have_count(0)
    assert "row-a" not in [one.name for one in rundir.every()]
    assert list((browser_home / "trash").glob("row-a*"))
