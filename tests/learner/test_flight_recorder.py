"""The flight recorder times the life of an observation without a gap, and says nothing of a step that no unroll has."""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests.learner import counting
from tests.learner.counting import actor_of, rig
from workbench.environment_spec import EnvironmentSpec
from workbench.environments import make
from workbench.learner.devices.cuda import CudaDevice
from workbench.learner.devices.device import Device
from workbench.learner.inference.batcher import Request
from workbench.learner.metrics import flight_recorder
from workbench.learner.metrics.flight_recorder import FlightRecorder, OpenFlight
from workbench.learner.metrics.meters import Meters
from workbench.learner.training.loop import TrainingLoop
from workbench.metrics.flights import STAGES
from workbench.replay.epochs import Epochs
from workbench.replay.experience import Fresh
from workbench.replay.queue import UnrollQueue
from workbench.trajectory import StepBatch
from workbench.wire.messages import GroupStep

SPEC = EnvironmentSpec("testing/counting-v0", (4,), "float32", 3)
LIFE_S = 0.003  # of a batch


@pytest.fixture(autouse=True)
def every_batch(monkeypatch):
    monkeypatch.setattr(flight_recorder, "_INTERVAL_S", 0.0)


def request(env_ids, *, run_id=1, arrived=0.0, stepping_s=0.25, round_trip_s=0.0):
    step = StepBatch(observation=np.zeros((len(env_ids), 4), np.float32), reward=np.zeros(len(env_ids), np.float32),
                     flags=np.zeros(len(env_ids), np.uint8))
    return Request(np.array(env_ids), run_id, GroupStep(0, 0, step, stepping_s, round_trip_s), lambda actions: None,
                   lambda: True, arrived)


def unroll(env_id, run_id=1):
    return SimpleNamespace(env_id=env_id, run_id=run_id, flight=None)


def all_fill(rows):
    return np.ones(len(rows), bool)


@pytest.mark.parametrize("transport", ["auto", "grpc"])
def test_the_stages_of_a_life_add_up_to_it(monkeypatch, transport):
    monkeypatch.setattr(counting, "TRANSPORT", transport)
    with rig(SPEC, actors=1, envs_per_actor=6, groups_per_actor=2, unroll_length=5) as running:
        groups = [make("testing/counting-v0", num_envs=3, seed=7) for _ in range(2)]
        experience = Fresh(running.queue)
        with actor_of(running.run, groups):
            landed, before, deadline = 0, time.perf_counter(), time.monotonic() + 60
            while landed < 20:
                assert time.monotonic() < deadline, f"{landed} flights after a minute"
                batch = experience.next(SimpleNamespace(batch_size=4), timeout_s=10)
                time.sleep(LIFE_S)
                flights = [unroll.flight for unroll in batch.unrolls if unroll.flight is not None]
                for flight in flights:
                    flight.ends("training")
                    flight.land()
                landed += len(flights)
    for flight in running.inference.flights._landed:
        assert list(STAGES) == sorted(flight.seconds, key=list(STAGES).index) and 0 <= flight.row < 6
        assert all(seconds >= 0 for seconds in flight.seconds.values()) and flight.seconds["training"] >= LIFE_S
        life_s, together = flight.landed_at - flight.born, sum(flight.seconds.values())
        # where the unroll ended with this step, or soon after it, the wire's time goes beyond it
        beyond = flight.seconds["wire"] if flight.seconds["unroll"] == 0 else 0
        assert life_s - 1e-6 <= together <= life_s + beyond + 1e-6
        assert before < flight.born + 1 and flight.landed_at < time.perf_counter()


def test_one_observation_is_followed_every_interval(monkeypatch):
    monkeypatch.setattr(flight_recorder, "_INTERVAL_S", 0.05)
    recorder, boarded = FlightRecorder(), []
    for batch in range(100):
        recorder.record([request(range(8)), request(range(8, 16))], np.arange(16), [], fills=all_fill,
                        began=batch * 0.01, answered=batch * 0.01 + 0.005)
        boarded.append(len(recorder._aboard))
    assert boarded[-1] == 16 and len(recorder._aboard) == 16, "each environment has one flight at most"
    assert boarded[:12] == [1] * 5 + [2] * 5 + [3] * 2


def test_a_step_that_is_left_out_of_unrolls_is_not_followed():
    recorder = FlightRecorder()
    for _ in range(5):
        recorder.record([request([0, 1])], np.array([0, 1]), [], fills=lambda rows: rows > 5, began=0.0, answered=1.0)
    assert not recorder._aboard
    recorder.record([request([0, 1])], np.array([], int), [], fills=all_fill, began=0.0, answered=1.0)
    assert not recorder._aboard


def test_an_unroll_of_another_life_takes_no_flight():
    recorder, later = FlightRecorder(), unroll(0, run_id=2)
    recorder.record([request([0])], np.array([0]), [], fills=all_fill, began=0.0, answered=1.0)
    recorder.record([request([0], run_id=2)], np.array([0]), [], fills=all_fill, began=2.0, answered=3.0)
    assert recorder._aboard[0].run_id == 2, "the flight of a life that is over would wait for ever"
    recorder.record([request([0], run_id=2)], np.array([0]), [later], fills=all_fill, began=4.0, answered=5.0)
    assert later.flight.run_id == 2 and later.flight.seconds["wait"] == 2.0


