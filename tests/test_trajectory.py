"""Specs from outside: what no environment can be is refused before anything is made of its sizes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from workbench.environment_spec import ActionSpec, EnvironmentSpec, NativeSpace, Part
from workbench.errors import ShapeMismatch
from workbench.wire.messages import Hello

KINDS = (ActionSpec("categorical", (3,)), ActionSpec("multi_discrete", (3, 2)), ActionSpec("bernoulli", (2, 2)),
         ActionSpec("tanh_normal", (0, 0)),
         ActionSpec.mixed({"0": ActionSpec("categorical", (3,)), "1/a": ActionSpec("tanh_normal", (0, 0)),
                           "1/b": ActionSpec("bernoulli", (2, 2))}))
PARTS = (Part("map", (2, 3, 5), "bits"), Part("speed", (2,), "float32"))
RIGHT = EnvironmentSpec("right", (12,), "uint8", 5, actions=KINDS[1], parts=PARTS)


def told(**changes: Any) -> dict[str, Any]:
    """The JSON of a right spec, but for `changes`."""
    return {**json.loads(json.dumps(RIGHT.to_json())), **changes}


def parts_of(*parts: tuple[Any, Any, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "shape": shape, "dtype": dtype} for name, shape, dtype in parts]


def actions_of(kind: Any, sizes: Any, number: Any) -> dict[str, Any]:
    return {"actions": {"kind": kind, "sizes": sizes}, "num_actions": number}


def mixed(*parts: Any, sizes: Any = (3, 0), number: int = 4) -> dict[str, Any]:
    told = [{"name": name, "actions": {"kind": kind, "sizes": own}} for name, kind, own in parts]
    return {"actions": {"kind": "mixed", "sizes": sizes, "parts": told}, "num_actions": number}


def native(kind: str = "tanh_normal", sizes: Any = (0, 0), **space: Any) -> dict[str, Any]:
    whole = {"shape": [2], "start": [], "low": [-1.0, -1.0], "high": [1.0, 1.0], **space}
    return {"actions": {"kind": kind, "sizes": sizes, "native": whole}, "num_actions": sum(sizes) or len(sizes)}


MOVE, GO = ("move", "categorical", [3]), ("go", "tanh_normal", [0])
WRONG = {
    "a mixed action without parts": actions_of("mixed", [3], 3),
    "parts of one kind": {"actions": {**mixed(MOVE)["actions"], "kind": "categorical", "sizes": [3]}, "num_actions": 3},
    "sizes of other parts": mixed(MOVE, GO, sizes=(0, 3)),
    "fewer sizes than the parts have": mixed(MOVE, GO, sizes=(3,)),
    "num_actions of other parts": mixed(MOVE, GO, number=3),
    "two mixed parts of one name": mixed(MOVE, ("move", "tanh_normal", [0])),
    "a mixed part without a name": mixed(MOVE, (None, "tanh_normal", [0])),
    "a mixed part of a long name": mixed(MOVE, ("x" * 1001, "tanh_normal", [0])),
    "a mixed part of an unknown kind": mixed(MOVE, ("go", "foo", [0])),
    "a mixed part in a mixed part": mixed(MOVE, ("go", "mixed", [0])),
    "a huge mixed choice": mixed(("move", "categorical", [2**24 + 1]), GO, sizes=(2**24 + 1, 0), number=2**24 + 2),
    "mixed parts that are no objects": {"actions": {"kind": "mixed", "sizes": [3, 0], "parts": ["move", "go"]}},
    "mixed parts that are no list": {"actions": {"kind": "mixed", "sizes": [3, 0], "parts": 2}},
    **{f"agents {value!r}": {"agents": value} for value in (0, -2, "x", 2.0, True, 2**40, None)},
    **{f"frame_stack {value!r}": {"frame_stack": value} for value in (0, -1, 10**9, 1e9, "4")},
    "frames_per_step": {"frames_per_step": 0},
    "unknown kind": actions_of("foo", [3], 3),
    "a list for a kind": actions_of(["categorical"], [3], 3),
    "no sizes": actions_of("multi_discrete", [], 0),
    "size 0": actions_of("categorical", [0], 0),
    "size -5": actions_of("categorical", [-5], -5),
    "two sizes of one choice": actions_of("categorical", [3, 2], 5),
    "a size that is no whole number": actions_of("categorical", [2.5], 2.5),
    "numbers with choices": actions_of("tanh_normal", [3, 0], 2),
    "a huge size": actions_of("categorical", [2**40], 2**40),
    "very many sizes": actions_of("tanh_normal", [0] * (2**20 + 1), 2**20 + 1),
    "sizes that are no list": actions_of("categorical", 3, 3),
    "num_actions of another action": {"num_actions": 4},
    "actions that are no object": {"actions": "left"},
    "a low end too few": native(low=[-1.0]),
    "numbers without ends": native(low=[], high=[]),
    "an end that is not finite": native(high=[1.0, float("inf")]),
    "an end of words": native(high=["a", "b"]),
    "numbers with a start": native(start=[0, 0]),
    "choices with ends": native("multi_discrete", (3, 2), start=[0, 0]),
    "choices without a start": native("multi_discrete", (3, 2), low=[], high=[]),
    "choices from 1.5": native("multi_discrete", (3, 2), low=[], high=[], start=[1.5, 0]),
    "a native shape of other columns": native(shape=[3]),
    "a native shape that is a word": native(shape="aa"),
    "a native space of another form": {"actions": {"kind": "categorical", "sizes": [5], "native": [1]}},
    "a mixed action with a space": {"actions": {**mixed(MOVE, GO)["actions"], "native": {"shape": [2]}},
                                    "num_actions": 4},
    "dtype O": {"observation_dtype": "O", "parts": []},
    "dtype bits": {"observation_dtype": "bits", "parts": []},
    "dtype float64": {"observation_dtype": "float64", "parts": []},
    "no dtype": {"observation_dtype": None, "parts": []},
    "a huge shape": {"observation_shape": [10**12], "parts": []},
    "a shape that is huge as a whole": {"observation_shape": [2**20, 2**20], "parts": []},
    "no shape": {"observation_shape": [], "parts": []},
    "shape 0": {"observation_shape": [3, 0], "parts": []},
    "a shape of words": {"observation_shape": "12", "parts": []},
    "parts that are too short": {"parts": parts_of(("map", [2, 3, 5], "bits"))},
    "parts that are too long": {"parts": parts_of(("map", [2, 3, 5], "bits"), ("speed", [3], "float32"))},
    "parts of one name": {"parts": parts_of(("a", [2, 3, 5], "bits"), ("a", [2], "float32"))},
    "parts of float32 observations": {"observation_dtype": "float32", "observation_shape": [3]},
    "a part of an unknown dtype": {"parts": parts_of(("a", [12], "int8"))},
    "a part without a name": {"parts": parts_of((None, [12], "uint8"))},
    "a part of a negative shape": {"parts": parts_of(("a", [-3, -4], "uint8"))},
    "scored": {"scored": "a"},
    "a field that nobody knows": {"mood": "good"},
}


@pytest.mark.parametrize("changes", WRONG.values(), ids=WRONG)
def test_what_no_environment_can_be_is_refused_also_in_a_hello(changes):
    data = told(**changes)
    with pytest.raises((ValueError, TypeError)):
        EnvironmentSpec.from_json(data)
    hello = json.loads(Hello(0, 1, 4, 2, RIGHT).encode())
    with pytest.raises(ShapeMismatch, match="is no hello"):
        Hello.decode(json.dumps({**hello, "spec": data}).encode())


@pytest.mark.parametrize("missing", ["name", "observation_shape", "observation_dtype", "num_actions"])
def test_what_lacks_is_refused(missing):
    data = told()
    del data[missing]
    with pytest.raises((KeyError, TypeError), match=missing):
        EnvironmentSpec.from_json(data)


@pytest.mark.parametrize("actions", KINDS, ids=lambda one: one.kind)
@pytest.mark.parametrize(("shape", "dtype", "parts"), [
    ((1, 84, 84), "uint8", ()), ((3, 6, 5), "float32", ()), ((27,), "float32", ()), ((12,), "uint8", PARTS),
    ((16 * 72 * 96 // 8,), "uint8", (Part("", (16, 72, 96), "bits"),)),
])
def test_the_spec_of_every_kind_that_there_is_comes_back(actions, shape, dtype, parts):
    spec = EnvironmentSpec("mine", shape, dtype, actions.encoded_size, 4, 4, actions, parts, True, 3)
    assert EnvironmentSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    assert Hello.decode(Hello(0, 1, 6, 2, spec).encode()).spec == spec


def bounded(*ends: tuple[float, float], shape: tuple[int, ...] | None = None) -> EnvironmentSpec:
    low, high = zip(*ends, strict=True)
    actions = ActionSpec("tanh_normal", (0,) * len(ends), native=NativeSpace(shape or (len(ends),), low=low, high=high))
    return EnvironmentSpec("mine", (3,), "float32", len(ends), actions=actions)


def test_bounds_come_back_and_a_policy_of_other_bounds_is_of_another_environment():
    ours = bounded((-2.0, 2.0), (0.0, 0.1), shape=(2, 1))
    back = EnvironmentSpec.from_json(json.loads(json.dumps(ours.to_json())))
    assert back.actions.native == ours.actions.native and back.action_bounds == ((-2.0, 2.0), (0.0, 0.1))
    wider = bounded((-2.0, 2.0), (0.0, 0.5))
    assert ours.differing(wider, "ours") == (
        "mine with action_bounds=((-2.0, 2.0), (0.0, 0.5)), and ours has ((-2.0, 2.0), (0.0, 0.1))")
    mixed = [EnvironmentSpec("mine", (3,), "float32", 4, actions=ActionSpec.mixed(
        {"move": KINDS[0], "go": bounded((0.0, high)).actions})) for high in (1.0, 3.0)]
    assert mixed[0].unlike(mixed[1]) == "action_bounds"


def test_an_action_of_many_axes_is_one():
    spec = bounded((-1.0, 1.0), shape=(1,) * 9)
    assert EnvironmentSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


def test_bounds_that_differ_by_rounding_alone_or_are_not_known_are_the_same():
    ours = bounded((0.0, 0.1))
    assert not ours.unlike(bounded((0.0, float(np.float32(0.1)))))
    old = ours.to_json()
    del old["actions"]["native"]  # of a checkpoint from before it was kept
    assert not ours.unlike(EnvironmentSpec.from_json(old))
