"""What a hosted notebook's machine has; see `hardware`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from workbench.config import hardware


@dataclass(frozen=True)
class Runtime:
    """A machine as a learner would find it.

    Attributes:
        hosted: whether it is Colab's.
        device: "cpu", "cuda" or "tpu".
        accelerator: what it is called, with its number or memory; "" for a CPU.
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
    there = hardware.accelerator(environment, root)
    device, name = ("cpu", "") if there is None else (there.device, there.name)
    return Runtime(hosted, device, name, hardware.cores(root))
