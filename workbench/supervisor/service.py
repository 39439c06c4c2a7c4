"""The supervisor's control calls: functions from JSON to JSON that check their input before anything changes."""

from __future__ import annotations

import os
from typing import Any

from workbench.config import Setting
from workbench.errors import InvalidInput, OutOfBounds, RunNotAlive
from workbench.rundir import RunDirectory, sockets
from workbench.supervisor import stopping_rules, storing
from workbench.supervisor.endings import Outcome
from workbench.supervisor.supervisor import Supervisor
from workbench.tables import counted, evenly_spaced
from workbench.wire.endpoints import SUPERVISOR, SUPERVISOR_CALLS, serve_run
from workbench.wire.rpc import Handler

CHECKPOINT_S = 300.0
WATCH_S = 5.0  # for the learner's answer
MOST_ON_WALL = 64
_LONGEST_WHY = 500  # characters
_THREADS = 32  # a call may wait for a learner that hangs, and others must still be able to stop the run


def serve(run: RunDirectory, supervisor: Supervisor) -> None:
    """Supervise the run to its end, answer control calls, and keep its copies, meanwhile."""
    copies = storing.begin(run, supervisor.config, on_failure=lambda why: supervisor.event("error", why))
    server = serve_run(run, SUPERVISOR, calls=Service(supervisor).calls(), threads=_THREADS,
                       on_flood=lambda text: supervisor.event("error", text))
    try:
        supervisor.serve()
    finally:
        server.stop(1.0)
        sockets.remove(run.path)
        storing.end(copies)
        supervisor.close()


