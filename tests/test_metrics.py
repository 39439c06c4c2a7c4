"""The history of a run: what is stored is read back, alive or dead, and nothing that fails fails quietly."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import mounted_disk
from workbench.errors import ShapeMismatch, StorageFailed
from workbench.metrics import MetricsReader, MetricsWriter, Progress, check_whole
from workbench.metrics.history import History
from workbench.rundir import RunDirectory

COLUMNS = ["frames", "steps", "updates", "time_s", "value"]


def at(update: int) -> Progress:
    return Progress(frames=80 * update, steps=20 * update, updates=update, time_s=0.5 * update)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metrics.sqlite"


@pytest.fixture
def writer(path: Path) -> Iterator[MetricsWriter]:
    made = MetricsWriter(path)
    yield made
    made.close()


@contextmanager
def process(code: str, *arguments: object, **options: object) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    child = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, env=environment, **options)  # type: ignore
    try:
        yield child
    finally:
        child.kill()
        child.communicate(timeout=240)


WRITES_FOREVER = """
import itertools, sys
from pathlib import Path
from workbench.metrics import MetricsWriter, Progress
writer = MetricsWriter(Path(sys.argv[1]))
for update in itertools.count(int(sys.argv[2])):
    writer.scalars(Progress(80 * update, 20 * update, update, 0.5 * update), {"loss": float(update), "entropy": 1.0})
    writer.episode(Progress(80 * update, 20 * update, update, 0.0), env_id=0, episode_return=1.0, length_steps=9)
    writer.commit()
    print(update, flush=True)
"""

WRITES_HALF = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in ("journal_mode = TRUNCATE", "cache_size = 5"):  # so small that a write begins before its COMMIT
    connection.execute(f"PRAGMA {statement}")
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE metrics SET value = -1.0")
os._exit(9)
"""

WRITES_ONE_NAME = """
import sys
from pathlib import Path
from workbench.metrics import MetricsWriter, Progress
writer = MetricsWriter(Path(sys.argv[1]))
for update in range(int(sys.argv[2])):
    writer.scalars(Progress(update, update, update, 0.0), {"loss": float(update), sys.argv[3]: 1.0})
    writer.commit()
writer.event("stop", sys.argv[3])
writer.close()
"""


def test_a_series_reads_back_as_it_was_written(writer: MetricsWriter, path: Path) -> None:
    for update in range(5):
        writer.scalars(at(update), {"loss": update / 3, "entropy": np.float32(0.5)})
    writer.commit()
    series = MetricsReader(path).series("loss")
    assert list(series) == COLUMNS
    assert [series[name].dtype for name in COLUMNS] == [np.int64] * 3 + [np.float64] * 2
    assert series["frames"].tolist() == [0, 80, 160, 240, 320]
    assert series["time_s"].tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert series["value"].tolist() == [update / 3 for update in range(5)]
    assert MetricsReader(path).names() == ["entropy", "loss"]


def test_rows_are_invisible_before_their_commit(writer: MetricsWriter, path: Path) -> None:
    writer.scalars(at(1), {"loss": 1.0})
    assert MetricsReader(path).names() == []
    writer.commit()
    assert MetricsReader(path).names() == ["loss"]


def test_rows_wait_while_the_file_is_gone(writer: MetricsWriter, path: Path) -> None:
    writer.commit()
    away = path.rename(path.with_name("away"))
    writer.scalars(Progress(4, 1, 1, 0.5), {"loss": 2.0})
    with pytest.raises(StorageFailed, match="metrics.sqlite is gone while its run is alive. Move it back"):
        writer.commit()
    shutil.copy(away, path)
    with pytest.raises(StorageFailed, match="metrics.sqlite is another file than the one that its run writes into"):
        writer.commit()
    away.rename(path)
    writer.commit()
    assert MetricsReader(path).series("loss")["value"].tolist() == [2.0]


