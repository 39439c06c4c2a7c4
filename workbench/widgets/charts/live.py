"""Charts that are updated in the page: their specifications travel once, then only changed tables, as binary.

`VegaLib` carries Vega and Vega-Lite, once per kernel. `LiveCharts` shows figures in a grid of cards; every page sends
a hello and receives everything, so that a refreshed page shows the whole history. Messages are numbered: a page that
missed one sends a hello again. Until the first hello every message is complete, because a kernel that reads no messages
while a cell runs cannot answer a hello before the cell ends.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anywidget
import numpy as np
import numpy.typing as npt
import traitlets

from workbench.widgets.charts.altair import alt
from workbench.widgets.kernel import assets

MOST_SPECS = 256  # specifications in the cache

Column = npt.NDArray[Any] | list[str]
Table = Mapping[str, Column]


@dataclass(frozen=True)
class PlainChart:
    """What a chart draws, for a page without Vega, in words.

    Attributes:
        kind: "lines", "returns", "bars", "parts" or "events": which tables the figure has; "" for any other.
        names: of the lines, in the order of their tables.
        log, zero: the vertical axis is logarithmic, or starts at 0.
        stepped, share: as in `charts.lines`.
        x: title of the horizontal axis, where it is not that of time.
    """

    kind: str = ""
    names: tuple[str, ...] = ()
    log: bool = False
    zero: bool = False
    stepped: bool = False
    share: bool = False
    x: str = ""


@dataclass(frozen=True, eq=False)
class Figure:
    """One chart and its data.

    Attributes:
        chart: refers to the `tables` by `alt.NamedData`; an unchanged chart is the same object.
        tables: columns by name for each table, numbers or strings, all of one length.
        wide: takes two columns of the grid, or a row of it, where there is room.
        row: takes a whole row of the grid.
        group: heading of the section that a person opens to see it; "": always shown.
        plain: what it draws.
    """

    title: str
    chart: alt.TopLevelMixin
    tables: Mapping[str, Table]
    wide: bool = False
    row: bool = False
    group: str = ""
    plain: PlainChart = PlainChart()

    def altair(self) -> alt.TopLevelMixin:
        """The chart with its data inside, to restyle or to save."""
        return self.chart.properties(datasets={name: rows(table) for name, table in self.tables.items()})

    def spec(self) -> dict[str, Any]:
        """Its Vega-Lite specification without data, from a cache."""
        entry = _specs.get(id(self.chart))
        if entry is None:
            with alt.data_transformers.enable("default", max_rows=None):  # the notebook may have chosen another
                entry = self.chart, self.chart.to_dict(validate=False)  # twice as fast; the tests validate ours
            if len(_specs) >= MOST_SPECS:
                _specs.pop(next(iter(_specs)), None)
            _specs[id(self.chart)] = entry
        return dict(entry[1])


def over_table(name: str) -> alt.Chart:
    """A chart, or a layer of one, over one of its figure's tables."""
    return alt.Chart(alt.NamedData(name))


_specs: dict[int, tuple[Any, dict[str, Any]]] = {}  # by id of the chart, which is stored so that its id stays unique


def rows(table: Table) -> list[dict[str, Any]]:
    """A table as JSON rows for Vega-Lite; a number that is not finite becomes None."""
    columns = [column if isinstance(column, list) else
               [value if math.isfinite(value) else None for value in column.tolist()]
               for column in map(_column, table.values())]
    return [dict(zip(table, row, strict=True)) for row in zip(*columns, strict=True)]


class VegaLib(anywidget.AnyWidget):  # type: ignore[misc]  # anywidget is not typed
    """Vega and Vega-Lite for every chart of this kernel."""

    _esm = assets.text("library.js")
    source = traitlets.Unicode(assets.text("vega.js")).tag(sync=True)
    _shared: VegaLib | None = None
    _making = threading.Lock()

    @classmethod
    def shared(cls) -> VegaLib:
        """This kernel's VegaLib; a new one if the last was closed."""
        with cls._making:
            if cls._shared is None or cls._shared.comm is None:
                cls._shared = cls()
            return cls._shared


