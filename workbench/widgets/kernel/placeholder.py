"""What a cell shows while something is being made that takes seconds: imports, a process that starts, a first drawing.

It loads nothing but IPython. A view that is shown meanwhile takes its place, so that nothing jumps
(`saved_view.Shown`); without one, its place is empty afterwards.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from IPython.core.getipython import get_ipython
from IPython.display import DisplayHandle, display

_EMPTY = {"text/html": "", "text/plain": ""}
_free: list[tuple[int, DisplayHandle]] = []  # the place that a view of that cell may take; at most one


@contextmanager
def meanwhile(still: Mapping[str, str], *, for_result: bool = False) -> Iterator[None]:
    """Shows outputs by MIME type until the block ends, or a view is shown in it; nothing outside a notebook's cell.

    `for_result`: the view that the block makes is about to be shown: it takes the place also after the block.
    """
    shell = get_ipython()  # type: ignore[no-untyped-call, unused-ignore]
    in_cell = hasattr(shell, "kernel") and threading.current_thread() is threading.main_thread()
    if not in_cell or _replaces_nothing() or _of_cell(shell.execution_count):  # one is enough
        yield
        return
    handle = DisplayHandle()
    _free[:] = [(shell.execution_count, handle)]
    display(dict(still), raw=True, display_id=handle.display_id)
    try:
        yield
    finally:
        if _of_cell(shell.execution_count) == [handle]:
            handle.update(dict(_EMPTY), raw=True)
            if not for_result:
                _free.clear()


def _replaces_nothing() -> bool:
    """Whether what is shown now stays: in Colab's separate pages, and in an Output widget, which takes no updates."""
    models = getattr(sys.modules.get("ipywidgets.widgets.widget"), "_instances", {})
    return "google.colab" in sys.modules or any(getattr(model, "msg_id", "") for model in list(models.values()))


def take() -> DisplayHandle | None:
    """The place of this cell's placeholder, which is the caller's from now on; None if there is none."""
    places = _of_cell(getattr(get_ipython(), "execution_count", None))  # type: ignore[no-untyped-call, unused-ignore]
    _free.clear()
    return places[0] if places else None


def _of_cell(count: int | None) -> list[DisplayHandle]:
    return [handle for cell, handle in _free if cell == count]
