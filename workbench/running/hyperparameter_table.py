"""What a run's tables show: its hyperparameters, and durations in words. See `workbench.tables`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from workbench.config import RunConfig
from workbench.tables import Columns, Table


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
