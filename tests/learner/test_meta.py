"""What runs on an accelerator reads none of its values and mixes no devices: shown on a device that has no values.

A reading (`.item()`, `if tensor`, an index of bools) would wait for a GPU, and break the recording of a graph.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from contextlib import nullcontext

import numpy as np
import pytest
import torch

from tests.learner.updates import CASES, IMAGES, UNROLL, VECTOR, trainer_on
from workbench import algorithms, networks
from workbench.algorithms.batch import Batch
from workbench.algorithms.interface import Algorithm
from workbench.config import RunConfig
from workbench.config.algorithms import ALGORITHMS, only_class
from workbench.environment_spec import ActionSpec, EnvironmentSpec
from workbench.learner.devices.device import Device
from workbench.learner.inference.batcher import Request
from workbench.learner.inference.frame_table import FrameTable
from workbench.learner.inference.inference import Inference
from workbench.learner.inference.published_weights import PublishedPolicy
from workbench.learner.metrics.meters import Meters
from workbench.learner.training.trainer import Trainer
from workbench.networks.normalization import Observed
from workbench.networks.registry import NAMES
from workbench.replay.assembler import UnrollAssembler
from workbench.replay.queue import UnrollQueue
from workbench.replay.unroll_fields import UnrollLayout
from workbench.trajectory import Array, Flags, StepBatch, Unroll
from workbench.wire.messages import GroupStep

MORE = {
    "vtrace, images, an LSTM": (RunConfig.build("x", network="impala-deep-lstm", **UNROLL), IMAGES),
    "vtrace, observations normalised": (RunConfig.build("x", normalize_observations=True, **UNROLL), VECTOR),
    "vtrace, values and rewards normalised, costs that adapt":
        (RunConfig.build("x", normalize_values=True, normalize_rewards=True, target_entropy=0.5, kl_cost_target=0.01,
                         **UNROLL), VECTOR),
    "ppo, values and rewards normalised, costs that adapt":
        (RunConfig.build("x", algorithm="ppo", normalize_values=True, normalize_rewards=True, target_entropy=0.5,
                         kl_cost_target=0.01, **UNROLL), VECTOR),
    "vmpo, values normalised": (RunConfig.build("x", algorithm="vmpo", normalize_values=True, **UNROLL), VECTOR),
    "r2d2, images": (RunConfig.build("x", algorithm="r2d2", burn_in=2, lstm_size=16, dueling_size=16, **UNROLL),
                     IMAGES),
}
ACTIONS = {
    "categorical": ActionSpec("categorical", (3,)), "multi_discrete": ActionSpec("multi_discrete", (2, 3)),
    "bernoulli": ActionSpec("bernoulli", (2, 2)), "tanh_normal": ActionSpec("tanh_normal", (0, 0)),
    "mixed": ActionSpec.mixed({"move": ActionSpec("categorical", (3,)), "go": ActionSpec("tanh_normal", (0, 0))}),
}


def spec_of(kind: str) -> EnvironmentSpec:
    """An environment with such actions; `num_actions` is what a network's head has for them."""
    return EnvironmentSpec(kind, (4,), "float32", actions_of(ACTIONS[kind]), actions=ACTIONS[kind])


def actions_of(actions: ActionSpec) -> int:
    return sum(2 if size == 0 else size if actions.kind != "bernoulli" else 1 for size in actions.sizes)


def kinds_of(algorithm: str) -> Sequence[str]:
    """The kinds of actions that an algorithm can choose."""
    return only_class(importlib.import_module(f"workbench.algorithms.{algorithm}.agent"), Algorithm).actions


EACH = {f"{algorithm}, {kind}": (RunConfig.build("x", algorithm=algorithm, **UNROLL), spec_of(kind))
        for algorithm in ALGORITHMS for kind in kinds_of(algorithm)}
NETWORKS = {f"the network {name}": (RunConfig.build("x", network=name, **UNROLL),
                                    VECTOR if name.startswith("mlp") else IMAGES) for name in NAMES}
RECURRENT = {f"{algorithm}, an LSTM": (RunConfig.build("x", algorithm=algorithm, network="mlp-lstm", **UNROLL), VECTOR)
             for algorithm in ("bc", "ppo", "awr")}
ALL = CASES | MORE | EACH | NETWORKS | RECURRENT


