"""The HTML that stands in the output of a cell."""

from __future__ import annotations

SMALL = "font-family:sans-serif;font-size:13px"  # of whatever is not only a table


def output(body: str, style: str = "") -> str:
    """`body`, of which the page sets nothing as mathematics, whatever stands between two dollar signs."""
    return f'<div class="mathjax_ignore" style="{style}">{body}</div>'
