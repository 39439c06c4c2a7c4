"""The view of a sweep in JupyterLab."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.driver import Notebook
from tests.browser.on_screen import pictures
from tests.conftest import eventually
from tests.widgets import swept


@pytest.fixture(scope="module")
def notebook(open_notebook, browser_home: Path) -> Notebook:
    swept.by_hand("by-hand")
    return open_notebook(["import workbench as wb\nsweep = wb.attach_sweep('by-hand')\nsweep"], run=[0])


@pytest.fixture(scope="module")
def view(notebook: Notebook) -> Locator:
    return notebook.output(0).locator(".workbench-sweep")


def test_charts_and_trials_are_on_the_screen(view: Locator) -> None:
    table = view.locator("table[aria-label='Trials of by-hand']")
    expect(table.locator("tbody tr[data-key]")).to_have_count(6)
    expect(table.locator("tr[data-key='by-hand-1']")).to_contain_text("★")
    expect(view.locator("canvas").first).to_be_visible()
    expect(view).to_contain_text("5 of 20 trials, 1 open")
    assert all(pictures(view)), "no chart is empty"


@pytest.mark.full
def test_the_picture_for_saved_notebooks_is_hidden_meanwhile(notebook: Notebook, view: Locator) -> None:
    expect(view).to_be_visible()
    still = notebook.output(0).page.locator("div[class$='-still']")
    assert still.count() and not any(one.is_visible() for one in still.all())


def test_one_click_shows_the_best_run(notebook: Notebook, view: Locator) -> None:
    view.get_by_role("button", name="Show the best run").click()
    expect(view.locator(".workbench-panel")).to_contain_text("by-hand-1")
    view.locator("tr[data-key='by-hand-1']").get_by_role("button", name="Hide by-hand-1").click()
    expect(view.locator(".workbench-panel")).to_have_count(0)


@pytest.mark.full
def test_a_view_whose_kernel_has_gone_says_so(notebook: Notebook, view: Locator) -> None:
    said = "root => getComputedStyle(root, '::before').content"
    assert "kernel" not in view.evaluate(said)
    notebook.server.end_kernels()
    eventually(lambda: "kernel has gone" in view.evaluate(said), what="a word about the kernel")
