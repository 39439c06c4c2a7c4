"""Environments with known answers, for our tests and users' own; `check_environment` is the contract's test.

They are registered with Gymnasium as `testing/counting-v0`, `testing/catch-v0`, `testing/recall-v0`,
`testing/cartpole-positions-v0` and `testing/failing-v0`, so that `launch("testing/catch-v0")` runs them like any other.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import gymnasium
import numpy as np
import numpy.typing as npt

from workbench.environments.batch_rules import Checked
from workbench.environments.check import check_environment
from workbench.errors import InvalidInput

Array = npt.NDArray[Any]
Reset = tuple[Array, dict[str, Any]]
Step = tuple[Array, float, bool, bool, dict[str, Any]]

_instances = itertools.count()


class Count(NamedTuple):
    """The content of an observation of CountingEnv.

    Attributes:
        life: number of the instance, unique among all instances and processes, restarted actors included.
        episode: number of the episode in that life, from 0.
        step: number of the step in that episode, 0 after the reset.
        action: the action that led here, -1 after the reset.
    """

    life: int
    episode: int
    step: int
    action: int


class CountingEnv(gymnasium.Env):  # type: ignore[misc]  # gymnasium is not typed here
    """An environment whose observations count, so that any lost, repeated or shifted step is visible.

    Args:
        episode_length: steps per episode; of n lengths, episode e has the (e mod n)-th.
        ends: how episodes end: "terminated", "truncated", or "alternate" (first terminated, then truncated, ...).
        image: observations are uint8 [1, 36, 36] whose first row holds the count, else float32 [4].
        num_actions: an action has no effect; the next observation shows it.
        life: see `Count`; None: unique. Give it where two instances must do the same.
        step_ms: how long a step sleeps, to leave the processor to others.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    def __init__(
        self,
        *,
        episode_length: int | Sequence[int] = 7,
        ends: str = "terminated",
        image: bool = False,
        num_actions: int = 3,
        life: int | None = None,
        step_ms: float = 0.0,
    ) -> None:
        if ends not in ("terminated", "truncated", "alternate"):
            raise InvalidInput(f"ends={ends!r} must be 'terminated', 'truncated' or 'alternate'.")
        self._lengths = [episode_length] if isinstance(episode_length, int) else list(episode_length)
        self._ends = ends
        self._image, self._step_s = image, step_ms / 1000
        unique = (os.getpid() % 2**16) * 2**8 + next(_instances) % 2**8  # below 2**24: exact in float32
        self.life = unique if life is None else life
        self._episode, self._step, self._action = -1, 0, -1
        self.action_space = gymnasium.spaces.Discrete(num_actions)
        self.observation_space = (
            gymnasium.spaces.Box(0, 255, (1, 36, 36), np.uint8)
            if image
            else gymnasium.spaces.Box(-1, 2**24, (4,), np.float32)
        )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Starts the next episode; with a seed, episode 0."""
        super().reset(seed=seed)
        if seed is not None:
            self._episode = -1
        self._episode, self._step, self._action = self._episode + 1, 0, -1
        return self._observation(), {}

    def step(self, action: int) -> Step:
        """Counts one step; the reward is `expected_reward` of the count in the observation."""
        if self._step_s:
            time.sleep(self._step_s)
        self._step, self._action = self._step + 1, int(action)
        over = self._step >= self._lengths[self._episode % len(self._lengths)]
        cut_off = self._ends == "truncated" or (self._ends == "alternate" and self._episode % 2 == 1)
        reward = self.expected_reward(self._episode, self._step)
        return self._observation(), reward, over and not cut_off, over and cut_off, {}

    def _observation(self) -> Array:
        count = Count(self.life, self._episode, self._step, self._action)
        if not self._image:
            return np.array(count, np.float32)
        frame = np.zeros((1, 36, 36), np.uint8)
        frame[0, 0, :16] = np.array([*count[:3], count.action + 1], ">u4").view(np.uint8)
        return frame

    @staticmethod
    def expected_reward(episode: int, step: int) -> float:
        """Reward of the transition into that step: in [0.01, 0.97], different from its neighbours'; 0 at step 0."""
        return (1 + (13 * episode + step) % 97) / 100 if step else 0.0

    @staticmethod
    def decode(observation: Array) -> Count:
        """The count that an observation (float32 [4], or the newest frame uint8 [..., 36, 36]) shows."""
        if observation.dtype == np.uint8:
            life, episode, step, action = observation.reshape(-1, 36, 36)[-1, 0, :16].copy().view(">u4").tolist()
            return Count(life, episode, step, action - 1)
        life, episode, step, action = (int(value) for value in observation)
        return Count(life, episode, step, action)


