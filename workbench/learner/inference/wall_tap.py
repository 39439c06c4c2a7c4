"""The newest step of each environment of a wall: what it sees, its action and its return so far, a few times a second.

While somebody asks, the inference thread copies one row of each requested environment in each round of ROUND_S; between
two rounds it looks at the clock and copies nothing. Unlike `watch_tap`, which keeps each step of a few environments, it
runs no code on the network's output.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.trajectory import Array
from workbench.wire import columns

LINGER_S = 6.0  # after the last question
ROUND_S = 0.4
MOST_BYTES = 8 * 2**20  # of an answer before compression
_LARGEST = 96  # pixels of a picture's side; a larger one loses rows and columns here


class Glance(NamedTuple):
    """A step of one environment, with the time indices of `trajectory`; episode_return up to x_t."""

    number: int
    observation: Array
    action: Array
    episode_return: float
    episode_step: int


class WallTap:
    """The newest steps of a learner's environments."""

    def __init__(self) -> None:
        self._life = f"{time.time_ns():x}"
        self._asked_at: dict[int, float] = {}  # of each environment that somebody asked for, on the monotonic clock
        self._missing: set[int] = set()  # of this round
        self._glances: dict[int, Glance] = {}
        self._round_at = -ROUND_S
        self._number = 0

    def due(self, env_ids: Array) -> list[int]:
        """The rows of a batch to record now. Called by the inference thread, as is `record`."""
        if not self._asked_at:
            return []
        now = time.monotonic()
        if now >= self._round_at + ROUND_S:
            self._round_at = now
            self._begin_round(now)
        if not self._missing:
            return []
        return [row for row, env_id in enumerate(env_ids.tolist()) if env_id in self._missing]

    def _begin_round(self, now: float) -> None:
        asked = list(self._asked_at.items())
        self._missing = {env_id for env_id, asked_at in asked if now - asked_at <= LINGER_S}
        for env_id in {env_id for env_id, _ in asked} - self._missing:
            self._asked_at.pop(env_id, None)
            self._glances.pop(env_id, None)

    def record(self, env_ids: Iterable[int], *, observations: Array, actions: Array, returns: Array,
               lengths: Array) -> None:
        """Keep a step of each of `env_ids`; the arrays have one row for each."""
        for row, env_id in enumerate(env_ids):
            self._number += 1
            glance = Glance(self._number, _small(observations[row]), actions[row].copy(), float(returns[row]),
                            int(lengths[row]))
            self._glances[env_id] = glance
            self._missing.discard(env_id)

    def since(self, env_ids: Sequence[int], cursor: str) -> dict[str, Any]:
        """The newest step of each of `env_ids` that came after the answer with this cursor, "" at first.

        Returns:
            cursor: for the next question. envs: those that have a new step. columns, packed: their steps, see
            `wire.columns.sent`; without them if there is none.
        """
        self._asked_at.update(dict.fromkeys(env_ids, time.monotonic()))
        life, _, number = cursor.partition(":")
        last = int(number) if life == self._life else 0
        glances = dict(self._glances)
        new = [(env, glances[env]) for env in env_ids if env in glances and glances[env].number > last]
        if not new:
            return {"cursor": f"{self._life}:{last}", "envs": []}
        most = max(1, MOST_BYTES // max(1, new[0][1].observation.nbytes))
        new = sorted(new, key=lambda pair: pair[1].number)[:most]  # the oldest first: the rest comes with the next one
        return {"cursor": f"{self._life}:{new[-1][1].number}", "envs": [env for env, _ in new],
                **columns.sent(_columns([glance for _, glance in new]))}


def _small(observation: Array) -> Array:
    """A copy of an observation; of a large picture [channels, height, width], every second row and column or fewer."""
    if observation.ndim != 3:
        return observation.copy()
    stride = -(-max(observation.shape[1:]) // _LARGEST)
    return observation[:, ::stride, ::stride].copy()


def _columns(glances: Sequence[Glance]) -> dict[str, Array]:
    """Steps as columns, each [steps, ...]."""
    actions = np.stack([glance.action for glance in glances])
    return {
        "episode_return": np.array([glance.episode_return for glance in glances], "f8"),
        "episode_step": np.array([glance.episode_step for glance in glances], "i4"),
        "action": actions if actions.dtype.kind == "f" else actions.astype(np.int32),
        "observation": np.stack([glance.observation for glance in glances]),
    }
