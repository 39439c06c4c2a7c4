"""Starts a supervisor on a Ray cluster, where it reserves the places of learner and actors itself.

Ray is not loaded into this process, which may use another Ray or be a kernel that is restarted: a helper process
(`starter`) talks to the cluster, and ends when the launcher's objects are deleted. The run goes on: its supervisor's
host is detached. The run directory must lie on storage that this machine and the cluster's nodes share. A run that
lies on the cluster's own disks is followed instead (`RayFollowing`).
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import IO, Any

from workbench import imports
from workbench.config import RunConfig
from workbench.errors import ConnectionLost, MissingPackage, error_of
from workbench.launchers.contract import Launcher
from workbench.launchers.local import clean_environment
from workbench.rundir import RunDirectory
from workbench.rundir.files import tail
from workbench.wire import certificates

_CONNECT_S = 240.0  # Python, Ray and a busy machine; a port at which nobody listens is known after 10 s
_START_S = 240.0
_FOLLOW_S = 3600.0  # for a busy cluster, and the first copy of a long history; what fails says so


class RayLauncher(Launcher):
    """Starts supervisors on a Ray cluster, and follows runs there."""

    def __init__(self) -> None:
        self._helper: _Helper | None = None  # connected, and not used for a start yet
        self._asked: _Helper | None = None

    def check(self, config: RunConfig) -> None:
        """See `Launcher`. Raises MissingPackage, or ConnectionLost if no cluster answers; it never starts one."""
        _check_packages("launcher='ray'", "ray", "cryptography")
        self._helper = _starter(config.address or "auto")

    def start(self, run: RunDirectory) -> RayProcess:
        """See `Launcher`."""
        helper, self._helper = self._helper or _starter(run.config().address or "auto"), None
        self._asked = helper
        certificates.ensure(run)
        helper.ask({"start": str(run.path)})
        helper.awaited("placed", _START_S)
        return RayProcess(run, helper)

    def waits_for(self, run: RunDirectory) -> str:
        """See `Launcher`: Ray holds a supervisor's host that has no node yet, or lost its own."""
        return str(self._answer(run, "waits_for"))

    def withdraw(self, run: RunDirectory) -> None:
        """See `Launcher`."""
        self._answer(run, "withdraw")

    def _answer(self, run: RunDirectory, request: str) -> Any:
        """The answer of a helper, which is kept for the next request. Raises ConnectionLost."""
        if self._asked is None or "gone" in self._asked.messages:
            self._asked = _starter(run.config().address or "auto")
        try:
            return self._asked.answer({request: str(run.path)})
        except ConnectionLost:
            self._asked = None  # a late answer would be taken for the next one
            raise

    def follow(self, address: str) -> RayFollowing:
        """The run at that address, "ray://HOST:PORT/NAME", followed for as long as the result is kept.

        Raises MissingPackage, InvalidInput, ConnectionLost, AccessDenied, RunNotFound, RunFailed for a cluster with
        another version of the workbench, StorageFailed.
        """
        _check_packages(address, "ray")
        with _making_followings:  # one process for all handles of this one
            following = _followings.get(address)
            if following is None or not following.lives:
                _followings[address] = following = RayFollowing(address)
            return following


class RayFollowing:
    """A process that keeps the copy of a run on a cluster up to date; it ends when this object is deleted.

    Attributes:
        directory: of the copy.
    """

    def __init__(self, address: str) -> None:
        self._helper = _Helper("workbench.launchers.ray.follower", address)
        self.directory = RunDirectory(Path(self._helper.awaited("following", _FOLLOW_S)))

    @property
    def lives(self) -> bool:
        """Whether the process is there, and the copy."""
        return "gone" not in self._helper.messages and self.directory.is_copy


_followings: weakref.WeakValueDictionary[str, RayFollowing] = weakref.WeakValueDictionary()
_making_followings = threading.Lock()


def _check_packages(what: str, *packages: str) -> None:
    """Raises MissingPackage."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise MissingPackage(f"{what} needs {package}. Install it, Ray in the cluster's version: "
                                 f"{imports.pip_install('ray')}")


class RayProcess:
    """A supervisor on some node of the cluster, which outlives this object."""

    def __init__(self, run: RunDirectory, helper: _Helper) -> None:
        self._log = run.logs / "supervisor.log"
        self._helper = helper

    def poll(self) -> int | None:
        """Its exit code, or None while it runs, or waits for a node."""
        ending = self._helper.messages.get("over")
        return None if ending is None else int(ending["code"])

    def stop(self) -> None:
        """Ask it to end the run in an orderly way. Does nothing if it has ended."""
        if self.poll() is None:
            self._helper.ask({"stop": True})

    def logs(self) -> str:
        """The last lines of its log; before it starts, what it waits for, or why its node could not start it."""
        if "here" not in self._helper.messages and self.poll() is None:
            needs = self._helper.messages["placed"]["needs"]
            return (f"Ray has no node with {needs} to spare yet, which each of its learners needs. `ray status` shows "
                    "all nodes: end other work, or add a node.")
        error = (self._helper.messages.get("over") or {}).get("error")
        why = f"{error['type']}: {error['message']}\n" if error else ""
        return why + tail(self._log)


class _Helper:
    """The helper process: lines of JSON to it and from it. It ends when this object is deleted.

    Attributes:
        messages: the last of each kind.
    """

    def __init__(self, module: str, address: str) -> None:
        self.messages: dict[str, Any] = {}
        environment = clean_environment(os.environ, sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, address], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
            env={**environment, "RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"},
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input = self._process.stdin
        self._arrival = threading.Condition()
        weakref.finalize(self, self._input.close)
        threading.Thread(target=_listen, args=[self._process, self._process.stdout, self.messages, self._arrival],
                         name="ray-starter", daemon=True).start()

    def ask(self, request: dict[str, Any]) -> None:
        """Send a request. Raises ConnectionLost if the process has ended."""
        try:
            print(json.dumps(request), file=self._input, flush=True)
        except OSError:
            code = self._process.poll()
            raise ConnectionLost(f"the process that talks to Ray has ended (exit code {code}). Launch again.") from None

    def answer(self, request: dict[str, Any]) -> Any:
        """The answer to a request that has one. Raises ConnectionLost."""
        self.messages.pop("answer", None)
        self.ask(request)
        return self.awaited("answer", _CONNECT_S)

    def awaited(self, kind: str, within_s: float) -> Any:
        """The message of that kind. Raises the error that it reports, or ConnectionLost."""
        deadline = time.monotonic() + within_s
        with self._arrival:
            while kind not in self.messages:
                left_s = deadline - time.monotonic()
                if "error" in self.messages:
                    raise error_of(self.messages.pop("error"))
                if left_s <= 0 or "gone" in self.messages:
                    raise ConnectionLost(f"Ray gave no answer within {within_s:g} s, or its client failed.")
                self._arrival.wait(left_s)
            return self.messages[kind]


def _starter(address: str) -> _Helper:
    helper = _Helper("workbench.launchers.ray.starter", address)
    helper.awaited("connected", _CONNECT_S)
    return helper


def _listen(process: subprocess.Popen[str], output: IO[str], messages: dict[str, Any], arrival: threading.Condition
            ) -> None:
    """Store the helper's messages until it ends; then reap it."""
    for line in output:
        with arrival:
            messages.update(json.loads(line))
            arrival.notify_all()
    process.wait()
    with arrival:
        messages["gone"] = True
        arrival.notify_all()
