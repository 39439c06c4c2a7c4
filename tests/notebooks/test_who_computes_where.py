"""Lesson 16: both layouts, their bytes, their simulation and table 1."""

from __future__ import annotations

import ast
from pathlib import Path

import nbformat
import pytest

from tests.notebooks.lessons import CHECKOUT, cell_with, execute
from tests.notebooks.shown import shown_table, shows_a_picture
from workbench.planning.constants import known


@pytest.mark.full
def test_the_classic_layout_sends_the_network_and_fills_the_card(module_home: Path, tmp_path: Path) -> None:
    cells, said = execute("16-who-computes-where", module_home, tmp_path)

    assert "observations: 2.1 GB/s; parameters: 150 GB/s" in said
    assert "1.9 + 146.5 GiB/s" in said, "148, as the paper has it"
    assert "6.75 MB of parameters" in said
    assert "layouts.parameter_bytes: the lesson goes on with the solution" in said

    measured = cell_with(cells, "display(compared(")
    many = {(row["environment"], row["layout"]): row for row in shown_table(measured).values()}  # 16 an actor
    up = [float(many["ALE/Pong-v5", layout]["up, B/step"]) for layout in ("central", "classic")]
    assert up[1] == pytest.approx(up[0], rel=0.1), "what goes up is the same"
    measured.outputs = [one for one in measured.outputs if "data" in one][:1]
    single = {(row["environment"], row["layout"]): float(row["both"]) for row in shown_table(measured).values()}
    assert single["ALE/Pong-v5", "classic"] > 40 * single["ALE/Pong-v5", "central"]
    assert single["CartPole-v1", "classic"] > 10 * single["CartPole-v1", "central"]

    slow, fast = (simulated(part) for part in said.partition("card of 10 Gbit/s")[2].split("card of 100 Gbit/s"))
    assert slow["classic"][1] == "card out" and slow["central"][1] == "accelerator"
    assert slow["classic"][0] < slow["central"][0]
    assert fast["classic"][1] == "accelerator" and fast["classic"][0] > fast["central"][0]

    for text in ("display(chart)", "dots = "):
        assert shows_a_picture(cell_with(cells, text)), text


def simulated(text: str) -> dict[str, tuple[float, str]]:
    """Steps/s and the fullest part of each layout, from rows of layout, cores, steps/s, frames/s and fullest."""
    rows = [line.split(maxsplit=4) for line in text.splitlines()]
    return {row[0]: (float(row[2]), row[4]) for row in rows if row and row[0] in ("central", "classic")}


def test_the_published_rows_are_those_of_the_calculator() -> None:
    cells = nbformat.read(CHECKOUT / "notebooks" / "16-who-computes-where.ipynb", as_version=4).cells
    tree = ast.parse(cell_with(cells, "published = ").source)
    rows = ast.literal_eval(next(one for one in ast.walk(tree) if isinstance(one, ast.List) and len(one.elts) == 5
                                 and isinstance(one.elts[0], ast.Tuple)))
    speeds = {(row[0], row[1], row[2]): row[4] for row in rows}
    for accelerator, short in (("1 P100", "P100"), ("64 TPU v3 cores", "64 cores")):
        assert speeds["DMLab", "SEED", accelerator] == known(f"seed dmlab {short}", "frames_per_second")
