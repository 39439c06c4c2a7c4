"""A history that is followed shows what a fresh look shows: every extreme, the newest row, and no more points."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from workbench.metrics import History, MetricsReader, MetricsWriter, Progress


def at(row: int) -> Progress:
    return Progress(frames=row * 4, steps=row, updates=row, time_s=row / 2)


def write(writer: MetricsWriter, first: int, values: np.ndarray) -> None:
    for row, value in enumerate(values, first):
        writer.scalars(at(row), {"loss": float(value)})
    writer.commit()


@pytest.fixture
def writer(tmp_path: Path) -> MetricsWriter:
    return MetricsWriter(tmp_path / "metrics.sqlite")


def test_following_reads_what_is_new_and_gives_what_was_written(writer: MetricsWriter, tmp_path: Path) -> None:
    history = History(tmp_path / "metrics.sqlite")
    assert history.series({"loss"}) == {}
    for first in (0, 10, 20):
        write(writer, first, np.arange(first, first + 10.0))
        found = history.series({"loss", "unknown"})
        assert found.keys() == {"loss"}
        assert found["loss"]["value"].tolist() == list(range(first + 10))
        assert found["loss"]["frames"][-1] == 4 * (first + 9)


def test_a_long_history_keeps_few_points_both_ends_and_every_extreme(writer: MetricsWriter, tmp_path: Path) -> None:
    history = History(tmp_path / "metrics.sqlite", most_points=200)
    values = np.random.default_rng(0).normal(size=20_000)
    values[[777, 12_345]] = 50, -50
    values[3] = np.nan
    for first in range(0, len(values), 500):
        write(writer, first, values[first : first + 500])
        kept = history.series({"loss"})["loss"]
        assert len(kept["value"]) <= 200
        assert kept["steps"][0] == 0 and kept["steps"][-1] == first + 499
        assert np.nanmax(kept["value"]) == np.nanmax(values[: first + 500])
        assert np.nanmin(kept["value"]) == np.nanmin(values[: first + 500])
    assert (kept["value"] == values[kept["steps"]])[np.isfinite(kept["value"])].all()
    assert np.diff(kept["steps"]).max() < 8 * len(values) / 100  # as fine at the beginning as at the end


def test_a_first_look_at_a_long_history_is_as_a_reader_thins_it(writer: MetricsWriter, tmp_path: Path) -> None:
    write(writer, 0, np.random.default_rng(0).normal(size=9000))
    path = tmp_path / "metrics.sqlite"
    seen, read = History(path).series({"loss"})["loss"], MetricsReader(path).series("loss", max_points=1000)
    for name in read:
        assert np.array_equal(seen[name], read[name])


def test_means_are_of_all_rows_followed_or_seen_at_once(writer: MetricsWriter, tmp_path: Path) -> None:
    followed = History(tmp_path / "metrics.sqlite", most_points=200)
    values = np.random.default_rng(0).exponential(size=9000)
    values[[0, 17, 4000]] = np.nan, np.inf, np.nan
    finite = values[np.isfinite(values)]
    for first in (0, 150, 300, 7000):  # new rows few enough to be kept, then so many that they come thinned out
        write(writer, first, values[first : {0: 150, 150: 300, 300: 7000}.get(first)])
        followed.series({"loss"})
    writer.close()
    for history in (followed, History(tmp_path / "metrics.sqlite")):
        kept = history.series({"loss"})["loss"]
        assert kept["count"].sum() == len(finite)
        known = kept["count"] > 0
        assert np.average(kept["mean"][known], weights=kept["count"][known]) == pytest.approx(finite.mean())
        for end, before, count, mean in zip(kept["steps"][1:], kept["steps"], kept["count"][1:], kept["mean"][1:],
                                            strict=False):
            own = values[before + 1 : end + 1]
            assert count == np.isfinite(own).sum()
            assert not count or mean == pytest.approx(own[np.isfinite(own)].mean())


def test_events_are_followed_too(writer: MetricsWriter, tmp_path: Path) -> None:
    history = History(tmp_path / "metrics.sqlite")
    for number in range(3):
        writer.event("tune", f"number {number}", progress=at(number))
        assert [one["message"] for one in history.events()] == [f"number {one}" for one in range(number + 1)]


def test_another_run_at_the_same_place_is_read_anew(writer: MetricsWriter, tmp_path: Path) -> None:
    path = tmp_path / "metrics.sqlite"
    history = History(path)
    write(writer, 0, np.arange(10.0))
    assert len(history.series({"loss"})["loss"]["value"]) == 10
    writer.close()
    other = MetricsWriter(tmp_path / "other.sqlite")
    write(other, 0, np.array([7.0]))
    other.close()
    (tmp_path / "other.sqlite").replace(path)
    assert history.series({"loss"})["loss"]["value"].tolist() == [7.0]


@pytest.mark.parametrize("rows", [3, 10, 40])
def test_another_run_in_a_file_of_the_same_inode_is_read_anew(tmp_path: Path, rows: int) -> None:
    path, other = tmp_path / "metrics.sqlite", tmp_path / "other.sqlite"
    for place, values in ((path, np.arange(10.0)), (other, 7 + np.arange(float(rows)))):
        one = MetricsWriter(place)
        write(one, 0, values)
        one.event("launch", place.stem, progress=at(0))
        one.close()
    history = History(path)
    assert len(history.series({"loss"})["loss"]["value"]) == 10
    assert [one["message"] for one in history.events()] == ["metrics"]
    inode = path.stat().st_ino
    path.write_bytes(other.read_bytes())  # as ext4 gives the number of a removed file to the next one
    assert path.stat().st_ino == inode
    assert history.series({"loss"})["loss"]["value"].tolist() == list(range(7, 7 + rows))
    assert [one["message"] for one in history.events()] == ["other"]


def test_a_history_whose_file_goes_away_is_empty(writer: MetricsWriter, tmp_path: Path) -> None:
    history = History(tmp_path / "metrics.sqlite")
    write(writer, 0, np.array([np.nan, 2.0, np.nan]))
    writer.event("tune", "one", progress=at(0))
    writer.close()
    assert len(history.events()) == 1 and len(history.series({"loss"})["loss"]["value"]) == 3
    assert len(history.series({"loss"})["loss"]["value"]) == 3, "a row that is no number is as it was"
    (tmp_path / "metrics.sqlite").unlink()
    assert history.events() == [] and history.series({"loss"}) == {}
