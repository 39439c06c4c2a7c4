"""Makes the directory of a run that was `checked`, starts its supervisor, and waits for it."""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from workbench import checkpoints, imports, rundir
from workbench.config import RunConfig, Setting
from workbench.config.hardware import version
from workbench.copies import (
    LAST_COPY_S,
    call_to_restore,
    check_writable,
    folder_of,
    place_of_copy,
    places,
)
from workbench.errors import (
    ConnectionLost,
    InvalidInput,
    RunExists,
    RunNotAlive,
    StorageFailed,
    WaitTimeout,
)
from workbench.launchers.contract import Launched, Launcher
from workbench.metrics import MetricsWriter
from workbench.metrics.status import RunStatus
from workbench.rundir import ENDED, Parent, RunDirectory, lock
from workbench.rundir.record_folder import RECORD_NAME
from workbench.running import machine_info, waiting
from workbench.running.connection import Control, lost_checkpoints, lost_history
from workbench.running.progress import notify

_WAITING = (
    Setting("wait_ready", bool, True, ""),
    Setting("ready_timeout_s", float, 180.0, "", unit="s", low=0),
    Setting("progress", bool, None, "", optional=True),
)
_PACKAGES = ("rl-workbench", "torch", "gymnasium")  # whose versions run.json has
_LOOK_AGAIN_S = 0.5  # at a lock of another machine
_SUPERVISOR_S = 180.0  # to start on a busy machine, with up to 10 s until the processes of a dead one have ended


@dataclass(frozen=True)
class Awaited:
    """Whether a call waits until its run trains, how long, and whether it shows that. Raises WrongType, OutOfBounds."""

    ready: bool
    timeout_s: float
    progress: bool | None

    def __post_init__(self) -> None:
        for setting, value in zip(_WAITING, (self.ready, self.timeout_s, self.progress), strict=True):
            setting.check(value)


def new_record(
    config: RunConfig, *, parent: Parent | None, code: Mapping[str, bytes], preset: str | None = None,
    state: str = "starting", network: bool | str = True,
) -> dict[str, Any]:
    """run.json of a run that is about to start; or, with the state "stopped", of one that a user will resume.

    `network`: who gave the run a network of its user's own: True: a call; `OF_CLASS`: the class of its algorithm.
    """
    return {
        "created": time.time(),
        "config": config.to_json(),
        "state": state,
        "supervisor_pid": None,
        "error": None,
        "parent": parent,
        "preset": preset,
        "code": {kind: f"{kind}.pkl" in code and given for kind, given in (
            ("environment", True), ("network", network), ("algorithm", True))},
        "versions": {"python": platform.python_version(),
                     **{package: found for package in _PACKAGES if (found := version(package))}},
        "machine": machine_info.described(),
    }


def created(
    name: str | None, stem: str, record: dict[str, Any], code: Mapping[str, bytes], place: Launcher,
    prepare: Callable[[RunDirectory], object] = lambda run: None,
) -> RunDirectory:
    """The new run's directory: of that name, or of the first name with `stem` that is free here, in `place`, and
    in its storage.

    Raises RunExists, InvalidInput, StorageFailed, HomeNotWritable, see `rundir.create`.
    """
    from workbench.copies.url_storage import Storage

    url = record["config"].get("storage", "")
    if url and (folder := folder_of(url)) is not None and record["config"]["launcher"] != "ray":
        if folder.resolve() == (rundir.home() / "runs").resolve():
            raise InvalidInput(f"storage={url!r} is the folder of the runs themselves. Give a copy a place of its own.")
        check_writable(folder, "Give another storage=..., or make it writable.")
    storage = Storage(url) if url else None
    stored = storage.names() if storage else []
    for candidate in (f"{stem}-{number}" for number in count(1)) if name is None else (name,):
        try:
            check_name(candidate)
            place.check_name(candidate)
            if storage and candidate in stored and (why := "it is there" if name is None else storage.taken(name)):
                raise RunExists(f"{why}; or choose another name.")  # its machine may have ended
            lock.check_left(RunDirectory(rundir.home() / "runs" / candidate))
            return rundir.create(candidate, record, code=code, prepare=prepare)
        except RunExists:
            if name is not None:
                raise
    raise AssertionError("unreachable")


