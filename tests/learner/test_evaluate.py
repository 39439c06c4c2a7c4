"""Episodes of an evaluation where several agents play a game; tests/playing/test_scores.py has scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.environments.games import CountingGame
from tests.played import checkpoint_in
from workbench.playing.worker import evaluate


def evaluated(checkpoint: Any, episodes: int) -> dict[str, Any]:
    return evaluate._evaluate(
        str(checkpoint.path), False, episodes=episodes, seed=0, greedy=True, protocol=None, starts=None)


@pytest.mark.parametrize(("episodes", "lengths", "games"), [
    (1, [2], [0]), (2, [2, 5], [0, 0]), (5, [2, 2, 5, 2, 5], [0, 1, 0, 2, 2])])
def test_every_agent_has_episodes_of_its_own_and_steps_without_it_do_not_count(
    tmp_path: Path, episodes: int, lengths: list[int], games: list[int]
) -> None:
    def game() -> CountingGame:
        return CountingGame(lengths=(2, 5))  # the first agent is out for three of five steps

    told = evaluated(checkpoint_in(tmp_path, game, agents=2), episodes)
    assert told["lengths"] == lengths and len(told["returns"]) == episodes
    assert (told["scores"], told["games"]) == ([], games)


def test_only_an_episode_that_counts_may_be_too_long(tmp_path: Path) -> None:
    one = checkpoint_in(tmp_path, lambda: CountingGame(lengths=(2, 5)), agents=2)
    told = evaluate._evaluate(str(one.path), False, 1, 0, True, None, None, max_steps=2)  # the other agent's has 5
    assert told["lengths"] == [2]
