"""Atari through ale-py's native vector environment: one C++ call steps N games.

Standard preprocessing (Mnih et al. 2015; Machado et al. 2018, arXiv 1709.06009): 4 frames per step, pixel-wise maximum
of the last two raw frames, 84x84 grey by area resampling, up to 30 no-ops after a reset, FIRE pressed once before them
where the game has it. One frame [1, 84, 84] travels; the learner joins `frame_stack` of them.

Differences from ale-py's own defaults, each the result of an experiment, and tested:
- Time limits are counted here. At its own limit ale-py leaves the skip loop before it reads the screen, so its
  `final_obs` is not the last frame; this module returns the true one, and resets by mask.
- Life loss is read from the lives: ale-py's `episodic_life` restarts the whole game on every life.
- `noop_max` is inclusive, as in the literature; ale-py's is exclusive, and counts the press of FIRE as one. So where
  FIRE is pressed, none is drawn twice as often as each other number.
- Rewards are not clipped: the learner clips, so returns are those of the game.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from workbench.config import setting, settings
from workbench.config.settings import check_known, validate
from workbench.environment_spec import EnvironmentSpec
from workbench.environments.atari.colour_screens import ColourScreens, screen_size
from workbench.environments.contract import Array, Ending, Show, WithEndings, checked_actions, first_step, seeds_of
from workbench.environments.observations import picture_of
from workbench.errors import InvalidInput
from workbench.trajectory import CUT_OFF_FLAGS, ENDED_FLAGS, Flags, StepBatch

FRAMES_PER_STEP = 4
FRAME_STACK = 4  # Mnih et al. 2015
SCREEN = (84, 84)
RAW_FRAMES_PER_SECOND = 60  # NTSC
_NO_NATIVE_LIMIT = 2**30  # frames
_KEEP_SEED = -1  # of ale-py: resets without a new seed


@dataclass(frozen=True)
class AtariOptions:
    """Options of an Atari environment. Defaults follow the id's registration: `ALE/*-v5` has sticky actions."""

    repeat_action_probability: float = setting(
        0.25, "probability that a frame repeats the last action (sticky actions)", low=0.0, high=1.0,
        source="Machado et al. 2018, table 5; gymnasium's ALE/*-v5")
    full_action_space: bool = setting(False, "all 18 actions instead of the game's minimal set")
    life_loss: bool = setting(False, "a lost life ends learning's discount; the game and its return go on",
                              source="Mnih et al. 2015")
    noop_max: int = setting(30, "most no-ops after a reset (drawn uniformly from 0; where FIRE is pressed, 0 comes "
                            "twice as often as each other number)", unit="frames", low=0, high=1000,
                            source="Mnih et al. 2015")
    max_frames_per_episode: int = setting(108_000, "time limit of a game, no-ops not counted", unit="frames",
                                          low=FRAMES_PER_STEP, high=10**9, source="ALE/*-v5; 30 minutes at 60 Hz")
    use_fire_reset: bool = setting(True, "press FIRE after a reset where the game has it", source="Baselines")

    def __post_init__(self) -> None:
        validate(self)


def is_playable(registered: dict[str, Any]) -> bool:
    """Whether an id with these registered keyword arguments skips a fixed number of frames."""
    return registered.get("frameskip") in (1, FRAMES_PER_STEP)


def atari_options(registered: dict[str, Any], options: dict[str, Any]) -> AtariOptions:
    """`options` as AtariOptions, with the id's registered keyword arguments as defaults.

    Raises UnknownName for an option that does not exist, OutOfBounds for its value, and InvalidInput for an id whose
    frame skip is random (the old `Pong-v0`, `Pong-v4`).
    """
    check_known(AtariOptions, options, "Atari option")
    if not is_playable(registered):
        raise InvalidInput(
            f"this id of {registered.get('game')} skips a random number of frames; use an id that starts with ALE/."
        )
    names = settings(AtariOptions)
    return AtariOptions(**{**{name: value for name, value in registered.items() if name in names}, **options})


