"""Pictures of charts and of a whole run, rendered in this process, for saved notebooks.

They need no browser, no internet and no kernel; their grey text is readable on white and on black.
"""

from __future__ import annotations

import base64
import html
import re
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from workbench import tables
from workbench.running.connection import arguments_to_go_on, call_to_resume
from workbench.widgets.charts.altair import alt
from workbench.widgets.charts.live import Figure, rows
from workbench.widgets.episodes import filmstrip
from workbench.widgets.panel import dashboard
from workbench.widgets.panel import snapshot as moments
from workbench.widgets.panel.badge import badge
from workbench.widgets.panel.snapshot import Snapshot

INK = "#7d838c"
WIDTH = 860  # px of a row of plots, without the labels of the first one
BETWEEN = 50  # px between the plots of a row, for the labels of the vertical axis
FIRST, OTHER, STRIP = 130, 105, 48  # heights in px: of the first chart's plot, of others, and of the strip of events
MOST = 4  # charts in a row

WHOLE_WIDTH = "width:100%;max-width:980px"  # of a picture on a page
PNG_SCALE = 1.3  # small, because a notebook holds each picture twice
LATEST_EVENTS = 6
_NOT_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def png(figures: Mapping[str, Figure]) -> bytes:
    """The figures as one PNG with a transparent background, in rows of the same width."""
    return picture(joined(figures))


def picture(spec: Mapping[str, Any], *, scale: float = PNG_SCALE) -> bytes:
    """A Vega-Lite specification as a PNG, without the characters that cannot be drawn."""
    import vl_convert

    return bytes(vl_convert.vegalite_to_png(drawable(spec), scale=scale))


def own_width(png: bytes) -> str:
    """The style of a picture that is as wide as it was drawn, where the page is."""
    width = int.from_bytes(png[16:20])  # in the header of a PNG
    return f"width:{width / PNG_SCALE:.0f}px;max-width:100%"


def drawable(spec: Any) -> Any:
    """A chart's specification without the characters that XML forbids, which names and events may contain."""
    return tables.with_texts(spec, partial(_NOT_XML.sub, ""))


def bundle(snapshot: Snapshot) -> dict[str, Any]:
    """A run's outputs for a saved notebook: self-contained text/html, image/png if there is anything to draw, and
    text/plain."""
    if not snapshot.series:
        return {"text/html": page(snapshot, ""), "text/plain": text(snapshot)}
    image = base64.b64encode(png(dashboard.figures(snapshot))).decode()
    return {"text/html": page(snapshot, image), "image/png": image, "text/plain": text(snapshot)}


def page(snapshot: Snapshot, image: str) -> str:
    """Headline, table, charts (a PNG in base64, or "") and the latest events, as HTML that loads nothing."""
    charts = tables.picture(image, f"Charts of {snapshot.name}: {moments.sentence(snapshot)}", WHOLE_WIDTH)
    facts = filmstrip.named(moments.facts(snapshot))
    body = f"{headline(snapshot)}{collapse(snapshot)}{facts}{charts}{events(snapshot)}{next_lines(snapshot)}"
    return tables.output(body, f"{tables.SMALL};max-width:980px")


def headline(snapshot: Snapshot) -> str:
    """Name, state (of a run that goes on: when it was so), and its reason, as HTML."""
    ended = snapshot.ended
    seen = "" if ended else time.strftime("as of %Y-%m-%d %H:%M", time.localtime(time.time() - snapshot.status.age_s))
    after = html.escape(" · ".join(part for part in (seen, moments.reason(snapshot)) if part))
    return (f'<div style="font-size:14px"><b>{html.escape(snapshot.name)}</b>'
            f"{badge(snapshot.status.state, stale=not ended)}{after}</div>")


def collapse(snapshot: Snapshot) -> str:
    """What the run has lost, and the line that rescues it, as HTML; "" unless its return has collapsed."""
    if not snapshot.status.collapse:
        return ""
    lost, line = (html.escape(text) for text in (
        snapshot.status.collapse_in(tables.number), f"wb.attach({snapshot.name!r}).rescue()"))
    look = "border-left:4px solid #b3261e;padding:2px 8px;margin:4px 0"
    return (f'<div style="{look}">The return has collapsed: {lost}. To go on from its best checkpoint with half the '
            f'learning rate: <code style="user-select:all">{line}</code></div>')


def next_lines(snapshot: Snapshot) -> str:
    """What a reader of a saved notebook may do with the run, as lines to copy."""
    name = snapshot.name
    changes = arguments_to_go_on(snapshot.config, snapshot.status)
    lines = ({"see it live": f"wb.attach({name!r})"} if snapshot.status.alive else
             {"continue it": call_to_resume(name, snapshot.config, snapshot.status),
              "evaluate it": f"wb.evaluate({name!r})", "play with it": f"wb.play({name!r})",
              "start another from it": f"wb.attach({name!r}).fork({changes})"})
    cells = " ".join(f'<span style="white-space:nowrap;margin-right:1.5em"><span style="opacity:.8">{what}:</span> '
                     f"<code>{html.escape(line)}</code></span>" for what, line in lines.items())
    return f'<div style="margin-top:.5em;line-height:1.7">{cells}</div>'


