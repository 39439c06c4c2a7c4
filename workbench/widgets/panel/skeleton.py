"""The first sight of a panel: name and state, with grey places for numbers and charts. It loads no widget."""

from __future__ import annotations

import html

from workbench import tables
from workbench.metrics.status import RunStatus
from workbench.widgets.panel.badge import badge

_GREY = "background:rgba(128,128,128,.16);border-radius:6px"
_CHARTS = 6


def bundle(status: RunStatus) -> dict[str, str]:
    """The outputs of a cell that is about to show the run's panel, by MIME type."""
    head = f"<b>{html.escape(status.name)}</b>{badge(status.state, stale=True)}reading…"
    chart = f'<div style="{_GREY};height:210px"></div>'
    grid = "display:grid;grid-template-columns:repeat(auto-fill,minmax(min(260px,100%),1fr));gap:10px"
    body = (f'<div role="status" style="font-size:15px">{head}</div>'
            f'<div style="{_GREY};height:10px;margin:6px 0 22px"></div>'
            f'<div style="{_GREY};height:44px;max-width:420px;margin-bottom:64px"></div>'
            f'<div aria-hidden="true" style="{grid}">{chart * _CHARTS}</div>')
    return {"text/html": tables.output(body, f"{tables.SMALL};max-width:1320px"),
            "text/plain": f"{tables.plain(status.name)}: {status.state}, reading…"}
