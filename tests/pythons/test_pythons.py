"""`make test-pythons` does what it says, tried with the interpreter of the tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.pythons import bare


@pytest.mark.full
def test_a_user_comes_from_launch_to_stop_and_into_every_family() -> None:
    found, failure = bare.travel(Path(sys.executable))
    assert found is not None and not failure, found
    assert {"launch", "stop", "Atari"} <= {name for name, what in found["steps"].items() if what.startswith("ok")}


def test_a_python_that_is_not_there_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["bare.py", "none.whl", "python3.0"])
    assert bare.main() == 1
    assert "| python3.0 |  |  | not found: name interpreters that there are" in capsys.readouterr().out


def test_the_extras_of_the_wheel_are_those_of_the_project(wheel: Path) -> None:
    extras = bare.extras_of(wheel)
    assert {"football", "doom", "mujoco", bare.COMPILED} <= set(extras) and set(extras) >= bare.ELSEWHERE