class CatchEnv(gymnasium.Env):  # type: ignore[misc]  # gymnasium is not typed here
    """Catch a falling ball with a paddle: a small image task whose best return is 1 (always caught; missed: -1).

    The ball starts in a random column of the top row and falls one row per step; the paddle starts in the middle of
    the bottom row and moves by one column or stays (actions left, stay, right). After rows - 1 steps the ball is at
    the bottom. Observation: uint8 [1, rows * cell, columns * cell], 255 where ball and paddle are. A random policy
    returns about -0.5, and every ball can be caught. After bsuite's catch (Osband et al. 2020, arXiv 1908.03568).
    A step sleeps `step_ms`, to leave the processor to others.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": [], "render_fps": 4}
    best_return = 1.0
    action_names = ("left", "stay", "right")

    def __init__(self, *, rows: int = 6, columns: int = 6, cell: int = 6, step_ms: float = 0.0) -> None:
        if columns // 2 > rows - 1:
            raise InvalidInput(f"with columns={columns} and rows={rows} some balls are out of reach.")
        self._rows, self._columns, self._cell, self._step_s = rows, columns, cell, step_ms / 1000
        self._ball_row = self._ball_column = self._paddle = 0
        self.action_space = gymnasium.spaces.Discrete(3)
        self.observation_space = gymnasium.spaces.Box(0, 255, (1, rows * cell, columns * cell), np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Drops a new ball."""
        super().reset(seed=seed)
        self._ball_row, self._paddle = 0, self._columns // 2
        self._ball_column = int(self.np_random.integers(self._columns))
        return self._observation(), {}

    def step(self, action: int) -> Step:
        """Moves the paddle by action - 1, then the ball down."""
        time.sleep(self._step_s)
        self._paddle = min(max(self._paddle + int(action) - 1, 0), self._columns - 1)
        self._ball_row += 1
        over = self._ball_row == self._rows - 1
        reward = (1.0 if self._paddle == self._ball_column else -1.0) if over else 0.0
        return self._observation(), reward, over, False, {}

    def _observation(self) -> Array:
        board = np.zeros((self._rows, self._columns), np.uint8)
        board[self._ball_row, self._ball_column] = 255
        board[-1, self._paddle] = 255
        return board.repeat(self._cell, axis=0).repeat(self._cell, axis=1)[None]


class RecallEnv(gymnasium.Env):  # type: ignore[misc]  # gymnasium is not typed here
    """A T-maze: remember the cue of the first observation and turn that way at the end. Best return 1; no memory: 0.

    Observation: float32 [3]: cue (-1 left or +1 right in the first observation, else 0), share of the corridor
    walked, and 1 at the junction. Actions 0 left, 1 right; only the one at the junction, after `length` steps,
    counts (reward 1 or -1). After Bakker 2002 (NIPS 14).
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}
    best_return = 1.0
    action_names = ("left", "right")

    def __init__(self, *, length: int = 8) -> None:
        self._length = length
        self._cue, self._walked = 1, 0
        self.action_space = gymnasium.spaces.Discrete(2)
        self.observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Shows a new cue at the start of the corridor."""
        super().reset(seed=seed)
        self._cue, self._walked = 2 * int(self.np_random.integers(2)) - 1, 0
        return self._observation(), {}

    def step(self, action: int) -> Step:
        """Walks on; at the junction, turns."""
        if self._walked == self._length:
            reward = 1.0 if 2 * int(action) - 1 == self._cue else -1.0
            return self._observation(), reward, True, False, {}
        self._walked += 1
        return self._observation(), 0.0, False, False, {}

    def _observation(self) -> Array:
        cue = self._cue if self._walked == 0 else 0
        return np.array([cue, self._walked / self._length, self._walked == self._length], np.float32)


class HiddenVelocityCartPoleEnv(gymnasium.ObservationWrapper):  # type: ignore[misc]  # gymnasium is not typed here
    """CartPole-v1 without its velocities, which two observations tell, and one does not. Best return 500.

    Observation: float32 [2]: position of the cart and angle of the pole. Everything else is CartPole-v1's. After the
    non-Markovian pole balancing of Wierstra et al. 2007 (ICANN, "Solving deep memory POMDPs").
    """

    best_return = 500.0

    def __init__(self, *, render_mode: str | None = None) -> None:
        super().__init__(gymnasium.make("CartPole-v1", render_mode=render_mode, disable_env_checker=True))
        full = self.env.observation_space
        self.observation_space = gymnasium.spaces.Box(full.low[::2], full.high[::2], dtype=np.float32)

    def observation(self, observation: Array) -> Array:
        """Positions of all four values."""
        return observation[::2].copy()


class FailingEnv(CountingEnv):
    """Counts, then raises RuntimeError(message) in the constructor, or in the `at`-th reset or step of its life."""

    def __init__(self, *, where: str = "step", at: int = 3, message: str = "on purpose", **counting: Any) -> None:
        if where not in ("constructor", "reset", "step"):
            raise InvalidInput(f"where={where!r} must be 'constructor', 'reset' or 'step'.")
        self._where, self._remaining, self._message = where, at, message
        if where == "constructor":
            raise RuntimeError(message)
        super().__init__(**counting)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """As CountingEnv, until it fails."""
        self._count_down("reset")
        return super().reset(seed=seed, options=options)

    def step(self, action: int) -> Step:
        """As CountingEnv, until it fails."""
        self._count_down("step")
        return super().step(action)

    def _count_down(self, where: str) -> None:
        self._remaining -= where == self._where
        if self._remaining <= 0:
            raise RuntimeError(self._message)


__all__ = [
    "CatchEnv",
    "Checked",
    "Count",
    "CountingEnv",
    "FailingEnv",
    "HiddenVelocityCartPoleEnv",
    "RecallEnv",
    "check_environment",
]