def check_no_copy(directory: RunDirectory) -> None:
    """Raises InvalidInput for the copy of a run, by its path: the run would train in it, and copy itself onto it."""
    if place := place_of_copy(directory):
        raise InvalidInput(f"{directory.path} is the copy of a run, which another machine may go on with. To go on "
                           f"with it here: {call_to_restore(place, directory.name)}.")


def catch_up(directory: RunDirectory, config: RunConfig) -> None:
    """Bring what a run has lost of checkpoints and history from its copies, and say so; and say it if it cannot be
    copied now: its supervisor tries again. The caller holds the lock of starts.

    Raises StorageFailed where a copy is there whose checkpoints cannot be brought, or is away while a run that had
    checkpoints or a history has none left here.
    """
    away = []
    for place in places(config):
        from workbench.copies.url_storage import Storage

        try:
            storage = Storage(place)
            storage.check_free(directory)
        except StorageFailed as error:
            away.append(str(error))
            continue
        try:
            said = storage.catch_up(directory)
        except StorageFailed as error:
            whole, _ = checkpoints.newest_good(directory.checkpoints, replay=False)
            without = f" Or go on without that copy: wb.attach({directory.name!r}).fork(storage='')." if whole else ""
            raise StorageFailed(f"{error}{without}") from None
        if said:
            notify(said)
        elif (lost_history(directory) or lost_checkpoints(directory)) and not storage.has(directory.name):
            away.append(f"There is nothing of it in {place}: is that what was mounted there?")
    without_history = lost_history(directory)
    if away and (without_history or lost_checkpoints(directory)):
        lacks, other = (("history here and would begin an empty one", f"fork it: wb.attach({directory.name!r}).fork()")
                        if without_history else ("checkpoint here and would begin at 0 frames", "launch a new run"))
        raise StorageFailed(f"{directory.name} has no {lacks}, and its copy cannot be asked for one. {away[-1]} Resume "
                            f"it once that is mended, or {other}.")
    for why in away:
        notify(f"{directory.name} goes on without its copy: {why}")
    if without_history:
        if not checkpoints.every(directory.checkpoints):
            raise StorageFailed(f"{directory.name} has neither a checkpoint nor a history in {directory.path}, and "
                                "would begin anew. Put one back, or launch a new run.")
        said = f"{directory.name} has lost its history, {directory.metrics}, and goes on with an empty one."
        with closing(MetricsWriter(directory.metrics)) as writer:
            writer.event("error", said)
        notify(said)


def check_name(name: str) -> None:
    """Raises InvalidInput if it cannot name a run."""
    if not isinstance(name, str) or not RECORD_NAME.fullmatch(name):
        raise InvalidInput(
            f"name={name!r} cannot name a run: use up to 100 letters, digits and . _ -, a letter or digit first."
        )


def stem_of(environment: str) -> str:
    """ALE/Pong-v5 → pong, CartPole-v1 → cartpole."""
    last = re.sub(r"-v\d+$", "", environment.rpartition("/")[2].rpartition(":")[2])
    return re.sub(r"[^a-z0-9]+", "-", last.lower()).strip("-")[:60] or "run"


def stem_for(config: RunConfig) -> str:
    """The first part of the names of its runs, such as pong-vtrace; a class of one's own may be called anything."""
    algorithm = re.sub(r"[^A-Za-z0-9_]+", "-", config.algorithm).strip("-")[:24] or "own"
    return f"{stem_of(config.environment)}-{algorithm}"


def started(
    directory: RunDirectory, launcher: Launcher, prepare: Callable[[], None] = lambda: None, *, awaited: Awaited
) -> RunStatus | None:
    """Start the supervisor and wait for it; returns the last status, if it waits for training.

    After an interrupt a run whose start was asked for goes on, and its name is printed.
    """
    control = Control(directory)
    with ExitStack() as asked:
        with start_lock(control, lease_s=lock.LEASE_S):
            prepare()
            asked.enter_context(_going_on(directory.name))
            launched = launcher.start(directory)
            _await_supervisor(control, launched, max(_SUPERVISOR_S, awaited.timeout_s))
        status = None
        if awaited.ready:
            imports.preload("panel.panel")  # most people show the run next
            status = waiting.until_ready(control, launched, awaited.timeout_s, progress=awaited.progress)
    control.close()
    return status


def begun(directory: RunDirectory, launcher: Launcher, prepare: Callable[[], None]) -> Launched:
    """Start the supervisor, and return at once: it may wait for a place. Raises RunExists, ConnectionLost; the latter
    also for the lock of a lost machine, so that nobody else is kept waiting: try again."""
    with start_lock(Control(directory), lease_s=0.0):
        prepare()
        return launcher.start(directory)


