"""Lesson 2: central inference."""

from __future__ import annotations

import ast
import io
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.notebooks.lessons import CHECKOUT, cell_with, execute
from workbench.planning.constants import known

SMALL = {"actors": 5, "envs_per_actor": 2, "step_ms": 20.0, "long_share": 0.08, "looks": 3, "batch_sizes": [2, 10],
         "timeouts_ms": [5, 1000], "actor_counts": [1, 4]}


def table(cell: Any) -> pd.DataFrame:
    """The first table that a cell shows, by its plain text."""
    shown = next(one.data["text/plain"] for one in cell.outputs if "text/html" in one.get("data", {}))
    return pd.read_csv(io.StringIO(shown), sep=r"\s+")


def has_picture(cell: Any) -> bool:
    return any("image/png" in one.get("data", {}) for one in cell.outputs)


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

    wire = cell_with(cells, "display(compared(").outputs
    assert "6.75 MB of parameters" in said and "observations: 2.1 GB/s; parameters: 150 GB/s" in said
    assert "1.9 + 146.5 GiB/s" in said, "148, as the paper has it"
    assert "central.round_ms: the lesson goes on with the solution" in said
    single = next(one.data["text/plain"] for one in wire if "data" in one).splitlines()
    central, classic = (float(next(row for row in single if "ALE" in row and layout in row).split()[-1])
                        for layout in ("central", "classic"))
    assert classic > 40 * central
    assert "card out" in said.partition("card of 10 Gbit/s")[2].partition("card of 100")[0]

    for text in ("by_batch =", "by_timeout =", "lines = alt.Chart(by_actors", "def drawn_layouts", "bars = ",
                 "run.dashboard()"):
        assert has_picture(cell_with(cells, text)), text
    assert set(states(module_home)) == {"stopped"}


def states(home: Path) -> list[str]:
    from workbench.rundir import RunDirectory

    return [str(RunDirectory(path).read()["state"]) for path in (home / "runs").iterdir()]


def test_the_published_rows_are_those_of_the_calculator() -> None:
    import nbformat

    cells = nbformat.read(CHECKOUT / "notebooks" / "02-central-inference.ipynb", as_version=4).cells
    tree = ast.parse(cell_with(cells, "published = ").source)
    rows = ast.literal_eval(next(one for one in ast.walk(tree) if isinstance(one, ast.List) and len(one.elts) == 5
                                 and isinstance(one.elts[0], ast.Tuple)))
    speeds = {(row[0], row[1], row[2]): row[4] for row in rows}
    for accelerator, short in (("1 P100", "P100"), ("64 TPU v3 cores", "64 cores")):
        assert speeds["DMLab", "SEED", accelerator] == known(f"seed dmlab {short}", "frames_per_second")
