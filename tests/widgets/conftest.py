"""A recorded run and its panel."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell

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


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    """A cell in which something can be displayed; its outputs are in `display_pub.outputs`."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # in whose place IPython puts its own
    shell = InteractiveShell.instance()
    shell.display_pub = CapturingDisplayPublisher()
    yield shell
    InteractiveShell.clear_instance()
    atexit.unregister(shell.atexit_operations)
    shell.atexit_operations()  # ends the thread that writes its history


def log(panel: RunPanel) -> str:
    """The lines below the buttons."""
    return str(panel.parts.notes.view.value)