@contextmanager
def start_lock(control: Control, *, lease_s: float) -> Iterator[None]:
    """Hold the run's start lock. Raises RunExists where another process starts the run, or has; and see `_was_started`.
    """
    name = control.directory.name
    with lock.held(lock.of_start(control.directory), wait_s=lock.LOOK_S) as mine:
        if not mine or _was_started(control, lease_s=lease_s):
            raise RunExists(f"{name} is being started by another process. wb.attach({name!r}).")
        yield


@contextmanager
def _going_on(name: str) -> Iterator[None]:
    """Prints how to find the run again where the block is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        notify(f"{name} goes on in the background. wb.attach({name!r}).stop() ends it.")
        raise


def _was_started(control: Control, *, lease_s: float) -> bool:
    """Whether another process started the run before this one got the lock; waits until an earlier life has ended.

    A second supervisor would wait for the end of the first one, and restart the run when it is stopped; and what
    prepares its start takes token and addresses from the first one. Orphans are left to the new supervisor. Raises
    ConnectionLost where a supervisor lives that is mute, here or on another machine.

    Args:
        lease_s: for how long storage may keep the lock of a lost machine.
    """
    directory, began, told = control.directory, time.monotonic(), False
    while lock.is_held(lock.of_supervisor(directory)):
        ended = directory.read()["state"] in ENDED
        if not ended and answers(control):
            return True
        time.sleep(0.05)
        if (waited_s := time.monotonic() - began) < lock.ORPHANS_LIVE_S:
            continue
        if moved := lock.moved_from(directory):
            raise ConnectionLost(
                f"{directory.name} lives, and its folder was moved here from {moved}; nothing was changed. Move it "
                f"back, or stop the run first, wb.attach({directory.name!r}).stop(), and resume it then.")
        if not (mute := lock.processes(directory, "_supervisor")):
            shares_its_lock = directory.config().launcher != "ray"  # with its children, which are no orphans there
            if shares_its_lock and lock.processes(directory, "_learner", "_actor"):
                return False
            if waited_s > lock.ORPHANS_LIVE_S + lease_s:
                pid = directory.read().get("supervisor_pid")
                raise ConnectionLost(
                    f"{directory.name} has a supervisor that does not answer here, and is no process of this machine; "
                    f"nothing was changed. Steer the run on the machine where it lives; or end its process "
                    f"{'' if pid is None else f'{pid} '}there, and resume the run then.")
            if not told:
                notify(lock.of_lost_machine(lock.of_supervisor(directory)))
                told = True
            time.sleep(_LOOK_AGAIN_S)
            continue
        if (there := lock.directory_of(mute[0])) != str(directory.path):  # by a link; sockets have other names there
            raise ConnectionLost(
                f"{directory.name} lives in {there}, which is another path of {directory.path}; nothing was changed. "
                f"Set WORKBENCH_HOME to {Path(there).parents[1]}, and attach to it there.")
        if not ended or waited_s > LAST_COPY_S:
            raise ConnectionLost(
                f"{directory.name} has a supervisor that lives and does not answer; nothing was changed. Try again; "
                f"or end that process, kill -9 {mute[0].pid}, and resume the run then.")
        if not told:
            notify(f"{directory.name} has ended, and its last checkpoint is being copied to storage: waiting for that.")
            told = True
    return False


def _await_supervisor(control: Control, launched: Launched, timeout_s: float) -> None:
    """Wait until the supervisor answers, or has already ended the run. Raises RunFailed; and WaitTimeout, after which
    it is stopped, or waits for a node no longer."""
    name, deadline = control.directory.name, time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        has_ended = launched.poll() is not None
        if control.directory.read()["state"] in ENDED or answers(control):
            return
        if has_ended:
            raise waiting.ended_early(f"the supervisor of {name}", launched)
        time.sleep(0.05)
    logs = launched.logs()
    launched.stop()
    raise WaitTimeout(f"the supervisor of {name} did not answer for {timeout_s:g} s, and was stopped. "
                      f"Its log:\n{logs}")


def answers(control: Control) -> bool:
    """Whether the run's supervisor answers."""
    try:
        return bool(control.call("ping", timeout_s=2.0)["name"] == control.directory.name)
    except (RunNotAlive, ConnectionLost):
        return False
