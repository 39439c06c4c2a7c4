"""What the drawings share: two sets of colours, text, and the file of each."""

from __future__ import annotations

import sys
from collections.abc import Callable
from html import escape
from pathlib import Path

DOCS = Path(__file__).parents[1]
Colours = dict[str, str]
PALETTES: dict[str, Colours] = {
    "light": {
        "page": "#ffffff", "box": "#eef3f8", "part": "#ffffff", "line": "#5b6b7d", "text": "#1f2328",
        "quiet": "#57606a", "out": "#0969da", "back": "#bc4c00", "store": "#fdf6e3", "pale": "#8fb8de",
    },
    "dark": {
        "page": "#0d1117", "box": "#1b2430", "part": "#0d1117", "line": "#8b98a8", "text": "#e6edf3",
        "quiet": "#9aa4af", "out": "#58a6ff", "back": "#f0883e", "store": "#2b2618", "pale": "#35618f",
    },
}  # fmt: skip
FONT = "-apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"


def text(x: float, y: float, words: str, colour: str, anchor: str = "middle", weight: int = 400) -> str:
    """A line of text whose baseline is at y; `anchor` says which part of it is at x."""
    return (f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-weight="{weight}" fill="{colour}">'
            f"{escape(words)}</text>")


def svg(width: int, height: int, colours: Colours, *, title: str, summary: str, shapes: list[str]) -> str:
    """A drawing on a background of its own, with words for those who do not see it."""
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" font-family="{FONT}" font-size="13">',
        f"<title>{escape(title)}</title>", f"<desc>{escape(summary)}</desc>",
        f'<rect width="{width}" height="{height}" rx="8" fill="{colours["page"]}"/>', *shapes, "</svg>", "",
    ])  # fmt: skip


def write(name: str, drawing: Callable[[Colours], str]) -> None:
    """NAME-light.svg and NAME-dark.svg, in docs or in the folder that the command line names."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS
    for theme, colours in PALETTES.items():
        (folder / f"{name}-{theme}.svg").write_text(drawing(colours), encoding="utf-8")
