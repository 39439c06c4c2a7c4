"""Names of runs, and what an interrupt leaves."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

import workbench as wb
from tests.conftest import SMALL, eventually
from tests.playing.test_learnt_beside_the_network import Biased
from tests.test_lock import HOLD
from workbench import launchers, rundir
from workbench.config import RunConfig, settings
from workbench.config.own_algorithm import named_algorithm
from workbench.errors import (
    AlgorithmFailed,
    ConnectionLost,
    InvalidInput,
    RunExists,
    StorageFailed,
    UnknownName,
    WaitTimeout,
)
from workbench.launchers import Launched
from workbench.metrics import MetricsWriter
from workbench.metrics.status import RunStatus
from workbench.rundir import lock
from workbench.running import waiting
from workbench.running.connection import Control
from workbench.running.launch import begun_again
from workbench.running.starts import starting
from workbench.running.starts.starting import Awaited, created, started, stem_of


@pytest.mark.parametrize(
    ("environment", "stem"),
    [
        ("ALE/Pong-v5", "pong"),
        ("CartPole-v1", "cartpole"),
        ("package:Some/My_Env-v12", "my-env"),
        ("MyEnv", "myenv"),
        ("lambda", "lambda"),
        ("///", "run"),
    ],
)
def test_a_name_is_made_of_the_environments(environment: str, stem: str) -> None:
    assert stem_of(environment) == stem


def test_launches_at_the_same_time_get_names_of_their_own(home: Path) -> None:
    config = RunConfig.build("CartPole-v1")
    record = {"created": time.time(), "config": config.to_json(), "state": "stopped"}
    place = launchers.by_name("local")
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: created(None, "cartpole-vtrace", record, {}, place).name, range(16)))
    assert sorted(made) == sorted(f"cartpole-vtrace-{number}" for number in range(1, 17))
    assert {one.state for one in wb.runs()} == {"stopped"}


@pytest.mark.full
def test_a_run_that_has_no_checkpoint_yet_writes_one_when_it_is_to_play(home: Path) -> None:
    run = wb.launch("CartPole-v1", **SMALL)
    run.wait(updates=1, timeout_s=240)
    assert not run.checkpoints
    evaluation = wb.evaluate(run, episodes=1)
    assert [one.frames for one in run.checkpoints] == [evaluation.checkpoint_frames]
    assert wb.rollout(run.name, seed=0, max_steps=5).checkpoint_frames == evaluation.checkpoint_frames


def test_a_look_at_the_runs_does_not_keep_one_from_being_started(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "LOOK_S", 10.0)

    class Nowhere:
        def start(self, run: rundir.RunDirectory) -> Launched:
            raise Reached

    directory = rundir.create("one", {"state": "starting"})
    descriptor = os.open(lock.of_start(directory), os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_SH)  # as `lock.is_held` does
    threading.Timer(0.05, os.close, [descriptor]).start()
    with pytest.raises(Reached):
        started(directory, Nowhere(), awaited=Awaited(False, 1.0, False))


@pytest.mark.parametrize("wait_ready", [True, False])
def test_a_supervisor_is_waited_for_as_long_as_the_caller_would_wait_for_the_run(
    home: Path, monkeypatch: pytest.MonkeyPatch, wait_ready: bool
) -> None:
    """It may need a machine that an autoscaler begins to start."""
    monkeypatch.setattr(starting, "_SUPERVISOR_S", 0.05)
    monkeypatch.setattr(starting, "answers", lambda control: False)
    launched, began = Mock(poll=lambda: None, logs=lambda: "no node yet"), time.monotonic()
    place = Mock(start=lambda run: launched)
    with pytest.raises(WaitTimeout, match=r"did not answer for 0\.4 s, and was stopped.*\nno node yet"):
        started(rundir.create("one", {"state": "starting"}), place, awaited=Awaited(wait_ready, 0.4, False))
    assert time.monotonic() - began >= 0.4
    launched.stop.assert_called_once_with()


def test_a_mean_of_few_episodes_reaches_no_target() -> None:
    wanted = {"episode_return": 10.0}
    assert not waiting._reached(RunStatus("one", "training", episode_return=11.0, episodes_in_mean=1), wanted, 0.0)
    assert waiting._reached(RunStatus("one", "training", episode_return=11.0, episodes_in_mean=20), wanted, 0.0)
    assert waiting._reached(RunStatus("one", "training", episode_return=11.0), wanted, 0.0)


def test_a_row_of_the_life_before_does_not_say_how_a_resumed_run_is(home: Path) -> None:
    config = RunConfig.build("CartPole-v1").to_json()
    directory = rundir.create("again", {"created": time.time(), "config": config, "state": "starting"})
    writer = MetricsWriter(directory.metrics)
    writer.status({"state": "stopped", "frames": 40})
    writer.close()
    with lock.held(lock.of_start(directory), wait_s=0):
        status = wb.attach("again").status
    assert (status.state, status.frames) == ("starting", 40)


@pytest.mark.full
def test_an_interrupted_launch_leaves_the_run_and_says_its_name(home: Path) -> None:
    code = f"import workbench as wb; wb.launch('CartPole-v1', name='left', **{SMALL!r})"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as kernel:
        try:
            eventually(lambda: "left" in [run.name for run in wb.runs()] and wb.attach("left").status.supervisor_pid)
            kernel.send_signal(signal.SIGINT)
            out, _ = kernel.communicate(timeout=240)
        finally:
            kernel.kill()
    assert out.decode() == "left goes on in the background. wb.attach('left').stop() ends it.\n"
    assert wb.attach("left").wait(updates=1, timeout_s=240).state == "training"


@pytest.mark.parametrize("begun", [False, True])
def test_an_interrupt_says_that_the_run_goes_on_only_where_it_was_begun(
    home: Path, capsys: pytest.CaptureFixture[str], begun: bool
) -> None:
    """What prepares a start may bring a copy from storage, for minutes."""
    prepare = Mock(side_effect=None if begun else KeyboardInterrupt)
    place = Mock(start=Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        started(rundir.create("left", {"state": "stopped"}), place, prepare,
                awaited=Awaited(False, 1.0, False))
    assert capsys.readouterr().out.count("left goes on in the background") == place.start.call_count == int(begun)


@pytest.fixture
def locked(home: Path, monkeypatch: pytest.MonkeyPatch) -> rundir.RunDirectory:
    """A run that trains by its record, whose lock is held for a while by a supervisor that does not answer."""
    monkeypatch.setattr(lock, "ORPHANS_LIVE_S", 0.1)
    monkeypatch.setattr(starting, "answers", lambda control: False)
    monkeypatch.setattr(lock, "processes", lambda run, *entries: [SimpleNamespace(pid=77)])
    monkeypatch.setattr(lock, "directory_of", lambda process: str(rundir.find("mute").path))
    held = iter([True] * 8)
    monkeypatch.setattr(lock, "is_held", lambda path: next(held, False))
    return rundir.create("mute", {"created": 0.0, "config": RunConfig.build("CartPole-v1").to_json(), "error": None,
                                  "state": "training", "parent": None})


def test_a_supervisor_that_is_mute_is_left_alone_and_nothing_is_changed(locked: rundir.RunDirectory) -> None:
    with pytest.raises(ConnectionLost, match=r"mute has a supervisor that lives and does not answer.*kill -9 77"):
        starting._was_started(Control(locked), lease_s=0.0)
    assert locked.read()["state"] == "training"


def test_the_last_copy_to_storage_of_a_run_that_has_ended_is_waited_for(
    locked: rundir.RunDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    locked.write(state="finished")
    assert not starting._was_started(Control(locked), lease_s=0.0)
    assert capsys.readouterr().out.count("its last checkpoint is being copied to storage") == 1


class Reached(Exception):
    """The start of a supervisor."""


@pytest.fixture
def elsewhere(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    """The run "away" trains by its record; its lock is held by this process, which is none of the run's here."""
    monkeypatch.setattr(lock, "ORPHANS_LIVE_S", 0.1)
    monkeypatch.setattr(starting, "_LOOK_AGAIN_S", 0.05)
    monkeypatch.setattr(launchers.by_name("local").__class__, "start", Mock(side_effect=Reached))
    run = ended("away", RunConfig.build("CartPole-v1"))
    run.write(state="training", supervisor_pid=4711)
    with subprocess.Popen([sys.executable, "-c", HOLD, str(lock.of_supervisor(run))], stdout=subprocess.PIPE,
                          text=True) as holder:
        try:
            assert holder.stdout is not None and holder.stdout.readline() == "held\n"
            yield holder
        finally:
            holder.kill()


