"""Builds the site of the documentation into build/site, strictly: a warning is an error. `make docs` calls it.

`--execute` first runs the lessons that take less than a few minutes (notebooks/run.py, into build/lessons), so that the
site shows their outputs. That needs the environment of `make setup`, whose interpreter `--execute` names.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from navigation import ROOT, contents, lessons

SITE, EXECUTED = ROOT / "build" / "site", ROOT / "build" / "lessons"
FAST = ("01", "03", "07")  # lessons that need no extra package and little time


def execute(interpreter: str) -> None:
    """Run the fast lessons with that interpreter. Exits with the name of one that fails."""
    EXECUTED.mkdir(parents=True, exist_ok=True)
    for lesson in lessons():
        if Path(lesson).name.startswith(FAST):
            command = [interpreter, "notebooks/run.py", f"{lesson}.ipynb", "--output", str(EXECUTED)]
            if subprocess.run(command, cwd=ROOT, check=False).returncode:
                sys.exit(f"{lesson} failed; its outputs up to there are in {EXECUTED.relative_to(ROOT)}")


def build() -> int:
    """Build the site; returns Sphinx's exit code."""
    (ROOT / "docs" / "site" / "contents.md").write_text(contents(), encoding="utf-8")
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", "--builder", "html",
               "--conf-dir", "docs/site", "--doctree-dir", "build/doctrees", ".", str(SITE)]
    there = {"EXECUTED": str(EXECUTED)} if EXECUTED.exists() else {}
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **there}, check=False).returncode


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--execute", metavar="PYTHON", help="run the fast lessons with this interpreter first")
    arguments = parser.parse_args()
    if arguments.execute:
        execute(arguments.execute)
    began = time.monotonic()
    if code := build():
        sys.exit(code)
    print(f"{SITE.relative_to(ROOT)}/index.html, built in {time.monotonic() - began:.0f} s")
