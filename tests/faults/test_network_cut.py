"""A cable between hosts that is pulled: actors come back by themselves, and nothing is lost but partial unrolls."""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import eventually
from tests.hosts import OtherHost
from tests.learner.counting import Rig, check_consecutive, check_unroll
from tests.played import code_of
from workbench import rundir
from workbench.config import RunConfig
from workbench.environment_spec import EnvironmentSpec
from workbench.environments import make
from workbench.rundir import RunDirectory
from workbench.wire import certificates
from workbench.wire.endpoints import HOST

pytest.importorskip("cryptography")

VECTOR = EnvironmentSpec("testing/counting-v0", (4,), "float32", 3)
LENGTHS = [5, 8]
FIELDS = {"actors": 3, "envs_per_actor": 4, "groups_per_actor": 2, "max_batch": 4, "unroll_length": 7,
          "environment_options": {"episode_length": LENGTHS, "ends": "alternate", "step_ms": 2.0}}
NEAR = range(8, 12)  # environments of actor 2, which is here; 0 and 1 are on the other host


@pytest.fixture
def running(host: OtherHost, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """A learner's acting half that listens for both hosts, with two actors there and one here."""
    monkeypatch.setenv(HOST, host.here)
    run, config = made("cut", **FIELDS)
    with (
        Rig(run, config, VECTOR).running() as rig,
        actor(run, 0, host.prefix), actor(run, 1, host.prefix), actor(run, 2, []),
    ):
        yield rig


def made(name: str, *, code: dict[str, bytes] | None = None, **fields: Any) -> tuple[RunDirectory, RunConfig]:
    """A run with a certificate."""
    config = RunConfig.build("testing/counting-v0", **fields)
    run = rundir.create(name, {"config": config.to_json(), "created": 0.0}, code=code or {})
    certificates.ensure(run)
    return run, config


@contextmanager
def actor(run: RunDirectory, index: int, prefix: list[str]) -> Iterator[None]:
    """A real actor process on the host of that prefix. Its life must not end before it is ended here."""
    command = [*prefix, sys.executable, "-P", "-m", "workbench", "_actor", str(run.path), str(index)]
    with open(run.logs / f"actor-{index}.log", "ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=dict(os.environ))
    try:
        yield
        assert process.poll() is None, (run.logs / f"actor-{index}.log").read_text()
    finally:
        process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


def lives(rig: Rig) -> dict[int, set[int]]:
    """Lives that unrolls were made in, by actor."""
    return {actor: {one.run_id for one in rig.unrolls if one.env_id // 4 == actor} for actor in range(3)}


def away(rig: Rig) -> int:
    """Steps that came from the other host."""
    return sum(life.steps for index, life in rig.streams.lives.items() if index < 2)


def of_each(rig: Rig, env_ids: range, number: int) -> None:
    """Wait until each of these environments has given `number` more unrolls."""
    have = {env_id: sum(one.env_id == env_id for one in rig.unrolls) for env_id in env_ids}
    while any(sum(one.env_id == env_id for one in rig.unrolls) < have[env_id] + number for env_id in env_ids):
        rig.collect(len(env_ids), timeout_s=240)


def check(rig: Rig, lengths: list[int]) -> None:
    """Whatever was made is whole, in order, and of one life."""
    for unroll in rig.unrolls:
        check_unroll(unroll, lengths)
    check_consecutive(rig.unrolls, shared=1)
    assert not rig.failures


@pytest.mark.full
def test_a_cut_that_is_short_costs_nothing_but_time(running: Rig, host: OtherHost) -> None:
    of_each(running, range(12), 5)
    before = lives(running)
    host.cut()
    of_each(running, NEAR, 50)
    steps = away(running)
    of_each(running, NEAR, 50)
    assert away(running) == steps, "the cable was not cut"
    time.sleep(2)  # TCP has sent again several times, in vain
    host.mend()
    of_each(running, range(12), 5)
    assert lives(running) == before, "the same streams go on"
    check(running, LENGTHS)


def test_a_cut_that_ends_streams_costs_partial_unrolls_alone(running: Rig, host: OtherHost) -> None:
    """Both sides notice by themselves, within 40 s: no end of a connection travels through a cable that is cut."""
    of_each(running, range(12), 5)
    before = lives(running)
    host.cut()
    eventually(lambda: running.streams.connected == 1, what="the learner misses the actors")
    of_each(running, NEAR, 5)
    host.mend()
    eventually(lambda: running.streams.connected == 3, what="the actors come back")
    of_each(running, range(12), 5)
    after = lives(running)
    assert after[2] == before[2], "the other actor was disturbed"
    assert all(len(after[actor]) == 2 and after[actor] > before[actor] for actor in (0, 1))
    check(running, LENGTHS)


@pytest.mark.full
def test_a_step_that_takes_longer_than_anybody_waits_for_an_answer_keeps_its_stream(
    host: OtherHost, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ends are asked whether they are there every 20 s and given up 20 s later. An environment that keeps its
    process's only thread, and Python's lock, all that time must not look like a host that is gone."""

    def factory(num_envs: int, seed: int) -> Any:
        env = make("testing/counting-v0", num_envs=num_envs, seed=seed)
        step, number = env.step, itertools.count()

        def slow(actions: Any) -> Any:
            if next(number) == 30:
                ctypes.PyDLL(None).sleep(45)  # a PyDLL keeps Python's lock
                Path(slept).touch()
            return step(actions)

        env.step = slow
        return env

    slept = str(home / "slept")
    monkeypatch.setenv(HOST, host.here)
    run, config = made("slow", code=code_of(environment=factory), actors=1, envs_per_actor=2,
                       groups_per_actor=1, max_batch=2, unroll_length=7)
    with Rig(run, config, VECTOR).running() as rig, actor(run, 0, host.prefix):
        of_each(rig, range(2), 4)
        assert not Path(slept).exists()
        of_each(rig, range(2), 4)
    assert Path(slept).exists()
    assert len({one.run_id for one in rig.unrolls}) == 1, "the stream was given up"
    check(rig, [7])
