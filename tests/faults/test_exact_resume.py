"""A run with `exact_resume_updates` that is stopped, killed or loses an actor ends with bitwise the same weights."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from tests.conftest import eventually
from workbench.checkpoints import Checkpoint
from workbench.errors import OutOfBounds

STRETCH = 25
COMMON = {"actors": 2, "envs_per_actor": 6, "groups_per_actor": 2, "batch_size": 4, "unroll_length": 8,
          "learner_threads": 1, "device": "cpu", "exact_resume_updates": STRETCH, "progress": False}
RUNS = {
    "vtrace": {"environment": "testing/catch-v0", "target_entropy": 0.5, "network": "small-cnn-lstm", **COMMON},
    "r2d2": {"environment": "testing/recall-v0", "replay_size": 60, "replay_min_size": 12, "burn_in": 4,
             "replay_ratio": 1.5, "recurrent_state": "refreshed", "target_update_period": 30, "lstm_size": 32,
             "dueling_size": 32, "normalize_observations": True, **COMMON},
    "sac": {"environment": "Pendulum-v1", "replay_size": 60, "replay_min_size": 12, "replay_ratio": 1.5,
            "critic_size": 32, **COMMON},
    "ppo": {"environment": "testing/catch-v0", "epochs": 4, "minibatches": 2, "normalize_values": True,
            "normalize_rewards": True, "kl_cost_target": 0.01, **COMMON},
    "awr": {"environment": "testing/catch-v0", "epochs": 4, "minibatches": 2, **COMMON},
    "vmpo": {"environment": "testing/catch-v0", "epochs": 4, "minibatches": 2, **COMMON},
}
WHOLE = dict.fromkeys(("ppo", "awr", "vmpo"), 32)  # updates of a stretch that ends with a round of 8 updates


def launched(algorithm: str, name: str, **more: object) -> wb.Run:
    return wb.launch(algorithm=algorithm, name=name, **{**RUNS[algorithm], **more})


def trained_on(run: wb.Run) -> None:
    """Wait until the run has trained for more than a stretch since it began or went on."""
    run.wait(updates=run.status.updates + STRETCH + 5, timeout_s=240, progress=False)


def killed(run: wb.Run, pid: int | None) -> None:
    """Kill that process of the run, and wait until another one is there and the run trains on."""

    def pids() -> list[int | None]:
        return [run.status.learner_pid, *(actor.pid for actor in run.status.actors)]

    number = len(pids())
    assert pid
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: pid not in (now := pids()) and None not in now and len(now) == number)
    trained_on(run)


def finished(run: wb.Run) -> Checkpoint:
    """The checkpoint that the run ends with."""
    assert run.wait(timeout_s=240, progress=False).state == "finished"
    return run.checkpoints[-1]


def check_same(one: Checkpoint, other: Checkpoint) -> None:
    assert (one.frames, one.steps, one.updates) == (other.frames, other.steps, other.updates)
    assert one.meta["episodes"] == other.meta["episodes"]
    groups = [group for group in one.groups if group != "replay"]
    assert {"model", "optimizer", "algorithm", "rng"} <= {*groups}
    for group in groups:
        mine, theirs = one.load(group), other.load(group)
        assert mine.keys() == theirs.keys()
        for name in mine:
            assert mine[name].tobytes() == theirs[name].tobytes(), f"{group} {name}"


def check_ends_as_undisturbed(run: wb.Run, algorithm: str) -> None:
    """The run, which was stopped, ends as one that nothing happened to."""
    stretch = WHOLE.get(algorithm, STRETCH)
    assert all(one.updates % stretch == 0 for one in run.checkpoints)
    frames = run.status.frames + 500
    expected = finished(launched(algorithm, "undisturbed", launcher="inline", total_frames=frames))
    check_same(finished(wb.resume(run.name, launcher="inline", total_frames=frames, progress=False)), expected)
    restored = run.events.query("kind == 'restore'")
    assert len(restored) and (restored["updates"] % stretch == 0).all() and restored["updates"].min() > 0
    first, last = run.checkpoints[0].load("model"), expected.load("model")
    assert any(not np.array_equal(first[name], last[name]) for name in first)


@pytest.mark.parametrize(
    "algorithm",
    ["vtrace", "ppo", *(pytest.param(name, marks=pytest.mark.full) for name in ("sac", "r2d2", "awr", "vmpo"))])
def test_a_run_that_is_stopped_and_resumed_ends_with_the_same_weights(home: Path, algorithm: str) -> None:
    run = launched(algorithm, "stopped", launcher="inline")
    trained_on(run)
    assert run.stop().state == "stopped"
    check_ends_as_undisturbed(run, algorithm)


@pytest.mark.full
def test_kills_of_learner_and_actor_change_no_weight(home: Path) -> None:
    run = launched("vtrace", "killed")
    trained_on(run)
    killed(run, run.status.learner_pid)
    killed(run, run.status.actors[0].pid)  # inside a stretch the learner goes back as well
    run.stop()
    check_ends_as_undisturbed(run, "vtrace")


@pytest.mark.parametrize(
    ("fields", "said"),
    [({"device": "cuda"}, "Choose device='cpu'"), ({"learners": 2}, "Choose learners=1"),
     ({"echo_factor": 2}, "Choose echo_factor=1"), ({"inference_device": "cuda:1"}, "Choose inference_device=''")],
)
def test_what_depends_on_more_than_the_seed_is_refused(home: Path, fields: dict[str, object], said: str) -> None:
    with pytest.raises(OutOfBounds, match=said):
        launched("vtrace", "refused", **fields)


@pytest.mark.full
def test_a_run_that_lost_its_exact_checkpoints_says_that_it_goes_on_otherwise(home: Path) -> None:
    run = launched("vtrace", "lost", launcher="inline")
    trained_on(run)
    asked = run.checkpoint()
    run.stop()
    for one in run.checkpoints:
        if not one.requested:
            (one.path / "model.safetensors").write_bytes(b"")
    again = wb.resume("lost", progress=False)
    messages = set(again.events["message"])
    assert any("all of those from which this run would go on exactly" in one for one in messages)
    assert f"continues from the checkpoint at {asked.frames:,} frames" in messages
    again.stop()
