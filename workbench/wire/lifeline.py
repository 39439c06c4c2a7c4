"""Ends a child process when its supervisor is gone.

The child's standard input is a pipe whose other end only the supervisor holds. Whatever ends the supervisor,
SIGKILL too, closes the pipe; a thread sees that and ends the child.
"""

from __future__ import annotations

import os
import sys
import threading


def end_with_parent() -> None:
    """Start the thread that ends this process when standard input closes."""
    threading.Thread(target=_watch, name="lifeline", daemon=True).start()


def _watch() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    print("the supervisor is gone; ending", file=sys.stderr, flush=True)
    os._exit(0)
