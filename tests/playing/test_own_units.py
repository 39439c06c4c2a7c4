"""An action in an environment's own units is the one that the game takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from torch import from_numpy

from workbench.algorithms.distributions import distribution_of
from workbench.environment_spec import ActionSpec
from workbench.environments.adapters.action_spaces import actions_of
from workbench.errors import InvalidInput, WorkbenchError
from workbench.playing.action_words import columns_of
from workbench.playing.by_hand.own_units import at_rest, from_own_units

SPACES = (
    Discrete(3, start=5), Discrete(4), MultiDiscrete([2, 3], start=[1, 0]), MultiDiscrete(np.array([[2, 3], [4, 2]])),
    MultiBinary(3), MultiBinary([2, 2]), Box(-2, 2, (1,), np.float32),
    Box(np.array([[0, -1], [-3, 2]], np.float32), np.array([[1, 5], [3, 3]], np.float32)),
    Dict({"move": Discrete(3, start=1), "throttle": Box(0, 10, (2,), np.float32)}),
    Tuple((Box(-1, 3, (1,), np.float32), MultiDiscrete([2, 3]))),
    Dict({"a": Discrete(2), "c": Dict({"d": Box(0, 4, (2,), np.float32), "e": Discrete(3, start=-2)})}),
    Tuple((Discrete(3, start=4),)), Dict({"a": Box(-2, 2, (1,), np.float32)}),
)


@pytest.mark.parametrize(("space", "got"), [
    (Box(np.array([-35, 0, 1], np.float32), np.array([35, 3, 2], np.float32)), [0, 0, 1.5]),
    (Box(2, 2, (1,), np.float32), [2]), (Dict({"a": Discrete(3, start=4), "c": Box(-1, 3, (1,), np.float32)}), None),
])
def test_without_a_key_numbers_are_the_environments_own_0(space: Any, got: list[float] | None) -> None:
    actions, to_native = actions_of(space, "x")
    native = to_native(np.array([at_rest(actions)], np.float32))
    if got is None:
        assert native["a"] == 4 and native["c"][0] == pytest.approx([0.0])
    else:
        assert native[0] == pytest.approx(got, abs=1e-5)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_what_the_environment_gets_is_what_was_given(space: Any) -> None:
    space.seed(0)
    actions, to_native = actions_of(space, "x")
    for _ in range(20):
        action = space.sample()
        taken = np.asarray(columns_of(actions, (), from_own_units(actions, action)), actions.dtype)[None]
        got = to_native(taken)
        assert_same(got, action)
    assert distribution_of(actions).to_environment(from_numpy(taken)).shape == taken.shape


def assert_same(got: Any, action: Any) -> None:
    """`got` has an axis of rows before those of `action`."""
    if isinstance(action, dict):
        for name, value in action.items():
            assert_same(got[name], value)
    elif isinstance(action, tuple):
        for one, value in zip(got, action, strict=True):
            assert_same(one, value)
    else:
        np.testing.assert_allclose(np.asarray(got)[0], action, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("space", "action", "said"), [
    (Box(-2, 2, (1,), np.float32), [2.5], r"action 2.5 is not in the environment's own bounds \[-2, 2\]"),
    (Box(-2, 2, (1,), np.float32), [np.nan], "action nan is not in"),
    (Box(-2, 2, (1,), np.float32), 0.5, r"is float64 \[\], and .* own actions are numbers of shape \[1\]"),
    (Box(np.array([1, 0]), np.array([1, 2]), dtype=np.float64), [5, 1], r"action 5 is not in .* bounds \[1, 1\]"),
    (Discrete(3), [1], r"is int64 \[1\], and the environment's own actions are whole numbers of shape \[\]"),
    (Discrete(3, start=-2), 1, "action 1 is not one of the environment's own choices, -2 to 0"),
    (Discrete(3), 0.5, "action 0.5 is not one of"),
    (Discrete(3), "left", "the environment's own actions are whole numbers"),
    (MultiDiscrete([2, 2]), [[1], [1, 2]], "is no action: "),
    (Tuple((Discrete(2), Discrete(2))), (1,), "must have the parts 0, 1, and no other"),
    (Dict({"a": Discrete(2), "b": Discrete(2)}), {"a": 1, "c": 0}, "must have the parts a, b, and no other"),
])
def test_a_wrong_action_is_named(space: Any, action: Any, said: str) -> None:
    with pytest.raises(WorkbenchError, match=said):
        from_own_units(actions_of(space, "x")[0], action)


def test_bounds_that_are_not_known_are_said() -> None:
    with pytest.raises(InvalidInput, match="bounds of this environment's actions are not known"):
        from_own_units(ActionSpec("tanh_normal", (0,)), [0.5])
