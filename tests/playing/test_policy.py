"""Actions of every kind in words, and the policy as a small picture."""

from __future__ import annotations

import numpy as np
import pytest

from workbench.environment_spec import ActionSpec
from workbench.playing.action_bars import domain_of, strip
from workbench.playing.action_words import groups, in_words, kind_in_words, taken

CHOICE = ActionSpec("categorical", (3,))
PARTS = ActionSpec("multi_discrete", (3, 2))
SWITCHES = ActionSpec("bernoulli", (2, 2, 2))
NUMBERS = ActionSpec("tanh_normal", (0, 0))
PAIR = ActionSpec.mixed({"move": CHOICE, "throttle": ActionSpec("tanh_normal", (0,))})
MANY = ActionSpec.mixed({"keys": PARTS, "move": CHOICE, "press": SWITCHES, "aim": NUMBERS})


def numbered(count: int) -> tuple[str, ...]:
    return tuple(map(str, range(count)))


def test_bars_have_the_names_that_an_environment_gives_and_else_say_what_they_are() -> None:
    assert groups(CHOICE, ("a", "b", "c")) == [("", ("a", "b", "c"), "choice")]
    assert groups(PARTS, numbered(5)) == [("part 1", ("0", "1", "2"), "choice"), ("part 2", ("0", "1"), "choice")]
    assert groups(PARTS, ("move", "fire")) == [("move", ("0", "1", "2"), "choice"), ("fire", ("0", "1"), "choice")]
    assert groups(PARTS, ("l", "s", "r", "off", "on"))[1] == ("part 2", ("off", "on"), "choice")
    assert groups(SWITCHES, numbered(3)) == [("", ("switch 1", "switch 2", "switch 3"), "switches")]
    assert groups(NUMBERS, ("steer", "brake")) == [("", ("steer", "brake"), "numbers")]
    assert groups(PAIR, ("LEFT", "STAY", "RIGHT", "0")) == [
        ("move", ("LEFT", "STAY", "RIGHT"), "choice"), ("throttle", ("number 1",), "numbers")]
    assert groups(MANY, ())[:3] == [("keys, part 1", ("0", "1", "2"), "choice"), ("keys, part 2", ("0", "1"), "choice"),
                                    ("move", ("0", "1", "2"), "choice")]
    assert groups(NUMBERS, numbered(2)) == [("", ("number 1", "number 2"), "numbers")]


@pytest.mark.parametrize(
    ("actions", "action", "kind", "words"),
    [
        (CHOICE, np.int64(2), "one of 3", "2"),
        (PARTS, np.array([2, 0]), "2 choices, of 3 and 2", "part 1: 2, part 2: 0"),
        (SWITCHES, np.array([1, 0, 1]), "3 switches", "switch 1, switch 3"),
        (SWITCHES, np.array([0, 0, 0]), "3 switches", "all off"),
        (NUMBERS, np.array([0.314, -1], np.float32), "2 numbers", "0.31, -1.00"),
        (PAIR, np.array([2, 0.314], np.float32), "move: one of 3; throttle: 1 number", "move: 2, throttle: 0.31"),
        (MANY, np.array([2, 1, 0, 1, 0, 1, -1, 0.5], np.float32),
         "keys: 2 choices, of 3 and 2; move: one of 3; press: 3 switches; aim: 2 numbers",
         "keys: part 1: 2, part 2: 1; move: 0; press: switch 1, switch 3; aim: -1.00, 0.50"),
    ],
)
def test_an_action_is_said_in_words(actions: ActionSpec, action: np.ndarray, kind: str, words: str) -> None:
    assert kind_in_words(actions) == kind
    assert in_words(actions, (), action) == words


def test_what_was_done_in_an_episode_is_summed_up() -> None:
    assert taken(CHOICE, ("a", "b", "c"), np.array([2, 2, 0, 2])) == "c 75%, a 25%"
    assert taken(PARTS, (), np.array([[0, 1], [0, 0]])) == "part 1: 0 100%; part 2: 1 50%, 0 50%"
    assert taken(SWITCHES, (), np.array([[1, 0, 0], [1, 0, 1]])) == "switch 1 on 100%, switch 2 on 0%, switch 3 on 50%"
    assert taken(NUMBERS, (), np.array([[1, 0], [0, 0]], np.float32)) == "number 1 0.50 ± 0.50, number 2 0.00 ± 0.00"
    assert taken(PAIR, ("a", "b", "c", "0"), np.array([[2, 1], [2, 0]], np.float32)) == (
        "move: c 100%; throttle: number 1 0.50 ± 0.50")
    many = ActionSpec("bernoulli", (2,) * 9)
    assert taken(many, (), np.zeros((2, 9), np.int64)).endswith("switch 4 on 0%, …")


