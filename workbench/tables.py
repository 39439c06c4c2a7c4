"""Small tables for notebooks and terminals, which are sequences of rows; numbers, durations and exit codes as text.

Text that another user may have written is escaped: in the output of a cell, in a terminal, in Markdown.
"""

from __future__ import annotations

import html
import math
import operator
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Generic, SupportsIndex, TypeVar, overload

from workbench.errors import NamesNearest, NoSuchIndex, UnknownName, WrongType, printable

SMALL = "font-family:sans-serif;font-size:13px"  # of a view with more than a table

_WRITTEN = re.compile(r"([-+]?(?:\d{1,3}(?:,\d{3}){1,60}|\d{1,200})(?:\.\d{1,200})?) ?([kKMGT]?)", re.ASCII)
_TIMES = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}

Row = TypeVar("Row")
Columns = Mapping[str, Callable[[Any], str]]


def named(name: str, kind: str, rows: Mapping[str, Row]) -> Row:
    """The row of that name; `kind`: of what, such as "row". Raises UnknownName."""
    if name not in rows:
        raise UnknownName.among(kind, name, rows)
    return rows[name]


def evenly_spaced(number: int, *, most: int) -> list[int]:
    """The positions of `number` things, or of `most` of them that are evenly spaced, with the first and the last."""
    shown = min(number, most)
    return [round(at * (number - 1) / max(1, shown - 1)) for at in range(shown)]


def check_index(at: object, length: int, kind: str) -> None:
    """Raises NoSuchIndex or WrongType unless `at` is a slice, or a position in a sequence of that length."""
    if isinstance(at, slice):
        return
    if not isinstance(at, SupportsIndex):
        raise WrongType(f"[{at!r:.100}] finds no {kind}. Give a position, such as 0 or -1, or a name.")
    if not -length <= operator.index(at) < length:
        positions = f"positions go from 0 to {length - 1}, or from -{length} to -1" if length else "there is none yet"
        raise NoSuchIndex(f"[{at!r:.100}] finds no {kind}: {positions}.")


class Table(Sequence[Row], NamesNearest, Generic[Row]):
    """Rows that have a `name`; `table[0]` and `table["name"]` both return a row."""

    def __init__(self, rows: Sequence[Row], columns: Columns, *, empty: str) -> None:
        self._rows = tuple(rows)
        self._columns = columns
        self._empty = empty

    @property
    def _notes(self) -> list[str]:
        """The `problem` of each row that has one, for below the table."""
        problems = ((getattr(row, "name", ""), getattr(row, "problem", "")) for row in self._rows)
        return [f"{name}: {problem}" for name, problem in problems if problem]

    @overload
    def __getitem__(self, at: int | str) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Row]: ...
    def __getitem__(self, at: int | str | slice) -> Row | Sequence[Row]:
        if isinstance(at, str):
            return named(at, "row", {str(getattr(row, "name", "")): row for row in self._rows})
        check_index(at, len(self._rows), "row")
        return self._rows[at]

    def _instead_of(self, name: str) -> str:
        known = not name.startswith("_") and name in {getattr(row, "name", "") for row in self}
        return f"table[{name!r}]" if known else ""

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def _cells(self) -> list[list[str]]:
        return [[show(row) for show in self._columns.values()] for row in self._rows]

    def __repr__(self) -> str:
        return self.text()

    def text(self, width: int | None = None) -> str:
        """The table as text; columns that do not fit into a width are left out, the last ones first, and named."""
        if not self._rows:
            return self._empty
        lines = [[plain(cell) for cell in line] for line in (self._columns, *self._cells())]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self._columns))]
        room = len(widths)
        while width is not None and room > 1 and sum(widths[:room]) + 2 * (room - 1) > width:
            room -= 1
        text = ["  ".join(cell.ljust(size) for cell, size in zip(line[:room], widths, strict=False)).rstrip()
                for line in lines]
        left_out = [f"(a wider terminal shows {', '.join(lines[0][room:])})"] if room < len(widths) else []
        return "\n".join([*text, *left_out, *map(plain, self._notes)])

    def _repr_html_(self) -> str:
        if not self._rows:
            return output(f"<p>{html.escape(self._empty)}</p>")
        head = "".join(f'<th style="text-align:left">{html.escape(name)}</th>' for name in self._columns)
        body = "".join(
            "<tr>" + "".join(f'<td style="text-align:left">{html.escape(cell)}</td>' for cell in line) + "</tr>"
            for line in self._cells()
        )
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self._notes)
        return output(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}")


