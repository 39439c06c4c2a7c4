"""A line that says what happened, as HTML that a screen reader announces."""

from __future__ import annotations

import html

_RED = "color:var(--wb-bad,var(--jp-error-color1,#b3261e))"  # the panel's style sheet has the first


def message_line(text: str, *, bad: bool, before: str = "", also: str = "") -> str:
    """The line of a text, or "" for none; one that is `bad` has a sign, after `before`. `also`: more attributes."""
    role = f'class="workbench-bad" role="alert" style="{_RED}"' if bad else 'role="status"'
    return f"<div {role} {also}>{before}{'⚠ ' if bad else ''}{html.escape(text)}</div>" if text else ""
