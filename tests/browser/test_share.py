"""The file of `run.share()` in a browser that has no network: it plays, zooms, and hostile text in it does nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.attacks import hostile
from tests.attacks.hostile import MARK, TEXT
from tests.browser.axe import barriers, missed_by_tab, whole
from tests.browser.driver import Browser
from tests.browser.on_screen import pictures
from tests.browser.test_hostile_text import nothing_came_of_it
from tests.conftest import eventually
from tests.widgets import recorded
from tests.widgets.test_share import steered
from workbench.running.handle import Run

STEPS = 60
Open = Callable[[str], Page]


@pytest.fixture(scope="module")
def files(browser_home: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("shared")
    shared = steered("shared")
    recorded.rollout(shared, steps=STEPS)
    evil = hostile.run(browser_home, TEXT, hostile.file_name("shared" + TEXT))
    recorded.rollout(evil, text=TEXT[:400])
    return {name: Run(run).share(folder / f"{name}.html") for name, run in (("good", shared), ("evil", evil))}


@pytest.fixture
def opened(browser: Browser, files: dict[str, Path]) -> Iterator[Open]:
    """opened("good") shows that file, without a network."""

    def opened(name: str) -> Page:
        browser.page.goto(files[name].as_uri())
        return browser.page

    browser.page.context.set_offline(True)
    yield opened
    browser.page.context.set_offline(False)
    browser.page.goto("about:blank")


def canvas(page: Page, title: str) -> Locator:
    return page.locator(f"#charts canvas[aria-label='{title}']")


def words(page: Page, title: str) -> Locator:
    """What the chart says under its drawing."""
    return page.locator("#charts figure", has=page.locator(f"canvas[aria-label='{title}']")).locator(".words")


def ranges(page: Page) -> list[tuple[float, float]]:
    """The ends of the axis of every chart of time that is shown."""
    read = """all => all.filter(one => one.tabIndex === 0 && one.checkVisibility())
        .map(one => [Number(one.dataset.low), Number(one.dataset.high)])"""
    found: list[tuple[float, float]] = page.locator("#charts canvas").evaluate_all(read)
    return [(low, high) for low, high in found]


def one_range(page: Page) -> tuple[float, float]:
    """The ends of the axis, which all charts share."""
    found = ranges(page)
    assert len(found) == 5 and len(set(found)) == 1, found
    return found[0]


def test_every_chart_is_drawn_and_the_sections_open(opened: Open) -> None:
    page = opened("good")
    eventually(lambda: len(pictures(page.locator("#charts .grid"))) == 5 and all(pictures(
        page.locator("#charts .grid"))), what="five charts")
    for section in page.locator("#charts details").all():
        section.locator("summary").click()
        eventually(lambda section=section: all(pictures(section)), what="the charts of a section")
    expect(page.locator("h1")).to_contain_text("shared")
    expect(page.locator("#card")).to_contain_text("ALE/Pong-v5")
    expect(page.locator("#configuration tr.changed")).to_contain_text("learning_rate")


def test_the_rollout_plays(opened: Open) -> None:
    page = opened("good")
    where, top = page.locator(".wb-where"), page.locator(".wb-top")
    expect(where).to_contain_text(f"step 0 of {STEPS}")
    eventually(lambda: pictures(top)[0], what="a first frame")
    before = pictures(top)[0]
    page.locator(".wb-play").click()
    eventually(lambda: int(re.findall(r"step (\d+)", where.inner_text())[0]) > 5 and pictures(top)[0] != before,
               what="frames that advance")
    expect(page.locator(".wb-saves")).to_be_hidden()


def test_wheel_drag_and_double_click_zoom_all_charts_together(opened: Open) -> None:
    page = opened("good")
    chart = canvas(page, "Speed")
    chart.scroll_into_view_if_needed()
    eventually(lambda: len(ranges(page)) == 5, what="charts")
    whole = one_range(page)
    chart.hover()
    page.mouse.wheel(0, -600)
    eventually(lambda: one_range(page) != whole, what="zoomed by the wheel")
    low, high = one_range(page)
    assert whole[0] < low < high < whole[1]
    chart.dblclick()
    eventually(lambda: one_range(page) == whole, what="all again")
    box = chart.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 50, steps=4)
    page.mouse.up()
    eventually(lambda: one_range(page) != whole, what="zoomed by a drag")
    low, high = one_range(page)
    assert 0.15 < (high - low) / (whole[1] - whole[0]) < 0.5
    chart.focus()
    page.keyboard.press("0")
    eventually(lambda: one_range(page) == whole, what="all again by the keyboard")


def test_the_pointer_reads_all_charts_at_one_place_and_the_events(opened: Open) -> None:
    page = opened("good")
    canvas(page, "Speed").hover()
    for title in ("Episode return", "Speed", "Losses"):
        expect(words(page, title)).to_contain_text("frames")
    expect(words(page, "Speed")).to_contain_text("5,000")
    strip = canvas(page, "Events")
    strip.scroll_into_view_if_needed()
    box, (low, high) = strip.bounding_box(), one_range(page)
    assert box is not None
    left, right = 92, box["width"] - 10
    place = left + (80 * 2560 - low) / (high - low) * (right - left)
    page.mouse.move(box["x"] + place, box["y"] + 3.5 * 20)
    expect(words(page, "Events")).to_contain_text("error: actor-0 ended")


def test_one_choice_sets_the_axis_of_all_charts(opened: Open) -> None:
    page = opened("good")
    page.get_by_role("button", name="updates").click()
    eventually(lambda: one_range(page) == (1, 120), what="updates")
    expect(page.get_by_role("button", name="updates")).to_have_attribute("aria-pressed", "true")


def test_hostile_text_in_a_shared_file_is_shown_and_does_nothing(opened: Open) -> None:
    page = opened("evil")
    expect(page.locator("h1")).to_contain_text(MARK)
    expect(page.locator(".wb-title")).to_contain_text(MARK)
    page.locator(".wb-play").click()
    body = page.locator("body")
    assert body.evaluate("root => !root.querySelector('iframe, img, a, base, object, embed')")
    assert page.evaluate("() => window.broken") is None
    nothing_came_of_it(page.locator("main"))


def test_nothing_but_the_file_is_asked_for(opened: Open, files: dict[str, Path], browser: Browser) -> None:
    asked: list[str] = []
    browser.page.on("request", lambda request: asked.append(request.url))
    page = opened("good")
    page.locator(".wb-play").click()
    eventually(lambda: all(pictures(page.locator("#charts .grid"))), what="charts")
    assert [one for one in asked if not one.startswith(("data:", "blob:"))] == [files["good"].as_uri()]


@pytest.mark.full
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_a_shared_file_keeps_nobody_out(opened: Open, theme: Literal["dark", "light"]) -> None:
    page = opened("good")
    page.emulate_media(color_scheme=theme)
    for summary in page.locator("details > summary").all():
        summary.click()
    try:
        with whole(page.locator("body")):
            findings = [*barriers(page.locator("html")), *missed_by_tab(page.locator("body"))]
    finally:
        page.emulate_media(color_scheme="null")
    assert not findings, "\n".join(findings)


@pytest.mark.full
@pytest.mark.parametrize("width", [1400, 1000, 390])
def test_nothing_sticks_out_of_the_window(opened: Open, width: int) -> None:
    page = opened("good")
    page.set_viewport_size({"width": width, "height": 1000})
    try:
        eventually(lambda: page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"))
    finally:
        page.set_viewport_size({"width": 1400, "height": 1000})
