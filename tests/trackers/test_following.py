"""What a tracker is handed: every row of a run's history once, whatever dies meanwhile."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.test_optional_parts import copied, plays
from workbench import imports, rundir, trackers
from workbench.config import RunConfig
from workbench.errors import MissingPackage, UnknownName
from workbench.metrics import MetricsReader, MetricsWriter, Progress
from workbench.rundir import RunDirectory, lock
from workbench.running.starts.starting import new_record
from workbench.trackers.contract import Row, TrackedRun
from workbench.trackers.history_sender import HistorySender
from workbench.trackers.main import without_secrets
from workbench.trackers.mlflow import MlflowTracker


@pytest.fixture
def run(home: Path) -> RunDirectory:
    """A run's directory without a history."""
    return rundir.create("followed", new_record(RunConfig.build("CartPole-v1"), parent=None, code={}, state="stopped"))


class Kept:
    """A tracker that keeps what it is handed, and raises before, or in the middle of, the next `failures` batches."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.runs: list[TrackedRun] = []
        self.states: list[str] = []
        self.failures, self.takes = 0, 0

    def begin(self, run: TrackedRun) -> str:
        self.runs.append(run)
        return "memory"

    def send(self, rows: Sequence[Row], *, again: bool) -> None:
        known = {row.number for row in self.rows} if again else set()
        new = [row for row in rows if row.number not in known]
        if self.failures:
            self.failures -= 1
            self.rows += new[:self.takes]
            raise OSError("the service is away")
        self.rows += new

    def finish(self, state: str) -> None:
        self.states.append(state)


def followed(run: RunDirectory, kept: Kept) -> HistorySender:
    """A sender, as a new process has one, that has handed over all there is."""
    sender = HistorySender(run, "kept", kept)
    sender.begin()
    while sender.send_new():
        pass
    return sender


def stored(run: RunDirectory, name: str) -> list[tuple[int, int, int, float, float]]:
    """A metric's rows in metrics.sqlite, by row: frames, steps, updates, time_s, value."""
    with closing(sqlite3.connect(run.metrics)) as connection:
        return connection.execute("""SELECT frames, steps, updates, time_s, value FROM metrics
            JOIN names ON id = name_id WHERE name = ? ORDER BY row""", (name,)).fetchall()


def handed(kept: Kept, name: str) -> list[tuple[int, int, int, float, float]]:
    return [(row.frames, row.steps, row.updates, row.time_s, row.values[name]) for row in kept.rows
            if name in row.values]


def test_rows_are_those_of_the_history_by_time_with_all_metrics_of_one_point_together(run: RunDirectory) -> None:
    with closing(MetricsWriter(run.metrics)) as writer:
        for second in range(1300):  # more than a batch holds
            progress = Progress(8 * second, 4 * second, second, float(second))
            writer.scalars(progress, {"loss": second / 7, "entropy": 1.0})
            if second == 400:
                writer.event("tune", "learning_rate 0.1 → 0.2", progress=Progress(3200, 1600, 400, 400.0),
                             data={"old": {"learning_rate": 0.1}, "new": {"learning_rate": 0.2}})
        for env_id in range(3):
            writer.episode(Progress(80, 40, 10, 10.0), env_id=env_id, episode_return=5.0, length_steps=7)
        writer.scalars(Progress(10400, 5200, 1300, 1300.0), {"loss": float("nan"), "entropy": 2.0})
    kept = Kept()
    assert followed(run, kept).sent == len(kept.rows) == 1301 + 2 + 1, "one episode's is of the metrics' point"
    assert handed(kept, "loss/loss") == stored(run, "loss")[:-1], "all but the one that is no number"
    assert handed(kept, "training/entropy") == stored(run, "entropy")
    assert [value for *_, value in handed(kept, "episode/return")] == [5.0] * 3
    times = [row.time_s for row in kept.rows if not row.event]
    assert times == sorted(times) and [row.number for row in kept.rows] == list(range(len(kept.rows)))
    (change,) = [row for row in kept.rows if row.event]
    assert change.event == "tune: learning_rate 0.1 → 0.2" and change.changes == {"learning_rate": 0.2}
    assert change.values == {"config/learning_rate": 0.2} and (change.frames, change.updates) == (3200, 400)