class AtariVector(WithEndings):
    """N games of one Atari ROM, stepped by `threads` native threads. See `contract.VectorEnvironment`.

    Args:
        show: "endings": `ending` returns how games ended; "frames": `render` also returns the colour screen in full
            size, at about 1 ms a step and game.
    """

    fps = RAW_FRAMES_PER_SECOND / FRAMES_PER_STEP

    def __init__(
        self, name: str, game: str, *, num_envs: int, seed: int, threads: int, options: AtariOptions,
        show: Show,
    ) -> None:
        build = partial(_native, game, num_envs=num_envs, threads=threads, options=options)
        self._native: Any = build(img_height=SCREEN[0], img_width=SCREEN[1], grayscale=True)
        self._screens = ColourScreens(build, name=name, size=screen_size(game)) if show == "frames" else None
        super().__init__(keeps_endings=show is not None)
        self.num_envs = num_envs
        self.spec = EnvironmentSpec(
            name, (1, *SCREEN), "uint8", int(self._native.single_action_space.n), FRAME_STACK, FRAMES_PER_STEP)
        self._options = options
        self._limit_steps = options.max_frames_per_episode // FRAMES_PER_STEP
        self._seed = seed
        self._steps = np.zeros(num_envs, np.int64)  # of the episode
        self._lives = np.zeros(num_envs, np.int64)
        self._observation: Array | None = None  # the last one

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the actions, in the order of their numbers: NOOP, FIRE, ..."""
        return tuple(action.name for action in self._native.ale.get_action_set())

    def reset(self, *, seed: int | None = None) -> StepBatch:
        """Returns the first step of a new game everywhere."""
        seeds = seeds_of(self._seed if seed is None else seed, self.num_envs)
        observation, info = self._native.reset(seed=seeds)
        self._steps[:] = 0
        self._lives, self._observation = info["lives"], observation
        if self._screens is not None:
            self._screens.reset(seeds, observation)
        self._endings = {}
        return first_step(observation)

    def step(self, actions: Array) -> StepBatch:
        """Returns the step after `actions`: FRAMES_PER_STEP frames, fewer if the game ended."""
        actions = checked_actions(actions, self.spec, self.num_envs)
        observation, reward, over, _, info = self._native.step(actions)
        flags = over * ENDED_FLAGS
        lives = info["lives"]
        if self._options.life_loss:  # Qbert stays at 0 lives for some frames before it is over
            flags |= ((lives < self._lives) & (lives > 0) & ~over) * np.uint8(Flags.LIFE_LOST)
        self._lives, self._observation = lives, observation
        self._steps += 1
        self._steps[over] = 0
        if self._screens is not None:
            self._screens.step(actions, grey=observation, reward=reward, over=over, lives=lives)
        if self.keeps_endings:
            self._endings = {index: self._ending(index, info["final_obs"]) for index in np.flatnonzero(over).tolist()}
        batch = StepBatch(observation, reward.astype(np.float32), flags)
        if self._steps.max() >= self._limit_steps:
            self._truncate(batch, self._steps >= self._limit_steps)
        return batch

    def _truncate(self, batch: StepBatch, late: Array) -> None:
        """Cuts off the games in the mask `late`, in place: their last frames become final, new games start."""
        batch.final_index = np.flatnonzero(late).astype(np.int32)
        final = batch.observation.copy()
        batch.final_observation = final[late]
        keep = np.full(len(batch.final_index), _KEEP_SEED)
        observation, info = self._native.reset(seed=keep, options={"reset_mask": late})
        batch.observation[late] = observation[late]
        if self._screens is not None:
            self._screens.reset(keep, batch.observation, mask=late)
        if self.keeps_endings:
            self._endings |= {index: self._ending(index, final) for index in batch.final_index.tolist()}
        batch.flags[late] = CUT_OFF_FLAGS
        self._lives = info["lives"]
        self._steps[late] = 0

    def render(self, index: int) -> Array | None:
        """The screen of game `index`.

        With `show` "frames" in colour, uint8 [210, 160, 3] (a few games are taller); otherwise its last observation as
        grey RGB, uint8 [84, 84, 3].
        """
        if self._screens is not None and self._screens.frames is not None:
            frame: Array = self._screens.frames[index]
            return frame
        return None if self._observation is None else picture_of(self._observation[index], self.spec)

    def _ending(self, index: int, observations: Array) -> Ending:
        finals = None if self._screens is None else self._screens.finals
        observation = observations[index].copy()
        return Ending(observation, picture_of(observation, self.spec) if finals is None else finals[index])

    def close(self) -> None:
        """Ends the native threads: ale-py's destructor joins them."""
        self._native = self._screens = None


def _native(game: str, *, num_envs: int, threads: int, options: AtariOptions, **screen: Any) -> Any:
    from ale_py.vector_env import AtariVectorEnv

    fires = options.use_fire_reset and options.noop_max > 0 and _has_fire(game, options.full_action_space)
    return AtariVectorEnv(
        game, num_envs, num_threads=threads, autoreset_mode="SameStep", stack_num=1, frameskip=FRAMES_PER_STEP,
        maxpool=True, reward_clipping=False,
        noop_max=options.noop_max + 1 + fires, use_fire_reset=options.use_fire_reset,
        max_num_frames_per_episode=_NO_NATIVE_LIMIT, full_action_space=options.full_action_space,
        repeat_action_probability=options.repeat_action_probability, **screen)  # fmt: skip


@lru_cache
def _has_fire(game: str, full_action_space: bool) -> bool:
    """Whether FIRE is among a game's actions."""
    from ale_py.vector_env import AtariVectorEnv

    actions = AtariVectorEnv(game, 1, full_action_space=full_action_space).ale.get_action_set()
    return any(action.name == "FIRE" for action in actions)
