"""Markdown and notebooks: links and their anchors lead somewhere, and code in Python can be parsed and imported."""

from __future__ import annotations

import ast
import html
import importlib
import json
import re
import runpy
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.test_api_page import names_of

ROOT = Path(__file__).parents[1]
ELSEWHERE = {"torch_xla", "google", "deepmind_lab", "mine"}  # packages that no test environment has
CODE = re.compile(r"^( *)```.*?^\1```", re.M | re.S)
LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^()\s]+(?:\([^()]*\))?)\)")

TAG = re.compile(r"""<(?:img|a|source)\b[^>]*?(?:src|href|srcset)=["']([^"']+)""")


def files(*suffixes: str) -> list[Path]:
    """What git knows, and what it will be told of."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    paths = (ROOT / name for name in subprocess.check_output(command, cwd=ROOT, text=True).splitlines()
             if name.endswith(suffixes) and not name.startswith("tests/"))  # whose texts are of other places
    return sorted(path for path in paths if path.exists())


@cache
def text_of(path: Path) -> str:
    """Markdown: the whole file, or the text cells of a notebook."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    return "\n\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown")


@cache
def anchors(path: Path) -> frozenset[str]:
    """The anchors that GitHub gives the headings of a file, and those in HTML."""
    text, found, seen = CODE.sub("", text_of(path)), set(), dict[str, int]()
    for heading in re.findall(r"^#{1,6} +(.*?) *#*$", text, re.M):
        plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", html.unescape(heading)).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        number = seen.get(slug, 0)
        seen[slug] = number + 1
        found.add(f"{slug}-{number}" if number else slug)
    return frozenset(found | set(re.findall(r"""<\w+ [^>]*(?:id|name)=["']([^"']+)""", text)))


def links(path: Path) -> Iterator[str]:
    """The targets of links and images within the repository."""
    text = re.sub(r"`[^`\n]*`", "", CODE.sub("", text_of(path)))
    for target in [*LINK.findall(text), *TAG.findall(text)]:
        if not re.match(r"[a-z]+:", target):
            yield target


@pytest.mark.parametrize("path", files(".md", ".ipynb"), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_anchors_lead_somewhere(path: Path) -> None:
    broken = []
    for target in links(path):
        name, _, anchor = target.partition("#")
        other = (path.parent / name).resolve() if name else path
        is_there = other.exists() and other.is_relative_to(ROOT)
        if not is_there or (anchor and other.suffix in (".md", ".ipynb") and anchor not in anchors(other)):
            broken.append(target)
    assert broken == []


def blocks() -> list[tuple[str, str]]:
    """Every block of Python in Markdown, by its file and number."""
    return [(f"{path.relative_to(ROOT)}:{number}", code) for path in files(".md")
            for number, code in enumerate(re.findall(r"^```python\n(.*?)^```", text_of(path), re.M | re.S))]


@pytest.mark.parametrize(("place", "code"), blocks(), ids=[place for place, _ in blocks()])
def test_code_in_markdown_can_be_parsed_and_imported_and_names_what_there_is(place: str, code: str) -> None:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                imported(alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module and (module := imported(node.module)) is not None:
            assert all(hasattr(module, alias.name) or imported(f"{node.module}.{alias.name}") for alias in node.names)
    shows_an_error = place.startswith(("docs/errors.md", "docs/api.md"))  # of a misspelt argument
    if not shows_an_error and "(wb.Algorithm)" not in code:  # whose fields are its own
        names_of(code)


def imported(name: str) -> object:
    """The module; None for one that no test environment has. Raises ImportError."""
    return None if name.partition(".")[0] in ELSEWHERE else importlib.import_module(name)


# --- the site ---------------------------------------------------------------------------------------------------------


def test_the_site_has_every_page_once() -> None:
    site = ROOT / "docs" / "site"
    navigation = runpy.run_path(str(site / "navigation.py"))
    pages = [page for section in navigation["NAVIGATION"] for page in navigation["pages_of"](section)]
    assert len(pages) == len(set(pages))
    assert {f"docs/{path.stem}" for path in (ROOT / "docs").glob("*.md")} <= set(pages)
    assert {f"notebooks/{path.stem}" for path in (ROOT / "notebooks").glob("*.ipynb")} <= set(pages)


def test_pages_load_nothing_from_elsewhere() -> None:
    for path in (ROOT / "docs" / "site").rglob("*"):
        if path.suffix in (".html", ".css", ".js"):
            assert not re.search(r"""(?:src|href)=["']https?:|url\(["']?https?:""", path.read_text(encoding="utf-8"))
