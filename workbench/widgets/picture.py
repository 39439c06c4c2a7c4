"""Pictures of charts and of a whole run, rendered in this process: no browser, no internet, no kernel later.

`svg` is for a live panel (it takes the notebook's own text colour), `png` and `page` for what a saved notebook keeps.
"""

from __future__ import annotations

import base64
import html
import re
from typing import Any

import altair as alt

from workbench.widgets import dashboard
from workbench.widgets import snapshot as moments
from workbench.widgets.charts import GREY_INK, THEME_INK, Ink, theme
from workbench.widgets.snapshot import Snapshot

Rows = list[list[alt.TopLevelMixin]]

BADGES = {"training": "#2e7d46", "starting": "#5b6b7d", "waiting": "#5b6b7d",
          "paused": "#a8690a", "stopping": "#a8690a",
          "stopped": "#5b6b7d", "finished": "#1f66b0", "failed": "#b3261e", "dead": "#b3261e"}
PNG_SCALE = 1.3  # shown a little smaller than that; a notebook keeps it twice
LATEST_EVENTS = 6


def svg(rows: Rows) -> str:
    """Rows of charts as one SVG element in the text colour of what surrounds it; shrinks with the notebook."""
    import vl_convert

    drawn = str(vl_convert.vegalite_to_svg(_joined(rows, THEME_INK)))
    return re.sub(r'width="([\d.]+)" height="[\d.]+"', r'style="width:100%;max-width:\1px;height:auto"', drawn, count=1)


def png(rows: Rows) -> bytes:
    """Rows of charts as one PNG with a transparent background, readable on white and on black."""
    import vl_convert

    return bytes(vl_convert.vegalite_to_png(_joined(rows, GREY_INK), scale=PNG_SCALE))


def bundle(snapshot: Snapshot) -> dict[str, Any]:
    """What a notebook saves of a run: text/html that needs nothing else, image/png once
    there is something to draw, and text/plain."""
    if not any(len(one) for one in snapshot.series.values()):
        return {"text/html": page(snapshot, ""), "text/plain": text(snapshot)}
    image = base64.b64encode(png(dashboard.rows(snapshot))).decode()
    return {"text/html": page(snapshot, image), "image/png": image, "text/plain": text(snapshot)}


def page(snapshot: Snapshot, image: str) -> str:
    """Headline, table, charts (a PNG in base64, or "") and the latest events, as HTML that loads nothing."""
    cells = "".join(
        f'<div style="margin:0 1.4em .2em 0"><span style="opacity:.65">{html.escape(name)}</span> '
        f"<b>{html.escape(value)}</b></div>" for name, value in moments.facts(snapshot)
    )
    alternative = html.escape(f"Charts of {snapshot.name}: {moments.sentence(snapshot)}")
    source = f"data:image/png;base64,{image}"
    charts = f'<img alt="{alternative}" style="width:100%;max-width:980px" src="{source}">' if image else ""
    return (
        f'<div style="font-family:sans-serif;font-size:13px;max-width:980px">{headline(snapshot)}'
        f'<div style="display:flex;flex-wrap:wrap;margin:.5em 0">{cells}</div>'
        f"{charts}{events(snapshot)}</div>"
    )


def headline(snapshot: Snapshot) -> str:
    """Name, state and what is to be said about it, as HTML."""
    said = moments.reason(snapshot)
    colour = BADGES.get(snapshot.status.state, "#5b6b7d")
    badge = (f'<span style="background:{colour};color:#fff;border-radius:9px;padding:1px 9px;margin:0 .6em">'
             f"{html.escape(snapshot.status.state)}</span>")
    return f'<div style="font-size:14px"><b>{html.escape(snapshot.name)}</b>{badge}{html.escape(said)}</div>'


def events(snapshot: Snapshot) -> str:
    """The latest events as an HTML list, newest first."""
    latest = list(snapshot.events)[-LATEST_EVENTS:][::-1]
    rows = "".join(
        f'<div><span style="opacity:.65">{moments.number(one.get("frames") or 0)} frames · {html.escape(one["kind"])}'
        f'</span> {html.escape(str(one["message"]).splitlines()[0] if one["message"] else "")}</div>' for one in latest
    )
    return f'<div style="margin-top:.4em;line-height:1.5">{rows}</div>' if rows else ""


def text(snapshot: Snapshot) -> str:
    """The run in one or two lines of text."""
    said = moments.reason(snapshot)
    return f"{snapshot.name}: {snapshot.status.state}{', ' + said if said else ''}\n{moments.sentence(snapshot)}"


def _joined(rows: Rows, ink: Ink) -> dict[str, Any]:
    """One specification of all charts. As plain data: Altair copies charts when it joins them."""
    specs = [[_spec(chart) for chart in row] for row in rows]
    datasets = {name: data for row in specs for one in row for name, data in one.pop("datasets", {}).items()}
    apart = {"resolve": {"scale": {"color": "independent"}}, "spacing": 14}
    above = {"vconcat": [{"hconcat": row, **apart} for row in specs], **apart}
    return {"$schema": alt.SCHEMA_URL, **above, "datasets": datasets, "config": theme(ink)}


def _spec(chart: alt.TopLevelMixin) -> dict[str, Any]:
    """The chart's specification without what belongs to a page."""
    with alt.data_transformers.enable("default", max_rows=None):  # the notebook may have chosen another
        spec = chart.to_dict()
    return {key: value for key, value in spec.items() if key not in ("$schema", "config")}