def test_the_way_to_the_actor_and_back_is_what_the_next_message_says():
    recorder, done = FlightRecorder(), unroll(0)
    recorder.record([request([0], arrived=1.0)], np.array([0]), [], fills=all_fill, began=1.5, answered=2.0)
    recorder.record([request([0], arrived=4.0, round_trip_s=1.125)], np.array([0]), [done], fills=all_fill,
                    began=4.5, answered=5.0)
    assert done.flight.seconds == {
        "step": 0.25, "wait": 0.5, "inference": 0.5, "wire": 0.125, "unroll": done.flight.seconds["unroll"]}
    assert done.flight.born == 0.75


def test_means_are_of_the_flights_since_the_last_ones():
    recorder = FlightRecorder()
    assert recorder.means() == {} and recorder.flights() == []
    for training_s in (1.0, 3.0):
        done = unroll(0)
        recorder.record([request([0], arrived=1.0)], np.array([0]), [done], fills=all_fill, began=1.5, answered=2.0)
        done.flight.ends("queue")
        done.flight.ends("training")
        done.flight.seconds["training"] = training_s
        done.flight.land()
    means = recorder.means()
    assert list(means) == [f"life_{stage}_s" for stage in STAGES]
    assert means["life_training_s"] == 2.0 and means["life_step_s"] == 0.25
    assert recorder.means() == {}, "these were told before"
    assert [one["row"] for one in recorder.flights()] == [0, 0]


def test_flights_that_land_at_one_time_all_count_also_where_means_are_asked_between_them():
    recorder, told = FlightRecorder(), []
    for training_s in (1.0, 3.0):  # of one batch
        done = unroll(0)
        recorder.record([request([0], arrived=1.0)], np.array([0]), [done], fills=all_fill, began=1.5, answered=2.0)
        done.flight.ends("training", 9.0)
        done.flight.seconds["training"] = training_s
        done.flight.land()
        told.append(recorder.means()["life_training_s"])
    assert told == [1.0, 3.0]


class Clock:
    """A clock of the test: the time goes on where the test says so."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def pass_by(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(time, "perf_counter", clock)
    return clock


@dataclass
class Taken:
    """Stands for a batch."""

    unrolls: list
    round: int = 0


def in_flight(landed):
    flight = OpenFlight(request([0]), 0, began=time.perf_counter(), answered=time.perf_counter(), landed=landed)
    flight.ends("unroll")
    return flight


class Ahead(Device):
    """A device that is done with an update 5 ms after the host has launched it."""

    lags = True

    def done_at(self):
        at = time.perf_counter() + 0.005
        return lambda: at


@pytest.mark.parametrize(("device", "training_s"), [(Device, 0.002), (Ahead, 0.007)])
def test_training_ends_with_the_update_and_has_no_wait_for_the_next_batch(clock, device, training_s):
    landed = []
    trainer = SimpleNamespace(updates=0, update=lambda *_, **__: clock.pass_by(0.002),
                              arriving=lambda loss: lambda: loss)
    parts = SimpleNamespace(
        device=device(precision="fp32"), trainer=trainer, policy=SimpleNamespace(version=0),
        experience=SimpleNamespace(between_rounds=True, after_update=lambda *_: None))
    state = SimpleNamespace(parts=parts, hyperparameters=None, learning_rate=0.0,
                            learners=SimpleNamespace(batch=lambda draw: draw))
    loop = TrainingLoop(state, orders=None, commands=None, log=None, meters=Meters(),
                        schedule=SimpleNamespace(skipped=lambda: None), checkpoints=None)
    for _ in range(4):
        clock.pass_by(0.03)  # no batch is ready
        unroll = SimpleNamespace(flight=in_flight(landed))
        unroll.flight.ends("queue")
        loop._update(SimpleNamespace(unrolls=[unroll]))
        assert unroll.flight is None, "a later epoch may train on it again"
    assert [flight.seconds["training"] for flight in landed] == pytest.approx([training_s] * (4 - device.lags))


def test_a_gpus_event_is_told_in_the_time_of_the_host(clock, monkeypatch):
    gpu = {"training": 0.0, "idle": 0.0}  # when each stream has done its work, by the host's time

    class Event:
        def __init__(self, *, enable_timing):
            assert enable_timing

        def record(self, stream):
            self.at = max(clock.now, gpu[stream])

        def synchronize(self):
            clock.now = max(clock.now, self.at)

        def elapsed_time(self, later):
            return 1e3 * (later.at - self.at)

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: "idle")
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: "training")
    device = CudaDevice("cpu", precision="fp32")
    gpu["training"] = clock.now + 0.004  # the update that was launched
    done_at = device.done_at()
    gpu["training"] += 1.0  # the next one
    clock.pass_by(0.03)
    assert done_at() == pytest.approx(100.004)
    gpu["training"] = clock.now + 0.004
    assert device.done_at()() == pytest.approx(clock.now) and clock.now == pytest.approx(100.034), "it waits for it"


def test_the_wait_for_its_turn_in_a_round_is_in_the_queue(clock, monkeypatch):
    landed, queue = [], UnrollQueue(4)
    experience = Epochs(queue, agreed=None, seed=0, updates=lambda: 0)
    monkeypatch.setattr(experience, "_batch", lambda unrolls: Taken(unrolls))
    config = SimpleNamespace(batch_size=2, minibatches=2, epochs=1, queue_size=4)
    queue.put(*(SimpleNamespace(flight=in_flight(landed)) for _ in range(4)))
    clock.pass_by(0.25)
    waited = []
    for _ in range(2):
        for one in experience.next(config, timeout_s=0).unrolls:
            waited.append(one.flight.seconds["queue"])
        clock.pass_by(0.5)  # the update
    assert waited == pytest.approx([0.25, 0.25, 0.75, 0.75])
