"""A field added to every step by one line, in a copy of the package, reaches the loss at the step that it is of."""

from __future__ import annotations

from pathlib import Path

from tests.test_optional_parts import copied, plays

OF_ENVIRONMENT = '''    flags: A = field(metadata=shaped(lambda spec: ((), "uint8")))
'''
OF_LEARNER = '''    bootstrap_value: A = field(metadata=shaped(lambda spec: ((), "float32")))
'''
SERIAL = '''    serial: A = field(kw_only=True, metadata=shaped(lambda spec: ((2,), "int32")))
'''
ROW = '''    row: A = field(metadata=shaped(lambda spec: ((), "int64")))
'''
PRODUCER = "bootstrap_value=values,"

CHECK = """
import sys
from pathlib import Path

import numpy as np
import torch

import workbench
from workbench import algorithms, networks
from workbench.config import RunConfig
from workbench.learner.devices.device import Device
from workbench.learner.inference.batcher import Request
from workbench.learner.inference.inference import Inference
from workbench.learner.inference.published_weights import PublishedPolicy
from workbench.learner.metrics.meters import Meters
from workbench.learner.training.trainer import Trainer
from workbench.replay import batch_source
from workbench.replay.assembler import UnrollAssembler
from workbench.replay.unroll_fields import UnrollLayout
from workbench.environment_spec import EnvironmentSpec
from workbench.trajectory import Flags, StepBatch
from workbench.wire.messages import GroupStep

GROUPS, SIZE, STEPS = 3, 4, 40
SPEC = EnvironmentSpec("numbers", (3,), "float32", 2, frame_stack=2)
folder = Path(sys.argv[1])
assert Path(workbench.__file__).is_relative_to(folder)


def sent(group, turn):
    "Step `turn` of a group's environments as it comes off the wire; its observations are its serial and its rows."
    rows = group * SIZE + np.arange(SIZE)
    observation = np.stack([np.full(SIZE, turn), rows, turn * rows], 1).astype(np.float32)
    flags = np.full(SIZE, Flags.START if turn == 0 else 0, np.uint8)
    flags[turn % (2 * SIZE) == np.arange(SIZE)] |= np.uint8(Flags.TRUNCATED | Flags.START)
    flags[turn % 7 == 3 + np.arange(SIZE)] = Flags.ABSENT
    cut = np.flatnonzero(flags & Flags.TRUNCATED)
    step = StepBatch(observation, np.ones(SIZE, np.float32), flags, cut, -observation[cut] if len(cut) else None,
                     serial=observation[:, :2].astype(np.int32))
    message = GroupStep.decode(GroupStep(group, rows[0], step).encode(), SPEC)
    return Request(rows, 1, message, lambda actions: None, lambda: True, 0.0)


def check(config, storage_folder):
    algorithm = algorithms.build(config, spec=SPEC)
    network = networks.build(config.network, spec=SPEC, heads=algorithm.heads, seed=0)
    device, settings = Device("cpu", precision="fp32"), config.hyperparameters
    layout = UnrollLayout.of(algorithm, network, settings.unroll_length)
    experience = batch_source.build(
        algorithm, layout, config=settings, folder=storage_folder, seed=0, pin_memory=False)
    inference = Inference(
        SPEC, config=lambda: config, algorithm=algorithm, policy=PublishedPolicy(network, version=0, device=device),
        assembler=UnrollAssembler(layout, num_envs=1, stagger=True), queue=experience.queue, device=device, num_envs=1,
        generator=torch.Generator().manual_seed(0), meters=Meters(), on_episode=lambda episode: None)
    trainer, batches, loss = Trainer(network, algorithm, device, settings), [], algorithm.loss

    def noted(network, *, batch, config):
        batches.append(batch)
        return loss(network, batch=batch, config=config)

    algorithm.loss = noted
    for turn in range(STEPS):
        assert inference.answer([sent(group, turn) for group in range(GROUPS) if turn % 5 or group != 1])
        while (batch := experience.next(settings, timeout_s=0.0)) is not None:
            trained = trainer.update(batch, config=settings, learning_rate=1e-4, on_bad=print)
            experience.after_update(batch, trained)
    assert len(batches) > 5, len(batches)
    for batch in batches:
        serial, row = batch.observation[..., :2].long(), batch.observation[..., 1].long()
        assert batch.serial.dtype == torch.int32 and torch.equal(batch.serial.long(), serial)
        assert batch.row.dtype == torch.int64 and torch.equal(batch.row, row)
        assert (batch.row == batch.row[0]).all() and (batch.serial[1:, :, 0] > batch.serial[:-1, :, 0]).all()
    assert len(torch.cat([batch.row[0] for batch in batches]).unique()) == GROUPS * (SIZE - 1), "all but who evaluate"
    saved = experience.arrays(settings, requested=True)
    assert experience.occupancy is None or {"unroll.serial", "unroll.row"} <= saved.keys()
    experience.close()


SETTINGS = {"unroll_length": 5, "batch_size": 3, "queue_size": 100, "envs_per_actor": SIZE, "groups_per_actor": 1,
            "evaluation_envs_per_actor": 1}
R2D2 = {"algorithm": "r2d2", "burn_in": 3, "replay_size": 20, "replay_min_size": 6, "replay_ratio": 1.0,
        "lstm_size": 16, "dueling_size": 16}
check(RunConfig.build("x", **SETTINGS), folder / "none")
for storage in ("memory", "disk"):
    check(RunConfig.build("x", **SETTINGS, **R2D2, replay_storage=storage), folder / storage)
print("played")
"""


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


def test_a_field_that_is_declared_in_one_line_arrives_at_the_loss_with_its_step(tmp_path: Path) -> None:
    package = copied(tmp_path)
    change(package / "trajectory.py", OF_ENVIRONMENT, OF_ENVIRONMENT + SERIAL)
    change(package / "trajectory.py", OF_LEARNER, OF_LEARNER + ROW)
    change(package / "learner/inference/inference.py", PRODUCER, f"{PRODUCER} row=env_ids,")
    plays(tmp_path, CHECK, str(tmp_path))
