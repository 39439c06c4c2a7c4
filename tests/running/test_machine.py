"""`wb.machine()` tells what a run then does, and loads nothing to know it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import workbench as wb
from tests.conftest import SMALL, processes_of
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


def _denormal_numbers() -> torch.Tensor:
    return (torch.full((1,), 1e-40) * 1.0).count_nonzero().float()


class Denormal(wb.Algorithm):
    """Tells what is left of a denormal number where updates are computed, and where actions are."""

    class Config(wb.LearningConfig):
        unroll_length: int = 5

    acted = torch.tensor(1.0)

    def act(self, output: Any, **others: Any) -> Any:
        Denormal.acted = _denormal_numbers()
        return super().act(output, **others)

    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        total = self.outputs(network, batch).value.square().mean()
        return wb.Loss(total, {"left": _denormal_numbers(), "left_acting": Denormal.acted})


def test_a_learner_has_no_denormal_numbers_and_goes_before_its_actors(home: Path) -> None:
    run = wb.launch("testing/catch-v0", algorithm=Denormal, **{**SMALL, "actors": 1, "total_frames": 10**7})
    run.wait(updates=3, timeout_s=60)
    niceness = {word: one.nice() for one in processes_of(run.path) for word in one.cmdline() if word[0] == "_"}
    run.stop()
    assert niceness["_actor"] == niceness["_learner"] + 5
    for name in ("left", "left_acting"):
        assert set(run.metrics(name)["value"]) == {0.0}


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
