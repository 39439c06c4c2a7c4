"""Turns the sums of the last second into metrics, the status, and a sentence about the bottleneck."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import numpy as np
import psutil

from workbench.errors import WorkbenchError
from workbench.learner.disk_guard import METRICS, PLACE, DiskGuard
from workbench.learner.metrics.learner_report import (
    Activity,
    LearnerReport,
    Packed,
    Rates,
    Unsent,
    joined,
    packed_episode,
    unpacked_episode,
)
from workbench.learner.metrics.meters import Sums
from workbench.learner.run_state import RunState
from workbench.learner.training.data_parallel import Learners
from workbench.metrics import MetricsReader, MetricsWriter, Progress
from workbench.metrics.collapse import EPISODES, judged_by
from workbench.metrics.limiting_part import limit
from workbench.metrics.status import ActorStatus, LearnerStatus, parts_from_json, without_end
from workbench.metrics.writer import Episode
from workbench.rundir import RunDirectory
from workbench.wire.endpoints import learner_name, reaching
from workbench.wire.rpc import Caller

_INTERVAL_S = 1.0
_STEADY_S = 10.0  # over which the speeds of a status are taken: those of one second jump on a busy machine
_ASK_S = 2.0  # for another learner's answer
_SILENT_S = 5.0
_MOST_UNSENT = 100_000  # episodes, the same number as may wait for a disk
_RECALLED = 4  # times as many rows are looked at as episodes are recalled: a restore may have left some behind
_FULL = 0.9  # of `batch_fill`
_LEAST_SHARE = 0.005  # of the time: 0% as written
_LARGE = 100_000  # parameters of a network whose arithmetic, and not Python's time around it, is what an update takes


class EpisodeLog:
    """Writes all episodes, and keeps the last of each kind for the status: a hundred, or one for each environment, if
    there are more.

    Episodes that begin together end in the order of their lengths. So of many environments the last hundred episodes
    are short ones and long ones in turn, and their mean would swing.

    Args:
        environments: returns how many there are of a kind, "training" or "evaluation".
    """

    def __init__(
        self, writer: MetricsWriter, episodes: int = 0, *, environments: Callable[[str], int] = lambda kind: 0
    ) -> None:
        self._writer, self._environments = writer, environments
        self._returns: dict[str, deque[float]] = {kind: deque() for kind in ("training", "evaluation")}
        self._scores: dict[str, deque[float]] = {kind: deque() for kind in ("training", "evaluation")}
        self._lengths: deque[int] = deque()
        self._lock = threading.Lock()
        self.episodes = episodes  # of training

    def recall(self, former: MetricsReader) -> None:
        """Take the last episodes of the run's former life into the means, so that they do not begin with short ones."""
        lengths = former.lengths()
        for name, kind, values in (("episode_return", "training", self._returns["training"]),
                                   ("episode_score", "training", self._scores["training"]),
                                   ("episode_length", "training", self._lengths),
                                   ("evaluation_return", "evaluation", self._returns["evaluation"]),
                                   ("evaluation_score", "evaluation", self._scores["evaluation"])):
            most = self._most(kind)
            since = {name: max(0, lengths[name] - _RECALLED * most)} if name in lengths else {}
            for rows, _ in former.newer(since, max_points=_RECALLED * most + 1).values():
                values.extend(rows["value"][-most:].tolist())

    def add(self, episode: Episode, progress: Progress) -> None:
        """Record a finished episode."""
        self._writer.episode(progress, **vars(episode))
        most = self._most(episode.kind)
        with self._lock:
            _keep(self._returns[episode.kind], episode.episode_return, most)
            if episode.score is not None:
                _keep(self._scores[episode.kind], episode.score, most)
            if episode.kind == "training":
                self.episodes += 1
                _keep(self._lengths, episode.length_steps, most)

    def _most(self, kind: str) -> int:
        return max(EPISODES, self._environments(kind))

    def status(self) -> dict[str, Any]:
        """Numbers of episodes, means of the last, and by which of them the run is judged; None before the first."""
        evaluates = self._environments("evaluation") > 0
        with self._lock:
            training, evaluation = self._returns["training"], self._returns["evaluation"]
            kind = "evaluation" if evaluates else "training"
            scores, judged = self._scores[kind], self._scores[kind] or self._returns[kind]
            return {
                "episodes": self.episodes, "episode_return": _mean(training), "episode_length": _mean(self._lengths),
                "episodes_in_mean": len(training), "evaluation_return": _mean(evaluation),
                "evaluation_episodes": len(evaluation), "episode_score": _mean(self._scores["training"]),
                "evaluation_score": _mean(self._scores["evaluation"]),
                "judged_by": judged_by(evaluates=evaluates, scored=bool(scores)),
                "judged_spread": float(np.std(list(judged))) if judged else None,
            }


