"""Several learners that train one network: how they find each other, agree before each update, and average gradients.

`Alone` is the one learner of a run, and has the methods of the `Group` of several. In a group each learner is a rank of
torch.distributed, with inference, actors and unrolls of its own. Before every update all of them `meet`: a small
collective on the CPU tells each who is ready and who wants to stop, and passes on orders (JSON as bytes, no pickle),
which all therefore carry out between the same two updates. DistributedDataParallel then averages the gradients during
the backward pass. A learner that loses the others raises `PeersLost`; the supervisor ends the whole group and starts it
again.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import socket
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from workbench.algorithms.batch import Batch
from workbench.config import REPLAY_S, RunConfig
from workbench.replay.capacity import free_bytes
from workbench.rundir import RunDirectory
from workbench.trajectory import Array

Order = dict[str, Any]
Obey = Callable[..., None]  # (order, **arguments)
JOIN_S = 120.0  # for all learners to start
_PATIENCE_S = 300.0  # for a learner that is busy: the first one writes the checkpoints
_POLL_S = 0.05
_SHARED = ("batch_size", "queue_size", "replay_size", "replay_min_size")  # settings that the learners divide


class PeersLost(Exception):
    """Another learner of the group went away, or did not answer in time."""


class Word(NamedTuple):
    """What a learner says of itself: whether it has a batch and wants to stop, its steps so far, and the logarithm of
    the largest importance weight of its batch before that was divided by it (0 without replay)."""

    ready: bool = False
    stop: bool = False
    steps: int = 0
    log_largest: float = 0.0


class Alone:
    """The one learner of a run. It does all by itself and waits for nobody; each method is described in `Group`."""

    rank, size, here, leads = 0, 1, 1, True

    def join(self, *, stopping: Callable[[], bool]) -> bool:
        """Nobody to wait for."""
        return True

    def close(self) -> None:
        """Nobody to leave."""

    def order(self, order: str, **arguments: Any) -> None:
        """Nobody to order."""

    def meet(self, word: Word, *, obey: Obey, over: Callable[[], bool]) -> bool:
        return word.ready

    def stops(self, stopping: bool) -> bool:
        return stopping

    def steps(self, own: int) -> int:
        return own

    def from_leader(self, value: Any = None) -> Any:
        return value

    def begin(self, join: Callable[[Group], None], *, steps: int, seed: int) -> None:
        """Nobody to join; torch's random numbers go on as they are."""

    def batch(self, batch: Batch) -> Batch:
        return batch

    def share(self, hyperparameters: Any) -> Any:
        return hyperparameters

    def seed(self, seed: int, *more: int) -> int:
        return seed


