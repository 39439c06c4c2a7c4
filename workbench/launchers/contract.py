"""The contract of launchers: check, start, poll, stop and logs. One suite of tests checks all of them.

A launcher starts the supervisor of a run whose directory is complete. The supervisor outlives the process that started
it, except where a launcher says otherwise. From then on the run is driven through its directory: scaling and stopping
are calls to its supervisor, and the logs of learner and actors are in `logs`.
"""

from __future__ import annotations

from typing import Protocol

from workbench.config import RunConfig
from workbench.rundir import RunDirectory


class Launched(Protocol):
    """A supervisor that was started."""

    def poll(self) -> int | None:
        """Its exit code, or None while it runs or waits for resources."""

    def stop(self) -> None:
        """Ask it to end the run in an orderly way. Does nothing if it has ended."""

    def logs(self) -> str:
        """The last lines of its log."""


class Launcher(Protocol):
    """Starts supervisors. Its constructor takes no arguments; the configuration holds all it needs.

    A launcher derives from it. One with a `start` alone can start every run, writes to the run's directory alone, and
    lets no run wait.
    """

    def check(self, config: RunConfig) -> None:
        """Called before a run's directory is made; raises if the run cannot start here.

        MissingPackage, ConnectionLost for a cluster that does not answer, InvalidInput for what it cannot do.
        """

    def check_name(self, name: str) -> None:
        """Called before a new run gets that name; raises RunExists if another run has it where this launcher writes."""

    def start(self, run: RunDirectory) -> Launched:
        """Start the run's supervisor and return at once."""

    def waits_for(self, run: RunDirectory) -> str:
        """What a run without a supervisor waits for, in words, if it begins by itself once that is there; "": it does
        not. Raises ConnectionLost for a cluster that does not answer."""
        return ""

    def withdraw(self, run: RunDirectory) -> None:
        """Let a run without a supervisor no longer begin by itself. Raises ConnectionLost."""
