"""Gymnasium's spaces: observations come back from their bytes, and every action lands in its space."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Graph, MultiBinary, MultiDiscrete, Sequence, Text, Tuple

from workbench.environment_spec import ActionSpec, EnvironmentSpec, NativeSpace, Part
from workbench.environments import make
from workbench.environments.adapters.action_spaces import actions_of, each_of
from workbench.environments.adapters.spaces import layout_of
from workbench.environments.contract import checked_actions, random_actions
from workbench.environments.observations import decode
from workbench.errors import EnvironmentFailed, ShapeMismatch


def spec_of(layout) -> EnvironmentSpec:
    return EnvironmentSpec("mine", layout.shape, layout.dtype, 2, parts=layout.parts)


def placed(layout, observation):
    row = np.full(layout.shape, 99, layout.dtype)
    layout.place(observation, row)
    return row


# space -> shape and dtype on the wire, parts, and what the network sees of one sample, computed in another way
ALONE = {
    "vector of doubles": (Box(-9, 9, (3,), np.float64), (3,), "float32", lambda x: x.astype(np.float32)),
    "vector of bytes": (Box(0, 255, (5,), np.uint8), (5,), "float32", lambda x: x.astype(np.float32)),
    "one number": (Box(-1, 1, (), np.float32), (1,), "float32", lambda x: np.array([float(x)], np.float32)),
    "a table of numbers": (Box(-1, 1, (2, 3), np.float32), (6,), "float32", lambda x: np.array(
        [x[i][j] for i in range(2) for j in range(3)])),
    "floats with three axes": (Box(0, 1, (2, 3, 4), np.float64), (24,), "float32", lambda x: np.array(
        [x[i][j][k] for i in range(2) for j in range(3) for k in range(4)], np.float32)),
    "a table of integers": (Box(0, 9, (2, 2), np.int64), (4,), "float32", lambda x: x.ravel().astype(np.float32)),
    "image": (Box(0, 255, (4, 5), np.uint8), (1, 4, 5), "uint8", lambda x: x[None]),
    "colours last": (Box(0, 255, (4, 5, 3), np.uint8), (3, 4, 5), "uint8", lambda x: np.stack(
        [x[:, :, 0], x[:, :, 1], x[:, :, 2]])),
    "colours first": (Box(0, 255, (3, 4, 5), np.uint8), (3, 4, 5), "uint8", lambda x: x),
    "a choice": (Discrete(4), (4,), "float32", lambda x: np.eye(4, dtype=np.float32)[x]),
    "a choice from -2": (Discrete(4, start=-2), (4,), "float32", lambda x: np.eye(4, dtype=np.float32)[x + 2]),
    "choices": (MultiDiscrete([2, 3]), (5,), "float32", lambda x: np.concatenate(
        [np.eye(2, dtype=np.float32)[x[0]], np.eye(3, dtype=np.float32)[x[1]]])),
    "choices from a start": (MultiDiscrete([2, 3], start=[5, -1]), (5,), "float32", lambda x: np.concatenate(
        [np.eye(2, dtype=np.float32)[x[0] - 5], np.eye(3, dtype=np.float32)[x[1] + 1]])),
    "switches": (MultiBinary(4), (4,), "float32", lambda x: x.astype(np.float32)),
    "bools": (Box(0, 1, (3,), bool), (3,), "float32", lambda x: x.astype(np.float32)),
}


@pytest.mark.parametrize("space, shape, dtype, seen", ALONE.values(), ids=ALONE)
def test_a_space_alone_is_a_plain_array(space, shape, dtype, seen):
    layout = layout_of(space, "mine")
    assert (layout.shape, layout.dtype, layout.parts, layout.left_out) == (shape, dtype, (), ())
    space.seed(1)
    for _ in range(8):
        sample = space.sample()
        assert np.array_equal(placed(layout, sample), seen(sample))


@pytest.mark.parametrize("space, shape", [
    (MultiBinary((3, 4, 5)), (3, 4, 5)), (MultiBinary((4, 5, 2)), (2, 4, 5)), (Box(0, 1, (7, 9), bool), (1, 7, 9)),
    (Box(0, 1, (6, 5, 3), bool), (3, 6, 5)),
])  # fmt: skip
def test_planes_of_bools_travel_as_bits_and_are_seen_as_an_image(space, shape):
    layout = layout_of(space, "mine")
    assert layout.parts == (Part("", shape, "bits"),)
    assert layout.shape == (-(-int(np.prod(shape)) // 8),) and layout.dtype == "uint8"
    space.seed(3)
    sample = space.sample()
    seen = decode(placed(layout, sample), layout.parts)
    expected = sample if len(sample.shape) == 3 and shape == sample.shape else (
        sample[None] if sample.ndim == 2 else np.stack([sample[..., c] for c in range(shape[0])]))
    assert seen.dtype == np.uint8 and np.array_equal(seen, expected.astype(int) * 255)


NESTED = Dict({
    "camera": Box(0, 255, (5, 7, 3), np.uint8),
    "inner": Dict({"speed": Box(-1, 1, (2, 2), np.float64), "gear": Discrete(3, start=1)}),
    "mission": Text(12),
    "pair": Tuple([MultiBinary((2, 3, 3)), Tuple([Box(-5, 5, (3,), np.float32), MultiDiscrete([2, 2])])]),
})


def test_members_become_parts_named_by_their_path_and_words_are_left_out():
    layout = layout_of(NESTED, "mine")
    assert layout.parts == (
        Part("camera", (3, 5, 7), "uint8"), Part("inner/gear", (3,), "float32"), Part("inner/speed", (4,), "float32"),
        Part("pair/0", (2, 3, 3), "bits"), Part("pair/1/0", (3,), "float32"), Part("pair/1/1", (4,), "float32"))
    assert layout.left_out == ("mission",)
    assert layout.shape == (105 + 12 + 16 + 3 + 12 + 16,) and layout.dtype == "uint8"
    assert spec_of(layout).observation_bytes == layout.shape[0]


def test_every_member_comes_back_from_the_bytes_of_its_row():
    layout = layout_of(NESTED, "mine")
    NESTED.seed(0)
    samples = [NESTED.sample() for _ in range(4)]
    rows = np.empty((4, *layout.shape), np.uint8)
    for sample, row in zip(samples, rows, strict=True):
        layout.place(sample, row)
    seen = decode(rows, layout.parts)
    for i, sample in enumerate(samples):
        assert np.array_equal(seen["camera"][i], sample["camera"].transpose(2, 0, 1))
        assert np.array_equal(seen["inner/speed"][i], sample["inner"]["speed"].astype(np.float32).ravel())
        assert seen["inner/gear"][i].tolist() == [sample["inner"]["gear"] == gear for gear in (1, 2, 3)]
        assert np.array_equal(seen["pair/0"][i], sample["pair"][0].astype(int) * 255)
        assert np.array_equal(seen["pair/1/0"][i], sample["pair"][1][0])
        first, second = sample["pair"][1][1]
        assert seen["pair/1/1"][i].tolist() == [first == 0, first == 1, second == 0, second == 1]


@pytest.mark.parametrize("space", [NESTED, *(one[0] for one in ALONE.values()), MultiBinary((4, 5, 2))], ids=str)
def test_a_batch_is_placed_as_its_rows_one_by_one(space):
    batched = gymnasium.vector.utils.batch_space(space, 3)
    layout = layout_of(space, "mine")
    batched.seed(5)
    together = batched.sample()
    rows = np.empty((3, *layout.shape), layout.dtype)
    layout.place(together, rows, (3,))
    for row, single in zip(rows, gymnasium.vector.utils.iterate(batched, together), strict=True):
        assert np.array_equal(placed(layout, single), row)


def test_one_member_that_is_no_word_is_the_observation():
    layout = layout_of(Dict({"only": Box(-1, 1, (3,)), "words": Text(5)}), "mine")
    assert (layout.shape, layout.dtype, layout.parts, layout.left_out) == ((3,), "float32", (), ("words",))
    assert placed(layout, {"only": np.array([1, 0, -1], np.float32), "words": "no"}).tolist() == [1, 0, -1]


UNSUPPORTED = {
    "text": (Text(5), "nothing in it is a number"),
    "only words": (Dict({"a": Text(5), "b": Text(5)}), "nothing in it is a number"),
    "nothing": (Dict({}), "nothing in it is a number"),
    "a sequence": (Sequence(Discrete(2)), "Sequence"),
    "a graph within": (Dict({"a": Dict({"g": Graph(Box(0, 1, (2,)), None)})}), "member 'a/g'"),
    "no size": (Box(0, 1, (0, 3)), r"Box.*\(0, 3\)"),
    "stacked colours": (Box(0, 255, (4, 8, 8, 3), np.uint8), r"Box.*images are uint8 or bool"),
    "a number of anything": (Discrete(2**31), r"Discrete\(2147483648\)"),
    "two of one name": (Dict({"a": Dict({"b": Discrete(2)}), "a/b": Discrete(2)}), "both named 'a/b'"),
}


@pytest.mark.parametrize("space, words", UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_a_space_that_is_not_supported_is_named_with_what_is(space, words):
    with pytest.raises(ShapeMismatch, match=rf"(?s)mine has the observation space.*{words}.*FlattenObservation"):
        layout_of(space, "mine")


WRONG = {
    "shape": ({"a": np.zeros(3), "b": 1}, r"observation 'a' of shape \(3,\); the observation space has shape \(2,\)"),
    "dtype": ({"a": np.zeros(2, complex), "b": 1}, "observation 'a' of dtype complex128"),
    "no member": ({"a": np.zeros(2)}, "observation has no member 'b'"),
    "no dict": (np.zeros(2), "observation has no member 'a'"),
    "no choice": ({"a": np.zeros(2), "b": 3}, r"observation 'b' 3 is not in a space of \[3\] choices from \[0\]"),
    "below the choices": ({"a": np.zeros(2), "b": -1}, "observation 'b' -1 is not in a space"),
    "NaN": ({"a": np.array([0, np.nan]), "b": 1}, "observation 'a' has the value nan, which is not finite"),
}


@pytest.mark.parametrize("observation, words", WRONG.values(), ids=WRONG)
def test_an_observation_that_is_not_in_its_space_is_an_error_that_names_the_member(observation, words):
    class Single(gymnasium.Env):
        observation_space = Dict({"a": Box(-1, 1, (2,)), "b": Discrete(3)})
        action_space = Discrete(2)

        def reset(self, *, seed=None, options=None):
            return observation, {}

    with pytest.raises(EnvironmentFailed, match=words):
        make("mine", num_envs=1, seed=0, factory=Single).reset()


def test_a_picture_whose_numbers_would_wrap_around_is_refused():
    class Wide(gymnasium.Env):
        observation_space, action_space = Box(0, 255, (4, 4, 3), np.uint8), Discrete(2)

        def reset(self, *, seed=None, options=None):
            return np.full((4, 4, 3), 300, np.uint16), {}  # 44 as uint8

    with pytest.raises(EnvironmentFailed, match="observation of dtype uint16; the observation space has dtype uint8"):
        make("mine", num_envs=1, seed=0, factory=Wide).reset()


# --- actions ---------------------------------------------------------------------------------------------------------

ACTIONS = {
    "discrete": (Discrete(3), ActionSpec("categorical", (3,))),
    "discrete from 5": (Discrete(3, start=5), ActionSpec("categorical", (3,))),
    "multi discrete": (MultiDiscrete([2, 5]), ActionSpec("multi_discrete", (2, 5))),
    "multi discrete from a start": (MultiDiscrete([2, 5], start=[1, -3]), ActionSpec("multi_discrete", (2, 5))),
    "a table of choices": (MultiDiscrete([[2, 3], [4, 5]]), ActionSpec("multi_discrete", (2, 3, 4, 5))),
    "multi binary": (MultiBinary(3), ActionSpec("bernoulli", (2, 2, 2))),
    "a table of switches": (MultiBinary((2, 2)), ActionSpec("bernoulli", (2,) * 4)),
    "box": (Box(np.array([-1, 0], np.float32), np.array([1, 4], np.float32)), ActionSpec("tanh_normal", (0, 0))),
    "box of doubles": (Box(-2, 6, (2, 3), np.float64), ActionSpec("tanh_normal", (0,) * 6)),
    "one number": (Box(-1, 1, (), np.float32), ActionSpec("tanh_normal", (0,))),
    "huge bounds": (Box(-3e38, 3e38, (2,), np.float32), ActionSpec("tanh_normal", (0, 0))),
    "unequal bounds": (Box(-0.1, 0.7, (1,), np.float32), ActionSpec("tanh_normal", (0,))),
}


@pytest.mark.parametrize("space, expected", ACTIONS.values(), ids=ACTIONS)
def test_every_action_here_is_one_of_the_space_there(space, expected):
    wanted, given = actions_of(space, "mine")
    assert wanted == expected
    spec = EnvironmentSpec("mine", (1,), "float32", wanted.encoded_size, actions=wanted)
    actions = checked_actions(random_actions(spec, 1000, np.random.default_rng(0)), spec, 1000)
    if wanted.kind == "tanh_normal":
        actions[0], actions[1], actions[2] = -1, 1, 0
    assert actions.shape == (1000, *wanted.shape)
    theirs = given(actions)
    assert theirs.shape == (1000, *space.shape) and theirs.dtype == space.dtype
    assert all(space.contains(np.asarray(one) if space.shape == () and isinstance(space, Box) else one)
               for one in theirs)
    if wanted.kind == "tanh_normal":
        assert np.array_equal(theirs[0], space.low) and np.array_equal(theirs[1], space.high)
        middle = (np.asarray(space.low, np.float64) + np.asarray(space.high, np.float64)) / 2
        assert np.allclose(theirs[2], middle)
    else:
        assert len(np.unique(theirs.reshape(1000, -1), axis=0)) == np.prod(wanted.sizes)  # every one of them comes


MIXED = {
    "a pair": (Tuple([Discrete(3, start=4), Box(0, 10, (), np.float64)]), {
        "0": ActionSpec("categorical", (3,)), "1": ActionSpec("tanh_normal", (0,))}),
    "a dict in the usual order": (Dict({"z": Discrete(2), "m": MultiDiscrete([[2], [3]]), "a": MultiBinary((2, 1))}), {
        "a": ActionSpec("bernoulli", (2, 2)), "m": ActionSpec("multi_discrete", (2, 3)),
        "z": ActionSpec("categorical", (2,))}),
    "in another order": (Dict([("z", Discrete(2)), ("a", Box(-1, 1, (2, 2)))]), {
        "z": ActionSpec("categorical", (2,)), "a": ActionSpec("tanh_normal", (0,) * 4)}),
    "nested": (Dict({"b": Tuple([Dict({"c": Discrete(2)}), MultiBinary(2)]), "a": Box(-3, 1, (2,))}), {
        "a": ActionSpec("tanh_normal", (0, 0)), "b/0/c": ActionSpec("categorical", (2,)),
        "b/1": ActionSpec("bernoulli", (2, 2))}),
}


def same(one, other) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, tuple):
        return isinstance(other, tuple) and len(one) == len(other) and all(map(same, one, other))
    return np.array_equal(one, other) and np.asarray(one).dtype == np.asarray(other).dtype


@pytest.mark.filterwarnings("ignore:.*Casting input x to numpy array")  # a Box without axes
@pytest.mark.parametrize("space, parts", MIXED.values(), ids=MIXED)
def test_a_dict_or_tuple_of_actions_is_mixed_and_comes_back_in_its_own_structure(space, parts):
    wanted, given = actions_of(space, "mine")
    assert wanted == ActionSpec.mixed(parts) and [part.name for part in wanted.parts] == list(parts)
    spec = EnvironmentSpec("mine", (1,), "float32", wanted.encoded_size, actions=wanted)
    actions = checked_actions(random_actions(spec, 500, np.random.default_rng(0)), spec, 500)
    assert actions.dtype == np.float32 and actions.shape == (500, *wanted.shape)
    theirs = given(actions)
    assert gymnasium.vector.utils.batch_space(space, 500).contains(theirs)
    rows = each_of(theirs, 500)
    assert len(rows) == 500 and all(space.contains(row) for row in rows)
    one_by_one = gymnasium.vector.utils.iterate(gymnasium.vector.utils.batch_space(space, 500), theirs)
    for row, other in zip(rows, one_by_one, strict=True):
        assert same(row, other), "Gymnasium's own vectors read other actions"


def test_the_parts_of_a_mixed_action_are_each_their_own_columns():
    space = Dict({"a": Discrete(3, start=5), "b": Box(np.array([0, -4], np.float32), np.array([10, 4], np.float32)),
                  "c": Tuple([MultiBinary(2), MultiDiscrete([2, 9], start=[0, 100])])})
    _, given = actions_of(space, "mine")
    row = each_of(given(np.array([[2, -1, 0.5, 1, 0, 1, 8]], np.float32)), 1)[0]
    assert list(row) == ["a", "b", "c"] and row["a"] == 7 and row["a"].dtype == np.int64
    assert row["b"].tolist() == [0, 2] and row["b"].dtype == np.float32
    assert [one.tolist() for one in row["c"]] == [[1, 0], [1, 108]] and isinstance(row["c"], tuple)
    assert [one.dtype for one in row["c"]] == [np.int8, np.int64]


@pytest.mark.parametrize("space, kind, native", [
    (Dict({"only": Box(0, 4, (1,))}), "tanh_normal", lambda a: {"only": 2 + 2 * a}),
    (Tuple([Tuple([Discrete(3, start=1)])]), "categorical", lambda a: ((a + 1,),)),
])  # fmt: skip
def test_a_structure_of_one_part_has_actions_of_its_kind(space, kind, native):
    wanted, given = actions_of(space, "mine")
    assert wanted.kind == kind and not wanted.parts
    spec = EnvironmentSpec("mine", (1,), "float32", wanted.encoded_size, actions=wanted)
    actions = random_actions(spec, 20, np.random.default_rng(0))
    for action, row in zip(actions, each_of(given(actions), 20), strict=True):
        assert space.contains(row) and same(row, native(action))


def test_the_largest_choice_is_exact_in_float32():
    many = ActionSpec.mixed({"a": ActionSpec("categorical", (2**20,)), "b": ActionSpec("tanh_normal", (0,))})
    spec = EnvironmentSpec("mine", (1,), "float32", many.encoded_size, actions=many)
    assert EnvironmentSpec.from_json(spec.to_json()) == spec  # as large as a spec may be
    rows = np.stack([np.arange(2**20), np.zeros(2**20)], 1).astype(np.float32)
    assert np.array_equal(checked_actions(rows, spec, 2**20)[:, 0].astype(np.int64), np.arange(2**20))


@pytest.mark.parametrize("space, words", [
    (Box(-np.inf, np.inf, (2,), np.float32), "TransformAction.*leave out the ClipAction"),
    (Box(np.array([-1, -1], np.float32), np.array([1, np.inf], np.float32)), "not all finite"),
    (Box(0, 255, (2,), np.uint8), "Supported are Discrete"),
    (Box(0, 1, (0,), np.float32), "Supported are Discrete"),
    (Dict({}), r"action space Dict.*has no parts.*Supported are Discrete"),
    (Tuple([Discrete(2), Tuple([Text(3)])]), r"in the part '1/0' of its actions, has the action space Text.*Supported"),
    (Dict({"a": Discrete(2), "b": Box(-np.inf, 0, (1,))}), r"in the part 'b' of its actions.*not all finite"),
    (Dict({"a": Dict({"b": Discrete(2)}), "a/b": Discrete(2)}), "two parts are named 'a/b'"),
    (Text(3), "Supported are Discrete"),
])  # fmt: skip
def test_an_action_space_that_is_not_supported_is_named_with_what_to_do(space, words):
    with pytest.raises(ShapeMismatch, match=words):
        actions_of(space, "mine")


def test_the_remedy_for_unbounded_actions_works():
    def bounded():
        env = gymnasium.wrappers.ClipAction(gymnasium.make("Pendulum-v1"))
        assert not np.isfinite(env.action_space.high).all()
        return gymnasium.wrappers.TransformAction(env, lambda action: action, Box(-2, 2, (1,)))

    assert make("mine", num_envs=1, seed=0, factory=bounded).spec.actions.kind == "tanh_normal"


def spec(kind, sizes) -> EnvironmentSpec:
    actions = ActionSpec(kind, sizes)
    return EnvironmentSpec("mine", (1,), "float32", actions.encoded_size, actions=actions)


PAIR = ActionSpec.mixed({"move": ActionSpec("categorical", (3,)), "throttle": ActionSpec("tanh_normal", (0, 0))})
PAIRS = EnvironmentSpec("mine", (1,), "float32", PAIR.encoded_size, actions=PAIR)
TORQUE = ActionSpec("tanh_normal", (0, 0), native=NativeSpace((2,), low=(-2.0, -2.0), high=(2.0, 2.0)))
REFUSED = {
    "a mixed choice too large": (PAIRS, [[0, 0.5, 1], [3, 0, 0]], r"3 of part 'move' is not a whole number in \[0, 3"),
    "half a choice": (PAIRS, [[0.5, 0.5, 1], [2, 0, 0]], "0.5 of part 'move' is not a whole number"),
    "a mixed choice below 0": (PAIRS, [[0, 0.5, 1], [-1, 0, 0]], "-1 of part 'move'"),
    "a mixed number beyond 1": (PAIRS, [[0, 0.5, 1], [2, 0, 1.01]], r"1.01 of part 'throttle' is not in \[-1, 1\]"),
    "a mixed NaN": (PAIRS, [[np.nan, 0.5, 1], [2, 0, 1]], "nan of part 'move'"),
    "mixed integers": (PAIRS, [[0, 0, 1], [2, 0, 1]], r"floats of shape \[2, 3\], not int64"),
    "one too large": (spec("categorical", (3,)), [0, 3], r"action 3 is not in \[0, 3\)"),
    "below 0": (spec("categorical", (3,)), [-1, 0], "action -1 is not in"),
    "floats": (spec("categorical", (3,)), [0.0, 1.0], r"integers of shape \[2\], not float64 \[2\]"),
    "a part too large": (spec("multi_discrete", (2, 3)), [[0, 2], [2, 0]], r"action 2 of part 0 is not in \[0, 2\)"),
    "too many parts": (spec("multi_discrete", (2, 3)), [[0, 1, 0]] * 2, r"shape \[2, 2\], not int64 \[2, 3\]"),
    "no bit": (spec("bernoulli", (2, 2)), [[0, 1], [1, 2]], r"action 2 of part 1 is not in \[0, 2\)"),
    "integers": (spec("tanh_normal", (0, 0)), [[0, 1], [1, 0]], r"floats of shape \[2, 2\], not int64"),
    "beyond 1": (spec("tanh_normal", (0, 0)), [[0, 0.5], [1.01, 0]], r"action 1.01 is not in \[-1, 1\]"),
    "beyond 1, in the environment's own units": (
        EnvironmentSpec("mine", (1,), "float32", TORQUE.encoded_size, actions=TORQUE), [[0, 0.5], [1.5, 0]],
        r"action 1.5 is not in \[-1, 1\], which is stretched to the environment's own \[-2, 2\]\."),
    "NaN": (spec("tanh_normal", (0, 0)), [[0, 0.5], [np.nan, 0]], r"action nan is not in"),
    "too few": (spec("tanh_normal", (0, 0)), [[0.5, 0.5]], r"shape \[2, 2\], not float64 \[1, 2\]"),
}


@pytest.mark.parametrize("environment, actions, words", REFUSED.values(), ids=REFUSED)
def test_a_wrong_action_is_refused_by_its_kind(environment, actions, words):
    with pytest.raises(ShapeMismatch, match=words):
        checked_actions(np.array(actions), environment, 2)


@pytest.mark.parametrize("kind, sizes", [("categorical", (4,)), ("multi_discrete", (2, 3)), ("bernoulli", (2, 2)),
                                         ("tanh_normal", (0, 0))])
def test_checked_actions_have_the_dtype_of_their_kind(kind, sizes):
    given = random_actions(spec(kind, sizes), 5, np.random.default_rng(0))
    narrow = given.astype(np.float64 if kind == "tanh_normal" else np.int8)
    checked = checked_actions(narrow, spec(kind, sizes), 5)
    assert checked.dtype == (np.float32 if kind == "tanh_normal" else np.int64) and np.allclose(checked, given)
