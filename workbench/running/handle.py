"""`Run`: the handle of a run. Dropping it, or the kernel that holds it, changes nothing for the run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from workbench import checkpoints, imports, rundir
from workbench.checkpoints import Checkpoint
from workbench.config import REPLAY_S, RunConfig
from workbench.errors import InvalidInput, MissingPackage, OutOfBounds, RunNotAlive, UnknownName
from workbench.metrics import MetricsReader
from workbench.metrics.status import RunStatus
from workbench.playing.watch import Watching
from workbench.rundir import RunDirectory
from workbench.running import deletion, waiting
from workbench.running.checkpoint_list import Checkpoints
from workbench.running.connection import Control, checked, stored_status
from workbench.running.fork import fork
from workbench.running.tuning import Hyperparameter, hyperparameters, undo
from workbench.tables import Table, duration, plain

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from workbench.playing.rollout import Rollout
    from workbench.running.card.card import Card

_COMMAND_S = 40.0  # the learner obeys between two updates, and one update of a large network takes its time
_STOP_MARGIN_S = 20.0  # for the actors and the supervisor itself, after the learner's last checkpoint


class Run:
    """A run that goes on in the background. `wb.launch`, `wb.attach` and `wb.resume` return one."""

    def __init__(self, directory: RunDirectory, status: RunStatus | None = None) -> None:
        self._directory = checked(directory)
        self._control = Control(directory)
        self._reader = MetricsReader(directory.metrics)
        self._seen(status or stored_status(directory))

    @property
    def name(self) -> str:
        """The run's name; `wb.attach(name)` from any kernel finds it again."""
        return self._directory.name

    @property
    def directory(self) -> RunDirectory:
        """Where the run is on disk: its record, metrics, checkpoints and logs."""
        return self._directory

    # --- looking ------------------------------------------------------------------------------------------------

    @property
    def status(self) -> RunStatus:
        """How the run is now: state, progress, speed, return, actors. Works for a dead or ended run as well."""
        return self._seen(self._control.status())

    @property
    def path(self) -> Path:
        """The run's directory as a path."""
        return self._directory.path

    @property
    def state(self) -> str:
        """starting, training, paused, stopping, stopped, finished, failed, or dead."""
        return self.status.state

    def _seen(self, status: RunStatus) -> RunStatus:
        self._last, self._last_at = status, time.monotonic() - status.age_s
        return status

    @property
    def last_status(self) -> RunStatus:
        """What this handle saw last; asks nobody."""
        return self._last

    @property
    def config(self) -> RunConfig:
        """The configuration, live changes included."""
        return self._directory.config()

    @property
    def hyperparameters(self) -> Table[Hyperparameter]:
        """The fields that `tune` can change, with value, default, bounds and unit."""
        return hyperparameters(self.config)

    def metrics(self, name: str) -> pd.DataFrame:
        """All of one metric: columns frames, steps, updates, time_s, value. Raises UnknownName with the nearest."""
        import pandas as pd

        known = self.metric_names
        if name not in known:
            raise UnknownName.among("metric", name, known, "" if known else f"{self.name} has none yet.")
        return pd.DataFrame(self._reader.series(name))

    @property
    def metric_names(self) -> list[str]:
        """Names that `metrics` knows, sorted."""
        checked(self._directory)
        return self._reader.names()

    @property
    def events(self) -> pd.DataFrame:
        """What happened, oldest first: time, kind, message, frames, steps, updates, time_s, data.

        What happens before a resumed learner has said where it stands has no frames, steps and updates.
        """
        import pandas as pd

        checked(self._directory)
        columns = ["time", "kind", "message", "frames", "steps", "updates", "time_s", "data"]
        table = pd.DataFrame(self._reader.events(), columns=columns)
        table["time"] = pd.to_datetime(table["time"], unit="s")
        table = table.astype(dict.fromkeys(("frames", "steps", "updates"), "Int64"))  # some have no place yet
        return table

    @property
    def checkpoints(self) -> Checkpoints:
        """Checkpoints on disk, oldest first: a list, which a cell shows as the inspector."""
        return Checkpoints(checkpoints.every(checked(self._directory).checkpoints), self)

    @property
    def rollouts(self) -> list[Rollout]:
        """Rollouts on disk that `wb.rollout` played with this run's checkpoints, oldest first."""
        from workbench.playing.rollout import every

        return every(checked(self._directory))

    def card(self) -> Card:
        """All that somebody needs to judge this run and to do it again, on one page: `.save("pong.md")` or .html.

        Environment and preprocessing, hyperparameters with units, changes, seed, machine, versions, results and curve.
        """
        from workbench.running.card.card import card

        return card(self._directory)

    def wait(
        self,
        *,
        frames: int | None = None,
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

            run.wait(episode_return=475, seconds=60)    # as soon as it is that good, but not longer than a minute

        Interrupting it leaves the run alone.

        Args:
            frames, updates: of the run since its beginning, not of this wait.
            episode_return, evaluation_return: mean of the last 100 episodes of environments that train, or that
                evaluate (see `evaluation_envs_per_actor`), once there are 20 since the learner started.
            episode_score, evaluation_score: likewise, of an environment that tells a score beside a shaped reward.
            seconds: of waiting, on the clock, whatever the run does meanwhile; a target as the others are.
            timeout_s: seconds after which to give up with an error; None: never.
            progress: whether to show a bar; None: where a person looks on.

        Raises:
            InvalidInput: `evaluation_return` or `evaluation_score` of a run in which no environment evaluates;
                OutOfBounds for `seconds` below 0 or above 31 days.
            RunFailed: the run failed; says why, with the traceback.
            RunNotAlive: it ended, or its supervisor died, before the target.
            WaitTimeout: `timeout_s` has passed; the run goes on.
        """
        evaluates = evaluation_return is not None or evaluation_score is not None
        if evaluates and not self.config.evaluating_per_actor:
            raise InvalidInput(f"no environment of {self.name} evaluates. Wait for episode_return, or launch it with "
                               "evaluation_envs_per_actor=1 and at least two environments per actor.")
        targets = {
            "frames": frames, "updates": updates, "episode_return": episode_return, "episode_score": episode_score,
            "evaluation_return": evaluation_return, "evaluation_score": evaluation_score, "seconds": seconds,
        }  # fmt: skip
        return self._seen(waiting.until(self._control, targets, timeout_s=timeout_s, progress=progress))

    # --- steering -----------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Stop training until `resume`; processes and environments stay. Returns when training stands still."""
        self._control.call("pause", timeout_s=_COMMAND_S)

    def resume(self) -> None:
        """Go on after `pause`. (`wb.resume(name)` starts a stopped run again.)"""
        self._control.call("resume", timeout_s=_COMMAND_S)

    @contextmanager
    def paused(self) -> Iterator[Run]:
        """Paused within a `with` block; a run that was paused before stays so after it."""
        before = self._directory.read().get("paused")  # not one that waits for its disk, and goes on by itself
        self.pause()
        try:
            yield self
        finally:
            if before is None:
                self.resume()

    def stop(self, *, timeout_s: float | None = None) -> RunStatus:
        """End the run with a last checkpoint, and wait until all its processes are gone.

        Args:
            timeout_s: how long the learner may take; after it, it is killed without that checkpoint. None: a minute,
                or half an hour where that checkpoint, or one that is being written, holds the replay.
        """
        if self.status.alive:
            with suppress(RunNotAlive):  # it ended in this moment
                self._control.call("stop", timeout_s=10.0, grace_s=timeout_s)
        longest_s = REPLAY_S if timeout_s is None else timeout_s
        return self._seen(waiting.until_ended(self._control, longest_s + _STOP_MARGIN_S))

    def delete(self) -> Path:
        """Move the directory of this run, which must have ended, to `$WORKBENCH_HOME/trash`; where it is then.

        Nothing is erased: moved back, it is the run that it was. Its forks go on. Raises RunAlive, StorageFailed.
        """
        self.close()
        return deletion.delete(self._directory)

    def close(self) -> None:
        """Drop this handle's connection; the run goes on."""
        self._control.close()

    def scale(self, *, actors: int) -> None:
        """Run that many actors from now on. Raises OutOfBounds."""
        self.config.replaced(actors=actors)
        self._control.call("scale", timeout_s=_COMMAND_S, actors=actors)

    def tune(self, **changes: Any) -> dict[str, Any]:
        """Change live fields while the run learns; {"old", "new"}. See `hyperparameters`.

        A learning rate holds at once: where the run still warms up, that ends (`warmup_updates` becomes 0).

        Raises UnknownName, NotLive or OutOfBounds, and then changes nothing.
        """
        if not changes:
            raise InvalidInput("tune() got nothing to change. Name a live field: run.tune(learning_rate=3e-4).")
        after = self.config.with_live(**changes)
        if "total_frames" in changes and (frames := self.status.frames) >= after.total_frames:
            raise OutOfBounds(f"total_frames={after.total_frames:,} would end {self.name} at once: it has {frames:,} "
                              "frames. run.stop() ends it with a last checkpoint.")
        checked_changes = {name: after.value(name) for name in changes}
        changed: dict[str, Any] = self._control.call("tune", timeout_s=_COMMAND_S, changes=checked_changes)
        return changed

    def undo(self, name: str | None = None) -> dict[str, Any]:
        """Take the last change back that `tune` or `scale` made and that was not taken back yet; {"old", "new"}.

        It is a change itself, recorded as an event that names the one it takes back; so undoing again goes further
        back.

        Args:
            name: the last change of that field (or of "actors"); None: the last change of all.

        Raises InvalidInput where there is none.
        """
        return undo(self._control, self._reader.events(), name)

    def checkpoint(self, *, replay: bool | None = None, timeout_s: float = REPLAY_S) -> Checkpoint:
        """A checkpoint of now, on disk when this returns; it is never pruned.

        Args:
            replay: whether it holds the replay, too; None: as the run's `save_replay` says. A run that is resumed goes
                on from its newest checkpoint, with a replay only if that one holds it.
        """
        return waiting.written_checkpoint(self._control, "requested", replay=replay, timeout_s=timeout_s)

    def fork(
        self,
        checkpoint: Checkpoint | str | Path | None = None,
        *,
        name: str | None = None,
        replay: bool = False,
        launcher: str | None = None,
        address: str | None = None,
        wait_ready: bool = True,
        ready_timeout_s: float = 180.0,
        progress: bool | None = None,
        trust_code: bool = False,
        **changes: Any,
    ) -> Run:
        """A new run that goes on from a checkpoint of this one, with fields changed; this one is left as it is.

        It takes weights, optimizer, algorithm state, random numbers, code typed in cells, the configuration that the
        checkpoint was written with, and the counters: its curves begin where the checkpoint was made. The checkpoint
        becomes the first of its own, so that it stays when this run is pruned or deleted.

        Args:
            checkpoint: one of this run's, its folder, or that folder's name; None: one that is made now if the run is
                alive, else the newest good one.
            name: of the new run; None: the first free one, such as pong-r2d2-1-fork-1.
            replay: whether to take the replay along.
            launcher, address: where it lives, see `wb.launch`; None: where this one does.
            trust_code: let code that was typed in a cell for this run execute as you, wherever the run comes from.
            changes: any fields but those that the weights must fit (environment, algorithm, network and so on). With
                another `optimizer`, the optimizer starts afresh.

        Raises:
            InvalidInput, RunExists, CheckpointCorrupt, StorageFailed: nothing was started.
            AccessDenied: it needs code that no launch of yours on this machine wrote; nothing was started.
            as `wb.launch` for what happens while it starts.
        """
        return Run(*fork(
            self, checkpoint, name=name, replay=replay, launcher=launcher, address=address,
            wait_ready=wait_ready, ready_timeout_s=ready_timeout_s, progress=progress, trust_code=trust_code,
            changes=changes,
        ))  # fmt: skip

    def restart_actor(self, index: int, *, kill: bool = False) -> None:
        """End an actor's process; the supervisor starts it again. For one that hangs.

        Args:
            kill: end it as a crash would, to see how the run takes it: an error event names it, and it is started
                again after a back-off, as after any other death.
        """
        by_force = {"kill": True} if kill else {}  # runs of older versions know no `kill`
        self._control.call("restart_actor", index=index, **by_force)

    # --- showing ------------------------------------------------------------------------------------------------

    def dashboard(self) -> Any:
        """A new live panel; a bare `run` shows one that its cells share. Raises MissingPackage without ipywidgets."""
        return imports.widget("panel.panel").RunPanel(self)

    def watch(self, env: int = 0) -> Any:
        """What environment `env` sees now, live, with the policy beside it.

        Args:
            env: actor a's environments are a·envs_per_actor and those after it; the last ones of each actor evaluate,
                if any do (`evaluation_envs_per_actor`).

        Raises OutOfBounds for one that is not there, RunNotAlive, and MissingPackage without ipywidgets.
        """
        return imports.widget("episodes.watch").LiveView(Watching(self._control, env))

    _panel: Any = None  # that a bare `run` shows, in as many cells as it stands in

    def _ipython_display_(self) -> None:
        from IPython.display import display

        try:
            if self._panel is None or self._panel.closed:
                self._panel = self.dashboard()
        except MissingPackage as error:
            print(f"{self!r}\n({error})")
        else:
            display(self._panel)  # type: ignore[no-untyped-call, unused-ignore]

    def __repr__(self) -> str:
        age_s = time.monotonic() - self._last_at
        return f"Run({plain(self.name)}: {self._last.line()}, {duration(age_s)} ago)"


def attach(name: str | Path | Run) -> Run:
    """The handle of a run, by name, directory or another handle; starts and stops nothing. Raises RunNotFound with the
    nearest."""
    return Run(rundir.find(name))
