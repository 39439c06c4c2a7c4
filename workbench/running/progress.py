"""What a call says while it works: the progress of a wait as a bar or a line, and sentences where nothing went wrong.

In a terminal a bar has one line, whose least important facts are left out where it is narrow. In a file, such as a log,
each look is a line of its own, at most one in ten seconds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from tqdm.std import tqdm

from workbench.imports import in_notebook

NOTIFIER: ContextVar[Callable[[str], None]] = ContextVar("NOTIFIER", default=print)  # the command line sets its own

_TIMES = " [{elapsed}<{remaining}]"
_LAYOUTS = tuple(f"{{desc}} |{{bar:{width}}}| {{n_fmt}}/{{total_fmt}} {{unit}}{times}{{postfix}}"
                 for width, times in ((24, _TIMES), (10, _TIMES), (4, _TIMES), (4, "")))
_BETWEEN_LINES_S = 10.0  # in a log


def notify(sentence: str) -> None:
    """Print the sentence, or hand it to the command line, which has its own words and keeps stdout for results."""
    NOTIFIER.get()(sentence)


def interactive() -> bool:
    """Whether a person sees the output: in a notebook's cell or a terminal."""
    return sys.stdout.isatty() or in_notebook()


def _is_file() -> bool:
    """Whether the output goes to a file or a pipe, and not to a string of this process."""
    try:
        return sys.stdout.fileno() >= 0
    except (AttributeError, OSError, ValueError):
        return False


class _Bar(tqdm):  # type: ignore[misc]  # tqdm is not typed here
    monitor_interval = 0  # no thread of tqdm's own


class ProgressBar:
    """A bar from `start` to `total` frames (or updates); without a total, a line of text. Use in a `with` block."""

    def __init__(self, name: str, *, unit: str = "", total: float | None = None, start: float = 0, shown: bool) -> None:
        self._logs = shown and not interactive() and _is_file()
        self._bar: Any = _Bar(
            desc=name, unit=unit, total=total, initial=start, disable=not shown or self._logs, file=sys.stdout,
            bar_format=_LAYOUTS[0] if total else "{desc}", unit_scale=True, mininterval=0.2, dynamic_ncols=True,
        )  # fmt: skip
        self._name = name
        self._last_drawing: tuple[float, tuple[str, ...]] | None = None
        self._logged: tuple[float, str] = (-_BETWEEN_LINES_S, "")
        self._has_bar = total is not None

    def show(self, value: float, facts: Sequence[str], *, line: str = "") -> None:
        """Draw the bar at `value` with as many of the facts as fit, the first ones; a line of text has all of them.

        Args:
            line: all of it in one sentence, for a log; "": the facts.
        """
        drawing = (value, tuple(facts))
        if self._logs:
            self._log(line or ", ".join(facts))
        elif not self._bar.disable and drawing != self._last_drawing:
            self._last_drawing = drawing
            if self._has_bar:
                self._bar.n = min(value, self._bar.total)
                self._fit(facts)
            else:
                self._bar.set_description_str(f"{self._name}: {', '.join(facts)}", refresh=False)
            self._bar.refresh()

    def _fit(self, facts: Sequence[str]) -> None:
        """Choose the most facts that fit beside a bar of some length, and then the longest such bar."""
        known = self._bar.format_dict
        for count in range(len(facts), -1, -1):
            for self._bar.bar_format in _LAYOUTS:
                self._bar.postfix = ", ".join(facts[:count])
                fields = {"bar_format": self._bar.bar_format, "postfix": self._bar.postfix, "ncols": None}
                if not known["ncols"] or len(_Bar.format_meter(**(known | fields))) <= known["ncols"]:
                    return

    def _log(self, text: str) -> None:
        now = time.monotonic()
        if text != self._logged[1] and now - self._logged[0] >= _BETWEEN_LINES_S:
            self._logged = now, text
            print(f"{self._name}: {text}", flush=True)

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()
