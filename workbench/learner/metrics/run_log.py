"""The log of a run: its events, episodes and metrics. The leader writes it, and the other learners forward theirs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from workbench.learner.disk_guard import METRICS, Storage
from workbench.learner.inference.inference import Episode
from workbench.learner.metrics.learner_report import LearnerReport, Packed, Unsent, packed_episode
from workbench.learner.metrics.recorder import EpisodeLog, Peer, Recorder
from workbench.learner.run_state import RunState
from workbench.learner.training.data_parallel import Learners
from workbench.metrics import MetricsWriter, Progress
from workbench.rundir import RunDirectory
from workbench.wire.endpoints import learner_name

_MOST_UNSENT = 100_000  # as many as may wait for a disk


class RunLog:
    """What the leader writes.

    Attributes:
        episodes, recorder: there since `begin`.
    """

    episodes: EpisodeLog
    recorder: Recorder

    def __init__(self, run: RunDirectory, storage: Storage) -> None:
        self._run, self._storage = run, storage
        self._writer = MetricsWriter(run.metrics, tensorboard=run.tensorboard)

    def event(self, kind: str, message: str, **more: Any) -> None:
        """Write an event; see `MetricsWriter.event`."""
        self._storage.store(METRICS, partial(self._writer.event, kind, message, **more))

    event_of_all = event  # that each learner sees

    def begin(self, report: LearnerReport, state: RunState, *, episodes: int) -> None:
        """Begin to record, after so many episodes of the run."""
        self.episodes = EpisodeLog(self._writer, episodes)
        peers = [Peer(self._run, rank) for rank in range(1, state.config.learners)]
        self.recorder = Recorder(self._run, self._writer, self._storage, report, state, self.episodes, peers)

    def episode(self, episode: Episode, progress: Progress) -> None:
        """Write an episode that has ended."""
        self.episodes.add(episode, progress)

    def unsent(self, heard: int) -> tuple[list[Packed], int]:
        """None: all of its own are written."""
        return [], 0

    @property
    def loops(self) -> dict[str, Callable[[], None]]:
        """What runs in a thread of its own, by the thread's name, until `stop`."""
        return {"recorder": self.recorder.loop}

    def stop(self) -> None:
        """Let `loops` end."""
        self.recorder.close()

    def close(self) -> None:
        """Write what waits."""
        self._storage.store(METRICS, self._writer.close)


class ForwardedLog:
    """What another learner forwards to the leader: events as orders, episodes with its report."""

    def __init__(self, learners: Learners) -> None:
        self._learners = learners
        self._unsent = Unsent(_MOST_UNSENT)

    def event(self, kind: str, message: str, **more: Any) -> None:
        """Let the leader write an event; only the message is forwarded."""
        self._learners.order("event", kind=kind, message=f"{learner_name(self._learners.rank)}: {message}")

    def event_of_all(self, kind: str, message: str, **more: Any) -> None:
        """The leader sees it, too."""

    def begin(self, report: LearnerReport, state: RunState, *, episodes: int) -> None:
        """Nothing to record."""

    def episode(self, episode: Episode, progress: Progress) -> None:
        """Keep an episode that has ended until the leader has it."""
        self._unsent.append(packed_episode(episode, progress))

    def unsent(self, heard: int) -> tuple[list[Packed], int]:
        """Episodes from number `heard` on, and the number of the first of them."""
        return self._unsent.after(heard)

    @property
    def loops(self) -> dict[str, Callable[[], None]]:
        """Nothing to run."""
        return {}

    def stop(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


AnyLog = RunLog | ForwardedLog
