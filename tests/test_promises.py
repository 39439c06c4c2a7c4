"""Every test that the pages of promises name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


NAMED = re.compile(r"`(?:([\w/]+\.py)(?:: )?)?(\w+(?:\.\.\.)?)?`")  # a file, its test, or another test


@pytest.mark.parametrize("page", ["promises.md", "security.md"])
def test_every_test_that_is_named_exists(page: str) -> None:
    missing, named = [], 0
    for line in (ROOT / "docs" / page).read_text().splitlines():
        text = ""
        for file, test in NAMED.findall(line):
            if file:
                path = ROOT / "tests" / file.removeprefix("tests/")
                text = path.read_text() if path.exists() else ""
                missing += [file] * (not text)
                named += 1
            if text and test and f"def test_{test.removesuffix('...')}" not in text:
                missing.append(f"{file}: {test}")
    assert not missing
    assert named > 10
