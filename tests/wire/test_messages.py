"""Step messages: inverse pairs, and refusal of whatever does not fit."""

import dataclasses
import json

import numpy as np
import pytest

from workbench.environment_spec import ActionSpec, EnvironmentSpec, Part
from workbench.errors import ShapeMismatch
from workbench.trajectory import Flags, StepBatch
from workbench.wire.messages import PROTOCOL, GroupActions, GroupStep, Hello, Welcome

SPEC = EnvironmentSpec("image", (1, 6, 5), "uint8", 3, 4, 4)
SCORED = dataclasses.replace(SPEC, scored=True)
PARTS = (Part("map", (2, 3, 5), "bits"), Part("speed", (2,), "float32"))
ACTIONS = {
    "categorical": ActionSpec("categorical", (18,)),
    "multi_discrete": ActionSpec("multi_discrete", (3, 2, 5)),
    "bernoulli": ActionSpec("bernoulli", (2, 2)),
    "tanh_normal": ActionSpec("tanh_normal", (0, 0, 0)),
    "mixed": ActionSpec.mixed({"a": ActionSpec("categorical", (2**20,)), "b": ActionSpec("tanh_normal", (0, 0))}),
}


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


def actions_of(spec: ActionSpec, count: int) -> np.ndarray:
    random = np.random.default_rng(count)
    if spec.kind == "tanh_normal":
        return random.uniform(-1, 1, (count, *spec.shape)).astype(np.float32)
    if spec.kind == "mixed":
        return np.stack([random.integers(0, 2**20, count), *random.uniform(-1, 1, (2, count))], 1).astype(np.float32)
    return random.integers(0, spec.sizes[-1], (count, *spec.shape))


@pytest.mark.parametrize("count", [1, 7])
@pytest.mark.parametrize("kind", list(ACTIONS))
def test_actions_of_every_kind_come_out_as_they_went_in(kind, count):
    spec = ACTIONS[kind]
    sent = actions_of(spec, count)
    came = GroupActions.decode(GroupActions(5, sent, 9).encode(), spec)
    assert (came.group, came.policy_version, came.actions.dtype) == (5, 9, np.dtype(spec.dtype))
    assert came.actions.shape == (count, *spec.shape)
    np.testing.assert_array_equal(came.actions, sent)
    assert len(GroupActions(5, sent, 9).encode()) == 20 + 4 * sent.size


def test_actions_that_are_no_numbers_come_out_as_such_and_do_not_become_others():
    sent = np.array([[np.nan, np.inf, -1.0]], np.float32)
    came = GroupActions.decode(GroupActions(0, sent, 0).encode(), ACTIONS["tanh_normal"])
    np.testing.assert_array_equal(came.actions, sent)


@pytest.mark.parametrize("kind", list(ACTIONS))
@pytest.mark.parametrize("cut", [0, 10, -1, -4])
def test_actions_of_the_wrong_length_are_refused(kind, cut):
    data = GroupActions(0, actions_of(ACTIONS[kind], 4), 1).encode()
    with pytest.raises(ShapeMismatch, match="actions"):
        GroupActions.decode(data[:cut], ACTIONS[kind])
    with pytest.raises(ShapeMismatch, match="actions"):
        GroupActions.decode(data + bytes(4), ACTIONS[kind])


def test_actions_of_another_kind_are_refused_where_their_length_tells():
    with pytest.raises(ShapeMismatch, match="actions"):
        GroupActions.decode(GroupActions(0, actions_of(ACTIONS["multi_discrete"], 4), 1).encode(), SPEC.actions)


@pytest.mark.parametrize("finals", [(), (1, 4)])
def test_scores_come_out_as_they_went_in_also_behind_final_observations(finals):
    sent = step_of(5, finals)
    sent.step.score = np.linspace(-2, 3, 5, dtype=np.float32)
    came = GroupStep.decode(sent.encode(), SCORED)
    np.testing.assert_array_equal(came.step.score, sent.step.score)
    for name in ("observation", "reward", "flags", "final_index"):
        np.testing.assert_array_equal(getattr(came.step, name), getattr(sent.step, name))
    if finals:
        np.testing.assert_array_equal(came.step.final_observation, sent.step.final_observation)


def test_steps_without_the_scores_that_the_spec_promises_are_refused_and_so_are_scores_that_it_does_not():
    assert GroupStep.decode(step_of(4).encode(), SPEC).step.score is None
    with pytest.raises(ShapeMismatch, match="score"):
        GroupStep.decode(step_of(4).encode(), SCORED)
    scored = step_of(4)
    scored.step.score = np.zeros(4, np.float32)
    with pytest.raises(ShapeMismatch, match="bytes"):
        GroupStep.decode(scored.encode(), SPEC)
    with pytest.raises(ShapeMismatch, match="bytes"):
        GroupStep.decode(scored.encode()[:-1], SCORED)


