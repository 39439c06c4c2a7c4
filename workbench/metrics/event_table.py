"""The events of a run as pandas has them, but with messages that are shown whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

_LONGEST = 50  # characters of `data`


class EventTable(pd.DataFrame):
    """A DataFrame that shows all columns, messages of any length, where pandas would cut them at 50 characters, and of
    `data` as much as pandas would."""

    @property
    def _constructor(self) -> Callable[..., EventTable]:
        return EventTable  # of some of the rows, too

    def __repr__(self) -> str:
        with _whole():
            return pd.DataFrame(self._shortened()).__repr__()

    def _repr_html_(self) -> Any:
        with _whole():
            return pd.DataFrame(self._shortened())._repr_html_()  # type: ignore[operator]  # not in its stubs

    def _shortened(self) -> pd.DataFrame:
        if "data" not in self:
            return self
        texts = self["data"].map(lambda data: text if len(text := str(data)) <= _LONGEST else f"{text[:_LONGEST - 1]}…")
        return self.assign(data=texts)


def _whole() -> Any:
    return pd.option_context("display.max_colwidth", None, "display.max_columns", None, "display.width", 10_000)
