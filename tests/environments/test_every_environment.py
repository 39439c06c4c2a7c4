"""One environment of every family through the real actor process and a real socket: the contract holds message by
message, and the same seed gives the same trajectory as to the vector environment in this process."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from workbench import rundir
from workbench.actor.main import make_groups
from workbench.config import RunConfig
from workbench.environments.batch_rules import BatchRules, check_same, copied
from workbench.environments.contract import random_actions
from workbench.environments.families import FAMILIES
from workbench.rundir import RunDirectory
from workbench.trajectory import StepBatch
from workbench.wire.messages import GroupActions, GroupStep, Hello, Welcome
from workbench.wire.rpc import serve

SEED, GROUPS, STEPS = 11, 2, 30
NEEDS = {  # an environment of every family: the packages that it needs
    "testing/counting-v0": (),
    "CartPole-v1": (),
    "Pendulum-v1": (),
    "ALE/Pong-v5": ("ale_py",),
    "HalfCheetah-v5": ("mujoco",),
    "MiniGrid-Empty-5x5-v0": ("minigrid",),
    "football/academy_empty_goal_close": ("envpool",),
    "vizdoom/basic": ("vizdoom",),
    "dmlab/rooms_watermaze": ("deepmind_lab",),
    "pettingzoo/butterfly/knights_archers_zombies_v11": ("pettingzoo", "pygame"),
}
ROWS = {"pettingzoo/butterfly/knights_archers_zombies_v11": 8}  # of an actor: a game of four for each group
OPTIONS = {"testing/counting-v0": {"life": 7}}  # else each instance says that it is another one


class Learner:
    """Answers an actor with random actions of its own, and keeps what each group said until all have said enough."""

    def __init__(self) -> None:
        self.hello: Hello | None = None
        self.said: dict[int, list[GroupStep]] = {group: [] for group in range(GROUPS)}
        self.enough = threading.Event()

    def play(self, requests: Iterator[bytes], _: object) -> Iterator[bytes]:
        self.hello = hello = Hello.decode(next(requests))
        chances = [np.random.default_rng(group) for group in range(GROUPS)]
        yield Welcome(SEED).encode()
        for data in requests:
            told = GroupStep.decode(data, hello.spec)
            mine = self.said[told.group]
            mine.append(told)
            if len(mine) <= STEPS:
                actions = random_actions(hello.spec, len(told.step.reward), chances[told.group])
                yield GroupActions(told.group, actions, 0).encode()
            elif all(len(one) > STEPS for one in self.said.values()):
                self.enough.set()


@contextlib.contextmanager
def actor_process(run: RunDirectory, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The process that a supervisor starts; it and what it started end with the block."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "workbench", "_actor", str(run.path), "0"], stdin=subprocess.PIPE,
            stdout=file, stderr=file, env={**os.environ, "OMP_NUM_THREADS": "1"}, start_new_session=True)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


def played(run: RunDirectory, log: Path) -> Learner:
    """What an actor process says to a learner."""
    learner = Learner()
    server = serve(run.learner_address(), run.token(), calls={}, streams={"play": learner.play})
    try:
        with actor_process(run, log) as process:
            for _ in range(600):
                if learner.enough.wait(0.1) or process.poll() is not None:
                    break
            assert learner.enough.is_set(), f"exit code {process.poll()}: {log.read_text()[-3000:]}"
    finally:
        server.stop(0)
    return learner


def in_this_process(run: RunDirectory) -> list[list[StepBatch]]:
    """The same groups, seeds and actions without an actor."""
    groups = make_groups(run.config(), run)
    found, first = [], 0
    for number, group in enumerate(groups):
        with contextlib.closing(group):
            chance = np.random.default_rng(number)
            steps = [copied(group.reset(seed=SEED + first))]
            for _ in range(STEPS):
                steps.append(copied(group.step(random_actions(group.spec, group.num_envs, chance))))
            found.append(steps)
            first += group.num_envs
    return found


@pytest.fixture
def run_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """Makes a run's directory where a socket's path is short enough."""
    with tempfile.TemporaryDirectory(prefix="wb") as folder:
        monkeypatch.setenv("WORKBENCH_HOME", folder)

        def made(name: str) -> RunDirectory:
            config = RunConfig.build(name, actors=1, envs_per_actor=ROWS.get(name, 4), groups_per_actor=GROUPS,
                                     environment_options=OPTIONS.get(name, {}))
            return rundir.create("every", {"config": config.to_json(), "created": 0.0})

        yield made


@pytest.mark.parametrize("name", NEEDS)
def test_an_actor_process_keeps_the_contract_and_repeats_what_its_seed_gives(name, run_of, tmp_path):
    for package in NEEDS[name]:
        pytest.importorskip(package, reason=f"{name} needs {package}, which is not installed")
    run = run_of(name)
    one = played(run, tmp_path / "actor.log")
    assert one.hello is not None
    assert (one.hello.environments, one.hello.groups) == (ROWS.get(name, 4), GROUPS)
    here = in_this_process(run)
    for group, said in one.said.items():
        rows = len(said[0].step.reward)
        assert {message.first_env for message in said} == {group * rows}
        rules = BatchRules(SimpleNamespace(spec=one.hello.spec, num_envs=rows), keeps_endings=False)  # type: ignore[arg-type]
        steps = [message.step for message in said]
        rules.first(steps[0])
        for before, after in zip(steps[:-1], steps[1:], strict=True):
            rules.next(after, before)
        assert rules.varied and rules.counts.steps > 0
        check_same(steps, here[group], "same seed, same trajectory", "the actor's process and this one")


def test_every_family_has_one_here():
    assert {family.prefix for family in FAMILIES} <= {f"{name.partition('/')[0]}/" for name in NEEDS}
