"""Step messages: inverse pairs, and refusal of whatever does not fit."""

import json

import numpy as np
import pytest

from workbench.errors import ShapeMismatch
from workbench.trajectory import EnvironmentSpec, Flags, StepBatch
from workbench.wire.messages import GroupActions, GroupStep, Hello, Welcome, names_in, names_metadata

SPEC = EnvironmentSpec("image", (1, 6, 5), "uint8", 3, 4, 4)


def step_of(count: int, finals: tuple[int, ...] = ()) -> GroupStep:
    random = np.random.default_rng(count)
    final = random.integers(0, 255, (len(finals), 1, 6, 5), np.uint8) if finals else None
    batch = StepBatch(
        random.integers(0, 255, (count, 1, 6, 5), np.uint8), random.normal(size=count).astype(np.float32),
        random.integers(0, 16, count, np.uint8), np.array(finals, np.int32), final,
    )
    return GroupStep(3, 8, batch, 0.25, 2.0)


@pytest.mark.parametrize(("count", "finals"), [(1, ()), (5, ()), (5, (0, 4)), (3, (0, 1, 2))])
def test_a_step_comes_out_as_it_went_in(count, finals):
    sent = step_of(count, finals)
    came = GroupStep.decode(sent.encode(), SPEC)
    assert (came.group, came.first_env) == (3, 8)
    assert (came.stepping_s, came.round_trip_s) == (0.25, 2.0)
    for name in ("observation", "reward", "flags", "final_index"):
        np.testing.assert_array_equal(getattr(came.step, name), getattr(sent.step, name))
    if finals:
        np.testing.assert_array_equal(came.step.final_observation, sent.step.final_observation)
    else:
        assert came.step.final_observation is None


def test_actions_and_their_version_come_out_as_they_went_in():
    came = GroupActions.decode(GroupActions(2, np.array([0, 5, 17]), 2**40).encode(), SPEC.actions)
    assert (came.group, came.actions.tolist(), came.policy_version) == (2, [0, 5, 17], 2**40)


def test_hello_and_welcome_come_out_as_they_went_in():
    hello = Hello(1, 2**61, 16, 2, SPEC)
    assert Hello.decode(hello.encode()) == hello
    assert Welcome.decode(Welcome(7).encode()) == Welcome(7)


def test_a_hello_has_the_fields_that_older_learners_know_and_no_others():
    told = json.loads(Hello(1, 2**61, 16, 2, SPEC).encode())
    assert told.keys() == {"protocol", "actor", "run_id", "environments", "groups", "spec"}


def test_fields_of_a_later_version_are_left_out():
    hello = Hello(1, 2**61, 16, 2, SPEC)
    assert Hello.decode(json.dumps({**json.loads(hello.encode()), "mood": "good"}).encode()) == hello
    assert Welcome.decode(b'{"seed": 7, "mood": "good"}') == Welcome(7)


@pytest.mark.parametrize("names", [(), ("left", "right"), ("höher", "a, \n\x7f \u4e0a")])
def test_names_of_actions_come_out_as_they_went_in(names):
    assert names_in((("x-other", "1"), *names_metadata(names))) == names


@pytest.mark.parametrize("metadata", [(), names_metadata(["long"] * 1000), ((names_metadata(["a"])[0][0], b"\xff"),),
                                      ((names_metadata(["a"])[0][0], b"3"),)])
def test_without_names_of_actions_there_are_none(metadata):
    assert names_in(metadata) == ()


@pytest.mark.parametrize("cut", [0, 3, 27, -1])
def test_a_message_of_the_wrong_length_is_refused_with_both_lengths(cut):
    data = step_of(4).encode()
    with pytest.raises(ShapeMismatch, match="bytes"):
        GroupStep.decode(data[:cut], SPEC)


def test_final_observations_of_environments_outside_the_group_are_refused():
    with pytest.raises(ShapeMismatch, match="final observations"):
        GroupStep.decode(step_of(3, (7,)).encode(), SPEC)


def test_random_bytes_never_decode_and_never_crash():
    random = np.random.default_rng(0)
    whole = step_of(4, (1,)).encode()
    for _ in range(2000):
        data = bytearray(whole[: random.integers(0, len(whole) + 1)])
        for at in random.integers(0, max(len(data), 1), 4)[: len(data)]:
            data[at] = random.integers(0, 256)
        try:
            decoded = GroupStep.decode(bytes(data), SPEC)
        except ShapeMismatch:
            continue
        assert len(decoded.step.reward) == len(decoded.step.flags) == len(decoded.step.observation)


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff\xfe", b'{"protocol": 1}', b"3"])
def test_a_first_message_that_is_no_hello_is_refused(data):
    with pytest.raises(ShapeMismatch):
        Hello.decode(data)


def test_an_actor_of_another_protocol_is_refused_by_number():
    data = Hello(0, 1, 1, 1, SPEC).encode().replace(b'"protocol": 1', b'"protocol": 9')
    with pytest.raises(ShapeMismatch, match="protocol 9"):
        Hello.decode(data)


def test_flags_fit_a_byte():
    assert int(Flags.TERMINATED | Flags.TRUNCATED | Flags.LIFE_LOST | Flags.START) < 256
