"""Small tables that were recorded for a lesson, so that its student need not wait for what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.errors import UnknownName
from workbench.lessons import notebook_files

if TYPE_CHECKING:
    import pandas as pd


def recorded(name: str) -> pd.DataFrame:
    """The table `name` of notebooks/data, such as "seeds-curves". Raises UnknownName."""
    import pandas as pd

    known = {path.stem: path for path in notebook_files.folder().joinpath("data").glob("*.csv")}
    if name not in known:
        raise UnknownName.among("recorded table", name, known)
    return pd.read_csv(known[name])