def test_a_later_process_goes_on_with_the_same_identity_where_the_last_one_was(run: RunDirectory) -> None:
    kept = Kept()
    for life in range(3):
        with closing(MetricsWriter(run.metrics)) as writer:
            for second in range(5):
                writer.scalars(Progress(0, 0, 0, 10.0 * life + second), {"loss": 1.0})
        assert followed(run, kept).sent == 5
    assert followed(run, kept).sent == 0, "nothing is new"
    assert len({row.time_s for row in kept.rows}) == len(kept.rows) == 15
    assert len(kept.runs) == 4 and len({described.identity for described in kept.runs}) == 1


@pytest.mark.parametrize("takes", [0, 2, 5])
def test_a_batch_in_which_a_process_died_comes_again_as_the_same_rows(run: RunDirectory, takes: int) -> None:
    kept = Kept()
    kept.failures, kept.takes = 2, takes
    for life in range(3):
        with closing(MetricsWriter(run.metrics)) as writer:
            for second in range(5):
                writer.scalars(Progress(0, 0, 0, 10.0 * life + second), {"loss": 1.0})
        if life < 2:
            with pytest.raises(OSError, match="away"):
                followed(run, kept)
    followed(run, kept)
    assert handed(kept, "loss/loss") == stored(run, "loss")
    assert [row.number for row in kept.rows] == list(range(15))


def test_what_a_restore_left_behind_is_not_sent_unless_it_was_sent_before(run: RunDirectory) -> None:
    early, late = Kept(), Kept()
    with closing(MetricsWriter(run.metrics)) as writer:
        for update in range(10):
            writer.scalars(Progress(update, update, update, float(update)), {"loss": float(update)})
    followed(run, early)
    with closing(MetricsWriter(run.metrics)) as writer:
        writer.event("restore", "at 4 updates", progress=Progress(4, 4, 4, 4.0),
                     data={"rows": MetricsReader(run.metrics).lengths()})
        for update in range(5, 8):
            writer.scalars(Progress(update, update, update, float(update)), {"loss": -1.0})
    followed(run, early)
    shutil.rmtree(run.trackers)
    followed(run, late)
    assert [value for *_, value in handed(late, "loss/loss")] == [0, 1, 2, 3, 4, -1, -1, -1]
    assert [value for *_, value in handed(early, "loss/loss")] == [*range(10), -1, -1, -1], "the service keeps them"


def test_a_history_that_was_begun_anew_is_sent_from_its_beginning(run: RunDirectory) -> None:
    kept = Kept()
    for number, rows in enumerate((10, 4)):
        run.metrics.unlink(missing_ok=True)
        assert followed(run, kept).sent == 0, "it is away"
        with closing(MetricsWriter(run.metrics)) as writer:
            writer.event("resume", f"history {number}")
            for update in range(rows):
                writer.scalars(Progress(update, update, update, float(update)), {"loss": float(number)})
        assert followed(run, kept).sent == rows + 1
    away = run.metrics.rename(run.metrics.with_name("away"))
    assert followed(run, kept).sent == 0
    away.rename(run.metrics)
    assert followed(run, kept).sent == 0, "it came back"
    assert [value for *_, value in handed(kept, "loss/loss")] == [0.0] * 10 + [1.0] * 4
    assert [row.event for row in kept.rows if row.event] == ["resume: history 0", "resume: history 1"]
    assert [row.number for row in kept.rows] == list(range(16))


def test_a_run_that_lives_is_left_as_one_that_runs(run: RunDirectory) -> None:
    kept = Kept()
    for state in ("training", "stopped", "training"):
        run.write(state=state)
        with lock.held(lock.of_supervisor(run), wait_s=0.0) if len(kept.states) < 2 else nullcontext():
            followed(run, kept).finish()
    assert kept.states == ["running", "stopped", "dead"]


