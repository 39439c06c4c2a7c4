"""Installs a wheel in a bare environment of each Python, with every extra that has wheels there, and runs `journey.py`
in it, outside the checkout and with an empty home. Prints a table.

    python tests/pythons/bare.py dist/rl_workbench-0.1.0-py3-none-any.whl python3.11 python3.12 python3.13

Environments are kept in build/pythons/, so that a second time takes minutes less. Versions are those of
constraints.txt; where a Python has no wheel of such a version, those that pyproject.toml allows.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass, field
from email.parser import Parser
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[2]
ENVIRONMENTS = CHECKOUT / "build" / "pythons"
COMPILED = "football-engine"
TRACKERS = {"wandb", "mlflow", "trackio"}  # in an environment of its own (make test-trackers)
ELSEWHERE = {COMPILED, "dev", "tpu", *TRACKERS}  # tpu: torch 2.9, in an environment of its own (make test-xla)


@dataclass
class Row:
    """What became of one Python.

    Attributes:
        name: as it was asked for, and its version once it was found.
        pinned: whether the versions are those of constraints.txt.
        without: extras, with pip's reason why there is no wheel; "" where there is one.
        found: what journey.py wrote; None if it did not come that far.
        failure: why not.
    """

    name: str
    pinned: bool = True
    without: dict[str, str] = field(default_factory=dict)
    found: dict[str, Any] | None = None
    failure: str = ""

    def cells(self) -> list[str]:
        """The row of the table."""
        if self.found is None:
            return [self.name, "", "", self.failure, ""]
        ran = [name for name, what in self.found["steps"].items() if what.startswith("ok")]
        failed = [f"**{name}: {what}**" for name, what in self.found["steps"].items() if not what.startswith("ok")]
        lacking = [f"{extra}: {why}" for extra, why in self.without.items() if why]
        versions = "constraints.txt" if self.pinned else "pyproject.toml"
        return [self.found["python"], self.found["torch"], versions, ", ".join(ran + failed), "; ".join(lacking) or "-"]


def main() -> int:
    """Exit code 0 if every Python was there and everything ran in it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("pythons", nargs="+", help="commands, or paths of interpreters")
    parser.add_argument("--torch-index", default="", help="a package index with CPU builds of torch")
    given = parser.parse_args()
    rows = [row_of(python, given.wheel.absolute(), given.torch_index) for python in given.pythons]
    print("\n| Python | torch | versions of | what ran | what has no wheel |\n|---|---|---|---|---|")
    print("\n".join(f"| {' | '.join(row.cells())} |" for row in rows))
    return 1 if any(row.failure for row in rows) else 0


def row_of(command: str, wheel: Path, torch_index: str) -> Row:
    """Installs and runs in an environment of the interpreter `command`."""
    row = Row(command)
    interpreter = shutil.which(command)
    if interpreter is None:
        row.failure = "not found: name interpreters that there are, PYTHONS='python3.12 /a/path/python3'"
        return row
    python = environment(interpreter)
    print(f"\n== {command}: {python.parents[1].name}", flush=True)
    row.failure = install_all(python, wheel, torch_index, row)
    if not row.failure:
        row.found, row.failure = travel(python)
    return row


def environment(interpreter: str) -> Path:
    """The Python of a virtual environment of that interpreter's version."""
    ask = "import sys; print('py%d.%d' % sys.version_info[:2])"
    name = subprocess.check_output([interpreter, "-I", "-c", ask], text=True).strip()
    python = ENVIRONMENTS / name / "bin" / "python"
    if not python.exists():
        subprocess.run([interpreter, "-m", "venv", str(ENVIRONMENTS / name)], check=True)
    return python


def install_all(python: Path, wheel: Path, torch_index: str, row: Row) -> str:
    """Installs torch, then the wheel with its extras, all at once or else one after the other. "" or pip's error."""
    index = ["--extra-index-url", torch_index] if torch_index else []
    if why := pip(python, *index, "torch", pinned=True):
        return why
    pip(python, "--force-reinstall", "--no-deps", str(wheel))  # of now, where the environment was there
    extras = [one for one in extras_of(wheel) if one not in ELSEWHERE]
    row.without = {COMPILED: pip(python, "--dry-run", f"{wheel}[{COMPILED}]")}
    if not pip(python, f"{wheel}[{','.join(extras)}]", pinned=True):
        return ""
    if why := install_one(python, str(wheel), row):
        return why
    row.without |= {extra: install_one(python, f"{wheel}[{extra}]", row) for extra in extras}
    return ""


def install_one(python: Path, asked: str, row: Row) -> str:
    """Installs what is asked for in the versions of constraints.txt or, where they have no wheel, in others."""
    if not pip(python, asked, pinned=True):
        return ""
    row.pinned = False
    return pip(python, asked)


def pip(python: Path, *words: str, pinned: bool = False) -> str:
    """`pip install` of wheels alone; "" or the last error that it prints."""
    constraint = ["--constraint", str(CHECKOUT / "constraints.txt")] if pinned else []
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    print(f"pip install {' '.join(Path(word).name for word in words)}", flush=True)
    done = subprocess.run([*command, "--only-binary=:all:", *constraint, *words], capture_output=True, text=True,
                          cwd=ENVIRONMENTS)
    if done.returncode == 0:
        return ""
    errors = [line.removeprefix("ERROR: ") for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
    return errors[-1].partition(";")[0] if errors else done.stderr.strip()[-300:]


def extras_of(wheel: Path) -> list[str]:
    """The extras that a wheel's metadata names."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(archive.read(name).decode())
    return metadata.get_all("Provides-Extra") or []


def travel(python: Path) -> tuple[dict[str, Any] | None, str]:
    """What journey.py found, run in a folder of its own, and why it failed, if it did."""
    with tempfile.TemporaryDirectory(prefix="wb-") as folder:
        home = Path(folder, "home")
        home.mkdir()
        script = shutil.copy(Path(__file__).with_name("journey.py"), home)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "WORKBENCH"))}
        path = f"{python.parent}{os.pathsep}{kept.get('PATH', os.defpath)}"
        done = subprocess.run([str(python), "-I", script, "found.json"], cwd=home,
                              env={**kept, "HOME": str(home), "PATH": path, "VIRTUAL_ENV": str(python.parents[1])})
        found = home / "found.json"
        failure = "" if done.returncode == 0 else f"journey.py ended with {done.returncode}"
        return (json.loads(found.read_text()) if found.exists() else None), failure


if __name__ == "__main__":
    sys.exit(main())
