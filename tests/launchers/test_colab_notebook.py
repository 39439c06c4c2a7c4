"""The Colab notebook, executed from beginning to end on the CPU, with a folder of this machine in Drive's place.

Kaggle's and Lightning's, which are made from it, as well. Colab's also (where build/colab is, see docs/colab.md) with
what Colab has: Python 3.13, ipykernel 6.17, ipython 7.34, ipywidgets 7.7 and traitlets 5.7, into which its cell
installs the wheel.
"""

from __future__ import annotations

import hashlib
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest
from traitlets.config import Config

CHECKOUT = Path(__file__).parent.parent.parent
LAUNCHERS = CHECKOUT / "launchers"
NOTEBOOK = LAUNCHERS / "colab" / "rl-workbench.ipynb"
COLAB = CHECKOUT / "build" / "colab" / "bin" / "python"
FIELDS = {"actors": 1, "envs_per_actor": 4, "batch_size": 4, "unroll_length": 10, "learner_threads": 1}


def book(notebook: Path, **parameters: Any) -> Any:
    """The notebook with a cell of its own values behind each cell of parameters."""
    cells = nbformat.read(notebook, as_version=4)
    for at in reversed([i for i, one in enumerate(cells.cells) if "parameters" in one.metadata.get("tags", [])]):
        mine = [f"{name} = {value!r}" for name, value in parameters.items() if f"{name} =" in cells.cells[at].source]
        cells.cells.insert(at + 1, nbformat.v4.new_code_cell("\n".join(mine)))
    return cells


def execute(cells: Any, python: Path, folder: Path) -> list[Any]:
    kernel = folder / "jupyter" / "kernels" / "under-test"
    kernel.mkdir(parents=True)
    argv = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernel / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "under test", "language": "python"}))
    config = Config()
    config.KernelManager.transport, config.KernelManager.ip = "ipc", f"{folder}/ipc"
    client = nbclient.NotebookClient(cells, kernel_name="under-test", config=config, timeout=240, startup_timeout=120,
                                     store_widget_state=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(folder / "jupyter"))
        patch.delenv("PYTHONPATH", raising=False)
        client.execute(cwd=str(folder))
    return list(cells.cells)


def said(cells: list[Any], of: str) -> str:
    cell = next(one for one in cells if of in one.source and one.cell_type == "code")
    return "".join(str(one.get("text") or one.get("data", {}).get("text/plain", "")) for one in cell.outputs)


def check(home: Path, folder: Path, python: Path, *, notebook: Path = NOTEBOOK, **parameters: Any) -> list[Any]:
    drive = folder / "drive"
    cells = execute(book(notebook, folder=str(drive), environment="CartPole-v1", name="on-colab", fields=FIELDS,
                         frames=1000, **parameters), python, folder)
    assert f"Checkpoints are copied to {drive}" in said(cells, "colab.prepare(folder)")
    assert "1 actor" in said(cells, "wb.launch(") or "training" in said(cells, "wb.launch(")
    assert "device cpu" in said(cells, "run.wait(")
    last = said(cells, "run.stop()")
    assert "stopped" in last and "'error': ''" in last and len(list((drive / "on-colab/checkpoints").iterdir())) == 2
    panel = next(one for one in cells if "run.dashboard()" in one.source).outputs
    assert any("image/png" in one.get("data", {}) for one in panel), "the picture that a saved notebook keeps"
    return cells


def test_it_is_kept_without_outputs_and_mounts_drive() -> None:
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    assert all(not cell.outputs and cell.execution_count is None for cell in cells if cell.cell_type == "code")
    assert any('folder = "/content/drive/MyDrive/' in cell.source for cell in cells)


def test_kaggles_and_lightnings_are_made_from_it() -> None:
    made = runpy.run_path(str(LAUNCHERS / "other_notebooks.py"))
    assert {path.parent.name for path in LAUNCHERS.glob("*/*.ipynb")} == {"colab", *made["PLACES"]}
    for place in made["PLACES"]:
        text = (LAUNCHERS / place / "rl-workbench.ipynb").read_text()
        assert text == made["text"](place), "run python launchers/other_notebooks.py"
        nbformat.validate(nbformat.reads(text, as_version=4))
        assert "Drive" not in text and "Colab" not in text


@pytest.mark.full
@pytest.mark.parametrize("place", ["colab", "kaggle", "lightning"])
def test_it_runs_with_the_newest_jupyter(home: Path, tmp_path: Path, place: str) -> None:
    check(home, tmp_path, Path(sys.executable), notebook=LAUNCHERS / place / "rl-workbench.ipynb")


PRINTS = "import importlib.metadata as m; print({n: m.version(n) for n in ('ipykernel', 'ipython', 'ipywidgets', " \
         "'traitlets', 'numpy', 'pandas', 'torch')})"


@pytest.mark.full
@pytest.mark.skipif(not COLAB.exists(), reason="build/colab, with Colab's packages, is not there: see docs/colab.md")
def test_it_installs_and_runs_with_what_colab_has(home: Path, tmp_path: Path, wheel: Path) -> None:
    before = subprocess.check_output([COLAB, "-c", PRINTS], text=True)
    subprocess.run([COLAB, "-m", "pip", "uninstall", "--quiet", "--yes", "rl-workbench"], check=True,
                   capture_output=True, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    check(home, tmp_path, COLAB, source=str(wheel), sha256=hashlib.sha256(wheel.read_bytes()).hexdigest())
    assert subprocess.check_output([COLAB, "-c", PRINTS], text=True) == before
