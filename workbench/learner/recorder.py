"""Turns sums of the last second into metrics, the status, and one plain sentence about the bottleneck."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

from workbench.errors import StorageFailed
from workbench.learner.inference import Episode
from workbench.learner.meters import Sums
from workbench.metrics import MetricsWriter, Progress
from workbench.trajectory import Array

if TYPE_CHECKING:
    from workbench.learner.learner import Learner

_INTERVAL_S = 1.0
_LAG_EDGES = (*range(64), *(64 * 2 ** (power / 4) for power in range(57)))  # one by one, then in steps of 19 %


class Clock:
    """Seconds of training; stands still while paused."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._before = seconds
        self._since: float | None = None

    def run(self, running: bool) -> None:
        """Start it, or stop it."""
        self._before, self._since = self.seconds, (time.monotonic() if running else None)

    @property
    def seconds(self) -> float:
        """What it shows."""
        return self._before + (time.monotonic() - self._since if self._since is not None else 0.0)


class Rates:
    """Speeds over the time since the last look."""

    def __init__(self) -> None:
        self._before: dict[str, float] = {}
        self._at = time.monotonic()
        self.elapsed_s = 0.0

    def of(self, counters: Mapping[str, float]) -> dict[str, float]:
        """Per second, for each counter."""
        now = time.monotonic()
        self.elapsed_s = max(now - self._at, 1e-6)
        speeds = {name: (value - self._before.get(name, value)) / self.elapsed_s for name, value in counters.items()}
        self._before, self._at = dict(counters), now
        return speeds


class EpisodeLog:
    """Writes every episode, and keeps the last hundred of each kind for the status."""

    def __init__(self, writer: MetricsWriter, episodes: int = 0) -> None:
        self._writer = writer
        self._returns: dict[str, deque[float]] = {kind: deque(maxlen=100) for kind in ("training", "evaluation")}
        self._scores: dict[str, deque[float]] = {kind: deque(maxlen=100) for kind in ("training", "evaluation")}
        self._lengths: deque[int] = deque(maxlen=100)
        self._lock = threading.Lock()
        self.episodes = episodes  # of training

    def add(self, episode: Episode, progress: Progress) -> None:
        """Record a finished episode."""
        self._writer.episode(progress, env_id=episode.env_id, episode_return=episode.episode_return,
                             length_steps=episode.length_steps, kind=episode.kind, score=episode.score)
        with self._lock:
            self._returns[episode.kind].append(episode.episode_return)
            if episode.score is not None:
                self._scores[episode.kind].append(episode.score)
            if episode.kind == "training":
                self.episodes += 1
                self._lengths.append(episode.length_steps)

    def status(self) -> dict[str, Any]:
        """Means of the last hundred episodes, None before the first, and how many they are of."""
        with self._lock:
            training, evaluation = self._returns["training"], self._returns["evaluation"]
            return {
                "episodes": self.episodes, "episode_return": _mean(training), "episode_length": _mean(self._lengths),
                "episodes_in_mean": len(training), "evaluation_return": _mean(evaluation),
                "evaluation_episodes": len(evaluation), "episode_score": _mean(self._scores["training"]),
                "evaluation_score": _mean(self._scores["evaluation"]),
            }


def _mean(values: Collection[float]) -> float | None:
    return float(np.mean(list(values))) if values else None


def shares(sums: Sums, *, elapsed_s: float, actors: int, groups: int) -> dict[str, float]:
    """Shares of the last look's time, each in [0, 1].

    Of an actor's time: `environments`, stepping. Of a group's: `wire`, its messages on the way or waiting until the
    actor has stepped another group; `batch_wait`, waiting for its batch to run. Of the inference thread's:
    `inference`, and `queue_blocked` by a slow learner. Of the training thread's: `training`, and `training_wait` for
    unrolls.
    """

    def share(name: str, of: int = 1) -> float:
        return min(1.0, sums.total(name) / (elapsed_s * max(of, 1)))

    return {
        "environments": share("actor_stepping", actors),
        "wire": share("wire", groups),
        "batch_wait": share("batch_wait", groups),
        "inference": share("inference"),
        "queue_blocked": share("queue_blocked"),
        "training": share("update"),
        "training_wait": share("training_wait"),
    }


def hint(parts: Mapping[str, float], *, on_cpu: bool) -> str:
    """One sentence on what the learner waits for, and what may help."""
    if parts["training"] >= 0.8:
        more = "a GPU or learner_threads" if on_cpu else "a larger batch_size or a smaller network"
        return f"training {parts['training']:.0%} of the time: {more} would help most"
    if parts["environments"] >= 0.7:
        return f"waiting for environments {parts['training_wait']:.0%} of the time: more actors or cores would help"
    if parts["inference"] >= 0.7:
        return f"inference works {parts['inference']:.0%} of the time: a larger max_batch would help"
    if parts["batch_wait"] >= 0.5 > parts["queue_blocked"]:
        return f"groups wait {parts['batch_wait']:.0%} of the time for batches to fill: lower batch_timeout_ms"
    return f"training {parts['training']:.0%} of the time, waiting for unrolls {parts['training_wait']:.0%}"


def process_load(process: psutil.Process) -> dict[str, float]:
    """CPU of the machine in %, its memory in use, and this process's memory in GiB."""
    return {
        "cpu_percent": psutil.cpu_percent(),
        "memory_gb": psutil.virtual_memory().used / 2**30,
        "learner_memory_gb": process.memory_info().rss / 2**30,
    }


