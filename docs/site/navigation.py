"""The pages of the site and their order. A page of docs/ that no section names is added to the guides."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAVIGATION = ("Start", "Concepts", "Lessons", "Guides", "Reference", "Trust", "Design")
_PAGES = {  # those of them that are there
    "Start": ("docs/index", "docs/installation", "docs/start", "docs/tour", "docs/coming"),
    "Concepts": ("docs/concepts", "docs/glossary"),
    "Lessons": ("docs/lessons", "docs/teaching"),
    "Guides": ("docs/environments", "docs/algorithms", "docs/sweeps", "docs/scale", "docs/colab", "docs/tpu",
               "docs/front-ends", "docs/tools", "docs/troubleshooting"),
    "Reference": ("docs/api", "docs/fields", "docs/metrics", "docs/commands", "docs/errors", "docs/run-directory"),
    "Trust": ("docs/promises", "docs/security", "docs/limits", "benchmarks/README"),
    "Design": ("docs/architecture", "DECISIONS", "CONTRIBUTING", "CHANGELOG"),
}


def lessons() -> list[str]:
    """The notebooks, in their order."""
    return [f"notebooks/{path.stem}" for path in sorted((ROOT / "notebooks").glob("*.ipynb"))]


def linked() -> list[str]:
    """Pages to which others link, but which the navigation leaves out, such as the recorded results of benchmarks."""
    named = {page for section in NAVIGATION for page in pages_of(section)}
    found = (path.relative_to(ROOT).with_suffix("").as_posix() for pattern in (
        "SECURITY.md", "benchmarks/**/*.md", "kernels/*.md", "launchers/**/*.md", "widgets/*.md")
        for path in ROOT.glob(pattern))
    return sorted(page for page in found if page not in named)


def pages_of(section: str) -> list[str]:
    """The pages of a section, without suffix, in their order."""
    pages = [page for page in _PAGES[section] if (ROOT / f"{page}.md").exists()]
    if section == "Lessons":
        return [*pages, *lessons()]
    if section == "Guides":
        named = {page for each in _PAGES.values() for page in each}
        return [*pages, *(page for page in _every() if page not in named)]
    return pages


def _every() -> list[str]:
    return [f"docs/{path.stem}" for path in sorted((ROOT / "docs").glob("*.md"))]


def _entry(page: str) -> str:
    """A line of the tree; a lesson has its number before its title."""
    folder, _, name = page.partition("/")
    if folder != "notebooks" or not name[:2].isdigit():
        return f"/{page}"
    cells = json.loads((ROOT / f"{page}.ipynb").read_text())["cells"]
    title = "".join(cells[0]["source"]).splitlines()[0].removeprefix("# ")
    return f"{int(name[:2])}. {title} </{page}>"


def contents() -> str:
    """The page that holds the tree of all pages."""
    lines = ["# Contents", ""]
    for section in NAVIGATION:
        lines += ["```{toctree}", f":caption: {section}", ":maxdepth: 1", ""]
        lines += map(_entry, pages_of(section))
        lines += ["```", ""]
    return "\n".join(lines)
