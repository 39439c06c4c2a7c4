"""`wb.machine()` tells what a run then does, and loads nothing to know it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import workbench as wb
from tests.conftest import SMALL
from workbench.running import machine_info


@pytest.mark.full
def test_it_tells_what_a_run_then_takes(home: Path) -> None:
    said = wb.machine()
    run = wb.launch("testing/catch-v0", **{**SMALL, "actors": said.actors, "learner_threads": 0})
    run.wait(updates=1, timeout_s=300)
    status = run.status
    assert (status.device, status.precision) == (said.device, said.precision)
    assert (status.learner_threads, run.config.actors) == (said.learner_threads, said.actors)
    recorded = run.directory.read()["machine"]
    run.stop(timeout_s=0)
    assert (recorded["processor"], recorded["cores"]) == (said.processor, said.cores)
    assert recorded == machine_info.described()


def test_a_table_shows_every_fact_once(monkeypatch) -> None:
    monkeypatch.setenv("WORKBENCH_DEVICE", "cpu")
    said = wb.machine()
    names = [fact.name for fact in said.facts]
    assert len(set(names)) == len(names) and {"cores", "instruction sets", "accelerator", "precision"} <= set(names)
    assert said.facts["device"].value == said.device == "cpu"
    assert "WORKBENCH_DEVICE=cpu" in repr(said) and "<table>" in said._repr_html_()


def test_looking_at_the_machine_loads_no_torch() -> None:
    code = "import sys, workbench as wb; repr(wb.machine()); print({'torch', 'torch_xla', 'jax'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"
