"""A panel of a run that took a week opens in under a second; as a multiple of a short run's, on any machine."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.faults import week
from tests.widgets import recorded
from workbench.rundir import RunDirectory
from workbench.running.handle import Run
from workbench.widgets.panel.panel import RunPanel

# as long as the panel of a short run; measured: 10 of a day and 15 to 20 of a week; if all rows were read: 34 and 240
TIMES = {"day": 20, "week": 40}
OPENINGS = 3


@pytest.fixture(params=["day", pytest.param("week", marks=pytest.mark.full)])
def directory(request: pytest.FixtureRequest, home: Path) -> RunDirectory:
    return week.recorded(request.param, seconds=week.WEEK_S // (7 if request.param == "day" else 1))


def opening_s(directory: RunDirectory) -> float:
    """Seconds of the processor for a panel of that run, charts drawn."""
    started = time.process_time()
    panel = RunPanel(Run(directory))
    taken = time.process_time() - started
    panel.close()
    return taken


def test_the_panel_of_a_week_opens_soon(directory: RunDirectory) -> None:
    short = recorded.vtrace("short")
    opening_s(short)  # with what is imported and made once
    brief, taken = ([opening_s(one) for _ in range(OPENINGS)] for one in (short, directory))
    assert min(taken) < TIMES[directory.name] * min(brief), (brief, taken)
