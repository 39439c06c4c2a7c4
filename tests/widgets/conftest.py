"""A recorded run and its panel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.widgets import recorded
from workbench.rundir import RunDirectory, lock
from workbench.running.handle import Run
from workbench.widgets.panel.panel import RunPanel


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDirectory:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    return recorded.vtrace("pong")


@pytest.fixture
def panel(directory: RunDirectory) -> Iterator[RunPanel]:
    shown = RunPanel(Run(directory))
    yield shown
    shown.close()


@pytest.fixture
def alive(directory: RunDirectory) -> Iterator[None]:
    """As if the run's supervisor lived, but did not answer."""
    with lock.held(lock.of_supervisor(directory), wait_s=1.0) as held:
        assert held
        yield


def log(panel: RunPanel) -> str:
    """The lines below the buttons."""
    return str(panel.parts.notes.view.value)
