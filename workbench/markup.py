"""Text that others may have written, as text: in the output of a cell, in a terminal, in Markdown."""

from __future__ import annotations

import re

SMALL = "font-family:sans-serif;font-size:13px"  # of whatever is not only a table

_MOVES = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """One line, in which whatever moves the cursor, colours or turns text around is shown by its number."""
    return _MOVES.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def output(body: str, style: str = "") -> str:
    """`body`, of which the page sets nothing as mathematics, whatever stands between two dollar signs."""
    return f'<div class="mathjax_ignore" style="{style}">{body}</div>'