def _keep(values: deque[Any], value: float, most: int) -> None:
    """Add a value, and drop the oldest beyond `most`."""
    values.append(value)
    while len(values) > most:
        values.popleft()


def _mean(values: Collection[float]) -> float | None:
    return float(np.mean(list(values))) if values else None


def shares(sums: Sums, *, elapsed_s: float, actors: int, groups: int, learners: int = 1) -> dict[str, float]:
    """Shares of the time `elapsed_s`, each in [0, 1].

    Of an actor's time: `environments`, stepping. Of a group's: `wire`, its messages on their way or waiting while the
    actor steps another group; `batch_wait`, waiting for its batch to run. Of the inference thread's: `inference`, and
    `queue_blocked` by slow training. Of the training thread's: `training`, and `training_wait` for unrolls. The last
    four are means over the learners.
    """

    whose = {"environments": actors, "wire": groups, "batch_wait": groups, "inference": learners,
             "queue_blocked": learners, "training": learners, "training_wait": learners}
    return {name: min(1.0, sums.total(name) / (elapsed_s * max(number, 1))) for name, number in whose.items()}


def hint(parts: Mapping[str, float], *, on_cpu: bool, parameters: int, batches_bounded: bool = False) -> str:
    """A sentence about the bottleneck and what may help.

    Args:
        parameters: of the network; a GPU computes a small one no sooner than a CPU.
        batches_bounded: by `max_batch`, and not by how many environments there are.
    """
    limiting = limit(parts)
    if limiting == "training":
        large = parameters >= _LARGE
        remedy = ("a GPU" if on_cpu and large else "a larger batch_size") + " or a smaller network" * large
        return f"training {parts['training']:.0%} of the time: {remedy} would help most"
    if limiting == "environments":
        return f"waiting for environments {parts['training_wait']:.0%} of the time: more actors or cores would help"
    if limiting == "inference":
        remedy = "a larger max_batch" if batches_bounded else "more environments in a batch (envs_per_actor)"
        return f"inference works {parts['inference']:.0%} of the time: {remedy} would help"
    if limiting == "batch_wait":
        return f"groups wait {parts['batch_wait']:.0%} of the time for batches to fill: lower batch_timeout_ms"
    if parts["training"] + parts["training_wait"] < _LEAST_SHARE:  # it has just begun, or is paused
        return ""
    return f"training {parts['training']:.0%} of the time, waiting for unrolls {parts['training_wait']:.0%}"


def latencies(sums: Sums, *, max_batch: int) -> dict[str, float]:
    """Mean times in ms, uses of a batch, and `batch_fill` in [0, 1]; without the names that have no samples."""
    times = {"batch_wait_ms": "batch_wait", "inference_ms": "inference", "update_ms": "training"}
    scalars = {name: mean * 1000 for name, meter in times.items() if (mean := sums.mean(meter)) is not None}
    uses, batch_size = sums.mean("batch_uses"), sums.mean("batch_size")
    if uses is not None:
        scalars["batch_uses"] = uses
    if batch_size is not None:
        scalars["batch_fill"] = min(1.0, batch_size / max_batch)  # a group is never split, and may be larger
    return scalars


def compiler(scalars: Mapping[str, float], matrices: str) -> str:
    """What a device that compiles has compiled, and the precision of its float32 products; "" of other devices."""
    if "xla_compilations" not in scalars:
        return ""
    compiled, again = scalars["xla_compilations"], scalars.get("xla_recompilations")
    later = "" if again is None else f", {again:,.0f} since the warm-up"
    kept = f", {cached:,.0f} of a former life" if (cached := scalars.get("xla_cached", 0.0)) else ""
    return f"{compiled:,.0f} graphs compiled{later}{kept}; float32 products: {matrices}"