@pytest.mark.parametrize("kind", list(ACTIONS))
def test_specs_with_actions_parts_scores_and_agents_come_out_as_they_went_in(kind):
    spec = EnvironmentSpec("parts", (12,), "uint8", ACTIONS[kind].encoded_size, 2, 4, ACTIONS[kind], PARTS, True, 3)
    hello = Hello(1, 2**61, 18, 2, spec)
    came = Hello.decode(hello.encode())
    assert came == hello
    assert isinstance(came.spec.actions.sizes, tuple) and isinstance(came.spec.parts[0].shape, tuple)
    assert hash(came.spec) == hash(spec)


def test_specs_of_checkpoints_from_before_there_were_kinds_of_actions_are_read():
    old = {"name": "ALE/Pong-v5", "observation_shape": [1, 84, 84], "observation_dtype": "uint8", "num_actions": 6,
           "frame_stack": 4, "frames_per_step": 4}
    spec = EnvironmentSpec.from_json(old)
    assert spec == EnvironmentSpec("ALE/Pong-v5", (1, 84, 84), "uint8", 6, 4, 4)
    assert spec.actions == ActionSpec("categorical", (6,)) and spec.actions.shape == ()
    assert (spec.parts, spec.scored, spec.agents) == ((), False, 1)
    assert EnvironmentSpec.from_json(spec.to_json()) == spec


def test_hello_and_welcome_come_out_as_they_went_in():
    hello = Hello(1, 2**61, 16, 2, SPEC)
    assert Hello.decode(hello.encode()) == hello
    assert Welcome.decode(Welcome(7).encode()) == Welcome(7)


@pytest.mark.parametrize("names", [(), ("left", "right"), ("höher", "a, \n\x7f \u4e0a")])
def test_names_of_actions_come_out_as_they_went_in(names):
    hello = Hello(1, 2**61, 16, 2, SPEC, names)
    assert Hello.decode(hello.encode()) == hello


def test_names_of_actions_that_are_too_long_for_a_hello_are_left_out():
    hello = Hello(1, 2**61, 16, 2, SPEC, ("long",) * 2000)
    assert Hello.decode(hello.encode()) == dataclasses.replace(hello, action_names=())


@pytest.mark.parametrize("changes", [{"mood": "good"}, {"action_names": 3}, {"action_names": ["left", 3]},
                                     {"action_names": None}])
def test_a_hello_that_says_something_else_is_refused(changes):
    told = json.loads(Hello(1, 2**61, 16, 2, SPEC).encode())
    with pytest.raises(ShapeMismatch, match="hello"):
        Hello.decode(json.dumps({**told, **changes}).encode())


@pytest.mark.parametrize("cut", [0, 3, 27, -1])
def test_a_message_of_the_wrong_length_is_refused_with_both_lengths(cut):
    data = step_of(4).encode()
    with pytest.raises(ShapeMismatch, match="bytes"):
        GroupStep.decode(data[:cut], SPEC)


def test_final_observations_of_environments_outside_the_group_are_refused():
    with pytest.raises(ShapeMismatch, match="final observations"):
        GroupStep.decode(step_of(3, (7,)).encode(), SPEC)


@pytest.mark.parametrize("spec", [SPEC, SCORED])
def test_random_bytes_never_decode_and_never_crash(spec):
    random = np.random.default_rng(0)
    sent = step_of(4, (1,))
    sent.step.score = np.zeros(4, np.float32) if spec.scored else None
    whole = sent.encode()
    for _ in range(2000):
        data = bytearray(whole[: random.integers(0, len(whole) + 1)])
        for at in random.integers(0, max(len(data), 1), 4)[: len(data)]:
            data[at] = random.integers(0, 256)
        try:
            decoded = GroupStep.decode(bytes(data), spec)
        except ShapeMismatch:
            continue
        assert len(decoded.step.reward) == len(decoded.step.flags) == len(decoded.step.observation)


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff\xfe", b'{"protocol": 1}', b"3"])
def test_a_first_message_that_is_no_hello_is_refused(data):
    with pytest.raises(ShapeMismatch):
        Hello.decode(data)


def test_an_actor_of_another_protocol_is_refused_by_number():
    told = json.loads(Hello(0, 1, 1, 1, SPEC).encode())
    assert told["protocol"] == PROTOCOL
    data = json.dumps({**told, "protocol": 9}).encode()
    with pytest.raises(ShapeMismatch, match="^the actor speaks protocol 9"):
        Hello.decode(data)


def test_flags_fit_a_byte():
    assert sum(Flags) < 256
