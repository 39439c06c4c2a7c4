"""DeepMind Lab's levels by name, SEED's actions, and instructions as numbers.

Sources: DMLab-30 and its order, google-deepmind/lab game_scripts/levels/contributed/dmlab30; the other levels and the
action set, google-research/seed_rl dmlab/games.py and dmlab/env.py.
"""

from __future__ import annotations

import hashlib

import numpy as np

from workbench.environments.contract import Array

PREFIX = "dmlab/"
_DMLAB_30_FOLDER = "contributed/dmlab30/"

DMLAB_30 = (
    "rooms_collect_good_objects_train", "rooms_exploit_deferred_effects_train", "rooms_select_nonmatching_object",
    "rooms_watermaze", "rooms_keys_doors_puzzle", "language_select_described_object", "language_select_located_object",
    "language_execute_random_task", "language_answer_quantitative_question", "lasertag_one_opponent_small",
    "lasertag_three_opponents_small", "lasertag_one_opponent_large", "lasertag_three_opponents_large",
    "natlab_fixed_large_map", "natlab_varying_map_regrowth", "natlab_varying_map_randomized",
    "skymaze_irreversible_path_hard", "skymaze_irreversible_path_varied", "psychlab_arbitrary_visuomotor_mapping",
    "psychlab_continuous_recognition", "psychlab_sequential_comparison", "psychlab_visual_search",
    "explore_object_locations_small", "explore_object_locations_large", "explore_obstructed_goals_small",
    "explore_obstructed_goals_large", "explore_goal_locations_small", "explore_goal_locations_large",
    "explore_object_rewards_few", "explore_object_rewards_many",
)  # fmt: skip
HELD_OUT = ("rooms_collect_good_objects_test", "rooms_exploit_deferred_effects_test")
OTHERS = (
    "lt_chasm", "lt_hallway_slope", "lt_horseshoe_color", "lt_space_bounce_hard", "nav_maze_random_goal_01",
    "nav_maze_random_goal_02", "nav_maze_random_goal_03", "nav_maze_static_01", "nav_maze_static_02",
    "nav_maze_static_03", "seekavoid_arena_01", "stairway_to_melon",
)  # fmt: skip
NAMES = tuple(PREFIX + level for level in (*DMLAB_30, *HELD_OUT, *OTHERS))

_LOOK, _STRAFE, _MOVE = "LOOK_LEFT_RIGHT_PIXELS_PER_FRAME", "STRAFE_LEFT_RIGHT", "MOVE_BACK_FORWARD"
ACTIONS: dict[str, dict[str, int]] = {
    "forward": {_MOVE: 1},
    "backward": {_MOVE: -1},
    "strafe left": {_STRAFE: -1},
    "strafe right": {_STRAFE: 1},
    "look left": {_LOOK: -20},
    "look right": {_LOOK: 20},
    "forward + look left": {_LOOK: -20, _MOVE: 1},
    "forward + look right": {_LOOK: 20, _MOVE: 1},
    "fire": {"FIRE": 1},
}

WORDS = 16  # of an instruction
BITS = 32  # per word


def level_of(name: str) -> str | None:
    """The package's name of the level `name`: a short one of `NAMES`, or any path; None for one that is neither."""
    level = name.removeprefix(PREFIX)
    if level in DMLAB_30 or level in HELD_OUT:
        return _DMLAB_30_FOLDER + level
    return level if level in OTHERS or "/" in level.strip("/") else None


def gives_instructions(level: str) -> bool:
    """Whether the level gives instructions in words."""
    return level.rpartition("/")[2].startswith("language_")


def is_held_out(level: str) -> bool:
    """Whether the package refuses the level unless `allowHoldOutLevels` is set."""
    return level.rpartition("/")[2] in HELD_OUT


def words_as_bits(text: str) -> Array:
    """An instruction as uint8 [WORDS * BITS // 8]: packed bits, BITS of each word's hash, 0 after the last word.

    IMPALA hashes words into 1000 numbers and learns a vector for each. Fixed random bits carry the same information and
    need no embedding: the network's first layer maps them to such a vector. The probability that two of some 200 words
    share all bits is 1 in 200,000.
    """
    codes = [hashlib.blake2b(word.encode(), digest_size=BITS // 8).digest() for word in text.lower().split()[:WORDS]]
    return np.frombuffer(b"".join(codes).ljust(WORDS * BITS // 8, b"\0"), np.uint8)
