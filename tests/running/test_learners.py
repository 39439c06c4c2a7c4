"""A run with two learners, as a person has it: it learns, obeys, and comes back when one of them dies."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import workbench as wb
from tests.conftest import eventually
from workbench.errors import OutOfBounds

pytestmark = pytest.mark.full


@pytest.fixture
def run(home: Path) -> Iterator[wb.Run]:
    run = wb.launch("CartPole-v1", name="pair", learners=2, actors=2, envs_per_actor=8, batch_size=16, device="cpu",
                    warmup_updates=0, learning_rate=3e-3, total_frames=50_000_000, learner_threads=1)
    yield run
    run.stop()


def trains(run: wb.Run, beyond: int = 0) -> bool:
    return run.status.state == "training" and run.status.updates > beyond and run.status.frames_per_second > 0


def test_two_learners_learn_cartpole_obey_and_come_back_from_the_checkpoint(run: wb.Run) -> None:
    run.wait(episode_return=60, timeout_s=240, progress=False)
    status = run.status
    assert [actor.index for actor in status.actors if actor.steps] == [0, 1], "actors of both learners"
    assert abs(sum(actor.steps for actor in status.actors) - status.steps) < 0.5 * status.steps, "steps of both"
    with closing(sqlite3.connect(run.directory.metrics)) as store:
        rows = [row for (row,) in store.execute("SELECT DISTINCT env_id FROM episodes")]
    assert sorted(rows) == list(range(16)), "episodes of all environments"
    flights = run.flights().flights
    assert {flight.learner for flight in flights} == {0, 1}, "of both learners"
    assert all(flight.env // run.config.envs_per_actor % 2 == flight.learner for flight in flights)
    obeys(run)
    survives(run)


def obeys(run: wb.Run) -> None:
    """Commands reach both learners; those that would leave one without actors are refused."""
    run.pause()
    updates = run.status.updates
    run.tune(learning_rate=1e-3)
    with pytest.raises(OutOfBounds, match="each learner needs an actor"):
        run.scale(actors=1)
    run.scale(actors=3)
    assert run.status.updates == updates
    run.resume()
    eventually(lambda: trains(run, updates) and all(actor.steps for actor in run.status.actors))
    assert len(run.status.actors) == 3


def survives(run: wb.Run) -> None:
    """One learner is killed: both begin anew from the checkpoint, and the reason is told."""
    kept = run.checkpoint()
    before = run.status.learner_pids
    assert len(before) == 2 and before[1] is not None
    os.kill(before[1], signal.SIGKILL)
    eventually(lambda: None not in run.status.learner_pids and not {*before} & {*run.status.learner_pids})
    eventually(lambda: trains(run, kept.updates), what="it trains on")
    told = run.events["message"].tolist()
    assert "learner-1 ended with signal 9 (SIGKILL)" in told
    assert any(message.startswith(f"continues from the checkpoint at {kept.frames:,}") for message in told)
