"""The README is short, and what it and the other pages show is so."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from PIL import Image

import workbench as wb

ROOT = Path(__file__).parents[1]
README, DOCS, RESULTS = ROOT / "README.md", ROOT / "docs", ROOT / "benchmarks" / "results"
PAGES = [README, ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "README.md", *sorted(DOCS.glob("*.md"))]
MOST_WORDS = 750
CODE = re.compile(r"```.*?```", re.DOTALL)


def prose(text: str) -> str:
    """The text without code, tables, pictures and the targets of links."""
    text = re.sub(r"<[^>]*>|!\[[^\]]*\]\([^)]*\)", " ", CODE.sub("", text))
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return "\n".join(line for line in text.splitlines() if not line.startswith("|"))


def test_the_readme_is_short() -> None:
    words = [word for word in prose(README.read_text(encoding="utf-8")).split() if re.search(r"\w", word)]
    assert 300 < len(words) <= MOST_WORDS, f"{len(words)} words: move what is more to docs"


def test_the_lines_of_the_readme_are_those_that_were_measured() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    lines = [line.partition("#")[0].strip() for line in block.splitlines() if line.strip()]
    assert len(lines) <= 10
    measured = re.findall(r"^\| `(.+?)` \|", (RESULTS / "newcomer.md").read_text(encoding="utf-8"), re.MULTILINE)
    typed = [line.replace("cartpole", "run") for line in lines if line != "cartpole"]  # alone: shows the panel
    assert sorted(typed) == sorted(measured)
    seconds = re.search(r"(\d+) s in all", (RESULTS / "newcomer.md").read_text(encoding="utf-8"))
    assert seconds and 20 <= int(seconds[1]) <= 40, "README: half a minute"


def test_five_minutes_prints_what_was_measured() -> None:
    printed = re.findall(r"```text\n(.*?)\n```", (DOCS / "start.md").read_text(encoding="utf-8"), re.DOTALL)
    measured = (RESULTS / "newcomer.md").read_text(encoding="utf-8")
    assert len(printed) == 3
    assert [line for line in printed if f"| {line} |" not in measured] == []


def test_the_ratios_of_the_readme_are_those_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS / "drawings"))
    bars = runpy.run_path(str(DOCS / "drawings" / "speed.py"))["rows"]()
    ratios = [f"{group[0][1] / steps:.2f}" for group in bars.values() for _, steps in group[1:]]
    assert all(group[0][0] == "RL Workbench" for group in bars.values())
    said = README.read_text(encoding="utf-8").partition("## Speed")[2].partition("## Limits")[0]
    assert re.findall(r"\b\d\.\d\d\b", prose(said)) == ratios
    assert all(f"{steps:,}" in said for group in bars.values() for _, steps in group), "the chart's alternative text"


def test_the_moving_picture_moves_and_is_small() -> None:
    path = DOCS / "first-minute.gif"
    with Image.open(path) as picture:
        durations = []
        for number in range(picture.n_frames):
            picture.seek(number)
            durations.append(picture.info["duration"])
    assert path.stat().st_size < 3_000_000
    assert len(durations) > 50 and 10_000 <= sum(durations) <= 18_000


@pytest.mark.parametrize("script", ["overview", "speed"])
def test_a_drawing_is_what_its_script_gives(script: str, tmp_path: Path) -> None:
    subprocess.run([sys.executable, f"docs/drawings/{script}.py", str(tmp_path)], cwd=ROOT, check=True, timeout=240)
    for drawn in (tmp_path / f"{script}-{theme}.svg" for theme in ("light", "dark")):
        assert drawn.read_text("utf-8") == (DOCS / drawn.name).read_text("utf-8"), f"python docs/drawings/{script}.py"


def test_the_page_of_lessons_is_fresh() -> None:
    made = runpy.run_path(str(DOCS / "lessons.py"))["page"]()
    assert (DOCS / "lessons.md").read_text(encoding="utf-8") == made, "make it anew: python docs/lessons.py"


def test_every_result_is_in_the_index_of_measurements() -> None:
    index = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    assert [one.name for one in sorted(RESULTS.glob("*.md")) if f"](results/{one.name})" not in index] == []


def test_pages_show_public_names_only() -> None:
    shown = {(name, page.name) for page in PAGES for name in re.findall(r"\bwb\.([A-Za-z_]+)", page.read_text("utf-8"))}
    assert {("launch", "README.md"), ("plan", "tour.md")} <= shown
    assert [(name, page) for name, page in sorted(shown) if not hasattr(wb, name)] == []


def test_the_citation_names_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert cited and cited[1] == version
