"""What keys mean: by the names of actions, for every kind of action, and as somebody says."""

from __future__ import annotations

import ale_py
import pytest

from workbench.environment_spec import ActionSpec, EnvironmentSpec
from workbench.environments.football.football_vector import ACTIONS as FOOTBALL
from workbench.errors import InvalidInput
from workbench.playing.by_hand.keyboard import KeyMap, keymap, meanings_of

ATARI = tuple(action.name for action in ale_py.Action.__members__.values())
MINIGRID = ("left", "right", "forward", "pickup", "drop", "toggle", "done")


def keys_of(names: tuple[str, ...] = (), actions: ActionSpec | None = None, **how: object) -> KeyMap:
    actions = actions or ActionSpec("categorical", (len(names),))
    spec = EnvironmentSpec("Env-v0", (4,), "float32", actions.encoded_size, actions=actions)
    return keymap(spec, names, **how)  # type: ignore[arg-type]


@pytest.mark.parametrize("names", [ATARI, FOOTBALL, MINIGRID, ("left", "right"), ("0", "1", "2"),
                                   ("none", "left engine", "main engine", "right engine"),
                                   ("nothing", "move left", "move right", "attack", "turn left", "forward + attack")])
def test_every_action_can_be_done_by_keys(names: tuple[str, ...]) -> None:
    found = keys_of(names)
    key_of = {meaning: key for key, meaning in found.meanings.items()}
    done = {found.action_of([key_of[one] for one in together]) for together in found.actions}
    assert done == set(range(len(names)))
    assert not set(found.meanings) & {"Tab", "Enter", "Escape", "Backspace"}


def test_keys_that_are_held_together_are_one_action() -> None:
    found = keys_of(ATARI)
    for held, name in ((["ArrowUp"], "UP"), (["ArrowUp", "d"], "UPRIGHT"), (["Space", "s", "a"], "DOWNLEFTFIRE"),
                       (["ArrowLeft", "ArrowRight"], "RIGHT"), (["ArrowRight", "ArrowLeft"], "LEFT"), (["0"], "NOOP")):
        assert ATARI[found.action_of(held)] == name, held  # type: ignore[call-overload]
    assert found.action_of([]) is None and found.action_of(["z"]) is None
    assert found.rest == 0 and found.idle
    assert FOOTBALL[keys_of(FOOTBALL).action_of(["ArrowUp", "ArrowLeft"])] == "top left"  # type: ignore[call-overload]


def test_an_environment_calls_its_actions_as_it_likes() -> None:
    assert meanings_of("UPRIGHTFIRE") == {"up", "right", "fire"} == meanings_of("top right + shoot")
    assert meanings_of("forward + turn left") == {"up", "left"} and meanings_of("torque +1") == {"right"}
    assert not meanings_of("upside") and not meanings_of("0")
    assert ("ArrowUp, w", "forward") in keys_of(MINIGRID).table and keys_of(MINIGRID).rest is None
    both = keys_of(("turn left", "move left"))  # each has its own key
    assert [both.action_of([key]) for key in ("ArrowLeft", "a")] == [0, 1]
    assert [keys_of(("move left", "attack")).action_of([key]) for key in ("ArrowLeft", "a", "Space")] == [0, 0, 1]


def test_actions_of_several_parts_have_keys_for_each() -> None:
    choices = keys_of(actions=ActionSpec("multi_discrete", (3, 2)))
    assert choices.action_of(["2"]) == [2, 0] and choices.action_of(["2", "q"]) == [2, 1] and choices.rest == [0, 0]
    switches = keys_of(actions=ActionSpec("bernoulli", (2, 2, 2)))
    assert switches.action_of(["1", "3"]) == [1, 0, 1]
    numbers = keys_of(actions=ActionSpec("tanh_normal", (0, 0)))
    assert numbers.action_of(["ArrowLeft", "ArrowUp"]) == [-1, 1] and numbers.rest == [0.0, 0.0]


def test_every_part_of_a_mixed_action_has_keys_of_its_own() -> None:
    actions = ActionSpec.mixed({
        "move": ActionSpec("categorical", (3,)), "press": ActionSpec("bernoulli", (2, 2)),
        "aim": ActionSpec("multi_discrete", (2, 2)), "go": ActionSpec("tanh_normal", (0, 0))})
    mixed = keys_of(actions=actions)
    assert mixed.table == [
        ("1", "move: 1"), ("2", "move: 2"), ("3", "press: switch 1"), ("4", "press: switch 2"), ("q", "aim, part 1: 1"),
        ("a", "aim, part 2: 1"), ("ArrowLeft", "go: number 1 −"), ("ArrowRight", "go: number 1 +"),
        ("ArrowDown", "go: number 2 −"), ("ArrowUp", "go: number 2 +")]
    assert mixed.action_of(["2", "4", "a", "ArrowDown"]) == [2, 0, 1, 0, 1, 0, -1] and mixed.rest == [0] * 7
    named = keys_of(actions=actions, keys={"j": {"move": 2, "press": [0, 1], "aim": [1, 0], "go": [0.5, -1]}})
    assert named.action_of(["j"]) == [2, 0, 1, 1, 0, 0.5, -1]


def test_keys_may_be_given() -> None:
    found = keys_of(("left", "none", "right"), keys={"J": 0, " ": 2, "j+Space": 1})
    assert [found.action_of(held) for held in (["j"], ["Space"], ["j", "Space"], ["ArrowLeft"])] == [0, 2, 1, None]
    assert found.rest == 1 and found.table == [("j", "left"), ("Space", "right")]
    numbers = keys_of(actions=ActionSpec("tanh_normal", (0, 0)), keys={"a": [-1, 0.5]})
    assert numbers.action_of(["a"]) == [-1.0, 0.5]


@pytest.mark.parametrize(("keys", "said"), [
    ({}, "must say which key"), ({"Tab": 0}, "Tab is taken: hand over"), ({"a": "left"}, "no action"),
    ({"ArrowLeft": 2}, r"action 2 is not in \[0, 2\)"), ({"Left": 0}, "no key 'Left'"),
    ({"a+Enter": 0}, "Enter is taken"),
])
def test_wrong_keys_are_named(keys: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        keys_of(("left", "right"), keys=keys)
