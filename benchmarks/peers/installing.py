"""A virtual environment for each peer, of the versions that its requirements file pins, kept between runs.

No command line: compare.py --install has it.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
ENVIRONMENTS = HERE.parents[1] / "build" / "peers"  # git-ignored


def python_of(requirements: str | None, folder: Path = ENVIRONMENTS) -> str | None:
    """The interpreter that has them, None where they are not installed or not up to date; of None: this one."""
    if requirements is None:
        return sys.executable
    file = HERE / requirements
    made = folder / file.stem
    done = made / "installed.txt"
    return str(made / "bin" / "python") if done.exists() and done.read_text() == file.read_text() else None


def install(requirements: str, folder: Path = ENVIRONMENTS) -> str:
    """The interpreter that has them, made anew. Raises CalledProcessError, with what pip said in its `stderr`."""
    file = HERE / requirements
    made = folder / file.stem
    python = made / "bin" / "python"
    print(f"installing {', '.join(file.read_text().split())} into {made}", file=sys.stderr, flush=True)
    venv.create(made, with_pip=True, clear=True)
    torch, *_ = (line for line in file.read_text().splitlines() if line.startswith("torch=="))
    _pip(python, torch)  # first, so that no other package brings a torch of its own choice
    _pip(python, "--requirement", str(file))
    (made / "installed.txt").write_text(file.read_text())
    return str(python)


def command_to_install(names: Sequence[str]) -> str:
    """What a person types."""
    return f"python benchmarks/peers/compare.py --install --peers {' '.join(names)}"


def _pip(python: Path, *words: str) -> None:
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *words], check=True,
                   stderr=subprocess.PIPE, text=True)
