"""On a cluster: the Ray actor that shows a run to whoever shares no folder with it, on a machine that sees the run.

It reads the files beside the supervisor, where SQLite and locks are safe; passes calls on to the supervisor with the
run's token, which never leaves the machine; and starts a run again that has ended. Requests and answers are JSON in
bytes. It outlives no client: it belongs to the job of the process that made it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from workbench import rundir
from workbench.copies import remote_copy
from workbench.errors import RunNotAlive, RunNotFound, WorkbenchError, answer_in
from workbench.launchers.local import clean_environment
from workbench.rundir import RunDirectory, lock
from workbench.supervisor.hosts import node_versions
from workbench.supervisor.hosts.ray_actor import host_address
from workbench.wire.endpoints import SUPERVISOR, reaching
from workbench.wire.rpc import Caller, Handler, answered

_RESUME_S = 400.0
_MOST_NAMES = 1000


class RunReader:
    """The actor; several calls at once."""

    def __init__(self, path: str) -> None:
        self._run = RunDirectory(Path(path))
        self._guard = threading.Lock()
        self._caller: tuple[str, Caller] | None = None
        self._calls: dict[str, Handler] = {
            **remote_copy.served(self._run, lock.is_alive), "call": self._call, "resume": self._resume,
            "versions": lambda: str(node_versions.here())}

    def ask(self, method: str, request: bytes) -> bytes:
        """The answer to one of the calls, which `wire.rpc.result_of` reads."""
        if method not in self._calls:
            return json.dumps({"error": {"type": "InvalidInput", "message": f"no call {method!r:.50}"}}).encode()
        return answered(self._calls[method], request)

    def _check(self, created: object) -> None:
        """Raises RunNotFound where another run has taken the place of the one that was created then."""
        if self._run.read()["created"] != created:
            raise RunNotFound(f"{self._run.path} is another run by now.")

    def _call(self, method: str, arguments: dict[str, Any], timeout_s: float, created: object) -> Any:
        """The supervisor's answer."""
        self._check(created)
        if not lock.is_alive(self._run):
            raise RunNotAlive(f"{self._run.name} has no supervisor on {host_address()}.")
        return self._to_supervisor().call(method, timeout_s=timeout_s, **arguments)

    def _to_supervisor(self) -> Caller:
        token = self._run.token()  # a resumed run has another one
        with self._guard:
            if self._caller is None or self._caller[0] != token:
                self._caller = token, Caller(reaching(self._run, SUPERVISOR), token)
            return self._caller[1]

    def _resume(self, changes: dict[str, Any], trust_code: bool, created: object) -> None:
        """Start the run again on this cluster, as `wb.resume` on this machine would. Raises its errors."""
        import ray

        self._check(created)
        request = {"run": str(self._run.path), "address": str(ray.get_runtime_context().gcs_address),
                   "changes": changes, "trust_code": trust_code}
        variables = {name: value for name, value in os.environ.items()
                     if not name.startswith("RAY_") or name.startswith("RAY_AUTH_")}
        done = subprocess.run(
            [sys.executable, "-P", "-m", "workbench", "_resume", json.dumps(request)], capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=_RESUME_S, env=clean_environment(variables, sys.path))
        answer_in(done.stdout, f"the process that resumes {self._run.name} ended with exit code {done.returncode}: "
                               f"{done.stderr[-2000:]}")


def look(name: str, known: str | None) -> bytes:
    """The runs of that name that this machine sees, as JSON: {"runs": [{"path", "created"}], "names": near it,
    "versions"}.

    Args:
        name: of a run in the home of this machine's Ray processes, or the absolute path of its directory.
        known: a path where a run of that name was.
    """
    paths = [Path(name)] if name.startswith("/") else [rundir.home() / "runs" / name]
    runs = []
    for path in dict.fromkeys([*paths, *([Path(known)] if known else [])]):
        run = RunDirectory(path)
        with suppress(WorkbenchError):
            if not run.is_copy:
                runs.append({"path": str(path), "created": run.read()["created"]})
    return json.dumps({"runs": runs, "names": [run.name for run in rundir.every()[:_MOST_NAMES]],
                       "versions": str(node_versions.here())}).encode()
