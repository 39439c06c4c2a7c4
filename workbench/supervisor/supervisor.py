"""The supervisor of one run: keeps learner and actors alive, knows how the run is, and ends it.

The main thread turns in `run`: it polls the children, starts those that are due, asks the learner how it is and
publishes the answer. RPC threads only read what it knows, talk to the learner, and leave wishes (scale, stop) that
the next turn fulfils. Each way in which a run can end is one `Outcome`.
"""

from __future__ import annotations

import queue
import sys
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from workbench import checkpoints
from workbench.checkpoints import Checkpoint
from workbench.config import RunConfig
from workbench.errors import ConnectionLost, WorkbenchError
from workbench.metrics import MetricsWriter, Progress
from workbench.rundir import RunDirectory
from workbench.supervisor.crew import Crew, Ended
from workbench.supervisor.stalls import Stalls, explain
from workbench.wire.rpc import Caller

TURN_S = 0.1
POLL_LEARNER_S = 0.5
PUBLISH_S = 1.0
COMMAND_S = 30.0  # the learner obeys between two updates
STOP_S = 60.0  # a last checkpoint of a large network on a slow disk
_EXIT_S = 1.0  # for a learner that could not be told to stop
_MAX_FAILURES = 5  # of one child within a minute


@dataclass(frozen=True)
class Outcome:
    """How a run ends: "stopped", "finished" or "failed", and how long the learner may take for its last checkpoint."""

    state: str
    message: str
    error: dict[str, str] | None = None
    timeout_s: float = STOP_S