def machine_load() -> dict[str, float]:
    """The machine's CPU load in %, and its memory in use in GiB."""
    return {"cpu_percent": psutil.cpu_percent(), "memory_gb": psutil.virtual_memory().used / 2**30}


def memory(load: Mapping[str, float], *, accelerator_total_gb: float) -> dict[str, float]:
    """GiB in use and in total: of the accelerator, or without one the learner's part of the machine's memory."""
    if accelerator_total_gb:
        return {"device_memory_gb": load["accelerator_memory_gb"], "device_memory_total_gb": accelerator_total_gb}
    total_gb = psutil.virtual_memory().total / 2**30
    return {"device_memory_gb": load["learner_memory_gb"], "device_memory_total_gb": total_gb}


class OtherLearner:
    """Another learner of the group, which the leader asks for its activity."""

    def __init__(self, run: RunDirectory, rank: int) -> None:
        self.name = learner_name(rank)
        self._caller = Caller(reaching(run, self.name), run.token())
        self._answered_at = time.monotonic()
        self._episodes = 0  # number that it has sent

    def activity(self) -> Activity:
        """Its activity since the last answer; empty if it does not answer, and then its episodes come the next time."""
        try:
            activity = Activity(**self._caller.call("activity", timeout_s=_ASK_S, heard=self._episodes))
        except WorkbenchError:
            return Activity()
        self._answered_at = time.monotonic()
        self._episodes = max(self._episodes, activity.first_episode + len(activity.episodes))
        return activity

    @property
    def silence(self) -> str:
        """A sentence if it has not answered for long; otherwise ""."""
        silent_s = time.monotonic() - self._answered_at
        return f"{self.name} has not answered for {silent_s:.0f} s" if silent_s > _SILENT_S else ""


def _per_second(rates: Rates, counters: Mapping[str, float]) -> dict[str, float]:
    return {f"{name}_per_second": speed for name, speed in rates.of(counters).items()}


