"""What runs on an accelerator reads none of its values and mixes no devices: shown on a device that has no values.

A reading (`.item()`, `if tensor`, an index of bools) would wait for a GPU, and break the recording of a graph.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext

import pytest
import torch

from tests.learner.updates import CASES, IMAGES, UNROLL, VECTOR, batch_of, trainer_on
from workbench.algorithms.interface import Roles
from workbench.config import RunConfig
from workbench.learner.devices.device import Device

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
ALL = CASES | MORE


class NoValues(Device):
    """A device that runs ahead of the host, and whose tensors have no values: reading one raises."""

    lags, foreach, fused, capturable = True, False, False, True

    def __init__(self) -> None:
        super().__init__("meta", precision="fp32")

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


@pytest.mark.parametrize("name", ALL)
def test_an_update_reads_no_value_of_the_device(name: str) -> None:
    config, spec = ALL[name]
    device = NoValues()
    trainer = trainer_on(device, config, spec)
    batch = device.place_batch(batch_of(config, spec, seed=0))
    for _ in range(2):  # the second one finds the optimizer's state
        trainer.algorithm.before_update(batch, config=config.hyperparameters)
        loss, loss_and_norm = trainer._step(batch, config.hyperparameters)
        trainer.algorithm.after_update(loss, config=config.hyperparameters)
        assert loss_and_norm.device.type == "meta" and loss_and_norm.shape == (2,)
        assert all(value.device.type == "meta" for value in loss.scalars.values())


@pytest.mark.parametrize("name", ALL)
def test_acting_reads_no_value_of_the_device(name: str) -> None:
    config, spec = ALL[name]
    device = NoValues()
    trainer = trainer_on(device, config, spec)
    batch, rows = device.place_batch(batch_of(config, spec, seed=0)), config.hyperparameters.batch_size
    state = tuple(part.to("meta") for part in trainer.network.initial_state(rows))
    stacks = torch.empty((1, rows, *spec.stacked_shape), dtype=getattr(torch, spec.observation_dtype), device="meta")
    with device.acting():
        output, _ = trainer.network(
            stacks, batch.previous_action[:1], batch.reward[:1], batch.start[:1], state)
        roles = Roles(*(part.to("meta") for part in Roles.evaluating(rows)))
        actions, behaviour = trainer.algorithm.act(
            output, roles=roles, greedy=False, generator=None, config=config.hyperparameters)
    assert {tensor.device.type for tensor in (actions, *behaviour.values())} == {"meta"}
