"""A checkpoint inspector in a saved notebook: self-contained HTML, its charts, text."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from workbench import tables
from workbench.tables import Table, number
from workbench.widgets.charts import static_render
from workbench.widgets.charts.live import Figure
from workbench.widgets.inspector.figures import LAYERS

SIZE = {"width": 430, "height": 220}  # of a chart, in px
_LEFT_OUT = ("rms", "gradient_rms")


def bundle(
    name: str, table: Table[Any], figures: Mapping[str, Figure], layers: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Data by MIME type.

    Args:
        table: of the checkpoints.
        layers: rows of the table of layers.
    """
    parts = [f"<b>Checkpoints of {html.escape(name)}</b>"]
    images: dict[str, Any] = {}
    if table:
        image = _png(figures)
        images["image/png"] = base64.b64encode(image).decode()
        parts.append(tables.picture(images["image/png"], f"Checkpoints of {name} with their returns and evaluations",
                                    static_render.own_width(image)))
    parts += [table._repr_html_(), _layers(layers)]
    return {"text/html": tables.output("".join(parts), tables.SMALL), "text/plain": repr(table), **images}


def _png(figures: Mapping[str, Figure]) -> bytes:
    spec = static_render.joined(figures)
    for row in spec["vconcat"]:
        for chart in row["hconcat"]:
            chart.update(SIZE)
    return static_render.picture(spec)


def _layers(rows: Sequence[Mapping[str, Any]]) -> str:
    columns = {column.title: partial(_cell, name=column.name) for column in LAYERS if column.name not in _LEFT_OUT}
    return Table(rows, columns, empty="")._repr_html_() if rows else ""


def _cell(row: Mapping[str, Any], *, name: str) -> str:
    value = row.get(name)
    return "" if value is None else number(value) if isinstance(value, float) else str(value)