class Recorder:
    """Writes a run's log in the leader: events, episodes, and once a second the metrics of all learners.

    Attributes:
        status: of the last second, for calls; set by `begin`, like `episodes`.
    """

    episodes: EpisodeLog
    status: LearnerStatus

    def __init__(self, run: RunDirectory, disk: DiskGuard) -> None:
        self._run, self._disk = run, disk
        self._writer = MetricsWriter(run.metrics, tensorboard=run.tensorboard)
        self._closed, self._recording = threading.Event(), threading.Lock()

    def begin(self, report: LearnerReport, state: RunState, *, episodes: int) -> None:
        """Record the activity of this learner (`report`) and of the others, after `episodes` episodes of the run."""
        self.episodes = EpisodeLog(self._writer, episodes, environments=lambda kind: state.config.environments(kind))
        self.episodes.recall(MetricsReader(self._run.metrics))
        self._report, self._state = report, state
        self._peers = [OtherLearner(self._run, rank) for rank in range(1, state.config.learners)]
        self._rates, self._steady_rates = Rates(), Rates(_STEADY_S)
        self._record()

    @property
    def loops(self) -> dict[str, Callable[[], None]]:
        """Functions to run in threads of their own until `stop`, by the thread's name."""
        return {"recorder": self._loop}

    def event(self, kind: str, message: str, **more: Any) -> None:
        """Write an event; see `MetricsWriter.event`."""
        self._disk.store(METRICS, partial(self._writer.event, kind, message, **more))

    event_of_all = event  # an event that every learner logs

    def episode(self, episode: Episode, progress: Progress) -> None:
        """Write an episode that has ended."""
        self.episodes.add(episode, progress)

    def unsent(self, number: int) -> tuple[list[Packed], int]:
        """No episodes: those of the leader are written already."""
        return [], 0

    def hand_over(self) -> None:
        """Ask the other learners for their last episodes."""
        if self._peers:
            self._record()

    def _loop(self) -> None:
        """Record once a second until closed, and once more then."""
        while not self._closed.wait(_INTERVAL_S):
            self._record()
        self._record()

    def stop(self) -> None:
        """Let `loops` end."""
        self._closed.set()

    def close(self) -> None:
        """Write the rows that wait."""
        self._disk.store(METRICS, self._writer.close)

    @property
    def silence(self) -> str:
        """A sentence about the other learners that have not answered for long; "" without any."""
        return ", ".join(peer.silence for peer in self._peers if peer.silence)

    def _record(self) -> None:
        with self._recording:
            self._record_now()

    def _record_now(self) -> None:
        state, learner = self._state, self._state.parts
        activity = joined([self._report.activity(), *(peer.activity() for peer in self._peers)])
        for episode in activity.episodes:
            self.episodes.add(*unpacked_episode(episode))
        progress = state.progress
        counters = {"frames": progress.frames, "steps": progress.steps, "updates": progress.updates}
        speeds, steady = _per_second(self._rates, counters), _per_second(self._steady_rates, counters)
        if state.stands_still:
            self._steady_rates = Rates(_STEADY_S)
        sums = Sums.joined([activity.meters])
        parts = shares(sums, elapsed_s=self._rates.elapsed_s, actors=activity.connected, groups=activity.groups,
                       learners=1 + len(self._peers))
        total_gb = activity.scalars["accelerator_total_gb"]
        measured = {name: value for name, value in activity.scalars.items() if name != "accelerator_total_gb"}
        scalars = {**speeds, **latencies(sums, max_batch=state.max_batch), **machine_load(), **measured,
                   "learning_rate": state.learning_rate, **{f"time_{name}": value for name, value in parts.items()}}
        episodes = self.episodes.status()
        for name in ("episode_return", "evaluation_return", "episode_score", "evaluation_score"):
            if episodes[name] is not None:
                scalars[f"{name}_mean"] = episodes[name]
        self._writer.scalars(progress, scalars)
        for name, (bins, counts) in activity.histograms.items():
            self._writer.distribution(name, progress, bins, counts)
        unrolls, capacity = activity.kept or (None, None)
        numbers: dict[str, Any] = {
            **counters, **steady, **episodes, **memory(scalars, accelerator_total_gb=total_gb)}
        self.status = LearnerStatus(
            **numbers, time_s=progress.time_s, replay_unrolls=unrolls, replay_capacity=capacity,
            policy_lag=scalars.get("policy_lag_mean"), learning_rate=scalars["learning_rate"],
            device=learner.device.kind, precision=learner.device.precision, learner_threads=learner.threads.count,
            compiler=compiler(scalars, learner.device.matrices),
            actors=parts_from_json(ActorStatus, activity.actors), bottleneck=parts,
            warning=self.commit(),
            hint=without_end(
                steps=progress.steps, episodes=episodes["episodes"], environments=state.config.environments()
            ) or hint(
                parts, on_cpu=learner.device.kind == "cpu",
                parameters=sum(one.numel() for one in learner.trainer.network.parameters()),
                batches_bounded=scalars.get("batch_fill", 0.0) > _FULL and state.max_batch < state.environments),
        )

    def commit(self) -> str:
        """Commit the rows that wait, and return a sentence if the disk refuses them; they are then tried again."""
        self._disk.store(PLACE, self._run.check_place)
        self._disk.store(METRICS, self._writer.commit)
        return self._disk.warning


class Forwarder:
    """In the place of `Recorder` in the other learners: forwards events as orders, and episodes with the report."""

    def __init__(self, learners: Learners) -> None:
        self._learners = learners
        self._unsent = Unsent(_MOST_UNSENT)

    def event(self, kind: str, message: str, **more: Any) -> None:
        """Let the leader write an event; only the message is forwarded."""
        self._learners.order("event", kind=kind, message=f"{learner_name(self._learners.rank)}: {message}")

    def event_of_all(self, kind: str, message: str, **more: Any) -> None:
        """Nothing to forward: the leader logs it as well."""

    def begin(self, report: LearnerReport, state: RunState, *, episodes: int) -> None:
        """Nothing to record."""

    def episode(self, episode: Episode, progress: Progress) -> None:
        """Keep an episode that has ended until the leader has it."""
        self._unsent.append(packed_episode(episode, progress))

    def unsent(self, number: int) -> tuple[list[Packed], int]:
        """See `Unsent.after`."""
        return self._unsent.after(number)

    def hand_over(self) -> None:
        """Wait for the leader, which asks once a second, to ask for the last episodes."""
        last, latest = len(self._unsent), time.monotonic() + _ASK_S
        while self._unsent.given < last and time.monotonic() < latest:
            time.sleep(_INTERVAL_S / 20)

    @property
    def loops(self) -> dict[str, Callable[[], None]]:
        """Nothing to run."""
        return {}

    def stop(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


Log = Recorder | Forwarder
