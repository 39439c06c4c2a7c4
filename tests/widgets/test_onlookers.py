"""Whether somebody looks at a view, by what its pages say."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from IPython.core.interactiveshell import InteractiveShell

from workbench.widgets.charts.live import LiveCharts
from workbench.widgets.kernel import onlookers
from workbench.widgets.kernel.onlookers import Onlookers


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets seconds pass."""
    now = [1000.0]
    monkeypatch.setattr(onlookers, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def wait(seconds: float) -> None:
        now[0] += seconds

    return wait


def test_a_page_that_was_reloaded_leaves_nobody_behind(passes: Callable[[float], None]) -> None:
    shown, woken = LiveCharts(), list[str]()
    lookers = Onlookers(shown, wake=lambda: woken.append("awake"))
    for _ in range(3):  # each page but the last is lost without a word
        shown._handle_custom_msg({"type": "hello", "view": "a page"}, [])
    assert len(woken) == 3
    for _ in range(6):
        passes(10.0)
        shown._handle_custom_msg({"type": "seen"}, [])
    assert lookers.present and len(woken) == 3, "it is awake already"
    passes(61.0)
    assert not lookers.present
    shown._handle_custom_msg({"type": "seen"}, [])  # a tab that was hidden
    assert lookers.present and len(woken) == 4


def test_nobody_goes_while_a_cell_runs_since_pages_may_not_be_heard(
    passes: Callable[[float], None], cell: InteractiveShell
) -> None:
    lookers = Onlookers(wake=lambda: None)
    cell.user_ns.update(passes=passes, lookers=lookers)
    assert cell.run_cell("passes(61.0); lookers.present").result is True
    assert not lookers.present
