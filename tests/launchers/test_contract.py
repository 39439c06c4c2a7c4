"""What every launcher does, in one suite: one parameter for each. `tests/launchers/places.py` says how each is had."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import workbench as wb
from tests.conftest import CALM, eventually, processes_of
from tests.launchers.places import PLACES, Offer, local, ray
from workbench import launchers, rundir
from workbench.config import RunConfig
from workbench.errors import EnvironmentFailed, InvalidInput
from workbench.rundir import lock
from workbench.running.starts.starting import new_record
from workbench.supervisor.hosts.host import Resources

START_S = 240.0


# make test runs a run on Ray in test_ray.py: another cluster takes most of a minute to start. Nearly every other file
# runs one in local processes.
SUITES = [pytest.param(place, id=place.__name__, marks=[pytest.mark.full] if place in (ray, local) else [])
          for place in PLACES]


@pytest.fixture(scope="module", params=SUITES)
def offer(request: pytest.FixtureRequest, module_home: Path) -> Iterator[Offer]:
    """What a place offers: the fields that `wb.launch` takes for it."""
    yield from request.param()


@pytest.fixture(scope="module")
def run(offer: Offer) -> Iterator[wb.Run]:
    name = f"contract-{offer.fields['launcher']}"
    made = wb.launch("testing/counting-v0", name=name, **CALM, **offer.fields, total_frames=10**9,
                     ready_timeout_s=START_S)
    yield made
    made.stop(timeout_s=20)


def test_a_run_trains_and_knows_where_it_lives(run: wb.Run, offer: Offer) -> None:
    assert run.wait(updates=3, timeout_s=START_S).state == "training"
    assert {name: run.config.value(name) for name in offer.fields} == offer.fields


@pytest.mark.full
def test_actors_come_and_go_while_it_learns(run: wb.Run) -> None:
    for actors in (3, 1, 2):
        run.scale(actors=actors)

        def as_told(actors: int = actors) -> bool:
            told = run.status.actors
            return len(told) == actors and all(one.alive and one.steps_per_second > 0 for one in told)

        eventually(as_told, what=f"{actors} actors that step")


def test_an_actor_that_ends_comes_back(run: wb.Run) -> None:
    restarts = run.status.actors[1].restarts
    run.restart_actor(1)
    eventually(lambda: run.status.actors[1].restarts > restarts and run.status.actors[1].steps_per_second > 0)


@pytest.mark.full
def test_an_actor_that_is_killed_comes_back(run: wb.Run, offer: Offer) -> None:
    if not offer.kills:
        pytest.skip("nothing can be killed in one process")
    errors = list(run.events["kind"]).count("error")
    run.restart_actor(0, kill=True)
    eventually(lambda: "kill" in set(run.events["kind"]))
    assert list(run.events["kind"]).count("error") == errors, "what a person asked for is no fault"
    eventually(lambda: run.status.actors[0].alive and run.status.actors[0].steps_per_second > 0)


@pytest.mark.full
def test_pausing_and_tuning_take_effect(run: wb.Run) -> None:
    assert run.tune(entropy_cost=0.007)["new"] == {"entropy_cost": 0.007}
    with run.paused():
        assert run.status.state == "paused"
    eventually(lambda: run.status.state == "training")


def test_another_process_attaches(run: wb.Run) -> None:
    code = f"import workbench as wb; run = wb.attach({run.name!r}); print(run.status.state, run.config.launcher)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    assert told.stdout.split() == ["training", run.config.launcher], told.stderr


def test_logs_of_learner_and_actors_lie_in_the_run_directory(run: wb.Run, offer: Offer) -> None:
    names = {path.stem for path in run.directory.logs.glob("*.log")}
    assert names >= offer.logs


@pytest.mark.full
def test_a_stopped_run_goes_on_where_it_was(run: wb.Run) -> None:
    frames = run.stop(timeout_s=30).frames
    assert run.status.state == "stopped"
    assert run.checkpoints[-1].frames == frames
    eventually(lambda: not lock.is_alive(run.directory))
    again = wb.resume(run.name, ready_timeout_s=START_S)
    assert again.config.launcher == run.config.launcher
    assert again.wait(frames=frames + 200, timeout_s=START_S).state == "training"


@pytest.mark.full
def test_an_environment_that_fails_is_the_launchs_error_and_leaves_nothing(offer: Offer) -> None:
    class Broken:
        def __init__(self) -> None:
            raise ValueError("no such game")

    name = f"broken-{offer.fields['launcher']}"
    with pytest.raises(EnvironmentFailed, match="no such game") as caught:
        wb.launch(Broken, name=name, **{**CALM, "environment_options": {}}, **offer.fields, ready_timeout_s=START_S)
    assert f"{name} has trained nothing, and lies in {rundir.trash()}" in caught.value.__notes__[-1]
    assert not (rundir.home() / "runs" / name).exists()


@pytest.mark.full
def test_what_was_started_can_be_polled_read_and_stopped(offer: Offer) -> None:
    config = RunConfig.build("testing/counting-v0", **CALM, **offer.fields)
    directory = rundir.create(f"by-hand-{config.launcher}", new_record(config, parent=None, code={}))
    place = launchers.checked(launchers.by_name(config.launcher), config)
    launched = place.start(directory)
    attached = wb.attach(directory.path)
    eventually(lambda: attached.status.state == "training")
    assert launched.poll() is None
    assert isinstance(launched.logs(), str)
    launched.stop()
    eventually(lambda: attached.status.state == "stopped")
    assert eventually(lambda: None if launched.poll() is None else str(launched.poll())) == "0"
    launched.stop()  # of one that has ended: nothing
    eventually(lambda: not processes_of(directory.path))
    eventually(lambda: place.waits_for(directory) == "", what="it does not begin by itself")
    place.withdraw(directory)


def test_what_processes_need_is_said_in_the_same_words_everywhere(offer: Offer) -> None:
    words = {"learner_cpus": 0.5, "learner_gpus": 0.0, "learner_memory_gb": 0.1, "actor_cpus": 0.25,
             "actor_memory_gb": 0.05}
    config = RunConfig.build("testing/counting-v0", **CALM, **offer.fields).replaced(**words)
    launchers.checked(launchers.by_name(config.launcher), config)
    assert str(Resources.of_learner(config)) == "0.5 CPUs, 0.1 GB of memory"
    assert Resources.of_actor(config) == Resources(0.25, 0.0, 0.05)


def test_an_address_is_refused_where_there_is_no_cluster(offer: Offer) -> None:
    if offer.fields["launcher"] == "ray":
        pytest.skip("it has a cluster")
    with pytest.raises(InvalidInput, match="address='auto' is of a Ray cluster"):
        wb.launch("CartPole-v1", **{**offer.fields, "address": "auto"})