class Supervisor:
    """One run, from its start to its outcome.

    Attributes:
        state: starting, training, paused, stopping, stopped, finished or failed.
        config: with live changes.
    """

    def __init__(self, run: RunDirectory, writer: MetricsWriter, *, keep_open: int) -> None:
        self.run = run
        self.writer = writer
        self.config: RunConfig = run.config()
        self.state = "starting"
        self.learner = Caller(run.learner_address, run.token())
        self._crew = Crew(run, learner_threads=self.config.learner_threads, keep_open=keep_open)
        self._guard = threading.RLock()
        self._wake = threading.Event()
        self._outcome: Outcome | None = None
        self._talk = threading.Lock()  # a poll that began before a pause must not be heard after it
        self._pause_wanted = False
        self._to_kill: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._told: dict[str, Any] = {}  # what the learner last said
        self._told_at = time.monotonic()
        self._stepped: set[int] = set()  # actors that made a step in this life of the supervisor
        self._stalls = Stalls(self._told_at)
        self._asked_at = self._published_at = 0.0
        self._written: dict[str, Any] = {}
        self._warning = ""  # why the run's files cannot be written
        self._endings: dict[int | None, str] = {}

    # --- what RPC threads use -----------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """What the learner last said, with the run's state, the reason for it, and the processes."""
        with self._guard:
            said = self._told.get("actors", {})
            actors = {
                str(index): {
                    **said.get(str(index), {}),
                    "pid": child.pid,
                    "alive": child.alive,
                    "restarts": max(0, child.restarts),
                }
                for index, child in sorted(self._crew.actors.items())
            }
            error = self._outcome.error if self._outcome else None
            return {
                **self._told,
                "state": self.state,
                "reason": self._reason(),
                "warning": self._told.get("warning") or self._warning,
                "error": f"{error['type']}: {error['message']}" if error else None,
                "supervisor_pid": self._written.get("supervisor_pid"),
                "learner_pid": self._crew.learner.pid,
                "actors": actors,
            }

    def ask_learner(self, method: str, *, timeout_s: float = COMMAND_S, **arguments: Any) -> Any:
        """The learner's answer. Raises what it raised, or ConnectionLost if it does not answer."""
        try:
            return self.learner.call(method, timeout_s=timeout_s, **arguments)
        except ConnectionLost as error:
            down = "" if self._crew.learner.alive else " (no learner lives now)"
            raise ConnectionLost(
                f"the learner did not answer {method!r}{down}: it is starting, restarting or busy. Try again soon."
            ) from error

    def set_paused(self, paused: bool) -> None:
        """Pause or resume training; a learner that restarts meanwhile pauses again."""
        with self._talk:
            self.ask_learner("pause" if paused else "resume")
            with self._guard:
                self._pause_wanted = paused
                self.state = "paused" if paused else "training"
                self._stalls.moved(time.monotonic())
        self.event("pause" if paused else "resume", "paused" if paused else "training goes on")
        self._wake.set()

    def change(self, config: RunConfig) -> None:
        """Make `config` the run's configuration, on disk too; the next turn starts or ends actors by it."""
        with self._guard:
            self.config = config
            self.run.write(config=config.to_json())
        self._wake.set()

    def restart_actor(self, index: int) -> None:
        """Kill the process of an actor in the next turn; it is started again."""
        self._to_kill.put(index)
        self._wake.set()

    def actor_indices(self) -> list[int]:
        """Indices of the actors that belong to the run."""
        with self._guard:
            return sorted(self._crew.actors)

    def end(self, outcome: Outcome) -> None:
        """Ask for the run's end; the first outcome counts."""
        with self._guard:
            self._outcome = self._outcome or outcome
        self._wake.set()

    def event(self, kind: str, message: str, **data: Any) -> None:
        """Record an event at the progress that the learner last told. A full disk is logged, not raised."""
        told = self._told
        frames, steps, updates = (int(told.get(key, 0)) for key in ("frames", "steps", "updates"))
        progress = Progress(frames, steps, updates, float(told.get("time_s", 0.0)))
        try:
            self.writer.event(kind, message, progress=progress, data=data or None)
        except OSError:
            traceback.print_exc()
        print(f"{time.strftime('%F %T')} {kind}: {message}", file=sys.stderr, flush=True)

    # --- the main thread ----------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Keep the run alive until its outcome, then end all its processes and record the outcome."""
        try:
            while self._outcome is None:
                self._turn()
                self._wake.wait(TURN_S)
                self._wake.clear()
            self._wind_up(self._outcome)
        except BaseException:
            fault = {"type": "RunFailed", "message": f"the supervisor failed:\n{traceback.format_exc()}"}
            self._outcome = Outcome("failed", "the supervisor failed", fault)
            self._crew.kill()
            self._close(self._outcome)
            raise

    def _turn(self) -> None:
        with self._guard:
            self._crew.resize(self.config.actors)
            for child, index in self._crew.start_due():
                if child.restarts > 0:
                    self.event("restart", f"{child.name} restarted after {self._endings.get(index, 'its end')}")
            while not self._to_kill.empty():
                self._crew.kill_actor(self._to_kill.get())
            for ended in self._crew.poll():
                self._after_ending(ended)
        now = time.monotonic()
        if now - self._asked_at >= POLL_LEARNER_S and self._crew.learner.alive:
            self._poll_learner()
            self._asked_at = now
        if now - self._published_at >= PUBLISH_S:
            self._publish()
            self._published_at = now

    def _poll_learner(self) -> None:
        with suppress(ConnectionLost), self._talk:
            told = self.learner.call("status", timeout_s=1.0)
            if self._pause_wanted and told["state"] == "training":
                self.learner.call("pause", timeout_s=1.0)
                told["state"] = "paused"
            with self._guard:
                self._heard(told)

    def _heard(self, told: dict[str, Any]) -> None:
        now = time.monotonic()
        self._told, self._told_at = told, now
        alive = {str(index) for index, child in self._crew.actors.items() if child.alive}
        said = told.get("actors", {})
        steps = {index: int(said[index]["steps"]) for index in alive & set(said)}
        self._stepped |= {int(index) for index, made in steps.items() if made > 0}
        self._stalls.saw(now, told.get("frames", 0), steps)
        if told["state"] == "paused" and self.state == "training" and not self._pause_wanted:
            self.event("pause", told.get("reason") or "the learner paused itself")
        if told["state"] in ("training", "paused"):
            if told["state"] == "paused" or self.state == "starting":
                self._stalls.moved(now)
            self.state = told["state"]

    def _after_ending(self, ended: Ended) -> None:
        """Decide whether a child's end is the run's end; if not, its back-off starts it again."""
        ending, child = ended.ending, ended.child
        self._endings[ended.index] = str(ending)
        if ended.index is None:
            if ending.code == 0 and self._reached_total():
                self.end(Outcome("finished", f"reached total_frames={self.config.total_frames}"))
                return
            hopeless = ending.error is not None or (ending.recent > _MAX_FAILURES and self.state == "starting")
        else:
            stepped = ended.index in self._stepped
            unborn = ending.first and not stepped and self.state == "starting"
            hopeless = (ending.error is not None and (unborn or ending.recent > _MAX_FAILURES)) or (
                ending.recent > _MAX_FAILURES and not stepped
            )
        error = ending.error or {
            "type": "RunFailed",
            "message": f"{child.name} ended with {ending} {ending.recent} times. Its log ends:\n{child.log_tail()}",
        }
        if hopeless:
            self.end(Outcome("failed", f"{child.name}: {ending}", error))
        else:
            detail = ending.error["message"] if ending.error else ""
            self.event("error", f"{child.name} ended with {ending}", traceback=detail, failures=ending.recent)

    def _reached_total(self) -> bool:
        if self._told.get("state") == "finished":
            return True
        newest = self._newest_checkpoint()
        return newest is not None and newest.frames >= self.config.total_frames

    def _newest_checkpoint(self) -> Checkpoint | None:
        found = checkpoints.every(self.run.checkpoints)
        return found[-1] if found else None

    def _reason(self) -> str:
        if self._outcome is not None:
            return self._outcome.message
        now = time.monotonic()
        learner = self._crew.learner
        down = ""
        if not learner.alive and learner.restarts >= 0:
            wait = learner.back_off.waiting_s()
            down = f"the learner ended with {self._endings.get(None)} and starts again in {wait:.1f} s"
        elif self._told_at <= learner.started_at:
            down = f"the learner is starting ({now - learner.started_at:.0f} s)"
        dead = [(str(i), self._endings.get(i, "")) for i, child in self._crew.actors.items() if not child.alive]
        return explain(
            paused=self.state == "paused",
            learner_down=down,
            learner_silent_s=now - self._told_at,
            learner_reason=str(self._told.get("reason") or ""),
            dead_actors=dead,
            actors=len(self._crew.actors),
            hung=self._stalls.hung(now) if self.state == "training" else [],
            frozen_s=self._stalls.frozen_s(now) if self.state == "training" else 0.0,
        )

    def _publish(self) -> None:
        """The status row each second; run.json only when it changed. A full disk is logged, and tried again."""
        with self._guard:
            try:
                self.record(state=self.state, error=self._outcome.error if self._outcome else None)
                self.writer.status(self.status())
                self.writer.commit()
                self._warning = ""
            except OSError as error:
                self._warning = str(error)
                traceback.print_exc()

    def record(self, **changes: Any) -> None:
        """Write fields of run.json if they differ from what this supervisor wrote last."""
        if any(key not in self._written or self._written[key] != value for key, value in changes.items()):
            self.run.write(**changes)
            self._written.update(changes)

    def _wind_up(self, outcome: Outcome) -> None:
        """End the learner, which writes a last checkpoint, then the actors, in bounded time."""
        with self._guard:
            self.state = "stopping"
        self._publish()
        self._end_learner(outcome.timeout_s)
        self._crew.end_actors()
        self._close(outcome)

    def _end_learner(self, timeout_s: float) -> None:
        if not self._crew.learner.alive:
            return
        deadline = time.monotonic() + timeout_s
        problem = ""
        try:
            self.learner.call("stop", timeout_s=max(0.1, timeout_s))
        except WorkbenchError as error:
            deadline, problem = time.monotonic() + _EXIT_S, f": {error}"
        ending = self._crew.end_learner(deadline - time.monotonic())
        if ending is not None and ending.code != 0:
            self.event("error", f"the learner ended with {ending}, without a last checkpoint{problem}")

    def _close(self, outcome: Outcome) -> None:
        last = self._newest_checkpoint()
        with self._guard:
            self.state = outcome.state
            if last is not None and last.frames >= self._told.get("frames", 0):
                self._told |= {key: getattr(last, key) for key in ("frames", "steps", "updates", "time_s")}
            data = {"error": asdict(outcome)["error"]} if outcome.error else {}
            self.event(outcome.state if outcome.state != "stopped" else "stop", outcome.message, **data)
            with suppress(OSError):
                self.writer.status(self.status())
                self.writer.commit()
            self.record(state=outcome.state, error=outcome.error, supervisor_pid=None)
