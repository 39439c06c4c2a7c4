"""Plays a recorded episode again up to a step, and from there another future of it.

The environment and the policy start from the episode's seed, and the recorded actions lead to the step; so the
environment, the policy's memory and its random numbers are those of the record. Each observation and reward must be
the recorded one to the last bit, and each opinion to `_TOLERANCE`; otherwise the branch is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from workbench import checkpoints
from workbench.errors import EnvironmentFailed
from workbench.playing.observation_edit import Change, edited
from workbench.playing.rollout import Rollout, load
from workbench.playing.store import BranchPoint, RolloutWriter
from workbench.playing.store.stored_fields import OUTPUTS
from workbench.playing.worker.played_episode import opened, play, record_of, training_environment
from workbench.policies.player import Player, answer, load_player
from workbench.trajectory import Array, StepBatch

_TOLERANCE = 1e-3  # of opinions, relative and absolute: another processor rounds sums in another order
_OPINIONS = ("values", *OUTPUTS)


def _play_branch(
    checkpoint: str, trust_code: bool, episode: str, folder: str, frame: int, actions: list[Any],
    change: Change | None, hold: int, max_steps: int, words: str, code: str | None = None,
) -> dict[str, Any]:
    parent, source = load(Path(episode)), checkpoints.at(Path(checkpoint), trust_code=trust_code, code=code)
    seed, greedy = parent.seed, parent.greedy
    with ExitStack() as stack:
        stage = opened(
            lambda show: training_environment(source, seed=seed, show=show), seed=seed,
            render=parent.frames is not None)
        environment = stack.enter_context(closing(stage.environment))
        writer = stack.enter_context(RolloutWriter(Path(folder)))
        player = load_player(source, num_envs=environment.spec.agents, seed=seed)
        course = Branching(parent, frame, player, writer, actions=actions, change=change, hold=hold)
        flags = play(player, stage, writer, greedy=greedy, max_steps=max_steps, course=course)
        course.check_reached()
        point = BranchPoint(Path(episode).name, frame, course.forced, words)
        writer.finish({**record_of(stage, source, seed=seed, greedy=greedy, flags=flags), "max_steps": max_steps,
                       "note": parent.note if parent.frames is None else stage.note, "branch": point.to_json()})
    return {}


main = partial(answer, play=_play_branch)


class Branching:
    """Leads a player along a recorded episode to step `frame`, and then changes what it does or sees.

    Attributes:
        forced: how many actions were forced so far.
    """

    def __init__(
        self, parent: Rollout, frame: int, player: Player, writer: RolloutWriter, *, actions: list[Any],
        change: Change | None, hold: int,
    ) -> None:
        self._parent, self._frame, self._player, self._writer = parent, frame, player, writer
        self._change, self._hold, self.forced = change, hold, 0
        self._actions = np.asarray(actions, parent.actions.dtype).reshape(-1, *parent.actions.shape[1:])
        self._edited: dict[int, Array] = {}  # what the policy saw in the record, by step
        if parent.edited_at is not None and parent.edited is not None:
            self._edited = dict(zip(parent.edited_at.tolist(), parent.edited, strict=True))
        self._reached = False

    def seen(self, t: int, step: StepBatch) -> StepBatch:
        """The step as the policy sees it. Raises EnvironmentFailed if it is not the recorded one."""
        if t <= self._frame:
            self._check_step(t, step)
            self._reached = t == self._frame
        row = self._edited.get(t) if t < self._frame else None
        if self._change is not None and self._frame <= t < self._frame + self._hold:
            row = edited(step.observation[0], self._change, parts=self._parent.parts)
        if row is None:
            return step
        self._writer.append(edited_at=np.int64(t), edited=row)
        observation = step.observation.copy()
        observation[0] = row
        return replace(step, observation=observation)

    def taken(self, t: int, actions: Array, thoughts: Mapping[str, Array]) -> Array:
        """The recorded actions up to `frame`, then those that are forced, then the policy's own."""
        if t < self._frame or (t == self._frame and self._change is None and t not in self._edited):
            self._check_opinion(t, thoughts)
        if t < self._frame:
            action = self._parent.actions[t]
        elif t < self._frame + len(self._actions):
            action = self._actions[t - self._frame]
            self.forced += 1
        else:
            return actions
        if np.array_equal(action, actions[0]):
            return actions
        rows = actions.copy()
        rows[0] = action
        self._player.did(rows[0])
        return rows

    def check_reached(self) -> None:
        """Raises EnvironmentFailed if the episode ended before the step."""
        if not self._reached:
            raise self._differs("the episode ended earlier")

    def _check_step(self, t: int, step: StepBatch) -> None:
        if not np.array_equal(step.observation[0], self._parent.observation_rows[t]):
            raise self._differs(f"the observation of step {t} is another one")
        if t and step.reward[0] != self._parent.rewards[t - 1]:
            raise self._differs(f"step {t} gave the reward {step.reward[0]:g} and not {self._parent.rewards[t - 1]:g}")

    def _check_opinion(self, t: int, thoughts: Mapping[str, Array]) -> None:
        for name in _OPINIONS:
            recorded, now = getattr(self._parent, name), thoughts.get(name)
            if (recorded is None) != (now is None) or (now is not None and not np.allclose(
                    now, recorded[t], rtol=_TOLERANCE, atol=_TOLERANCE)):
                raise EnvironmentFailed(
                    f"the policy does not repeat its opinion of step {t}, so its memory there is not known, and no "
                    "other future can begin there. Was its checkpoint written anew? Play the episode again: "
                    "wb.rollout(...)")

    def _differs(self, what: str) -> EnvironmentFailed:
        return EnvironmentFailed(
            f"{self._parent.environment} does not repeat itself: with the seed and the actions of the record, {what}. "
            "So no other future can begin there. An environment repeats itself if it draws all random numbers from the "
            "seed of its reset, and if it and its packages are those that recorded the episode.")
