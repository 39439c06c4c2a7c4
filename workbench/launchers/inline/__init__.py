"""A whole run in this process: supervisor, learner and actors are its threads, so that a debugger sees them.

Differences from `local`: torch is loaded here; all threads share one Python, so it is slow; the run ends with this
process (in an orderly way, unless it is killed); nothing can be killed, see `threads`; one learner, and no TPU.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # noqa: F401  (loaded later, it would end our servers' threads before us)
import functools
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from workbench.config import RunConfig
from workbench.errors import OutOfBounds, RunNotAlive
from workbench.launchers.contract import Launcher
from workbench.launchers.inline.threads import ThreadLife, Work
from workbench.metrics import MetricsWriter
from workbench.rundir import RunDirectory, lock
from workbench.rundir.files import tail
from workbench.supervisor import run_record
from workbench.supervisor.endings import Outcome
from workbench.supervisor.service import serve
from workbench.supervisor.supervisor import Supervisor
from workbench.wire import certificates
from workbench.wire.endpoints import learner_name, reach

if TYPE_CHECKING:
    from workbench.environments.contract import VectorEnvironment

_EXIT_S = 60.0  # for the last checkpoints when the process ends
_RECONNECT_S = 0.2
_AGAIN_S = 0.05

_running: dict[str, InlineRun] = {}  # by run directory; also ended ones, for `exceptions`


class InlineLauncher(Launcher):
    """Starts supervisors as threads of this process."""

    def check(self, config: RunConfig) -> None:
        """See `Launcher`. Raises OutOfBounds for settings that need processes."""
        if config.learners != 1:
            raise OutOfBounds(f"learners={config.learners} with launcher='inline': one process holds one learner. "
                              "Leave learners out, or choose launcher='local'.")
        if config.device in ("xla", "tpu"):
            raise OutOfBounds(f"device={config.device!r} with launcher='inline': this process would own the chip for "
                              "the rest of its life. Choose launcher='local', or device='cpu'.")

    def start(self, run: RunDirectory) -> InlineRun:
        """Start the run's supervisor and return at once."""
        certificates.remove(run)  # of a life on several machines
        print(f"{run.name} runs inside this process, which loads torch; it ends with it. (launcher='inline')")
        _running.pop(str(run.path), None)  # so that the newest comes last
        inline_run = _running[str(run.path)] = InlineRun(run)
        inline_run.thread.start()
        _end_with_process()
        return inline_run


def exceptions(run: str | Path) -> dict[str, BaseException]:
    """The last exceptions of learner and actors of an inline run of this process, by name, for `pdb.post_mortem`.

    Args:
        run: its name or directory.
    """
    for path, inline_run in reversed(_running.items()):
        if str(run) in (path, Path(path).name):
            return {life.name: life.exception for life in inline_run.place.lives if life.exception is not None}
    raise RunNotAlive(f"no inline run {str(run)!r} was started in this process.")


class InlineRun:
    """A supervisor's thread, and the threads that it started.

    Attributes:
        thread: the supervisor's; the process waits for it before it ends.
        place: of learner and actors.
    """

    def __init__(self, run: RunDirectory) -> None:
        self.run, self.place = run, InlinePlace(run)
        self.thread = threading.Thread(target=self._guarded, name=f"supervisor of {run.name}")
        self._code: int | None = None
        self._supervisor: Supervisor | None = None
        self._ending = threading.Event()

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""
        return self._code

    def stop(self) -> None:
        """Ask it to end the run in an orderly way. Does nothing if it has ended."""
        self._ending.set()
        if self._supervisor is not None:
            self._supervisor.end(Outcome("stopped", "stopped by its process"))

    def logs(self) -> str:
        """The last lines of its log."""
        return tail(self.run.logs / "supervisor.log")

    def _guarded(self) -> None:
        try:
            self._code = self._supervise()
        except BaseException:
            traceback.print_exc()
            self._code = 1

    def _supervise(self) -> int:
        descriptor = lock.hold(lock.of_supervisor(self.run), wait_s=lock.ORPHANS_LIVE_S)
        if descriptor is None:
            print(f"{self.run.name} has a supervisor already", file=sys.stderr)
            return 1
        try:
            writer = MetricsWriter(self.run.metrics, wait_s=run_record.WAIT_S)
            supervisor = self._supervisor = Supervisor(self.run, writer, place=self.place)
            if self._ending.is_set():
                self.stop()
            serve(self.run, supervisor)
            while self.place.lingers:  # the run is not over while one of its threads may write
                time.sleep(0.05)
        finally:
            os.close(descriptor)
        return 0