class NoValues(Device):
    """A device that runs ahead of the host, and whose tensors have no values: reading one raises."""

    lags, foreach, fused, capturable = True, False, False, True

    def __init__(self) -> None:
        super().__init__("meta", precision="fp32")
        self.fetched = 0

    def fetch(self, tensors: Sequence[torch.Tensor]) -> list[Array]:
        """See `Device`: the one wait of a batch; what comes are zeros."""
        self.fetched += 1
        assert {tensor.device.type for tensor in tensors} == {"meta"}
        return [torch.zeros_like(tensor, device="cpu").numpy() for tensor in tensors]

    def drawing(self, generator: torch.Generator) -> torch.Generator | None:
        """See `Device`."""
        return None

    def generator(self, seed: int) -> torch.Generator:
        """See `Device`; one without values is not to be had."""
        return torch.Generator().manual_seed(seed)


@pytest.fixture(autouse=True)
def known_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Autocast and the optimizers' lists of devices know no such device; each would raise."""
    for kind in (torch.optim.Adam, torch.optim.RMSprop):
        module = sys.modules[kind.__module__]
        monkeypatch.setattr(module, "_get_capturable_supported_devices", lambda *_, **__: ["meta"])
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda kind: False)
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())


def batch_on(device: Device, trainer: Trainer, config: RunConfig) -> Batch:
    """A batch of zeros, whatever the algorithm keeps."""
    fields = UnrollLayout.of(trainer.algorithm, trainer.network, config.hyperparameters.unroll_length).fields
    unrolls = [Unroll(**Unroll.attributes_of({name: np.zeros(shape, dtype) for name, (shape, dtype) in fields.items()}),
                      env_id=env_id, run_id=1) for env_id in range(config.hyperparameters.batch_size)]
    return device.place_batch(algorithms.collate(unrolls))


def test_every_algorithm_network_and_kind_of_action_is_tried() -> None:
    assert set(ACTIONS) == {kind for algorithm in ALGORITHMS for kind in kinds_of(algorithm)}
    assert {config.algorithm for config, _ in ALL.values()} == set(ALGORITHMS)
    assert {config.network for config, _ in ALL.values()} >= set(networks.NAMES)


@pytest.mark.parametrize("name", ALL)
def test_an_update_reads_no_value_of_the_device(name: str) -> None:
    config, spec = ALL[name]
    device = NoValues()
    trainer = trainer_on(device, config, spec)
    batch = batch_on(device, trainer, config)
    for number in range(2):  # the second one finds the optimizer's state
        trainer.algorithm.before_update(batch, config=config.hyperparameters)
        loss, loss_and_norm = trainer._step(batch, config.hyperparameters)
        if isinstance(trainer.network, Observed) and len(trainer.network.statistics):
            trainer.network.observe(batch.stacked()[:-1], None)
        trainer.algorithm.after_update(loss, config=config.hyperparameters)
        trainer.algorithm.updated(trainer.network, updates=number + 1, config=config.hyperparameters)
        assert loss_and_norm.device.type == "meta" and loss_and_norm.shape == (2,)
        assert all(value.device.type == "meta" for value in loss.scalars.values())


@pytest.mark.parametrize("name", ALL)
def test_acting_reads_no_value_of_the_device_but_what_it_fetches(name: str) -> None:
    """A life of several unrolls, with episodes that are cut off, in which frames stay on the device."""
    config, spec = ALL[name]
    device, rows = NoValues(), 4
    trainer = trainer_on(device, config, spec)
    layout = UnrollLayout.of(trainer.algorithm, trainer.network, config.hyperparameters.unroll_length)
    frames = FrameTable(layout, device=device, slots=rows)
    inference = Inference(
        spec, config=lambda: config, algorithm=trainer.algorithm, frames=frames, num_envs=rows, device=device,
        policy=PublishedPolicy(trainer.network, version=0, device=device), queue=UnrollQueue(1), meters=Meters(),
        assembler=UnrollAssembler(layout, num_envs=rows, frames=frames), generator=torch.Generator(),
        on_episode=lambda _: None)
    unrolls = []
    for number in range(layout.length + config.hyperparameters.unroll_length):
        step = StepBatch.zeros(spec, rows)
        step.flags[:] = Flags.START if number == 0 else 0
        if number == 3:
            step.flags[1] = Flags.START | Flags.TRUNCATED
            step.final_index, step.final_observation = np.array([1]), step.observation[:1]
        message = GroupStep(0, 0, step, 0.0, 0.0)
        unrolls += inference.step([Request(np.arange(rows), 1, message, lambda _: None, lambda: True, 0.0)])
    assert len(unrolls) == 2 * rows and device.fetched == layout.length + config.hyperparameters.unroll_length
    assert all(unroll.observation.device.type == "meta" for unroll in unrolls)
    trained = device.place_batch(algorithms.collate(unrolls[:rows]))
    assert {array.device.type for array in trained.arrays().values()} == {"meta"}
