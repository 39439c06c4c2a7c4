"""Draws docs/speed-light.svg and docs/speed-dark.svg: the recorded table of peers as bars, like beside like.

    python docs/drawings/speed.py [FOLDER]

Every number is read from benchmarks/results/peers.md. FOLDER: where to, instead of docs.
"""

from __future__ import annotations

import re

from shapes import DOCS, Colours, svg, text, write

TABLE = DOCS.parent / "benchmarks" / "results" / "peers.md"
NAMES = {  # by how a row of the table begins
    "workbench": "RL Workbench", "single-process loop": "one-process loop (CleanRL's style)",
    "Sample Factory": "Sample Factory 2.1.1", "RLlib": "RLlib 2.60.0 (IMPALA)",
}  # fmt: skip
TITLE = "Trained steps per second, ALE/Pong-v5, two CPU cores"
WIDTH, LEFT, BAR, GAP, GROUP_GAP, TOP = 760, 250, 24, 8, 34, 62  # px
ROW = re.compile(r"^\| (?P<system>[^|]+) \| [^|]+ \| (?P<precision>fp32|bf16) \| (?P<steps>[\d,]+) \|", re.MULTILINE)


def rows() -> dict[str, list[tuple[str, int]]]:
    """Names and trained steps/s by precision, the fastest first."""
    found: dict[str, list[tuple[str, int]]] = {"fp32": [], "bf16": []}
    for row in ROW.finditer(TABLE.read_text(encoding="utf-8")):
        name = next(name for start, name in NAMES.items() if row["system"].startswith(start))
        found[row["precision"]].append((name, int(row["steps"].replace(",", ""))))
    return {precision: sorted(bars, key=lambda bar: -bar[1]) for precision, bars in found.items()}


def chart(colours: Colours) -> str:
    """The SVG in these colours."""
    bars, y = rows(), TOP
    longest = max(steps for group in bars.values() for _, steps in group)
    same = "same network, same environments, each system with the best of the settings tried"
    shapes = [text(12, 26, TITLE, colours["text"], "start", 600), text(12, 45, same, colours["quiet"], "start")]
    for precision, group in bars.items():
        shapes.append(text(12, y + 17, precision, colours["text"], "start", 600))
        for name, steps in group:
            shapes += _bar(colours, y, name, steps, round((WIDTH - LEFT - 80) * steps / longest))
            y += BAR + GAP
        y += GROUP_GAP - GAP
    return svg(WIDTH, y - GROUP_GAP + 22, colours, title=TITLE, summary=_said(bars), shapes=shapes)


def _bar(colours: Colours, y: int, name: str, steps: int, length: int) -> list[str]:
    ours = name == NAMES["workbench"]
    fill = colours["out" if ours else "pale"]
    return [
        text(LEFT - 10, y + 17, name, colours["text"], "end", 600 if ours else 400),
        f'<rect x="{LEFT}" y="{y}" width="{length}" height="{BAR}" rx="3" fill="{fill}"/>',
        text(LEFT + length + 8, y + 17, f"{steps:,}", colours["text"], "start"),
    ]


def _said(bars: dict[str, list[tuple[str, int]]]) -> str:
    return " ".join(f"{precision}: {', '.join(f'{name} {steps:,}' for name, steps in group)}."
                    for precision, group in bars.items())


if __name__ == "__main__":
    write("speed", chart)
