"""Environments made to be looked at: Atari in colour, in lock-step with what is played, and how episodes ended."""

from __future__ import annotations

import numpy as np
import pytest

from tests.environments.test_atari import area
from workbench.environment_spec import ActionSpec
from workbench.environments import make
from workbench.environments.adapters.rendering import named_actions
from workbench.environments.atari.colour_screens import screen_size
from workbench.environments.contract import Ending
from workbench.errors import EnvironmentFailed
from workbench.testing import CountingEnv
from workbench.trajectory import ENDS

LUMINANCE = [0.2989, 0.587, 0.114]
DOWN, ACROSS = area(210, 84), area(160, 84).T


def agree(frame: np.ndarray, grey: np.ndarray) -> bool:
    """Whether a colour frame shows what the small grey one does, but for a few moving pixels."""
    difference = DOWN @ (frame @ LUMINANCE) @ ACROSS - grey
    return difference.min() > -1 and (difference > 16).sum() < 40


@pytest.mark.parametrize("game, options", [
    pytest.param("ALE/Breakout-v5", {}, marks=pytest.mark.full),
    ("ALE/Breakout-v5", {"life_loss": True, "max_frames_per_episode": 240}),
    pytest.param("ALE/Seaquest-v5", {"full_action_space": True, "max_frames_per_episode": 240}, marks=pytest.mark.full),
])  # fmt: skip
def test_atari_in_colour_is_the_game_that_is_played(game, options):
    plain, shown = (make(game, num_envs=2, seed=7, options=options, show=show) for show in (None, "frames"))
    try:
        expected, batch = plain.reset(), shown.reset()
        rng, ended = np.random.default_rng(0), 0
        for _ in range(170):
            assert all(np.array_equal(getattr(batch, name), getattr(expected, name))
                       for name in ("observation", "reward", "flags"))
            for index in range(2):
                frame = shown.render(index)
                assert frame.shape == (210, 160, 3) and frame.dtype == np.uint8
                assert agree(frame, batch.observation[index, 0])
            actions = rng.integers(plain.spec.num_actions, size=2)
            expected, batch = plain.step(actions), shown.step(actions)
            ended += sum(shown.ending(index) is not None for index in range(2))
            assert plain.ending(0) is None
        assert ended
    finally:
        plain.close(), shown.close()


@pytest.mark.parametrize("options", [{}, {"max_frames_per_episode": 200}])
def test_an_ending_of_atari_shows_the_last_screen_and_not_the_new_game(options):
    env = make("ALE/Breakout-v5", num_envs=2, seed=1, options=options, show="frames")
    try:
        env.reset()
        rng, seen = np.random.default_rng(0), 0
        for _ in range(260):
            batch = env.step(rng.integers(4, size=2))
            for index in np.flatnonzero(batch.flags & ENDS):
                seen += 1
                ending = env.ending(index)
                assert agree(ending.frame, ending.observation[0])
                assert not agree(ending.frame, batch.observation[index, 0])
        assert seen
    finally:
        env.close()


def test_two_games_that_part_are_an_error_and_not_a_wrong_picture():
    env = make("ALE/Pong-v5", num_envs=1, seed=1, show="frames")
    try:
        env.reset()
        env._screens._native.reset(seed=np.array([2]))  # another game
        with pytest.raises(EnvironmentFailed, match="parted.*render=False"):
            for _ in range(200):
                env.step(np.array([2]))
    finally:
        env.close()


def test_a_tall_screen_whose_greys_are_not_of_its_colours_is_shown():
    env = make("ALE/AirRaid-v5", num_envs=1, seed=1, show="frames")
    try:
        env.reset()
        rng = np.random.default_rng(0)
        for _ in range(60):
            env.step(rng.integers(env.spec.num_actions, size=1))
        assert env.render(0).shape == (250, 160, 3) and env.render(0).any()
    finally:
        env.close()


def test_the_size_of_a_screen_is_the_roms_own():
    assert screen_size("pong") == (210, 160)
    assert screen_size("air_raid") == (250, 160)


@pytest.mark.parametrize("ends", ["terminated", "truncated"])
def test_endings_of_gymnasium_are_kept_where_they_are_asked_for(ends):
    options = {"episode_length": 3, "ends": ends, "life": 1, "image": True}
    env = make("testing/counting-v0", num_envs=2, seed=0, options=options, show="endings")
    env.reset()
    for step in range(1, 7):
        env.step(np.array([1, 2]))
        ending = env.ending(1)
        assert (ending is None) == (step % 3 != 0)
        if isinstance(ending, Ending):
            assert CountingEnv.decode(ending.observation)[2:] == (3, 2)
            assert np.array_equal(ending.frame[:, :, 0], ending.observation[0])
    unasked = make("testing/counting-v0", num_envs=1, seed=0, options=options)
    unasked.reset()
    for _ in range(3):
        unasked.step(np.array([0]))
    assert unasked.ending(0) is None


def test_actions_have_their_names_and_environments_their_pace():
    told = {name: (env.action_names, env.fps) for name in ("CartPole-v1", "MountainCar-v0", "testing/catch-v0",
                                                           "testing/counting-v0")
            for env in [make(name, num_envs=1, seed=0)]}
    assert told == {
        "CartPole-v1": (("left", "right"), 50.0), "MountainCar-v0": (("left", "none", "right"), 30.0),
        "testing/catch-v0": (("left", "stay", "right"), 4.0), "testing/counting-v0": (("0", "1", "2"), 15.0),
    }  # fmt: skip


@pytest.mark.parametrize("meant, names", [
    (["a", "b", "c", "d"], ("a", "b", "c", "d")), ({"move": ("a", "b", "c"), "go": ["gas"]}, ("a", "b", "c", "gas")),
    ({"move": ("a", "b", "c")}, ("a", "b", "c", "0")), ({"move": ("a", "b"), "go": ["gas"]}, ("0", "1", "2", "gas")),
    ({"other": "x"}, ("0", "1", "2", "0")), ({"move": 7}, ("0", "1", "2", "0")), (["a", "b"], ("0", "1", "2", "0")),
])  # fmt: skip
def test_the_parts_of_mixed_actions_are_named_by_part_or_all_in_a_row(meant, names):
    actions = ActionSpec.mixed({"move": ActionSpec("categorical", (3,)), "go": ActionSpec("tanh_normal", (0,))})
    assert named_actions(type("Own", (), {"action_names": meant})(), actions) == names


@pytest.mark.parametrize("meant, names", [
    (["stay", "go"], ("stay", "go")), (np.array(["stay", "go"]), ("stay", "go")),
    (lambda self: ("stay", "go"), ("stay", "go")), (np.array([3, 4]), ("3", "4")),
    (["one"], ("0", "1")), ([], ("0", "1")), (7, ("0", "1")),
    (lambda self, action: "go", ("0", "1")), (property(lambda self: 1 / 0), ("0", "1")), (None, ("0", "1")),
])  # fmt: skip
@pytest.mark.parametrize("attribute", ["action_names", "get_action_meanings"])
def test_whatever_an_environment_means_by_its_action_names_does_no_harm(attribute, meant, names):
    assert named_actions(type("Own", (), {attribute: meant})(), ActionSpec("categorical", (2,))) == names