def memory(load: Mapping[str, float], *, accelerator_total_gb: float) -> dict[str, float]:
    """GiB in use and there where the network lives: the accelerator's, or (without one) the learner's of the machine's.
    """
    if accelerator_total_gb:
        return {"device_memory_gb": load["accelerator_memory_gb"], "device_memory_total_gb": accelerator_total_gb}
    there_gb = psutil.virtual_memory().total / 2**30
    return {"device_memory_gb": load["learner_memory_gb"], "device_memory_total_gb": there_gb}


def histogram(values: Array, edges: Sequence[float]) -> tuple[list[float], list[int]]:
    """Edges and counts; what lies beyond the edges is counted at them, and empty bins at the end are left out."""
    counts = np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0]
    last = int(np.flatnonzero(counts)[-1]) + 1
    return list(edges[: last + 1]), counts[:last].tolist()


def lag_summary(lags: Array) -> dict[str, float]:
    """Mean and largest policy lag, in updates; empty if nothing was trained."""
    return {"policy_lag_mean": float(lags.mean()), "policy_lag_max": float(lags.max())} if len(lags) else {}


class Recorder:
    """Once a second: metrics to the store, and the status that calls return."""

    def __init__(self, learner: Learner) -> None:
        self.status: dict[str, Any] = {}
        self._learner = learner
        self._rates, self._actor_rates = Rates(), Rates()
        self._process = psutil.Process()
        self._closed = threading.Event()
        self._look()

    def loop(self) -> None:
        """Look once a second until closed, and a last time then."""
        while not self._closed.wait(_INTERVAL_S):
            self._look()
        self._look()

    def close(self) -> None:
        """Let the loop end."""
        self._closed.set()

    def _look(self) -> None:
        learner, progress = self._learner, self._learner.progress
        counters = {"frames": progress.frames, "steps": progress.steps, "updates": progress.updates}
        speeds = {f"{name}_per_second": speed for name, speed in self._rates.of(counters).items()}
        sums = learner.meters.drain()
        streams = learner.streams
        parts = shares(sums, elapsed_s=self._rates.elapsed_s, actors=streams.connected, groups=streams.groups)
        means, lags, samples = learner.trainer.drain()
        replay, histograms = learner.experience.look()
        load = {**process_load(self._process), "accelerator_memory_gb": learner.device.memory_gb()}
        scalars = {**speeds, **means, **lag_summary(lags), **self._latencies(sums), **load,
                   "learning_rate": learner.learning_rate,
                   "queue_occupancy": len(learner.experience.queue) / learner.experience.queue.capacity,
                   **replay, **{f"time_{name}": value for name, value in parts.items()}}
        episodes = learner.episodes.status()
        for name in ("episode_return", "evaluation_return", "episode_score", "evaluation_score"):
            if episodes[name] is not None:
                scalars[f"{name}_mean"] = episodes[name]
        learner.writer.scalars(progress, scalars)
        edges = learner.trainer.algorithm.histogram_edges
        histograms.update({name: histogram(values, edges[name]) for name, values in samples.items()})
        if len(lags):
            histograms["policy_lag"] = histogram(lags, _LAG_EDGES)
        for name, (bins, counts) in histograms.items():
            learner.writer.distribution(name, progress, bins, counts)
        unrolls, capacity = learner.experience.kept or (None, None)
        self.status = {
            **counters, **speeds, **episodes, "time_s": progress.time_s,
            "replay_unrolls": unrolls, "replay_capacity": capacity,
            "policy_lag": scalars.get("policy_lag_mean"), "device": learner.device.kind,
            "precision": learner.device.precision, "actors": self._actors(), "bottleneck": parts,
            **memory(load, accelerator_total_gb=learner.device.total_memory_gb()),
            "warning": self._store() or learner.warning, "hint": hint(parts, on_cpu=learner.device.kind == "cpu"),
        }

    def _latencies(self, sums: Sums) -> dict[str, float]:
        """Mean times in ms, and how full batches were in [0, 1]; names without samples are left out."""
        found = {
            "batch_wait_ms": sums.mean("batch_wait"), "inference_ms": sums.mean("inference"),
            "update_ms": sums.mean("update"),
        }
        known = {name: value * 1000 for name, value in found.items() if value is not None}
        uses = sums.mean("batch_uses")
        if uses is not None:
            known["batch_uses"] = uses
        batch_size = sums.mean("batch_size")
        if batch_size is not None:
            known["batch_fill"] = batch_size / self._learner.batcher.max_batch
        return known

    def _actors(self) -> dict[str, dict[str, float]]:
        lives = dict(self._learner.streams.lives)
        made = self._actor_rates.of({str(number): life.steps for number, life in lives.items()})
        speeds = {number: max(0.0, made[str(number)]) for number in lives}
        now = time.monotonic()
        return {
            str(number): {"last_seen_s": now - life.last_seen, "steps": life.steps, "connected": life.alive,
                          "steps_per_second": speeds[number], "environments": life.hello.environments,
                          "frames_per_second": speeds[number] * life.hello.spec.frames_per_step}
            for number, life in lives.items()
        }

    def _store(self) -> str:
        """Commit; the reason in words if the disk refuses (what waits is kept and tried again)."""
        try:
            self._learner.writer.commit()
        except StorageFailed as error:
            return str(error)
        return ""
