"""Lesson 2: central inference."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.notebooks.lessons import cell_with, execute
from tests.notebooks.shown import shows_a_picture

SMALL = {"actors": 5, "envs_per_actor": 2, "step_ms": 20.0, "long_share": 0.08, "looks": 3, "batch_sizes": [2, 10],
         "timeouts_ms": [5, 1000], "actor_counts": [1, 4]}


def table(cell: Any) -> pd.DataFrame:
    """The first table that a cell shows, by its plain text."""
    shown = next(one.data["text/plain"] for one in cell.outputs if "text/html" in one.get("data", {}))
    return pd.read_csv(io.StringIO(shown), sep=r"\s+")


@pytest.mark.full
def test_batches_timeouts_and_actors_move_a_live_run_as_the_lesson_says(module_home: Path, tmp_path: Path) -> None:
    cells, said = execute("02-central-inference", module_home, tmp_path, **SMALL)

    batches = table(cell_with(cells, "by_batch ="))
    one, everybody = batches.iloc[0], batches.iloc[-1]
    assert one.batch == pytest.approx(2) and everybody.fill > 0.95
    assert everybody.wait_ms > 2 * one.wait_ms, "who waits for everybody waits for the slowest"
    assert everybody.steps_per_s < one.steps_per_s

    timeouts = table(cell_with(cells, "by_timeout ="))
    short, long = timeouts.iloc[0], timeouts.iloc[-1]
    assert short.fill < long.fill and short.wait_ms < long.wait_ms
    assert short.steps_per_s > long.steps_per_s

    counts = table(cell_with(cells, "by_actors ="))
    assert counts.steps_per_s.iloc[-1] > counts.steps_per_s.iloc[0]
    assert counts.batch.iloc[-1] > counts.batch.iloc[0]

    assert "central.round_ms: the lesson goes on with the solution" in said
    for text in ("by_batch =", "by_timeout =", "lines = alt.Chart(by_actors", "run.dashboard()"):
        assert shows_a_picture(cell_with(cells, text)), text
    assert set(states(module_home)) == {"stopped"}


def states(home: Path) -> list[str]:
    from workbench.rundir import RunDirectory

    return [str(RunDirectory(path).read()["state"]) for path in (home / "runs").iterdir()]
