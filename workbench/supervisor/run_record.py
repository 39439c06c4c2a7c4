"""The files that a supervisor writes: run.json, the status row, events, and its own log.

A full disk ends no run: `warning` says what cannot be written, and it is written later.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from workbench.errors import RunNotFound, WorkbenchError
from workbench.metrics import MetricsReader, MetricsWriter, Progress
from workbench.metrics.status import RunStatus
from workbench.rundir import RunDirectory, untried
from workbench.rundir.dated_lines import append_dated, print_dated

WAIT_S = 2.0  # for other writers of the metrics; meanwhile the supervisor answers no call


def earlier_status(run: RunDirectory) -> dict[str, Any]:
    """The last status of the run's earlier lives; {} if it cannot be read, which the log says."""
    try:
        row, _ = MetricsReader(run.metrics).status() or ({}, 0.0)
        return row
    except WorkbenchError as error:
        print_dated(f"hours and cost of the run's earlier lives cannot be read, and are counted from 0: {error}")
        return {}


class RunRecord:
    """The files that the supervisor of one run writes. An error of the disk becomes `warning` and is not raised."""

    def __init__(self, run: RunDirectory, writer: MetricsWriter) -> None:
        self._run, self._writer = run, writer
        self._recorded: dict[str, Any] = {}
        self._problems: dict[str, str] = {}  # by file: why it cannot be written now
        self._has_adopted = False

    @property
    def warning(self) -> str:
        """Why files of the run cannot be written now, or ""."""
        return ", ".join(list(self._problems.values()))

    def record(self, facts: dict[str, Any]) -> None:
        """Write `facts` into run.json if they have changed."""
        if facts != self._recorded:
            with self._attempt("run.json"):
                self._run.write(**facts)
                self._recorded = facts

    def status(self, status: RunStatus) -> None:
        """Write the status row and pending events."""
        with self._attempt("metrics"):
            self._writer.status(status.to_json())
            self._writer.commit()

    def event(self, kind: str, message: str, *, progress: Progress | None, data: dict[str, Any] | None = None) -> None:
        """Write an event, and a line in the run's log."""
        append_dated(self._run.logs / "supervisor.log", f"{kind}: {message}")
        with self._attempt("metrics"):
            self._writer.event(kind, message, progress=progress, data=data)

    def adopt_mended_code(self) -> None:
        """Mended code has trained, and is not taken back any more."""
        if not self._has_adopted:
            with self._attempt("code"):
                untried.adopt(self._run)
                self._has_adopted = True

    def close(self) -> None:
        """Write pending entries, and close."""
        with self._attempt("metrics"):
            self._writer.close()

    @contextmanager
    def _attempt(self, file: str) -> Iterator[None]:
        """Turns an error of the disk in the block into the problem of `file`."""
        try:
            yield
        except (OSError, RunNotFound) as error:
            if self._problems.get(file) != str(error):
                print_dated(f"not written: {error}")
            self._problems[file] = str(error)
        else:
            self._problems.pop(file, None)
