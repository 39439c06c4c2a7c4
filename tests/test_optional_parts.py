"""Launchers, families of environments and algorithms are folders that tell of themselves: without one, all else works
as before."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_layers import PACKAGE
from workbench.config import ALGORITHMS

PARTS = ("environments/vizdoom", "environments/dmlab", "environments/football", "environments/pettingzoo",
         "launchers/colab", "launchers/inline", "launchers/ray",
         *(f"algorithms/{name}" for name in sorted(ALGORITHMS)))

CHECK = """
import importlib, pkgutil, sys
import workbench as wb
from workbench import launchers
from workbench.errors import UnknownName
from workbench.config import ALGORITHMS
from workbench.environments.families import FAMILIES

home, *parts = sys.argv[1:]
assert wb.__file__.startswith(home), wb.__file__
kind_of = {name: kind for kind, name in (part.split("/") for part in parts)}
of_them = {f"workbench.lessons.exercises.{name}" for name in kind_of}  # what a lesson about an algorithm asks
for one in pkgutil.walk_packages(wb.__path__, "workbench."):
    if not one.name.endswith(("__main__", "ray.starter")) and one.name not in of_them:
        importlib.import_module(one.name)
for name, kind in kind_of.items():
    if kind == "environments":
        assert name + "/" not in [one.prefix for one in FAMILIES] and len(FAMILIES) == 3
        assert name + "/" not in [one.name for one in wb.environments()] and len(wb.environments()) == 10
        refused = lambda: wb.launch(name + "/something")
    elif kind == "algorithms":
        assert name not in ALGORITHMS and len(ALGORITHMS) == 6
        refused = lambda: wb.launch("CartPole-v1", algorithm=name)
    else:
        assert name not in launchers.LAUNCHERS and len(launchers.LAUNCHERS) == 3
        refused = lambda: wb.launch("CartPole-v1", launcher=name)
    try:
        refused()
    except UnknownName as error:
        print(error)
    else:
        raise AssertionError(name + " is still there")
other = "ppo" if "vtrace" in kind_of else "vtrace"
run = wb.launch("testing/catch-v0", algorithm=other, actors=1, envs_per_actor=4, batch_size=4, unroll_length=10,
                learner_threads=1, progress=False)
run.wait(updates=3, timeout_s=240)
assert wb.evaluate(run.stop().name, episodes=2).returns
print("played")
"""


def copied(to: Path) -> Path:
    """A copy of the package in that folder."""
    return shutil.copytree(PACKAGE, to / "workbench", ignore=shutil.ignore_patterns("__pycache__"))


def plays(within: Path, code: str, *arguments: str) -> None:
    """Run the code with the copy of the package in that folder; it prints "played" when all is well."""
    done = subprocess.run([sys.executable, "-c", code, *arguments], cwd=within, text=True, timeout=400,
                          capture_output=True, env={**os.environ, "PYTHONPATH": str(within)})
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.endswith("played\n"), done.stdout


@pytest.mark.parametrize("parts", [("environments/vizdoom", "launchers/ray", "algorithms/r2d2"),
                                   *(pytest.param((one,), marks=pytest.mark.full) for one in PARTS)], ids="+".join)
def test_without_a_part_all_else_works(parts: tuple[str, ...], home: Path, tmp_path: Path) -> None:
    package = copied(tmp_path)
    for part in parts:
        shutil.rmtree(package / part)
    plays(tmp_path, CHECK, str(tmp_path), *parts)
