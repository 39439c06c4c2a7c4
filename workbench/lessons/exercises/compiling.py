"""Exercises of the appendix on Colab and TPUs: what a compiler makes of batches of every size."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# The solutions stand in a lesson as a student would write them.

from __future__ import annotations

from typing import Any

from workbench.lessons.answers import expect_close, expect_written
from workbench.lessons.exercise import Exercise, Wrong

SMALLEST, LARGEST = 8, 256


def padded(rows):
    """Rows of the batch that is computed: the next power of two, and 8 at least."""
    size = 8
    while size < rows:
        size *= 2
    return size


def _check_padded(answer: Any) -> None:
    for rows in (1, 7, 8, 9, 16, 17, 100, 256):
        expect_close(expect_written(answer(rows)), padded(rows), f"for {rows} rows", {"rows": rows})


def _check_graphs(answer: Any) -> None:
    number = float(expect_written(answer))
    if number == LARGEST:
        raise Wrong("So many there would be without filling up: one for each number of rows.")
    expect_close(number, 6, "one graph for each size that occurs", {"sizes from": SMALLEST, "to": LARGEST})


filled = Exercise(_check_padded, padded,
                  why="At most half of the rows are empty from 8 on, and few sizes occur.")
graphs = Exercise(_check_graphs, 6, why="8, 16, 32, 64, 128, 256: six graphs instead of 256.")
