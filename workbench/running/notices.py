"""Sentences that a call addresses to its caller where nothing went wrong, such as "pong is stopped already"."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

NOTIFIER: ContextVar[Callable[[str], None]] = ContextVar("NOTIFIER", default=print)  # the command line sets its own


def notify(sentence: str) -> None:
    """Print the sentence, or hand it to the command line, which has its own words and keeps stdout for results."""
    NOTIFIER.get()(sentence)
