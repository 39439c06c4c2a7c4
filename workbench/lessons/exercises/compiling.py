"""Exercises of the appendix on Colab and TPUs: what a compiler makes of batches of every size."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# The solutions stand in a lesson as a student would write them.

from __future__ import annotations

from workbench.lessons.answers import compared, number

SMALLEST, LARGEST = 8, 256


def padded(rows):
    """Rows of the batch that is computed: the next power of two, and 8 at least."""
    size = 8
    while size < rows:
        size *= 2
    return size


filled = compared(
    padded, *((rows, f"for {rows} rows") for rows in (1, 7, 8, 9, 16, 17, 100, 256)),
    why="At most half of the rows are empty from 8 on, and few sizes occur.",
)
graphs = number(
    6, "one graph for each size that occurs", {"sizes from": SMALLEST, "to": LARGEST},
    hints={LARGEST: "So many there would be without filling up: one for each number of rows."},
    why="8, 16, 32, 64, 128, 256: six graphs instead of 256.",
)
