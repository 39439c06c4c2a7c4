"""The built wheel works outside the checkout, and the pins are complete."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path
from typing import Any

import pytest
import yaml

import workbench as wb
from tests.notebooks.lessons import LESSONS
from workbench.cli import kernelspec

CHECKOUT = Path(__file__).parent.parent
CODE = """
import json
import workbench as wb
from workbench.environments.atari.scores import human_normalized
from workbench.lessons import notebook_files
policies = wb.pretrained()
for one in policies:
    one.verify()
print(json.dumps({"file": wb.__file__, "lessons": [str(one) for one in notebook_files.every()],
                  "score": human_normalized("pong", 14.6), "policies": {str(one.path): one.card for one in policies}}))
"""


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel's contents, as pip lays them out."""
    folder = tmp_path_factory.mktemp("installed")
    target = folder / "site"
    pip = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile", "--target", str(target))
    run(*pip, str(wheel), cwd=folder)
    return target


def run(*arguments: str, cwd: Path, path: Path | None = None) -> str:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **({"PYTHONPATH": str(path)} if path else {})}
    done = subprocess.run([sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def said(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a process says that has the wheel and is outside the checkout."""
    return json.loads(run("-c", CODE, cwd=tmp_path_factory.mktemp("outside"), path=installed))


def test_the_wheel_imports_outside_the_checkout(installed: Path, said: dict[str, Any]) -> None:
    assert Path(said["file"]) == installed / "workbench" / "__init__.py"


def test_a_ray_cluster_installs_the_wheel_by_its_file(wheel: Path) -> None:
    (setup,) = yaml.safe_load(wb.recipe("ray-cluster", wheels="/w"))["setup_commands"]
    assert shlex.split(setup)[-1] == f"/w/{wheel.name}[ray]"


def test_the_wheels_command_line_answers_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    assert "launch" in run("-m", "workbench", "--help", cwd=tmp_path, path=installed)
    assert (installed / "bin" / "workbench").exists()


def test_all_lessons_travel_in_the_wheel(installed: Path, said: dict[str, Any]) -> None:
    packaged = installed / "workbench" / "notebooks"
    assert [Path(one) for one in said["lessons"]] == [packaged / one.name for one in LESSONS]


def test_published_scores_travel_in_the_wheel(said: dict[str, Any]) -> None:
    assert said["score"] == 1.0


def test_pretrained_policies_travel_in_the_wheel_whole(installed: Path, said: dict[str, Any]) -> None:
    shipped = sorted((CHECKOUT / "workbench" / "pretrained").glob("*/meta.json"))
    expected = [installed / "workbench" / "pretrained" / one.parent.name for one in shipped]
    assert [Path(one) for one in said["policies"]] == expected and shipped and all(said["policies"].values())


@pytest.mark.parametrize("device", kernelspec.DEVICES)
def test_the_wheel_installs_a_kernel_for_each_accelerator(installed: Path, device: str) -> None:
    folder = installed / "share" / "jupyter" / "kernels" / f"rl-workbench-{device}"
    assert (folder / "kernel.json").read_text() == kernelspec.text(device)


def test_the_wheel_brings_the_side_panel_of_jupyterlab_and_enables_its_half_on_the_server(
    installed: Path, tmp_path: Path
) -> None:
    folder = installed / "share" / "jupyter" / "labextensions" / "rl-workbench"
    about = json.loads((folder / "package.json").read_text())
    assert "_JUPYTERLAB" in (folder / about["jupyterlab"]["_build"]["load"]).read_text()
    config = json.loads((installed / "etc" / "jupyter" / "jupyter_server_config.d" / "rl-workbench.json").read_text())
    (module,) = config["ServerApp"]["jpserver_extensions"]
    code = f"import {module} as half; print(half._jupyter_server_extension_points()[0]['module'])"
    assert run("-c", code, cwd=tmp_path, path=installed).strip() == module


@pytest.mark.full
@pytest.mark.parametrize("how", ["wheel", "editable"])
def test_both_halves_of_the_side_panel_are_there_once_it_is_installed(wheel: Path, how: str, tmp_path: Path) -> None:
    environment, site = tmp_path / "env", sysconfig.get_paths()["purelib"]
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    (own,) = environment.glob("lib/python*/site-packages")
    (own / "beneath.pth").write_text(f"{site}\n")  # all that the wheel needs, from this environment
    variables = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")}

    def says(*arguments: str) -> str:
        done = subprocess.run([str(python), *arguments], cwd=tmp_path, env=variables, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    what = [str(wheel)] if how == "wheel" else ["--no-build-isolation", "--editable", str(CHECKOUT)]
    says("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--ignore-installed", *what)
    assert re.search(r"workbench v\S+ .*enabled.*OK", says("-m", "jupyterlab.labextensions", "list"))
    assert re.search(r"workbench\.widgets\.side_panel.*enabled",
                     says("-m", "jupyter_server.extension.serverextension", "list"))


def test_the_wheel_carries_its_types_and_licence(installed: Path) -> None:
    assert (installed / "workbench" / "py.typed").exists()
    assert list(installed.glob("rl_workbench-*.dist-info/licenses/LICENSE"))


def test_every_dependency_is_pinned_without_a_host_or_a_path() -> None:
    lines = [line for line in (CHECKOUT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    for line in lines:
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!]+", line), line
    pinned = {normal(line.split("==")[0]) for line in lines}
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    extras = {name: needs for name, needs in project["optional-dependencies"].items() if name != "tpu"}
    assert all("==" in one for one in project["optional-dependencies"]["tpu"])  # an environment of its own
    wanted = [*project["dependencies"], *(one for needs in extras.values() for one in needs)]
    names = {normal(re.split(r"[\s\[<>=!;]", one)[0]) for one in wanted} - {normal(project["name"])}
    assert names <= pinned, names - pinned


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
