"""The JSON calls of a learner. Those that change something are carried out by the training thread, between updates."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np

from workbench.errors import InvalidInput, WorkbenchError
from workbench.learner.command_queue import Commands
from workbench.learner.disk_guard import Storage
from workbench.learner.inference.actor_streams import ActorStreams
from workbench.learner.metrics.learner_report import LearnerReport
from workbench.learner.metrics.recorder import Recorder
from workbench.learner.orders import Orders
from workbench.learner.run_state import RunState
from workbench.learner.training.checkpoint_writer import CheckpointWriter
from workbench.metrics.status import LearnerPhase
from workbench.policies import roles
from workbench.wire.rpc import Handler


class MemberCalls:
    """What every learner of a group answers.

    Attributes:
        report: there when the learner is ready.
        floods: sentences about strangers at this learner's port.
    """

    report: LearnerReport

    def __init__(self, state: RunState, streams: ActorStreams) -> None:
        self.floods: list[str] = []
        self._run, self._streams = state, streams

    def methods(self) -> dict[str, Handler]:
        """By name."""
        return {"look": self.look, "watch": self.watch}

    def look(self, heard: int) -> dict[str, Any]:
        """What this learner did since it was last asked, for the leader, which has `heard` of so many episodes;
        nothing before it trains."""
        if type(heard) is not int:
            raise InvalidInput(f"heard={heard!r:.100} is no number of episodes.")
        return self.report.look(heard).to_json() if self._run.ready.is_set() else {}

    def watch(self, env: int, since: str = "") -> dict[str, Any]:
        """New steps of an environment, see `Tap.since`, its actions' names, what it is, and whether it evaluates.

        None before there is any actor. Raises InvalidInput for one that the opponent plays.
        """
        if not self._run.ready.is_set():
            return {"cursor": since, "first": 0, "missed": 0, "steps": 0}
        config, spec = self._run.config, self._run.parts.spec
        actor, place = divmod(env, config.envs_per_actor)
        own = actor // config.learners * config.envs_per_actor + place
        row, agents = np.array([own]), spec.agents
        if roles.opposing(row, config, agents)[0]:
            raise InvalidInput(f"env={env} is played by the opponent, and only the run's own policy can be watched. "
                               f"Of {agents} agents of a game the opponent plays the last ones: choose another env.")
        steps = self._run.parts.inference.tap.since(own, since, observation_bytes=spec.observation_bytes)
        return {**steps, "action_names": self._streams.action_names, "environment": spec.to_json(),
                "evaluating": bool(roles.evaluating(row, config, agents)[0])}


class LeaderCalls(MemberCalls):
    """What the learner that leads answers to the supervisor."""

    def __init__(
        self, state: RunState, streams: ActorStreams, *, log: Recorder, storage: Storage, orders: Orders,
        commands: Commands, checkpoints: CheckpointWriter,
    ) -> None:
        super().__init__(state, streams)
        self._log, self._storage, self._checkpoints = log, storage, checkpoints
        self._orders, self._commands = orders, commands

    def methods(self) -> dict[str, Handler]:
        """By name."""
        return {"status": self.status, "pause": self.pause, "resume": self.resume, "tune": self.tune,
                "checkpoint": self.checkpoint, "stop": self.stop, "scale": self.scale, "watch": self.watch}

    def status(self) -> dict[str, Any]:
        """Counters as they are now, speeds and means of the last second, all of one state; see the recorder."""
        run = self._run
        while True:
            phase = LearnerPhase(self.state, self.reason, bool(run.held), run.writing_replay, tuple(self.floods))
            ready = run.ready.is_set()
            known = replace(self._log.status, **asdict(run.progress)).to_json() if ready else {}
            if self.state == phase.state:  # else it changed between: counters of training are none of a pause
                return {**known, **phase.to_json()}

    @property
    def state(self) -> str:
        """waiting (for a first update in this life, or unrolls to replay), training, paused, finished or stopped."""
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
        return "training" if fills or run.parts.trainer.updates > run.first_updates else "waiting"

    @property
    def reason(self) -> str:
        """Why it is in that state, where that is not plain."""
        run = self._run
        if run.paused is not None:
            return run.paused
        if hold := run.held or self._storage.hold:  # what training goes by, which may be a moment behind the disk
            return hold
        if run.writing_replay:
            return "writing a checkpoint with its replay"
        if run.ready.is_set() and (silence := self._log.silence):
            return silence
        if self.state != "waiting":
            return run.parts.experience.filling if self.state == "training" else ""
        return "collecting the first unrolls" if self._streams.connected else "waiting for the first actor"

    def pause(self) -> None:
        """Hold training and acting."""
        self._commands.do(lambda: self._orders.pause("paused by hand"))

    def resume(self) -> None:
        """Go on after a pause."""
        self._commands.do(lambda: self._orders.pause(None))

    def tune(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Change live fields between two updates. Raises UnknownName, NotLive or OutOfBounds."""
        if not isinstance(changes, dict):
            raise InvalidInput(f"changes={changes!r:.100} is no object of fields and values.")

        def apply() -> dict[str, Any]:
            before = self._run.config
            old = {name: before.value(name) for name in changes if name in before.all_settings()}
            self._orders.configure(before.with_live(**changes))
            return {"old": old, "new": {name: self._run.config.value(name) for name in changes}}

        result: dict[str, Any] = self._commands.do(apply)
        return result

    def checkpoint(self, reason: str = "requested", replay: bool | None = None) -> dict[str, Any]:
        """Write a checkpoint between two updates: {"path", "frames"}; see `CheckpointWriter.write` for `replay`."""
        if not self._run.ready.is_set():
            raise WorkbenchError("there is nothing to checkpoint yet: the learner waits for its first actor.")
        result: dict[str, Any] = self._commands.do(lambda: self._checkpoints.write(reason, replay=replay))
        return result

    def scale(self, actors: int) -> None:
        """Expect that many actors."""
        self._commands.do(lambda: self._orders.configure(self._run.config.replaced(actors=actors)))

    def stop(self) -> None:
        """End after a last checkpoint."""
        self._run.stop()
