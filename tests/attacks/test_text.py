"""Text is text wherever it is shown: names, events and records of anything in every card, table, panel and export."""

from __future__ import annotations

import html
import unicodedata
from html.parser import HTMLParser
from pathlib import Path

import mistune
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.attacks import hostile
from tests.attacks.hostile import MARK, PIECES
from workbench import tables
from workbench.running.card.card import Card, Section, card
from workbench.tables import Table
from workbench.widgets.inspector import figures, still
from workbench.widgets.panel.panel import RunPanel

ALLOWED = {"h1", "h2", "p", "table", "thead", "tbody", "tr", "td", "th", "pre", "code", "svg", "g", "path", "line",
           "text", "polyline", "rect", "title", "desc", "br", "circle", "defs", "clippath", "style", "head", "body",
           "html", "meta", "tspan", "div"}
PANEL = {"b", "div", "span", "img", "details", "summary", "ul", "li"}
hostile_text = st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map(lambda parts: MARK + MARK.join(parts))
marked_up = st.text("_*#-+=.)12 a:>|\\`~$[]!&<\"'^{}/", max_size=20)  # all that Markdown knows, in any order
any_text = hostile_text | marked_up | st.text(max_size=40)


class Tags(HTMLParser):
    """What a page is made of."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [str(value) for name, value in attrs if name in ("href", "src", "xlink:href")]


class Words(HTMLParser):
    """What a page says."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.said = ""
        self.feed(page)

    def handle_data(self, data: str) -> None:
        self.said += data


def check(page: str, *, allowed: set[str] = ALLOWED) -> None:
    """No tag, handler or address in the page comes from what it shows."""
    found = Tags(page)
    assert found.tags <= allowed, found.tags - allowed
    assert not {name for name in found.attributes if name.startswith("on")}
    assert not [link for link in found.links if "evil" in link or "script" in link]


def as_page(markdown: str) -> str:
    """As GitHub and JupyterLab read it: HTML in it counts."""
    return str(mistune.create_markdown(escape=False, plugins=["table", "strikethrough"])(markdown))


@pytest.mark.parametrize("text", [MARK.join(PIECES), MARK.join(reversed(PIECES)), *PIECES[:4]])
def test_every_view_of_a_run_shows_hostile_text_as_text(home: Path, text: str) -> None:
    run = hostile.run(home, MARK + text)
    shown = card(run)
    check(shown.html)
    check(as_page(shown.markdown))
    assert MARK not in shown.code, "whoever pastes it runs nothing of the text"
    compile(shown.code, "again", "exec")
    table = wb.runs()
    check(table._repr_html_())
    assert len(table) == 1
    if text not in PIECES:  # a panel takes a second
        panel = RunPanel(wb.attach(run.path))
        try:
            check(dict(panel._repr_mimebundle_()).get("text/html", ""), allowed=ALLOWED | PANEL)
        finally:
            panel.close()


@pytest.mark.parametrize("name", [
    MARK.join(PIECES), "a\u2028b", "\0", 'x" + datum.low + "', 'x\\" + datum.low + "', "\\"])
def test_a_layer_of_any_name_has_a_histogram(name: str) -> None:
    figure = figures.histogram(name, (np.linspace(0, 1, 5), np.ones(4)))
    assert still._png({"timeline": figure, "weights": figure}).startswith(b"\x89PNG")


@given(cells=st.lists(any_text, min_size=1, max_size=4))
def test_a_card_shows_any_text_letter_by_letter(cells: list[str]) -> None:
    rows = tuple((cell, cell, "") for cell in cells)
    shown = Card(cells[0], cells[-1], (Section("Result", rows),), "", "")
    for page in (shown.html, as_page(shown.markdown)):
        check(page)
    words = Words(as_page(shown.markdown)).said
    for cell in cells:
        assert tables.plain(" ".join(cell.split())) in " ".join(words.split())


@given(cells=st.lists(any_text, min_size=1, max_size=4))
def test_a_table_shows_any_text_letter_by_letter(cells: list[str]) -> None:
    table = Table(cells, {cells[0]: str}, empty=cells[-1])
    check(table._repr_html_())
    assert all(html.escape(cell) in table._repr_html_() for cell in cells)
    check(Table((), {}, empty=cells[0])._repr_html_())


@given(cells=st.lists(any_text | st.text("ab\x1b\n\r\x9b\u202e\u2066\u2028\x00", max_size=10), min_size=1, max_size=4))
def test_a_table_in_a_terminal_has_a_line_a_row_and_no_character_that_moves_or_turns(cells: list[str]) -> None:
    shown = repr(Table(cells, {"name": str}, empty=""))
    assert len(shown.split("\n")) == 1 + len(cells)
    assert not [one for one in shown if one != "\n" and unicodedata.category(one) == "Cc" or one in "\u202e\u2066"]
