"""The threads beside the cells: one refreshes all widgets, others do what buttons ask for."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from tests.conftest import eventually
from workbench.widgets.kernel.refresher import Actions, Refresher


def test_one_thread_refreshes_all_panels_and_ends_with_the_last() -> None:
    class Shown:
        def __init__(self, lives: int) -> None:
            self.lives = lives

        def tick(self) -> bool:
            self.lives -= 1
            return self.lives > 0

    refresher = Refresher(period_s=0.01)
    shown = [Shown(2), Shown(5)]
    for one in shown:
        refresher.add(one)
    eventually(lambda: not refresher.running)
    assert [one.lives for one in shown] == [0, 0]


class Broken:
    def __repr__(self) -> str:
        return "what is broken"

    def tick(self) -> bool:
        raise ValueError("no way to show it")


def test_what_cannot_be_refreshed_is_dropped_with_a_word_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    refresher, fine = Refresher(period_s=0.01), Busy(0.0)
    with caplog.at_level(logging.ERROR):
        refresher.add(Broken())
        refresher.add(fine)
        eventually(lambda: fine.ticks > 3)
    assert "what is broken could not be refreshed" in caplog.text and "no way to show it" in caplog.text
    refresher.remove(fine)
    eventually(lambda: not refresher.running)
    refresher.add(again := Busy(0.0))
    eventually(lambda: again.ticks)
    refresher.remove(again)


class Busy:
    """Takes that much CPU at each tick."""

    def __init__(self, cpu_s: float) -> None:
        self.cpu_s, self.spent_s, self.ticks = cpu_s, 0.0, 0

    def tick(self) -> bool:
        started = time.thread_time()
        while time.thread_time() - started < self.cpu_s:
            pass
        self.spent_s += time.thread_time() - started
        self.ticks += 1
        return True


def test_refreshing_takes_a_small_share_of_the_time_however_many_there_are_and_slows_nothing_light() -> None:
    refresher = Refresher(period_s=0.05, share=0.2)
    heavy, light = [Busy(0.02) for _ in range(3)], Busy(0.0)
    started = time.monotonic()
    for one in (*heavy, light):
        refresher.add(one)
    eventually(lambda: all(one.ticks >= 8 for one in heavy))
    took = time.monotonic() - started
    for one in (*heavy, light):
        refresher.remove(one)
    assert sum(one.spent_s for one in heavy) / took < 0.3, "the first ticks all come at once"
    assert light.ticks > 1.5 * max(one.ticks for one in heavy)
    eventually(lambda: not refresher.running)


def test_what_is_added_again_is_ticked_at_once() -> None:
    refresher, one = Refresher(period_s=60.0), Busy(0.0)
    for ticks in (1, 2):
        refresher.add(one)
        eventually(lambda ticks=ticks: one.ticks == ticks)
    refresher.remove(one)


def test_actions_are_done_in_order_and_one_at_a_time() -> None:
    actions, done = Actions(), []
    for number in range(50):
        actions.submit(lambda number=number: done.append(number))
    eventually(lambda: len(done) == 50)
    assert done == list(range(50))


def test_an_action_that_fails_holds_up_none_of_those_after_it(caplog: pytest.LogCaptureFixture) -> None:
    actions, done = Actions(), threading.Event()
    with caplog.at_level(logging.ERROR):
        actions.submit(Broken().tick)
        eventually(lambda: not actions._working)
        actions.submit(done.set)
        assert done.wait(240)
    assert "no way to show it" in caplog.text


@pytest.mark.parametrize(("error", "words"), [(KeyError("no key"), "'no key'"), (TimeoutError(), "TimeoutError")])
def test_a_failure_is_said_in_words_also_that_of_an_error_without_text(error: Exception, words: str) -> None:
    def fail() -> None:
        raise error

    actions, said = Actions(), []
    actions.submit(fail, said.append)
    eventually(lambda: said == [words])
