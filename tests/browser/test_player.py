"""The rollout player and the live view of one environment, in JupyterLab."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.driver import Browser, Notebook
from tests.browser.on_screen import NAMELESS, busy_until, end_cell, pictures
from tests.conftest import eventually
from workbench.running.handle import Run

ROLLOUT, PLAY, BUSY, WATCH, WALL, WHAT_IF, POLE = range(7)
STEPS = 240
CELLS = [
    f"import workbench as wb\nrun = wb.attach('pong')\n"
    f"played = wb.rollout(run.checkpoints[-1], seed=1, max_steps={STEPS}, saliency='gradient')",
    "played",
    busy_until("player-seen"),
    "run.watch(0)",
    "run.watch()",
    "wb.rollout(played.path)",
    "wb.rollout(wb.pretrained('cartpole'), seed=1, max_steps=80)",
]



@pytest.fixture(scope="module")
def notebook(open_notebook, pong: Run) -> Notebook:
    return open_notebook(CELLS, run=[ROLLOUT, PLAY])


@pytest.fixture(scope="module")
def player(notebook: Notebook) -> Locator:
    return notebook.output(PLAY).locator(".wb-player")


def step(player: Locator) -> int:
    found = re.match(r"step (\d+)", player.locator(".wb-where").inner_text())
    assert found
    return int(found[1])


def at(player: Locator, index: int) -> None:
    """Until it shows that step."""
    expect(player.locator(".wb-where")).to_contain_text(re.compile(rf"step {index}\b"))


def picture(player: Locator) -> int:
    return pictures(player.locator(".wb-top"))[0]


def test_frames_advance_while_it_plays(player: Locator) -> None:
    expect(player.locator(".wb-where")).to_contain_text(f"step 0 of {STEPS}")
    eventually(lambda: picture(player), what="a first frame")
    before = picture(player)
    player.locator(".wb-play").click()
    eventually(lambda: step(player) >= 10 and picture(player) != before, what="frames that advance")
    player.locator(".wb-play").click()
    stopped = step(player)
    player.page.wait_for_timeout(300)
    assert step(player) == stopped


@pytest.mark.full
def test_it_plays_on_while_the_kernel_is_busy(notebook: Notebook, player: Locator) -> None:
    notebook.run(BUSY, wait=False)
    player.press("Home")
    at(player, 0)
    player.locator(".wb-play").click()
    eventually(lambda: step(player) >= 15, what="frames during the cell")
    assert notebook.cell(BUSY).locator(".jp-InputPrompt").inner_text() == "[*]:"
    player.locator(".wb-play").click()
    end_cell(notebook, "player-seen")
    notebook.wait(BUSY)


@pytest.mark.full
def test_buttons_and_keys_step_scrub_and_change_the_speed(player: Locator) -> None:
    player.press("Home")
    player.locator(".wb-forward").click()
    player.press("ArrowRight")
    at(player, 2)
    player.locator(".wb-back").click()
    at(player, 1)
    player.locator(".wb-scrub").fill("100")
    at(player, 100)
    player.locator(".wb-speed").select_option("max")
    player.locator(".wb-play").click()
    at(player, STEPS)
    player.locator(".wb-speed").select_option("1")


@pytest.mark.full
def test_it_jumps_to_the_next_reward(player: Locator) -> None:
    player.press("Home")
    at(player, 0)
    player.locator(".wb-reward").click()
    expect(player.locator(".wb-where")).not_to_contain_text("step 0 of")
    player.locator(".wb-before").click()
    expect(player.locator(".wb-note")).to_contain_text("No reward before this step")


def test_saliency_lies_over_the_picture_when_it_is_switched_on(player: Locator) -> None:
    player.locator(".wb-scrub").fill("60")
    expect(player.locator(".wb-picture")).to_have_attribute("data-step", "60")  # pictures are decoded a little later
    before = picture(player)
    player.locator(".wb-overlay").check()
    eventually(lambda: picture(player) != before, what="another picture")
    player.locator(".wb-overlay").uncheck()
    eventually(lambda: picture(player) == before, what="the picture as it was")


def test_probabilities_and_values_stand_beside_the_picture(player: Locator) -> None:
    assert all(pictures(player.locator(".wb-screen")))
    expect(player.locator(".wb-said")).to_contain_text("value")


@pytest.mark.full
@pytest.mark.parametrize("kind", ["mp4", "gif"])
def test_it_is_saved_as_a_film(notebook: Notebook, player: Locator, kind: str) -> None:
    player.locator(f".wb-save-{kind}").click()
    expect(player.locator(".wb-saved")).to_contain_text("saved: ")
    saved = Path(player.locator(".wb-saved").inner_text().removeprefix("saved: "))
    assert saved.parent == notebook.server.root and saved.stat().st_size > 10_000


@pytest.fixture(scope="module")
def questioned(notebook: Notebook) -> Locator:
    """A player of the same episode, with its "What if …" opened."""
    notebook.run(WHAT_IF)
    player = notebook.output(WHAT_IF).locator(".wb-player")
    expect(player.locator(".wb-where")).to_contain_text(f"step 0 of {STEPS}")
    player.locator(".wb-whatif > summary").press("Enter")
    return player


def test_another_action_is_forced_and_both_futures_are_seen_in_step(questioned: Locator) -> None:
    player = questioned
    player.locator(".wb-scrub").fill("100")
    at(player, 100)
    expect(player.locator(".wb-at")).to_contain_text("At step 100 the policy did")
    own = player.locator(".wb-at").inner_text()  # a policy that has learned little may go one way all the time
    player.locator(".wb-action").select_option(label="RIGHT" if "LEFT" in own else "LEFT")
    expect(player.locator(".wb-force")).to_be_checked()
    player.locator(".wb-repeat").fill("30")
    player.locator(".wb-branch").press("Enter")
    expect(player.locator(".wb-branch")).to_be_disabled()
    expect(player.locator(".wb-told")).to_contain_text("for 30 steps: return")
    expect(player.locator(".wb-screen")).to_have_count(2)
    expect(player.locator(".wb-parting").first).to_contain_text("they part at step 100")
    at(player, 100)
    expect(player.locator(".wb-said").last).to_contain_text("this action was forced")
    expect(player.locator(".wb-said").first).not_to_contain_text("forced")
    def shown() -> list[int]:
        return [pictures(player.locator(".wb-top").nth(which))[0] for which in (0, 1)]

    def apart() -> bool:
        step = next(steps)
        player.locator(".wb-scrub").fill(str(step))
        at(player, step)
        player.page.wait_for_timeout(300)  # the pictures follow the words
        before = shown()
        player.page.wait_for_timeout(100)
        return before == shown() and before[0] != before[1]

    steps = itertools.cycle((106, 112, 120, 128))
    eventually(apart, what="a difference between the two futures")
    assert player.evaluate(NAMELESS) == []


def test_a_rectangle_of_what_the_policy_sees_is_dragged_and_occluded(questioned: Locator) -> None:
    player = questioned
    player.locator(".wb-futures").select_option("")
    expect(player.locator(".wb-screen")).to_have_count(1)
    player.locator(".wb-scrub").fill("50")
    player.locator(".wb-force").uncheck()
    seen = player.locator(".wb-seen")
    eventually(lambda: pictures(player.locator(".wb-sight"))[0], what="what the policy sees")
    seen.scroll_into_view_if_needed()
    seen.drag_to(seen, source_position={"x": 30, "y": 60}, target_position={"x": 90, "y": 120})
    expect(player.locator(".wb-edit")).to_be_checked()
    left, top, width, height = (int(player.locator(".wb-box").nth(place).input_value()) for place in range(4))
    assert (left, top) == (10, 20) and 18 <= width <= 22 and 18 <= height <= 22
    player.locator(".wb-hold").fill("10")
    player.locator(".wb-branch").click()
    expect(player.locator(".wb-told")).to_contain_text(f"{width}x{height} pixels at (10, 20) in shade 128 for 10 steps")
    expect(player.locator(".wb-said").last).to_contain_text("the policy saw another observation")
    expect(player.locator(".wb-futures option")).to_have_count(3)


def test_a_number_that_the_policy_sees_is_edited_and_a_wrong_one_is_refused_under_the_button(
    notebook: Notebook,
) -> None:
    notebook.run(POLE)
    player = notebook.output(POLE).locator(".wb-player")
    expect(player.locator(".wb-where")).to_contain_text("step 0 of 80")
    player.locator(".wb-whatif > summary").click()
    player.locator(".wb-scrub").fill("30")
    at(player, 30)  # its numbers are in the fields
    angle = player.locator(".wb-number").nth(2)
    expect(angle).to_be_visible()
    angle.fill("1e99")
    player.locator(".wb-branch").click()
    expect(player.locator(".wb-told.wb-error")).to_contain_text("no branch: observation[2]=1e+99 is out of bounds")
    angle.fill("0.2")
    player.locator(".wb-hold").fill("5")
    player.locator(".wb-branch").click()
    expect(player.locator(".wb-told")).to_contain_text("the policy sees pole angle = 0.2 for 5 steps")
    expect(player.locator(".wb-screen")).to_have_count(2)
    at(player, 30)


@pytest.mark.full
def test_a_refreshed_page_plays_again_and_one_without_a_kernel_shows_a_strip(
    notebook: Notebook, player: Locator, browser: Browser
) -> None:
    notebook.save()
    notebook.reload()
    eventually(lambda: picture(player), what="a frame after the refresh")
    notebook.restart()
    notebook.reload()
    expect(notebook.output(PLAY).locator("img:visible").first).to_be_visible()
    notebook.shows_no_broken_widget(browser)


def test_the_live_view_follows_an_environment(notebook: Notebook, pong: Run) -> None:
    notebook.write(ROLLOUT, "import workbench as wb\nrun = wb.resume('pong')")
    notebook.run(ROLLOUT)
    notebook.run(WATCH)
    view = notebook.output(WATCH).locator(".wb-player")
    expect(view.locator(".wb-where")).to_contain_text("step")
    before = picture(view)
    eventually(lambda: picture(view) not in (0, before), what="another frame")


def test_the_wall_shows_all_environments_and_a_click_opens_one(notebook: Notebook, pong: Run) -> None:
    notebook.run(WALL)
    output = notebook.output(WALL)
    tiles = output.locator(".wb-tile")
    expect(tiles).to_have_count(pong.config.actors * pong.config.envs_per_actor)
    eventually(lambda: all(pictures(tiles.nth(at))[0] for at in range(tiles.count())), what="a picture of each")
    before = pictures(output)
    eventually(lambda: all(map(int.__ne__, pictures(output), before)), what="another picture of each")
    expect(tiles.first).to_have_attribute("aria-label", re.compile("return .*, action "))
    assert output.locator(".wb-wall").evaluate(NAMELESS) == []
    tiles.nth(1).press("Enter")
    alone = output.locator(".wb-player")
    expect(alone.locator(".wb-title")).to_contain_text("pong, environment 1 ")
    expect(alone.locator(".wb-where")).to_contain_text("step")
    expect(tiles.nth(1)).to_have_attribute("aria-pressed", "true")
    tiles.nth(1).press("Enter")
    expect(alone).to_have_count(0)


def test_the_end_of_the_run_is_said(notebook: Notebook, pong: Run) -> None:
    view = notebook.output(WATCH).locator(".wb-player")
    pong.stop()
    expect(notebook.output(WALL).locator(".wb-note")).to_contain_text("pong is stop")
    expect(view.locator(".wb-note")).not_to_be_empty()


@pytest.mark.full
def test_live_views_whose_kernel_has_gone_say_so(notebook: Notebook, pong: Run) -> None:
    for cell in (ROLLOUT, WATCH, WALL):  # the first one resumes the run
        notebook.run(cell)
    expect(notebook.output(WALL).locator(".wb-tile").first).to_be_visible()
    expect(notebook.output(WATCH).locator(".wb-where")).to_contain_text("step")
    notebook.server.end_kernels()
    for cell in (WATCH, WALL):
        expect(notebook.output(cell).locator(".wb-note")).to_contain_text("kernel has gone")
    pong.stop()
