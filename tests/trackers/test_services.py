"""The packages of Weights & Biases, MLflow and Trackio, offline: what each of them has of a run is what the run's own
file has, once, after its supervisor was killed and it was resumed. `make test-trackers` has the packages."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.conftest import CALM, LONGEST_S, eventually
from workbench.rundir import lock, read_record

SERVICES = ("mlflow", "trackio", "wandb")
if missing := [name for name in SERVICES if importlib.util.find_spec(name) is None]:
    pytest.skip(f"{', '.join(missing)}: make test-trackers installs them", allow_module_level=True)
KEY = "0123456789abcdef0123456789abcdef01234567"

Point = tuple[int, float]  # frames and value


@pytest.fixture(scope="module")
def followed(module_home: Path) -> Iterator[wb.Run]:
    """A run that all three followed, through a killed supervisor, a resume and a change, to its end."""
    variables = {"WANDB_MODE": "offline", "WANDB_API_KEY": KEY, "TRACKIO_DIR": str(module_home / "trackio")}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        run = wb.launch("testing/catch-v0", **CALM, checkpoint_interval_s=2.0, track=",".join(SERVICES), progress=False)
        for name in SERVICES:
            eventually(lambda name=name: sent(run, name), what=f"{name} has rows")  # mlflow makes its database first
        eventually(lambda: run.checkpoints)
        updates = run.status.updates
        os.kill(run.status.supervisor_pid or 0, signal.SIGKILL)
        eventually(lambda: run.state == "dead")
        run = wb.resume(run.name, progress=False)
        run.wait(updates=updates + 20, timeout_s=LONGEST_S)
        run.tune(learning_rate=1e-4)
        run.stop()
        eventually(lambda: not any(lock.is_held(run.directory.trackers / f"{name}.lock") for name in SERVICES))
        yield run


def sent(run: wb.Run, service: str) -> int:
    path = run.directory.trackers / f"{service}.json"
    return int(read_record(path)["sent"]) if path.exists() else 0


def identity(run: wb.Run, service: str) -> str:
    return str(read_record(run.directory.trackers / f"{service}.json")["identity"])


def check(run: wb.Run, service: str, name: str, points: list[Point]) -> None:
    """All that leads to the run as it is now, and nothing twice."""
    with closing(sqlite3.connect(run.directory.metrics)) as connection:
        rows = Counter(connection.execute("""SELECT frames, value FROM metrics JOIN names ON id = name_id
            WHERE name = ? AND value IS NOT NULL""", (name,)).fetchall())
    kept = run.metrics(name).dropna()
    assert len(points) > 10 and Counter(points) <= rows, service
    assert Counter(zip(kept["frames"], kept["value"], strict=True)) <= Counter(points), service


def in_mlflow(run: wb.Run, home: Path) -> tuple[Any, Any]:
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{home / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("rl-workbench")
    assert experiment is not None
    (known,) = client.search_runs([experiment.experiment_id])
    return client, known


def test_mlflow_has_every_row_once(followed: wb.Run, module_home: Path) -> None:
    client, known = in_mlflow(followed, module_home)
    for name, key in (("episode_return", "episode/return"), ("loss", "loss/loss"), ("steps_per_second",
                                                                                   "throughput/steps_per_second")):
        history = client.get_metric_history(known.info.run_id, key)
        check(followed, "mlflow", name, [(metric.step, metric.value) for metric in history])
    assert known.info.status == "KILLED" and known.info.run_name == followed.name
    assert known.data.params["unroll_length"] == "10" and known.data.tags["environment"] == "testing/catch-v0"
    events = [value for key, value in sorted(known.data.tags.items()) if key.startswith("event ")]
    assert [text.partition(", ")[2].partition(":")[0] for text in events] == list(followed.events["kind"])
    assert client.get_metric_history(known.info.run_id, "config/learning_rate")[0].value == 1e-4


def test_trackio_has_every_row_once(followed: wb.Run) -> None:
    import trackio  # here, since it reads TRACKIO_DIR when it is imported
    from trackio.sqlite_storage import SQLiteStorage

    (known,) = trackio.Api().runs("rl-workbench")
    logs = SQLiteStorage.get_logs("rl-workbench", known.name, run_id=known.id)
    assert known.name == identity(followed, "trackio")
    check(followed, "trackio", "episode_return", [(row["step"], row["episode/return"]) for row in logs
                                                  if "episode/return" in row])
    assert set(Counter(row["row"] for row in logs).values()) == {1}
    assert all(row["step"] == row["frames"] for row in logs)
    events = [row["event"] for row in sorted(logs, key=lambda row: row["row"]) if "event" in row]
    assert [text.partition(":")[0] for text in events] == list(followed.events["kind"])


def records(file: Path) -> Iterator[Any]:
    """Records of an offline run: LevelDB's log format, each a protobuf of W&B's."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, at, whole = file.read_bytes(), 7, b""  # after W&B's own header
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:  # the rest of a block
            at += 32768 - at % 32768
            continue
        length, kind = int.from_bytes(data[at + 4:at + 6], "little"), data[at + 6]
        if kind == 0:
            at += 32768 - at % 32768
            continue
        whole += data[at + 7:at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or its last part
            yield Record.FromString(whole)
            whole = b""


def test_wandb_has_every_row_once(followed: wb.Run, module_home: Path) -> None:
    files = sorted((module_home / "wandb").glob(f"offline-run-*/run-{identity(followed, 'wandb')}.wandb"))
    every = [record for file in files for record in records(file)]
    rows = [{item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            for record in every if record.HasField("history")]
    assert len(files) == 2, "one for each life, for wandb sync to join by their identity"
    assert {record.run.run_id for record in every if record.HasField("run")} == {identity(followed, "wandb")}
    check(followed, "wandb", "episode_return", [(row["frames"], row["episode/return"]) for row in rows
                                                if "episode/return" in row])
    numbers = [row["_step"] for row in rows]
    assert numbers == list(range(len(rows)))
    assert [row["event"].partition(":")[0] for row in rows if "event" in row] == list(followed.events["kind"])
    metrics = [record.metric for record in every if record.HasField("metric")]
    assert any(metric.glob_name == "*" and metric.step_metric == "frames" for metric in metrics)


def test_what_was_sent_is_not_sent_again_by_hand_and_a_later_history_is(
    followed: wb.Run, module_home: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(module_home / "by-hand"))
    assert [followed.track(name) for name in SERVICES] == [0, 0, 0]
    (followed.directory.trackers / "trackio.json").unlink()
    assert followed.track("trackio") > 100, "another run of the service, with all of the history"


def test_no_key_is_written_anywhere(followed: wb.Run, module_home: Path) -> None:
    files = [path for path in module_home.rglob("*") if path.is_file() and not path.is_symlink()]
    assert len(files) > 20 and [path for path in files if KEY.encode() in path.read_bytes()] == []