def test_values_that_are_not_finite_read_back_as_such(writer: MetricsWriter, path: Path) -> None:
    values = [1.0, float("nan"), float("inf"), -float("inf")]
    for update, value in enumerate(values):
        writer.scalars(at(update), {"loss": value})
    writer.commit()
    np.testing.assert_array_equal(MetricsReader(path).series("loss")["value"], values)


def test_scores_are_kept_apart_from_returns_and_are_missing_where_nobody_tells_them(
    writer: MetricsWriter, path: Path
) -> None:
    writer.episode(at(1), env_id=0, episode_return=1.5, length_steps=9, score=np.float32(3.0))  # type: ignore[arg-type]
    writer.episode(at(2), env_id=1, episode_return=2.5, length_steps=8)
    writer.episode(at(3), env_id=1, episode_return=0.5, length_steps=7, kind="evaluation", score=0.0)
    writer.commit()
    reader = MetricsReader(path)
    np.testing.assert_array_equal(reader.episodes()["score"], [3.0, np.nan, 0.0])
    assert reader.series("episode_score")["value"].tolist() == [3.0]
    assert reader.series("evaluation_score")["value"].tolist() == [0.0]
    assert reader.series("episode_return")["value"].tolist() == [1.5, 2.5]


def test_numpy_numbers_are_taken_as_numbers(writer: MetricsWriter, path: Path) -> None:
    progress = Progress(np.int64(2**40), np.int64(7), np.int32(3), np.float32(1.5))  # type: ignore[arg-type]
    writer.scalars(progress, {"loss": np.float64(0.25)})
    writer.episode(progress, env_id=np.int64(3), episode_return=np.float32(2.5), length_steps=np.int64(11))  # type: ignore
    writer.event("tune", "changed", progress=progress, data={"old": np.float32(0.5), "path": Path("a")})
    series, event = MetricsReader(path).series("loss"), MetricsReader(path).events()[0]
    assert series["frames"].tolist() == [2**40]
    assert event["data"] == {"old": 0.5, "path": "a"}
    assert MetricsReader(path).episodes()["env_id"].tolist() == [3]


def test_a_reader_of_a_file_that_is_not_there_yet_has_empty_results(path: Path) -> None:
    reader = MetricsReader(path)
    assert reader.names() == [] and reader.events() == []
    assert reader.status() is None and reader.distribution("policy_lag") is None
    assert [len(column) for column in reader.series("loss", max_points=10).values()] == [0] * 5
    assert all(len(column) == 0 for column in reader.episodes().values())
    assert not path.exists()
    path.touch()
    assert reader.names() == []


def test_an_unknown_series_is_empty(writer: MetricsWriter, path: Path) -> None:
    assert len(MetricsReader(path).series("loss", max_points=10)["value"]) == 0


def test_episodes_have_rows_of_their_own_and_are_series(writer: MetricsWriter, path: Path) -> None:
    writer.episode(at(1), env_id=4, episode_return=-21.0, length_steps=764)
    writer.episode(at(2), env_id=5, episode_return=18.5, length_steps=1700)
    writer.episode(at(2), env_id=0, episode_return=20.0, length_steps=1650, kind="evaluation")
    writer.commit()
    reader = MetricsReader(path)
    episodes = reader.episodes()
    assert episodes["kind"].tolist() == ["training", "training", "evaluation"]
    assert episodes["env_id"].tolist() == [4, 5, 0]
    assert episodes["length_steps"].tolist() == [764, 1700, 1650]
    assert reader.episodes(since_id=int(episodes["id"][1]))["episode_return"].tolist() == [20.0]
    assert reader.series("episode_return")["value"].tolist() == [-21.0, 18.5]
    assert reader.series("episode_length")["value"].tolist() == [764, 1700]
    assert reader.series("evaluation_return")["value"].tolist() == [20.0]


