"""Small tables that show well in a notebook and in a terminal, and are plain sequences of rows."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from workbench.config import RunConfig
from workbench.errors import UnknownName

Row = TypeVar("Row")
Columns = Mapping[str, Callable[[Any], str]]


class Table(Sequence[Row], Generic[Row]):
    """Rows that have a `name`; `table[0]` and `table["name"]` both find one."""

    def __init__(self, rows: Sequence[Row], columns: Columns, *, empty: str) -> None:
        self._rows = tuple(rows)
        self._columns = columns
        self._empty = empty

    @overload
    def __getitem__(self, at: int | str) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Row]: ...
    def __getitem__(self, at: int | str | slice) -> Row | Sequence[Row]:
        if not isinstance(at, str):
            return self._rows[at]
        by_name = {str(getattr(row, "name", "")): row for row in self._rows}
        if at not in by_name:
            raise UnknownName.among("row", at, by_name)
        return by_name[at]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def _cells(self) -> list[list[str]]:
        return [[show(row) for show in self._columns.values()] for row in self._rows]

    def __repr__(self) -> str:
        if not self._rows:
            return self._empty
        lines = [list(self._columns), *self._cells()]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self._columns))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        )

    def _repr_html_(self) -> str:
        if not self._rows:
            return f"<p>{html.escape(self._empty)}</p>"
        head = "".join(f'<th style="text-align:left">{html.escape(name)}</th>' for name in self._columns)
        body = "".join(
            "<tr>" + "".join(f'<td style="text-align:left">{html.escape(cell)}</td>' for cell in line) + "</tr>"
            for line in self._cells()
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


@dataclass(frozen=True)
class Hyperparameter:
    """One field that `tune` can change while the run learns."""

    name: str
    value: Any
    default: Any
    low: float | None
    high: float | None
    unit: str
    scale: str
    help: str
    choices: tuple[str, ...] = ()
    optional: bool = False
    kind: str = "float"


_HYPERPARAMETER_COLUMNS: Columns = {
    "name": lambda row: row.name,
    "value": lambda row: _short(row.value),
    "default": lambda row: _short(row.default),
    "bounds": lambda row: _bounds(row),
    "unit": lambda row: row.unit,
    "what it is": lambda row: row.help,
}


def hyperparameters(config: RunConfig) -> Table[Hyperparameter]:
    """The live fields of a configuration with their values now."""
    rows = [
        Hyperparameter(
            name, config.value(name), one.default, one.low, one.high, one.unit, one.scale, one.help, one.choices,
            one.optional, one.kind.__name__,
        )
        for name, one in config.all_settings().items()
        if one.live
    ]  # fmt: skip
    return Table(rows, _HYPERPARAMETER_COLUMNS, empty="no live fields")


def _bounds(row: Hyperparameter) -> str:
    if row.kind == "bool":
        return "True | False"
    if row.low is None or row.high is None:
        return " | ".join(row.choices)
    return f"{_short(row.low)} to {_short(row.high)}"


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)


def duration(seconds: float) -> str:
    """Seconds as people say them: 42 s, 5 min, 3.2 h, 2.5 days."""
    for limit, unit, size in ((120, "s", 1), (7200, "min", 60), (172_800, "h", 3600)):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit}" if unit != "h" else f"{seconds / size:.1f} h"
    return f"{seconds / 86_400:.1f} days"
