"""A run that learns from rollouts keeps them: it checks them before it starts, goes on when they are deleted, and is
resumed, forked, swept and copied with them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.conftest import SMALL, eventually
from tests.faults.test_exact_resume import check_same
from tests.learner.test_rollout_kinds import Kinds
from tests.played import checkpoint_in, rolled_out
from workbench.config import RunConfig
from workbench.copies import restored_run, run_copy
from workbench.errors import InvalidInput, OutOfBounds, StorageFailed, UnknownName
from workbench.playing.rollout import Rollout
from workbench.replay import demonstration_file
from workbench.running.starts import demonstrating

BC = {**SMALL, "algorithm": "bc", "burn_in": 3, "progress": False}
CONFIG = RunConfig.build("testing/catch-v0", algorithm="bc")


def kept_rollouts(
    folder: Path, environment: Any = "testing/catch-v0", *, number: int = 3, **fields: Any
) -> list[Rollout]:
    """Rollouts of a network that nobody trained, in `folder`/rollouts, as a run's are."""
    checkpoint = checkpoint_in(folder, environment, **fields)
    (folder / "rollouts").mkdir()
    return [rolled_out(checkpoint, folder / "rollouts" / f"000000001200-seed{seed}", seed=seed, greedy=False,
                       render=False) for seed in range(number)]


@pytest.fixture(scope="module")
def rollouts(tmp_path_factory: pytest.TempPathFactory) -> list[Rollout]:
    return kept_rollouts(tmp_path_factory.mktemp("recorded"))


def episodes(demonstrations: Any, folder: Path) -> list[int]:
    """The lengths of the episodes that a run would keep."""
    folder.mkdir()
    path = folder / "demonstrations" / "steps.safetensors"
    demonstrating.checked(demonstrations, CONFIG)(path)
    return demonstration_file.read(path).length.tolist()


# --- what is given ----------------------------------------------------------------------------------------------------


def test_demonstrations_are_rollouts_their_folders_or_their_names(home: Path, tmp_path: Path) -> None:
    (home / "rollouts").mkdir()
    found = kept_rollouts(home / "rollouts" / "elsewhere")
    lengths = [rollout.steps for rollout in found]
    named = home / "rollouts" / "pole-played-1"
    shutil.copytree(found[2].path, named)
    assert episodes([found[0], str(found[1].path), "pole-played-1"], tmp_path / "all") == lengths
    assert episodes(found[0], tmp_path / "one") == episodes(found[0].path, tmp_path / "path") == lengths[:1]
    assert episodes("pole-played-1", tmp_path / "name") == lengths[2:]
    with pytest.raises(UnknownName, match="Did you mean 'pole-played-1'"):
        demonstrating.checked("pole-playd-1", CONFIG)
    shutil.copytree(named, home / "runs" / "other" / "rollouts" / named.name)
    with pytest.raises(InvalidInput, match=r"2 rollouts are called 'pole-played-1': .*other.*Give the folder"):
        demonstrating.checked(["pole-played-1"], CONFIG)


def test_what_cannot_be_learnt_from_is_refused_before_anything_is_started(
    home: Path, tmp_path: Path, rollouts: list[Rollout]
) -> None:
    first = rollouts[0]
    other, wide = (kept_rollouts(tmp_path / kind, Kinds, number=1, environment_options={"kind": kind})[0]
                   for kind in ("parts", "switches"))
    rewards = np.array(first.rewards)
    rewards[2] = np.nan
    damaged = tmp_path / "damaged"
    shutil.copytree(first.path, damaged)
    (damaged / "steps.safetensors").write_bytes(b"0123456789")
    refused: list[tuple[Any, type[Exception], str]] = [
        (None, InvalidInput, r"='bc' learns from demonstrations: give rollouts, demonstrations=\[rollout, \.\.\.\]"),
        ([], InvalidInput, "learns from demonstrations: give rollouts"),
        (3, InvalidInput, "demonstrations=3: give rollouts, their folders, or the names"),
        ([first, None], InvalidInput, "demonstrations=None: give rollouts"),
        (tmp_path / "nowhere", InvalidInput, "there is no rollout in .*nowhere"),
        ([first, other], InvalidInput, r"demonstration 1 \(.*seed0\) has observations of shape \(2,\), not "
                                       r"\(1, 36, 36\) as the first one \(.*seed0\)\. Give rollouts of one environ"),
        ([other, wide], InvalidInput, r"demonstration 1 .* has observations of shape \(3,\), not \(2,\)"),
        (replace(first, rewards=rewards), InvalidInput, "has rewards that are not finite, first at step 2"),
        (damaged, StorageFailed, "is damaged"),
    ]
    for given, error, said in refused:
        with pytest.raises(error, match=said):
            wb.launch("testing/catch-v0", demonstrations=given, **BC)
    with pytest.raises(InvalidInput, match=r"algorithm='ppo' learns from its own steps, .* choose algorithm='bc'"):
        wb.launch("testing/catch-v0", algorithm="ppo", demonstrations=rollouts, progress=False)
    with pytest.raises(InvalidInput, match="learns from demonstrations"):
        wb.sweep("testing/catch-v0", algorithm="bc")
    with pytest.raises(OutOfBounds, match="validation_share"):
        wb.launch("testing/catch-v0", demonstrations=rollouts, validation_share=1.0, **BC)
    assert not wb.runs()


