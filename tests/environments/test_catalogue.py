"""What there is to launch, what is installed of it, and by which command the rest is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import cloudpickle
import pytest

import workbench as wb
from workbench import imports
from workbench.cli import commands
from workbench.environments import check_name, families
from workbench.errors import MissingPackage
from workbench.testing import CountingEnv


def said(code: str) -> str:
    """What `code` prints in a process of its own."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("before", [
    "", "import workbench.environments", "from workbench import environments", "import workbench.running.launch",
    "from workbench.environments import make", "wb.register_environment", "import importlib, workbench.environments\n"
    "importlib.reload(workbench.environments)",
])  # fmt: skip
def test_environments_can_be_called_whatever_was_imported_before(before: str) -> None:
    code = (f"import sys, workbench as wb\n{before}\nprint(wb.environments()['ALE/'].count > 100)\n"
            "import workbench.environments\nfrom workbench import environments\n"
            "print(wb.environments() is not None, environments.check_name('CartPole-v1') is not None)\n"
            "print('torch' in sys.modules)")
    assert said(code).split() == ["True", "True", "True", "False"]


def test_a_function_that_refers_to_it_travels_by_value() -> None:
    environments = wb.environments

    def made() -> object:
        return environments.make("testing/counting-v0", num_envs=1, seed=0)

    assert cloudpickle.loads(cloudpickle.dumps(made))().spec.name == "testing/counting-v0"


def test_every_family_is_listed_with_its_names() -> None:
    table = wb.environments()
    assert [row.name for row in table] == [
        "ALE/", "classic", "box2d", "mujoco", "minigrid", "dmlab/", "football/", "pettingzoo/", "vizdoom/", "testing/",
        "yours", *(["other"] if len(table) == 12 else [])]
    assert table["ALE/"].installed and table["ALE/"].count == 104 and table["ALE/"].install == ""
    assert table["classic"].count == 12 and table["testing/"].count == 5
    for row in table:
        assert row.installed or "install" in row.install or "build" in row.install
        if row.installed and row.example:
            check_name(row.example)
    assert "Atari 2600" in repr(table) and "<table>" in table._repr_html_()


def test_a_family_or_a_word_lists_names() -> None:
    assert {row.name for row in wb.environments("classic")} >= {"CartPole-v1", "FrozenLake-v1"}
    assert [row.name for row in wb.environments("testing")] == [row.name for row in wb.environments("testing/")]
    assert "testing/catch-v0" in [row.name for row in wb.environments("TESTING/")]
    found = wb.environments("breakOUT")
    (row,) = found
    assert (row.name, row.family, row.presets) == ("ALE/Breakout-v5", "ALE/", ("atari", "atari-few-cores"))
    assert wb.environments("halfcheetah")[0].presets == ("mujoco",)
    assert repr(wb.environments("no such thing")) == "no environment has 'no such thing' in its name"
    assert "; near: ALE/Breakout-v5" in repr(wb.environments("ALE/Brekout-v5"))


def test_what_the_user_registered_is_listed() -> None:
    wb.register_environment("mine-v0", CountingEnv)
    assert [(row.name, row.family) for row in wb.environments("mine-")] == [("mine-v0", "yours")]
    assert wb.environments()["yours"].count == 1


def test_what_is_not_installed_comes_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    found = families.importlib.util.find_spec
    missing = ("mujoco", "vizdoom", "minigrid", "envpool", "gfootball", "Box2D")
    monkeypatch.setattr(families.importlib.util, "find_spec",
                        lambda name: None if name in missing else found(name))
    table = wb.environments()
    assert not table["mujoco"].installed and table["mujoco"].count > 0  # Gymnasium knows their names
    assert table["mujoco"].install == imports.pip_install("mujoco")
    assert table["vizdoom/"].install == imports.pip_install("doom")
    assert table["football/"].install == imports.pip_install("football")
    assert "no: pip install" in repr(wb.environments("HalfCheetah-v5"))
    for name in ("HalfCheetah-v5", "football/academy_corner", "MiniGrid-Nowhere-v0"):
        with pytest.raises(MissingPackage, match="pip install"):
            check_name(name)


def test_levels_whose_files_the_wheel_lacks_are_not_listed() -> None:
    minigrid = pytest.importorskip("minigrid", reason="minigrid is not installed")
    there = Path(minigrid.__file__).with_name("envs").joinpath("wfc", "patterns").exists()
    assert bool(wb.environments("MiniGrid-WFC-")) == there
    assert wb.environments("MiniGrid-Empty-5x5")


def test_what_a_single_name_needs_beside_its_family_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pettingzoo", reason="the extra multi-agent is not installed")
    found = families.importlib.util.find_spec
    monkeypatch.setattr(families.importlib.util, "find_spec", lambda name: None if name == "pymunk" else found(name))
    by_name = {row.name: row for row in wb.environments("pettingzoo/")}
    assert by_name["pettingzoo/butterfly/knights_archers_zombies_v11"].installed
    missing = by_name["pettingzoo/butterfly/pistonball_v6"]
    assert not missing.installed and missing.install == "pip install 'pettingzoo[butterfly]'"


def test_deepmind_lab_says_that_it_must_be_built() -> None:
    row = wb.environments()["dmlab/"]
    if row.installed:
        pytest.skip("deepmind_lab is installed")
    assert "github.com/google-deepmind/lab" in row.install


def test_the_command_line_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.run(["environments"]) == 0
    assert "install it with" in capsys.readouterr().out
    assert commands.run(["environments", "cartpole"]) == 0
    assert "CartPole-v1" in capsys.readouterr().out
