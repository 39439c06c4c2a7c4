"""What a wait shows: in terminals of several widths, in a cell, and in a file."""

from __future__ import annotations

import io
import os
import pty
import re
import struct
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from fcntl import ioctl
from pathlib import Path

import pytest

from workbench.metrics.status import RunStatus
from workbench.running import progress, waiting
from workbench.running.progress import ProgressBar

STATUS = RunStatus("cartpole-vtrace-1", "training", frames=1_996_000, steps=1_996_000, episode_return=312.5,
                   time_s=80.0, frames_per_second=5200.0, steps_per_second=5200.0)


@contextmanager
def terminal(columns: int) -> Iterator[tuple[io.TextIOWrapper, list[str]]]:
    """A terminal of that width to write to, and what it was sent, once the block has ended."""
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    sent: list[str] = []
    with os.fdopen(slave, "w", encoding="utf-8") as file:
        yield file, sent
    parts = []
    with suppress(OSError):  # the end: nobody has the other side open
        while part := os.read(master, 2**16):
            parts.append(part)
    os.close(master)
    sent.append(b"".join(parts).decode())


def drawn(monkeypatch: pytest.MonkeyPatch, columns: int, status: RunStatus = STATUS) -> str:
    """The last drawing of the bar of a wait for the end of a run."""
    with terminal(columns) as (file, sent):
        monkeypatch.setattr(progress.sys, "stdout", file)
        with ProgressBar(status.name, unit="frames", total=10_000_000, shown=True) as bar:
            bar.show(status.frames, list(waiting._facts(status, "frames")))
        monkeypatch.undo()
    *_, last = (line for line in re.split(r"[\r\n]", sent[0]) if line.strip())
    return last.rstrip()


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_the_return_is_seen_in_a_terminal_of_any_width_and_frames_once(
    monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    line = drawn(monkeypatch, columns)
    assert len(line) < columns
    assert line.startswith("cartpole-vtrace-1 |") and "2.00M/10.0M frames" in line
    assert "mean return 312.5" in line
    assert line.count("frames") - line.count("frames/s") == 1
    assert "5,200 frames/s" in line and ("[" in line) == (columns > 80)


def test_a_bar_says_a_state_that_is_not_training_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    line = drawn(monkeypatch, 120, replace(STATUS, state="paused", reason="paused by hand\nmore"))
    assert ", paused, mean return 312.5, paused by hand" in line


def test_a_cell_has_no_width_and_gets_all_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "interactive", lambda: True)
    output = io.StringIO()
    monkeypatch.setattr(progress.sys, "stdout", output)
    with ProgressBar("pong", unit="frames", total=10_000_000, shown=True) as bar:
        bar.show(1e6, ["mean return 3", "a fact " * 40])
    assert "mean return 3, " + "a fact " * 40 in output.getvalue()


def test_a_log_gets_whole_lines_and_few_of_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    now = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    with (tmp_path / "log").open("w") as output:
        monkeypatch.setattr(progress.sys, "stdout", output)
        with ProgressBar("pong", unit="frames", total=10_000_000, shown=True) as bar:
            for second in range(25):
                now = 100.0 + second
                bar.show(second, ["mean return 3"], line=f"training, {second} frames, mean return 3")
        monkeypatch.undo()
    lines = [f"pong: training, {second} frames, mean return 3" for second in (0, 10, 20)]
    assert (tmp_path / "log").read_text().splitlines() == lines


def test_what_a_launch_leaves_in_a_cell_stays_true() -> None:
    assert waiting._started(STATUS, 6.72, None) == "runs in the background after a start of 6.7 s"
    assert waiting._started(STATUS, 6.72, "classic").endswith("a start of 6.7 s, with preset='classic'")
    assert waiting._started(replace(STATUS, state="starting", reason="torch loads"), 1.0, "classic") == (
        replace(STATUS, state="starting", reason="torch loads").line())
