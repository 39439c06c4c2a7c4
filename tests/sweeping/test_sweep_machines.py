"""Sweeps and populations whose machines go: nodes of a real Ray cluster, and a machine that its cloud takes back."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.conftest import CALM, eventually, processes_of
from tests.launchers.clusters import add_node, drain, lose, ray_cluster
from tests.launchers.test_ray import node_of
from tests.supervisor.test_spot_notices import GCP, Metadata, metadata
from workbench import checkpoints
from workbench.config import hardware
from workbench.launchers.ray import RayLauncher

__all__ = ["metadata"]  # the fixture
pytest.importorskip("optuna")

SPACE = {"learning_rate": (1e-4, 1e-2)}
# A node with one CPU has room for one run.
ON_RAY: dict[str, Any] = {
    **CALM, "actors": 1, "launcher": "ray", "learner_cpus": 1.0, "actor_cpus": 0.0, "device": "cpu", "parallel": 2,
    "space": SPACE, "warmup_updates": 0, "price_per_hour": 1.0}
ON_ONE: dict[str, Any] = {**CALM, "spot": "gcp"}
FRAMES = 1500
WAITS = "waits: a node of the cluster with 1 CPU to spare"


def trains(run: wb.Run) -> bool:
    return run.state == "training"


def both_paused(home: Path, sweep: wb.Sweep) -> list[wb.Run]:
    """The first two runs of a sweep, each paused with a checkpoint once it trains, so that it does not end."""
    runs = []
    for number in range(2):
        path = home / "runs" / f"{sweep.name}-{number}"
        eventually((path / "run.json").exists, what=sweep.log)
        run = wb.attach(path)
        eventually(partial(trains, run), what=f"{run.name}: {sweep.log}")
        run.pause()
        run.checkpoint()
        runs.append(run)
    return runs


def nodes_of(cluster: Any, runs: list[wb.Run]) -> tuple[wb.Run, wb.Run, Any]:
    """The run on the head, the run on another node, and that node."""
    nodes = [node_of(cluster, run.status.supervisor_pid) for run in runs]
    other = next(number for number, node in enumerate(nodes) if node is not cluster.head_node)
    assert nodes[1 - other] is cluster.head_node
    return runs[1 - other], runs[other], nodes[other]


def waits(sweep: wb.Sweep, run: wb.Run) -> bool:
    """Whether the sweep says that this run alone waits for a machine."""
    notes = {trial.run: trial.said for trial in sweep.trials if trial.waits}
    return list(notes) == [run.name] and WAITS in notes[run.name] and sweep.status.waiting == 1


@pytest.mark.full
def test_a_sweep_goes_on_with_the_machines_that_are_left(home: Path) -> None:
    with ray_cluster(1, 1) as cluster:
        sweep = wb.sweep("testing/catch-v0", name="spot", address=cluster.address, trials=3, pruner="none",
                         total_frames=FRAMES, **ON_RAY)
        kept, lost, node = nodes_of(cluster, both_paused(home, sweep))
        drain(cluster, node, seconds=3600)
        eventually(lambda: any("a checkpoint is written" in message for message in lost.events["message"]))
        checkpoint = lost.checkpoints[-1]
        lose(cluster, node)
        eventually(lambda: waits(sweep, lost), what=sweep.log)
        assert len(sweep.trials) == 2, "no other trial begins before the one that waits"
        assert "1 waiting for a machine" in sweep.status.line()

        for process in processes_of(sweep.path):  # the sweep's own machine
            process.kill()
        eventually(lambda: sweep.state == "dead")
        sweep.resume()
        eventually(lambda: waits(sweep, lost), what=sweep.log)

        sweep.stop()
        assert (kept.state, lost.state) == ("stopped", "stopped")
        assert RayLauncher().waits_for(lost.directory) == "", "it does not begin by itself"
        assert sweep.status.waiting == 0 and [trial.state for trial in sweep.trials] == ["running"] * 2
        sweep.resume()
        assert sweep.wait(timeout_s=600).state == "finished", sweep.log

        status = sweep.status
        assert (status.finished, status.pruned, status.failed, status.trials) == (3, 0, 0, 3), sweep.trials
        assert all(trial.frames >= FRAMES and trial.value is not None for trial in sweep.trials)
        assert f"continues from the checkpoint at {checkpoint.frames:,} frames" in lost.events["message"].tolist()
        assert {run.name for run in wb.runs()} == {"spot-0", "spot-1", "spot-2"}
        runs = [wb.attach(trial.run).status for trial in sweep.trials]
        assert status.cost == pytest.approx(sum(run.cost for run in runs)) and status.cost > 0
        assert status.frames == sum(run.frames - (run.first_frames or 0) for run in runs) > 0
        assert status.cost_per_billion_frames == pytest.approx(status.cost / status.frames * 1e9)


@pytest.mark.full
def test_a_population_waits_for_a_member_whose_machine_is_lost(home: Path) -> None:
    generation = FRAMES // 3
    with ray_cluster(1, 1) as cluster:
        sweep = wb.sweep("testing/catch-v0", name="herd", address=cluster.address, trials=2, sampler="pbt",
                         generations=3, total_frames=FRAMES, **ON_RAY)
        kept, lost, node = nodes_of(cluster, both_paused(home, sweep))
        before = lost.status.supervisor_pid
        lose(cluster, node)
        eventually(lambda: waits(sweep, lost), what=sweep.log)
        assert len(sweep.trials) == 2, "the generation has not ended"
        add_node(cluster, 1)
        eventually(lambda: lost.status.supervisor_pid not in (None, before), what=sweep.log)
        assert node_of(cluster, lost.status.supervisor_pid) is not cluster.head_node
        kept.resume()
        assert sweep.wait(timeout_s=900).state == "finished", sweep.log

        status = sweep.status
        assert (status.finished, status.pruned, status.failed, status.trials) == (2, 2, 0, 4), sweep.trials
        for trial in sweep.trials:
            run = wb.attach(trial.run)
            assert (trial.frames >= FRAMES) == (trial.state == "finished")
            assert trial.frames // generation >= 1, "nobody is replaced before the end of a generation"
            for checkpoint in checkpoints.every(run.directory.checkpoints):
                checkpoint.verify()


@pytest.mark.full
def test_a_sweep_on_a_spot_machine_stops_with_checkpoints_and_goes_on(metadata: Metadata, home: Path) -> None:
    metadata.answers = {GCP: "FALSE"}
    sweep = wb.sweep("testing/catch-v0", name="taken", space=SPACE, trials=9, pruner="none",
                     **{**ON_ONE, "total_frames": 10**7})
    parallel = min(2, hardware.cores())
    runs = []
    for number in range(parallel):
        eventually((home / "runs" / f"taken-{number}" / "run.json").exists, what=sweep.log)
        runs.append(wb.attach(f"taken-{number}"))
        eventually(partial(trains, runs[-1]), what=sweep.log)
    metadata.answers = {GCP: "TRUE"}
    assert sweep.wait(timeout_s=240).state == "stopped"
    assert "gcp takes this spot machine back in 30 s: resume() goes on" in sweep.status.line()
    assert [trial.state for trial in sweep.trials] == ["running"] * parallel, "none is pruned, and none was begun"
    eventually(lambda: not any(processes_of(path) for path in (sweep.path, *(run.path for run in runs))))
    for run in runs:
        assert run.state == "stopped" and run.checkpoints[-1].frames == run.status.frames
        assert any("gcp takes this spot machine back" in message for message in run.events["message"])
    metadata.answers = {GCP: "FALSE"}
    sweep.resume()
    for run in runs:
        eventually(partial(trains, run), what=sweep.log)
    assert sweep.stop().running == parallel
