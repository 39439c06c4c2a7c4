"""The last steps of a watched environment, with the network's output for each.

While somebody watches, the inference thread calls `Tap.record`, and copies only the rows of watched environments. Other
threads ask for new steps (`Tap.since`). Watching ends by itself when the questions cease. No thread waits for another:
the steps are in a deque, to which appending is one operation, as is copying it.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import nan
from typing import Any

import numpy as np
import torch

from workbench.algorithms import Algorithm, NetworkOutput
from workbench.errors import InvalidInput
from workbench.learner.inference.wall_tap import LINGER_S, MOST_BYTES
from workbench.trajectory import Array
from workbench.wire import columns

MOST_WATCHED = 4
MOST_STEPS = 512


@dataclass(frozen=True)
class WatchedStep:
    """A step of a watched environment, with the time indices of `trajectory`; episode_return up to x_t.

    Attributes:
        number: of the step since watching began.
        time_s: when it was answered, on the learner's clock.
        kind: see `Outlook`.
        state_norm: L2 norm of the recurrent state after x_t; NaN without a recurrent state.
    """

    number: int
    time_s: float
    observation: Array
    reward: float
    flags: int
    action: Array
    episode_return: float
    episode_step: int
    policy_version: int
    kind: str
    scores: list[float]
    value: float
    state_norm: float


@dataclass
class _Ring:
    """The last steps of one environment while it is watched."""

    life: str
    most: int
    asked_at: float  # time.monotonic()
    steps: deque[WatchedStep] = field(init=False)
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.steps = deque(maxlen=self.most)


class Tap:
    """The watched environments of a learner."""

    def __init__(self, *, linger_s: float = LINGER_S) -> None:
        self._linger_s = linger_s
        self._rings: dict[int, _Ring] = {}
        self._opening = threading.Lock()
        self._born = time.time_ns()
        self._lives = itertools.count()

    @property
    def watched(self) -> Sequence[int]:
        """The environments that are watched now."""
        return list(self._rings)

    def rows(self, env_ids: Array) -> list[tuple[int, int]]:
        """(row, environment) for each watched environment of a batch; ends watching where no question came lately."""
        now = time.monotonic()
        rows = []
        for env_id, ring in list(self._rings.items()):
            if now - ring.asked_at > self._linger_s:
                self._rings.pop(env_id, None)
            else:
                rows += [(int(row), env_id) for row in np.flatnonzero(env_ids == env_id)]
        return rows

    def record(self, env_id: int, **fields: Any) -> None:
        """Add a step: the fields of `WatchedStep` except number and time. Called by the inference thread."""
        ring = self._rings.get(env_id)
        if ring is not None:
            ring.steps.append(WatchedStep(next(ring.numbers), time.time(), **fields))

    def since(self, env_id: int, cursor: str = "", *, observation_bytes: int) -> dict[str, Any]:
        """The new steps since the answer with this cursor; "": all that are kept. Begins to watch.

        Returns:
            cursor: for the next question. first: number of the first step here; missed: steps since the last answer
            that were dropped already. kind: see `Outlook`. columns and packed: see `wire.columns.sent`.
        """
        ring = self._ring(env_id, observation_bytes)
        life, _, number = cursor.partition(":")
        next_number = int(number) if life == ring.life else 0
        steps = [step for step in ring.steps.copy() if step.number >= next_number]
        if not steps:
            return {"cursor": f"{ring.life}:{next_number}", "first": next_number, "missed": 0, "steps": 0}
        return {
            "cursor": f"{ring.life}:{steps[-1].number + 1}", "first": steps[0].number, "kind": steps[0].kind,
            "missed": steps[0].number - next_number, "steps": len(steps), **columns.sent(_columns(steps)),
        }

    def _ring(self, env_id: int, observation_bytes: int) -> _Ring:
        """The environment's ring, kept for another `linger_s`; a new one if it was not watched. Raises InvalidInput."""
        now = time.monotonic()
        with self._opening:  # never taken by the inference thread
            ring = self._rings.get(env_id)
            if ring is None:
                watched = [other for other, ring in list(self._rings.items()) if now - ring.asked_at <= self._linger_s]
                if len(watched) >= MOST_WATCHED:
                    raise InvalidInput(
                        f"env={env_id}: {MOST_WATCHED} environments of this run are watched already "
                        f"({', '.join(map(str, sorted(watched)))}). Close one of those views first."
                    )
                most = max(1, min(MOST_STEPS, MOST_BYTES // observation_bytes))
                ring = self._rings[env_id] = _Ring(f"{self._born:x}-{next(self._lives)}", most, now)
            ring.asked_at = now
            return ring


def _columns(steps: Sequence[WatchedStep]) -> dict[str, Array]:
    """Steps as columns, each [steps, ...]."""
    kinds = {
        "time_s": "f8", "reward": "f4", "flags": "u1", "episode_return": "f8", "episode_step": "i4",
        "policy_version": "i4", "value": "f4", "state_norm": "f4",
    }
    actions = np.stack([step.action for step in steps])
    return {
        **{name: np.array([getattr(step, name) for step in steps], kind) for name, kind in kinds.items()},
        "action": actions if actions.dtype.kind == "f" else actions.astype(np.int32),
        "scores": np.array([step.scores for step in steps], np.float32),
        "observation": np.stack([step.observation for step in steps]),
    }


def thought(
    output: NetworkOutput, state: tuple[torch.Tensor, ...], row: int, *, algorithm: Algorithm, config: Any
) -> dict[str, Any]:
    """The network's scores and value for one row of a batch (an output of T=1), and the norm of its recurrent state."""
    row_output = type(output)(*(tensor[:, row : row + 1] for tensor in output))
    view = algorithm.outlook(row_output, config=config)
    norm = torch.cat([part[row].float().flatten() for part in state]).norm() if state else view.value.new_tensor(nan)
    *scores, value, state_norm = torch.cat([view.scores.flatten(), view.value.flatten(), norm[None]]).tolist()
    return {"kind": view.kind, "scores": scores, "value": value, "state_norm": state_norm}
