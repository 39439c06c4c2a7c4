"""Charts that live in the page: their specifications travel once, then only the tables that changed, as binary.

`VegaLib` carries Vega and Vega-Lite, once per kernel. `LiveCharts` shows figures in a grid of cards; every page says
hello and gets all of it, so that a refreshed page shows the whole history. A message is numbered: a page that missed
one says hello again. Until a first page was heard, every message is whole: where the kernel hears nothing while a cell
runs, no hello can be answered before its end.
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

MOST_SPECS = 256  # kept, of charts that were shown

Column = npt.NDArray[Any] | list[str]
Table = Mapping[str, Column]


@dataclass(frozen=True, eq=False)
class Figure:
    """One chart and what it draws.

    Attributes:
        chart: over the `tables`, which it names by `alt.NamedData`; the same object stands for an unchanged chart.
        tables: per name its columns, numbers or strings, all of one length.
        wide: takes two columns of the grid where there is room.
    """

    title: str
    chart: alt.TopLevelMixin
    tables: Mapping[str, Table]
    wide: bool = False

    def altair(self) -> alt.TopLevelMixin:
        """The chart with its data inside: to restyle, to save, to take away."""
        return self.chart.properties(datasets={name: rows(table) for name, table in self.tables.items()})

    def spec(self) -> dict[str, Any]:
        """Its Vega-Lite specification, without data; made once per chart."""
        known = _specs.get(id(self.chart))
        if known is None:
            with alt.data_transformers.enable("default", max_rows=None):  # the notebook may have chosen another
                known = self.chart, self.chart.to_dict(validate=False)  # twice as fast; the tests validate ours
            if len(_specs) >= MOST_SPECS:
                _specs.pop(next(iter(_specs)), None)
            _specs[id(self.chart)] = known
        return dict(known[1])


_specs: dict[int, tuple[Any, dict[str, Any]]] = {}  # by id of the chart, which is kept so that the id stays its own


def rows(table: Table) -> list[dict[str, Any]]:
    """A table as Vega-Lite has it in JSON; what is not a finite number becomes None."""
    columns = [one if isinstance(one, list) else [value if math.isfinite(value) else None for value in one.tolist()]
               for one in (_column(one) for one in table.values())]
    return [dict(zip(table, row, strict=True)) for row in zip(*columns, strict=True)]


class VegaLib(anywidget.AnyWidget):  # type: ignore[misc]  # anywidget is not typed
    """Vega and Vega-Lite for every chart of this kernel."""

    _esm = assets.text("library.js")
    source = traitlets.Unicode(assets.text("vega.js")).tag(sync=True)
    _one: VegaLib | None = None
    _making = threading.Lock()

    @classmethod
    def shared(cls) -> VegaLib:
        """The one of this kernel; a new one where somebody has closed it."""
        with cls._making:
            if cls._one is None or cls._one.comm is None:
                cls._one = cls()
            return cls._one


class LiveCharts(anywidget.AnyWidget):  # type: ignore[misc]  # anywidget is not typed
    """A grid of charts that follows what it is shown.

    Attributes:
        on_pull: called where a page has heard nothing for some seconds, to show what there is; in Colab, messages
            arrive only as answers.
    """

    _esm = assets.text("charts.js")
    _css = assets.text("charts.css")
    lib = anywidget.WidgetTrait().tag(sync=True)
    label = traitlets.Unicode("Charts").tag(sync=True)
    pulls = traitlets.Bool(False).tag(sync=True)

    def __init__(self, *, label: str = "Charts", on_pull: Callable[[], None] | None = None) -> None:
        super().__init__(lib=VegaLib.shared(), label=label)
        self._figures: dict[str, Figure] = {}
        self._specs: dict[str, dict[str, Any]] = {}
        self._serial = 0
        self._asked = False  # by any page
        self._telling = threading.RLock()
        self.on_pull = on_pull
        self.on_msg(self._heard)

    @property
    def on_pull(self) -> Callable[[], None] | None:
        return self._on_pull

    @on_pull.setter
    def on_pull(self, call: Callable[[], None] | None) -> None:
        self._on_pull = call
        self.pulls = call is not None

    @property
    def figures(self) -> dict[str, Figure]:
        """What is shown, by key."""
        return dict(self._figures)

    def show(self, figures: Mapping[str, Figure]) -> None:
        """Show these, in this order: sends the charts and the tables that are not as they were."""
        with self._telling:
            before = self._figures
            changed = [key for key, one in figures.items() if _looks(one) != _looks(before.get(key))]
            specs = {key: _spec(figures[key]) if key in changed else self._specs[key] for key in figures}
            tables = {key: {name: table for name, table in one.tables.items()
                            if key in changed or not _equal(table, before[key].tables.get(name))}
                      for key, one in figures.items()}
            self._figures, self._specs = dict(figures), specs
            if changed or any(tables.values()) or list(before) != list(figures):
                self._serial += 1
                if self._asked:
                    self._tell(changed, tables)
                else:
                    self._tell_all()

    def _tell_all(self, view: str | None = None) -> None:
        self._tell(list(self._figures), {key: one.tables for key, one in self._figures.items()}, view)

    def _tell(
        self, specs: list[str], tables: Mapping[str, Mapping[str, Table]], view: str | None = None
    ) -> None:
        """Send one message with these charts and tables; it always names all figures in their order.

        `view`: the page that asked, which alone takes it; it has the number of the newest message to all.
        """
        buffers: list[memoryview] = []
        told = {key: {name: _packed(table, buffers) for name, table in some.items()}
                for key, some in tables.items() if some}
        charts = {key: {"title": one.title, "wide": one.wide, "spec": self._specs[key]}
                  for key in specs for one in [self._figures[key]]}
        self.send({"type": "show", "view": view, "serial": self._serial, "whole": len(specs) == len(self._figures),
                   "order": list(self._figures), "figures": charts, "tables": told}, buffers)

    def _heard(self, _: Any, content: dict[str, Any], __: Any) -> None:
        """A page asks for everything, or for what is new."""
        asked, view = content.get("type"), content.get("view")
        if asked == "pull" and self._on_pull:
            self._on_pull()
        with self._telling:
            self._asked |= asked in ("hello", "pull")
            if asked == "hello" or (asked == "pull" and content.get("serial") != self._serial):
                self._tell_all(view)
            elif asked == "pull":
                self._tell([], {}, view)


def _spec(figure: Figure) -> dict[str, Any]:
    """The figure's specification; of a chart that Altair refuses, {"problem": why}, which its card shows."""
    try:
        return figure.spec()
    except Exception as error:  # whatever is wrong with one chart, the others are shown
        return {"problem": str(error)}


