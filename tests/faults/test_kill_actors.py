"""Actors that are killed, one after the other and all at once, while a run learns."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import workbench as wb
from tests.conftest import eventually
from tests.faults.killing import kill, unexplained
from tests.faults.witness import ENVIRONMENT, RUN, Evidence, Witness, evidence, watching
from workbench.environment_spec import EnvironmentSpec
from workbench.testing import CountingEnv

ACTORS, ENVS = 4, 4
ROUNDS = [[0], [1, 2], [0, 1, 2, 3], [3, 0], [0, 1, 2, 3]]  # who is killed at once


@pytest.fixture
def seen(home: Path) -> Path:
    return home / "seen"


@pytest.fixture(params=["auto", "grpc"])
def run(home: Path, seen: Path, request: pytest.FixtureRequest) -> wb.Run:
    return wb.launch(ENVIRONMENT, name="counts", network=watching(seen), actors=ACTORS, envs_per_actor=ENVS,
                     transport=request.param, **RUN)


def all_trained_on(run: wb.Run, told: Evidence) -> bool:
    """Whether each environment of each process that acts now was trained on."""
    pids = [actor.pid for actor in run.status.actors]
    return all(pid is not None and told.of_process(pid) == ENVS for pid in pids)


@pytest.mark.full
def test_every_environment_comes_back_and_no_unroll_mixes_two_lives(run: wb.Run, seen: Path) -> None:
    eventually(lambda: all_trained_on(run, evidence(seen)))
    first = run.status
    for victims in ROUNDS:
        before = run.status
        for index in victims:
            kill(before.actors[index].pid)
        gone = {before.actors[index].pid for index in victims}
        eventually(lambda gone=gone: not gone & {actor.pid for actor in run.status.actors})
        eventually(lambda: all_trained_on(run, evidence(seen)),
                   what="an environment of an actor that was killed does not come back")
    told, last = evidence(seen), run.status
    assert told.wrong == []
    assert len(told.lives) == (ACTORS + sum(map(len, ROUNDS))) * ENVS
    assert last.updates > first.updates
    assert last.learner_pid == first.learner_pid
    assert [actor.restarts for actor in last.actors] == [sum(i in victims for victims in ROUNDS) for i in range(ACTORS)]
    assert unexplained(run.directory) == []


def step(life: int, episode: int, number: int, action: int) -> list[int]:
    return [life, episode, number, action]


@pytest.mark.parametrize(("steps", "count", "wrong"), [
    ([step(9, 0, 3, 1), step(9, 0, 4, 2)], 3, ""),
    ([step(9, 0, 6, 1), step(9, 1, 0, -1)], 6, ""),
    ([step(9, 0, 3, 1), step(8, 0, 4, 2)], 3, "an unroll mixes two lives"),
    ([step(9, 0, 3, 1), step(9, 0, 5, 2)], 3, "an unroll misses or repeats a step"),
    ([step(9, 0, 3, 1), step(9, 2, 0, -1)], 3, "an unroll misses or repeats a step"),
    ([step(9, 0, 3, 1), step(9, 0, 4, 2)], 0, "the state is of another step"),
])
def test_the_witness_says_what_is_wrong_with_an_unroll(
    tmp_path: Path, steps: list[list[int]], count: int, wrong: str
) -> None:
    network = Witness(str(tmp_path / "seen"), 0.0, EnvironmentSpec(ENVIRONMENT, (4,), "float32", 3))
    observation = torch.tensor(steps, dtype=torch.float32)[:, None]
    reward = torch.tensor([CountingEnv.expected_reward(episode, number) for _, episode, number, _ in steps])[:, None]
    action = torch.tensor([max(0, action) for *_, action in steps])[:, None]
    network(observation, action, reward, observation[..., 2] == 0, (torch.full((1, 1), float(count)),))
    said = evidence(tmp_path / "seen").wrong
    assert any(one.startswith(wrong) for one in said) if wrong else not said
