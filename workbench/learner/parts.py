"""What of a learner depends on the environment, and therefore waits for the first actor."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.learner.devices.device import Device
from workbench.learner.inference.inference import Inference
from workbench.learner.inference.published_weights import PublishedPolicy
from workbench.learner.training.trainer import Trainer
from workbench.replay.batch_source import Experience
from workbench.trajectory import EnvironmentSpec


@dataclass(frozen=True)
class Parts:
    """The network with all that acts by it and trains it.

    Attributes:
        device: that trains.
        threads: of torch, in the thread that trains.
        network_name: as a person knows it.
        experience: what training takes its batches from.
        policy: the weights that inference uses.
    """

    spec: EnvironmentSpec
    device: Device
    threads: int
    network_name: str
    trainer: Trainer
    experience: Experience
    policy: PublishedPolicy
    inference: Inference