class LiveCharts(anywidget.AnyWidget):  # type: ignore[misc]  # anywidget is not typed
    """A grid of charts, updated by `show`.

    Attributes:
        opened: headings of the groups that are open; the page changes it, and a refreshed page opens them again.
        on_pull: called when a page has received nothing for some seconds, to call `show`; in Colab, messages arrive
            only as answers.
    """

    _esm = assets.text("charts.js")
    _css = assets.text("charts.css")
    lib = anywidget.WidgetTrait().tag(sync=True)
    label = traitlets.Unicode("Charts").tag(sync=True)
    pulls = traitlets.Bool(False).tag(sync=True)
    opened = traitlets.List(traitlets.Unicode()).tag(sync=True)

    def __init__(self, *, label: str = "Charts", on_pull: Callable[[], None] | None = None) -> None:
        super().__init__(lib=VegaLib.shared(), label=label, pulls=on_pull is not None)
        self._figures: dict[str, Figure] = {}
        self._specs: dict[str, dict[str, Any]] = {}
        self._serial = 0
        self._page_connected = False  # whether any page has sent a message
        self._lock = threading.RLock()
        self.on_pull = on_pull
        self.on_msg(self._answer)

    @property
    def figures(self) -> dict[str, Figure]:
        """The figures on the page, by key."""
        return dict(self._figures)

    def show(self, figures: Mapping[str, Figure]) -> None:
        """Shows these figures in this order; sends the charts and tables that changed."""
        with self._lock:
            before = self._figures
            changed = [key for key, figure in figures.items() if _identity(figure) != _identity(before.get(key))]
            specs = {key: _spec(figures[key]) if key in changed else self._specs[key] for key in figures}
            tables = {key: {name: table for name, table in figure.tables.items()
                            if key in changed or not _equal(table, before[key].tables.get(name))}
                      for key, figure in figures.items()}
            self._figures, self._specs = dict(figures), specs
            if changed or any(tables.values()) or list(before) != list(figures):
                self._serial += 1
                if self._page_connected:
                    self._tell(changed, tables)
                else:
                    self._tell_all()

    def _tell_all(self, view: str | None = None) -> None:
        self._tell(list(self._figures), {key: figure.tables for key, figure in self._figures.items()}, view)

    def _tell(
        self, specs: list[str], tables: Mapping[str, Mapping[str, Table]], view: str | None = None
    ) -> None:
        """Sends one message with these charts and tables; it always names all figures in their order.

        `view`: the only page that reads it; its number is that of the newest message to all pages.
        """
        buffers: list[memoryview] = []
        packed = {key: {name: _packed(table, buffers) for name, table in changed.items()}
                  for key, changed in tables.items() if changed}
        charts = {key: {"title": figure.title, "wide": figure.wide, "row": figure.row, "group": figure.group,
                        "spec": self._specs[key]}
                  for key in specs for figure in [self._figures[key]]}
        self.send({"type": "show", "view": view, "serial": self._serial, "whole": len(specs) == len(self._figures),
                   "order": list(self._figures), "figures": charts, "tables": packed}, buffers)

    def _answer(self, _: Any, content: dict[str, Any], __: Any) -> None:
        """Answers a page's request for everything, or for news."""
        kind, view = content.get("type"), content.get("view")
        if kind == "pull" and self.on_pull is not None:
            self.on_pull()
        with self._lock:
            self._page_connected |= kind in ("hello", "pull")
            if kind == "hello" or (kind == "pull" and content.get("serial") != self._serial):
                self._tell_all(view)
            elif kind == "pull":
                self._tell([], {}, view)


def _spec(figure: Figure) -> dict[str, Any]:
    """The figure's specification; for a chart that Altair refuses, {"problem": reason}, which its card shows."""
    try:
        return figure.spec()
    except Exception as error:  # one broken chart must not hide the others
        return {"problem": str(error)}


def _identity(figure: Figure | None) -> tuple[Any, ...] | None:
    """Equal for figures that differ in their data alone."""
    return None if figure is None else (
        figure.title, id(figure.chart), figure.wide, figure.row, figure.group, sorted(figure.tables))


def _equal(table: Table, before: Table | None) -> bool:
    if table is before:
        return True
    return before is not None and table.keys() == before.keys() and all(
        _same(column, before[name]) for name, column in table.items())


def _same(column: Column, before: Column) -> bool:
    if isinstance(column, list) or isinstance(before, list):
        return column is before or (isinstance(column, list) and isinstance(before, list) and column == before)
    return np.array_equal(column, before, equal_nan=True)


def _column(column: Column) -> Column:
    return column if isinstance(column, list) else np.ascontiguousarray(column, "<f8")


def _packed(table: Table, buffers: list[memoryview]) -> dict[str, Any]:
    """A table's header; its numbers, column after column, are appended to `buffers` as one buffer."""
    columns = {name: _column(column) for name, column in table.items()}
    numbers = {name: column for name, column in columns.items() if not isinstance(column, list)}
    if numbers:
        buffers.append(np.concatenate(list(numbers.values())).data)
    texts = {name: column for name, column in columns.items() if isinstance(column, list)}
    return {"length": len(next(iter(columns.values()), [])), "numbers": list(numbers), "texts": texts,
            "buffer": len(buffers) - 1 if numbers else None}