def test_an_event_is_committed_at_once_with_all_that_waited(writer: MetricsWriter, path: Path) -> None:
    writer.scalars(at(3), {"loss": 1.0})
    writer.event("tune", "learning rate 6e-4 → 3e-4", progress=at(3), data={"learning_rate": 3e-4})
    writer.event("restart", "actor 1")
    reader = MetricsReader(path)
    first, second = reader.events()
    assert (first["kind"], first["message"]) == ("tune", "learning rate 6e-4 → 3e-4")
    assert first["data"] == {"learning_rate": 3e-4} and first["frames"] == 240
    assert abs(first["time"] - time.time()) < 60
    assert second["data"] == {} and second["frames"] is None
    assert reader.events(since_id=first["id"]) == [second]
    assert reader.events(oldest=1) == [first] and reader.events(oldest=5) == [first, second]
    assert reader.names() == ["loss"]


def test_an_event_with_half_a_character_blocks_none_of_the_others(writer: MetricsWriter, path: Path) -> None:
    writer.event("error", "no file named \udcff")
    writer.event("restart", "actor 1")
    assert [event["message"] for event in MetricsReader(path).events()] == [r"no file named \udcff", "actor 1"]


def test_the_newest_distribution_and_status_replace_the_older(writer: MetricsWriter, path: Path) -> None:
    for update in (1, 2):
        writer.distribution("policy_lag", at(update), [0, 1, 2], [update, 10 * update])
        writer.status({"state": "training", "updates": update})
        writer.commit()
    found = MetricsReader(path).distribution("policy_lag")
    assert found is not None
    assert found["edges"].tolist() == [0, 1, 2] and found["counts"].tolist() == [2, 20] and found["updates"] == 2
    status = MetricsReader(path).status()
    assert status is not None
    assert status[0] == {"state": "training", "updates": 2} and abs(status[1] - time.time()) < 60


def test_a_distribution_whose_edges_do_not_fit_its_counts_is_refused(writer: MetricsWriter) -> None:
    with pytest.raises(ShapeMismatch, match="2 counts and 2 edges.*: 3"):
        writer.distribution("policy_lag", at(1), [0, 1], [3, 4])


def test_rows_beyond_the_checkpoint_stay_after_a_resume_in_the_order_they_came(
    writer: MetricsWriter, path: Path
) -> None:
    for update in (1, 2, 3, 4):
        writer.scalars(at(update), {"loss": 0.0})
    writer.event("resume", "from update 2", progress=at(2))
    for update in (3, 4, 5):
        writer.scalars(at(update), {"loss": 1.0})
    writer.commit()
    assert MetricsReader(path).series("loss")["updates"].tolist() == [1, 2, 3, 4, 3, 4, 5]


def test_updates_and_frames_ahead_of_a_checkpoint_are_left_behind(writer: MetricsWriter, path: Path) -> None:
    for update in (0, 1, 2):
        writer.scalars(at(update), {"loss": 0.0})
    writer.scalars(Progress(frames=170, steps=42, updates=2, time_s=1.1), {"loss": 0.0})  # while it was written
    writer.commit()
    restored(writer, path, update=2)
    assert MetricsReader(path).series("loss")["frames"].tolist() == [0, 80, 160]
    writer.scalars(Progress(frames=180, steps=45, updates=2, time_s=1.2), {"loss": 0.0})  # a replay fills again
    writer.commit()
    restored(writer, path, update=2)
    assert MetricsReader(path).series("loss")["frames"].tolist() == [0, 80, 160]
    restored(writer, path, update=0)
    assert MetricsReader(path).series("loss")["frames"].tolist() == [0]


def restored(writer: MetricsWriter, path: Path, *, update: int) -> None:
    writer.event("restore", "continues", progress=at(update), data={"rows": MetricsReader(path).lengths()})


