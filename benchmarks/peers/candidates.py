"""Who is compared, and the settings of each from which the best one is chosen. No command line: compare.py has it."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from typing import Any

Setting = dict[str, Any]
_CORES = len(os.sched_getaffinity(0))
THREADS = (max(1, _CORES // 2), _CORES)  # of our training: those that a run begins with, and twice


@dataclass(frozen=True)
class Candidate:
    """One line of the table.

    Attributes:
        title: as the table has it.
        module: of this folder; its `measure` measures one setting.
        settings: to choose the best from.
        requirements: a file of this folder, of which a virtual environment is made; None: this repository's own.
        algorithm: what it trains with.
    """

    title: str
    module: str
    settings: tuple[Setting, ...]
    algorithm: str
    requirements: str | None = None


def _every(**values: tuple[Any, ...]) -> tuple[Setting, ...]:
    """Every combination of the values."""
    return tuple(dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values()))


def _sample_factory(workers: int, splits: int, **more: Any) -> Setting:
    usual = {"asynchronous": True, "serial": False, "threads": 1, "wrappers": "gymnasium"}
    return {"workers": workers, "splits": splits, **usual, **more}


def _rllib(runners: int, environments: int, **more: Any) -> Setting:
    usual = {"mode": "sync", "threads": 1, "aggregators": 0, "wait_s": 0.0, "wrappers": "gymnasium"}
    return {"runners": runners, "environments": environments, **usual, **more}


def _torchrl(collector: str, environments: str, **more: Any) -> Setting:
    return {"collector": collector, "environments": environments, "shifted": False, "threads": 1, **more}


SAMPLE_FACTORY = (
    _sample_factory(2, 2, wrappers="example"),
    *(_sample_factory(workers, splits) for workers in (1, 2, 4) for splits in (1, 2)),
    _sample_factory(3, 1, envs_per_worker=11),  # 32 can't be divided by 3: 33 environments
    *(_sample_factory(workers, splits, asynchronous=False) for workers in (1, 2, 4) for splits in (1, 2)),
    *(_sample_factory(1, 1, asynchronous=False, serial=True, threads=threads) for threads in (1, 2)),
)
RLLIB = (
    _rllib(2, 16, wrappers="rllib"),
    _rllib(2, 16),
    _rllib(2, 16, wait_s=0.05),
    _rllib(2, 16, wait_s=0.05, threads=2),
    _rllib(2, 16, aggregators=1),
    _rllib(2, 16, threads=2),
    _rllib(2, 32),
    _rllib(1, 16),
    _rllib(1, 32),
    _rllib(0, 32),
    _rllib(0, 32, threads=2),
)
TORCHRL = (
    _torchrl("async", "vector"),
    _torchrl("async", "vector", threads=2),
    _torchrl("async", "vector", shifted=True),
    _torchrl("async", "serial"),
    _torchrl("sync", "vector"),
    _torchrl("sync", "serial"),
    _torchrl("single", "vector"),
    _torchrl("single", "vector", threads=2),
)

OURS = {
    "ours": Candidate("workbench, fastest correct mode", "workbench_pong",
                      _every(precision=("auto",), learner_threads=THREADS), "V-trace"),
    "ours-fp32": Candidate("workbench, fp32", "workbench_pong",
                          _every(precision=("fp32",), learner_threads=THREADS), "V-trace"),
}
PEERS = {
    "sample-factory": Candidate("Sample Factory", "sample_factory_pong", SAMPLE_FACTORY, "APPO (GAE)",
                                "sample_factory.txt"),
    "rllib": Candidate("RLlib", "rllib_pong", RLLIB, "IMPALA", "rllib.txt"),
    "torchrl": Candidate("TorchRL", "torchrl_pong", TORCHRL, "IMPALA", "torchrl.txt"),
    "single-process": Candidate(
        "single-process loop", "single_process",
        _every(threads=(1, 2), environment_threads=(1, 2), precision=("fp32",)), "A2C (GAE)"),
    "single-process-bf16": Candidate(
        "single-process loop, bf16", "single_process",
        _every(threads=(1, 2), environment_threads=(1, 2), precision=("bf16",)), "A2C (GAE)"),
}
EVERYONE = {**OURS, **PEERS}
