"""The arithmetic of plans, against numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from workbench.environment_spec import EnvironmentSpec
from workbench.planning import capacity
from workbench.trajectory import StepBatch
from workbench.wire.messages import GroupActions, GroupStep


def test_a_core_is_as_fast_as_measured_at_the_measured_sizes():
    measured = {8: 100.0, 32: 200.0, 128: 250.0}
    assert [capacity.core_rate(measured, n) for n in (8, 32, 128, 500)] == pytest.approx([100.0, 200.0, 250.0, 250.0])


def test_between_two_sizes_the_time_of_a_group_is_linear():
    # 8 at 100/s take 80 ms, 32 at 200/s take 160 ms: 20 take 120 ms.
    assert capacity.core_rate({8: 100.0, 32: 200.0}, 20) == pytest.approx(20 / 0.120)


def test_below_the_smallest_size_no_core_is_faster_than_measured():
    slower_in_larger_groups = {8: 3_939.0, 32: 3_119.0}  # VizDoom: the line through both times is negative at 1
    assert [capacity.core_rate(slower_in_larger_groups, n) for n in (1, 3, 7)] == pytest.approx([3_939.0] * 3)
    # 8 at 100/s take 80 ms, 32 at 200/s take 160 ms: 4 take 66.7 ms.
    assert capacity.core_rate({8: 100.0, 32: 200.0}, 4) == pytest.approx(60.0)


def test_one_measured_size_holds_everywhere():
    assert capacity.core_rate({1: 144.0}, 64) == 144.0


def test_the_service_extrapolates_its_fixed_part_and_its_part_per_environment():
    # 1 at 4,000/s: 0.25 ms; 32 at 40,000/s: 0.8 ms.
    each = (0.8 - 0.25) / 31
    assert capacity.service_rate({1: 4_000.0, 32: 40_000.0}, 128) == pytest.approx(128e3 / (0.25 + 127 * each))


def test_acting_and_training_share_an_accelerator():
    assert capacity.both_rate(300.0, 100.0) == pytest.approx(75.0)
    assert capacity.learner_rate(300.0, 100.0, update_steps=640, reduce_s=0.0) == pytest.approx(75.0)


@pytest.mark.parametrize("reduce_s", [0.01, 1.0, 50.0])
def test_a_learners_cycle_holds_averaging_training_and_the_acting_meanwhile(reduce_s):
    rate = capacity.learner_rate(300.0, 100.0, update_steps=640, reduce_s=reduce_s)
    cycle, train, act = 640 / rate, 6.4, 640 / 300
    assert cycle == pytest.approx(reduce_s + train + act * (cycle - reduce_s) / cycle)
    assert max(train + reduce_s, train + act) <= cycle <= reduce_s + train + act


@pytest.mark.parametrize("n", [1, 32])
def test_bytes_of_a_step_are_those_of_real_messages(n):
    spec = EnvironmentSpec("x", (1, 84, 84), "uint8", 6)
    step = StepBatch(np.zeros((n, 1, 84, 84), np.uint8), np.zeros(n, np.float32), np.zeros(n, np.uint8),
                     np.zeros(0, np.int32), None)
    up, down = capacity.step_bytes(spec.observation_bytes, 4, n, wire_share=1.0)
    assert len(GroupStep(0, 0, step).encode()) == pytest.approx(n * up)
    reply = GroupActions(0, np.zeros(n, np.int64), 7)
    assert len(reply.encode()) == pytest.approx(n * down)


def test_one_learner_averages_nothing_and_many_send_twice_the_gradients():
    assert capacity.reduce_bytes(1000, 1) == 0
    assert capacity.reduce_bytes(1000, 2) == 4000
    assert capacity.reduce_bytes(1000, 1000) == pytest.approx(8000, rel=0.01)


def test_groups_keep_a_core_busy_while_the_others_wait():
    # A group of 32 at 3,200/s takes 10 ms: one waits 10 ms or less, two wait up to 20.
    assert [capacity.groups_for(3200.0, 32, latency) for latency in (0.0, 0.01, 0.0101, 0.02)] == [1, 2, 3, 3]


def test_counts_round_up_but_not_for_nothing():
    assert [capacity.count_for(load, 100.0, 0.8) for load in (1.0, 80.0, 80.1)] == [1, 1, 2]
    assert capacity.count_for(5.0, math.inf, 1.0) == 1
