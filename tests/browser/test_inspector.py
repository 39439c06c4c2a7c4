"""The checkpoint inspector in JupyterLab: two checkpoints, and everything that can be done with them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.driver import Notebook
from tests.browser.on_screen import NAMELESS, pictures
from tests.conftest import eventually
from workbench.running.handle import Run, attach

CELLS = ["import workbench as wb\nwb.attach('pong').checkpoints"]


@pytest.fixture(scope="module")
def notebook(open_notebook, pong: Run) -> Notebook:
    return open_notebook(CELLS, run=[0])


@pytest.fixture(scope="module")
def inspector(notebook: Notebook) -> Locator:
    return notebook.output(0).locator(".workbench-inspector")


def part(inspector: Locator, name: str) -> Locator:
    return inspector.locator(f".workbench-inspector-{name}")


def said(inspector: Locator, name: str) -> Locator:
    """What is said under a button when it is done."""
    message = part(inspector, f"{name}-message")
    expect(message).not_to_contain_text("…")
    return message


def test_checkpoints_are_on_a_timeline_and_in_a_table(inspector: Locator, pong: Run) -> None:
    expect(part(inspector, "table").locator("tbody tr[data-key]")).to_have_count(len(pong.checkpoints))
    eventually(lambda: any(pictures(part(inspector, "charts"))), what="a timeline")


def test_layers_have_norms_and_a_histogram(inspector: Locator) -> None:
    layers = part(inspector, "layers").locator("tbody tr[data-key]")
    expect(layers.first).to_be_visible()
    eventually(lambda: len([one for one in pictures(part(inspector, "charts")) if one]) == 2, what="a histogram")
    before = pictures(part(inspector, "charts"))
    layers.nth(2).click()
    eventually(lambda: pictures(part(inspector, "charts")) != before, what="that layer's histogram")


def test_the_time_machine_moves_by_checkpoint_and_film_and_choice_follow(inspector: Locator, pong: Run) -> None:
    time = part(inspector, "time")
    cursor, first = time.locator("[role=slider]"), pong.checkpoints[0]
    expect(cursor).to_have_attribute("aria-valuetext", re.compile("checkpoint of"))
    eventually(lambda: pictures(time.locator(".wb-timemachine"))[0], what="a curve")
    cursor.press("Home")
    cursor.press("ArrowRight")
    expect(cursor).to_have_attribute("aria-valuetext", re.compile(f"checkpoint of {first.frames:,} frames"))
    expect(part(inspector, "chosen").locator("select")).to_have_value(first.path.name)
    part(inspector, "record-steps").locator("input").fill("60")
    part(inspector, "record-steps").locator("input").press("Tab")
    part(inspector, "record").click()
    expect(said(inspector, "record")).to_contain_text(f"{first.path.name}: return")
    expect(part(inspector, "film")).to_contain_text("Film of this checkpoint: return")
    cursor.press("ArrowRight")
    expect(part(inspector, "film")).to_contain_text("This checkpoint has no film yet; the nearest one is of")
    part(inspector, "film-play").click()
    expect(time.locator(".wb-screen")).to_have_count(1)
    assert time.evaluate(NAMELESS) == []


@pytest.mark.full
def test_a_second_checkpoint_is_compared_by_layer(inspector: Locator, pong: Run) -> None:
    expect(part(inspector, "differences")).to_contain_text("choose a second checkpoint")
    part(inspector, "other").locator("select").select_option(pong.checkpoints[0].path.name)
    expect(part(inspector, "differences").locator("tbody tr[data-key]").first).to_be_visible()


@pytest.mark.full
def test_it_evaluates_with_an_interval(inspector: Locator) -> None:
    part(inspector, "evaluate-episodes").locator("input").fill("1")
    part(inspector, "evaluate-episodes").locator("input").press("Tab")
    part(inspector, "evaluate").click()
    expect(part(inspector, "evaluate-message")).to_contain_text("playing 1 episode")
    expect(said(inspector, "evaluate")).to_contain_text("mean return")


@pytest.mark.full
def test_two_are_played_side_by_side_on_one_seed(inspector: Locator) -> None:
    part(inspector, "play-steps").locator("input").fill("60")
    part(inspector, "play-steps").locator("input").press("Tab")
    part(inspector, "play").click()
    stage = part(inspector, "stage")
    expect(stage.locator(".wb-screen")).to_have_count(2)
    stage.locator(".wb-play").click()
    expect(stage.locator(".wb-where")).to_contain_text("step 60 of 60")


@pytest.mark.full
def test_it_exports_a_checkpoint(inspector: Locator, tmp_path: Path) -> None:
    part(inspector, "export-path").locator("input").fill(str(tmp_path / "kept.zip"))
    part(inspector, "export-path").locator("input").press("Tab")
    part(inspector, "export").click()
    expect(part(inspector, "export-message")).to_contain_text("exported to")
    assert (tmp_path / "kept.zip").stat().st_size > 10_000


@pytest.mark.full
def test_it_forks_from_a_checkpoint(inspector: Locator, pong: Run) -> None:
    part(inspector, "fork-name").locator("input").fill("branch")
    part(inspector, "fork-fields").locator("input").fill("learning_rate=1e-4")
    part(inspector, "fork-fields").locator("input").press("Tab")
    part(inspector, "fork").click()
    expect(part(inspector, "fork-message")).to_contain_text("branch goes on from")
    branch = attach("branch")
    assert branch.config.value("learning_rate") == 1e-4
    branch.stop()


def test_a_wrong_field_is_refused_under_the_button(inspector: Locator) -> None:
    part(inspector, "fork-name").locator("input").fill("")
    part(inspector, "fork-fields").locator("input").fill("learning_rat=1e-4")
    part(inspector, "fork-fields").locator("input").press("Tab")
    part(inspector, "fork").click()
    expect(part(inspector, "fork-message")).to_contain_text("learning_rate")
