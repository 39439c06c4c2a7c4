"""`Run.track`: send the history that a run has so far to a tracker, from a process that ends with this one."""

from __future__ import annotations

from workbench import trackers
from workbench.errors import InvalidInput
from workbench.playing import worker_process
from workbench.rundir import RunDirectory
from workbench.running.progress import notify


def sent(run: RunDirectory, service: str, *, timeout_s: float | None) -> int:
    """The number of rows that were sent. Raises what `Run.track` raises."""
    if not isinstance(service, str) or trackers.named(service) != (service,):
        raise InvalidInput(f"service={service!r:.100} is not one tracker. Give one of {', '.join(trackers.TRACKERS)}.")
    trackers.check_installed(service)
    run.check_own()
    answer = worker_process.answer_of("_track", {"run": str(run.path), "tracker": service}, timeout_s=timeout_s,
                                      what=f"tracking by {service}", remedy="Call it again: it goes on from there.")
    notify(f"{answer['rows']:,} rows of {run.name} went to {service}: {answer['where']}.")
    return int(answer["rows"])
