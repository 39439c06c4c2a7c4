"""Several learners that train one network: they find each other, agree before each update, and average gradients.

`Alone`, the only learner of a run, has the same methods as `Group`. In a group each learner is a rank of
torch.distributed, with its own inference, actors and unrolls. Before every update all of them `meet`: a small
collective on the CPU tells each learner which others are ready or want to stop, and distributes orders (JSON as bytes,
no pickle), so that all carry them out between the same two updates. After the backward pass all gradients are averaged
at once: networks of this field are small. A learner that loses the others raises `PeersLost`; the supervisor ends the
whole group and starts it again.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from workbench.algorithms.batch import Batch
from workbench.config import REPLAY_S, RunConfig
from workbench.learner.training.rendezvous import choose_interface, open_store
from workbench.replay.replay_capacity import free_bytes
from workbench.rundir import RunDirectory
from workbench.trajectory import Array
from workbench.wire.endpoints import HOST, learner_name, machine

Order = dict[str, Any]
Obey = Callable[..., None]  # (order, **arguments)
JOIN_S = 120.0  # until all learners have started
_PATIENCE_S = 300.0  # for a busy learner: the leader writes checkpoints meanwhile
_POLL_S = 0.05
_DIVIDED = ("batch_size", "queue_size", "replay_size", "replay_min_size")  # hyperparameters that the learners divide


class PeersLost(Exception):
    """Another learner of the group is gone, or did not answer in time."""


class Word(NamedTuple):
    """What a learner tells the others when they meet: whether it has a batch, whether it wants to stop, its steps so
    far, and the logarithm of its batch's largest importance weight before the division by it (0 without replay)."""

    ready: bool = False
    stop: bool = False
    steps: int = 0
    log_largest: float = 0.0


class Alone:
    """The only learner of a run, which waits for no other; `Group` describes the attributes and methods."""

    rank, size, here, leads, peers = 0, 1, 1, True, None

    def join(self, *, stopping: Callable[[], bool]) -> bool:
        return True

    def close(self) -> None:
        pass

    def order(self, order: str, **arguments: Any) -> None:
        pass

    def meet(self, word: Word, *, obey: Obey, over: Callable[[], bool]) -> bool:
        return word.ready

    def stops(self, stopping: bool) -> bool:
        return stopping

    def steps(self, own: int) -> int:
        return own

    def from_leader(self, value: Any = None) -> Any:
        return value

    def begin(self, *, steps: int, seed: int) -> None:
        """Nothing to do: torch's random numbers continue."""

    def batch(self, batch: Batch) -> Batch:
        return batch

    def backward(self, total: Tensor, parameters: Sequence[nn.Parameter], *, varies: bool) -> None:
        total.backward()  # type: ignore[no-untyped-call]

    def average(self, tensor: Tensor) -> Tensor:
        return tensor

    def share(self, hyperparameters: Any) -> Any:
        return hyperparameters

    def seed(self, seed: int, *more: int) -> int:
        return seed


