"""The activity of one learner since the last report, as plain data; several learners' activities join into one."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

import numpy as np
import psutil

from workbench.learner.inference.actor_streams import ActorStreams
from workbench.learner.metrics.meters import Meters, Sums
from workbench.learner.run_state import Parts
from workbench.metrics import Progress
from workbench.metrics.writer import Episode
from workbench.trajectory import Array

T = TypeVar("T")
Histogram = tuple[list[float], list[int]]  # edges and counts
Packed = list[Any]  # an episode and its progress, see `packed_episode`
_LAG_EDGES = (*range(64), *(64 * 2 ** (power / 4) for power in range(57)))  # steps of 1, then of 19 %
_SUMMED = ("replay_unrolls", "replay_gb", "learner_memory_gb", "accelerator_memory_gb", "accelerator_total_gb",
           "xla_compilations", "xla_cached", "xla_fallbacks", "xla_recompilations", "demonstration_epochs")
_WARM_UPDATES = 10  # of a learner's life, after which nothing should be compiled


class Rates:
    """Speeds over the last `window_s` seconds; 0: over the time since the last call, which `elapsed_s` has."""

    def __init__(self, window_s: float = 0.0) -> None:
        self._window_s, self.elapsed_s = window_s, 0.0
        self._kept: deque[tuple[float, dict[str, float]]] = deque([(time.monotonic(), {})])

    def of(self, counters: Mapping[str, float]) -> dict[str, float]:
        """Each counter's increase per second."""
        now = time.monotonic()
        while len(self._kept) > 1 and (now - self._kept[1][0] >= self._window_s or not self._kept[0][1]):
            self._kept.popleft()  # no longer needed, or the beginning, which counts nothing
        at, before = self._kept[0]
        self.elapsed_s = max(now - at, 1e-6)
        self._kept.append((now, dict(counters)))
        return {name: (value - before.get(name, value)) / self.elapsed_s for name, value in counters.items()}


@dataclass(frozen=True)
class Activity:
    """What a learner did since its last report, in types that JSON has.

    Attributes:
        meters: see `Sums.plain`.
        scalars: metrics by name.
        histograms: by name.
        kept: unrolls in the replay, and its capacity; None without replay.
        connected, groups: actors with a live stream, and their groups.
        actors: the fields of `ActorStatus` by actor.
        episodes: those that the leader does not have yet, each with its progress; see `packed_episode`.
        first_episode: number of the first of them, from 0 on.
    """

    meters: dict[str, list[float]] = field(default_factory=dict)
    scalars: dict[str, float] = field(default_factory=dict)
    histograms: dict[str, Histogram] = field(default_factory=dict)
    kept: Sequence[int] | None = None
    connected: int = 0
    groups: int = 0
    actors: dict[str, dict[str, float]] = field(default_factory=dict)
    episodes: list[Packed] = field(default_factory=list)
    first_episode: int = 0

    def to_json(self) -> dict[str, Any]:
        """The arguments of `Activity`, as plain data."""
        return asdict(self)


class Unsent:
    """The episodes of another learner than the leader, until the leader confirms them: an answer may be lost.

    Args:
        most: number of episodes beyond which the oldest are dropped.
    """

    def __init__(self, most: int) -> None:
        self._episodes: deque[Packed] = deque()
        self._most, self._first, self._lock = most, 0, threading.Lock()
        self.given = 0  # episodes, from the first one on

    def append(self, episode: Packed) -> None:
        """Add an episode."""
        with self._lock:
            self._episodes.append(episode)
            if len(self._episodes) > self._most:
                self._drop(self._first + 1)

    def after(self, number: int) -> tuple[list[Packed], int]:
        """The episodes from `number` on, and the number of the first of them; drops the earlier ones."""
        with self._lock:
            self._drop(number)
            self.given = len(self)
            return list(self._episodes), self._first

    def __len__(self) -> int:
        """How many there were from the first one on."""
        return self._first + len(self._episodes)

    def _drop(self, before: int) -> None:
        while self._episodes and self._first < before:
            self._episodes.popleft()
            self._first += 1


