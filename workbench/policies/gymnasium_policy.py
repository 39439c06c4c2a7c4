"""A checkpoint's policy in the user's own process and loop: observations of a Gymnasium environment in, actions out.

On the CPU, one environment. Frames are stacked, and memory and the previous action kept, from one `act` to the next.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.checkpoints import Checkpoint
from workbench.environment_spec import EnvironmentSpec
from workbench.environments.adapters import minigrid
from workbench.environments.adapters.action_spaces import actions_of, each_of
from workbench.environments.adapters.spaces import layout_of, spec_of
from workbench.environments.contract import wrong_mask
from workbench.errors import InvalidInput, NamesNearest, ShapeMismatch
from workbench.policies.player import Player, load_policy
from workbench.trajectory import Array, Flags, StepBatch


class Policy(NamesNearest):
    """What `wb.load_policy` returns.

    Attributes:
        checkpoint: where it comes from.
        spec: of the environment that it was trained in.
    """

    def __init__(self, checkpoint: Checkpoint, env: Any, *, greedy: bool, seed: int) -> None:
        loaded = load_policy(checkpoint)
        self.checkpoint, self.spec = checkpoint, loaded.spec
        self._greedy = greedy
        self._layout = minigrid.layout_of(env, self.spec.name) or layout_of(env.observation_space, self.spec.name)
        actions, self._given = actions_of(env.action_space, self.spec.name)
        _check_spaces(self.spec, spec_of(self.spec.name, self._layout, actions))
        self._player = Player(loaded, num_envs=1, seed=seed)
        self._starts = True

    def reset(self) -> None:
        """Forget the episode: the next observation is the first of another one."""
        self._starts = True

    def act(self, observation: Any, reward: float = 0.0) -> Any:
        """The action for an observation as the environment returns it, as the environment takes it.

        Call it once for each observation of an episode, in their order, with the reward that came with it, and `reset`
        before the next episode. Raises InvalidInput for an observation that is not in the environment's space, or whose
        action_mask allows nothing.
        """
        row: Array = np.empty((1, *self._layout.shape), self._layout.dtype)
        try:
            self._layout.place(observation, row[0])
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"{error}. Give the observation as the environment returned it.") from None
        if (wrong := self._layout.not_finite(row)) is not None:
            raise InvalidInput(f"the {wrong[1]}.")
        flags = np.array([Flags.START if self._starts else 0], np.uint8)
        came = np.array([0.0 if self._starts else reward], np.float32)
        step = StepBatch(row, came, flags)
        if refused := wrong_mask(step, self.spec):
            raise InvalidInput(f"{refused}.")
        self._starts = False
        return each_of(self._given(self._player.act(step, greedy=self._greedy)), 1)[0]

    def __repr__(self) -> str:
        how = "likeliest actions" if self._greedy else "sampled actions"
        return f"Policy({self.spec.name} at {self.checkpoint.frames:,} frames, {how})"


def _check_spaces(trained: EnvironmentSpec, found: EnvironmentSpec) -> None:
    """Raises ShapeMismatch where the environment is not like the one that the policy was trained in."""
    if differing := found.differing(trained, "this environment"):
        atari = "; on Atari that is what gymnasium.wrappers.AtariPreprocessing is for" if found.shows_images else ""
        raise ShapeMismatch(f"the policy was trained in {differing}. Wrap it as in training{atari}.")
