"""Where the processes of a run live: on this machine, or wherever another place puts them.

A place makes children; the process group starts, polls and ends them wherever they are.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Protocol

from workbench.config import RunConfig
from workbench.rundir import RunDirectory, lock
from workbench.supervisor.hosts.life import Life
from workbench.supervisor.hosts.local import Child
from workbench.wire.endpoints import learner_name

# glibc returns each freed block above some 100 kB to the system, though messages and training often allocate such
# blocks. With these bounds (bytes) a process keeps them, and a learner spends a third of the time in the kernel.
_LIBC = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else None
_OLD = _LIBC is None or tuple(map(int, _LIBC.split()[-1].split(".")[:2])) < (2, 35)  # takes at most 32 MiB
# glibc asks Linux for pages of 2 MiB from 2.35 on: fewer addresses are looked up, and an update takes 0.7 to 0.87.
MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**25 if _OLD else 2**30), "MALLOC_TRIM_THRESHOLD_": str(2**31),
          "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
# Threads of an update spin while they wait for each other: 3,000 turns (0.1 ms), and not libgomp's 300,000, since
# actors and inference want their cores.
_WAITING = {"GOMP_SPINCOUNT": "3000"}
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass(frozen=True)
class Resources:
    """The resources of one process of a run; 0: without a reservation.

    Only a place that chooses among machines reserves them; on one machine the operating system shares them out.
    """

    cpus: float
    gpus: float
    memory_gb: float

    @classmethod
    def of_learner(cls, config: RunConfig, *, spare_gpus: float = 0.0) -> Resources:
        """Those of each learner. `spare_gpus`: GPUs for each learner, of which device="auto" takes one."""
        uses_gpu = config.device == "cuda" or (config.device == "auto" and spare_gpus >= 1)
        gpus = float(uses_gpu) if config.learner_gpus is None else config.learner_gpus
        return cls(config.learner_cpus, gpus, config.learner_memory_gb)

    @classmethod
    def of_actor(cls, config: RunConfig) -> Resources:
        """Those of each actor."""
        return cls(config.actor_cpus, 0.0, config.actor_memory_gb)

    def __str__(self) -> str:
        parts = [f"{value:g} {unit[:-1] if value == 1 and unit.endswith('s') else unit}" for value, unit in
                 ((self.cpus, "CPUs"), (self.gpus, "GPUs"), (self.memory_gb, "GB of memory")) if value]
        return ", ".join(parts) or "nothing"


class Place(Protocol):
    """Makes the children of one run."""

    def learner(self, rank: int, *, threads: int) -> Life:
        """The learner of that rank, not started yet; `threads` of its arithmetic, 0: chosen by itself."""

    def actor(self, index: int) -> Life:
        """The actor of that index, not started yet."""


class ThisMachine:
    """Children as processes of this machine.

    Args:
        keep_open: a file descriptor that they inherit, the supervisor's lock.
    """

    def __init__(self, run: RunDirectory, *, keep_open: int) -> None:
        self._run, self._keep_open = run, keep_open

    def learner(self, rank: int, *, threads: int) -> Child:
        return self._child(learner_name(rank), ["_learner", str(self._run.path), str(rank)], threads=threads)

    def actor(self, index: int) -> Child:
        return self._child(f"actor-{index}", ["_actor", str(self._run.path), str(index)], threads=1)

    def _child(self, name: str, arguments: list[str], *, threads: int) -> Child:
        environment = {**os.environ, **variables(threads), **lock.marks(str(self._run.path))}
        return Child(name, arguments, logs=self._run.logs, environment=environment, keep_open=self._keep_open)


def variables(threads: int) -> dict[str, str]:
    """Environment variables of a run's process that computes with `threads` threads; 0: as many as it chooses."""
    bounds = dict.fromkeys(_THREAD_VARIABLES, str(threads)) if threads else {}
    waiting = {} if "OMP_WAIT_POLICY" in os.environ else _WAITING
    usual = {**MEMORY, **waiting,
             "PYTHONFAULTHANDLER": "1"}  # a crash of native code leaves its Python lines in the log
    return {**{name: os.environ.get(name, value) for name, value in usual.items()}, **bounds}
