"""One of several learners that train on their parts of the same batches: `python -m tests.learner.group_rank`.

Arguments: run directory, rank, and what to train (a key of `FIELDS`). Writes
`<run>/<rank>.npz` with what it then has.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

import workbench as wb
from tests.algorithms.unrolls import random_unroll, with_final_observations
from workbench import algorithms, networks
from workbench.algorithms.batch import Batch
from workbench.config import RunConfig, settings
from workbench.config.own_algorithm import named_algorithm
from workbench.environment_spec import EnvironmentSpec
from workbench.learner.devices.device import Device
from workbench.learner.training import checkpointing
from workbench.learner.training.data_parallel import Group
from workbench.learner.training.trainer import Trainer
from workbench.rundir import RunDirectory
from workbench.trajectory import Array, Unroll
from workbench.wire.lifeline import leave

SPEC = EnvironmentSpec("vector", (3,), "float32", 2)


class Skipping(torch.nn.Module):
    """A user's network: a layer for large observations alone, which one learner's part of a batch may lack."""

    def __init__(self, network: torch.nn.Module, rank: int) -> None:
        super().__init__()
        self.network, self.extra = network, torch.nn.Linear(3, 1)
        torch.nn.init.constant_(self.extra.weight, 0.1 + rank)  # the leader's counts
        self.register_buffer("one", torch.full((2, 1), float(rank)).expand(2, 4096))
        self.register_buffer("rank", torch.full((3,), rank, dtype=torch.int16))
        self.register_buffer("turned", torch.full((2, 3), float(rank)).T)

    def initial_state(self, batch: int) -> Any:
        return self.network.initial_state(batch)  # type: ignore[operator]

    def forward(self, observation: torch.Tensor, *others: Any) -> Any:
        output, state = self.network(observation, *others)
        large = observation[..., 0] > 2.2
        if large.any():
            output = output._replace(value=output.value + large * self.extra(observation).squeeze(-1))
        return output, state


class Changing(wb.Algorithm):
    """Trains its value for large rewards alone, which one learner's part of a batch may lack, and a shift of its own;
    keeps a number that no gradient changes."""

    def begin(self, rank: int) -> None:
        self.shift, self.kept = torch.nn.Parameter(torch.full((2,), 0.1 + rank)), 1.5 + rank  # the leader's count

    def parameters(self) -> list[torch.nn.Parameter]:
        return [self.shift]

    def state(self) -> dict[str, torch.Tensor]:
        return {"shift": self.shift.detach().clone(), "kept": torch.tensor(self.kept)}

    def load_state(self, state: Mapping[str, torch.Tensor]) -> None:
        self.shift.data.copy_(state["shift"])
        self.kept = float(state["kept"])

    def loss(self, network: Any, *, batch: Batch, config: Any) -> wb.Loss:
        output, large = self.outputs(network, batch), batch.reward > 2.2
        logits = self.kept * output.policy_logits[:-1] + self.shift
        total = -(self.distribution.log_prob(logits, actions=batch.action[:-1]) * batch.reward[1:]).mean()
        for row in large.any(0).nonzero().flatten().tolist():
            total = total + output.value[:, row].square().mean() / large.shape[1]
        return wb.Loss(total, {"loss": total.detach()})


UPDATES, BATCH = 6, 8
FIELDS = {
    "vtrace": {},
    "entropy": {"target_entropy": 0.3},
    "r2d2": {"algorithm": "r2d2", "burn_in": 3, "lstm_size": 8, "dueling_size": 8, "target_update_period": 2,
             "recurrent_state": "refreshed"},
    "normalised": {"normalize_observations": True},
    "nan": {},
    "ports": {"ports": "23400-23407"},
    "ppo": {"algorithm": "ppo"},
    "awr": {"algorithm": "awr"},
    "own": {},
    "own network": {},
    "parts": {"algorithm": "sac", "critic_size": 8, "critic_rate_factor": 3.0, "temperature_rate_factor": 0.3},
    "popart": {"normalize_values": True, "normalize_rewards": True, "target_entropy": 0.3, "kl_cost_target": 0.01},
}


def config_of(what: str, learners: int) -> RunConfig:
    own: dict[str, Any] = {}
    if what == "own":
        own["algorithm"], own["own_algorithm"] = named_algorithm(Changing, taken=settings(RunConfig))
    return RunConfig.build("vector", learners=learners, unroll_length=5, batch_size=BATCH, **FIELDS[what], **own)


def trained(what: str, config: RunConfig, group: Group | None) -> dict[str, Array]:
    """All arrays of a checkpoint after some updates on this learner's parts of the same random batches."""
    algorithm = algorithms.build(config, spec=SPEC, own=Changing if what == "own" else None)
    if isinstance(algorithm, Changing):
        algorithm.begin(0 if group is None else group.rank)
    normalise = config.hyperparameters.normalize_observations
    network = networks.build(config.network, spec=SPEC, heads=algorithm.heads, seed=0, normalise=normalise)
    if what == "own network":
        torch.manual_seed(0)
        network = Skipping(network, 0 if group is None else group.rank)
    trainer = Trainer(network, algorithm, Device("cpu", precision="fp32"), config.hyperparameters)
    if group is not None:
        trainer.join(group)
    told: list[str] = []
    for number in range(UPDATES):
        unrolls = [unroll_of(algorithm, network, number * BATCH + one) for one in range(BATCH)]
        if what == "nan" and number == 2:
            unrolls[-1].reward[:] = np.nan  # of the last learner
        size, rank = (1, 0) if group is None else (group.size, group.rank)
        each = BATCH // size
        trainer.update(part_of(unrolls, rank * each, each, weighted=what == "r2d2"),
                       config=config.hyperparameters, learning_rate=1e-2, on_bad=told.append)
    groups = checkpointing.groups_of(trainer, torch.Generator())
    arrays = {f"{name}.{key}": array for name in ("model", "optimizer", "algorithm") for key, array in
              groups[name].items()}
    drawn = torch.rand(4, generator=algorithm.training_generator).numpy()
    return {**arrays, "updates": np.array([trainer.updates]), "skipped": np.array([len(told)]), "drawn": drawn}


def unroll_of(algorithm: algorithms.Algorithm, network: torch.nn.Module, seed: int) -> Unroll:
    random = np.random.default_rng(seed)
    state = tuple(random.normal(size=part.shape[1:]).astype(np.float32)
                  for part in network.initial_state(1))  # type: ignore[operator]
    unroll = random_unroll(SPEC, length=5 + algorithm.overlap, rng=random, behaviour=algorithm.behaviour_fields(),
                           state=state)
    if not algorithm.values_finals:
        return unroll
    return with_final_observations(unroll, places=2, after=algorithm.overlap, rng=random)


def part_of(unrolls: list[Unroll], first: int, number: int, *, weighted: bool) -> Batch:
    batch = algorithms.collate(unrolls[first : first + number])
    if weighted:
        batch.weight.copy_(torch.linspace(0.2, 1.0, len(unrolls))[first : first + number])
    return batch


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    path, rank, what = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    config = config_of(what, 2)
    group = Group(RunDirectory(path), config, rank)
    assert group.join(stopping=lambda: False)
    np.savez(path / f"{rank}.npz", **trained(what, config, group))
    group.close()
    leave(0)
