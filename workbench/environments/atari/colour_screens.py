"""Atari's colour screen in full size: a second set of the same games, played in lock-step with the first.

ale-py's vector returns either the learner's small grey frames or colour, never both. The same seeds and actions give
the same games, sticky actions included, so the second set gets the seeds and actions of the first, and every step
compares the two. The frame is the maximum of the last two raw ones, as the learner's is, so that sprites drawn every
other frame don't blink.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.environments.contract import Array
from workbench.environments.observations import area_matrix
from workbench.errors import EnvironmentFailed

_LUMINANCE = np.array([0.2989, 0.587, 0.114], np.float32)  # ale-py's, to within half a grey level
# The grey frame is never brighter than the colour one: ale-py takes the maximum over two raw frames of grey values, and
# of each colour here. Measured over 7 games: at most 1 brighter in the same game, 40 to 200 in others of the same ROM.
_TOLERANCE = 10.0
_COMPARED = 210  # height of compared screens: ale-py's colours and greys of taller ones may not match (AirRaid's)


class ColourScreens:
    """The colour screens of N games of one ROM. Raises EnvironmentFailed if they differ from the grey ones.

    Args:
        build: makes the native vector; takes the keyword arguments of its screen.
        size: height and width of the raw screen.
    """

    def __init__(self, build: Callable[..., Any], *, name: str, size: tuple[int, int]) -> None:
        self._native = build(img_height=size[0], img_width=size[1], grayscale=False)
        self._name = name
        self._shrink: tuple[Array, Array] | None = None
        self.frames: Array | None = None  # uint8 [N, H, W, 3]
        self.finals: Array | None = None  # the same, of the games that ended in the last step

    def reset(self, seeds: Array, grey: Array, *, mask: Array | None = None) -> None:
        """Resets as the first set did (where `mask`), whose observations are now `grey`."""
        options = {} if mask is None else {"options": {"reset_mask": mask}}
        frames = self._native.reset(seed=seeds, **options)[0][:, 0]
        self.finals = self.frames
        self.frames = frames if mask is None or self.frames is None else np.where(
            mask[:, None, None, None], frames, self.frames)
        self._compare(grey)

    def step(self, actions: Array, *, grey: Array, reward: Array, over: Array, lives: Array) -> None:
        """Steps as the first set did, which returned the other arguments."""
        frames, own_reward, own_over, _, info = self._native.step(actions)
        self.frames = frames[:, 0]
        self.finals = info["final_obs"][:, 0] if own_over.any() else None
        for what, colour_value, grey_value in (("rewards", own_reward, reward), ("ends", own_over, over),
                                               ("lives", info["lives"], lives)):
            if not np.array_equal(colour_value, grey_value):
                raise self._difference(f"{what} {colour_value.tolist()} and {grey_value.tolist()}")
        self._compare(grey)

    def _compare(self, grey: Array) -> None:
        assert self.frames is not None
        height, width = self.frames.shape[1:3]
        if height != _COMPARED:
            return  # only rewards, ends and lives are compared
        if self._shrink is None:
            self._shrink = area_matrix(height, grey.shape[-2]), area_matrix(width, grey.shape[-1]).T
        down, across = self._shrink
        too_bright = grey[:, 0] - down @ (self.frames @ _LUMINANCE) @ across
        if too_bright.max() > _TOLERANCE:
            raise self._difference(f"a grey pixel that is {too_bright.max():.0f} brighter than the colour one")

    def _difference(self, what: str) -> EnvironmentFailed:
        return EnvironmentFailed(f"{self._name}: the game in colour parted from the one that is played: {what}. Roll "
                                 "out without it: render=False. Please report it with your version of ale-py.")


def screen_size(game: str) -> tuple[int, int]:
    """Height and width of a ROM's screen: 210 x 160; a few are taller."""
    import ale_py
    from ale_py import roms

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    emulator = ale_py.ALEInterface()
    emulator.loadROM(roms.get_rom_path(game))
    height, width = emulator.getScreenDims()
    return int(height), int(width)
