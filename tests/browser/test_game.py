"""A game that is played by the keys of a real page, in JupyterLab: in turns, in real time, and with the agent."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.driver import Notebook
from tests.browser.on_screen import busy_until, end_cell, pictures
from tests.conftest import eventually
from tests.played import checkpoint_in
from workbench.playing import rollout

MAKE, PLAY, BUSY, STOP, FAST, ALONE = range(6)


@pytest.fixture(scope="module")
def checkpoint(browser_home: Path) -> str:
    folder = browser_home / "runs" / "played"
    return str(checkpoint_in(folder, "CartPole-v1").path)


@pytest.fixture(scope="module")
def notebook(open_notebook, checkpoint: str) -> Notebook:
    return open_notebook([
        f"import workbench as wb\ngame = wb.play({checkpoint!r}, seed=3)", "game", busy_until("game-seen"),
        "played = game.stop()\nplayed", "fast = wb.play('ALE/Pong-v5')\nfast", "fast.close()",
    ], run=[MAKE, PLAY])


@pytest.fixture(scope="module")
def game(notebook: Notebook) -> Locator:
    found = notebook.output(PLAY).locator(".wb-game")
    found.locator(".wb-stage").click()
    return found


def said(game: Locator) -> str:
    return game.locator(".wb-said").inner_text()


def step(game: Locator) -> int:
    """The step that it shows."""
    return int(said(game).removeprefix("step ").split()[0].strip(":,."))


def at(game: Locator, step: int) -> None:
    """Until it shows that step."""
    expect(game.locator(".wb-said")).to_contain_text(re.compile(rf"^step {step}\b"))


def kept_beside(checkpoint: str) -> Path:
    """The one episode that was kept. Its journal lies beside it until it ends."""
    folder = Path(checkpoint).parents[1] / "rollouts"
    [kept] = [one for one in folder.iterdir() if one.is_dir() and not one.name.startswith(".")]
    return kept


def picture(game: Locator) -> int:
    return pictures(game.locator(".wb-top"))[0]


def test_a_key_is_a_step_and_the_advice_stands_beside(game: Locator) -> None:
    at(game, 0)
    assert all(pictures(game.locator(".wb-top")))  # the picture, and bars of the policy
    expect(game.locator(".wb-legend")).to_contain_text("left")
    before = picture(game)
    for step in (1, 2, 3):  # CartPole's first steps move it by less than a pixel
        game.page.keyboard.press("ArrowRight")
        at(game, step)
    assert "you did: right" in said(game) and "the agent would: " in said(game)
    assert re.search(r"value -?\d", said(game))
    eventually(lambda: picture(game) != before, what="another picture")
    game.page.keyboard.press("a")
    expect(game.locator(".wb-said")).to_contain_text("you did: left")


@pytest.mark.full
def test_the_notebook_takes_no_key_for_one_of_its_own(notebook: Notebook, game: Locator) -> None:
    cells = notebook.panel.locator(".jp-Notebook .jp-Cell").count()
    for key in ("b", "x", "x", "x"):  # in command mode: a new cell, and cells that are cut
        game.page.keyboard.press(key)
    assert notebook.panel.locator(".jp-Notebook .jp-Cell").count() == cells


@pytest.mark.full
def test_it_is_played_while_a_cell_runs(notebook: Notebook, game: Locator) -> None:
    notebook.run(BUSY, wait=False)
    game.locator(".wb-stage").click()
    before = step(game)
    game.page.keyboard.press("d")
    at(game, before + 1)
    assert notebook.cell(BUSY).locator(".jp-InputPrompt").inner_text() == "[*]:"
    end_cell(notebook, "game-seen")
    notebook.wait(BUSY)


def test_the_agent_takes_over_and_a_key_takes_it_back(game: Locator, checkpoint: str) -> None:
    game.locator(".wb-stage").click()
    before = step(game)
    game.page.keyboard.press("Tab")
    expect(game.locator(".wb-where")).to_contain_text("the agent has the controls")
    game.page.keyboard.press("Enter")
    at(game, before + 1)
    assert "the agent did" in said(game)
    game.page.keyboard.press("ArrowLeft")
    at(game, before + 2)
    expect(game.locator(".wb-where")).to_contain_text("you play")
    game.locator(".wb-keep").click()
    expect(game.locator(".wb-note")).to_contain_text("wb.rollout(")
    played = rollout.load(kept_beside(checkpoint))
    assert played.by_person is not None and played.by_person.tolist() == [True] * before + [False, True]


@pytest.mark.full
def test_after_a_refresh_it_goes_on_and_the_episode_is_kept_and_shown(
    notebook: Notebook, game: Locator, checkpoint: str
) -> None:
    before = step(game)
    notebook.save()
    notebook.reload()
    at(game, before)
    eventually(lambda: picture(game), what="the picture after the refresh")
    game.locator(".wb-stage").click()
    game.page.keyboard.press("ArrowRight")
    at(game, before + 1)
    notebook.run(STOP)
    player = notebook.output(STOP).locator(".wb-player")
    expect(player.locator(".wb-title")).to_contain_text("played by a person")
    played = rollout.load(kept_beside(checkpoint))
    assert len(played.actions) == before + 1 and played.actions[-1] == 1
    assert played.by_person is not None and played.by_person[-1]


@pytest.mark.full
def test_in_real_time_keys_are_held_and_time_stands_when_one_leaves(notebook: Notebook) -> None:
    notebook.run(FAST)
    game = notebook.output(FAST).locator(".wb-game")
    game.locator(".wb-stage").click()
    expect(game.locator(".wb-where")).to_contain_text("time stands")
    game.page.keyboard.down("ArrowRight")
    expect(game.locator(".wb-where")).to_contain_text("you play, 15 steps/s (60 frames/s)")
    expect(game.locator(".wb-said")).to_contain_text("you did: RIGHT")
    game.page.keyboard.up("ArrowRight")
    expect(game.locator(".wb-said")).to_contain_text("you did: NOOP")
    notebook.cell(ALONE).locator(".jp-InputArea-editor").click()
    expect(game.locator(".wb-where")).to_contain_text("time stands")
    notebook.run(ALONE)
    expect(game.locator(".wb-note")).to_contain_text("The game has ended")