@pytest.mark.parametrize("max_points", [None, 200])
def test_rows_that_a_restore_left_behind_stay_in_the_file_and_on_no_curve(
    writer: MetricsWriter, path: Path, max_points: int | None
) -> None:
    history, reader = History(path, most_points=200), MetricsReader(path)
    for life, (first, last) in enumerate([(0, 2_000), (1_000, 1_500), (1_200, 3_000)]):
        if life:
            restored(writer, path, update=first)
        for update in range(first + 1, last + 1):
            writer.scalars(at(update), {"loss": float(life), "new": 1.0} if life else {"loss": 0.0})
        writer.commit()
        history.series(["loss"])  # holds the rows that the next life leaves behind
    expected = {**{update: 0.0 for update in range(1, 1_001)}, **{update: 1.0 for update in range(1_001, 1_201)},
                **{update: 2.0 for update in range(1_201, 3_001)}}
    for rows in (reader.series("loss", max_points=max_points), history.series(["loss"])["loss"]):
        assert (np.diff(rows["updates"]) > 0).all() and rows["updates"][-1] == 3_000
        assert rows["value"].tolist() == [expected[update] for update in rows["updates"].tolist()]
    assert len(reader.series("loss")["value"]) == 3_000
    assert reader.lengths() == {"loss": 2_000 + 500 + 1_800, "new": 500 + 1_800}
    means = reader.means("loss", points=50)
    assert (np.diff(means["frames"]) > 0).all() and means["value"].min() == 0.0
    assert reader.series("new")["updates"].tolist() == list(range(1_001, 1_201)) + list(range(1_201, 3_001))


def test_an_episode_of_another_learner_that_arrives_late_is_kept_and_brings_back_nothing(
    writer: MetricsWriter, path: Path
) -> None:
    def rows(*frames: int) -> None:
        for each in frames:
            writer.scalars(Progress(each, each, each, float(each)), {"episode_return": float(each)})
        writer.commit()

    def restored_at(frames: int) -> None:
        writer.event("restore", "continues", progress=Progress(frames, frames, frames, 1.0),
                     data={"rows": MetricsReader(path).lengths()})

    rows(80, 90, 100, 110, 120, 96)
    restored_at(100)
    rows(110, 120, 104)
    assert MetricsReader(path).series("episode_return")["frames"].tolist() == [80, 90, 100, 96, 110, 120, 104]
    restored_at(92)
    rows(95)
    assert MetricsReader(path).series("episode_return")["frames"].tolist() == [80, 90, 95]


def test_late_episodes_may_alternate_with_those_that_are_ahead(writer: MetricsWriter, path: Path) -> None:
    for number in range(1_500):
        for frames in (200 + number, 50):
            writer.scalars(Progress(frames, frames, 1, 1.0), {"episode_return": float(frames)})
    writer.commit()
    writer.event("restore", "continues", progress=Progress(100, 100, 1, 1.0), data={"rows": {"episode_return": 3_000}})
    reader = MetricsReader(path)
    assert reader.series("episode_return")["frames"].tolist() == [50] * 1_500
    assert set(reader.series("episode_return", max_points=100)["frames"].tolist()) == {50}
    assert reader.means("episode_return", points=10)["value"].tolist() == [50.0] * 10


def test_a_history_of_many_restores_is_read_soon(writer: MetricsWriter, path: Path) -> None:
    names, done = [f"m{number}" for number in range(20)], 0
    for life in range(100):
        if life:
            restored(writer, path, update=done)
        for update in range(done + 1, done + 61):
            writer.scalars(at(update), dict.fromkeys(names, 1.0))
        writer.commit()
        done += 30
    history, began = History(path, most_points=2_000), time.process_time()
    for _ in range(10):
        assert history.series(names)["m0"]["updates"][-1] == done + 30
    assert time.process_time() - began < 5, "0.2 s on a fast machine"


@pytest.mark.parametrize("lives", [[(0, 2_000), (1_990, 4_000)], [(0, 70), (3, 500), (0, 9_000), (8_990, 9_100)],
                                   [(0, 30_000), (4_200, 20_000), (19_999, 31_000), (30_999, 40_000)]])