def events(snapshot: Snapshot) -> str:
    """The latest events as an HTML list, newest first."""
    latest = list(snapshot.events)[-LATEST_EVENTS:][::-1]
    rows = "".join(
        f'<div><span style="opacity:.65">{tables.number(event.get("frames") or 0)} frames · '
        f'{html.escape(event["kind"])}</span> '
        f'{html.escape(str(event["message"]).splitlines()[0] if event["message"] else "")}</div>' for event in latest
    )
    return f'<div style="margin-top:.4em;line-height:1.5">{rows}</div>' if rows else ""


def text(snapshot: Snapshot) -> str:
    """The run in one or two lines of text."""
    reason = moments.reason(snapshot)
    return f"{snapshot.name}: {snapshot.status.state}{', ' + reason if reason else ''}\n{moments.sentence(snapshot)}"


def joined(figures: Mapping[str, Figure]) -> dict[str, Any]:
    """One specification of all charts with their data."""
    specs = {key: _renamed(_still(figure.spec()), key) for key, figure in figures.items()}
    data = {f"{key}.{name}": rows(table) for key, figure in figures.items() for name, table in figure.tables.items()}
    apart = {"resolve": {"scale": {"color": "independent"}}}
    first = next(iter(figures))
    placed = []
    for row in in_rows(figures):
        cells = []
        for key, share in row:
            width = round(share * (WIDTH + BETWEEN)) - BETWEEN
            height = STRIP if figures[key].row else FIRST if key == first else OTHER
            cells.append({**specs[key], "width": width, "height": height})
        placed.append({"hconcat": cells, "bounds": "flush", "spacing": BETWEEN, **apart})
    return {"$schema": alt.SCHEMA_URL, "vconcat": placed, "spacing": 14, **apart, "datasets": data, "config": theme()}


def in_rows(figures: Mapping[str, Figure]) -> list[list[tuple[str, float]]]:
    """Rows of keys with their shares of the width: the first chart by itself, the others that are always shown, the
    strip of events, and the charts of groups. Edges are aligned, and the last chart of a row fills it."""
    keys = list(figures)
    strips = [key for key in keys if figures[key].row]
    shown = [key for key in keys[1:] if not figures[key].group and key not in strips]
    grouped = [key for key in keys[1:] if figures[key].group]
    rows = [[(keys[0], 1.0)], *_rows(shown), *([(key, 1.0)] for key in strips if key != keys[0]), *_rows(grouped)]
    return [row for row in rows if row]


def _rows(keys: list[str]) -> list[list[tuple[str, float]]]:
    """The keys in rows of MOST or of one less, whichever leaves the smaller hole, which the last chart fills."""
    if not keys:
        return []
    count = min(len(keys), max((MOST, MOST - 1), key=lambda columns: (len(keys) - 1) % columns - columns))
    rows = [keys[at : at + count] for at in range(0, len(keys), count)]
    return [[(key, 1 / count) for key in row[:-1]] + [(row[-1], 1 - (len(row) - 1) / count)] for row in rows]


def _still(spec: dict[str, Any]) -> dict[str, Any]:
    """The chart without its own settings and without the layer for the pointer, which only a page needs."""
    still = {key: value for key, value in spec.items() if key not in ("$schema", "config", "params")}
    if "layer" in still:
        still["layer"] = [_still(layer) for layer in still["layer"] if layer.get("mark", {}).get("type") != "rect"]
    return still


def _renamed(spec: dict[str, Any], key: str) -> dict[str, Any]:
    """The specification with the figure's key as a prefix of its tables' names."""
    if "layer" in spec:
        spec = {**spec, "layer": [_renamed(layer, key) for layer in spec["layer"]]}
    return {**spec, "data": {"name": f"{key}.{spec['data']['name']}"}} if "data" in spec else spec


def theme() -> dict[str, Any]:
    """Vega-Lite's config for a transparent background, with axes and text in grey."""
    axis = {"gridColor": INK, "gridOpacity": 0.15, "domainColor": INK, "domainOpacity": 0.4,
            "tickColor": INK, "tickOpacity": 0.4, "labelColor": INK, "titleColor": INK,
            "titleFontWeight": "normal", "labelFontSize": 10, "titleFontSize": 10}
    return {
        "background": "transparent", "font": "sans-serif", "axis": axis, "view": {"stroke": None},
        "text": {"color": INK}, "title": {"color": INK, "fontSize": 12, "anchor": "start", "offset": 6},
        "legend": {"labelColor": INK, "labelFontSize": 10, "columnPadding": 8,
                   "layout": {"top": {"direction": "vertical", "anchor": "start"}}},
    }
