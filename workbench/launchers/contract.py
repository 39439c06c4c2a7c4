"""What a launcher must do.

A launcher starts the supervisor of a run whose directory is complete, somewhere, and so that it outlives whoever
started it. From then on the run is driven through its directory; the launcher is only asked how that process is.
"""

from __future__ import annotations

from typing import Protocol

from workbench.rundir import RunDirectory


class Launched(Protocol):
    """A supervisor's process that was started."""

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""

    def stop(self) -> None:
        """Ask it to end the run in an orderly way. Does nothing if it has ended."""

    def logs(self) -> str:
        """The last lines that it wrote."""


class Launcher(Protocol):
    """Starts supervisors."""

    def start(self, run: RunDirectory) -> Launched:
        """Start the run's supervisor and return at once."""
