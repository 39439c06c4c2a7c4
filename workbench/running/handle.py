"""`Run`: the handle of a run. The run goes on when the handle, or the kernel that holds it, goes.

What only reads the run's directory is in `recorded_run`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from workbench import checkpoints, imports, launchers, rundir
from workbench.checkpoints import Checkpoint
from workbench.config import REPLAY_S, Setting
from workbench.config.signatures import with_fields
from workbench.environments.adapters.wrapping import Wrapper
from workbench.errors import InvalidInput, RunNotAlive, WorkbenchError, checked_arguments
from workbench.metrics.collapse import LEAST_EPISODES
from workbench.metrics.flights import Flights
from workbench.metrics.status import RunStatus
from workbench.playing.watch import Watching
from workbench.rundir import RunDirectory
from workbench.running import deletion, remote, waiting
from workbench.running.choosing import best_checkpoint, newest_checkpoint
from workbench.running.connection import COMMAND_S, Control, still_there, stored_status
from workbench.running.progress import notify
from workbench.running.reading.changes import undo
from workbench.running.reading.recorded_run import RecordedRun
from workbench.running.starts.checking import Factory, moved_to
from workbench.running.starts.fork import forked
from workbench.running.starts.starting import Awaited, started
from workbench.tables import duration, plain

if TYPE_CHECKING:
    from workbench.config.keywords import LiveFields, RunFields

_STOP_MARGIN_S = 20.0  # for the actors and the supervisor itself, after the learner's last checkpoint
FRESH_S = 2.0  # age below which a repr reads no newer status


class Run(RecordedRun):
    """A run that goes on in the background. `wb.launch`, `wb.attach` and `wb.resume` return one."""

    def __init__(
        self, directory: RunDirectory, status: RunStatus | None = None, *, following: remote.Following | None = None
    ) -> None:
        super().__init__(directory)
        self._following = following  # kept for as long as this handle is
        self._control = Control(self._directory, kept=following)
        self._remember(status or stored_status(self._directory))

    # --- reading ------------------------------------------------------------------------------------------------

    @property
    def status(self) -> RunStatus:
        """State, progress, speed, return and actors as they are now; also of a dead or ended run."""
        return self._remember(self._control.status())

    @property
    def state(self) -> str:
        """starting, training, paused, stopping, stopped, finished, failed, or dead."""
        return self.status.state

    def _remember(self, status: RunStatus) -> RunStatus:
        self._last, self._last_at = status, time.monotonic() - status.age_s
        return status

    @property
    def last_status(self) -> RunStatus:
        """The status that this handle read last; reads nothing."""
        return self._last

    @checked_arguments(path="run.share('pong.html'), for example.")
    def share(self, path: str | Path | None = None) -> Path:
        """Write this run as one HTML file below 10 MB that any browser opens offline; returns its path.

        It holds the facts, charts that zoom, the rollout with the highest return, which plays (one is played now if
        there is none), the card, and the configuration with its changes.

        Args:
            path: ends in .html, and replaces a file that is there; None: a free name in the working directory.

        Raises InvalidInput for another ending, StorageFailed.
        """
        return Path(imports.widget("sharing.shared_page").share(self, path))

    @checked_arguments(**dict.fromkeys(("steps", "timesteps", "total_timesteps"), "Give frames=...: on Atari a step is "
                                       "four, elsewhere usually one."))
    def wait(
        self,
        *,
        frames: int | None = None,
        steps: int | None = None,
        updates: int | None = None,
        episode_return: float | None = None,
        evaluation_return: float | None = None,
        episode_score: float | None = None,
        evaluation_score: float | None = None,
        seconds: float | None = None,
        timeout_s: float | None = None,
        progress: bool | None = None,
    ) -> RunStatus:
        """The status when the first of the given targets is reached; without a target, when the run has ended.

            run.wait(episode_return=475, seconds=60)    # at that return, or after a minute

        The run goes on when the wait is interrupted.

        Args:
            frames, steps, updates: of the run since its beginning, not of this wait.
            episode_return, evaluation_return: mean of the last 100 episodes of environments that train, or that
                evaluate (see `evaluation_envs_per_actor`), once there are 20.
            episode_score, evaluation_score: likewise, for an environment with a score beside a shaped reward.
            seconds: of waiting. Where it is the only target, a run that ends before is no error.
            timeout_s: seconds after which WaitTimeout is raised; None: never.
            progress: whether to show a bar; None: in a notebook and in a terminal.

        Raises:
            InvalidInput: `evaluation_return` or `evaluation_score` of a run in which no environment evaluates; a score
                where the environment tells none;
                OutOfBounds for `seconds` below 0 or above 31 days.
            RunFailed: the run failed; the message has the traceback.
            RunNotAlive: it ended, or its supervisor died, before the target.
            RunPaused: it paused itself, before a target that is not `seconds` alone. A pause by hand is said, and
                waited through.
            WaitTimeout: `timeout_s` has passed; the run goes on.
        """
        evaluates = evaluation_return is not None or evaluation_score is not None
        if evaluates and not self.config.evaluating_per_actor:
            raise InvalidInput(f"no environment of {self.name} evaluates. Wait for episode_return, or launch it with "
                               "evaluation_envs_per_actor=1 and at least two environments per actor.")
        targets = {
            "frames": frames, "steps": steps, "updates": updates, "seconds": seconds,
            "episode_return": episode_return, "episode_score": episode_score,
            "evaluation_return": evaluation_return, "evaluation_score": evaluation_score,
        }  # fmt: skip
        return self._remember(waiting.until(self._control, targets, timeout_s=timeout_s, progress=progress))

    # --- steering -----------------------------------------------------------------------------------------------

    @checked_arguments()
    def pause(self) -> None:
        """Pause training until `resume`; processes and environments stay. Returns once no update runs."""
        self._control.call("pause", timeout_s=COMMAND_S)

    @checked_arguments(total_frames="A run that has ended goes on by wb.resume(run, total_frames=...).")
    def resume(self) -> None:
        """Go on after `pause`; says so where the run is not paused. (`wb.resume(name)` restarts a stopped run.)"""
        if self.state == "training" and self._directory.read().get("paused") is None:
            notify(f"{self.name} is training already: it was not paused.")
        self._control.call("resume", timeout_s=COMMAND_S)

    @contextmanager
    def paused(self) -> Iterator[Run]:
        """Pauses the run within a `with` block; a run that was paused before stays paused after it."""
        reason_before = self._directory.read().get("paused")  # None also while it waits for its disk
        self.pause()
        try:
            yield self
        finally:
            if reason_before is None:
                self.resume()

    @checked_arguments()
    def stop(self, *, timeout_s: float | None = None) -> RunStatus:
        """End the run with a last checkpoint, and return its status once all its processes have ended; says so if they
        have ended before.

        Args:
            timeout_s: seconds after which the learner is killed without that checkpoint. None: a minute, or half an
                hour where that checkpoint, or one that is being written, holds the replay.
        """
        timeout_s = waiting.TIMEOUT.check(timeout_s)
        if self.status.alive:
            with suppress(RunNotAlive):  # it has just ended
                self._control.call("stop", timeout_s=10.0, grace_s=timeout_s)
        else:
            notify(f"{self.name} is {self._last.state} already: there is nothing to stop.")
        longest_s = REPLAY_S if timeout_s is None else timeout_s
        return self._remember(waiting.until_ended(self._control, longest_s + _STOP_MARGIN_S))

    @checked_arguments()
    def delete(self) -> Path:
        """Move the directory of this run, which must have ended, to `$WORKBENCH_HOME/trash`; returns its new path.

        Nothing is erased: move it back, and the run is there again. Its forks go on. Raises RunAlive, StorageFailed,
        and InvalidInput for the copy of a run.
        """
        remote.check_here(self._directory, "nothing of it is deleted from here",
                          "Delete it there; the copy is a folder that you can remove.")
        self.close()
        return deletion.delete(self._directory)

    def close(self) -> None:
        """Drop this handle's connection; the run goes on."""
        self._control.close()

    @checked_arguments(actors="run.scale(actors=4), for example.")
    def scale(self, *, actors: int) -> None:
        """Change the number of actors. Raises OutOfBounds."""
        self._control.call("scale", timeout_s=COMMAND_S, actors=self.config.replaced(actors=actors).actors)

    @with_fields(live=True)
    @checked_arguments()
    def tune(self, **changes: Unpack[LiveFields]) -> dict[str, Any]:
        """Change live fields while the run learns; returns {"old", "new"}. `hyperparameters` lists the fields.

        A new learning rate holds at once: it ends a warm-up (`warmup_updates` becomes 0).

        Raises UnknownName, NotLive or OutOfBounds, and then changes nothing.
        """
        if not changes:
            raise InvalidInput("tune() got nothing to change. Name a live field: run.tune(learning_rate=3e-4).")
        after = self.config.with_live(**changes)
        checked_changes = {name: after.value(name) for name in changes}
        changed: dict[str, Any] = self._control.call("tune", timeout_s=COMMAND_S, changes=checked_changes)
        return changed

    @checked_arguments()
    def undo(self, name: str | None = None) -> dict[str, Any]:
        """Undo the last change of `tune` or `scale` that was not undone yet; returns {"old", "new"}.

        An undo is a change itself, recorded as an event that names the undone one. Undoing again goes further back.

        Args:
            name: the field ("actors" included) whose last change to undo; None: the last change of any.

        Raises InvalidInput where there is no such change.
        """
        return undo(self._control, self._reader.events(), name)

    @checked_arguments()
    def checkpoint(self, *, replay: bool | None = None, timeout_s: float | None = REPLAY_S) -> Checkpoint:
        """Write a checkpoint and return it; it is never pruned. A second request at the same update returns that one.

        Args:
            replay: whether it holds the replay; None: as the run's `save_replay` says. A run that is resumed goes on
                from its newest checkpoint, and has its replay only if that checkpoint holds it.
        """
        return waiting.written_checkpoint(self._control, "requested", replay=replay, timeout_s=timeout_s)

    @with_fields()
    @checked_arguments()
    def fork(
        self,
        checkpoint: Checkpoint | str | Path | None = None,
        *,
        name: str | None = None,
        replay: bool = False,
        algorithm: type | str | None = None,
        network: Factory | None = None,
        environment: Factory | None = None,
        wrappers: Sequence[Wrapper] | None = None,
        launcher: str | None = None,
        address: str | None = None,
        wait_ready: bool = True,
        ready_timeout_s: float = 180.0,
        progress: bool | None = None,
        trust_code: bool = False,
        **changes: Unpack[RunFields],
    ) -> Run:
        """Start a new run from a checkpoint of this one, with fields changed; this run is not changed.

        The fork takes weights, optimizer, algorithm state, random numbers, code typed in cells, the configuration of
        the checkpoint, and the counters: its curves begin where the checkpoint was written. It has a copy of the
        checkpoint, which stays when this run is pruned or deleted.

        Args:
            checkpoint: one of this run's, its folder, that folder's name, or "RUN@000000012345"; None: one that is
                written now if the run is alive, else the newest good one.
            name: of the new run; None: the first free one, such as pong-r2d2-1-fork-1.
            replay: whether to take the replay along.
            algorithm, network, environment, wrappers: mended code of your own, as in `wb.resume`; None: the run's.
            launcher, address: where the fork runs, see `wb.launch`; None: where this run does.
            trust_code: let code that was typed in a cell for this run execute as you, wherever the run comes from.
            changes: any fields except those that the weights must fit (frame_stack, lstm_size and so on).
                With another `optimizer`, the optimizer's state starts afresh.

        Raises:
            InvalidInput, RunExists, CheckpointCorrupt, StorageFailed: nothing was started.
            AccessDenied: it needs code that no launch of yours on this machine wrote; nothing was started.
            and, while it starts, the errors of `wb.launch`.
        """
        awaited = Awaited(wait_ready, ready_timeout_s, progress)
        if launcher is None:
            remote.check_here(self._directory, "a fork would lie here, where its nodes do not see it",
                              "run.fork(launcher='local') starts on this machine.")
        place = launchers.by_name(moved_to(self.config, launcher, address).launcher)
        directory = forked(self, checkpoint, place, name=name, replay=replay, launcher=launcher, address=address,
                           trust_code=trust_code, algorithm=algorithm, network=network, environment=environment,
                           wrappers=wrappers, changes={**changes})
        with deletion.trashed_if_refused(directory):
            return Run(directory, started(directory, place, awaited=awaited))

    def rescue(self, **changes: Any) -> Run:
        """Start a new run from the best checkpoint of this one (`best`), with half its learning rate; this run goes on.

        Changes are as of `fork`, other values of its arguments too: run.rescue(learning_rate=1e-4, name="again").
        `wb.compare([run, rescued])` shows both. Raises InvalidInput without such a checkpoint, and as `fork` does.
        """
        best, status = best_checkpoint(still_there(self._directory)), self.status
        if best is None and not status.alive:
            newest_checkpoint(self._directory)  # says what is wrong with all of them
        if best is None:
            raise InvalidInput(f"{self.name} has no checkpoint with {LEAST_EPISODES} episodes behind it. "
                               "run.fork() goes on from now.")
        if checkpoints.is_collapsed(best, status):
            raise InvalidInput(f"{self.name} has no checkpoint from before its collapse: its best one, at "
                               f"{best.frames:,} frames, has a {checkpoints.standing(best)}: {status.collapse}. A new "
                               "run has to learn it again, with a smaller learning_rate than "
                               f"{self.config.value('learning_rate'):g}.")
        return self.fork(best, **{"learning_rate": best.config.value("learning_rate") / 2, **changes})

    @checked_arguments(index="run.status.actors lists the actors: run.restart_actor(0).")
    def restart_actor(self, index: int, *, kill: bool = False) -> None:
        """End the process of an actor, such as one that hangs; the supervisor starts another.

        Args:
            kill: end it as a crash would, to test the run: an event of kind kill names it, and it restarts after a
                back-off.
        """
        number = Setting("index", int, 0, "", low=0).check(index)
        self._control.call("restart_actor", index=number, kill=kill)

    # --- showing ------------------------------------------------------------------------------------------------

    def dashboard(self) -> Any:
        """A new live panel; all cells with a bare `run` share another. Raises MissingPackage without ipywidgets."""
        return imports.widget("panel.panel").RunPanel(self)

    @checked_arguments()
    def watch(self, env: int | None = None) -> Any:
        """A live view of up to 64 environments, each with its return and action; with `env`, of that one alone: what it
        sees, with the policy beside it. A click on one of many opens it.

        Args:
            env: the environments of actor a begin at a·envs_per_actor; the last ones of each actor evaluate, if any do
                (`evaluation_envs_per_actor`).

        Raises OutOfBounds for an environment that the run does not have, RunNotAlive, and MissingPackage without
        ipywidgets.
        """
        what = "environments" if env is None else f"environment {env}"
        self._control.call("ping")  # raises before anything is shown
        with imports.meanwhile(f"{self.name}, {what}: asking the run…", for_result=True):
            if env is None:
                return imports.widget("episodes.wall_view").WallView(self._control)
            return imports.widget("episodes.watch_view").LiveView(Watching(self._control, env))

    def flights(self) -> Flights:
        """Where an observation spends its life: the stages of the last 300 that were followed from step to training.

        The learner follows up to 20 a second. `run.flights().save_trace("pong.json")` writes a trace for Perfetto; the
        metrics `life_…_s` have the means over time, also of a run that has ended. Raises RunNotAlive.
        """
        answer: dict[str, list[dict[str, Any]]] = self._control.call("flights")
        return Flights.of(self.name, answer)

    _panel: Any = None

    def _shared_panel(self) -> Any:
        """The panel that all cells with a bare `run` show."""
        if self._panel is None or self._panel.closed:
            self._panel = self.dashboard()
        return self._panel

    def _ipython_display_(self) -> None:
        imports.show(self, self._shared_panel, lambda: dict(imports.widget("panel.skeleton").bundle(self._last)))

    def __repr__(self) -> str:
        """The last known status with its age; an old one is first read again from the run's files, without network."""
        if time.monotonic() - self._last_at > FRESH_S:
            with suppress(WorkbenchError):  # deleted or damaged: what was known, with its age
                self._remember(stored_status(self._directory))
        age_s = time.monotonic() - self._last_at
        return f"Run({plain(self.name)}: {self._last.line().rstrip('.')}, {duration(age_s)} ago)"


@checked_arguments(name="wb.runs() lists the runs.")
def attach(name: str | Path | Run) -> Run:
    """The handle of a run, by name, directory or another handle; starts and stops nothing.

    "ray://HOST:PORT/NAME" is a run on a Ray cluster with which this machine shares no folder: the handle has a copy of
    it, kept up to date for as long as there is a handle, and its calls go to the run. See docs/scale.md.

    Raises RunNotFound with the nearest name; for a run on a cluster also ConnectionLost, AccessDenied, MissingPackage.
    """
    if remote.is_address(name):
        with imports.meanwhile(f"{name}: connecting, and copying its history…"):
            following = remote.followed(str(name))
        return Run(following.directory, following=following)
    return Run(rundir.find(name), following=name._following if isinstance(name, Run) else None)
