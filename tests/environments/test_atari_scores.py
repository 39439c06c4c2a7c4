"""Published scores, and the protocols that go with them."""

from __future__ import annotations

import ale_py
import gymnasium
import pytest

from workbench.environments.atari.protocols import PROTOCOLS, protocol_of
from workbench.environments.atari.scores import human_normalized, published, scores, scores_of
from workbench.environments.atari.vector import AtariOptions
from workbench.errors import UnknownName


@pytest.mark.parametrize(("name", "is_a_game"), [
    ("ALE/Pong-v5", True), ("ale_py:ALE/Pong-v5", True), ("PongNoFrameskip-v4", True), ("PongDeterministic-v4", True),
    ("Pong", False), ("pong", False), ("Breakout", False), ("CartPole-v1", False),
])  # fmt: skip
def test_a_class_that_is_called_as_a_game_has_no_published_scores(name: str, is_a_game: bool) -> None:
    assert (published(name) is not None) is is_a_game


def test_all_57_games_are_there_under_their_names_in_ale() -> None:
    gymnasium.register_envs(ale_py)
    table = scores()
    assert len(table) == 57 and list(table) == sorted(table)
    for one in table.values():
        assert gymnasium.registry[one.id].kwargs["game"] == one.game
        assert one.human > one.random and one.human_human_starts != one.random_human_starts
    below = [one.game for one in table.values() if one.human_human_starts < one.random_human_starts]
    assert below == ["video_pinball"]  # as published: random play from human starts scores more than the tester


@pytest.mark.parametrize(("game", "random", "human"), [
    ("pong", -20.7, 14.6), ("breakout", 1.7, 30.5), ("montezuma_revenge", 0.0, 4753.3), ("skiing", -17098.1, -4336.9),
    ("private_eye", 24.9, 69571.3), ("surround", -10.0, 6.5), ("defender", 2874.5, 18688.9), ("zaxxon", 32.5, 9173.3),
])  # fmt: skip
def test_scores_are_those_of_the_table(game: str, random: float, human: float) -> None:
    assert (scores()[game].random, scores()[game].human) == (random, human)


@pytest.mark.parametrize("name", [
    "space_invaders", "SpaceInvaders", "ALE/SpaceInvaders-v5", "SpaceInvadersNoFrameskip-v4", "SpaceInvaders-v0",
    "SpaceInvadersDeterministic-v4", "SpaceInvaders-ramNoFrameskip-v4",
])  # fmt: skip
def test_a_game_is_found_by_any_of_its_names(name: str) -> None:
    found = scores_of(name)
    assert found is not None and found.id == "ALE/SpaceInvaders-v5"


def test_random_play_is_0_and_the_tester_1() -> None:
    assert human_normalized("Pong", -20.7) == 0.0
    assert human_normalized("ALE/Pong-v5", 14.6) == 1.0
    assert human_normalized("ALE/Breakout-v5", 418.5) == pytest.approx(14.472, abs=1e-3)  # double DQN, Wang et al. 2016
    assert human_normalized("pong", 15.5, starts="human") == 1.0
    assert human_normalized("pong", -18.0, starts="human") == 0.0


def test_what_nobody_published_is_said() -> None:
    assert scores_of("CartPole-v1") is None and scores_of("ALE/Adventure-v5") is None
    with pytest.raises(UnknownName, match="game with a published human score 'ALE/Pongg-v5'"):
        human_normalized("ALE/Pongg-v5", 1.0)


@pytest.mark.parametrize("name", list(PROTOCOLS))
def test_a_protocols_options_are_atari_options(name: str) -> None:
    one = protocol_of(name)
    options = AtariOptions(**one.options)
    assert not options.life_loss and not options.use_fire_reset
    assert options.repeat_action_probability == (0.25 if name.startswith("sticky") else 0.0)
    assert options.noop_max == (30 if name == "noop-starts" else 0)
    assert one.starts_file == (name == "human-starts") == (one.normalised_by == "human")
    assert one.differences(full_action_space=True) == ""


def test_sticky_actions_with_fewer_actions_are_said_to_differ() -> None:
    assert "minimal action set instead of all 18" in protocol_of("sticky-actions").differences(full_action_space=False)
    assert protocol_of("noop-starts").differences(full_action_space=False) == ""
    assert protocol_of("sticky-actions").options["max_frames_per_episode"] == 18_000


def test_an_unknown_protocol_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="evaluation protocol 'no-op-starts'. Did you mean 'noop-starts'"):
        protocol_of("no-op-starts")
