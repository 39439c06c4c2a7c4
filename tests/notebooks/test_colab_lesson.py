"""Lesson 10: a lent machine, lost on purpose."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from tests.notebooks.lessons import CHECKOUT, cell_with, execute

FIELDS = {"actors": 1, "envs_per_actor": 4, "batch_size": 4, "unroll_length": 10, "learner_threads": 1}


@pytest.mark.full
def test_a_run_goes_on_from_the_folder_that_outlived_its_machine(module_home: Path, tmp_path: Path) -> None:
    drive = tmp_path / "drive"
    cells, said = execute("appendix-colab-tpu", module_home, tmp_path, folder=str(drive), environment="CartPole-v1",
                          fields=FIELDS, frames=20_000)  # fmt: skip
    lost, name = re.search(r"(\S+) had ([\d,]+) frames. Runs here: \[\]", said), "cartpole-vtrace-1"
    back = re.search(rf"{name}: ([\d,]+) frames; the copy had ([\d,]+)", said)
    assert lost is not None and back is not None and lost[1] == name
    trained, after, copied = (int(one.replace(",", "")) for one in (lost[2], *back.groups()))
    assert trained >= 20_000 and after >= 30_000 and 0 < copied <= after
    assert "device cpu" in said and "inference_ms" in said
    assert "'error': ''" in said and len(list((drive / name / "checkpoints").glob("[!.]*"))) == 2
    assert "image/png" in cell_with(cells, "mark_bar").outputs[0].data


def test_it_installs_as_the_launchers_notebook_does() -> None:
    notebooks = ("notebooks/appendix-colab-tpu.ipynb", "launchers/colab/rl-workbench.ipynb")
    lesson, launcher = (nbformat.read(CHECKOUT / one, as_version=4).cells for one in notebooks)
    install = [next(one.source for one in cells if "install" in one.metadata.get("tags", []))
               for cells in (lesson, launcher)]
    assert install[0] == install[1]
