"""Trainers and batches by which one device's updates are compared with another's."""

from __future__ import annotations

import numpy as np
import torch

from workbench import algorithms, networks
from workbench.config import RunConfig
from workbench.environment_spec import EnvironmentSpec
from workbench.learner.devices.device import Device
from workbench.learner.training.trainer import Trainer
from workbench.trajectory import Flags, Unroll

VECTOR = EnvironmentSpec("vector", (4,), "float32", 3)
IMAGES = EnvironmentSpec("images", (1, 84, 84), "uint8", 3, frame_stack=4)
# A learning rate that no other number of the graph equals: XLA joins equal ones, and compiles again when they part.
UNROLL = {"batch_size": 4, "unroll_length": 5, "learning_rate": 7e-4}


def trainer_on(device: Device, config: RunConfig, spec: EnvironmentSpec) -> Trainer:
    algorithm = algorithms.build(config, spec=spec).to(device.torch)
    network = networks.build(config.network, spec=spec, heads=algorithm.heads, seed=0).to(device.torch)
    trainer = Trainer(network, algorithm, device, config.hyperparameters)
    device.compute_traced()
    return trainer


def batch_of(config: RunConfig, spec: EnvironmentSpec, *, seed: int, nan: bool = False):
    random, fields = np.random.default_rng(seed), algorithms.build(config, spec=spec)
    steps = config.hyperparameters.unroll_length + fields.overlap + 1
    network = networks.build(config.network, spec=spec, heads=fields.heads, seed=0)
    state = tuple(np.zeros(part.shape[1:], np.float32) for part in network.initial_state(1))
    unrolls = []
    for env_id in range(config.hyperparameters.batch_size):
        observation = random.integers(0, 256, (steps, *spec.observation_shape)).astype(spec.observation_dtype)
        if spec.observation_dtype == "float32":
            observation = random.normal(size=(steps, *spec.observation_shape)).astype(np.float32)
        prefix = np.zeros((spec.frame_stack - 1, *spec.observation_shape), spec.observation_dtype)
        reward = random.normal(size=steps).astype(np.float32)
        if nan:
            reward[:] = np.nan
        behaviour = {name: random.normal(size=(steps, *shape)).astype(dtype)
                     for name, (shape, dtype) in fields.behaviour_fields().items()}
        flags = (random.random(steps) < 0.2).astype(np.uint8) * int(Flags.START | Flags.TERMINATED)
        finals = {"final_step": np.array([fields.overlap + 2 if env_id % 2 else 0]),
                  "final_observation": observation[:1]} if fields.values_finals else {}
        actions = random.integers(0, spec.num_actions, (2, steps))
        unrolls.append(Unroll(
            env_id=env_id, run_id=1, observation=observation, stack_prefix=prefix, reward=reward,
            flags=flags.astype(np.uint8), previous_action=actions[0], action=actions[1],
            policy_version=np.zeros(steps, np.int64), bootstrap_value=np.zeros(steps, np.float32),
            behaviour=behaviour, initial_state=state, **finals))
    return algorithms.collate(unrolls)


def update(trainer: Trainer, config: RunConfig, spec: EnvironmentSpec, *, seed: int, nan: bool = False):
    told: list[str] = []
    loss = trainer.update(batch_of(config, spec, seed=seed, nan=nan), config=config.hyperparameters,
                          learning_rate=config.hyperparameters.learning_rate / (seed + 1), on_bad=told.append)
    return loss, told


def weights(trainer: Trainer) -> torch.Tensor:
    return torch.cat([parameter.detach().cpu().flatten() for parameter in trainer.parameters])


VTRACE = RunConfig.build("x", **UNROLL)
CASES = {
    "vtrace, rmsprop": (RunConfig.build("x", optimizer="rmsprop", **UNROLL), VECTOR),
    "vtrace, adam, an LSTM, a target entropy":
        (RunConfig.build("x", network="mlp-lstm", optimizer="adam", target_entropy=0.5, **UNROLL), VECTOR),
    "vtrace, Keras' Adam": (RunConfig.build("x", adam_epsilon_form="keras", **UNROLL), VECTOR),
    "vtrace, images": (RunConfig.build("x", optimizer="adam", **UNROLL), IMAGES),
    "r2d2": (RunConfig.build("x", algorithm="r2d2", burn_in=2, lstm_size=16, dueling_size=16, target_update_period=2,
                             **UNROLL), VECTOR),
    "ppo": (RunConfig.build("x", algorithm="ppo", target_kl=0.01, value_clip=0.2, **UNROLL), VECTOR),
    "awr": (RunConfig.build("x", algorithm="awr", **UNROLL), VECTOR),
    "sac": (RunConfig.build("x", algorithm="sac", critic_size=16, **UNROLL), VECTOR),
    "sac, parts with rates of their own":
        (RunConfig.build("x", algorithm="sac", critic_size=16, critic_rate_factor=3.0, temperature_rate_factor=0.3,
                         **UNROLL), VECTOR),
    "vmpo, an LSTM": (RunConfig.build("x", algorithm="vmpo", network="mlp-lstm", **UNROLL), VECTOR),
}
