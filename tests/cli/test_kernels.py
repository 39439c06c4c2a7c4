"""Kernels for each accelerator: what lies in kernels/, what the command writes, and a kernel of it that runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import nbclient
import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from traitlets.config import Config

from tests.conftest import SMALL
from workbench.cli import kernelspec, magics
from workbench.errors import InvalidInput, StorageFailed, UnknownName

CHECKOUT = Path(__file__).parents[2]


@pytest.mark.parametrize("device", kernelspec.DEVICES)
def test_the_kernel_in_the_wheel_is_the_one_that_is_described(device: str) -> None:
    lies = (CHECKOUT / "kernels" / f"rl-workbench-{device}" / "kernel.json").read_text()
    assert lies == kernelspec.text(device), "kernels/ is out of date: write kernelspec.text(device) there"
    assert json.loads(lies)["display_name"] == f"RL Workbench ({device.upper()})"
    assert json.loads(lies)["env"]["WORKBENCH_DEVICE"] == device


def command(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "workbench", "kernel", *arguments], capture_output=True, text=True,
                          env={**os.environ, **variables})


def test_the_command_writes_a_kernel_for_this_interpreter(tmp_path: Path) -> None:
    done = command("install", "--device", "cpu", JUPYTER_DATA_DIR=str(tmp_path))
    folder = Path(done.stdout.strip())
    assert folder == tmp_path / "kernels" / "rl-workbench-cpu", done.stderr
    written = json.loads((folder / "kernel.json").read_text())
    assert written == kernelspec.specification("cpu", interpreter=sys.executable)
    found = KernelSpecManager(kernel_dirs=[str(tmp_path / "kernels")], ensure_native_kernel=False).get_all_specs()
    assert found["rl-workbench-cpu"]["spec"]["display_name"] == "RL Workbench (CPU)"


def test_the_kernels_device_is_that_of_the_machine_where_none_is_given(tmp_path: Path) -> None:
    done = command("install", "--prefix", str(tmp_path), PATH="", CUDA_VISIBLE_DEVICES="")
    assert Path(done.stdout.strip()).name in ("rl-workbench-cpu", "rl-workbench-tpu"), done.stderr
    assert Path(done.stdout.strip()).parent == tmp_path / "share" / "jupyter" / "kernels"


def test_wrong_input_of_the_command_is_one_line(tmp_path: Path) -> None:
    done = command("install", "--device", "gpu", JUPYTER_DATA_DIR=str(tmp_path))
    assert done.returncode == 2 and done.stderr.startswith("workbench: unknown device 'gpu'.")
    with pytest.raises(UnknownName, match="Did you mean 'cuda'"):
        kernelspec.install("cuda0", prefix=tmp_path)
    with pytest.raises(InvalidInput, match="is no folder"):
        kernelspec.install("cpu", prefix=tmp_path / "none")
    (tmp_path / "share").write_bytes(b"")
    with pytest.raises(StorageFailed, match="cannot write"):
        kernelspec.install("cpu", prefix=tmp_path)


CELLS = [
    "import os, sys\nprint(os.environ['WORKBENCH_DEVICE'], os.environ['OMP_NUM_THREADS'], 'torch' in sys.modules)",
    "import workbench as wb\nmade = wb.launch('CartPole-v1', name='first', **{small!r})\nprint(made.config.device)",
    "listed = %runs\nprint(listed)",
    "attached = %attach first\nprint(repr(attached), run.name)",
    "%tune learning_rate=3e-4 batch_timeout_ms=2",
    "%tune first entropy_cost=0.02",
    "fields = %tune\nprint(fields)",
    "%tune learning_rate=-1",
    "%attach frist",
    "newest = %attach\nprint(newest.name)",
    "[get_ipython().Completer.complete(line_buffer=one)[1] for one in ('%attach fi', '%tune entr')]",
    "run.stop(timeout_s=0)\nprint('torch' in sys.modules)",
    "%unload_ext workbench",
    "%runs",
]


@pytest.fixture(scope="module")
def cells(module_home: Path, tmp_path_factory: pytest.TempPathFactory) -> list[nbformat.NotebookNode]:
    """The cells above, executed in the kernel that is written for this interpreter."""
    folder = tmp_path_factory.mktemp("nb")
    kernelspec.install("cpu", prefix=folder)
    config = Config()
    config.KernelManager.transport, config.KernelManager.ip = "ipc", f"{folder}/ipc"
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(one.replace("{small!r}", repr(SMALL)))
                                           for one in CELLS])
    client = nbclient.NotebookClient(book, kernel_name="rl-workbench-cpu", config=config, timeout=240,
                                     allow_errors=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(folder / "share/jupyter"))
        client.execute(cwd=str(folder))
    return list(book.cells)


def said(cells: list[nbformat.NotebookNode], number: int) -> str:
    parts = [one.get("text") or one.get("evalue") or one.get("data", {}).get("text/plain", "")
             for one in cells[number].outputs]
    return "".join(parts)


def test_a_kernel_sets_its_device_and_threads_and_loads_no_torch(cells) -> None:
    assert said(cells, 0).split() == ["cpu", "1", "False"]
    assert said(cells, 1).split()[-1] == "cpu" and said(cells, 11).split()[-1] == "False"


def test_the_magics_list_attach_and_tune(cells) -> None:
    assert "first" in said(cells, 2) and "CartPole-v1" in said(cells, 2)
    assert "Run(first" in said(cells, 3) and said(cells, 3).split()[-1] == "first"
    assert "first: learning_rate 0.002 → 0.0003" in said(cells, 4) and "batch_timeout_ms 30.0 → 2.0" in said(cells, 4)
    assert "entropy_cost" in said(cells, 5) and "→ 0.02" in said(cells, 5)
    assert "learning_rate" in said(cells, 6) and "0.0003" in said(cells, 6)
    assert said(cells, 9).split()[-1] == "first"


def test_a_quotation_that_does_not_end_is_said() -> None:
    with pytest.raises(InvalidInput, match=r"%tune x learning_rate='1e-3: No closing quotation\. Write %tune NAME"):
        magics.Magics(SimpleNamespace(user_ns={})).tune("x learning_rate='1e-3")


def test_what_is_wrong_is_said_without_a_traceback(cells) -> None:
    assert "learning_rate=-1" in said(cells, 7) and "Traceback" not in said(cells, 7)
    assert "Did you mean 'first'?" in said(cells, 8)


def test_names_and_fields_are_completed(cells) -> None:
    assert "'first'" in said(cells, 10) and "entropy_cost=" in said(cells, 10)


def test_the_extension_can_be_unloaded(cells) -> None:
    assert "not found" in said(cells, 13)
