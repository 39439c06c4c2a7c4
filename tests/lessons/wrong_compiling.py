"""Answers to the exercises of the appendix that are wrong in ways that students are."""

from __future__ import annotations

from typing import Any

WRONG: dict[str, list[Any]] = {
    "filled": [
        lambda rows: rows,
        lambda rows: -(-rows // 8) * 8,
        lambda rows: 2 ** rows.bit_length(),
        lambda rows: 1 << (rows - 1).bit_length(),
        lambda rows: 256,
    ],
    "graphs": [256, 8, 5, 9, 7],
}