def plain(text: str) -> str:
    """The text in one line, with characters that move the cursor, colour or reverse text as escapes."""
    return printable(text, but="")


def as_json(value: Any) -> Any:
    """The value as JSON has it: NumPy's numbers as Python's, and None for a number that is not finite."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, dict):
        return {name: as_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """JSON data with each text in it, names included, changed by that function; tuples become lists."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {with_texts(name, change): with_texts(part, change) for name, part in value.items()}
    return [with_texts(part, change) for part in value] if isinstance(value, list | tuple) else value


def output(body: str, style: str = "") -> str:
    """`body` as HTML that scrolls where it is too wide, and has no mathematics, even between two dollar signs."""
    return f'<div class="mathjax_ignore" style="overflow-x:auto;{style}">{body}</div>'


def picture(image: str, alternative: str, style: str = "max-width:100%") -> str:
    """A PNG in base64 as HTML, with a text for those who do not see it; "" for no image."""
    source = f"data:image/png;base64,{image}"
    return f'<img alt="{html.escape(alternative)}" style="{style}" src="{source}">' if image else ""


def counted(count: int | str, nouns: str) -> str:
    """A count before its noun, which is singular after "1": "1 frame", "2,000 frames", "1 frame/s"."""
    text = count if isinstance(count, str) else f"{count:,}"
    noun, slash, per = nouns.partition("/")
    return f"{text} {noun.removesuffix('s') if text == '1' else noun}{slash}{per}"


def number(value: float) -> str:
    """A number as people read it: 950, 12,400, 1.25 M, 10 T."""
    value = float(value)
    for scale, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if abs(value) >= scale:
            return f"{value / scale:,.4g} {letter}"
    return f"{value:,.0f}" if abs(value) >= 100 or value.is_integer() else f"{value:.3g}"


def readable(value: float) -> str:
    """A number as `typed_number` reads it back, to the last digit: 0.0006, 2500, 12,345, 10 M."""
    if 10_000 <= abs(value) < 1e15:
        short = number(value)
        return short if typed_number(short) == value else f"{value:,}" if isinstance(value, int) else str(value)
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def shown(value: object) -> str:
    """A value of a field as text, a number as `readable` has it: 0.0006, 10 M, True, adam."""
    return readable(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def brief(value: object) -> str:
    """A value of a field as text, a float with at most six digits."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def typed_number(text: str) -> float:
    """The number that a person types: 1e7, 10_000_000, or as `number` writes it, 10 M. Raises ValueError."""
    if written := _WRITTEN.fullmatch(text.strip()):
        value = Fraction(written[1].replace(",", "")) * _TIMES[written[2]]  # exact: 1.1 M is 1100000
        return value.numerator if value.denominator == 1 else float(value)
    return float(text)


def duration(seconds: float) -> str:
    """A duration as people say it: 12 s, 3 min, 4 h 10 min, 2 d 3 h; "?" if it is not finite."""
    if not math.isfinite(seconds):
        return "?"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 24 else f"{hours // 24} d {hours % 24} h"


def exit_words(code: int | None) -> str:
    """How a process ended whose exit code, negative for a signal, is `code`: "exit code 1", "signal 9 (SIGKILL)"."""
    if code is None or code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {-code} ({signal.Signals(-code).name})"
    except ValueError:  # a real-time signal, which has no name
        return f"signal {-code}"