def test_what_a_restore_left_behind_is_in_no_extreme_count_or_mean_of_a_thinned_series(
    writer: MetricsWriter, path: Path, lives: list[tuple[int, int]]
) -> None:
    random, reader = np.random.default_rng(0), MetricsReader(path)
    for life, (first, last) in enumerate(lives):
        if life:
            restored(writer, path, update=first)
        for update in range(first + 1, last + 1):
            left = any(start < update for start, _ in lives[life + 1 :])
            writer.scalars(at(update), {"loss": float(random.choice([-1e6, 1e6])) if left else random.normal()})
            if update % 5_000 == 0 or update == last:
                writer.commit()
    every = reader.series("loss")
    assert every["updates"].tolist() == list(range(1, lives[-1][1] + 1)) and abs(every["value"]).max() < 10
    thin = reader.series("loss", max_points=50)
    assert (thin["value"].max(), thin["value"].min()) == (every["value"].max(), every["value"].min())
    assert [thin["updates"][place] for place in (0, -1)] == [1, lives[-1][1]] and len(thin["value"]) <= 50
    rows, _ = reader.newer({"loss": 0}, max_points=100)["loss"]
    ends = np.searchsorted(every["updates"], rows["updates"])
    stretches = np.split(every["value"], ends[:-1] + 1)
    assert rows["count"].tolist() == [len(stretch) for stretch in stretches]
    assert rows["mean"] == pytest.approx([stretch.mean() for stretch in stretches])
    restored(writer, path, update=0)
    assert len(reader.newer({"loss": 0}, max_points=100)["loss"][0]["mean"]) == 0


