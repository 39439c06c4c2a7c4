"""Lines of a log with the time of now. A log that cannot be written, as on a full disk, hinders nobody."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from pathlib import Path

from workbench.rundir.files import to_append


def append_dated(path: Path, line: str) -> None:
    """Append the line to that file, from any thread."""
    with suppress(OSError), to_append(path) as file:
        file.write(f"{_dated(line)}\n".encode())


def print_dated(line: str) -> None:
    """Print the line on standard error."""
    with suppress(OSError):
        print(_dated(line), file=sys.stderr, flush=True)


def _dated(line: str) -> str:
    return f"{time.strftime('%F %T')} {line}"
