"""Writes docs/lessons.md: the table of lessons, from the first cell of each notebook. `python docs/lessons.py`"""

from __future__ import annotations

import json
import re
from pathlib import Path

PAGE = Path(__file__).with_suffix(".md")
NOTEBOOKS = PAGE.parents[1] / "notebooks"

TIME = re.compile(r"\*\*Time:?\*\*:?\s+(.+?)(?:\.\s|\.?$)|It takes (?:about )?(.+?)(?:[,.]| on )", re.MULTILINE)
LEARN = re.compile(r"\*\*You will learn:?\*\*:?(.*?)(?=\n+\*\*|\n##|\Z)", re.DOTALL)

HEAD = """# Lessons

`make lab` in a checkout, or `workbench lab`, opens them in JupyterLab. Begin with lesson 0, or with lesson 1 if you
know IMPALA. Lesson 16 goes on from lesson 2, and lesson 15 from lesson 3. Each says what it teaches, has things to
touch, and ends with things to try; each runs from top to bottom in the tests. Times are rough, for two cores and the
sizes that a lesson comes with.

| lesson | what one learns | time |
|---|---|---|
"""
FOOT = """
For a class: [teaching with the lessons](teaching.md), with plans for sessions, common misconceptions and grading.

Machine time alone, as measured: [results](../benchmarks/results/lessons.md). Made by `python docs/lessons.py` from the
first cell of each notebook; a test keeps it fresh.
"""


def page() -> str:
    """The page as it should be."""
    return HEAD + "".join(map(row, sorted(NOTEBOOKS.glob("*.ipynb")))) + FOOT


def row(notebook: Path) -> str:
    """One lesson. Raises ValueError where its first cell has no title or no time."""
    text = "".join(json.loads(notebook.read_text(encoding="utf-8"))["cells"][0]["source"])
    title, _, rest = text.partition("\n")
    time = TIME.search(rest)
    if not title.startswith("# ") or not time:
        raise ValueError(f"{notebook.name}: the first cell must begin with '# Title' and have '**Time** ...'")
    number = notebook.stem.split("-")[0].lstrip("0") or "0"
    link = f"{'' if number == 'appendix' else number + '. '}[{title[2:].strip()}](../notebooks/{notebook.name})"
    return f"| {link} | {_cell(_aims(rest))} | {_cell(time[1] or time[2])} |\n"


def _aims(text: str) -> str:
    """What follows "You will learn", or the first sentence that says what the reader will do, or the first one."""
    if told := LEARN.search(text):
        return "; ".join(one.strip().rstrip(".;") for one in re.split(r"(?:^|\n)\s*[-*] ", told[1]) if one.strip())
    sentences = re.split(r"(?<=[.?])\s+(?=[A-Z])", text.strip())
    return next((one for one in sentences if one.startswith("You will ")), sentences[0]).removeprefix("You will ")


def _cell(text: str) -> str:
    """On one line, beginning with a capital, its links as seen from docs."""
    line = re.sub(r"\]\((?!\w+:|#|/)", "](../notebooks/", " ".join(text.split())).rstrip(".").replace("|", "/")
    return line[:1].upper() + line[1:]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
