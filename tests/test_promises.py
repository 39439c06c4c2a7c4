"""Every test that the pages of promises name is there, and make test runs one of each promise."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NAMED = re.compile(r"`(?:([\w/]+\.py)(?:: )?)?(\w+(?:\.\.\.)?)?`")  # a file, its test, or another test


def named(line: str) -> Iterator[tuple[Path, str]]:
    """Files of tests that a line names, each with the beginning of a test's name, or "" where it is the whole file."""
    path = None
    for file, test in NAMED.findall(line):
        path = ROOT / "tests" / file.removeprefix("tests/") if file else path
        if path is not None:
            yield path, test.removesuffix("...")


def is_full(node: ast.AST) -> bool:
    return ast.unparse(node).removeprefix("pytestmark = ") == "pytest.mark.full"


def those_of(path: Path) -> dict[str, bool]:
    """The tests of a file, and whether make test runs them."""
    tree = ast.parse(path.read_text())
    whole = any(isinstance(node, ast.Assign) and is_full(node) for node in tree.body)
    return {
        node.name.removeprefix("test_"): not whole and not any(map(is_full, node.decorator_list))
        for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


@pytest.mark.parametrize("page", ["promises.md", "security.md"])
def test_every_test_that_is_named_exists(page: str) -> None:
    found = [one for line in (ROOT / "docs" / page).read_text().splitlines() for one in named(line)]
    missing = [(path.name, test) for path, test in found
               if not path.exists() or not any(name.startswith(test) for name in those_of(path))]
    assert missing == []
    assert len(found) > 10


def test_make_test_runs_a_test_of_every_promise() -> None:
    lines = (ROOT / "docs" / "promises.md").read_text().splitlines()
    rows = [line for line in lines if any(path.exists() for path, _ in named(line))]
    left_out = [row for row in rows if not any(
        kept and name.startswith(test) for path, test in named(row) for name, kept in those_of(path).items())]
    assert left_out == []
    assert len(rows) > 20