class InlinePlace:
    """Children as threads of this process.

    Attributes:
        lives: of learner and actors.
    """

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        self.lives: list[ThreadLife] = []

    def learner(self, rank: int, *, threads: int) -> ThreadLife:
        """See `supervisor.hosts.host.Place`; there is one rank, and the configuration holds the number of threads."""
        return self._life(learner_name(rank), lambda: _learner(self._run))

    def actor(self, index: int) -> ThreadLife:
        """See `supervisor.hosts.host.Place`."""
        return self._life(f"actor-{index}", lambda: _Actor(self._run, index))

    def _life(self, name: str, make: Callable[[], Work]) -> ThreadLife:
        self.lives.append(ThreadLife(name, make, logs=self._run.logs))
        return self.lives[-1]

    @property
    def lingers(self) -> bool:
        """Whether a thread of learner or actors still runs."""
        return any(life.lingers for life in self.lives)


def _learner(run: RunDirectory) -> Work:
    from workbench.learner.in_thread import ThreadLearner

    return ThreadLearner(run)


class _Runner:
    """Runs an actor's coroutines, as asyncio.Runner does, and lets another thread cancel them.

    A later life uses its loop again, which is never closed: gRPC's one queue of events serves all loops of a process,
    and stops for all of them at an event for a closed loop.
    """

    _spare: ClassVar[list[asyncio.AbstractEventLoop]] = []

    def __init__(self) -> None:
        self._loop = self._spare.pop() if self._spare else asyncio.new_event_loop()
        self._task: asyncio.Task[Any] | None = None
        self._cancelled = False

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """The coroutine's result."""
        asyncio.set_event_loop(self._loop)  # gRPC looks for the thread's loop
        self._task = self._loop.create_task(work)
        return self._loop.run_until_complete(self._task)

    def cancel(self) -> None:
        """Let the running or the next coroutine raise CancelledError; from any thread."""
        self._cancelled = True
        self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._cancelled and self._task is not None:
            self._task.cancel()
            self._loop.call_later(_AGAIN_S, self._cancel)  # gRPC may swallow a cancellation

    def close(self) -> None:
        """Leave the loop to a later life."""
        self._cancelled = False
        self._spare.append(self._loop)


class _Actor:
    """An actor's work: as `workbench.actor.main`, and another thread can end it."""

    def __init__(self, run: RunDirectory, index: int) -> None:
        self._run, self._index = run, index
        self._ended = threading.Event()
        self._runner = _Runner()

    def run(self) -> None:
        from workbench.actor.main import make_groups

        groups = make_groups(self._run.config(), self._run)
        try:
            while not self._ended.is_set():
                self._play(groups)
                self._ended.wait(_RECONNECT_S)
                if any(getattr(group, "keeps_memory_at_reset", False) for group in groups):
                    _close(groups)
                    groups = make_groups(self._run.config(), self._run)
        finally:
            self._runner.close()
            _close(groups)

    def _play(self, groups: list[VectorEnvironment]) -> None:
        from workbench.actor.main import connect_and_play

        run, runner = self._run, cast(asyncio.Runner, self._runner)
        with suppress(asyncio.CancelledError):
            connect_and_play(groups, reach(run, learner_name(0)), run.token(), self._index, runner=runner,
                             shares_memory=False)  # `cancel` ends a wait of gRPC's, not one for a socket

    def end(self) -> None:
        """End now, or after the running step of the environments."""
        self._ended.set()
        self._runner.cancel()

    leave = end


def _close(groups: list[VectorEnvironment]) -> None:
    for group in groups:
        group.close()


@functools.cache  # registers once
def _end_with_process() -> None:
    """Let the end of the process stop all inline runs, before Python waits for the threads of their servers."""
    # Python's own way for concurrent.futures; plain atexit functions come after the wait for threads.
    threading._register_atexit(_end_all)  # type: ignore[attr-defined]


def _end_all() -> None:
    for inline_run in _running.values():
        inline_run.stop()
    deadline = time.monotonic() + _EXIT_S
    for inline_run in _running.values():
        inline_run.thread.join(max(0.0, deadline - time.monotonic()))
