"""DeepMind Lab, where `deepmind_lab` can be imported. It has no wheel: it is built with Bazel from its repository.

As in SEED RL (dmlab/env.py): nine actions, each held for 4 frames of 60 a second, RGB of 72x96, rewards as they are.

This follows the package's documentation and its Python module's source. It has been tested against a stand-in that
does so too, and never against the package itself.

- The level ends its episodes, nearly always by its clock. That is the task's own end, so it is TERMINATED, as in SEED
  and IMPALA, and nothing is bootstrapped. The package has no screen after it: `ending` has the one before.
- Instructions of a level are a part of the observation, see `levels.words_as_bits`.
- The package keeps Python's lock while it steps, so threads would not help: use more actors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from workbench.config import setting
from workbench.config.settings import check_known, validate
from workbench.environment_spec import Part
from workbench.environments.adapters.gymnasium_vector import GymnasiumVector
from workbench.environments.adapters.spaces import Layout, Member, image_member, packed
from workbench.environments.contract import Array, Show
from workbench.environments.dmlab.level_cache import LevelCache
from workbench.environments.dmlab.levels import (
    ACTIONS,
    BITS,
    NAMES,
    WORDS,
    gives_instructions,
    is_held_out,
    level_of,
    words_as_bits,
)
from workbench.errors import UnknownName

FRAMES_PER_SECOND = 60
_EVALUATION_SEED = 0x600D5EED  # SEED's and IMPALA's `mixerSeed` for levels outside training


@dataclass(frozen=True)
class DmlabOptions:
    """Options of a DeepMind Lab level."""

    width: int = setting(96, "of the observation", unit="pixels", low=16, high=1920, source="SEED RL")
    height: int = setting(72, "of the observation", unit="pixels", low=16, high=1080, source="SEED RL")
    frame_skip: int = setting(4, "frames for which an action is held", unit="frames", low=1, high=64, source="SEED RL")
    level_cache: str = setting("", "directory of compiled levels; empty: none are stored")
    instruction: str = setting("auto", "whether the level's words are observed; auto: in language_ levels",
                               choices=("auto", "on", "off"))
    evaluation: bool = setting(False, "levels and seeds outside training", source="SEED RL, IMPALA")
    renderer: str = setting("software", "what draws", choices=("software", "hardware"))
    dataset: str = setting("", "directory of the pictures of psychlab levels")
    runfiles: str = setting("", "directory of the package's own files, if it does not find them")

    def __post_init__(self) -> None:
        validate(self)


def names() -> tuple[str, ...]:
    """The levels with short names; others are named `dmlab/` and their path."""
    return NAMES


def check(name: str, options: Mapping[str, Any]) -> tuple[str, DmlabOptions]:
    """The package's level and its options. Raises UnknownName for the name or an option, OutOfBounds for a value."""
    level = level_of(name)
    if level is None:
        raise UnknownName.among("environment", name, NAMES, "Other levels go by their path, which has a slash.")
    check_known(DmlabOptions, options, "DeepMind Lab option")
    return level, DmlabOptions(**options)


def make(
    name: str, *, num_envs: int, seed: int, threads: int, options: Mapping[str, Any], show: Show = None
) -> GymnasiumVector:
    """`num_envs` copies of the level `name`, stepped one after another. Raises as `check`, and EnvironmentFailed."""
    level, parsed = check(name, options)
    instructed = parsed.instruction == "on" or (parsed.instruction == "auto" and gives_instructions(level))
    vector = GymnasiumVector(
        name, partial(_Level, level, parsed, instructed=instructed), num_envs=num_envs, seed=seed,
        keeps_endings=show is not None, layout=_with_words(parsed) if instructed else None)
    vector.spec = replace(vector.spec, frames_per_step=parsed.frame_skip)
    return vector


def _open(level: str, options: DmlabOptions, *, instructed: bool) -> Any:
    """A `deepmind_lab.Lab`."""
    import deepmind_lab

    if options.runfiles:
        deepmind_lab.set_runfiles_path(options.runfiles)
    config = {"width": str(options.width), "height": str(options.height), "logLevel": "WARN"}
    if options.evaluation or is_held_out(level):
        config["allowHoldOutLevels"] = "true"
    if options.evaluation:
        config["mixerSeed"] = str(_EVALUATION_SEED)
    if options.dataset:
        config["datasetPath"] = options.dataset
    observations = ["RGB_INTERLEAVED", "INSTR"] if instructed else ["RGB_INTERLEAVED"]
    cache = LevelCache(Path(options.level_cache).expanduser()) if options.level_cache else None
    return deepmind_lab.Lab(level, observations, config=config, renderer=options.renderer, level_cache=cache)


def _action_arrays(action_spec: list[dict[str, Any]]) -> list[Array]:
    """SEED's actions as arrays of the package's `action_spec`. Raises KeyError for an entry that it lacks."""
    positions = {entry["name"]: position for position, entry in enumerate(action_spec)}
    arrays = []
    for action in ACTIONS.values():
        arrays.append(np.zeros(len(positions), np.intc))
        for name, value in action.items():
            arrays[-1][positions[name]] = value
    return arrays


def _shape(options: DmlabOptions) -> tuple[int, int, int]:
    """Of a screen."""
    return options.height, options.width, 3


def _with_words(options: DmlabOptions) -> Layout:
    """The layout of a screen and the bits of its level's words."""
    screen = image_member("image", ("image",), _shape(options), np.dtype(np.uint8), binary=False)
    words = Part("instruction", (WORDS * BITS,), "bits")
    return packed((screen, Member(("instruction",), words, (words.wire_bytes,), np.dtype(np.uint8), None)))


class _Level:
    """A level with the methods of a gymnasium.Env, for GymnasiumVector."""

    action_names = tuple(ACTIONS)

    def __init__(self, level: str, options: DmlabOptions, *, instructed: bool) -> None:
        from gymnasium.spaces import Box, Discrete

        self._lab = _open(level, options, instructed=instructed)
        self._actions = _action_arrays(self._lab.action_spec())
        self._skip, self._instructed = options.frame_skip, instructed
        self._seeds = np.random.default_rng()
        self._seen: Any = None  # the last observation
        self.observation_space = Box(0, 255, _shape(options), np.uint8)  # of the screen; `_with_words` adds the words
        self.action_space = Discrete(len(ACTIONS))
        self.metadata = {"render_fps": FRAMES_PER_SECOND / options.frame_skip}

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode; each has a seed of its own, drawn from `seed` on."""
        if seed is not None:
            self._seeds = np.random.default_rng(seed)
        self._lab.reset(seed=int(self._seeds.integers(2**31)))
        return self._observed(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Holds `action` for its frames."""
        reward = self._lab.step(self._actions[action], num_steps=self._skip)
        running = self._lab.is_running()
        return self._observed() if running else self._seen, reward, not running, False, {}

    def close(self) -> None:
        """Closes the package's level."""
        self._lab.close()

    def _observed(self) -> Any:
        """The screen, with the words where they are observed."""
        observations = self._lab.observations()
        screen = observations["RGB_INTERLEAVED"]
        self._seen = ({"image": screen, "instruction": words_as_bits(observations["INSTR"])} if self._instructed
                      else screen)
        return self._seen
