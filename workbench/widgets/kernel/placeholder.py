"""What a cell shows while its view is being made: in a fresh kernel, imports, reading and drawing take seconds.

It loads nothing but IPython. The view takes its place in the cell, so that nothing jumps (`saved_view.Shown`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import DisplayHandle, display

_WAITING: ContextVar[DisplayHandle | None] = ContextVar("WAITING", default=None)


@contextmanager
def meanwhile(still: Mapping[str, str]) -> Iterator[None]:
    """Shows outputs by MIME type until a view is shown in the block, or the block ends."""
    if not InteractiveShell.initialized():
        yield
        return
    handle = DisplayHandle()
    display(dict(still), raw=True, display_id=handle.display_id)
    token = _WAITING.set(handle)
    try:
        yield
    finally:
        if take() is not None:  # nothing was shown in its place
            handle.update({"text/html": "", "text/plain": ""}, raw=True)
        _WAITING.reset(token)


def take() -> DisplayHandle | None:
    """The place of the placeholder, which is the caller's from now on; None if there is none."""
    handle = _WAITING.get()
    _WAITING.set(None)
    return handle
