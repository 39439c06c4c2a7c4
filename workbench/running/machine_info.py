"""`wb.machine()`: this machine's hardware, and what a run that is launched here chooses by it.

`hardware` reads files and loads no accelerator's library; `config.chosen` has the rules by which the learner decides,
too.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from workbench.config import RunConfig, chosen, hardware
from workbench.errors import checked_arguments
from workbench.tables import Columns, Table


@dataclass(frozen=True)
class Fact:
    """A row of the table: a part of the hardware, or a field with the value that follows."""

    name: str
    value: str
    why: str = ""


_COLUMNS: Columns = {"": lambda row: row.name, "here": lambda row: row.value, "what it means": lambda row: row.why}


@dataclass(frozen=True, repr=False)
class Machine:
    """This machine, and what a run launched here chooses for fields that are not given.

    Attributes:
        system: operating system.
        processor: model of the CPU.
        cores: those that this process may use, by its affinity and its container's quota.
        memory_gb: GiB of the machine.
        instructions: the CPU's instruction sets that matter for the speed of a network.
        accelerator: NVIDIA GPUs or the TPU of this machine, in words; "" without one.
        device: the device that device="auto" stands for.
        precision: the precision that precision="auto" stands for, where our own network sees images.
        learner_threads: threads of training on a CPU, at first.
        actors: processes that step environments.
    """

    system: str
    processor: str
    cores: int
    memory_gb: float
    instructions: tuple[str, ...]
    accelerator: str
    device: str
    precision: str
    learner_threads: int
    actors: int
    facts: Table[Fact]

    def __repr__(self) -> str:
        return repr(self.facts)

    def _repr_html_(self) -> str:
        return self.facts._repr_html_()


@checked_arguments()
def machine() -> Machine:
    """This machine (cores, instruction sets, accelerators), and what follows for runs launched here.

    Loads no torch and opens no device. `workbench machine` prints the same.
    """
    accelerator, cores, instructions = hardware.accelerator(), hardware.cores(), hardware.instructions()
    has_cuda = accelerator is not None and accelerator.device == "cuda" and bool(hardware.torch_build())
    device = chosen.device(has_cuda=has_cuda, has_tpu=hardware.has_torch_tpu())
    capability = accelerator.capability if accelerator else None
    bf16 = chosen.faster_in_bf16(device, instructions=instructions, maker=hardware.maker(), capability=capability)
    choices: dict[str, Any] = {
        "device": device, "precision": chosen.precision(images=True, own_network=False, bf16=bf16),
        "learner_threads": chosen.training_threads(cores=cores), "actors": RunConfig.actors,
    }
    parts: dict[str, Any] = {
        "system": f"{platform.system()} {platform.release()}", "processor": hardware.processor(), "cores": cores,
        "memory_gb": hardware.memory_gb(), "instructions": instructions,
        "accelerator": accelerator.name if accelerator else "",
    }
    why = {**_WHY, "device": _why_device(device, accelerator), "precision": _why_precision(bf16)}
    rows = [*_hardware_facts(parts), *(Fact(name, str(value), why[name]) for name, value in choices.items())]
    return Machine(**parts, **choices, facts=Table(rows, _COLUMNS, empty=""))


_WHY = {
    "learner_threads": "on a CPU, half of the cores train at first; a run then tries others, and keeps what is faster",
    "actors": "the same on every machine; an actor fills a core at most",
}


def described() -> dict[str, Any]:
    """The facts on this machine that run.json keeps; read quickly, without a driver."""
    facts: dict[str, Any] = {
        "system": f"{platform.system()} {platform.release()}", "processor": hardware.processor(),
        "cores": hardware.cores(), "memory": f"{hardware.memory_gb():.1f} GiB",
        "instruction sets": ", ".join(hardware.instructions()), "GPUs": ", ".join(hardware.gpu_names()),
    }
    return {name: value for name, value in facts.items() if value}


def _hardware_facts(parts: dict[str, Any]) -> Iterator[Fact]:
    yield Fact("processor", parts["processor"])
    yield Fact("cores", str(parts["cores"]), "those that this process may use")
    yield Fact("memory", f"{parts['memory_gb']:.1f} GiB")
    yield Fact("instruction sets", ", ".join(parts["instructions"]) or "none of those that matter here")
    yield Fact("accelerator", parts["accelerator"] or "none")


def _why_device(device: str, accelerator: hardware.Accelerator | None) -> str:
    variable = os.environ.get(chosen.DEVICE_VARIABLE, "auto")
    if variable != "auto":
        return f"{chosen.DEVICE_VARIABLE}={variable}"
    if accelerator is None:
        return "there is no accelerator"
    if accelerator.device == "tpu":
        return "" if device == "tpu" else "a TPU is used where it is requested, device='tpu', or torch_tpu is installed"
    return "" if device == "cuda" else "the installed torch is built for CPUs: a build with CUDA would use the GPU"


def _why_precision(bf16: bool) -> str:
    if bf16:
        return "our networks that see images compute in bf16, in which this hardware is faster; others in fp32"
    return "this hardware is no faster in bf16 (AMX, or avx512_bf16 of AMD, on a CPU; compute capability 8.0 on a GPU)"
