"""`wb.machine()`: what was found of this machine, and what a run that is launched here makes of it.

Found by `hardware`, which reads files and loads no accelerator's library; decided by `config.chosen`, by which the
learner decides too.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from workbench.config import RunConfig, chosen, hardware
from workbench.tables import Columns, Table


@dataclass(frozen=True)
class Fact:
    """A row of the table: what was found, or what follows for the field of that name."""

    name: str
    value: str
    why: str = ""


_COLUMNS: Columns = {"": lambda row: row.name, "here": lambda row: row.value, "what it means": lambda row: row.why}


@dataclass(frozen=True, repr=False)
class Machine:
    """This machine, and what a run launched here takes where nothing else is given.

    Attributes:
        system: operating system.
        processor: model of the CPU.
        cores: that this process may use, by its affinity and its container's quota.
        memory_gb: GiB of the machine.
        instructions: instruction sets of the CPU, of those that decide how fast a network is.
        accelerator: NVIDIA's GPUs or the TPU that are here, in words; "" without one.
        device: what device="auto" trains on.
        precision: what precision="auto" computes in, where our own network sees images.
        learner_threads: threads of training on a CPU.
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


def machine() -> Machine:
    """What this machine has (cores, instruction sets, accelerators), and what follows for the runs launched here.

    Loads no torch and opens no device. `workbench machine` prints the same.
    """
    there, cores, instructions = hardware.accelerator(), hardware.cores(), hardware.instructions()
    has_cuda = there is not None and there.device == "cuda" and bool(hardware.torch_build())
    device = chosen.device(has_cuda=has_cuda)
    bf16 = chosen.has_bf16(device, instructions=instructions, capability=there.capability if there else None)
    follows: dict[str, Any] = {
        "device": device, "precision": chosen.precision(images=True, own_network=False, bf16=bf16),
        "learner_threads": chosen.training_threads(cores=cores), "actors": RunConfig.actors,
    }
    found: dict[str, Any] = {
        "system": f"{platform.system()} {platform.release()}", "processor": hardware.processor(), "cores": cores,
        "memory_gb": hardware.memory_gb(), "instructions": instructions, "accelerator": there.name if there else "",
    }
    why = {"device": _why_device(device, there), "precision": _why_precision(bf16)}
    rows = [*_found(found), *(Fact(name, str(value), why.get(name, _WHY.get(name, "")))
                              for name, value in follows.items())]
    return Machine(**found, **follows, facts=Table(rows, _COLUMNS, empty=""))


_WHY = {
    "learner_threads": "on a CPU, half of the cores train; the others step environments and infer",
    "actors": "the same on every machine; an actor fills a core at most",
}


def described() -> dict[str, Any]:
    """What is kept of this machine with a run that it launches; asks no driver, so that it takes no time."""
    told: dict[str, Any] = {
        "system": f"{platform.system()} {platform.release()}", "processor": hardware.processor(),
        "cores": hardware.cores(), "memory": f"{hardware.memory_gb():.1f} GiB",
        "instruction sets": ", ".join(hardware.instructions()), "GPUs": ", ".join(hardware.gpu_names()),
    }
    return {name: value for name, value in told.items() if value}


def _found(found: dict[str, Any]) -> Iterator[Fact]:
    yield Fact("processor", found["processor"])
    yield Fact("cores", str(found["cores"]), "that this process may use")
    yield Fact("memory", f"{found['memory_gb']:.1f} GiB")
    yield Fact("instruction sets", ", ".join(found["instructions"]) or "none of those that matter here")
    yield Fact("accelerator", found["accelerator"] or "none")


def _why_device(device: str, there: hardware.Accelerator | None) -> str:
    told = os.environ.get(chosen.DEVICE_VARIABLE, "auto")
    if told != "auto":
        return f"{chosen.DEVICE_VARIABLE}={told}"
    if there is None:
        return "there is no accelerator"
    if there.device == "tpu":
        return "a TPU is taken where it is asked for: device='tpu'"
    return "" if device == "cuda" else "the installed torch is built for CPUs: a build with CUDA would use the GPU"


def _why_precision(bf16: bool) -> str:
    if bf16:
        return "our networks that see images compute in bf16, which the hardware has; others in fp32"
    return "the hardware has no arithmetic in bf16 (avx512_bf16 or AMX on a CPU, compute capability 8.0 on a GPU)"
