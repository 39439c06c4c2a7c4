"""A home for the runs of a benchmark, with which they end. No command line: the scripts that launch runs use it."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def private_home(prefix: str = "wb") -> Iterator[str]:
    """A home of its own; every run in it ends with it, also where a launch failed or the script is ended by SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as home:
        os.environ["WORKBENCH_HOME"] = home
        try:
            yield home
        finally:
            import workbench as wb  # not before: newcomer.py measures this import
            from workbench.rundir import ENDED

            for run in (run for run in wb.runs() if run.state not in ENDED):
                with suppress(wb.errors.WorkbenchError):
                    wb.attach(run.name).stop(timeout_s=20)
