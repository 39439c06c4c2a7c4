"""Human starts: what was recorded is played before the episode is handed over, and nothing else differs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workbench.environments import make
from workbench.environments.atari.human_starts import AtariFromStarts, Starts, read_starts
from workbench.environments.atari.vector import AtariOptions
from workbench.environments.contract import VectorEnvironment
from workbench.errors import InvalidInput, ShapeMismatch
from workbench.trajectory import Flags

PLAIN = {"noop_max": 0, "use_fire_reset": False, "repeat_action_probability": 0.0}
STEPS = (0, 1, 3, 4, 3, 1, 4, 4) * 5  # by ALE's numbers: NOOP, FIRE, RIGHT, LEFT


def started(*starts: tuple[int, ...], dealt: Any = ((0,),), frames: int = 4, game: str = "breakout",
            **options: Any) -> AtariFromStarts:
    return AtariFromStarts(f"ALE/{game.title()}-v5", Starts(game, frames, starts), dealt=dealt,
                           options=AtariOptions(**options))


def by_hand(steps: int, action: int = 0, **options: Any) -> tuple[Any, list[Any]]:
    """The native environment with STEPS[:steps] played in it: it, and the batches."""
    environment = make("ALE/Breakout-v5", num_envs=1, seed=0, options={**PLAIN, "full_action_space": True, **options})
    batches = [environment.reset(), *(environment.step(np.array([STEPS[at]])) for at in range(steps))]
    return environment, batches


@pytest.mark.parametrize("frames", [4, 1])
def test_an_episode_begins_at_the_screen_that_the_recording_leads_to(frames: int) -> None:
    native, batches = by_hand(len(STEPS))
    recorded = tuple(action for action in STEPS for _ in range(4 // frames))
    environment = started(recorded, frames=frames, full_action_space=True)
    assert isinstance(environment, VectorEnvironment)
    first = environment.reset()
    assert first.flags.tolist() == [Flags.START] and first.reward.tolist() == [0.0]
    assert np.abs(first.observation.astype(int) - batches[-1].observation).max() <= 1
    assert np.abs(first.observation.astype(int) - batches[0].observation).max() > 20
    rng = np.random.default_rng(0)
    for _ in range(150):  # and goes on as the native one
        action = rng.integers(18, size=1)
        ours, theirs = environment.step(action), native.step(action)
        assert ours.reward.tolist() == theirs.reward.tolist() and ours.flags.tolist() == theirs.flags.tolist()
        assert np.abs(ours.observation.astype(int) - theirs.observation).max() <= 1
        if ours.flags[0]:
            break
    native.close(), environment.close()


def test_a_policy_acts_by_the_games_own_actions_and_the_recording_by_ales() -> None:
    environment, native = started((), game="pong"), make("ALE/Pong-v5", num_envs=1, seed=0, options=PLAIN)
    assert environment.action_names == native.action_names and environment.spec == native.spec
    environment.reset(), native.reset()
    for action in [0, 1, 2, 3, 4, 5] * 5:
        ours, theirs = environment.step(np.array([action])), native.step(np.array([action]))
    assert np.abs(ours.observation.astype(int) - theirs.observation).max() <= 1


def test_starts_are_dealt_in_turn_and_over_and_over() -> None:
    starts = (STEPS[:1], STEPS[:12], STEPS[:24])
    environment = started(*starts, dealt=((0, 2), (1,)), max_frames_per_episode=8)
    alone = {number: started(starts[number]).reset().observation[0] for number in range(3)}
    first = environment.reset()
    seen = [first.observation]
    for _ in range(3):
        environment.step(np.zeros(2, int))
        batch = environment.step(np.zeros(2, int))
        assert batch.flags.tolist() == [Flags.TRUNCATED | Flags.START] * 2 and batch.final_index.tolist() == [0, 1]
        ending = environment.ending(0)
        assert ending is not None and ending.frame is not None and ending.frame.shape == (210, 160, 3)
        assert np.array_equal(ending.observation, batch.final_observation[0])
        seen.append(batch.observation)
    for number, observation in zip((0, 2, 0, 2), seen, strict=True):
        assert np.array_equal(observation[0], alone[number]) and np.array_equal(observation[1], alone[1])
    assert np.array_equal(environment.reset(seed=9).observation, first.observation)


def test_a_start_after_which_the_game_is_over_is_refused() -> None:
    environment = started((0,) * 4 + (1, 3) * 4000, frames=4)
    with pytest.raises(InvalidInput, match="start 0 of breakout cannot be played from: the game is over"):
        environment.reset()


def test_a_wrong_action_is_refused() -> None:
    environment = started(())
    environment.reset()
    with pytest.raises(ShapeMismatch, match="action 17"):
        environment.step(np.array([17]))


@pytest.mark.parametrize(("text", "words"), [
    ("{", "is no JSON"),
    ("[]", "has list where game, frames_per_action and starts are wanted"),
    ({"game": "pong", "starts": [[0]]}, r"has \['game', 'starts'\] where"),
    ({"game": "breakout", "frames_per_action": 1, "starts": [[0]]}, "holds starts of 'breakout', and the policy plays"),
    ({"game": "pong", "frames_per_action": 2, "starts": [[0]]}, "frames_per_action=2 must be 1 or 4"),
    ({"game": "pong", "frames_per_action": 1, "starts": []}, "has no starts"),
    ({"game": "pong", "frames_per_action": 1, "starts": [[0], [18]]}, "start 1 must be a list of whole numbers from 0"),
    ({"game": "pong", "frames_per_action": 1, "starts": [[True]]}, "start 0 must be a list"),
])  # fmt: skip
def test_a_file_that_is_not_right_says_what_is_wrong(tmp_path: Path, text: Any, words: str) -> None:
    path = tmp_path / "starts.json"
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    with pytest.raises(InvalidInput, match=words):
        read_starts(path, game="pong")


def test_a_file_that_is_not_there_says_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"No such file.*frames_per_action"):
        read_starts(tmp_path / "none.json", game="pong")


def test_a_right_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "starts.json"
    path.write_text('{"game": "pong", "frames_per_action": 1, "starts": [[0, 17], []]}')
    assert read_starts(path, game="pong") == Starts("pong", 1, ((0, 17), ()))
