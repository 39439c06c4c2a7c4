"""What an executed cell shows, as plain data."""

from __future__ import annotations

import re
from html import unescape
from typing import Any


def shown_table(cell: Any) -> dict[str, dict[str, str]]:
    """The last table that a cell shows, as {row: {column: text}}; its first column names the rows."""
    page = [output.data["text/html"] for output in cell.outputs if "text/html" in output.get("data", {})][-1]
    (_, *columns), *rest = [_cells(row) for row in re.findall(r"<tr.*?</tr>", page, re.DOTALL)]
    return {name: dict(zip(columns, values, strict=True)) for name, *values in rest}


def _cells(row: str) -> list[str]:
    return [unescape(text.strip()) for text in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL)]


def shows_a_picture(cell: Any) -> bool:
    """Whether a cell shows a PNG, by itself or in HTML."""
    shown = [output.get("data", {}) for output in cell.outputs]
    return any("image/png" in data or "data:image/png" in data.get("text/html", "") for data in shown)
