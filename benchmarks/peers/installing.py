"""A virtual environment for each peer, of the versions that its requirements file pins, kept between runs."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).parent
ENVIRONMENTS = HERE.parents[1] / "build" / "peers"  # git-ignored


def python_of(requirements: str | None) -> str:
    """The interpreter that has them, installed where it is not there yet or not up to date; None: this one.

    Raises CalledProcessError where pip fails, with what it said in its `stderr`.
    """
    if requirements is None:
        return sys.executable
    file = HERE / requirements
    folder = ENVIRONMENTS / file.stem
    python, done = folder / "bin" / "python", folder / "installed.txt"
    if not done.exists() or done.read_text() != file.read_text():
        print(f"installing {', '.join(file.read_text().split())} into {folder}", file=sys.stderr, flush=True)
        venv.create(folder, with_pip=True, clear=True)
        torch, *_ = (line for line in file.read_text().splitlines() if line.startswith("torch=="))
        _pip(python, torch)  # first, so that no other package brings a torch of its own choice
        _pip(python, "--requirement", str(file))
        done.write_text(file.read_text())
    return str(python)


def _pip(python: Path, *words: str) -> None:
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *words], check=True,
                   stderr=subprocess.PIPE, text=True)
