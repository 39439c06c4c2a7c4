"""The command that installs an extra names packages that pyproject.toml asks for, and never this distribution."""

from __future__ import annotations

import importlib.metadata
import shlex
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from workbench import imports

PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("extra", sorted(PROJECT["optional-dependencies"].keys() - {"dev"}))
def test_an_extras_command_names_its_packages_with_their_bounds(extra: str) -> None:
    pip, install, *packages = shlex.split(imports.pip_install(extra))
    assert (pip, install) == ("pip", "install")
    asked = [Requirement(one) for one in PROJECT["optional-dependencies"][extra]]
    assert {asked_for(one) for one in map(Requirement, packages)} == {asked_for(one) for one in asked}


def asked_for(requirement: Requirement) -> tuple[str, frozenset[str], str]:
    name = requirement.name.lower().replace("_", "-")
    assert name not in (PROJECT["name"], "workbench")
    return name, frozenset(requirement.extras), str(requirement.specifier)


def test_a_command_takes_more_words_for_pip() -> None:
    command = imports.pip_install("football-engine", "--no-build-isolation")
    assert command.startswith("pip install --no-build-isolation ") and "gfootball==" in command


def test_a_checkout_that_is_only_on_the_path_names_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> list[str]:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", absent)
    assert imports.pip_install("doom") == "pip install '.[doom]', in a checkout of RL Workbench"


def test_the_distribution_is_the_one_that_pyproject_names() -> None:
    assert PROJECT["name"] == imports.DISTRIBUTION
