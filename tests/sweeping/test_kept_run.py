"""What a sweep does with a run whose machine is lost, taken back, or not there yet. No run has a process here."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sweeping.test_sweeper import FRAMES, PBT, commit, every, forked, home, states, swept, trained
from tests.widgets import recorded
from workbench.config import RunConfig
from workbench.errors import ConnectionLost, RunFailed, StorageFailed
from workbench.launchers.local import LocalLauncher
from workbench.metrics import MetricsWriter
from workbench.rundir import RunDirectory
from workbench.running.connection import stored_status
from workbench.sweeping import kept_run, population
from workbench.sweeping import study as sweep_study
from workbench.sweeping.kept_run import MOST_LIVES, KeptRun, withdraw
from workbench.sweeping.population import Population
from workbench.sweeping.sweep_folder import SweepFolder
from workbench.sweeping.sweep_handle import Sweep
from workbench.sweeping.sweeper import Sweeper
from workbench.sweeping.trial import WatchedTrial

__all__ = ["home"]  # the fixture
pytest.importorskip("optuna")
ROOM = "a node of the cluster with 1 CPU to spare"


class Cluster(LocalLauncher):
    """Ray, as a sweep sees it: what it holds, by run, and whether it answers."""

    def __init__(self) -> None:
        self.holds: dict[str, str] = {}
        self.answers = True
        self.withdrawn: list[str] = []

    def waits_for(self, run: RunDirectory) -> str:
        if not self.answers:
            raise ConnectionLost("no Ray cluster answers")
        return self.holds.get(run.name, "")

    def withdraw(self, run: RunDirectory) -> None:
        self.withdrawn.append(run.name)
        del self.holds[run.name]


class Begun:
    """Takes the place of `go_on`: notes what is begun, and leaves it without a supervisor."""

    def __init__(self) -> None:
        self.changes: list[dict[str, Any]] = []
        self.error: Exception | None = None

    def __call__(self, run: RunDirectory, place: Any, **changes: Any) -> None:
        if self.error is not None:
            raise self.error
        self.changes.append(changes)
        run.write(state="starting")


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Begun:
    made = Begun()
    monkeypatch.setattr(kept_run, "go_on", made)
    monkeypatch.setattr(kept_run, "_AGAIN_S", 0.0)
    return made


def dead(name: str = "sweep-0") -> RunDirectory:
    """A run whose supervisor is gone."""
    run = recorded.new(name)
    run.write(state="training", supervisor_pid=1)
    assert stored_status(run).state == "dead"
    return run


def kept(place: Cluster) -> tuple[KeptRun, RunDirectory]:
    run = dead()
    return KeptRun(run, place), run


# --- a run ------------------------------------------------------------------------------------------------------------


def test_a_run_that_ray_moves_is_left_to_ray_however_often_its_machine_goes(begun: Begun) -> None:
    place = Cluster()
    one, run = kept(place)
    for _ in range(3 * MOST_LIVES):
        place.holds[run.name] = ROOM
        assert not one.has_supervisor(stored_status(run)) and one.waits == ROOM
        commit(run, 100, rows=range(100, 101))
        run.write(state="finished")  # as any that has a supervisor, which it does not need here
        assert one.has_supervisor(stored_status(run)) and one.waits == ""
        run.write(state="training")
    assert begun.changes == []


def test_a_run_whose_supervisor_died_is_begun_again_and_fails_after_some_lives(begun: Begun) -> None:
    one, run = kept(Cluster())
    for _ in range(MOST_LIVES - 1):
        assert not one.has_supervisor(stored_status(run)) and one.waits == ""
    with pytest.raises(RunFailed, match="its supervisor died 3 times"):
        one.has_supervisor(stored_status(run))
    assert begun.changes == [{}] * (MOST_LIVES - 1)


def test_lives_are_counted_also_where_ray_holds_the_host_of_a_dead_supervisor_for_a_while(begun: Begun) -> None:
    place = Cluster()
    one, run = kept(place)
    for _ in range(MOST_LIVES):
        place.holds[run.name] = "its start on a node of the cluster"
        assert not one.has_supervisor(stored_status(run))
        del place.holds[run.name]
        if len(begun.changes) == MOST_LIVES - 1:
            with pytest.raises(RunFailed, match="its supervisor died 3 times"):
                one.has_supervisor(stored_status(run))
            return
        assert not one.has_supervisor(stored_status(run))
        run.write(state="finished")  # as any that has a supervisor, which it does not need here
        commit(run, 100, rows=range(100, 101))
        assert one.has_supervisor(stored_status(run))
        run.write(state="training")
    raise AssertionError(f"it was begun again for ever: {begun.changes}")


def test_a_cluster_that_does_not_answer_is_asked_again_and_its_loss_counts_as_no_life(begun: Begun) -> None:
    place = Cluster()
    one, run = kept(place)
    for _ in range(2 * MOST_LIVES):
        place.answers = False
        assert not one.has_supervisor(stored_status(run)) and one.waits == "no Ray cluster answers"
        place.answers = True  # another one, which holds nothing
        assert not one.has_supervisor(stored_status(run))
    assert begun.changes == [{}] * 2 * MOST_LIVES


def test_a_start_that_finds_no_cluster_is_tried_again_with_the_same_changes(begun: Begun) -> None:
    one, run = kept(Cluster())
    trained(run, total_frames=9000)
    begun.error = ConnectionLost("no Ray cluster answers")
    one.begin(total_frames=18_000)
    assert not one.has_supervisor(stored_status(run)), "that its last generation has finished says nothing"
    assert one.waits == "no Ray cluster answers"
    begun.error = None
    assert not one.has_supervisor(stored_status(run))
    assert begun.changes == [{"total_frames": 18_000}]


def test_a_run_that_waits_can_be_withdrawn_and_another_stays_as_it_is() -> None:
    place, run, other = Cluster(), dead("sweep-0"), dead("sweep-1")
    place.holds[run.name] = ROOM
    for each in (run, other):
        withdraw(each, place)
    assert place.withdrawn == ["sweep-0"] and (run.read()["state"], other.read()["state"]) == ("stopped", "training")
    place.answers = False
    withdraw(other, place)
    assert other.read()["state"] == "stopped", "so that a cluster that answers again does not begin it"


# --- a trial ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ended_by", "verdict", "again"), [
    (None, "pruned", 0), ("signal", "", 1), ("notice", "", 0),
])  # fmt: skip
def test_only_a_run_that_was_stopped_by_hand_is_pruned(
    begun: Begun, ended_by: str | None, verdict: str, again: int
) -> None:
    sweep = swept()
    study = sweep_study.opened(sweep, sampling=True)
    run = recorded.new("sweep-0")
    commit(run, 5000, state="stopped", rows=range(100, 5001, 100))
    run.write(state="stopped", ended_by=ended_by)
    watched = WatchedTrial(study, study.ask(), run, Cluster(), "episode_return", FRAMES)
    watched.look()
    assert (watched.verdict, len(begun.changes), bool(watched.taken_back)) == (verdict, again, ended_by == "notice")


def test_a_trial_that_waits_says_so_and_a_pruned_one_is_withdrawn(begun: Begun) -> None:
    sweep, place = swept(), Cluster()
    study = sweep_study.opened(sweep, sampling=True)
    run = dead()
    place.holds[run.name] = ROOM
    watched = WatchedTrial(study, study.ask(), run, place, "episode_return", FRAMES)
    assert not watched.look() and not watched.look()
    (trial,) = sweep_study.trials(sweep, study)
    assert (trial.state, trial.waits, trial.said) == ("running", ROOM, f"waits: {ROOM}")
    watched._decide("pruned", "worse than others")  # just before its machine was lost
    assert watched.look() and place.withdrawn == [run.name]
    assert states(sweep) == [("pruned", "worse than others")]


# --- a sweep ----------------------------------------------------------------------------------------------------------


def placed(monkeypatch: pytest.MonkeyPatch, sweeper: Sweeper) -> Cluster:
    """A cluster in place of the sweep's launcher."""
    place = Cluster()
    monkeypatch.setattr(sweeper, "_place", place)
    return place