def test_an_environment_with_other_spaces_fails_with_what_differs(home: Path, rollouts: list[Rollout]) -> None:
    with pytest.raises(InvalidInput, match=r"CartPole-v1 has observations of shape \(4,\), not \(1, 36, 36\) as "):
        wb.launch("CartPole-v1", demonstrations=rollouts, **BC)


# --- a run ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stopped(module_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[wb.Run]:
    """A run that has learnt a little and was stopped; its rollouts are gone."""
    found = kept_rollouts(tmp_path_factory.mktemp("gone"))
    run = wb.launch("testing/catch-v0", demonstrations=found, name="clone", **BC)
    shutil.rmtree(found[0].path.parent)
    run.wait(updates=30, timeout_s=240, progress=False)
    eventually(lambda: {"held_out_accuracy", "demonstration_epochs"} <= {*run.metric_names})
    run.stop()
    yield run


def test_it_says_what_it_learns_from_and_counts_frames_and_epochs_apart(stopped: wb.Run) -> None:
    (said,) = stopped.events.query("kind == 'demonstrations'")["message"]
    assert said.startswith("learns from 3 demonstrations of ")
    recorded = demonstration_file.read(stopped.directory.demonstrations)
    status, trained = stopped.status, int(np.sort(recorded.length)[-2:].sum())
    epochs = stopped.metrics("demonstration_epochs")
    last = epochs.iloc[-1]
    unrolls = last["updates"] * SMALL["batch_size"] / last["value"]  # in an epoch
    assert -(-(len(recorded.reward) - recorded.length.max()) // 10) <= round(unrolls) <= -(-trained // 10)
    # an update costs one unroll of ten frames at demonstration_ratio=4; unrolls that wait or are unfinished come on top
    assert status.updates * 10 <= status.frames <= status.updates * 10 + 8 * 3 * 10
    for name in ("accuracy", "held_out_accuracy"):
        assert stopped.metrics(name)["value"].between(0, 1).all()
    assert (stopped.metrics("policy_lag_max")["value"] == 0).all()
    assert not len(stopped.events.query("kind == 'error'"))


def test_a_fork_goes_on_with_them_though_the_run_is_gone_and_is_resumed(stopped: wb.Run) -> None:
    fork = stopped.fork(name="fork", unroll_length=5, learning_rate=1e-4, progress=False)
    own, source = fork.directory.demonstrations, stopped.directory.demonstrations
    assert own.read_bytes() == source.read_bytes() and own.stat().st_ino == source.stat().st_ino, "it takes no space"
    started = fork.status.updates
    fork.wait(updates=started + 10, timeout_s=240, progress=False)
    before = fork.stop()
    source.unlink()
    try:
        with pytest.raises(StorageFailed, match=r"steps\.safetensors is gone: this run learns from the demonstrations"):
            wb.resume("clone", progress=False)
        again = wb.resume("fork", progress=False)
        status = again.wait(updates=before.updates + 10, timeout_s=240, progress=False)
        assert status.frames > before.frames
        assert not len(again.events.query("kind == 'demonstrations'")), "it was said once, by the run that it is of"
        again.stop()
    finally:
        os.link(own, source)


@pytest.mark.full
def test_a_clone_is_where_another_algorithm_begins(stopped: wb.Run) -> None:
    run = wb.launch("testing/catch-v0", algorithm="ppo", checkpoint=stopped, progress=False,
                    **{**SMALL, "minibatches": 2})
    try:
        run.wait(updates=4, timeout_s=240, progress=False)
    finally:
        run.stop()


def test_the_folder_that_outlives_a_machine_has_them(stopped: wb.Run, tmp_path: Path) -> None:
    content = stopped.directory.demonstrations.read_bytes()
    assert run_copy.copy(stopped.directory, tmp_path)
    moved = stopped.path.with_name("moved")
    stopped.path.rename(moved)
    try:
        restored_run.restored("clone", tmp_path)
        assert stopped.directory.demonstrations.read_bytes() == content
        shutil.rmtree(stopped.path)
    finally:
        moved.rename(stopped.path)


@pytest.mark.full
def test_a_run_that_is_stopped_and_resumed_ends_with_the_same_weights(home: Path, rollouts: list[Rollout]) -> None:
    common = {**BC, "launcher": "inline", "exact_resume_updates": 25, "network": "small-cnn-lstm", "device": "cpu",
              "demonstrations": rollouts}
    run = wb.launch("testing/catch-v0", name="stopped", **common)
    run.wait(updates=30, timeout_s=240, progress=False)
    frames = run.stop().frames + 500
    undisturbed = wb.launch("testing/catch-v0", name="undisturbed", total_frames=frames, **common)
    again = wb.resume("stopped", launcher="inline", total_frames=frames, progress=False)
    ended = [each.wait(timeout_s=240, progress=False).state for each in (undisturbed, again)]
    assert ended == ["finished", "finished"]
    restored = again.events.query("kind == 'restore'")
    assert len(restored) and restored["updates"].min() >= 25
    check_same(again.checkpoints[-1], undisturbed.checkpoints[-1])


class Margin(wb.Algorithm):
    """Learns from demonstrations in a way of its own."""

    class Config(wb.DemonstrationsConfig):
        margin: float = wb.setting(0.5, "by which the demonstrated action leads", low=0.0, high=10.0, live=True)

    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        logits = self.outputs(network, batch).policy_logits[:-1]
        taken = logits.gather(-1, batch.action[:-1, :, None])
        shortfall = (logits + config.margin - taken).clamp(min=0).sum(-1).mean(0)
        total = (shortfall * batch.weight).mean()
        return wb.Loss(total, {"loss": total.detach(), "held_out": shortfall.detach()[batch.weight == 0].mean()})


@pytest.mark.full
def test_an_algorithm_typed_here_learns_from_demonstrations(home: Path, rollouts: list[Rollout]) -> None:
    with pytest.raises(InvalidInput, match="algorithm='Margin' learns from demonstrations"):
        wb.launch("testing/catch-v0", algorithm=Margin, progress=False)
    run = wb.launch("testing/catch-v0", **{**SMALL, "batch_size": 8}, algorithm=Margin, demonstrations=rollouts,
                    progress=False)
    run.wait(updates=20, timeout_s=240, progress=False)
    eventually(lambda: {"loss", "held_out"} <= {*run.metric_names})
    run.tune(margin=1.0)
    assert run.config.value("margin") == 1.0 and "demonstration_ratio" in run.config.all_settings()
    run.stop()


@pytest.mark.full
def test_the_runs_of_a_sweep_have_them(home: Path, rollouts: list[Rollout]) -> None:
    pytest.importorskip("optuna")
    sweep = wb.sweep("testing/catch-v0", demonstrations=rollouts, trials=2, parallel=1, total_frames=2000,
                     pruner="none", space={"learning_rate": (1e-4, 1e-2)}, environment_options={"step_ms": 10.0},
                     **{name: value for name, value in BC.items() if name != "progress"})
    status = sweep.wait(timeout_s=240)
    assert status.state == "finished" and status.best_value is not None
    assert len(sweep.trials) == 2
    for trial in sweep.trials:
        assert demonstration_file.read(wb.attach(trial.run).directory.demonstrations).length.tolist() == [
            rollout.steps for rollout in rollouts]
