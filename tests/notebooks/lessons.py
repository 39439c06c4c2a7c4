"""Lessons, executed from beginning to end in a kernel of their own, with small sizes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import nbformat

from workbench.lessons.speed_probe import SPEED

CHECKOUT = Path(__file__).parents[2]
LESSONS = sorted((CHECKOUT / "notebooks").glob("*.ipynb"))
LONGEST_S = 1100  # less than the time limit of the tests


def execute(lesson: str, home: Path, output: Path, *, share: float = 1.0, **parameters: Any) -> tuple[list[Any], str]:
    """The executed cells of the first `share` of notebooks/<lesson>.ipynb, and what was printed; runs are made in
    `home`."""
    settings = [f"--share={share}", *(f"--set={name}={value!r}" for name, value in parameters.items())]
    command = [sys.executable, "notebooks/run.py", f"notebooks/{lesson}.ipynb", "--output", str(output), *settings]
    environment = {**os.environ, "WORKBENCH_HOME": str(home), "OMP_NUM_THREADS": "1", SPEED: "1"}
    process = subprocess.Popen(command, cwd=CHECKOUT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, start_new_session=True)
    try:
        said, complaints = process.communicate(timeout=LONGEST_S)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with its kernel, where it was cut off
    assert process.returncode == 0, said[-4000:] + complaints[-8000:]
    return nbformat.read(output / f"{lesson}.executed.ipynb", as_version=4).cells, said


def cell_with(cells: list[Any], text: str) -> Any:
    """The first cell whose source has that text."""
    return next(cell for cell in cells if text in cell.source)
