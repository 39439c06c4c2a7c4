"""The tracker processes of a run: started, and started again after a while, whatever becomes of them.

A tracker that fails is an event, no failure of the run; what it did not take waits in metrics.sqlite. It has its own
session and lock, so it may outlive the supervisor while it hands over the rest (`trackers.main`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from workbench.rundir import RunDirectory
from workbench.supervisor.hosts.host import variables
from workbench.supervisor.hosts.life import ProcessEnding
from workbench.supervisor.hosts.local import Child

_FIRST_DELAY_S, _LONGEST_DELAY_S = 5.0, 600.0  # each failure doubles it; a service may be away for hours
_STEADY_S = 600.0  # a life that was so long forgets the failures before it


@dataclass
class _Service:
    """One tracker of the run."""

    name: str
    child: Child
    failures: int = 0
    due: float = 0.0
    problem: str = field(default="")


class Trackers:
    """The trackers of one run; only the supervisor's main thread uses them.

    Args:
        event: records an event, of kind and message.
    """

    def __init__(self, run: RunDirectory, names: Sequence[str], event: Callable[[str, str], object]) -> None:
        self._event = event
        environment = {**os.environ, **variables(1), "CUDA_VISIBLE_DEVICES": ""}
        self._services = [_Service(name, Child(f"tracker-{name}", ["_tracker", str(run.path), name], logs=run.logs,
                                               environment=environment)) for name in names]

    def turn(self) -> None:
        """Note which have ended, and start those that are due."""
        for service in self._services:
            if service.child.alive and (ending := service.child.poll()) is not None:
                self._after(service, ending)
            if not service.child.alive and time.monotonic() >= service.due:
                try:
                    service.child.start()
                except OSError as error:  # no memory or too many processes now
                    self._failed(service, str(error))

    def _after(self, service: _Service, ending: ProcessEnding) -> None:
        if time.monotonic() - service.child.started_at > _STEADY_S:
            service.failures, service.problem = 0, ""
        self._failed(service, ending.error["message"] if ending.error else str(ending))

    def _failed(self, service: _Service, problem: str) -> None:
        delay_s = min(_FIRST_DELAY_S * 2.0**min(service.failures, 16), _LONGEST_DELAY_S)
        service.failures, service.due = service.failures + 1, time.monotonic() + delay_s
        if problem != service.problem:  # the same one again is in the log
            self._event("tracker", f"{service.name} takes nothing: {problem}. The run goes on; the rows wait, and are "
                                   "sent again from time to time")
        service.problem = problem