class Group:
    """This learner as one of several. The learner of rank 0 leads: it alone writes metrics and checkpoints.

    Attributes:
        size: number of learners.
        here: number of learners on this machine; `size` until it has joined.
        peers: the group itself, which averages tensors; None in `Alone`.
    """

    def __init__(self, run: RunDirectory, config: RunConfig, rank: int) -> None:
        self.rank, self.size = rank, config.learners
        self.leads = rank == 0
        self.here, self.peers = self.size, self
        self._run, self._config = run, config
        self._steps, self._stops = 0, False  # as of the last meeting: of all learners; whether one wanted to stop
        self._log_largest = 0.0  # of all learners' batches
        self._orders: list[Order] = []
        self._replay_gb: float | None = None

    # ---- how they find each other -----------------------------------------------------------------------------------

    def join(self, *, stopping: Callable[[], bool]) -> bool:
        """Wait until all learners have started; False if `stopping` becomes true before. Raises PeersLost.

        They find each other by `rendezvous`; the supervisor removes its file before it starts a group.
        """
        names = [learner_name(rank) for rank in range(self.size)]
        deadline = time.monotonic() + JOIN_S

        def waits() -> bool:
            return not stopping() and time.monotonic() <= deadline

        with _together():
            store = open_store(self._run, rank=self.rank, size=self.size, ports=self._config.ports, waits=waits)
            if store is not None:
                store.set(names[self.rank], machine())
            while store is not None and not store.check(names) and waits():
                time.sleep(_POLL_S)
            missing = names[:1] if store is None else [name for name in names if not store.check([name])]
            if missing and stopping():
                self._stops = True
                return False
            if missing:
                raise PeersLost(f"{', '.join(missing)} did not come within {JOIN_S:g} s")
            machines = [store.get(name).decode() for name in names]
        self.here = machines.count(machines[self.rank])
        self._connect(store, machines)
        return True

    def _connect(self, store: Any, machines: Sequence[str]) -> None:
        choose_interface(os.environ.get(HOST), one_machine=len(set(machines)) == 1)
        busy_s = REPLAY_S if self._config.replays else _PATIENCE_S
        with _together():
            dist.init_process_group(
                _backend(self._take_gpus(self._config, machines)), store=store, rank=self.rank, world_size=self.size,
                timeout=timedelta(seconds=busy_s),
            )

    def _take_gpus(self, config: RunConfig, machines: Sequence[str]) -> bool:
        """Let this process see only its own GPUs; whether each learner of this machine has one. Called before CUDA is
        used, which reads the variable once. Ray has given each learner its own GPUs already."""
        if config.device not in ("auto", "cuda") or not (number := torch.cuda.device_count()):
            return False
        if config.launcher == "ray":
            return True
        place = machines[: self.rank].count(machines[self.rank])
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(number)))).split(",")
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(own_gpus(visible, place, self.here))
        return number >= self.here

    def close(self) -> None:
        """Leave the group."""
        if dist.is_initialized():
            dist.destroy_process_group()

    # ---- what they tell each other ----------------------------------------------------------------------------------

    def order(self, order: str, **arguments: Any) -> None:
        """Order the other learners to do this, at the next meeting."""
        self._orders.append({"order": order, **arguments})

    def meet(self, word: Word, *, obey: Obey, over: Callable[[], bool]) -> bool:
        """Wait for all learners, exchange words, and obey the others' orders. Returns whether all are ready and
        training is not `over`. Raises PeersLost."""
        own, self._orders = self._orders, []
        (ready, stop, steps, log_largest), orders = self._exchange(word, own)
        self._steps, self._stops, self._log_largest = int(steps.sum()), bool(stop.any()), float(log_largest.max())
        for order in orders:
            obey(**order)
        return bool(ready.all()) and not over()

    def stops(self, stopping: bool) -> bool:
        """Whether a learner wanted to stop at the last meeting; `stopping`, of this learner, counts at the next."""
        return self._stops

    def steps(self, own: int) -> int:
        """Steps of all learners at the last meeting; `own` is this learner's present number."""
        return self._steps

    def _exchange(self, word: Word, orders: Sequence[Order]) -> tuple[Array, list[Order]]:
        """The words of all learners, float64 [4, size], and the others' orders."""
        message = json.dumps(orders).encode() if orders else b""
        *words, length = self._gather(torch.tensor([*word, len(message)], dtype=torch.float64)).numpy().T
        return np.stack(words), self._messages(message, int(length.max())) if length.any() else []

    def _messages(self, message: bytes, longest: int) -> list[Order]:
        """The orders of all other learners, by rank; `longest`: bytes of the longest message."""
        padded = torch.from_numpy(np.frombuffer(message.ljust(longest), np.uint8).copy())
        texts = [bytes(row).strip() for row in self._gather(padded).numpy()]
        return [order for rank, text in enumerate(texts) if text and rank != self.rank for order in json.loads(text)]

    def _gather(self, own: Tensor) -> Tensor:
        """[size, ...]: the tensors of all learners, which have the same shape."""
        every = torch.empty((self.size, *own.shape), dtype=own.dtype)
        with _together():
            dist.all_gather(list(every), own)
        return every

    def from_leader(self, value: Any = None) -> Any:
        """The leader's `value`, plain data; called by all learners at once."""
        _, messages = self._exchange(Word(), [{"value": value}] if self.leads else [])
        return value if self.leads else messages[0]["value"]

    # ---- what they train --------------------------------------------------------------------------------------------

    def begin(self, *, steps: int, seed: int) -> None:
        """Begin after `steps` steps of all learners, with a seed for torch that no other learner has."""
        self._steps = steps
        torch.manual_seed(seed)

    def batch(self, batch: Batch) -> Batch:
        """`batch` of this learner, with importance weights relative to the largest of all learners' batches."""
        if batch.sample is None:
            return batch
        scale = math.exp(batch.sample.log_largest - self._log_largest)
        return dataclasses.replace(batch, weight=batch.weight * scale)

    def equalise(self, tensors: Iterable[Tensor]) -> None:
        """Give every learner's `tensors` the leader's values, in place."""
        with _together(), torch.no_grad():
            for tensor in tensors:
                same = tensor.detach().clone(memory_format=torch.contiguous_format)
                dist.broadcast((torch.view_as_real(same) if same.is_complex() else same).view(-1).view(torch.uint8), 0)
                places = tuple(slice(None) if step else slice(1) for step in tensor.stride())  # each number once
                tensor[places].copy_(same[places])

    def backward(self, total: Tensor, parameters: Sequence[nn.Parameter], *, varies: bool) -> None:
        """Compute the gradients of the mean of all learners' `total` with respect to `parameters`.

        A total that is not finite makes all its gradients and their means so: all learners skip the same updates.

        Args:
            varies: whether another loss, or another learner's, may reach other parameters. The host then waits to
                know which have a gradient anywhere; otherwise they are those that have one here.
        """
        total.backward(1 + 0 * total.detach())  # type: ignore[no-untyped-call]
        reached = [float(parameter.grad is not None) for parameter in parameters]
        if varies:
            reached = self.average(torch.tensor(reached, device=total.device)).tolist()
        trained = [parameter for parameter, share in zip(parameters, reached, strict=True) if share > 0]
        gradients = [torch.zeros_like(one) if one.grad is None else one.grad for one in trained]
        for kind in dict.fromkeys(gradient.dtype for gradient in gradients):  # in the same order everywhere
            alike = [gradient for gradient in gradients if gradient.dtype == kind]
            means = self.average(torch.cat([gradient.flatten() for gradient in alike]))
            for gradient, mean in zip(alike, torch.split(means, [gradient.numel() for gradient in alike]), strict=True):
                gradient.copy_(mean.view_as(gradient))
        for parameter, gradient in zip(trained, gradients, strict=True):
            parameter.grad = gradient

    def average(self, tensor: Tensor) -> Tensor:
        """The mean of all learners' tensors, in place."""
        with _together():
            dist.all_reduce(tensor)
        return tensor.div_(self.size)

    def share(self, hyperparameters: Any) -> Any:
        """A run's hyperparameters for this learner, which has 1/size of batches, queues and replay."""
        parts = {name: -(-getattr(hyperparameters, name) // self.size) for name in _DIVIDED
                 if hasattr(hyperparameters, name)}
        if hasattr(hyperparameters, "replay_memory_gb"):
            if self._replay_gb is None:
                self._replay_gb = self._replay_share_gb(hyperparameters)
            parts["replay_memory_gb"] = self._replay_gb
        return dataclasses.replace(hyperparameters, **parts)

    def _replay_share_gb(self, hyperparameters: Any) -> float:
        """GiB for this learner's replay; 0: as many as its size needs."""
        if hyperparameters.replay_memory_gb or hyperparameters.replay_size:
            return float(hyperparameters.replay_memory_gb / self.size)
        return free_bytes(hyperparameters, self._run.replay(self.rank)) / 2 / self.here / 2**30

    def seed(self, seed: int, *more: int) -> int:
        """A seed that no other learner has; the leader's is `seed` itself."""
        mixed = np.random.SeedSequence([seed, self.rank, *more]).generate_state(1)[0] >> 2
        return seed if self.leads else int(mixed)


Learners = Alone | Group


def own_gpus(visible: Sequence[str], place: int, learners: int) -> Sequence[str]:
    """A machine's GPUs for the learner at `place`: an equal part of the `visible` ones, or one that several share."""
    each = len(visible) // learners
    return visible[place * each : (place + 1) * each] if each else [visible[place % len(visible)]]


def _backend(gpus: bool) -> str:
    return "cpu:gloo,cuda:nccl" if gpus and dist.is_nccl_available() else "gloo"


@contextmanager
def _together() -> Iterator[None]:
    """Raises PeersLost in place of torch's errors for a learner that is gone or silent."""
    try:
        yield
    except RuntimeError as error:
        if not is_loss(error):
            raise
        raise PeersLost(str(error).splitlines()[0]) from error


def is_loss(error: BaseException) -> bool:
    """Whether an error means that another learner is gone or silent; gloo's errors have no class of their own."""
    return isinstance(error, (PeersLost, dist.DistError)) or (
        isinstance(error, RuntimeError) and any(name in str(error).lower() for name in ("gloo", "nccl", "filestore")))
