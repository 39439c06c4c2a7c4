"""A Ray actor that starts one of a run's processes on its node, and watches over it.

Ray chooses the node of a `ProcessHost` and notices when the node is lost. The process is the same as on one machine: by
its pipe it notices the death of its host, and ends. A process that needs no shared storage (an actor of the run) gets a
bundle of files instead, in a folder that is removed with its host.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.errors import RunFailed, StorageFailed, WorkbenchError
from workbench.rundir import ENDED, RunDirectory, lock, write_atomically
from workbench.rundir.sealed import VOUCHED, files_in
from workbench.supervisor.hosts import node_versions
from workbench.supervisor.hosts.host import variables
from workbench.supervisor.hosts.life import POLL_S
from workbench.supervisor.hosts.local import Child
from workbench.supervisor.hosts.node_versions import NOTEBOOK
from workbench.wire.endpoints import HOST, SUPERVISOR
from workbench.wire.lifeline import FATAL, PASSING

NAMESPACE = "workbench"
ADDRESS = "WORKBENCH_RAY_ADDRESS"  # of the cluster that a supervisor is part of
CALLS_AT_ONCE = 6  # of a host; one of them always waits for the process's end
_LOCK_S = 12.0  # a process of an earlier life ends itself within 10 s; NFS keeps that of a lost machine for longer
_STORAGE_S = 12.0  # for a file system that is mounted late, or answers late
_BUNDLE = "rl-workbench-bundle-"
_LOG_BYTES = 64 * 1024  # of an actor's log that are sent when it ends
_LINGER_S = 3.0  # of a supervisor's host, so that the launching process can read how it ended


@dataclass(frozen=True)
class Task:
    """One process of a run, for its host.

    Attributes:
        name: "supervisor", "learner", "learner-1", "actor-3".
        run: the run's directory on storage that its machines share.
        arguments: of `python -m workbench`, with "RUN" for the directory.
        token: SHA-256 of the run's token, by which a node shows that it sees the directory; None: it gets a bundle.
        threads: of its arithmetic; 0: it chooses.
        environment: variables in addition to its node's.
    """

    name: str
    run: str
    arguments: tuple[str, ...]
    token: str | None
    threads: int
    environment: Mapping[str, str] = field(default_factory=dict)


def token_digest(run: RunDirectory) -> str:
    """SHA-256 of the run's token as this machine sees it. Raises OSError."""
    return hashlib.sha256((run.path / "token").read_bytes()).hexdigest()


class _Away(StorageFailed):
    """Storage that is not there now, or a lock that is held now: a later try may find it otherwise."""


