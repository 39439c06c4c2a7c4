"""A game at one moment: its state, its picture and the agent's advice."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from workbench.environment_spec import EnvironmentSpec
from workbench.environments.observations import Observation, decode

Action = int | list[int] | list[float]

PERSON, AGENT = "person", "agent"  # who plays


@dataclass(frozen=True)
class Advice:
    """The agent's output for x_t, before an action.

    Attributes:
        kind: of the scores: "probability", "q_value" or "mean", see `algorithms.Outlook`.
        scores: of each action, or of each part of an action.
        action: the agent's choice.
        value: the expected discounted sum of rewards, in the units of training.
    """

    kind: str
    scores: tuple[float, ...]
    action: Action
    value: float


@dataclass(frozen=True)
class Moment:
    """The state of a game: x_t, and the step that led to it.

    Attributes:
        episode: number of the episode, from 0; seed: of the episode.
        step, frames: agent decisions, and emulator frames, since it began.
        reward: of the last step; episode_return: the sum of all rewards; score, episode_score: the same for the
            environment's own score if the reward is shaped; else None.
        action, by: the last action and who chose it ("person" or "agent"); None and "" before the first.
        by_person: number of steps that the person chose.
        over: "terminated", "truncated", "failed" (an error of the environment), or "" during the episode.
        failure: the first line of that error, or "".
        playing: who has the controls; running: whether time passes by itself; turns: only when the agent plays.
        rate: steps per second at which time passes.
        kept: folder of the rollout, once the episode is stored.
        picture: the frame as a PNG or JPEG file (`mime`); b"" if nothing is drawn.
        observation: x_t as a network sees it, without the frames before it: an array, or a dict of its parts by name.
    """

    episode: int
    seed: int
    step: int
    frames: int
    reward: float
    episode_return: float
    score: float | None
    episode_score: float | None
    action: Action | None
    by: str
    by_person: int
    over: str
    failure: str
    advice: Advice | None
    playing: str
    running: bool
    turns: bool
    rate: float
    kept: Path | None
    picture: bytes = field(default=b"", repr=False)
    mime: str = ""
    observation: Observation = field(default_factory=lambda: np.zeros(0), repr=False, compare=False)

    @classmethod
    def of(cls, message: Mapping[str, Any], picture: bytes, *, spec: EnvironmentSpec) -> Moment:
        """The moment that a message of `playing.worker.game_server` describes, in a game of `spec`."""
        state = dict(message["state"])
        advice = state.pop("advice")
        parsed_advice = None if advice is None else Advice(
            advice["kind"], tuple(advice["scores"]), advice["action"], advice["value"])
        folder, _ = state.pop("kept"), state.pop("observation")  # the numbers that a page draws
        row = np.frombuffer(base64.b64decode(message["seen"]), spec.observation_dtype)
        rows = row.reshape(1, *spec.observation_shape).copy()  # to write in
        seen = decode(rows, spec.parts)
        observation = {name: one[0] for name, one in seen.items()} if isinstance(seen, dict) else seen[0]
        return cls(**state, advice=parsed_advice, kept=Path(folder) if folder else None, picture=picture,
                   mime=message["mime"], observation=observation)
