"""What a launcher must do: check, start, poll, stop and logs. One suite of tests holds all of them to it.

A launcher starts the supervisor of a run whose directory is complete, somewhere, and so that it outlives whoever
started it (but for one that says it does not). From then on the run is driven through its directory: scaling and
stopping are calls to its supervisor, and the logs of learner and actors are in `logs`. What processes need is said in
`Resources`: cpus, gpus and memory_gb, from the run's configuration.
"""

from __future__ import annotations

from typing import Protocol

from workbench.config import RunConfig
from workbench.rundir import RunDirectory
from workbench.supervisor.hosts.host import Resources

__all__ = ["Launched", "Launcher", "Resources"]


class Launched(Protocol):
    """A supervisor that was started."""

    def poll(self) -> int | None:
        """Its exit code, or None while it runs, or waits for a place to run."""

    def stop(self) -> None:
        """Ask it to end the run in an orderly way. Does nothing if it has ended."""

    def logs(self) -> str:
        """The last lines that it wrote."""


class Launcher(Protocol):
    """Starts supervisors. Made without arguments; what it must know is in the configuration."""

    def check(self, config: RunConfig) -> None:
        """Before a run's directory is made: raises what stands against starting it here.

        MissingPackage, ConnectionLost for a cluster that does not answer, InvalidInput for what it cannot do.
        """

    def check_name(self, name: str) -> None:
        """Before a new run gets that name: raises RunExists where another has it in a place that this one writes to."""

    def start(self, run: RunDirectory) -> Launched:
        """Start the run's supervisor and return at once."""
