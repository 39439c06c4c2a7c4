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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from workbench.config import setting
from workbench.config.settings import check_known, validate
from workbench.environment_spec import EnvironmentSpec, Part
from workbench.environments.adapters.guarded_calls import broken, called, close_all, raised
from workbench.environments.contract import Array, Ending, Show, WithEndings, checked_actions, first_step, seeds_of
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
from workbench.trajectory import ENDED_FLAGS, StepBatch

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
) -> DmlabVector:
    """`num_envs` copies of the level `name`. Raises as `check`, and EnvironmentFailed."""
    level, parsed = check(name, options)
    return DmlabVector(name, level, num_envs=num_envs, seed=seed, options=parsed, show=show)


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


class DmlabVector(WithEndings):
    """N copies of one level, stepped one after another. See `contract.VectorEnvironment`.

    Raises EnvironmentFailed if one fails.
    """

    def __init__(
        self, name: str, level: str, *, num_envs: int, seed: int, options: DmlabOptions, show: Show
    ) -> None:
        self.num_envs = num_envs
        self.fps = FRAMES_PER_SECOND / options.frame_skip
        self._name, self._seed, self._skip = name, seed, options.frame_skip
        self._instructed = options.instruction == "on" or (options.instruction == "auto" and gives_instructions(level))
        super().__init__(keeps_endings=show is not None)
        self._labs: list[Any] = []
        try:
            for index in range(num_envs):
                self._labs.append(called(name, index, "constructor", _open, level, options,
                                         instructed=self._instructed))
            self._actions: list[Array] = called(
                name, 0, "action_spec", lambda: _action_arrays(self._labs[0].action_spec()))
        except BaseException:
            self.close()
            raise
        self._frame_shape = (options.height, options.width, 3)
        image = (3, options.height, options.width)
        self._seeds = [np.random.default_rng()] * num_envs
        if self._instructed:
            parts = (Part("image", image, "uint8"), Part("instruction", (WORDS * BITS,), "bits"))
            self.spec = EnvironmentSpec(name, (sum(part.wire_bytes for part in parts),), "uint8", len(ACTIONS),
                                        frames_per_step=self._skip, parts=parts)
        else:
            self.spec = EnvironmentSpec(name, image, "uint8", len(ACTIONS), frames_per_step=self._skip)
        self._frames = np.zeros((num_envs, *self._frame_shape), np.uint8)  # current screens
        self._observation = StepBatch.zeros(self.spec, num_envs).observation  # the last one

    @property
    def action_names(self) -> tuple[str, ...]:
        """SEED's nine."""
        return tuple(ACTIONS)

    def reset(self, *, seed: int | None = None) -> StepBatch:
        """Returns the first step of a new episode everywhere."""
        observation = StepBatch.zeros(self.spec, self.num_envs).observation
        self._endings = {}
        for index, env_seed in enumerate(seeds_of(self._seed if seed is None else seed, self.num_envs).tolist()):
            self._seeds[index] = np.random.default_rng(env_seed)
            called(self._name, index, "reset", self._begin, index, observation[index])
        self._observation = observation
        return first_step(observation)

    def step(self, actions: Array) -> StepBatch:
        """Returns the step after `actions`."""
        action_list = checked_actions(actions, self.spec, self.num_envs).tolist()
        before = self._observation
        batch = StepBatch.zeros(self.spec, self.num_envs)
        self._endings = {}
        for index, lab in enumerate(self._labs):
            try:
                batch.reward[index] = lab.step(self._actions[action_list[index]], num_steps=self._skip)
                running = lab.is_running()
            except Exception as error:
                raise raised(self._name, index, "step", error) from error
            if running:
                called(self._name, index, "observations", self._observe, index, batch.observation[index])
                continue
            batch.flags[index] = ENDED_FLAGS
            if self.keeps_endings:
                self._endings[index] = Ending(before[index].copy(), self._frames[index].copy())
            called(self._name, index, "reset", self._begin, index, batch.observation[index])
        if not np.isfinite(batch.reward).all():
            index = int(np.flatnonzero(~np.isfinite(batch.reward))[0])
            raise broken(self._name, index, "step", f"reward {batch.reward[index]} is not finite")
        self._observation = batch.observation
        return batch

    def render(self, index: int) -> Array | None:
        """The screen of level `index`, uint8 [height, width, 3]."""
        frame: Array = self._frames[index].copy()
        return frame

    def close(self) -> None:
        """Closes every level."""
        close_all(self._labs)

    def _begin(self, index: int, row: Array) -> None:
        """Starts the next episode of level `index`, and writes its first observation into `row`."""
        self._labs[index].reset(seed=int(self._seeds[index].integers(2**31)))
        self._observe(index, row)

    def _observe(self, index: int, row: Array) -> None:
        """Writes the screen and the words of level `index` into `row`."""
        observations = self._labs[index].observations()
        frame = observations["RGB_INTERLEAVED"]
        if frame.shape != self._frame_shape or frame.dtype != np.uint8:
            raise broken(self._name, index, "observations", f"RGB_INTERLEAVED must be uint8 {self._frame_shape}, not "
                                                            f"{frame.dtype} {frame.shape}")
        self._frames[index] = frame
        image = frame.transpose(2, 0, 1)
        if not self._instructed:
            row[...] = image
            return
        row[: image.size] = image.reshape(-1)
        row[image.size :] = words_as_bits(observations["INSTR"])
