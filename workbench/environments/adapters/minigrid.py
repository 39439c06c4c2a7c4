"""MiniGrid's symbolic view as planes of bits, for a convolution.

MiniGrid gives the object (11), colour (6) and state (3) of each cell in the agent's view as numbers
(`minigrid.core.constants`). Categories are no image, so each category becomes a plane:

    planes       hold 255 where
    0 to 10      unseen, empty, wall, floor, door, key, ball, box, goal, lava, agent
    11 to 16     red, green, blue, purple, yellow, grey
    17 to 19     open, closed, locked

The planes are [20, V, V], rows from top to bottom as in a picture of the view: the agent stands in the middle of the
lowest row and looks up. V is 7 unless `agent_view_size` is given. The agent's direction is a one-hot beside them; the
mission is words, and left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.environment_spec import Part
from workbench.environments.adapters.spaces import Layout, Member, packed
from workbench.environments.adapters.spaces import layout_of as layout_of_space
from workbench.environments.contract import Array

CHOICES = (11, 6, 3)  # objects, colours, states


def is_minigrid(env: Any) -> bool:
    """Whether the bare environment is MiniGrid's or BabyAI's."""
    return any((cls.__module__, cls.__name__) == ("minigrid.minigrid_env", "MiniGridEnv")
               for cls in type(getattr(env, "unwrapped", env)).__mro__)


def layout_of(env: Any, name: str) -> Layout | None:
    """The layout with planes, if `env` has MiniGrid's own observations or the view alone (`ImgObsWrapper`).

    None if a wrapper changes them.
    """
    if not is_minigrid(env):
        return None
    space, own = env.observation_space, env.unwrapped.observation_space
    alone = space == own["image"]
    if (space != own and not alone) or _shows_the_grid(env):
        return None
    view = own["image"].shape[0]
    planes = Member(() if alone else ("image",), Part("" if alone else "image", (sum(CHOICES), view, view), "bits"),
                    (view, view, len(CHOICES)), np.dtype(np.uint8), PackedPlanes(view))
    if alone:
        return packed((planes,))
    plain = layout_of_space(space, name)
    others = (member for member in plain.members if member.path != ("image",))
    return packed((planes, *others), left_out=plain.left_out)


def _shows_the_grid(env: Any) -> bool:
    """Whether one of MiniGrid's wrappers shows the whole grid, which on a level of 7x7 cells is as large as the view.
    """
    while env is not env.unwrapped:
        if (type(env).__module__, type(env).__name__) == ("minigrid.wrappers", "FullyObsWrapper"):
            return True
        env = env.env
    return False


def action_names(env: Any) -> tuple[str, ...]:
    """left, right, forward, pickup, drop, toggle, done, as many as `env` takes; () if it is not MiniGrid's."""
    if not is_minigrid(env) or env.action_space != env.unwrapped.action_space:
        return ()
    return tuple(action.name for action in env.unwrapped.actions)[: env.action_space.n]


class PackedPlanes:
    """From symbolic views uint8 [..., V (x), V (y), 3] to their planes [20, V (y), V (x)], packed: [..., bytes].

    Many views at once take hardly longer than one. Raises ValueError for a number that is no category.
    """

    def __init__(self, view: int) -> None:
        self._view = view
        self._kind = np.repeat(np.arange(len(CHOICES)), CHOICES)  # of each plane
        self._number = np.concatenate([np.arange(choices) for choices in CHOICES]).astype(np.uint8)[:, None]

    def __call__(self, views: Array) -> Array:
        kinds = views.reshape(-1, self._view, self._view, len(CHOICES)).transpose(3, 0, 2, 1).reshape(len(CHOICES), -1)
        planes = kinds.take(self._kind, 0) == self._number  # [20, N * cells]
        if np.count_nonzero(planes) != views.size:  # each number lights one bit
            raise ValueError(_unknown(views))
        rows = planes.reshape(len(planes), -1, self._view**2).transpose(1, 0, 2)
        bits: Array = np.packbits(rows.reshape(len(rows), -1), axis=-1)
        return bits.reshape(*views.shape[:-3], -1)


def _unknown(views: Array) -> str:
    """The message about a number that is no category."""
    largest = views.reshape(-1, len(CHOICES)).max(0).tolist()
    kind = next(kind for kind, choices in enumerate(CHOICES) if largest[kind] >= choices)
    title = ("object", "colour", "state")[kind]
    return f"observation 'image' has {largest[kind]} as its {title}; there are {CHOICES[kind]}"