class Service:
    """The calls that a client can make."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    def calls(self) -> dict[str, Handler]:
        """The calls by name."""
        return {name: getattr(self, name) for name in SUPERVISOR_CALLS}

    def ping(self) -> dict[str, Any]:
        """The supervisor's pid and run, which show that it lives."""
        return {"pid": os.getpid(), "name": self._supervisor.run.name}

    def status(self) -> dict[str, Any]:
        """The run's status."""
        return self._supervisor.status().to_json()

    def pause(self) -> None:
        """Stop training until `resume`; environments wait."""
        self._refuse_if_ending()
        self._supervisor.set_paused(True)

    def resume(self) -> None:
        """Go on after `pause`."""
        self._refuse_if_ending()
        self._supervisor.set_paused(False)

    def stop(self, grace_s: float | None = None, why: str = "as asked") -> None:
        """Begin the end of the run: a last checkpoint, within `grace_s`, then the end of all processes.

        Args:
            why: follows "stopped" in the run's reason, such as "by its sweep: diverged".
        """
        why = Setting("why", str, "", "").check(why)[:_LONGEST_WHY]
        grace_s = Setting("grace_s", float, None, "", unit="s", low=0, high=31 * 86_400, optional=True).check(grace_s)
        paused = f", after a pause: {pause}" if (pause := self._supervisor.paused_by_itself) else ""
        self._supervisor.end(Outcome("stopped", f"stopped {why}{paused}", timeout_s=grace_s))

    def scale(
        self, actors: int, undoes: int | None = None, made: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Change the number of actors; returns {"old", "new"}. `undoes`, `made`: see `tune`.

        Raises OutOfBounds.
        """
        with self._supervisor.commanding():
            self._refuse_if_ending()
            self._check_stands(made)
            before = self._supervisor.config
            after = before.replaced(actors=actors)
            self._supervisor.ask_learner("scale", actors=after.actors)
            self._supervisor.change(after)
            return self._supervisor.changes.record("scale", before, after, ["actors"], undoes=undoes)

    def tune(
        self, changes: dict[str, Any], undoes: int | None = None, made: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Change live fields; returns {"old", "new"}. Raises UnknownName, NotLive or OutOfBounds, and changes nothing.

        A new learning rate holds at once: the same event ends a warm-up that still goes on.

        Args:
            undoes: id of the event that this undoes.
            made: the values that event gave, where this is refused once one of them is another.
        """
        if not isinstance(changes, dict):
            raise InvalidInput(f"changes={changes!r:.100} is no object of fields and values.")
        status = self._supervisor.status()
        with self._supervisor.commanding():
            self._refuse_if_ending()
            self._check_stands(made)
            before = self._supervisor.config
            changes = before.ending_warm_up(changes, status.updates)
            after = before.with_live(**changes)
            if "total_frames" in changes and status.frames >= after.total_frames:
                raise OutOfBounds(f"total_frames={after.total_frames:,} would end {status.name} at once: it has "
                                  f"{status.frames:,} frames. run.stop() ends it with a last checkpoint.")
            rule, _ = stopping_rules.reached(after, status)
            if rule in changes and rule in stopping_rules.BUDGETS:  # hours for minutes, say; a target may be reached
                raise OutOfBounds(f"{rule}={after.value(rule):g} would end {status.name} at once: it stands at "
                                  f"{', '.join(stopping_rules.spent(after, status))}. run.stop() ends it with a last "
                                  "checkpoint.")
            self._supervisor.ask_learner("tune", changes={name: after.value(name) for name in changes})
            self._supervisor.change(after)
            return self._supervisor.changes.record("tune", before, after, list(changes), undoes=undoes)

    def _check_stands(self, made: dict[str, Any] | None) -> None:
        """Raises InvalidInput where a change that is to be undone was undone or followed by another meanwhile."""
        if made is None:
            return
        if not isinstance(made, dict):
            raise InvalidInput(f"made={made!r:.100} is no object of fields and values.")
        self._supervisor.changes.record_resumption()  # so that these can be undone, too
        known = self._supervisor.config.all_settings()
        for name, value in made.items():
            if name in known and (now := self._supervisor.config.value(name)) != value:
                raise InvalidInput(f"{name} is {now!r} now, and no longer {value!r}: it was changed meanwhile, and "
                                   "nothing was undone. The same call undoes the change that came last.")

    def checkpoint(
        self, reason: str = "requested", replay: bool | None = None, wait_s: float = CHECKPOINT_S
    ) -> dict[str, Any]:
        """Write a checkpoint now; returns {"path", "frames"} once it is on disk.

        Args:
            reason: a checkpoint that is "requested" is never pruned.
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
            kill: count it as a crash, with an error event and a back-off before the restart.
        """
        actors = self._supervisor.actor_indices()
        if index not in actors:
            raise InvalidInput(f"there is no actor {index!r}: this run has {counted(len(actors), 'actors')}, from 0 "
                               "on.")
        self._supervisor.restart_actor(index, "kill" if kill else "replace")

    def watch(self, env: int, since: str = "") -> dict[str, Any]:
        """The new steps of environment `env` since the answer with the cursor `since`, from the learner's tap, with the
        run's state and reason. Raises OutOfBounds for an environment that the run does not have, RunNotAlive."""
        self._refuse_if_ending()
        config = self._supervisor.config
        number = config.environments()
        if type(env) is not int or not 0 <= env < number:
            raise OutOfBounds(f"env={env!r}: {self._supervisor.run.name} has environments 0 to {number - 1} "
                              f"({counted(config.actors, 'actors')} with {config.envs_per_actor} each).")
        steps: dict[str, Any] = self._supervisor.ask_learner(
            "watch", timeout_s=WATCH_S, rank=config.row_of(env)[0], env=env, since=since)
        status = self._supervisor.status()
        return {**steps, "state": status.state, "reason": status.reason}

    def wall(self, since: dict[str, str] | None = None) -> dict[str, Any]:
        """The newest step of each environment, or of MOST_ON_WALL that are spread evenly over them, since the answers
        with the cursors `since`: an answer of each learner that has some of them, by its rank, with their indices, how
        many there are in all, and the run's state and reason. Raises InvalidInput, RunNotAlive."""
        if not isinstance(since or {}, dict):
            raise InvalidInput(f"since={since!r:.100}: a wall's cursors are an object by a learner's rank.")
        self._refuse_if_ending()
        config = self._supervisor.config
        envs = evenly_spaced(config.environments(), most=MOST_ON_WALL)
        by_rank: dict[int, list[int]] = {}
        for env in envs:
            by_rank.setdefault(config.row_of(env)[0], []).append(env)
        answers = {
            str(rank): self._supervisor.ask_learner(
                "wall", timeout_s=WATCH_S, rank=rank, envs=own, since=str((since or {}).get(str(rank), "")))
            for rank, own in by_rank.items()
        }
        status = self._supervisor.status()
        return {"answers": answers, "envs": envs, "number": config.environments(), "state": status.state,
                "reason": status.reason}

    def flights(self) -> dict[str, Any]:
        """The last observations that each learner followed to their training, by the learner's rank."""
        self._refuse_if_ending()
        return {str(rank): self._supervisor.ask_learner("flights", timeout_s=WATCH_S, rank=rank)
                for rank in range(self._supervisor.config.learners)}

    def _refuse_if_ending(self) -> None:
        state = self._supervisor.state
        if state not in ("starting", "training", "paused"):
            raise RunNotAlive(f"{self._supervisor.run.name} is {state}. wb.resume(...) continues it once it has ended.")
