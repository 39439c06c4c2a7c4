"""Groups of environments that wait for actions, joined to one batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.learner.inference.batcher import Request
from workbench.trajectory import Array, EnvironmentSpec, Flags


@dataclass
class Gathered:
    """A batch of groups as single arrays [N, ...]; finals [K, ...] are of rows `final_rows` of the batch."""

    env_ids: Array
    observation: Array
    reward: Array
    flags: Array
    final_rows: Array
    final_observation: Array
    score: Array

    @classmethod
    def of(cls, requests: list[Request], spec: EnvironmentSpec) -> Gathered:
        """The groups' arrays, one after the other; the score is the reward where there is no other."""
        steps = [request.message.step for request in requests]
        offsets = np.cumsum([0, *(request.size for request in requests)])
        finals = [step.final_observation for step in steps if step.final_observation is not None]
        reward = np.concatenate([step.reward for step in steps])
        return cls(
            np.concatenate([request.env_ids for request in requests]),
            np.concatenate([step.observation for step in steps]),
            reward,
            np.concatenate([step.flags for step in steps]),
            np.concatenate([step.final_index + at for step, at in zip(steps, offsets, strict=False)]),
            np.concatenate([*finals, np.zeros((0, *spec.observation_shape), spec.observation_dtype)]),
            np.concatenate([step.score for step in steps if step.score is not None]) if spec.scored else reward,
        )

    @property
    def start(self) -> Array:
        """bool [N]: where an episode begins."""
        begins: Array = (self.flags & Flags.START) != 0
        return begins

    def only(self, rows: Array) -> Gathered:
        """The rows where the mask `rows` is set."""
        place, finals = np.cumsum(rows) - 1, rows[self.final_rows]
        return Gathered(
            self.env_ids[rows], self.observation[rows], self.reward[rows], self.flags[rows],
            place[self.final_rows[finals]], self.final_observation[finals], self.score[rows],
        )
