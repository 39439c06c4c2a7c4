"""Starts a supervisor on this machine, detached: its own session, no terminal, no pipe of the kernel.

It goes on when the kernel is interrupted, restarted or killed, or the tab is closed.
"""

from __future__ import annotations

import os
import site
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from workbench.launchers.contract import Launcher
from workbench.rundir import RunDirectory, lock
from workbench.rundir.files import absolute, place_or, tail, to_append
from workbench.wire import certificates

# Variables that a kernel or a terminal sets for itself, and that would mislead processes without one.
_NOT_INHERITED = (
    "JPY_", "IPY", "MPLBACKEND", "PYDEVD_", "DEBUGPY_", "FORCE_COLOR", "CLICOLOR", "PAGER", "GIT_PAGER", "TERM",
)  # fmt: skip
# torch loads what drives other devices in each process that imports it, and a TPU belongs to the learner alone.
_OWN = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}


class LocalLauncher(Launcher):
    """Starts supervisors as detached processes of this machine."""

    def start(self, run: RunDirectory) -> LocalProcess:
        """Start the run's supervisor and return at once."""
        certificates.remove(run)  # of a life on several machines
        starting = lock.to_hand_on(lock.of_start(run))
        return LocalProcess.started("_supervisor", run.path, *map(str, starting), log=run.logs / "supervisor.log",
                                    environment=self.environment(), keep_open=starting)

    def environment(self) -> dict[str, str]:
        """Variables of the supervisor, which learner and actors inherit."""
        return clean_environment(os.environ, sys.path)


class LocalProcess:
    """A detached process, such as a supervisor, which outlives this object."""

    @classmethod
    def started(
        cls, entry: str, folder: Path, *words: str, log: Path, environment: Mapping[str, str] | None = None,
        keep_open: Sequence[int] = (),
    ) -> LocalProcess:
        """The process of `python -m workbench ENTRY FOLDER WORDS…`, which appends what it prints to `log`.

        Args:
            environment: its variables; None: this process's own, as `clean_environment` leaves them.
            keep_open: descriptors that it inherits.
        """
        with to_append(log) as output:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "workbench", entry, str(folder), *words], stdin=subprocess.DEVNULL,
                stdout=output, stderr=output, env=environment or clean_environment(os.environ, sys.path),
                cwd=place_or(folder), start_new_session=True, pass_fds=keep_open,
            )
        return cls(process, log)

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log
        threading.Thread(target=process.wait, name="reap", daemon=True).start()  # leaves no zombie

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""
        return self._process.poll()

    def stop(self) -> None:
        """Ask it to end the run in an orderly way. Does nothing if it has ended."""
        if self._process.poll() is None:
            self._process.terminate()

    def logs(self) -> str:
        """The last lines of its log."""
        return tail(self._log)


def clean_environment(environment: Mapping[str, str], path: list[str]) -> dict[str, str]:
    """`environment` without the variables of a kernel or terminal, and with this process's folders of modules.

    A class imported from a file beside the notebook is shipped by its name, so the run must find that file. The new
    interpreter finds the folders of installed packages by itself, in the right order.
    """
    variables = {name: value for name, value in environment.items() if not name.startswith(_NOT_INHERITED)}
    paths = sysconfig.get_paths()
    installed = {*(paths[kind] for kind in ("stdlib", "platstdlib", "purelib", "platlib")),
                 *site.getsitepackages(), site.getusersitepackages()}
    own = absolute(entry for entry in path if entry not in installed)
    return {**_OWN, **variables, "PYTHONPATH": os.pathsep.join(dict.fromkeys(own))}
