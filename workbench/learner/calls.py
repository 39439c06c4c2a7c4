"""The JSON calls of a learner. The training thread carries out calls that change something, between two updates."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np

from workbench.checkpoints import Checkpoint
from workbench.errors import InvalidInput
from workbench.learner.command_queue import Commands
from workbench.learner.disk_guard import DiskGuard
from workbench.learner.inference.actor_streams import ActorStreams
from workbench.learner.metrics.learner_report import LearnerReport
from workbench.learner.metrics.recorder import Recorder
from workbench.learner.orders import Orders
from workbench.learner.run_state import RunState
from workbench.learner.training.checkpoint_writer import CheckpointWriter
from workbench.metrics.status import LearnerPhase
from workbench.policies import roles
from workbench.rundir import BY_HAND
from workbench.wire.rpc import Handler


class MemberCalls:
    """The calls that every learner of a group answers.

    Attributes:
        report: set before the learner is ready.
        floods: sentences about floods of connections at this learner's port.
    """

    report: LearnerReport

    def __init__(self, state: RunState, streams: ActorStreams) -> None:
        self.floods: list[str] = []
        self._run, self._streams = state, streams

    def methods(self) -> dict[str, Handler]:
        """The handlers, by the names of their calls."""
        return {"activity": self.activity, "watch": self.watch, "wall": self.wall, "flights": self.flights}

    def activity(self, heard: int) -> dict[str, Any]:
        """The fields of this learner's `Activity` since the last call, for the leader, which already has `heard` of its
        episodes; {} before it trains."""
        if type(heard) is not int:
            raise InvalidInput(f"heard={heard!r:.100} is not a number of episodes.")
        return self.report.activity(heard).to_json() if self._run.ready.is_set() else {}

    def watch(self, env: int, since: str = "") -> dict[str, Any]:
        """New steps of an environment (see `Tap.since`), with its spec, its actions' names and whether it evaluates.

        No steps before the first actor. Raises InvalidInput for an environment that the opponent plays.
        """
        if not self._run.ready.is_set():
            return {"cursor": since, "first": 0, "missed": 0, "steps": 0}
        config, spec = self._run.config, self._run.parts.spec
        _, own = config.row_of(env)
        row, agents = np.array([own]), spec.agents
        if roles.opposing(row, config, agents)[0]:
            raise InvalidInput(f"env={env} is played by the opponent, and only the run's own policy can be watched. "
                               f"Of {agents} agents of a game the opponent plays the last ones: choose another env.")
        steps = self._run.parts.inference.tap.since(own, since, observation_bytes=spec.observation_bytes)
        return {**steps, "action_names": self._streams.action_names, "environment": spec.to_json(),
                "evaluating": bool(roles.evaluating(row, config, agents)[0])}

    def wall(self, envs: list[int], since: str = "") -> dict[str, Any]:
        """The newest steps of these environments of this learner (see `WallTap.since`), with their spec and the names
        of their actions. No steps before the first actor; none of an environment that the opponent plays."""
        if not self._run.ready.is_set():
            return {"cursor": since, "envs": []}
        config, spec = self._run.config, self._run.parts.spec
        rows = np.array([config.row_of(env)[1] for env in envs])
        own = ~roles.opposing(rows, config, spec.agents)
        shown = {int(row): env for row, env, is_own in zip(rows, envs, own, strict=True) if is_own}
        steps = self._run.parts.inference.wall.since(list(shown), since)
        return {**steps, "envs": [shown[row] for row in steps["envs"]], "shown": list(shown.values()),
                "action_names": self._streams.action_names, "environment": spec.to_json()}

    def flights(self) -> list[dict[str, Any]]:
        """See `FlightRecorder.flights`, with the number of each environment in the run."""
        if not self._run.ready.is_set():
            return []
        config, flights = self._run.config, self._run.parts.inference.flights.flights()
        return [{"env": config.env_of(self._run.learners.rank, one["row"]), "born": one["born"],
                 "seconds": one["seconds"]} for one in flights]


class LeaderCalls(MemberCalls):
    """The calls of the leader, from the supervisor."""

    def __init__(
        self, state: RunState, streams: ActorStreams, *, log: Recorder, disk: DiskGuard, orders: Orders,
        commands: Commands, checkpoints: CheckpointWriter,
    ) -> None:
        super().__init__(state, streams)
        self._log, self._disk, self._checkpoints = log, disk, checkpoints
        self._orders, self._commands = orders, commands

    def methods(self) -> dict[str, Handler]:
        """The handlers, by the names of their calls."""
        return {"status": self.status, "pause": self.pause, "resume": self.resume, "tune": self.tune,
                "checkpoint": self.checkpoint, "stop": self.stop, "scale": self.scale, "watch": self.watch,
                "wall": self.wall, "flights": self.flights}

    def status(self) -> dict[str, Any]:
        """Counters and means of episodes as they are now, with the speeds of the last second, all of one state."""
        run = self._run
        while True:
            phase = LearnerPhase(self.state, self.reason, bool(run.hold_reason), run.writing_replay,
                                 tuple(self.floods), self.has_trained)
            ready = run.ready.is_set()
            now = {**self._log.episodes.status(), **asdict(run.progress)} if ready else {}
            status = replace(self._log.status, **now).to_json() if ready else {}
            if self.state == phase.state:  # else it changed meanwhile, and the counters may belong to the new state
                return {**status, **phase.to_json()}

    @property
    def state(self) -> str:
        """waiting (for the first update of this life), training (or filling the replay), paused, finished, stopped."""
        run = self._run
        if run.finished:
            return "finished"
        if run.stopping:
            return "stopped"
        if run.stands_still:
            return "paused"
        if not run.ready.is_set():
            return "waiting"
        fills = bool(run.parts.experience.filling) and self._streams.connected > 0
        return "training" if fills or self.has_trained else "waiting"

    @property
    def has_trained(self) -> bool:
        """Whether it has made an update in this life."""
        run = self._run
        return run.ready.is_set() and run.parts.trainer.updates > run.first_updates

    @property
    def reason(self) -> str:
        """Why the learner is in that state; "" where that needs no explanation."""
        run = self._run
        if run.paused is not None:
            return run.paused
        if hold := run.hold_reason or self._disk.hold:  # training notices a full disk a moment later
            return hold
        if run.writing_replay:
            return "writing a checkpoint with its replay"
        if run.ready.is_set() and (silence := self._log.silence):
            return silence
        if (state := self.state) == "training":
            return run.parts.experience.filling or run.parts.experience.awaited
        if state != "waiting":
            return ""
        return "collecting the first unrolls" if self._streams.connected else "waiting for the first actor"

    def pause(self) -> None:
        """Hold training and acting."""
        self._commands.do(lambda: self._orders.pause(BY_HAND))

    def resume(self) -> None:
        """Go on after a pause."""
        self._commands.do(lambda: self._orders.pause(None))

    def tune(self, changes: dict[str, Any]) -> None:
        """Change live fields between two updates. Raises UnknownName, NotLive or OutOfBounds."""
        if not isinstance(changes, dict):
            raise InvalidInput(f"changes={changes!r:.100} is not an object of fields and values.")
        self._commands.do(lambda: self._orders.configure(self._run.config.with_live(**changes)))

    def checkpoint(self, reason: str = "requested", replay: bool | None = None) -> dict[str, Any]:
        """Write a checkpoint between two updates; {"path", "frames"}, see `CheckpointWriter.write_requested`."""
        written: Checkpoint
        if self._run.ready.is_set():
            written = self._commands.do(lambda: self._checkpoints.write_requested(reason, replay=replay))
        else:
            written = self._checkpoints.newest("the learner waits for its first actor")
        return {"path": str(written.path), "frames": written.frames}

    def scale(self, actors: int) -> None:
        """Expect `actors` actors."""
        self._commands.do(lambda: self._orders.configure(self._run.config.replaced(actors=actors)))

    def stop(self, *, finished: bool = False) -> None:
        """End after a last checkpoint, which says that the run finished, or that it was stopped."""
        self._run.stop(finished=finished)
