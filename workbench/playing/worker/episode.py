"""One episode that a person and a policy play together, and its record.

The policy runs once at every step, also when the person chooses the action, so that its recurrent state follows the
episode. The record is lost if the process is killed, so each action is also written to a journal at once: the same
seed and actions reproduce the episode.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from workbench.checkpoints import Checkpoint
from workbench.environments import observations
from workbench.environments.contract import checked_actions
from workbench.errors import EnvironmentFailed, InvalidInput, ShapeMismatch, StorageFailed
from workbench.playing import store
from workbench.playing.store import Journal, RolloutWriter, Step
from workbench.playing.store.stored_fields import OUTPUTS
from workbench.playing.worker.played_episode import Stage, next_view, present, record_of, thoughts_of
from workbench.policies.player import Player
from workbench.trajectory import ENDS, Array, Flags, StepBatch

Action = int | list[int] | list[float] | Array


class NoPlayer:
    """The player of a game without a policy."""

    def __init__(self, stage: Stage) -> None:
        spec = stage.environment.spec
        self._actions, self._size = spec.actions, spec.num_actions

    def act(self, step: StepBatch, *, greedy: bool) -> Array:
        """The first action, or the middle of numbers."""
        return np.zeros((len(step.flags), *self._actions.shape), self._actions.dtype)

    def did(self, action: Array) -> None:
        """Does nothing, since there is no state."""

    def reseed(self, seed: int) -> None:
        """Does nothing, since it draws nothing."""

    def thoughts(self) -> dict[str, Array]:
        """NaN for every output."""
        name = "means" if self._actions.kind == "tanh_normal" else "policy"
        return {"values": np.array(np.nan, np.float32), name: np.full(self._size, np.nan, np.float32)}


class WorkerEpisode:
    """An episode from its first step on, recorded by `writer`.

    Attributes:
        number: of the episode in this process, from 0.
        picture: the current frame as a file of type `mime`; b"" if nothing is drawn.
        flags: of the last step; 0 before the episode ended.
    """

    def __init__(
        self, stage: Stage, player: Player | NoPlayer, writer: RolloutWriter, journal: Journal, *, number: int,
        seed: int, greedy: bool,
    ) -> None:
        self._stage, self._player, self._writer, self._greedy = stage, player, writer, greedy
        self.journal, self._repeating = journal, False
        self.number, self.seed = number, seed
        self.steps = self.by_person = self.flags = 0
        self.picture, self.mime = b"", ""
        self.failed = self.torn = ""
        self._reward = self._return = self._score = self._last_score = 0.0
        self._last: tuple[Any, str] = (None, "")
        self._step = stage.step
        self._arrived(stage.step.observation[0], stage.frame)

    @property
    def over(self) -> str:
        """How it ended: "terminated", "truncated", "failed" (its environment did), or "" while it goes on."""
        if self.failed:
            return "failed"
        return "terminated" if self.flags & Flags.TERMINATED else "truncated" if self.flags & Flags.TRUNCATED else ""

    def take(self, action: Action | None) -> None:
        """Take `action` in the environment's form, or the policy's proposal if it is None.

        Raises InvalidInput; EnvironmentFailed, and StorageFailed on a full disk, after which the episode is over.
        """
        if self.over:
            raise InvalidInput(f"the episode is over ({self.over}): restart() begins another one.")
        if action is None and isinstance(self._player, NoPlayer):
            raise InvalidInput("no action was given, and there is no agent to choose one. Give an action, or play a "
                               "run or a checkpoint.")
        actions = self._chosen(action)
        thoughts, person = self._thoughts, action is not None
        step = self._stepped(actions)
        with self._tearing_on_failure():
            self._writer.append(actions=actions[0], by_person=np.uint8(person), rewards=step.reward[0], **thoughts,
                                **({} if step.score is None else {"scores": step.score[0]}))
        self.steps += 1
        self.by_person += person
        self._step, self._reward = step, float(step.reward[0])
        self._return += self._reward
        self._last_score = 0.0 if step.score is None else float(step.score[0])
        self._score += self._last_score
        self._last = (actions[0].tolist(), "person" if person else "agent")
        self.flags = int(step.flags[0]) & ENDS
        if not self._repeating:
            self.journal.append((actions.tolist(), self._last[1], self._reward))
        self._arrived(*self._seen)

    def _chosen(self, action: Action | None) -> Array:
        """Actions of all rows, with the person's action in the first."""
        rows = self._proposed.copy()
        if action is not None:
            try:
                person_action = np.asarray(action)
            except ValueError as error:
                raise InvalidInput(f"action={action!r:.100} is no action: {error}.") from None
            if rows.dtype.kind == "f" and person_action.dtype.kind == "i":
                person_action = person_action.astype(np.float32)
            if person_action.shape != rows[0].shape:
                expected = f"an array of shape {list(rows[0].shape)}" if rows[0].shape else "one number"
                raise ShapeMismatch(f"action={action!r:.100} has the shape {list(person_action.shape)}, and an action "
                                   f"here is {expected}.")
            rows[0] = checked_actions(person_action[None], self._stage.environment.spec, 1)[0]
            self._player.did(rows[0])
        return rows

    def _stepped(self, actions: Array) -> StepBatch:
        """The next step. Raises EnvironmentFailed, after which the episode is over."""
        environment = self._stage.environment
        try:
            step = present(environment, self._player, environment.step(actions), greedy=self._greedy)
            self._seen = next_view(environment, step, ended=bool(step.flags[0] & ENDS), before=self._frame)
        except EnvironmentFailed as error:
            self.failed = str(error)
            raise
        return step

    def _arrived(self, observation: Array, frame: Array | None) -> None:
        """Record the current observation and frame, and run the policy."""
        with self._tearing_on_failure():
            self._writer.append(observations=observation)
            if frame is not None:
                kind, self.picture = self._writer.show(frame)
                self.mime = store.MIME[kind]
        self._observation, self._frame = observation, frame
        if not self.over:
            self._proposed = self._player.act(self._step, greedy=self._greedy).copy()
            self._thoughts: dict[str, Any] = (
                self._player.thoughts() if isinstance(self._player, NoPlayer) else thoughts_of(self._player))

    @contextmanager
    def _tearing_on_failure(self) -> Iterator[None]:
        """Marks the record as torn on a StorageFailed in the block: only the journal is then complete."""
        try:
            yield
        except StorageFailed as error:
            self.torn = self.failed = (f"{error} The episode is not lost: wb.play({str(self.journal.path)!r}) goes on "
                                       "with it when there is room.")
            raise StorageFailed(self.torn) from None

    # --- the record -----------------------------------------------------------------------------------------------

    def repeat(self, steps: list[Step]) -> None:
        """Replays the steps of a journal.

        Raises EnvironmentFailed if the environment returns other rewards, InvalidInput for steps that are no actions.
        """
        self._repeating = True
        for at, (rows, actor, reward) in enumerate(steps):
            self._proposed = self._of_journal(rows)
            self._player.did(self._proposed[0])
            self.take(None if actor == "agent" else self._proposed[0])
            if not np.isclose(self._reward, reward, rtol=1e-5, atol=1e-6):
                raise EnvironmentFailed(
                    f"{self._stage.environment.spec.name} does not repeat itself: with the same seed and actions, step "
                    f"{at + 1} gave the reward {self._reward:g} and not {reward:g}, so this episode is lost. Its "
                    f"actions are in {self.journal.path}.")
        self._repeating = False
        if steps:
            self.journal.rewrite(steps)

    def _of_journal(self, rows: Any) -> Array:
        """Actions of all rows."""
        try:
            actions = np.asarray(rows, self._proposed.dtype)
        except (TypeError, ValueError, OverflowError):
            actions = np.empty(0)
        if actions.shape != self._proposed.shape:
            raise InvalidInput(f"{self.journal.path} is not the journal of an episode: its actions are {rows!r:.100}. "
                               "Delete it.")
        return actions

    def keep(self, target: Path, checkpoint: Checkpoint | None) -> None:
        """Write the episode so far as a rollout that replaces `target`. Raises InvalidInput, StorageFailed."""
        if self.torn:
            raise StorageFailed(self.torn)
        if not self.steps:
            raise InvalidInput("nothing was played yet, so there is nothing to keep.")
        record = record_of(self._stage, checkpoint, seed=self.seed, greedy=self._greedy, flags=self.flags)
        if self.failed:
            record["note"] = "; ".join(filter(None, [record["note"], self.failed.splitlines()[0]]))
        with store.replacing(target) as folder:
            self._writer.finish(record, into=folder)

    def state(self) -> dict[str, Any]:
        """The current state as JSON data: see `playing.by_hand.moment.Moment`."""
        spec = self._stage.environment.spec
        return {
            "episode": self.number, "seed": self.seed, "step": self.steps, "frames": self.steps * spec.frames_per_step,
            "reward": self._reward, "episode_return": self._return,
            "score": self._last_score if spec.scored else None,
            "episode_score": self._score if spec.scored else None, "action": self._last[0], "by": self._last[1],
            "over": self.over, "failure": self.failed.partition("\n")[0], "by_person": self.by_person,
            "advice": self._advice(), "observation": self._drawn(),
        }

    @property
    def seen(self) -> str:
        """The bytes of the current observation, as text."""
        return base64.b64encode(np.ascontiguousarray(self._observation).tobytes()).decode()

    def _advice(self) -> dict[str, Any] | None:
        if self.over or isinstance(self._player, NoPlayer):
            return None
        name = next(name for name in OUTPUTS if name in self._thoughts)
        return {"kind": OUTPUTS[name], "scores": self._thoughts[name].tolist(), "action": self._proposed[0].tolist(),
                "value": float(self._thoughts["values"])}

    def _drawn(self) -> list[float] | None:
        """The numbers of the observation that a page draws, or None if there is a picture."""
        if self.picture:
            return None
        return [float(number) for number in
                observations.on_page(self._observation[None], parts=self._stage.environment.spec.parts).values[0]]