def test_no_trial_begins_before_one_that_waits_for_a_machine(begun: Begun, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = swept(trials=4, parallel=4)
    one = Sweeper(sweep)
    place = placed(monkeypatch, one)
    place.holds["sweep-0"] = ROOM
    for _ in range(3):
        one._fill()
        assert not any(one._over(watched) for watched in one._watched)
    assert [trial.run for trial in Sweep(sweep).trials] == ["sweep-0"]
    sweep.write(state="running")
    monkeypatch.setattr(SweepFolder, "alive", True)
    assert Sweep(sweep).status.line() == "running, 0 of 4 trials, 1 waiting for a machine"
    assert repr(Sweep(sweep)) == f"Sweep({Sweep(sweep).name}: running, 0 of 4 trials, 1 waiting for a machine)"
    trained(sweep.run(0))
    assert one._over(one._watched.pop())
    one._fill()
    assert len(Sweep(sweep).trials) == 2


def test_a_sweep_stops_when_its_machine_is_taken_back_and_its_trials_stay_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def take_back(run: RunDirectory, *_: Any, **__: Any) -> None:
        commit(run, 5000, state="stopped", rows=range(100, 5001, 100))
        writer = MetricsWriter(run.metrics)
        why = {"state": "stopped", "reason": "gcp takes this spot machine back in 30 s: so"}
        writer.status({**recorded.STATUS, **why, "frames": 5000})
        writer.close()
        run.write(state="stopped", ended_by="notice")

    monkeypatch.setattr(kept_run, "go_on", take_back)
    sweep = swept(trials=20)
    sweep.write(**Sweeper(sweep).run())
    assert states(sweep) == [("running", "")], "no other trial was begun on that machine"
    status = Sweep(sweep).status
    assert (status.state, status.running, status.pruned) == ("stopped", 1, 0)
    assert status.line().endswith(": gcp takes this spot machine back in 30 s: resume() goes on, on the next machine")
    sweep.order_to_stop.unlink()
    monkeypatch.setattr(kept_run, "go_on", trained)
    sweep.write(trials=2)
    assert Sweeper(sweep).run() == {"state": "finished"}
    assert states(sweep) == [("finished", "")] * 2


def test_a_population_decides_when_a_member_that_waited_has_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    sweep, decided, waited = swept(**PBT, parallel=2), list[list[int]](), list[str]()
    one = Population(sweep)
    place = placed(monkeypatch, one)

    def train_but_one(run: RunDirectory, place: Cluster, total_frames: int = 0) -> None:
        if run.name == "sweep-1" and not waited:
            waited.append(run.name)
            run.write(state="starting")
            place.holds[run.name] = ROOM
        else:
            trained(run, place, total_frames or run.config().total_frames)

    def give_room(self: Population, watched: WatchedTrial) -> bool:
        over = look(self, watched)
        if watched.waits and not any(other is not watched for other in self._watched):  # the others have ended
            place.holds.clear()
            trained(watched.run, place, FRAMES // 3)
        return over

    def decide(self: Population, members: Any, generation: int) -> None:
        decided.append([stored_status(member.run).frames for member in members])
        choose(self, members, generation)

    look, choose = Population._over, Population._decide
    monkeypatch.setattr(kept_run, "go_on", train_but_one)
    monkeypatch.setattr(Population, "_over", give_room)
    monkeypatch.setattr(Population, "_decide", decide)
    monkeypatch.setattr(population, "forked", forked)
    monkeypatch.setattr(population.checkpoints, "every", every)
    assert one.run() == {"state": "finished"} and waited
    assert decided[0] == [FRAMES // 3] * 4
    assert sorted(state for state, _ in states(sweep)) == ["finished"] * 4 + ["pruned"] * 2


def test_a_fork_that_finds_no_cluster_is_made_once_the_cluster_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [ConnectionLost("no Ray cluster answers")] * 3

    def forked_at_last(*given: Any, **more: Any) -> RunDirectory:
        if errors:
            raise errors.pop()
        return forked(*given, **more)

    monkeypatch.setattr(kept_run, "go_on", lambda run, place, total_frames=0: trained(
        run, place, total_frames or run.config().total_frames))
    monkeypatch.setattr(population, "forked", forked_at_last)
    monkeypatch.setattr(population.checkpoints, "every", every)
    sweep = swept(**PBT)
    assert Population(sweep).run() == {"state": "finished"} and not errors
    assert sorted(state for state, _ in states(sweep)) == ["finished"] * 4 + ["pruned"] * 2


# --- cost -------------------------------------------------------------------------------------------------------------


def test_a_sweep_sums_what_its_runs_cost_and_counts_a_fork_from_its_parent_on(monkeypatch: pytest.MonkeyPatch) -> None:
    config = RunConfig.build("CartPole-v1", total_frames=FRAMES, price_per_hour=2.0)

    def spend(run: RunDirectory, *_: Any, **__: Any) -> None:
        trained(run)
        writer = MetricsWriter(run.metrics)
        status = {**recorded.STATUS, "state": "finished", "frames": FRAMES, "cost": 0.5}
        writer.status({**status, "first_frames": 7000 if run.name == "sweep-1" else None})
        writer.close()

    monkeypatch.setattr(kept_run, "go_on", spend)
    sweep = swept(trials=3, parallel=3, config=config.to_json())
    one = Sweeper(sweep)
    for _ in range(3):
        one._fill()
    assert one._over(one._watched[0]), "one is over, two are under way"
    status = Sweep(sweep).status
    assert (status.cost, status.frames) == (1.5, 3 * FRAMES - 7000)
    assert status.cost_per_billion_frames == pytest.approx(1.5e9 / (3 * FRAMES - 7000))
    assert "cost 1.50 (" in status.line()


def test_what_a_study_says_of_waiting_and_cost_is_checked() -> None:
    for attribute, value in ((sweep_study.WAITS, 3), (sweep_study.SPENT, ["much", 1]), (sweep_study.SPENT, 7)):
        sweep = swept(name=f"odd{attribute}{value}".replace(" ", "")[:20].replace("[", "").replace("'", ""))
        study = sweep_study.opened(sweep, sampling=True)
        study.ask().set_user_attr(attribute, value)
        with pytest.raises(StorageFailed):
            sweep_study.trials(sweep, study)