def test_a_run_that_lives_on_another_machine_is_refused_before_anything_of_it_is_changed(
    elsewhere: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "LEASE_S", 0.2)
    run = rundir.find("away")
    before = run.token(), run.read()
    with pytest.raises(ConnectionLost, match=r"no process of this machine; nothing was changed.* process 4711 there"):
        wb.resume("away", learning_rate=1e-5)
    assert (run.token(), run.read()) == before


def test_the_lock_of_a_lost_machine_is_waited_for_by_who_resumes_and_asked_for_again_by_a_sweep(
    elsewhere: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConnectionLost, match="nothing was changed"):
        begun_again(rundir.find("away"), launchers.by_name("local"))
    said: list[str] = []
    monkeypatch.setattr(starting, "notify", lambda text: (said.append(text), elsewhere.kill()))  # the lease ends
    with pytest.raises(Reached):
        wb.resume("away")
    assert len(said) == 1 and "storage keeps the lock of a machine that is lost" in said[0]


@pytest.mark.parametrize("launcher", ["local", "ray"])
def test_orphans_of_this_machine_are_left_to_the_new_supervisor_where_they_share_its_lock(
    elsewhere: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch, launcher: str
) -> None:
    """A node of a cluster may have a learner of a run whose supervisor lives on another node."""
    run = rundir.find("away")
    run.write(config={**run.read()["config"], "launcher": launcher})
    monkeypatch.setattr(
        lock, "processes", lambda run, *entries: [SimpleNamespace(pid=78)] if "_learner" in entries else [])
    with nullcontext() if launcher == "local" else pytest.raises(ConnectionLost, match="nothing was changed"):
        assert not starting._was_started(Control(run), lease_s=0.0)


