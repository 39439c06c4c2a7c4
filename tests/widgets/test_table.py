"""The table's Python half: what it sends, when it does what a button asks for, and where errors are said."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import eventually
from workbench import tables
from workbench.widgets.views.table import Action, Column, RowTable

COLUMNS = [Column("name", "name"), Column("frames", "frames", "number")]
ACTIONS = [Action("stop", "Stop", confirm="Stop {key}?"), Action("show", "Show")]
SOURCES = Path(__file__).parents[2] / "widgets" / "src"


class Recorded(RowTable):
    """Keeps what it sends."""

    def send(self, content: dict[str, Any], buffers: Any = None) -> None:
        json.dumps(content, allow_nan=False)
        vars(self).setdefault("messages", []).append(content)
        super().send(content, buffers)

    def said_by_browser(self, **content: Any) -> list[dict[str, Any]]:
        """What the table sends on that message."""
        self.messages.clear()
        self._handle_custom_msg(content, [])
        return list(self.messages)


def table(**given: Any) -> Recorded:
    made = Recorded(COLUMNS, label="Things", actions=ACTIONS, **given)
    made.show([{"key": "a", "name": "a", "frames": 1}, {"key": "b", "name": "b", "frames": np.int64(2)}])
    return made


def test_only_rows_that_changed_are_sent_and_nothing_where_none_did() -> None:
    shown = table()
    shown.messages.clear()
    shown.show([{"key": "a", "name": "a", "frames": 1}, {"key": "b", "name": "b", "frames": 3}])
    (message,) = shown.messages
    assert [row["key"] for row in message["rows"]] == ["b"] and message["keys"] == ["a", "b"]
    assert not message["all"]
    shown.show([{"key": "a", "name": "a", "frames": 1}, {"key": "b", "name": "b", "frames": 3}])
    assert len(shown.messages) == 1
    shown.show([{"key": "b", "name": "b", "frames": 3}])
    assert shown.messages[-1]["keys"] == ["b"] and shown.messages[-1]["rows"] == []


def test_a_view_that_appears_gets_everything() -> None:
    (message,) = table().said_by_browser(type="hello")
    assert message["all"] and [row["frames"] for row in message["rows"]] == [1, 2]


def test_a_view_that_hears_nothing_is_refreshed_first() -> None:
    shown = table(on_pull=lambda: shown.show([{"key": "c", "name": "c", "frames": 9}]))
    *_, message = shown.said_by_browser(type="pull")
    assert message["all"] and [row["key"] for row in message["rows"]] == ["c"]
    shown.messages.clear()
    shown.show([{"key": "c", "name": "c", "frames": 9}])
    assert shown.messages, "a view that would pull hears that nothing changed"


def test_what_is_no_number_is_an_empty_cell() -> None:
    shown = table()
    shown.show([{"key": "a", "frames": float("nan"), "curve": np.array([1.0, np.inf]), "name": [(1, float("nan"))]}])
    assert shown.rows == [{"key": "a", "frames": None, "curve": [1.0, None], "name": [[1, None]]}]


def test_a_button_is_obeyed_in_a_thread_and_its_row_says_so_meanwhile() -> None:
    go, done = threading.Event(), []

    def act(key: str, action: str) -> str:
        assert go.wait(240)
        done.append((key, action, threading.current_thread() is threading.main_thread()))
        return "it is stopped"

    shown = table(on_action=act)
    shown.said_by_browser(type="action", key="a", action="stop")
    assert shown.rows[0] | {"busy": True, "note": "Stop …", "bad": False} == shown.rows[0]
    shown.said_by_browser(type="action", key="a", action="stop")  # clicked twice
    go.set()
    eventually(lambda: shown.said == "it is stopped")
    assert done == [("a", "stop", False)]
    assert "busy" not in shown.rows[0] and "note" not in shown.rows[0]


def test_what_goes_wrong_is_said_under_its_row_until_the_next_try() -> None:
    fails = [True]

    def act(key: str, action: str) -> None:
        if fails.pop() if fails else False:
            raise ValueError("the disk is full\nand so on")

    shown = table(on_action=act)
    shown.act("b", "show")
    eventually(lambda: shown.rows[1].get("note") == "the disk is full\nand so on" and shown.rows[1]["bad"])
    assert "note" not in shown.rows[0]
    shown.show([{"key": "b", "name": "b", "frames": 8}])
    assert shown.rows[0]["note"].startswith("the disk is full")
    shown.act("b", "show")
    eventually(lambda: "note" not in shown.rows[0])


def test_what_goes_wrong_with_a_row_that_went_away_is_said_under_the_table() -> None:
    go = threading.Event()

    def act(key: str, action: str) -> None:
        go.wait(240)
        raise ValueError("it is gone")

    shown = table(on_action=act)
    shown.act("b", "show")
    shown.show([])
    go.set()
    eventually(lambda: shown.said == "it is gone")


def test_rows_wait_for_themselves_alone() -> None:
    first, done = threading.Event(), []

    def act(key: str, action: str) -> None:
        if key == "a":
            first.wait(240)
        done.append(key)

    shown = table(on_action=act)
    shown.act("a", "stop")
    shown.act("b", "stop")
    eventually(lambda: done == ["b"])
    first.set()
    eventually(lambda: done == ["b", "a"])


@pytest.mark.parametrize("content", [
    {}, {"type": "dance"}, {"type": "action"}, {"type": "action", "key": "a", "action": "explode"},
    {"type": "action", "key": "nobody", "action": "stop"}, {"type": "select", "key": "nobody"}, {"type": "select"},
])  # fmt: skip
def test_messages_that_make_no_sense_change_nothing(content: dict[str, Any]) -> None:
    done: list[Any] = []
    shown = table(on_action=lambda *given: done.append(given), on_select=done.append)
    before = shown.rows
    shown.said_by_browser(**content)
    assert shown.rows == before and done == [] and shown.selected is None


def test_a_row_is_chosen() -> None:
    chosen: list[str] = []
    shown = table(selectable=True, on_select=chosen.append)
    shown.said_by_browser(type="select", key="b")
    assert chosen == ["b"] and shown.selected == "b"


def test_the_browser_says_numbers_and_times_as_python_does(tmp_path: Path) -> None:
    if not (node := shutil.which("node")):
        pytest.skip("needs node to run widgets/src/numbers.js")
    chance = random.Random(0)
    values = [0, -1, 0.5, 99.5, 100.5, 101.5, -100.5, 999_999.5, 1e6, 999_999_999, 1e9, 9.9995e12, -1.25e6, 1e-7]
    values += [chance.uniform(-1, 1) * 10 ** chance.uniform(-8, 14) for _ in range(2000)]
    values += [chance.randrange(1, 8000) / 8 for _ in range(1000)]  # exact ties
    times = [0, 0.5, 59.4, 59.6, 90, 150, 3599, 86_400, *(chance.uniform(0, 5e5) for _ in range(500))]
    (tmp_path / "try.mjs").write_text(f"""
import {{ duration, number }} from {json.dumps((SOURCES / "numbers.js").as_uri())};
console.log(JSON.stringify([{json.dumps(values)}.map(number), {json.dumps(times)}.map(duration)]));
""")
    said = json.loads(subprocess.check_output([node, str(tmp_path / "try.mjs")], text=True))
    assert said == [[tables.number(one) for one in values], [tables.duration(one) for one in times]]
