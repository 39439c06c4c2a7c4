"""A run that collapses in front of a person: the banner, one click that rescues it, and both curves in one chart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

import workbench as wb
from tests.browser.axe import barriers_by_theme, missed_by_tab
from tests.browser.driver import DARK, LIGHT, Browser, Notebook
from tests.browser.on_screen import Panel, pictures, rich_outputs
from tests.conftest import eventually
from tests.running.test_collapse_of_a_run import FIELDS, paying, written

PICTURES = Path(__file__).parents[2] / "build" / "browser"

pytestmark = pytest.mark.full

CELLS = ["import workbench as wb\nfallen = wb.attach('fallen')\nfallen"]


@pytest.fixture(scope="module")
def run(browser_home: Path) -> Iterator[wb.Run]:
    """A run that was good once."""
    written(pay := browser_home / "pay", 0.0)
    run = wb.launch(paying(pay), name="fallen", **FIELDS)
    eventually(lambda: run.status.first_mean is not None)
    written(pay, 1.0)
    eventually(lambda: run.best is not None and run.best.episode_return == 5.0)
    written(pay, 0.0)
    eventually(lambda: run.status.collapsed)
    yield run
    for name in ("fallen", "fallen-fork-1"):
        if (browser_home / "runs" / name).exists():
            wb.attach(name).stop()


@pytest.fixture(scope="module")
def notebook(open_notebook, run: wb.Run) -> Notebook:
    return open_notebook(CELLS, run=[0])


@pytest.fixture(scope="module")
def panel(notebook: Notebook) -> Panel:
    return Panel(notebook, 0)


def test_the_banner_says_what_was_lost_and_where_the_best_checkpoint_is(panel: Panel, run: wb.Run) -> None:
    banner = panel.part("banner")
    expect(banner).to_be_visible()
    expect(banner).to_contain_text("below its best of 5 at")
    expect(banner).to_contain_text("Fork it with half the learning rate? This run goes on.")
    headline, progress = panel.part("headline").bounding_box(), panel.part("progress").bounding_box()
    place = banner.bounding_box()
    assert headline and progress and place
    assert headline["y"] < place["y"] < progress["y"], "directly below the headline"


def test_it_keeps_nobody_out(panel: Panel, notebook: Notebook) -> None:
    findings = [*barriers_by_theme(notebook, panel.root), *missed_by_tab(panel.root)]
    assert not findings, "\n".join(findings)


def test_it_fits_in_both_themes_and_in_a_narrow_window(panel: Panel, notebook: Notebook) -> None:
    for theme in (DARK, LIGHT):
        notebook.theme(theme)
        for width in (1400, 1000):
            notebook.page.set_viewport_size({"width": width, "height": 1000})
            eventually(lambda: panel.cut_off() == [], what=f"nothing cut off at {width} px")
            notebook.page.screenshot(path=PICTURES / f"banner-{theme.split()[-1]}-{width}.png")
    notebook.page.set_viewport_size({"width": 1400, "height": 1000})


def test_one_click_rescues_the_run_and_shows_both_curves(panel: Panel, run: wb.Run, notebook: Notebook) -> None:
    panel.press("rescue")
    result = panel.part("banner-result")
    expect(result).to_contain_text("fallen-fork-1 goes on from", timeout=240_000)
    expect(panel.part("rescue")).to_be_disabled()
    comparison = panel.part("banner-comparison")
    expect(comparison.locator(".workbench-compare")).to_be_visible(timeout=240_000)
    eventually(lambda: any(pictures(comparison)), what="both curves")
    expect(comparison).to_contain_text("learning_rate")
    drawn = pictures(comparison)
    eventually(lambda: pictures(comparison) != drawn, what="curves that follow the runs")
    notebook.page.screenshot(path=PICTURES / "banner-rescued.png")
    rescued = wb.attach("fallen-fork-1")
    assert rescued.config.value("learning_rate") == run.config.value("learning_rate") / 2
    assert rescued.state == run.state == "training"


def test_dismissed_it_stays_away_and_a_saved_notebook_has_the_line_to_copy(
    panel: Panel, notebook: Notebook, browser: Browser
) -> None:
    panel.press("dismiss-banner")
    expect(panel.part("banner")).to_be_hidden()
    eventually(lambda: any("wb.attach(&#x27;fallen&#x27;).rescue()" in page.get("text/html", "")
                           for page in rich_outputs(notebook.save(), 0)), what="the line in the saved picture")