class Group:
    """This learner among all those of a run; rank 0 leads: it alone writes metrics and checkpoints.

    Attributes:
        size: learners.
        here: learners on this machine; all of them, until it has joined.
    """

    def __init__(self, run: RunDirectory, config: RunConfig, rank: int) -> None:
        self.rank, self.size = rank, config.learners
        self.leads = rank == 0
        self.here = self.size
        self._run, self._config = run, config
        self._steps, self._stops = 0, False  # of all learners; whether one of them wanted to stop, when they met last
        self._log_largest = 0.0  # importance weight of all batches
        self._orders: list[Order] = []
        self._replay_gb: float | None = None

    # ---- how they find each other -----------------------------------------------------------------------------------

    def join(self, *, stopping: Callable[[], bool]) -> bool:
        """Wait until all learners are there; False if this one is told to stop before. Raises PeersLost.

        They meet in a file of the run's directory, which the supervisor removes before it starts a group.
        """
        store = dist.FileStore(str(self._run.rendezvous), self.size)  # type: ignore[attr-defined]
        names = [f"learner-{rank}" for rank in range(self.size)]
        store.set(names[self.rank], _machine())
        deadline = time.monotonic() + JOIN_S
        while not store.check(names):
            if stopping():
                self._stops = True
                return False
            if time.monotonic() > deadline:
                missing = [name for name in names if not store.check([name])]
                raise PeersLost(f"{', '.join(missing)} did not come within {JOIN_S:g} s")
            time.sleep(_POLL_S)
        machines = [store.get(name).decode() for name in names]
        self.here = machines.count(machines[self.rank])
        self._connect(store, machines)
        return True

    def _connect(self, store: Any, machines: Sequence[str]) -> None:
        if len(set(machines)) == 1:  # what they say to each other stays on this machine
            os.environ.setdefault("GLOO_SOCKET_IFNAME", _loopback())
        busy_s = REPLAY_S if self._config.replays else _PATIENCE_S
        with _together():
            dist.init_process_group(
                _backend(self._take_gpus(self._config, machines)), store=store, rank=self.rank, world_size=self.size,
                timeout=timedelta(seconds=busy_s),
            )

    def _take_gpus(self, config: RunConfig, machines: Sequence[str]) -> bool:
        """Leave to each learner of this machine GPUs of its own; whether there are enough.

        Before CUDA is used: it looks at the variable once. Where a cluster hands out GPUs, all that are seen are ours.
        """
        if config.device not in ("auto", "cuda") or not (there := torch.cuda.device_count()):
            return False
        if config.launcher == "ray":
            return True
        place = machines[: self.rank].count(machines[self.rank])
        seen = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(there)))).split(",")
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(own_gpus(seen, place, self.here))
        return there >= self.here

    def close(self) -> None:
        """Leave."""
        if dist.is_initialized():
            dist.destroy_process_group()

    # ---- what they say to each other --------------------------------------------------------------------------------

    def order(self, order: str, **arguments: Any) -> None:
        """Tell the other learners to do this, when they meet next."""
        self._orders.append({"order": order, **arguments})

    def meet(self, word: Word, *, obey: Obey, over: Callable[[], bool]) -> bool:
        """Whether all are ready, now that they know of each other and have done what was ordered, and training is not
        `over`. Waits for all. Raises PeersLost."""
        orders, self._orders = self._orders, []
        (ready, stop, steps, log_largest), heard = self._exchange(word, orders)
        self._steps, self._stops, self._log_largest = int(steps.sum()), bool(stop.any()), float(log_largest.max())
        for order in heard:
            obey(**order)
        return bool(ready.all()) and not over()

    def stops(self, stopping: bool) -> bool:
        """Whether one of them wanted to stop when they met last; this one's own wish is heard at the next meeting."""
        return self._stops

    def steps(self, own: int) -> int:
        """Steps of all learners when they met last; this one has made `own` by now."""
        return self._steps

    def _exchange(self, word: Word, orders: Sequence[Order]) -> tuple[Array, list[Order]]:
        """Everyone's words, float64 [4, size], and the others' orders."""
        message = json.dumps(orders).encode() if orders else b""
        *words, length = self._gather(torch.tensor([*word, len(message)], dtype=torch.float64)).numpy().T
        return np.stack(words), self._messages(message, int(length.max())) if length.any() else []

    def _messages(self, message: bytes, longest: int) -> list[Order]:
        """The orders of all but this one, in the order of their ranks."""
        padded = torch.from_numpy(np.frombuffer(message.ljust(longest), np.uint8).copy())
        texts = [bytes(row).strip() for row in self._gather(padded).numpy()]
        return [order for rank, text in enumerate(texts) if text and rank != self.rank for order in json.loads(text)]

    def _gather(self, mine: Tensor) -> Tensor:
        """[size, ...] of everyone's tensor, which has the same shape everywhere."""
        every = torch.empty((self.size, *mine.shape), dtype=mine.dtype)
        with _together():
            dist.all_gather(list(every), mine)
        return every

    def from_leader(self, value: Any = None) -> Any:
        """The leader's `value`, plain data, for all of them."""
        _, heard = self._exchange(Word(), [{"value": value}] if self.leads else [])
        return value if self.leads else heard[0]["value"]

    # ---- what they train --------------------------------------------------------------------------------------------

    def begin(self, join: Callable[[Group], None], *, steps: int, seed: int) -> None:
        """Let a trainer `join`, after so many steps of all learners; torch's random numbers are this one's own."""
        join(self)
        self._steps = steps
        torch.manual_seed(seed)

    def batch(self, batch: Batch) -> Batch:
        """This learner's batch, with weights relative to the largest of what all of them draw."""
        if batch.sample is None:
            return batch
        scale = math.exp(batch.sample.log_largest - self._log_largest)
        return dataclasses.replace(batch, weight=batch.weight * scale)

    def averaged(self, network: nn.Module) -> DistributedDataParallel:
        """`network`, whose gradients are those of all learners' batches together after each backward pass."""
        with _together(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # torch 2.13 calls broadcast_buffers otherwise, 2.9 does not
            # A static graph may leave parameters out, and does not look for them at each update.
            return DistributedDataParallel(network, broadcast_buffers=False, gradient_as_bucket_view=True,
                                           static_graph=True)

    def average(self, tensor: Tensor) -> Tensor:
        """The mean of everyone's tensor, in place."""
        with _together():
            dist.all_reduce(tensor)
        return tensor.div_(self.size)

    def share(self, hyperparameters: Any) -> Any:
        """This learner's part of a run's hyperparameters: of batches, queues and replay it has 1/size."""
        parts = {name: -(-getattr(hyperparameters, name) // self.size) for name in _SHARED
                 if hasattr(hyperparameters, name)}
        if hasattr(hyperparameters, "replay_memory_gb"):
            if self._replay_gb is None:
                self._replay_gb = self._replay_share_gb(hyperparameters)
            parts["replay_memory_gb"] = self._replay_gb
        return dataclasses.replace(hyperparameters, **parts)

    def _replay_share_gb(self, hyperparameters: Any) -> float:
        """GiB that this learner's replay may take; 0: as many as its size needs."""
        if hyperparameters.replay_memory_gb or hyperparameters.replay_size:
            return float(hyperparameters.replay_memory_gb / self.size)
        return free_bytes(hyperparameters, self._run.replay(self.rank)) / 2 / self.here / 2**30

    def seed(self, seed: int, *more: int) -> int:
        """A seed that no other learner has; the leader's is `seed` itself."""
        mixed = np.random.SeedSequence([seed, self.rank, *more]).generate_state(1)[0] >> 2
        return seed if self.leads else int(mixed)


Learners = Alone | Group


def own_gpus(seen: Sequence[str], place: int, learners: int) -> Sequence[str]:
    """Of the GPUs that a machine's learners see, those of the one at `place`: equal parts, or one that some share."""
    each = len(seen) // learners
    return seen[place * each : (place + 1) * each] if each else [seen[place % len(seen)]]


def _backend(gpus: bool) -> str:
    return "cpu:gloo,cuda:nccl" if gpus and dist.is_nccl_available() else "gloo"


def _machine() -> str:
    """The name of this machine, as the learners of a run tell whether they share it."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return f"{socket.gethostname()} {boot.read_text().strip() if boot.exists() else ''}"


def _loopback() -> str:
    """The network interface of 127.0.0.1."""
    addresses = psutil.net_if_addrs().items()
    return next(name for name, own in addresses if any(one.address == "127.0.0.1" for one in own))


@contextmanager
def _together() -> Iterator[None]:
    """Raises PeersLost for what torch says when another learner is gone or silent."""
    try:
        yield
    except RuntimeError as error:
        if not is_loss(error):
            raise
        raise PeersLost(str(error).splitlines()[0]) from error


def is_loss(error: BaseException) -> bool:
    """Whether an error says that another learner is gone or silent: torch has no class for gloo's."""
    return isinstance(error, (PeersLost, dist.DistError)) or (
        isinstance(error, RuntimeError) and any(name in str(error).lower() for name in ("gloo", "nccl", "filestore")))