class LearnerReport:
    """Reports the activity of one learner; each report begins where the last one ended.

    Args:
        unsent: see `Unsent.after`.
    """

    def __init__(
        self, parts: Parts, *, meters: Meters, streams: ActorStreams,
        unsent: Callable[[int], tuple[list[Packed], int]],
    ) -> None:
        self._parts, self._meters, self._streams, self._unsent = parts, meters, streams, unsent
        self._first_update, self._compiled_warm = parts.trainer.updates, math.nan
        self._actor_rates = Rates()
        self._process = psutil.Process()

    def _memory_gb(self) -> float:
        """Memory of this process; NaN if it has no file descriptor left to read it."""
        try:
            return self._process.memory_info().rss / 2**30  # type: ignore[no-any-return, unused-ignore]
        except OSError:
            return math.nan

    def _compiled(self, counters: dict[str, float]) -> dict[str, float]:
        """The device's counters; of one that compiles also how often it did so after the first updates of this life."""
        if "xla_compilations" not in counters or self._parts.trainer.updates < self._first_update + _WARM_UPDATES:
            return counters
        if math.isnan(self._compiled_warm):
            self._compiled_warm = counters["xla_compilations"]
        return {**counters, "xla_recompilations": counters["xla_compilations"] - self._compiled_warm}

    def activity(self, first_episode: int = 0) -> Activity:
        """What happened since the last call, with the episodes from number `first_episode` on."""
        trainer, experience, device = self._parts.trainer, self._parts.experience, self._parts.device
        means, lags, samples = trainer.drain()
        replay, histograms = experience.metrics()
        scalars = {
            **means, **lag_summary(lags), **replay, **self._parts.inference.flights.means(),
            "queue_occupancy": min(1.0, len(experience.queue) / experience.queue.capacity),  # it may just have shrunk
            "learner_memory_gb": self._memory_gb(),
            "accelerator_memory_gb": device.memory_gb(),
            "accelerator_total_gb": device.total_memory_gb(),
            **self._compiled(device.counters()),
        }
        edges = trainer.algorithm.histogram_edges
        histograms.update({name: histogram(values, edges[name]) for name, values in samples.items()})
        if len(lags):
            histograms["policy_lag"] = histogram(lags, _LAG_EDGES)
        episodes, first_episode = self._unsent(first_episode)
        return Activity(
            meters=self._meters.drain().plain(), scalars=scalars, histograms=histograms, kept=experience.occupancy,
            connected=self._streams.connected, groups=self._streams.groups, actors=self._actors(),
            episodes=episodes, first_episode=first_episode,
        )

    def _actors(self) -> dict[str, dict[str, float]]:
        lives = dict(self._streams.lives)
        rates = self._actor_rates.of({str(number): life.steps for number, life in lives.items()})
        speeds = {number: max(0.0, rates[str(number)]) for number in lives}
        now = time.monotonic()
        return {
            str(number): {"last_seen_s": now - life.last_seen, "steps": life.steps, "connected": life.alive,
                          "stepping": life.alive and not life.pending,
                          "steps_per_second": speeds[number], "environments": life.hello.environments,
                          "frames_per_second": speeds[number] * life.hello.spec.frames_per_step}
            for number, life in lives.items()
        }


def joined(activities: Sequence[Activity]) -> Activity:
    """The activities of all learners as that of one learner."""
    if len(activities) == 1:
        return activities[0]
    occupancies = [activity.kept for activity in activities if activity.kept is not None]
    return Activity(
        meters=Sums.joined(activity.meters for activity in activities).plain(),
        scalars=_by_name([activity.scalars for activity in activities], _joined_scalar),
        histograms=_by_name(
            [activity.histograms for activity in activities], lambda _, several: _joined_histogram(several)),
        kept=[sum(numbers) for numbers in zip(*occupancies, strict=True)] if occupancies else None,
        connected=sum(activity.connected for activity in activities),
        groups=sum(activity.groups for activity in activities),
        actors={number: status for activity in activities for number, status in activity.actors.items()},
        episodes=[episode for activity in activities for episode in activity.episodes],
    )


def _by_name(several: Sequence[Mapping[str, T]], join: Callable[[str, list[T]], T]) -> dict[str, T]:
    names = dict.fromkeys(name for values in several for name in values)
    return {name: join(name, [values[name] for values in several if name in values]) for name in names}


def _joined_scalar(name: str, values: list[float]) -> float:
    if name in _SUMMED:
        return sum(values)
    return max(values) if name.endswith("_max") else float(np.mean(values))


def _joined_histogram(several: list[Histogram]) -> Histogram:
    """The sum of the histograms that have the edges of the longest one, or fewer of them at the end."""
    edges = max((edges for edges, _ in several), key=len)
    counts = np.zeros(len(edges) - 1, np.int64)
    for own_edges, own_counts in several:
        if list(own_edges) == list(edges[: len(own_edges)]):
            counts[: len(own_counts)] += own_counts
    return edges, counts.tolist()


def histogram(values: Array, edges: Sequence[float]) -> Histogram:
    """Edges and counts. Values beyond the edges count at the edges; empty bins at the end are left out."""
    counts = np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0]
    last = int(np.flatnonzero(counts)[-1]) + 1
    return list(edges[: last + 1]), counts[:last].tolist()


def lag_summary(lags: Array) -> dict[str, float]:
    """Mean and largest policy lag, in updates; {} if nothing was trained."""
    return {"policy_lag_mean": float(lags.mean()), "policy_lag_max": float(lags.max())} if len(lags) else {}


def packed_episode(episode: Episode, progress: Progress) -> Packed:
    """An episode and the progress at its end, as plain data."""
    return [*progress.columns(), episode.kind, episode.env_id, episode.episode_return, episode.length_steps,
            episode.score]


def unpacked_episode(packed: Sequence[Any]) -> tuple[Episode, Progress]:
    """The inverse of `packed_episode`."""
    return Episode(*packed[4:]), Progress(*packed[:4])