def columns(drawn: np.ndarray, colour: str) -> np.ndarray:
    """Of each column, whether it has a pixel that is rather orange or blue."""
    red, blue = drawn[..., 0].astype(int), drawn[..., 2].astype(int)
    return (((red - blue if colour == "orange" else blue - red) > 100) & (drawn[..., 3] > 0)).any(0)


def test_the_bar_of_what_was_chosen_is_orange_and_the_others_are_blue() -> None:
    drawn = strip(CHOICE, np.array([0.2, 0.5, 0.3]), np.int64(1), domain=(0, 1), size=(90, 40))
    orange, blue = columns(drawn, "orange"), columns(drawn, "blue")
    assert orange[32:56].all() and not orange[:30].any() and not orange[60:].any()
    assert blue[2:26].all() and blue[62:86].all() and not blue[32:56].any()
    heights = (drawn[..., 3] > 0).sum(0)
    assert heights[10] < heights[70] < heights[40] and not drawn[0, :, 3].any()


def test_a_q_value_below_zero_hangs_from_zero() -> None:
    values = np.array([[-1.0, 1.0]], np.float32)
    pair = ActionSpec("categorical", (2,))
    drawn = strip(pair, values[0], np.int64(0), domain=domain_of(pair, values), size=(40, 41))
    assert not drawn[:20, 5, 3].any() and drawn[22:, 5, 3].all()
    assert drawn[:19, 25, 3].all() and not drawn[22:40, 25, 3].any()


def test_each_switch_that_is_on_is_orange() -> None:
    drawn = strip(SWITCHES, np.array([0.9, 0.1, 0.5]), np.array([1, 0, 1]), domain=(0, 1), size=(90, 40))
    assert columns(drawn, "orange")[[10, 70]].all() and columns(drawn, "blue")[40] and not columns(drawn, "blue")[70]


def test_parts_stand_apart_and_each_has_what_was_chosen() -> None:
    drawn = strip(PARTS, np.full(5, 0.5), np.array([2, 0]), domain=(0, 1), size=(60, 40))
    orange = columns(drawn, "orange")
    assert orange[22] and orange[44] and not drawn[:, 31:39, 3].any()


def test_a_number_is_a_dot_on_its_axis_and_its_middle_a_line() -> None:
    drawn = strip(NUMBERS, np.array([-1.0, 0.0]), np.array([1.0, 0.5], np.float32), domain=(-1, 1), size=(60, 41))
    orange, blue = (drawn[..., 0] > 200), (drawn[..., 2] > 180) & (drawn[..., 0] < 100)
    assert np.flatnonzero(orange[:, :30].any(1)).max() < 10 and np.flatnonzero(blue[:, :30].any(1)).min() > 30
    assert 8 < np.flatnonzero(orange[:, 31:].any(1)).mean() < 14


def test_a_mixed_action_is_drawn_part_beside_part() -> None:
    drawn = strip(PAIR, np.array([0.2, 0.3, 0.5, -1.0]), np.array([2, 1.0], np.float32), domain=domain_of(PAIR, None),
                  size=(100, 41))
    orange, blue = columns(drawn, "orange"), columns(drawn, "blue")
    assert blue[2:16].all() and blue[22:36].all() and orange[42:56].all() and not drawn[:, 61:79, 3].any()
    dot = (drawn[:, 80:, 0] > 200).any(1)
    assert np.flatnonzero(dot).max() < 10, "the number that was taken is at the top, its middle at the bottom"
    assert (drawn[35:, 80:, 2] > 180).any()


def test_more_bars_than_pixels_are_drawn_all_the_same() -> None:
    many = ActionSpec("categorical", (300,))
    assert strip(many, np.full(300, 0.1), np.int64(7), domain=(0, 1), size=(90, 40)).shape == (40, 90, 4)