@pytest.mark.parametrize("length", [500, 5_000, 30_000, 100_000])
@pytest.mark.parametrize("max_points", [20, 200])
def test_a_decimated_series_keeps_ends_and_extremes_at_their_places(path: Path, length: int, max_points: int) -> None:
    values = np.random.default_rng(length).normal(size=length)
    values[length // 3], values[length // 2], values[length // 5] = 1e6, -1e6, np.nan
    writer = MetricsWriter(path)
    for start in range(0, length, 7_001):
        for update in range(start, min(start + 7_001, length)):
            writer.scalars(at(update), {"loss": values[update]})
        writer.commit()
    writer.close()
    series = MetricsReader(path).series("loss", max_points=max_points)
    updates = series["updates"]
    assert max_points // 2 <= len(updates) <= max_points
    assert {0, length // 3, length // 2, length - 1} <= set(updates.tolist())
    assert (np.diff(updates) > 0).all()
    np.testing.assert_array_equal(series["value"], values[updates])
    assert np.diff(updates).max() < 4 * length / (max_points // 2 - 1)


def test_the_extremes_of_every_stretch_of_a_long_series_are_kept(path: Path) -> None:
    values = np.random.default_rng(1).normal(size=64 * 400)
    writer = MetricsWriter(path)
    for update, value in enumerate(values):
        writer.scalars(at(update), {"loss": value})
        if update % 5_000 == 0:
            writer.commit()
    writer.close()
    kept = set(MetricsReader(path).series("loss", max_points=202)["updates"].tolist())
    for stretch in range(100):  # 256 rows are 4 rollups of 64
        piece = values[256 * stretch : 256 * (stretch + 1)]
        assert {256 * stretch + int(piece.argmin()), 256 * stretch + int(piece.argmax())} <= kept


def test_a_series_of_nothing_but_nan_can_be_decimated(path: Path) -> None:
    writer = MetricsWriter(path)
    for update in range(9_000):
        writer.scalars(at(update), {"loss": float("nan")})
    writer.close()
    series = MetricsReader(path).series("loss", max_points=50)
    assert 0 < len(series["value"]) <= 50 and np.isnan(series["value"]).all()


def test_a_writer_killed_again_and_again_loses_no_committed_row(path: Path) -> None:
    """SIGKILL at any moment; the reader reads all the while, and each life goes on where the last one was seen."""
    failures: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        seen = 0
        while not done.is_set():
            try:
                now = len(MetricsReader(path).series("loss")["value"])
                assert now >= seen, f"rows went away: {seen} → {now}"
                seen = now
            except BaseException as error:
                failures.append(error)
                return

    reading = threading.Thread(target=read)
    reading.start()
    try:
        confirmed = -1
        for life in range(5):
            with process(WRITES_FOREVER, path, confirmed + 1) as child:
                assert child.stdout is not None
                for _ in range(20 + 15 * life):
                    confirmed = int(child.stdout.readline())
                os.kill(child.pid, signal.SIGKILL)
                rest, _ = child.communicate(timeout=240)
                confirmed = int(rest.split()[-1]) if rest.split() else confirmed
            both = MetricsReader(path).newer({"loss": 0, "entropy": 0}, max_points=10**8)  # one view of the file
            updates, others = (both[name][0]["updates"].tolist() for name in ("loss", "entropy"))
            assert set(range(confirmed + 1)) <= set(updates) and updates == others
            # what was committed as the writer was killed may be seen by the next one only who recovers the log
            assert 0 <= len(MetricsReader(path).episodes()["id"]) - len(updates) <= 1
    finally:
        done.set()
        reading.join(timeout=240)
    assert not failures
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_two_writers_and_a_reader_share_one_file(path: Path) -> None:
    with process(WRITES_ONE_NAME, path, 300, "a") as a, process(WRITES_ONE_NAME, path, 300, "b") as b:
        seen, deadline = 0, time.monotonic() + 120
        while None in (a.poll(), b.poll()):
            assert time.monotonic() < deadline
            now = len(MetricsReader(path).series("loss", max_points=100_000)["value"])
            assert now >= seen
            seen = now
        assert (a.returncode, b.returncode) == (0, 0)
    reader = MetricsReader(path)
    assert np.sort(reader.series("loss")["value"]).tolist() == np.repeat(np.arange(300.0), 2).tolist()
    assert len(reader.series("a")["value"]) == len(reader.series("b")["value"]) == 300
    assert sorted(event["message"] for event in reader.events()) == ["a", "b"]


def test_many_threads_may_use_one_writer(writer: MetricsWriter, path: Path) -> None:
    def write(number: int) -> None:
        for update in range(100):
            writer.scalars(at(update), {f"metric_{number}": 1.0})
            if update % 10 == 0:
                writer.commit()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=240)
    writer.commit()
    assert [len(MetricsReader(path).series(f"metric_{number}")["value"]) for number in range(4)] == [100] * 4


def test_what_waits_is_committed_by_close_and_close_may_come_twice(path: Path) -> None:
    writer = MetricsWriter(path)
    writer.scalars(at(1), {"loss": 1.0})
    writer.close()
    writer.close()
    assert len(MetricsReader(path).series("loss")["value"]) == 1


READS_AS_NOBODY = """
import os, sys
from pathlib import Path
from workbench.metrics import MetricsReader
if os.getuid() == 0:
    os.setuid(65534)
try:
    print(len(MetricsReader(Path(sys.argv[1])).series("loss")["value"]))
except OSError as error:
    print(type(error).__name__, error)
"""


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    changed = [folder, *folder.iterdir()]
    for one in changed:
        one.chmod(0o555 if one.is_dir() else 0o444)
    try:
        yield
    finally:
        for one in changed:
            one.chmod(0o755 if one.is_dir() else 0o644)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that other users reach too; pytest's own are private."""
    folder = Path(tempfile.mkdtemp(prefix="workbench-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_a_finished_run_is_read_from_a_folder_that_cannot_be_written(shared: Path) -> None:
    path = shared / "metrics.sqlite"
    writer = MetricsWriter(path)
    writer.scalars(at(1), {"loss": 1.0})
    writer.close()
    with read_only(shared), process(READS_AS_NOBODY, path) as child:
        assert child.communicate(timeout=240)[0].strip() == "1"
    assert [one.name for one in shared.iterdir()] == ["metrics.sqlite"]


def test_a_killed_run_in_a_folder_that_cannot_be_written_never_loses_rows_silently(shared: Path) -> None:
    path = shared / "metrics.sqlite"
    with process(WRITES_FOREVER, path, 0) as child:
        assert child.stdout is not None
        child.stdout.readline()
    rows = len(MetricsReader(path).series("loss")["value"])
    with read_only(shared), process(READS_AS_NOBODY, path) as child:
        answer = child.communicate(timeout=240)[0].strip()
    assert answer == str(rows) or "copy the run's folder" in answer


@pytest.fixture
def half_written(shared: Path) -> Path:
    """A history of a run on several machines, with 1000 values of 1.0, whose writer was killed as it wrote others."""
    path = shared / "metrics.sqlite"
    certificate = RunDirectory(shared).certificate
    certificate.parent.mkdir()
    certificate.touch()
    with closing(MetricsWriter(path)) as writer:
        for update in range(1000):
            writer.scalars(at(update), {"loss": 1.0})
    with process(WRITES_HALF, path) as child:
        assert child.wait(timeout=240) == 9
    assert path.with_name("metrics.sqlite-journal").stat().st_size
    return path


def test_half_a_write_of_a_killed_writer_is_undone_before_it_is_read(half_written: Path) -> None:
    assert MetricsReader(half_written).series("loss")["value"].tolist() == [1.0] * 1000
    check_whole(half_written)


def test_half_a_write_that_a_reader_may_not_undo_is_said_and_left(
    half_written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {one.name: one.read_bytes() for one in half_written.parent.glob("metrics*")}
    with read_only(half_written.parent), process(READS_AS_NOBODY, half_written) as child:
        assert "killed within a write" in child.communicate(timeout=240)[0]
    monkeypatch.setattr(os, "geteuid", lambda: half_written.stat().st_uid + 1)
    with pytest.raises(StorageFailed, match="killed within a write"):
        MetricsReader(half_written).series("loss")
    assert {one.name: one.read_bytes() for one in half_written.parent.glob("metrics*")} == before


def test_a_newer_format_is_refused_with_what_to_do(path: Path) -> None:
    MetricsWriter(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    for use in (lambda: MetricsReader(path).names(), lambda: MetricsWriter(path)):
        with pytest.raises(StorageFailed, match="format 99.*with a newer one"):
            use()


def test_a_file_that_is_no_database_is_named(path: Path) -> None:
    path.write_bytes(b"this is not SQLite at all, and long enough to look like a header of something" * 20)
    for use in (lambda: MetricsReader(path).names(), lambda: MetricsWriter(path)):
        with pytest.raises(StorageFailed, match="metrics.sqlite: file is not a database.*damaged"):
            use()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="cannot write .*absent/metrics.sqlite: unable to open"):
        MetricsWriter(tmp_path / "absent" / "metrics.sqlite")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    yield from mounted_disk(tmp_path / "small", size="1m")


def test_a_full_disk_raises_and_loses_no_row_once_there_is_space(small_disk: Path) -> None:
    path, ballast = small_disk / "metrics.sqlite", small_disk / "ballast"
    writer = MetricsWriter(path, tensorboard=small_disk / "tensorboard")
    writer.scalars(at(0), {"loss": 0.0})
    writer.commit()
    free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
    ballast.write_bytes(bytes(free - 65_536))
    written = 0
    with pytest.raises(StorageFailed, match=r"cannot write .*small.*(full|space)"):
        for written in range(1, 30_000):
            writer.scalars(at(written), {"loss": float(written)})
            writer.commit()
    assert len(MetricsReader(path).series("loss")["value"]) >= 1
    ballast.unlink()
    writer.scalars(at(written + 1), {"loss": 1.0})
    writer.close()
    assert MetricsReader(path).series("loss")["updates"].tolist() == list(range(written + 2))
    read_back = accumulated(small_disk / "tensorboard").Scalars("loss/loss")  # what did not fit is left out, not torn
    assert read_back[-1].step == at(written + 1).frames


def test_what_waits_is_bounded_and_an_event_says_what_was_dropped(path: Path) -> None:
    writer = MetricsWriter(path)
    for update in range(10_005):
        writer.scalars(at(update), {"loss": 0.0})
    writer.close()
    assert MetricsReader(path).series("loss")["updates"][0] == 5
    (event,) = MetricsReader(path).events()
    assert event["kind"] == "metrics_dropped" and event["message"].startswith("5 entries")


def test_a_transaction_that_fails_is_undone_as_a_whole_and_kept_for_the_next(path: Path, writer: MetricsWriter) -> None:
    blocker = sqlite3.connect(path)
    blocker.execute("CREATE TRIGGER refuse BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'refused'); END")
    blocker.commit()
    writer.scalars(at(1), {"loss": 1.0})
    with pytest.raises(StorageFailed, match="refused"):
        writer.event("stop", "asked for")
    assert blocker.execute("SELECT name FROM names").fetchall() == []
    blocker.execute("DROP TRIGGER refuse")
    blocker.commit()
    blocker.close()
    writer.scalars(at(2), {"loss": 2.0})
    writer.commit()
    assert MetricsReader(path).series("loss")["value"].tolist() == [1.0, 2.0]
    assert [event["kind"] for event in MetricsReader(path).events()] == ["stop"]


def accumulated(folder: Path):  # type: ignore[no-untyped-def]
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(folder)).Reload()


def test_tensorboard_reads_the_event_files_with_frames_as_steps(path: Path, tmp_path: Path) -> None:
    writer = MetricsWriter(path, tensorboard=tmp_path / "tensorboard")
    assert not (tmp_path / "tensorboard").exists()
    for update in (1, 2, 3):
        writer.scalars(at(update), {"policy_loss": -0.5 * update, "frames_per_second": 4e3, "memory_gb": 2.0,
                                    "time_wire": 0.25, "learning_rate": 6e-4, "policy_lag_mean": 1.5})
        writer.commit()
    writer.episode(at(3), env_id=0, episode_return=18.0, length_steps=900)
    writer.distribution("policy_lag", at(3), [0, 1, 2], [5, 3])
    writer.close()
    found = accumulated(tmp_path / "tensorboard")
    assert sorted(found.Tags()["scalars"]) == [
        "bottleneck/wire", "episode/length", "episode/return", "loss/policy_loss", "policy_lag/policy_lag_mean",
        "system/memory_gb", "throughput/frames_per_second", "training/learning_rate",
    ]
    assert [(one.step, one.value) for one in found.Scalars("loss/policy_loss")] == [(80, -0.5), (160, -1), (240, -1.5)]
    histogram = found.Histograms("policy_lag/policy_lag")[0].histogram_value
    assert list(histogram.bucket) == [5, 3] and list(histogram.bucket_limit) == [1, 2] and histogram.num == 8
    (file,) = (tmp_path / "tensorboard").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_metrics_and_checkpoints_load_neither_torch_nor_tensorflow_nor_pandas(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
import workbench.checkpoints
from workbench.metrics import MetricsReader, MetricsWriter, Progress, check_whole
from workbench.metrics.history import History
from workbench.rundir import RunDirectory
folder = Path(sys.argv[1])
writer = MetricsWriter(folder / "metrics.sqlite", tensorboard=folder / "tensorboard")
writer.scalars(Progress(1, 1, 1, 1.0), {"loss": 1.0})
writer.close()
MetricsReader(folder / "metrics.sqlite").series("loss")
print([name for name in ("torch", "tensorflow", "pandas") if name in sys.modules])
"""
    with process(code, tmp_path) as child:
        assert child.communicate(timeout=240)[0].strip() == "[]"


@pytest.mark.full
def test_a_long_series_is_thinned_out_sooner_than_it_is_read_whole(path: Path) -> None:
    writer = MetricsWriter(path)
    for start in range(0, 150_000, 10_000):
        for update in range(start, start + 10_000):
            writer.scalars(Progress(update, update, update, 0.0), {"loss": float(update % 1013)})
        writer.commit()
    thinned, whole = [], []
    for _ in range(3):
        for most, taken in ((None, whole), (2_000, thinned)):
            begin = time.perf_counter()
            series = MetricsReader(path).series("loss", max_points=most)
            taken.append(time.perf_counter() - begin)
    assert min(thinned) < min(whole)
    assert 1_000 <= len(series["value"]) <= 2_000
    writer.close()
