"""The progress of a wait in a cell or a terminal: a bar, or one line that is rewritten."""

from __future__ import annotations

import sys
from typing import Any

from tqdm.std import tqdm


def interactive() -> bool:
    """Whether a person sees the output: in a notebook's cell or a terminal."""
    if sys.stdout.isatty():
        return True
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


class _Bar(tqdm):  # type: ignore[misc]  # tqdm is not typed here
    monitor_interval = 0  # no thread of tqdm's own


class Progress:
    """A bar from `start` to `total` frames (or updates); without a total, a line of text. Use in a `with` block."""

    def __init__(self, name: str, *, unit: str = "", total: float | None = None, start: float = 0, shown: bool) -> None:
        layout = "{desc} |{bar:24}| {n_fmt}/{total_fmt} {unit} [{elapsed}<{remaining}]{postfix}" if total else "{desc}"
        self._bar: Any = _Bar(
            desc=name, unit=unit, total=total, initial=start, disable=not shown, file=sys.stdout, bar_format=layout,
            unit_scale=True, mininterval=0.2, dynamic_ncols=True,
        )  # fmt: skip
        self._name = name
        self._last_drawing: tuple[float, str] | None = None
        self._has_bar = total is not None

    def show(self, value: float, text: str) -> None:
        """Draw the bar at `value`, with the text, if either has changed."""
        if self._bar.disable or (value, text) == self._last_drawing:
            return
        self._last_drawing = (value, text)
        if self._has_bar:
            self._bar.n = min(value, self._bar.total)
            self._bar.set_postfix_str(text, refresh=False)
        else:
            self._bar.set_description_str(f"{self._name}: {text}", refresh=False)
        self._bar.refresh()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()
