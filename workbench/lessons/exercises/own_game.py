"""Exercises of lesson 7: an environment to mend, and what a return is worth."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc"
# The solutions stand in a lesson as a student would write them; gymnasium is not typed here.

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from workbench.errors import EnvironmentFailed
from workbench.lessons.answers import choice, expect_close, number
from workbench.lessons.exercise import Exercise, Wrong
from workbench.testing import check_environment

FALLING, COLUMNS, CAUGHT, STONES = 24, 8, 3, 0.4  # that land in a game; under the basket; share of stones
GATES, ROWS, GAMES = 10, 5, 30  # gates of a game, rows between them, and games that an answer plays


class Skier(gymnasium.Env):
    """Ski down a slope, through ten gates; five rows lie between a gate and the next."""

    def __init__(self):
        self.observation_space = gymnasium.spaces.Box(0, 8, (3,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(3)  # left, straight on, right

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.column, self.passed = 4, 0
        self.next_gate()
        return self.seen(), {}

    def next_gate(self):
        self.rows, self.gate = 5, int(self.np_random.integers(9))

    def step(self, action):
        self.column = int(np.clip(self.column + action - 1, 0, 8))
        self.rows -= 1
        reward = 0.0
        if self.rows == 0:
            reward = float(abs(self.column - self.gate) <= 1)
            self.passed += 1
            self.next_gate()
        return self.seen(), reward, self.passed == 10, False, {}

    def seen(self):
        return np.array([self.column, self.gate, self.rows], np.float32)


def _check_skier(answer: Any) -> None:
    if not (isinstance(answer, type) and issubclass(answer, gymnasium.Env)):
        raise Wrong("Give the class itself, a gymnasium.Env with three mistakes less.")
    try:
        counts = check_environment(answer)
    except EnvironmentFailed as error:
        raise Wrong(f"check_environment says: {error}") from None
    if counts.episodes == 0:
        raise Wrong("No game ended in 300 steps. A game has ten gates, so it must end after 50 steps.")
    if counts.truncated:
        raise Wrong("A game is over after the tenth gate: that is terminated, not truncated.")
    _check_rules(answer())


def _check_rules(env: gymnasium.Env) -> None:
    """Steers for each gate, through some games: the mended game must still be the same, and no two games alike."""
    if env.action_space != gymnasium.spaces.Discrete(3):
        raise Wrong("There are still three actions: left, straight on, right.")
    games = [_gates(env, game) for game in range(1, GAMES + 1)]
    if games[0] == games[1]:
        raise Wrong("Two games with different seeds have the same gates: draw from what reset(seed=...) seeds.")
    if fixed := [gates[0] for gates in games if len(set(gates)) == 1]:
        raise Wrong(f"All ten gates of a game are in column {fixed[0]:g}. Each one is drawn anew.")
    if missing := set(range(9)) - {gate for gates in games for gate in gates}:
        raise Wrong(f"Of {GAMES * GATES} gates none is in column {min(missing)}. All nine columns are drawn.")


def _gates(env: gymnasium.Env, game: int) -> list[float]:
    """Columns of the gates of a game that keeps the rules. Raises Wrong if it breaks one."""
    (column, gate, _), _ = env.reset(seed=game)
    if column != 4:
        raise Wrong(f"A game starts in column 4, in the middle. Game {game} starts in column {column:g}.")
    gates = []
    for step in range(1, GATES * ROWS + 1):
        action = int(np.sign(gate - column)) + 1
        expected, aimed = column + action - 1, gate
        (column, gate, _), reward, terminated, _, _ = env.step(action)
        expect_close(column, expected, "the column after a step towards the gate", {"game": game, "action": action})
        if terminated != (step == GATES * ROWS):
            raise Wrong(f"Game {game} {'ended' if terminated else 'did not end'} after {step} steps; it has ten "
                        "gates, five rows apart.")
        gates += [aimed] * (step % ROWS == 0)
        expect_close(reward, float(step % ROWS == 0 and abs(column - aimed) <= 1), "the reward of a step",
                     {"game": game, "step": step, "column": column, "gate": aimed})
    return gates


skier = Exercise(
    _check_skier, Skier,
    why="Draws come from self.np_random, which reset(seed=...) seeds; reset puts back everything that an episode "
        "changes, passed too; and an observation has the dtype of its space.",
)


best = number(
    FALLING * (1 - STONES), "24 land in a game, and a perfect player gets the fruit among them",
    {"share of stones": STONES},
    hints={25 * (1 - STONES): "25 of them begin to fall. The last one does so at step 97, and needs seven steps to the "
                              "ground."},
    why="25 begin to fall, 24 of them land within 100 steps, and 60% of these are fruit: 14.4.",
)
UNDER = FALLING * CAUGHT / COLUMNS
never_moves = number(
    UNDER * (1 - 2 * STONES), "things in the basket, fruit less stones",
    {"columns": COLUMNS, "of them under the basket": CAUGHT, "share of stones": STONES},
    hints={UNDER: "So many things fall into the basket. Some are stones, and cost 1 each.",
           FALLING * (1 - 2 * STONES): "That is a basket as wide as the orchard. This one is under three of eight "
                                       "columns."},
    why="24 · 3/8 = 9 things land in it, 5.4 of them fruit and 3.6 stones: 1.8. An agent with less than that has "
        "learnt nothing.",
)
comparable = choice(
    "moves", {
        "returns": "A return is counted in rewards, and the two games pay differently for the same play.",
        "values": "A value predicts the return of its own game, so it has the same unit as that return.",
        "nothing": "One of them is a fact about the play, whatever it is paid for.",
    },
    why="How often a basket moves, or how much fruit it catches, is measured alike in both games. To compare returns, "
        "play both policies in the same game.",
)