def test_mlflow_ends_no_run_that_lives() -> None:
    ended: list[str] = []
    tracker = MlflowTracker()
    tracker._client = SimpleNamespace(set_terminated=lambda run_id, status: ended.append(status))
    tracker._id = "1"
    for state in ("running", "stopped", "dead"):
        tracker.finish(state)
    assert ended == ["KILLED", "FAILED"]


def test_errors_name_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef")
    text = without_secrets("401 for 0123456789abcdef at https://me:secret@mlflow.example/api")
    assert text == "401 for <WANDB_API_KEY> at https://mlflow.example/api"


def test_an_unknown_tracker_and_a_missing_package_say_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownName, match="wandb"):
        trackers.check_installed("wandbb")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for name in trackers.TRACKERS:
        with pytest.raises(MissingPackage, match="pip install") as raised:
            trackers.check_installed(f" {name} ,")
        assert imports.pip_install(name) in str(raised.value)


LINES = '''
"""Lines of a file."""

import json
import os
from pathlib import Path

PACKAGE = "json"


class LinesTracker:
    def begin(self, run):
        self._file = Path(os.environ["LINES"])
        if self._file.with_suffix(".away").exists():
            raise ConnectionError("https://me:secret@lines.example is away")
        self._write({"begin": run.identity})
        return str(self._file)

    def _write(self, data):
        with open(self._file, "a") as file:
            file.write(json.dumps(data) + "\\n")

    def send(self, rows, *, again):
        for row in rows:
            self._write({"number": row.number, **row.columns})

    def finish(self, state):
        self._write({"state": state})
'''
A_RUN = """
import json, os, signal, sqlite3, sys, time
from collections import Counter
from pathlib import Path
import workbench as wb

def eventually(check):
    deadline = time.monotonic() + 240
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.1)

def lines():
    file = Path(os.environ["LINES"])
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

def states():
    return [line["state"] for line in lines() if "state" in line]

away = Path(os.environ["LINES"]).with_suffix(".away")
away.touch()
run = wb.launch("testing/catch-v0", actors=1, envs_per_actor=4, batch_size=4, unroll_length=10, learner_threads=1,
                network="mlp", environment_options={"step_ms": 5.0}, checkpoint_interval_s=2.0, track="lines",
                progress=False)
eventually(lambda: "tracker" in set(run.events["kind"]))
(said,) = run.events[run.events["kind"] == "tracker"]["message"][:1]
assert "ConnectionError: https://lines.example is away" in said and "secret" not in said, said
assert run.state == "training", "the run goes on"
away.unlink()
eventually(lambda: len(run.checkpoints) > 0 and lines())
os.kill(run.status.supervisor_pid, signal.SIGKILL)
eventually(lambda: run.state == "dead")
updates = run.status.updates
run = wb.resume(run.name, progress=False)
run.wait(updates=updates + 20, timeout_s=240)
run.tune(learning_rate=1e-4)
run.stop()
eventually(lambda: states()[-1:] == ["stopped"])
rows = Counter(line["number"] for line in lines() if "number" in line)
assert set(rows.values()) == {1}, rows
assert len({line["begin"] for line in lines() if "begin" in line}) == 1, "one identity through all lives"
returns = [(line["frames"], line["updates"], line["episode/return"]) for line in lines() if "episode/return" in line]
stored = sqlite3.connect(run.directory.metrics).execute(
    "SELECT frames, updates, value FROM metrics JOIN names ON id = name_id WHERE name = 'episode_return'").fetchall()
on_course = run.metrics("episode_return")
assert Counter(returns) <= Counter(stored) and len(set(returns)) > 5
assert Counter(zip(on_course["frames"], on_course["updates"], on_course["value"])) <= Counter(returns)
assert 1e-4 in [line.get("config/learning_rate") for line in lines()]
assert run.track("lines") == 0, "all of it is there"
print("played")
"""


def test_a_run_tells_a_tracker_each_row_once_though_the_service_is_away_and_the_supervisor_is_killed(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LINES", str(tmp_path / "lines.jsonl"))
    folder = copied(tmp_path) / "trackers" / "lines"
    folder.mkdir()
    (folder / "__init__.py").write_text(LINES)
    plays(tmp_path, A_RUN)
