"""The table in a real page, without a kernel: the test plays the kernel's part."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.driver import Browser
from workbench.widgets.kernel import assets
from workbench.widgets.views.table import Action, Column

COLUMNS = [Column("name", "name"), Column("state", "state", "state"), Column("frames", "frames", "number"),
           Column("seen", "seen", "ago"), Column("curve", "curve", "sparkline")]
ACTIONS = [Action("show", "Show"), Action("stop", "Stop", confirm="Stop {key}?", danger=True)]
START = """async ([source, style, shape]) => {
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const { default: table } = await import(url);
  const heard = { "msg:custom": [], "change:selected": [] };
  window.sent = [];
  window.selected = null;
  window.tell = (message) => heard["msg:custom"].forEach((one) => one(message, []));
  window.choose = (key) => { window.selected = key; heard["change:selected"].forEach((one) => one()); };
  const model = {
    get: (name) => ({ _shape: shape, selected: window.selected })[name], send: (content) => window.sent.push(content),
    on: (event, one) => heard[event].push(one),
    off: (event, one) => heard[event].splice(heard[event].indexOf(one), 1),
  };
  window.heard = heard;
  document.head.append(Object.assign(document.createElement("style"), { textContent: style }));
  window.end = table.render({ model, el: document.querySelector("#table") });
}"""


class Shown:
    """A table in the page, and what it sends."""

    def __init__(self, page: Page, **shape: Any) -> None:
        self.page = page
        page.set_content('<div id="table"></div>')
        given = {"columns": [asdict(one) for one in COLUMNS], "actions": [asdict(one) for one in ACTIONS],
                 "label": "Runs", "selectable": True, "pulls": False, "empty": "no runs", "row": "{key}", **shape}
        page.evaluate(START, [assets.text("table.js"), assets.text("table.css"), given])

    def tell(self, rows: Sequence[Mapping[str, Any]], *, keys: Sequence[str] | None = None, all: bool = False,
             said: str = "") -> None:
        """What the kernel says."""
        order = [row["key"] for row in rows] if keys is None else keys
        self.page.evaluate("message => window.tell(message)", {
            "type": "rows", "all": all, "keys": order, "rows": rows, "now": time.time(),
            "said": {"text": said, "bad": False}})

    @property
    def sent(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.page.evaluate("window.sent.splice(0)")
        return found

    @property
    def keys(self) -> list[str]:
        found: list[str] = self.page.evaluate("[...document.querySelectorAll('tr[data-key]')].map(r => r.dataset.key)")
        return found

    def row(self, key: str) -> Locator:
        return self.page.locator(f'tr[data-key="{key}"]')

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)


def row(key: str, frames: int, **cells: Any) -> dict[str, Any]:
    return {"key": key, "name": key, "state": "training", "frames": frames, "seen": time.time() - 5,
            "curve": [[0, 1], [1, 2], [2, frames]], **cells}


@pytest.fixture
def shown(browser: Browser) -> Iterator[Shown]:
    made = Shown(browser.page)
    assert made.sent == [{"type": "hello"}]
    made.tell([row("pong-1", 100), row("pong-2", 12_400), row("pong-10", 3_000_000)], all=True)
    yield made
    browser.page.goto("about:blank")


def test_cells_are_shown_by_their_kind_and_named_for_those_who_do_not_see_them(shown: Shown) -> None:
    cells = shown.row("pong-10").locator("th, td")
    expect(cells.nth(0)).to_have_text("pong-10")
    expect(cells.nth(1).locator(".wb-badge")).to_have_text("training")
    expect(cells.nth(2)).to_have_text("3 M")
    seen = re.compile(r"(\d+) s ago")
    expect(cells.nth(3)).to_have_text(seen)
    first = cells.nth(3).inner_text()
    expect(cells.nth(3)).not_to_have_text(first)  # it counts by itself
    began, later = (int(seen.fullmatch(text)[1]) for text in (first, cells.nth(3).inner_text()))
    assert 5 <= began < later
    spark = shown.row("pong-1").get_by_role("img")
    expect(spark).to_have_attribute("aria-label", "curve from 1 to 100, lowest 1, highest 100")
    expect(shown.page.get_by_role("grid", name="Runs")).to_be_visible()
    expect(shown.button("Stop pong-2")).to_be_visible()


def test_a_header_sorts_both_ways_and_back(shown: Shown) -> None:
    header = shown.page.locator("th", has=shown.button("frames"))
    shown.button("frames").click()
    assert shown.keys == ["pong-10", "pong-2", "pong-1"]
    expect(header).to_have_attribute("aria-sort", "descending")
    shown.button("frames").press("Enter")
    assert shown.keys == ["pong-1", "pong-2", "pong-10"]
    expect(header).to_have_attribute("aria-sort", "ascending")
    shown.button("frames").click()
    expect(header).to_have_attribute("aria-sort", "none")


def test_a_sort_holds_while_rows_change_and_the_focus_stays_on_its_button(shown: Shown) -> None:
    shown.button("frames").click()
    shown.page.mouse.move(0, 900)
    shown.button("Show pong-1").focus()
    shown.tell([row("pong-1", 5_000_000)], keys=["pong-1", "pong-2", "pong-10"])
    assert shown.keys == ["pong-1", "pong-10", "pong-2"]
    expect(shown.button("Show pong-1")).to_be_focused()
    shown.tell([row("new", 9_000_000)], keys=["new", "pong-1", "pong-2", "pong-10"])
    assert shown.keys[0] == "new"
    expect(shown.button("Show pong-1")).to_be_focused()


def test_rows_do_not_move_under_a_pointer(shown: Shown) -> None:
    shown.button("frames").click()
    shown.row("pong-2").hover()
    shown.tell([row("pong-1", 5_000_000)], keys=["pong-1", "pong-2", "pong-10"])
    assert shown.keys == ["pong-10", "pong-2", "pong-1"]
    shown.page.mouse.move(0, 900)
    shown.tell([], keys=["pong-1", "pong-2", "pong-10"])
    assert shown.keys == ["pong-1", "pong-10", "pong-2"]


def test_an_action_is_confirmed_in_its_row_and_an_update_does_not_take_the_question_away(shown: Shown) -> None:
    shown.button("Show pong-2").click()
    assert shown.sent == [{"type": "action", "key": "pong-2", "action": "show"}]
    shown.button("Stop pong-2").click()
    question = shown.page.get_by_role("group", name="Stop pong-2?")
    expect(question).to_be_visible()
    expect(question.get_by_role("button", name="Cancel")).to_be_focused()
    shown.tell([row("pong-2", 77)], keys=["pong-1", "pong-2", "pong-10"])
    expect(question).to_be_visible()
    expect(question.get_by_role("button", name="Cancel")).to_be_focused()
    assert shown.sent == []
    question.get_by_role("button", name="Stop").click()
    assert shown.sent == [{"type": "action", "key": "pong-2", "action": "stop"}]
    expect(question).to_have_count(0)


def test_escape_takes_a_question_back(shown: Shown) -> None:
    shown.button("Stop pong-1").focus()
    shown.page.keyboard.press("Enter")
    expect(shown.page.get_by_role("group", name="Stop pong-1?")).to_be_visible()
    shown.page.keyboard.press("Escape")
    expect(shown.button("Stop pong-1")).to_be_focused()
    assert shown.sent == []


def test_arrows_move_the_focus_and_enter_chooses_a_row(shown: Shown) -> None:
    shown.row("pong-1").focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        shown.page.keyboard.press(key)
    expect(shown.button("Stop pong-2")).to_be_focused()
    shown.page.keyboard.press("ArrowUp")
    expect(shown.button("Stop pong-1")).to_be_focused()
    shown.page.keyboard.press("ArrowUp")
    expect(shown.button("frames")).to_be_focused()
    shown.row("pong-2").focus()
    shown.page.keyboard.press("Enter")
    assert shown.sent == [{"type": "select", "key": "pong-2"}]
    shown.page.evaluate("window.choose('pong-2')")
    expect(shown.row("pong-2")).to_have_attribute("aria-selected", "true")


def test_a_note_is_under_its_row_and_a_busy_row_takes_no_clicks(shown: Shown) -> None:
    failed = row("pong-1", 1, note="the disk is full\nTraceback ...\n  line 7", bad=True)
    shown.tell([failed, row("pong-2", 1, busy=True, note="Stop …", bad=False)], keys=shown.keys)
    expect(shown.page.get_by_role("alert")).to_contain_text("the disk is full")
    assert shown.page.evaluate("document.querySelector('tr[data-key=pong-1]').nextSibling.innerText").startswith("the")
    expect(shown.page.get_by_text("line 7")).to_be_hidden()
    shown.page.get_by_text("details").click()
    expect(shown.page.get_by_text("line 7")).to_be_visible()
    expect(shown.button("Stop pong-2")).to_be_disabled()
    shown.tell([row("pong-1", 1)], keys=shown.keys)
    expect(shown.page.get_by_role("alert")).to_have_count(0)


def test_what_a_row_cannot_do_is_not_offered_and_the_focus_stays_in_the_row(shown: Shown) -> None:
    shown.button("Stop pong-1").focus()
    shown.tell([row("pong-1", 1, actions=["show"])], keys=shown.keys)
    expect(shown.button("Stop pong-1")).to_have_count(0)
    expect(shown.row("pong-1")).to_be_focused()
    shown.tell([], keys=["pong-2"])
    expect(shown.row("pong-2")).to_be_focused()
    shown.tell([], keys=[], said="all are deleted")
    expect(shown.page.get_by_text("no runs")).to_be_visible()
    expect(shown.page.get_by_role("status").filter(has_text="all are deleted")).to_be_visible()


def test_names_are_text_and_never_markup(shown: Shown) -> None:
    evil = '<img src=x onerror="window.pwned=1">'
    shown.tell([row("pong-1", 1, name=evil, state=evil, note=evil)], keys=shown.keys, said=evil)
    expect(shown.row("pong-1").locator("th")).to_have_text(evil)
    assert shown.page.locator("img").count() == 0 and not shown.page.evaluate("window.pwned")


def test_a_view_that_missed_a_row_asks_for_everything(shown: Shown) -> None:
    shown.tell([], keys=["pong-1", "unheard-of"])
    assert shown.sent == [{"type": "hello"}] and shown.keys == ["pong-1"]


def test_a_view_that_hears_nothing_pulls_and_one_that_ended_does_nothing(browser: Browser) -> None:
    shown = Shown(browser.page, pulls=True)
    shown.tell([row("a", 1)], all=True)
    shown.page.wait_for_function("window.sent.some(one => one.type === 'pull')")
    shown.page.wait_for_function("window.sent.some(one => one.type === 'seen')")
    shown.page.evaluate("window.end()")
    assert shown.page.evaluate("Object.values(window.heard).flat().length") == 0


def test_a_wide_table_scrolls_within_itself(shown: Shown) -> None:
    shown.page.set_viewport_size({"width": 420, "height": 800})
    try:
        wide = shown.page.evaluate("""() => { const one = document.querySelector('.wb-scroll');
            return [one.scrollWidth > one.clientWidth, document.documentElement.scrollWidth <= innerWidth] }""")
        assert wide == [True, True]
    finally:
        shown.page.set_viewport_size({"width": 1400, "height": 1000})