class ProcessHost:
    """A Ray actor with several threads; each method is a remote call. One life of its process at a time."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._bundle = None if task.token else _new_bundle()
        self._run = RunDirectory(self._bundle or Path(task.run))
        self._guard = threading.RLock()
        self._child: Child | None = None
        self._log_position = 0  # bytes of the log that were sent
        if task.name == SUPERVISOR:
            threading.Thread(target=self._supervise, name="supervise", daemon=True).start()

    def __repr__(self) -> str:
        """What Ray's dashboard calls it: "actor-3 of pong-vtrace-1"."""
        return title(self._task.name, self._task.run)

    def live(self, files: Mapping[str, bytes], *, first: bool = False) -> dict[str, Any]:
        """One life of the process, from its start to its end: {"code", "error", "log"}.

        `first`: no process of its name has lived, so that storage which is not there was never shared.
        """
        try:
            self.put(files)
            self._start()
        except WorkbenchError as error:
            passes = isinstance(error, _Away) and not first
            kind = "StorageFailed" if isinstance(error, _Away) else type(error).__name__
            return {"code": PASSING if passes else FATAL, "error": {"type": kind, "message": str(error)}, "log": b""}
        return self._outcome_of_life()

    def where(self) -> dict[str, Any]:
        """The process and its machine, once it lives: {"pid", "host", "node", "versions"}."""
        while self._child is None or self._child.pid is None:
            time.sleep(POLL_S)
        versions = str(node_versions.here())
        return {"pid": self._child.pid, "host": host_address(), "node": node_id(), "versions": versions}

    def put(self, files: Mapping[str, bytes]) -> None:
        """Write files of the bundle, by their paths in it. Does nothing without a bundle."""
        if self._bundle is None:
            return
        for name, data in files.items():
            path = self._bundle / name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(path, data)

    def end(self, grace_s: float) -> None:
        """See `Life.end`."""
        with self._guard:
            if self._child is not None:
                self._child.end(grace_s)

    def kill(self) -> None:
        """See `Life.kill`."""
        with self._guard:
            if self._child is not None:
                self._child.kill()

    def close(self) -> None:
        """Kill the process and remove the bundle, before the host itself ends."""
        self.kill()
        if self._bundle is not None:
            shutil.rmtree(self._bundle, ignore_errors=True)

    def leave(self) -> None:
        """Close, and then end this host: in this order, which two calls need not keep, since several run at once."""
        self.close()
        os._exit(0)

    # --- one life ---------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Begin a life. Raises StorageFailed if this node does not see the run, or cannot start processes; RunFailed
        if its versions do not fit the notebook's."""
        self._check_storage()
        self._check_versions()
        self._run.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        arguments = [str(self._run.path) if word == "RUN" else word for word in self._task.arguments]
        lock_descriptor = self._lock()
        child = Child(self._task.name, arguments, logs=self._run.logs, environment=self._environment(),
                      keep_open=lock_descriptor)
        try:
            child.start()
        except OSError as error:
            raise StorageFailed(f"{host_address()} cannot start {self._task.name}: {error}.") from None
        finally:
            if lock_descriptor is not None:
                os.close(lock_descriptor)  # the process has inherited it, and holds the lock to its end
        with self._guard:
            self._child = child
        print(f"{self!r} runs here, as process {child.pid} of {host_address()}. Run directory: {self._task.run}. "
              f"Log: {child.log}", flush=True)  # for Ray's dashboard, and `ray logs`

    def _check_storage(self) -> None:
        if self._task.token is None:
            return
        deadline = time.monotonic() + _STORAGE_S
        while (digest := self._digest()) != self._task.token:
            if time.monotonic() > deadline:
                raise _Away(
                    f"{host_address()} does not see the run directory {self._run.path} ({digest[:40]}), which its "
                    f"{self._task.name} needs. Set WORKBENCH_HOME to a folder on storage that the notebook and the "
                    "nodes of the cluster share, at the same path; or launch on a machine of the cluster (workbench "
                    "launch), and follow the run from here: wb.attach('ray://HOST:PORT/NAME').")
            time.sleep(POLL_S)

    def _digest(self) -> str:
        """SHA-256 of the run's token as this node sees it, or why it does not."""
        try:
            return token_digest(self._run)
        except OSError as error:
            return error.strerror or "not there"

    def _check_versions(self) -> None:
        notebook = node_versions.read(self._task.environment.get(NOTEBOOK, ""))
        has_cells = any(path.suffix == ".pkl" for path in files_in(self._run.code))
        if problem := node_versions.refusal(host_address(), node_versions.here(), notebook, has_cells=has_cells):
            raise RunFailed(problem)

    def _lock(self) -> int | None:
        """The descriptor of a learner's lock, which keeps a second learner of its rank from starting; else None."""
        if self._task.token is None or self._task.name == SUPERVISOR:
            return None
        descriptor = lock.hold(self._run.path / f"{self._task.name}.lock", wait_s=_LOCK_S)
        if descriptor is None:
            raise _Away(f"another {self._task.name} of {self._run.name} still lives after {_LOCK_S:g} s, or its "
                        "machine is lost and the storage keeps its lock.")
        return descriptor

    def _environment(self) -> dict[str, str]:
        """This node's variables without those of Ray, which are for Ray's own workers."""
        drives = self._task.name == SUPERVISOR  # and needs Ray's password, if there is one
        node = {name: value for name, value in os.environ.items()
                if not name.startswith("RAY_") or (drives and name.startswith("RAY_AUTH_"))}
        folders = self._task.environment.get("PYTHONPATH", "").split(os.pathsep)
        return {**node, **variables(self._task.threads), **self._task.environment, HOST: host_address(),
                **({} if drives else lock.marks(self._task.run)),
                "PYTHONPATH": os.pathsep.join(folder for folder in folders if Path(folder).is_dir()),
                ADDRESS: _cluster()}

    def _outcome_of_life(self) -> dict[str, Any]:
        """Waits for the end of the process."""
        child = self._child
        assert child is not None
        while True:
            with self._guard:
                ending = child.poll()
            if ending is not None:
                error = node_versions.with_node(host_address(), ending.error)
                return {"code": ending.code, "error": error, "log": self._new_log(child.log)}
            time.sleep(POLL_S)

    def _new_log(self, path: Path) -> bytes:
        """New bytes of the log, the last 64 kB at most; none of a log on shared storage."""
        if self._bundle is None or not path.exists():
            return b""
        with open(path, "rb") as file:
            file.seek(max(self._log_position, path.stat().st_size - _LOG_BYTES))
            new = file.read()
            self._log_position = file.tell()
        return new

    # --- a supervisor's host, which only Ray watches over -------------------------------------------------------

    def _supervise(self) -> None:
        """Run the supervisor to the run's end, also after Ray has moved this host; then return its place."""
        import ray

        try:
            moved = ray.get_runtime_context().was_current_actor_reconstructed
            while not self._has_ended():
                self.outcome = self.live({}, first=not moved)
                if not moved or self.outcome["code"] not in (1, PASSING):  # 1: the storage has the lost one's lock yet
                    break
        except BaseException as error:
            self.outcome = {"code": 1, "error": {"type": "WorkbenchError", "message": str(error)}, "log": b""}
        time.sleep(_LINGER_S)
        self.close()
        ray.util.remove_placement_group(ray.util.get_current_placement_group())  # and with it this host
        ray.kill(ray.get_runtime_context().current_actor)

    def _has_ended(self) -> bool:
        """Whether the run's record says so; a record that cannot be read now says nothing."""
        try:
            return self._run.read()["state"] in ENDED
        except WorkbenchError:
            return False

    outcome: dict[str, Any] | None = None

    def here(self) -> str:
        """The address of this node."""
        return host_address()

    def place(self) -> dict[str, str]:
        """The run's directory, and this node: {"path", "node"}."""
        return {"path": self._task.run, "node": node_id()}

    def until_over(self) -> dict[str, Any]:
        """How the supervisor ended, after its end."""
        while self.outcome is None:
            time.sleep(POLL_S)
        return self.outcome


