"""What travels between the kernel and a page of charts: everything to who says hello, then only what changed."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import pytest

from workbench.widgets.charts import charts
from workbench.widgets.charts.live import Figure, LiveCharts, VegaLib, rows


class Page:
    """The other end of the widget: what it was sent, and what it says."""

    def __init__(self, shown: LiveCharts) -> None:
        self.view = "a"
        self._shown = shown
        self.heard: list[tuple[dict[str, Any], list[memoryview]]] = []
        shown.send = lambda content, buffers=None: self.heard.append((content, buffers or []))

    def say(self, **content: Any) -> tuple[dict[str, Any], list[memoryview]]:
        """The answer."""
        self._shown._handle_custom_msg(content | {"view": self.view}, [])
        return self.heard[-1]


def table(told: tuple[dict[str, Any], list[memoryview]], key: str, name: str) -> dict[str, Any]:
    """As the page unpacks it."""
    packed = told[0]["tables"][key][name]
    columns = dict(packed["texts"])
    if packed["buffer"] is not None:
        numbers = np.frombuffer(told[1][packed["buffer"]], "<f8").reshape(len(packed["numbers"]), packed["length"])
        columns |= {name: column.tolist() for name, column in zip(packed["numbers"], numbers, strict=True)}
    return columns


CHART = alt.Chart(alt.NamedData("points")).mark_line().encode(x="x:Q", y="y:Q")


def figure(values: list[float], labels: list[str] | None = None, chart: Any = CHART, **more: Any) -> Figure:
    points = {"x": np.arange(len(values)), "y": np.array(values, np.float32)}
    return Figure("One", chart, {"points": points, "labels": {"text": labels or ["a"]}}, **more)


@pytest.fixture
def shown() -> LiveCharts:
    return LiveCharts(label="Charts of one")


@pytest.fixture
def page(shown: LiveCharts) -> Page:
    """One that has said hello before anything was shown."""
    page = Page(shown)
    page.say(type="hello")
    page.heard.clear()
    return page


def test_hello_gets_every_chart_and_every_table(shown: LiveCharts, page: Page) -> None:
    shown.show({"one": figure([1.0, float("nan")], ["é", "ü"]), "two": figure([3.0], wide=True)})
    told = page.say(type="hello")
    assert told[0]["whole"] and told[0]["order"] == ["one", "two"]
    assert told[0]["figures"]["two"]["wide"] and told[0]["figures"]["one"]["spec"]["mark"]["type"] == "line"
    assert table(told, "one", "points") == {"x": [0.0, 1.0], "y": [1.0, pytest.approx(np.nan, nan_ok=True)]}
    assert table(told, "one", "labels") == {"text": ["é", "ü"]}
    assert list(shown.figures) == ["one", "two"]


def test_only_the_tables_that_changed_are_sent(shown: LiveCharts, page: Page) -> None:
    shown.show({"one": figure([1.0, 2.0]), "two": figure([3.0])})
    shown.show({"one": figure([1.0, 2.0, 5.0]), "two": figure([3.0])})
    told = page.heard[-1]
    assert told[0]["figures"] == {} and not told[0]["whole"]
    assert {key: list(tables) for key, tables in told[0]["tables"].items()} == {"one": ["points"]}
    assert table(told, "one", "points")["y"] == [1.0, 2.0, 5.0]
    assert len(told[1]) == 1 and told[1][0].nbytes == 2 * 3 * 8


def test_until_a_page_was_heard_everything_is_sent_whole(shown: LiveCharts) -> None:
    page = Page(shown)
    shown.show({"one": figure([1.0]), "two": figure([3.0])})
    shown.show({"one": figure([1.0, 2.0]), "two": figure([3.0])})
    told = page.heard[-1]
    assert told[0]["whole"] and told[0]["view"] is None and list(told[0]["figures"]) == ["one", "two"]
    assert table(told, "two", "points")["y"] == [3.0]
    page.say(type="hello")
    shown.show({"one": figure([1.0, 2.0, 5.0]), "two": figure([3.0])})
    assert not page.heard[-1][0]["whole"] and page.heard[-1][0]["figures"] == {}


def test_an_answer_is_for_the_page_that_asked_and_no_other_misses_a_number(shown: LiveCharts, page: Page) -> None:
    shown.show({"one": figure([1.0])})
    page.view = "b"
    for asked in ({"type": "hello"}, {"type": "pull", "serial": 1}, {"type": "pull", "serial": 0}):
        told, _ = page.say(**asked)
        assert (told["view"], told["serial"]) == ("b", 1)
    shown.show({"one": figure([2.0])})
    assert (page.heard[-1][0]["view"], page.heard[-1][0]["serial"]) == (None, 2)


def test_nothing_is_sent_where_nothing_changed(shown: LiveCharts, page: Page) -> None:
    for _ in range(3):
        shown.show({"one": figure([1.0, float("nan")])})
    assert len(page.heard) == 1


def test_another_chart_is_sent_with_all_of_its_tables(shown: LiveCharts, page: Page) -> None:
    shown.show({"one": figure([1.0]), "two": figure([2.0])})
    shown.show({"one": figure([1.0], chart=CHART.mark_bar()), "two": figure([2.0])})
    told = page.heard[-1][0]
    assert list(told["figures"]) == ["one"] and told["figures"]["one"]["spec"]["mark"]["type"] == "bar"
    assert told["tables"].keys() == {"one"} and told["tables"]["one"].keys() == {"points", "labels"}


def test_figures_come_go_and_change_places(shown: LiveCharts, page: Page) -> None:
    one, two, three = figure([1.0]), figure([2.0]), figure([3.0])
    shown.show({"one": one, "two": two})
    shown.show({"two": two, "three": three})
    assert page.heard[-1][0]["order"] == ["two", "three"] and list(page.heard[-1][0]["figures"]) == ["three"]
    shown.show({"three": three, "two": two})
    assert page.heard[-1][0]["order"] == ["three", "two"] and page.heard[-1][0]["figures"] == {}


def test_messages_are_numbered_so_that_a_page_knows_what_it_missed(shown: LiveCharts, page: Page) -> None:
    for value in range(3):
        shown.show({"one": figure([float(value)])})
    numbers = [content["serial"] for content, _ in page.heard]
    assert np.diff(numbers).tolist() == [1, 1]
    assert not page.say(type="pull", serial=numbers[-1])[0]["whole"]
    assert page.say(type="pull", serial=numbers[0])[0]["whole"]


def test_a_pull_brings_up_to_date_first_and_is_always_answered() -> None:
    shown = LiveCharts(on_pull=lambda: shown.show({"one": figure([1.0, 2.0])}))
    assert shown.pulls and not LiveCharts().pulls
    page = Page(shown)
    page.say(type="hello")
    shown.show({"one": figure([1.0])})
    page.say(type="pull", serial=1)
    page.say(type="pull", serial=page.heard[-1][0]["serial"])
    assert page.heard[-1][0]["tables"] == {} and page.heard[-1][0]["order"] == ["one"]
    told = page.say(type="hello")
    assert table(told, "one", "points")["y"] == [1.0, 2.0]


def test_a_chart_that_altair_refuses_says_why_and_the_others_are_shown(shown: LiveCharts, page: Page) -> None:
    broken = alt.Chart(alt.NamedData("points")).mark_line().encode(x="x")
    shown.show({"broken": figure([1.0], chart=broken), "one": figure([2.0])})
    told = page.heard[-1][0]["figures"]
    assert "x encoding field is specified without a type" in told["broken"]["spec"]["problem"]
    assert told["one"]["spec"]["mark"]["type"] == "line"


def test_one_vega_serves_all_charts_of_a_kernel_and_comes_back_when_it_was_closed() -> None:
    first, second = LiveCharts(), LiveCharts()
    assert first.lib is second.lib is VegaLib.shared()
    VegaLib.shared().close()
    assert LiveCharts().lib is not first.lib


def test_charts_of_the_same_kind_are_the_same_object_over_other_data() -> None:
    def drawn(values: list[float], **how: Any) -> Figure:
        points = np.arange(len(values), dtype=float)
        series = dict.fromkeys(("frames", "steps", "updates", "time_s"), points) | {"value": np.array(values)}
        return charts.lines({"rate": series}, title="Rate", **how)

    assert drawn([1.0, 2.0]).chart is drawn([5.0, 7.0, 9.0]).chart
    assert drawn([1.0, 2.0]).chart is not drawn([1.0, 2.0], axis="hours").chart
    assert drawn([1.3, 1.7], log=True).chart is drawn([1.2, 1.6], log=True).chart


def test_rows_are_what_vega_lite_reads() -> None:
    assert rows({"x": np.array([1, 2]), "y": np.array([np.inf, 0.5]), "text": ["a", "b"]}) == [
        {"x": 1.0, "y": None, "text": "a"}, {"x": 2.0, "y": 0.5, "text": "b"}]
    assert rows({"x": np.zeros(0)}) == []
