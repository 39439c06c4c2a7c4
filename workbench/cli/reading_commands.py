"""The commands `workbench compare`, `metrics`, `fields` and `logs`: what runs recorded, and what they can be given."""

from __future__ import annotations

import argparse
import shutil
import sys
from typing import TYPE_CHECKING

from workbench import imports
from workbench.errors import printable
from workbench.rundir.files import tail

if TYPE_CHECKING:
    from workbench.running.handle import Run

_LOG_BYTES = 2000  # of each file: its last lines


def width() -> int | None:
    """The columns of the terminal; None where the output is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def compare(args: argparse.Namespace) -> None:
    """Print the runs as `workbench runs` does, and the fields in which they differ."""
    from workbench.running.listing import summaries

    runs = [attached(name) for name in args.runs]
    differences = imports.widget("views.compare").differences(runs)
    print(summaries(run.directory for run in runs).text(width()))
    shown = printable(differences.map(str).to_string())  # pandas would write 1e-08 as 0.0
    print(f"\n{shown}" if len(differences) else "Their configurations do not differ.")


def metrics(args: argparse.Namespace) -> None:
    """Print the names of a run's metrics, or the rows of one as CSV."""
    run = attached(args.name)
    print("\n".join(run.metric_names) if args.metric is None else run.metrics(args.metric).to_csv(index=False).rstrip())


def fields(args: argparse.Namespace) -> None:
    """Print all fields, those of an algorithm, or one."""
    from workbench.config.field_list import fields

    print(fields(args.field).text(width()))


def logs(args: argparse.Namespace) -> None:
    """Print the path of each log of a run, and its last lines."""
    for file in sorted(attached(args.name).directory.logs.glob("*.log")):
        print(f"{file}\n{tail(file, _LOG_BYTES)}".rstrip())


def attached(name: str) -> Run:
    """The handle of a run."""
    from workbench.running.handle import attach

    return attach(name)
