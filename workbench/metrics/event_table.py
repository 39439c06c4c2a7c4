"""The events of a run as pandas has them, but with messages that are shown whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd


class EventTable(pd.DataFrame):
    """A DataFrame that shows all columns, and messages of any length: pandas would cut them at 50 characters."""

    @property
    def _constructor(self) -> Callable[..., EventTable]:
        return EventTable  # of some of the rows, too

    def __repr__(self) -> str:
        with _whole():
            return super().__repr__()

    def _repr_html_(self) -> Any:
        with _whole():
            return super()._repr_html_()  # type: ignore[misc]  # not in its stubs


def _whole() -> Any:
    return pd.option_context("display.max_colwidth", None, "display.max_columns", None, "display.width", 10_000)
