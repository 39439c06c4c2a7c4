"""`wb.fields`: the fields of runs and algorithms as a table, before there is a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from workbench.config.algorithms import ALGORITHMS, like
from workbench.config.own_algorithm import config_class, named_algorithm
from workbench.config.run import RunConfig
from workbench.config.settings import SYNONYMS, Setting, settings
from workbench.config.signatures import bounds_of
from workbench.errors import UnknownName, WrongType, checked_arguments
from workbench.tables import Columns, Table, shown

RUN = "run"  # what the fields of every run are listed by, beside the algorithms' names


@dataclass(frozen=True)
class FieldRow:
    """A row of the table.

    Attributes:
        name: of the field; of the algorithm in a table of one field.
        setting: default, unit, bounds, live-or-not, meaning and source of the field.
        having: the algorithms that have the field, the default one first; ("run",) for a field of every run.
        elsewhere: other defaults that it has, such as "r2d2: 0.997"; "" without any.
    """

    name: str
    setting: Setting
    having: tuple[str, ...]
    elsewhere: str = ""


_OF_ONE: Columns = {
    "algorithm": lambda row: row.name,
    "default": lambda row: shown(row.setting.default),
    "values": lambda row: bounds_of(row.setting) or row.setting.unit,
    "live": lambda row: "live" if row.setting.live else "",
    "what it is": lambda row: row.setting.help,
    "source": lambda row: row.setting.source,
}
_COLUMNS: Columns = {"name": lambda row: row.name, **{name: _OF_ONE[name] for name in list(_OF_ONE)[1:]}}
_EVERY: Columns = {"name": _COLUMNS["name"], "of": lambda row: of(row.having), **{
    name: _COLUMNS[name] for name in list(_COLUMNS)[1:]}, "other defaults": lambda row: row.elsewhere}


@checked_arguments(name="wb.fields() lists the fields.")
def fields(name: str | type | None = None) -> Table[FieldRow]:
    """The fields that `wb.launch` takes, as a table: default, values, whether `tune` can change it, meaning, source.

        wb.fields("r2d2")               # those of an algorithm; "run": those of every run
        wb.fields("learning_rate")      # one field, in each algorithm that has it
        wb.fields()["discount"].setting.high

    Args:
        name: an algorithm, also a class of your own, "run", or a field; None: all fields.

    Raises UnknownName with the nearest name, InvalidInput for another class.
    """
    if isinstance(name, type):
        title, own = named_algorithm(name, taken=settings(RunConfig))
        rows = [FieldRow(field.name, field, (title,)) for field in settings(config_class(json.dumps(own))).values()]
        return Table(rows, _COLUMNS, empty="no fields")
    if not isinstance(name, str | None):
        raise WrongType(f"fields({name!r:.100}): give a name, such as 'r2d2' or 'learning_rate'.")
    having = _having()
    if name is None:
        return Table([_row(field, those) for field, those in having.items()], _EVERY, empty="no fields")
    if name == RUN or name in ALGORITHMS:
        rows = [FieldRow(field.name, field, having[field.name]) for field in settings(_config(name)).values()]
        return Table(rows, _COLUMNS, empty="no fields")
    if name not in having:
        raise UnknownName.among("field or algorithm", name, [*having, *ALGORITHMS, RUN], "wb.fields() lists them.",
                                {name: like(name), **SYNONYMS})
    rows = [FieldRow(each, settings(_config(each))[name], having[name]) for each in having[name]]
    return Table(rows, _OF_ONE, empty="no fields")


def of(having: tuple[str, ...]) -> str:
    """Who has a field, in words."""
    return "all algorithms" if len(having) == len(ALGORITHMS) else ", ".join(having)


def _config(name: str) -> type:
    return RunConfig if name == RUN else ALGORITHMS[name]


def _having() -> Mapping[str, tuple[str, ...]]:
    """The algorithms that have each field, or RUN, by the field's name."""
    names: dict[str, tuple[str, ...]] = {}
    for each in (RUN, *ALGORITHMS):
        for field in settings(_config(each)):
            names[field] = (*names.get(field, ()), each)
    return names


def _row(field: str, having: tuple[str, ...]) -> FieldRow:
    first, *others = (settings(_config(each))[field] for each in having)
    differing = [f"{name}: {shown(other.default)}" for name, other in zip(having[1:], others, strict=True)
                 if other.default != first.default]
    return FieldRow(field, first, having, ", ".join(differing))
