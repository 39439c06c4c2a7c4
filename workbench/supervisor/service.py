"""The supervisor's control calls: plain functions from JSON to JSON, each checked here before anything changes."""

from __future__ import annotations

import os
from typing import Any

from workbench.errors import InvalidInput, OutOfBounds, RunNotAlive
from workbench.rundir import RunDirectory
from workbench.supervisor.supervisor import Outcome, Supervisor
from workbench.tables import counted
from workbench.wire.endpoints import SUPERVISOR, serve_run
from workbench.wire.rpc import Handler

CHECKPOINT_S = 300.0
WATCH_S = 5.0  # for the learner to tell what an environment saw


def serve(run: RunDirectory, supervisor: Supervisor) -> None:
    """Supervise the run to its end, and answer control calls meanwhile."""
    server = serve_run(run, SUPERVISOR, calls=Service(supervisor).calls(), threads=8,
                       on_flood=lambda text: supervisor.event("error", text))
    try:
        supervisor.serve()
    finally:
        server.stop(1.0)
        supervisor.close()


class Service:
    """What a client may ask of a run."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    def calls(self) -> dict[str, Handler]:
        """The calls by name."""
        names = ("ping", "status", "pause", "resume", "stop", "scale", "tune", "checkpoint", "restart_actor", "watch")
        return {name: getattr(self, name) for name in names}

    def ping(self) -> dict[str, Any]:
        """Who answers: proof that the supervisor of this run lives."""
        return {"pid": os.getpid(), "name": self._supervisor.run.name}

    def status(self) -> dict[str, Any]:
        """How the run is."""
        return self._supervisor.status().to_json()

    def pause(self) -> None:
        """Stop training until `resume`; environments wait."""
        self._refuse_if_ending()
        self._supervisor.set_paused(True)

    def resume(self) -> None:
        """Go on after `pause`."""
        self._refuse_if_ending()
        self._supervisor.set_paused(False)

    def stop(self, grace_s: float | None = None) -> None:
        """End the run: a last checkpoint, which may take `grace_s`, then all processes. Returns at once."""
        self._supervisor.end(Outcome("stopped", "stopped as asked", timeout_s=grace_s))

    def scale(self, actors: int, undoes: int | None = None) -> dict[str, Any]:
        """Run `actors` actors from now on; {"old", "new"}. `undoes`: the event that this takes back.

        Raises OutOfBounds.
        """
        with self._supervisor.commanding():
            self._refuse_if_ending()
            before = self._supervisor.config
            after = before.replaced(actors=actors)
            self._supervisor.ask_learner("scale", actors=after.actors)
            self._supervisor.change(after)
            return self._supervisor.changed("scale", before, after, ["actors"], undoes=undoes)

    def tune(self, changes: dict[str, Any], undoes: int | None = None) -> dict[str, Any]:
        """Change live fields; {"old", "new"}. Raises UnknownName, NotLive or OutOfBounds and then changes nothing.

        A learning rate that is set is the one in use: a warm-up that still goes on ends, by the same event.

        Args:
            undoes: id of the event that this takes back.
        """
        if not isinstance(changes, dict):
            raise InvalidInput(f"changes={changes!r:.100} is no object of fields and values.")
        updates = self._supervisor.status().updates
        with self._supervisor.commanding():
            self._refuse_if_ending()
            before = self._supervisor.config
            changes = before.ending_warm_up(changes, updates)
            after = before.with_live(**changes)
            self._supervisor.ask_learner("tune", changes={name: after.value(name) for name in changes})
            self._supervisor.change(after)
            return self._supervisor.changed("tune", before, after, list(changes), undoes=undoes)

    def checkpoint(
        self, reason: str = "requested", replay: bool | None = None, wait_s: float = CHECKPOINT_S
    ) -> dict[str, Any]:
        """Write a checkpoint now; {"path", "frames"} once it is on disk.

        Args:
            reason: one that is "requested" is never pruned.
            replay: whether it holds the replay; None: as the run's `save_replay` says. Raises InvalidInput where there
                is no replay.
        """
        self._refuse_if_ending()
        if replay and not self._supervisor.config.replays:
            algorithm = self._supervisor.config.algorithm
            raise InvalidInput(f"replay={replay!r}: the algorithm {algorithm!r} has no replay. Leave it out.")
        written: dict[str, Any] = self._supervisor.ask_learner(
            "checkpoint", timeout_s=wait_s, reason=reason, replay=replay
        )
        return written

    def restart_actor(self, index: int, kill: bool = False) -> None:
        """End an actor's process; the supervisor starts another. Raises InvalidInput.

        Args:
            kill: let it look like a crash: an error event, and a start after a back-off.
        """
        known = self._supervisor.actor_indices()
        if index not in known:
            raise InvalidInput(f"there is no actor {index!r}: this run has actors 0 to {len(known) - 1}.")
        self._supervisor.restart_actor(index, kill=kill)

    def watch(self, env: int, since: str = "") -> dict[str, Any]:
        """What environment `env` saw since the answer with the cursor `since`, as the learner's tap tells it, and the
        run's state and reason. Raises OutOfBounds for an environment that the run has not."""
        self._refuse_if_ending()
        config = self._supervisor.config
        number = config.actors * config.envs_per_actor
        if type(env) is not int or not 0 <= env < number:
            raise OutOfBounds(f"env={env!r}: {self._supervisor.run.name} has environments 0 to {number - 1} "
                              f"({counted(config.actors, 'actors')} with {config.envs_per_actor} each).")
        steps: dict[str, Any] = self._supervisor.ask_learner(
            "watch", timeout_s=WATCH_S, rank=env // config.envs_per_actor % config.learners, env=env, since=since)
        status = self._supervisor.status()
        return {**steps, "state": status.state, "reason": status.reason}

    def _refuse_if_ending(self) -> None:
        state = self._supervisor.state
        if state not in ("starting", "training", "paused"):
            raise RunNotAlive(f"{self._supervisor.run.name} is {state}. wb.resume(...) continues it once it has ended.")