def _looks(figure: Figure | None) -> tuple[Any, ...] | None:
    """What makes a chart another one; its data does not."""
    return None if figure is None else (figure.title, id(figure.chart), figure.wide, sorted(figure.tables))


def _equal(table: Table, before: Table | None) -> bool:
    if table is before:
        return True
    return before is not None and table.keys() == before.keys() and all(
        _same(one, before[name]) for name, one in table.items())


def _same(column: Column, before: Column) -> bool:
    if isinstance(column, list) or isinstance(before, list):
        return column is before or (isinstance(column, list) and isinstance(before, list) and column == before)
    return np.array_equal(column, before, equal_nan=True)


def _column(column: Column) -> Column:
    return column if isinstance(column, list) else np.ascontiguousarray(column, "<f8")


def _packed(table: Table, buffers: list[memoryview]) -> dict[str, Any]:
    """What is said of a table; its numbers, column after column, become one more of the buffers."""
    columns = {name: _column(one) for name, one in table.items()}
    numbers = {name: one for name, one in columns.items() if not isinstance(one, list)}
    if numbers:
        buffers.append(np.concatenate(list(numbers.values())).data)
    texts = {name: one for name, one in columns.items() if isinstance(one, list)}
    return {"length": len(next(iter(columns.values()), [])), "numbers": list(numbers), "texts": texts,
            "buffer": len(buffers) - 1 if numbers else None}
