"""The badge of a run's state: white on a colour, with the contrast of WCAG AA. Loads nothing, for what shows first."""

from __future__ import annotations

import html

BADGES = {"training": "#2e7d46", "running": "#2e7d46", "starting": "#5b6b7d", "waiting": "#5b6b7d",
          "paused": "#9a5f06", "stopping": "#9a5f06",
          "stopped": "#5b6b7d", "finished": "#1f66b0", "failed": "#b3261e", "dead": "#b3261e"}
_GREY = "#5b6b7d"


def badge(state: str, *, stale: bool = False) -> str:
    """The badge as HTML; grey where the state may be an old one."""
    colour = _GREY if stale else BADGES.get(state, _GREY)
    return (f'<span class="workbench-badge" style="background:{colour};color:#fff;border-radius:9px;padding:1px 9px;'
            f'margin:0 .6em;white-space:nowrap">{html.escape(state)}</span>')
