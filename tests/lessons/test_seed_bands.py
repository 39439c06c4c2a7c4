"""Bands over the seeds of a kind of run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from workbench.lessons.seed_bands import at_common_frames, band


class Logged:
    """A run that has logged some returns."""

    def __init__(self, frames: list[float], value: list[float]) -> None:
        self._rows = pd.DataFrame({"frames": frames, "value": value})

    def metrics(self, _metric: str) -> pd.DataFrame:
        return self._rows


def test_a_mean_is_over_all_seeds_also_where_one_of_them_has_logged_nothing() -> None:
    steady = pd.DataFrame({"frames": [0.0, 50_000, 100_000], "value": [9.0, 9, 9]})
    often = pd.DataFrame({"frames": np.arange(10_000.0, 120_000, 5_000), "value": 90.0})
    rows = at_common_frames([steady, often])
    assert (rows.groupby("frames").seed.nunique() == 2).all()
    assert (rows.frames.min(), rows.frames.max()) == (10_000, 100_000)
    assert np.allclose(rows.groupby("frames").value.mean(), 49.5)


def test_a_curve_is_interpolated_between_its_rows() -> None:
    rows = at_common_frames([pd.DataFrame({"frames": [0.0, 19], "value": [0.0, 38]})])
    assert np.allclose(rows.value, 2 * rows.frames) and len(rows) == 20


def test_a_run_that_has_logged_nothing_leaves_the_others_in_the_chart() -> None:
    runs: Any = {"short": [Logged([], []), Logged([0, 100], [1, 2])], "none": [Logged([], [])]}
    (rows,) = band(runs, "Mean return").to_dict()["datasets"].values()
    assert {(row["run"], row["seed"]) for row in rows} == {("short", 1)}
