"""No text of the repository tells anybody to install this package by its name: at a package index the name is not ours,
and whoever registers it would run code on every reader's machine."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parent.parent
OURS = "rl" + "-workbench"  # in two pieces, or this file would be found
ITSELF = f'"{OURS}[lab,'  # in pyproject.toml: of the same checkout
_PIP = r"\b(?:pip[\d.]*|uv|pipx|poetry|pdm|conda)\b"
INSTALL = rf"{_PIP}[\s\"',]+(?:(?:tool|pip)[\s\"',]+)?(?:install|add|download|wheel|run)\b"
NAME = r"(?<![\w/.@-])rl[-_.]workbench(?![\w/-]|\.\w|\s*@)"
TOLD = (
    re.compile(rf"{INSTALL}(?:(?!\bpip\b).){{0,300}}?(?P<name>{NAME})", re.DOTALL | re.IGNORECASE),
    re.compile(rf"{INSTALL}(?:[ \"',\\]+-[\w-]+)*[ \"',\\]+(?P<name>workbench)(?![\w/-]|\.\w|\s*@)", re.IGNORECASE),
    re.compile(r"(?P<name>rl[-_.]workbench\[)", re.IGNORECASE),
    re.compile(rf"(?P<name>{NAME}\s*[=<>~!]=)", re.IGNORECASE),
    re.compile(r"\bsource\s*=\s*\\?[\"'](?P<name>(?:rl[-_.])?workbench)\b(?!/)", re.IGNORECASE),
)


def lines(text: str) -> list[int]:
    """Numbers of the lines in which `text` tells somebody to install this package by its name."""
    return sorted({text.count("\n", 0, match.start("name")) + 1 for told in TOLD for match in told.finditer(text)})


def texts() -> dict[str, str]:
    """The repository's text files by name, those that are not committed yet among them."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.check_output(command, cwd=CHECKOUT, text=True).split("\0")
    contents = {name: (CHECKOUT / name).read_bytes() for name in names if name and (CHECKOUT / name).is_file()}
    return {name: content.decode(errors="replace") for name, content in contents.items() if b"\0" not in content}


@pytest.mark.skipif(not (CHECKOUT / ".git").exists(), reason="no clone: which files are the repository's is not known")
def test_no_file_tells_anybody_to_install_it_from_an_index() -> None:
    read = texts()
    assert len(read) > 300 and ITSELF in read["pyproject.toml"]
    read["pyproject.toml"] = read["pyproject.toml"].replace(ITSELF, "")
    found = [f"{name}:{line}" for name, text in sorted(read.items()) for line in lines(text)]
    assert not found, "name a checkout, a wheel's file, or an extra's packages (workbench.imports.pip_install)"


def test_what_must_not_be_said_is_found() -> None:
    for text in (
        "pip install {}", "\n%pip install -U {}\n", "Install it: pip install '{}[ray]'", "uv add {}",
        "uv pip install {}", "python -m pip install --quiet {}==0.1", '["pip", "install", "--quiet", "{}"]', "{}>=1\n",
        "pipx run {}", "`pip install\n\"{}[football,doom]\"`", '"pip install "\n    \'"{}[tpu]"\'', 'source = "{}"',
        "pip install --find-links $wheels \\\n  {}", 'source = \\"{}\\"', "pip install a b.\n\nThen {}[x]",
    ):  # fmt: skip
        for name in (OURS, OURS.replace("-", "_"), OURS.upper()):
            assert lines(text.replace("{}", name)), text
    assert lines("\npip install workbench\n") == [2], "that name is somebody else's"


def test_what_names_a_file_or_a_place_is_let_through() -> None:
    for text in (
        "pip install '.[ray]' in a checkout of RL Workbench", "pip install '{0} @ git+https://host/{0}@0123'",
        "pip install '/w/rl_workbench-0.1.0-py3-none-any.whl[ray]'", "pip install git+https://host/{0}@0123",
        "pip uninstall {0}", "pip install '.[ray]'\nworkbench launch", "launchers/colab/{0}.ipynb", 'version("{0}")',
    ):  # fmt: skip
        assert not lines(text.replace("{0}", OURS)), text