def ended(name: str, config: RunConfig) -> rundir.RunDirectory:
    """A run that has ended."""
    return rundir.create(name, {
        "created": 1.0, "config": config.to_json(), "state": "finished", "error": None, "parent": None,
        "versions": {"rl-workbench": "9.1"}})


def test_a_run_whose_metrics_are_damaged_is_refused_before_anything_of_it_is_changed(home: Path) -> None:
    run = ended("torn", RunConfig.build("CartPole-v1"))
    run.metrics.write_bytes(b"no database" * 1000)
    before = run.read()
    with pytest.raises(StorageFailed, match=r"metrics.sqlite: file is not a database.*move it away"):
        wb.resume("torn", total_frames=10**9)
    assert run.read() == before


def test_a_run_whose_class_is_gone_asks_for_it(home: Path) -> None:
    name, own = named_algorithm(Biased, taken=settings(RunConfig))
    run = ended("codeless", RunConfig.build("CartPole-v1", algorithm=name, own_algorithm=own))
    before = run.read()
    with pytest.raises(InvalidInput, match=r"which is not in .*code any more.*wb.resume\('codeless', algorithm=Biased"):
        wb.resume("codeless", total_frames=10**9)
    assert run.read() == before


@pytest.mark.full
def test_a_run_whose_class_is_gone_goes_on_with_it(home: Path) -> None:
    run = wb.launch("CartPole-v1", algorithm=Biased, **SMALL)
    run.stop()
    code = rundir.find(run.name).code / "algorithm.pkl"
    code.unlink()
    with pytest.raises(AlgorithmFailed, match="raised"):
        wb.resume(run.name, algorithm=type("Biased", (Biased,), {"loss": None}))
    assert not code.exists() and wb.attach(run.name).state == "stopped", "it is what it was"
    wb.resume(run.name, algorithm=Biased).stop()
    assert code.exists()


def test_what_a_newer_version_has_written_is_told_with_its_version(home: Path) -> None:
    config = RunConfig.build("CartPole-v1")
    run = ended("newer", config)
    run.write(config={**config.to_json(), "from_the_future": 1})
    with pytest.raises(UnknownName, match=r"run.json was written by version 9.1 of rl-workbench, and has what is not .*"
                                          r"'from_the_future'"):
        wb.resume("newer")


def test_a_folder_without_a_record_is_not_offered_to_be_resumed(home: Path) -> None:
    run = ended("bare", RunConfig.build("CartPole-v1"))
    run.record.unlink()
    with pytest.raises(RunExists, match=r"bare, which is no run since it has no run.json, already\. Choose "
                                         r"another name, or move that folder away"):
        ended("bare", RunConfig.build("CartPole-v1"))
