"""What a device that records its work records before the first actor is admitted: all of it, and nothing else changes.

The recording device is a double on the CPU, see `replaying`; `test_gpu.py` has a GPU.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import workbench as wb
from tests.conftest import SMALL
from tests.learner import counting
from tests.learner.replaying import ReplayingDevice
from tests.learner.test_meta import EACH, MORE
from tests.learner.updates import CASES, trainer_on, update, weights
from workbench.environment_spec import EnvironmentSpec
from workbench.learner import build
from workbench.learner.devices.device import Device
from workbench.learner.run_state import RunState
from workbench.learner.training.trainer import Trainer
from workbench.replay import batch_source
from workbench.replay.unroll_fields import UnrollLayout

TRAINED = CASES | MORE | EACH


def everything(trainer: Trainer) -> list[torch.Tensor]:
    """Copies of all that an update may change."""
    moments = [value for state in trainer.optimizer.state.values() for value in state.values()]
    tensors = [*trainer.parameters, *trainer.network.buffers(), *trainer.algorithm.state().values(), *moments,
               trainer.algorithm.training_generator.get_state()]
    return [tensor.detach().cpu().clone() for tensor in tensors]


def warmed_up(device: Device, name: str, tmp_path: Path) -> Trainer:
    """A trainer that has recorded its updates; it is as it was before."""
    config, spec = TRAINED[name]
    trainer, hyperparameters = trainer_on(device, config, spec), config.hyperparameters
    layout = UnrollLayout.of(trainer.algorithm, trainer.network, hyperparameters.unroll_length)
    if config.imitates:  # its batches have the shapes of others, and held-out unrolls
        source: Any = batch_source.Fresh(batch_source.UnrollQueue(1))
    else:
        source = batch_source.build(trainer.algorithm, layout, config=hyperparameters, folder=tmp_path, seed=0,
                                    pin_memory=False)
    batches, drawn = batch_source.blank_batches(source, layout, config=hyperparameters), everything(trainer)[-1]
    trainer._loss(device.place_batch(batches[0]), hyperparameters)  # with the first, costs that adapt begin
    trainer.algorithm.training_generator.set_state(drawn)
    before = everything(trainer)
    trainer.warm_up(batches, config=hyperparameters)
    for old, new in zip(before, everything(trainer), strict=True):
        np.testing.assert_array_equal(old, new)
    return trainer


@pytest.mark.parametrize("name", TRAINED)
def test_recording_updates_before_the_first_changes_nothing(name: str, tmp_path: Path) -> None:
    device = ReplayingDevice()
    trainer = warmed_up(device, name, tmp_path)
    assert device.records == (2 if trainer.algorithm.values_finals else 1)
    assert trainer.drain()[0] == {} and trainer.updates == 0


@pytest.mark.parametrize("name", CASES)
def test_updates_after_it_are_the_same_and_none_is_recorded(name: str, tmp_path: Path) -> None:
    config, spec = TRAINED[name]
    device = ReplayingDevice()
    recorded, plain = warmed_up(device, name, tmp_path), trainer_on(ReplayingDevice(graphs=False), config, spec)
    records = device.records
    for seed in range(3):
        assert not any(update(one, config, spec, seed=seed)[1] for one in (recorded, plain))
    assert device.records == records
    assert (weights(recorded) - weights(plain)).abs().max() < 1e-6
    assert recorded.drain()[0] == pytest.approx(plain.drain()[0], rel=1e-5)


def test_batches_of_all_sizes_are_recorded_by_both_copies_of_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    device = ReplayingDevice()
    monkeypatch.setattr(counting, "device", lambda: device)
    with counting.rig(EnvironmentSpec("testing/counting-v0", (1, 36, 36), "uint8", 3, frame_stack=4)) as running:
        inference, policy = running.inference, running.policy
        drawn = inference.generator.get_state()
        inference.warm_up(17)
        assert device.records == 2 * 3  # 8, 16 and 32 rows
        assert torch.equal(inference.generator.get_state(), drawn)
        for size in (1, 9, 17, 20):
            for _ in range(2):
                rows = np.zeros(size, np.int64)
                with device.acting():
                    inference._choose(rows, inference._blank(size), np.zeros(size, bool), np.ones(size, bool))
                policy.publish(policy.version + 1)
        assert device.records == 2 * 3


RUNS = {
    "vtrace": {"queue_size": 3},
    "ppo": {"minibatches": 2, "epochs": 2},
    "r2d2": {"burn_in": 2, "lstm_size": 16, "dueling_size": 16, "replay_size": 100, "replay_min_size": 8},
    "sac": {"network": "mlp", "critic_size": 16, "replay_size": 400, "replay_min_size": 8},
}


@pytest.mark.parametrize("algorithm", RUNS)
def test_a_run_records_nothing_beside_its_actors(
    home: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str
) -> None:
    device, before = ReplayingDevice(), []
    start = RunState.start

    def started(state: RunState) -> None:  # which admits actors
        before.append(device.records)
        start(state)

    monkeypatch.setattr(build, "choose", lambda *_, **__: device)
    monkeypatch.setattr(RunState, "start", started)
    run = wb.launch("CartPole-v1", algorithm=algorithm, launcher="inline", name="recorded",
                    **{**SMALL, "unroll_length": 5, "network": "mlp", **RUNS[algorithm]})
    run.wait(updates=30, timeout_s=240)
    run.stop()
    sizes, copies = 1, 2  # batches of 8 rows
    updates = 2 if algorithm in ("r2d2", "sac") else 1  # with final observations and without
    assert before == [sizes * copies + updates] == [device.records]
    assert device.replays > 60 and "error" not in set(run.events["kind"])