def _new_bundle() -> Path:
    """A private folder for a bundle, locked by this process; removes those of processes that have ended."""
    for old in Path(tempfile.gettempdir()).glob(f"{_BUNDLE}*"):
        with suppress(OSError, WorkbenchError):
            mine = (old / "lock").stat().st_uid == os.getuid()  # raises for a new folder, before it has its lock
            descriptor = lock.hold(old / "lock", wait_s=0) if mine else None
            if descriptor is not None:
                shutil.rmtree(old, ignore_errors=True)
                os.close(descriptor)
    folder = Path(tempfile.mkdtemp(prefix=_BUNDLE))
    lock.hold(folder / "lock", wait_s=0)  # to the end of this process
    return folder


def title(name: str, run: str) -> str:
    """Role, number and run of a process, for whoever looks at the cluster; `run`: the run's directory."""
    return f"{name} of {Path(run).name}"


def host_options(**more: Any) -> Any:
    """The Ray actor class of hosts with these options."""
    import ray

    return ray.remote(ProcessHost).options(max_concurrency=CALLS_AT_ONCE, **more)


def inherited() -> dict[str, str]:
    """Variables of this process for the run's processes on other nodes, and the versions of the notebook."""
    names = ("PYTHONPATH", "WORKBENCH_HOME", VOUCHED, NOTEBOOK)
    return {NOTEBOOK: str(node_versions.here())} | {name: os.environ[name] for name in names if name in os.environ}


def host_address() -> str:
    """This node's address, as the other nodes know it."""
    import ray

    return str(ray.util.get_node_ip_address())


def node_id() -> str:
    """Ray's id of this node, in hexadecimal digits."""
    import ray

    return str(ray.get_runtime_context().get_node_id())


def _cluster() -> str:
    import ray

    return str(ray.get_runtime_context().gcs_address)
