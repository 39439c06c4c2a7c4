"""Whether a page shows a view, by what its pages say.

A visible page says so every ten seconds (widgets/src/contact.js): one that is reloaded or lost does not say that it has
gone. While a cell runs, a kernel may hear no page, and takes nobody for gone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from IPython import get_ipython

UNSEEN_S = 60.0  # without a word of a page


class Onlookers:
    """The pages that show a view."""

    def __init__(self, *widgets: Any, wake: Callable[[], None]) -> None:
        """Hears what pages say to these widgets. A page that appears, or is looked at again, calls `wake`."""
        self._wake = wake
        self._seen_at = time.monotonic()
        for widget in widgets:
            widget.on_msg(self._hear)

    def expect(self) -> None:
        """A page is about to show the view."""
        self._seen_at = time.monotonic()
        self._wake()

    @property
    def present(self) -> bool:
        """Whether a page shows the view, or may do so without having been heard yet."""
        return time.monotonic() - self._seen_at < UNSEEN_S or _cell_runs()

    def _hear(self, _: Any, content: dict[str, Any], __: Any) -> None:
        silent_s = time.monotonic() - self._seen_at
        self._seen_at = time.monotonic()
        if content.get("type") == "hello" or silent_s > UNSEEN_S / 2:  # half: a tick may be judging it gone
            self._wake()


def _cell_runs() -> bool:
    shell: Any = get_ipython()  # type: ignore[no-untyped-call, unused-ignore]
    return shell is not None and bool(shell.display_trap.is_active)
