"""The device, accelerator and cores of a hosted notebook's machine; see `hardware`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from workbench.config import hardware


@dataclass(frozen=True)
class Runtime:
    """The hardware that a learner can use here.

    Attributes:
        hosted: whether the machine is Colab's.
        device: "cpu", "cuda" or "tpu".
        accelerator: its name, with its number or memory; "" for a CPU.
        cores: that this process may use.
    """

    hosted: bool
    device: str
    accelerator: str
    cores: int

    def __str__(self) -> str:
        what = self.accelerator or "no accelerator"
        return f"{'Colab' if self.hosted else 'this machine'}: {what}, {self.cores} CPU cores"


def found(environment: Mapping[str, str] = os.environ, root: Path = hardware.ROOT) -> Runtime:
    """This machine; opens no device and loads no accelerator's library.

    Args:
        root: of the file system.
    """
    hosted = "COLAB_RELEASE_TAG" in environment or "COLAB_BACKEND_VERSION" in environment
    accelerator = hardware.accelerator(environment, root)
    device, name = ("cpu", "") if accelerator is None else (accelerator.device, accelerator.name)
    return Runtime(hosted, device, name, hardware.cores(root))
