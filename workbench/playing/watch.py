"""Follows one environment of a run: each look returns the new steps since the look before.

The learner keeps an environment's last steps while they are requested (`learner.inference.watch_tap`). A caller that
looks at least every other second misses no step, unless a fast environment makes more than are kept.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from workbench.environment_spec import ActionSpec, EnvironmentSpec, Part
from workbench.environments import observations
from workbench.environments.observations import MOST_ENTRIES
from workbench.environments.sketches import Sketch, sketch_of
from workbench.errors import RunNotAlive, RunNotFound, WorkbenchError
from workbench.rundir import BY_HAND
from workbench.running.connection import Control
from workbench.trajectory import Array
from workbench.wire import columns

LOOK_S = 10.0  # longest wait for an answer


@dataclass(frozen=True)
class Look:
    """The new steps of one look.

    Attributes:
        life: of the tap; between two lives steps are missing (the learner was restarted, or no call came for a while).
        first: number of the first step, counted from the beginning of that life.
        steps: number of steps.
        missed: lost steps since the last look.
        kind: of the scores: "probability", "q_value" or "mean".
        action_names: names of the actions, or of their parts.
        action_spec: the kind of the actions.
        entries: names of an observation's first numbers if it is no image; () if they have no names.
        sketch: how the environment is drawn from its numbers, with the column "pose" of its shapes; None: it is not.
        table, packed: the steps as `wire.columns` packs them, compressed by zlib.
        note: why there is no new step; else "".
        over: the run has ended, so no further step will come.
    """

    life: str = ""
    first: int = 0
    steps: int = 0
    missed: int = 0
    kind: str = ""
    action_names: Sequence[str] = ()
    action_spec: ActionSpec = ActionSpec("categorical", (0,))
    entries: Sequence[str] = ()
    sketch: Sketch | None = None
    table: Sequence[dict[str, Any]] = ()
    packed: bytes = b""
    note: str = ""
    over: bool = False

    @cached_property
    def columns(self) -> dict[str, Array]:
        """The steps as columns, each [steps, ...]: observation, reward, flags, action, scores, value and so on, see
        `learner.inference.watch_tap.WatchedStep`."""
        return columns.unpack(self.table, zlib.decompress(self.packed)) if self.packed else {}


class Watching:
    """Watches environment `env` of a run from now on. Raises OutOfBounds for an unknown `env`, RunNotAlive."""

    def __init__(self, control: Control, env: int) -> None:
        self._control = control
        self.env = env
        self.config = control.directory.config()
        self._cursor = ""
        first = self._ask()
        self._cursor = first["cursor"]
        # A learner that is still starting does not send it.
        place = env % self.config.envs_per_actor
        guess = place >= self.config.envs_per_actor - self.config.evaluating_per_actor
        self._evaluates = bool(first.get("evaluating", guess))

    @property
    def run(self) -> str:
        """The run's name."""
        return self._control.directory.name

    @property
    def role(self) -> str:
        """The environment's actor and purpose, such as "environment 2 of actor 0, evaluating"."""
        actor, place = divmod(self.env, self.config.envs_per_actor)
        return f"environment {place} of actor {actor}, {'evaluating' if self._evaluates else 'training'}"

    def look(self) -> Look:
        """The new steps. Never raises for an ended or broken run: the look's note then has the reason."""
        try:
            answer = self._ask()
        except WorkbenchError as error:
            return Look(note=str(error), over=isinstance(error, RunNotAlive | RunNotFound))
        self._cursor = answer["cursor"]
        life = self._cursor.partition(":")[0]
        if not answer["steps"]:
            return Look(life, answer["first"], note=why_nothing(answer))
        spec, steps = EnvironmentSpec.from_json(answer["environment"]), columns.received(answer)
        sketch = sketch_of(spec)
        entries, drawn = _drawable(steps, spec.parts, sketch)
        sent = answer if drawn is steps else columns.sent(drawn)
        return Look(life, answer["first"], answer["steps"], answer["missed"], answer["kind"], answer["action_names"],
                    spec.actions, entries, sketch, sent["columns"], base64.b64decode(sent["packed"]))

    def _ask(self) -> dict[str, Any]:
        answer: dict[str, Any] = self._control.call("watch", timeout_s=LOOK_S, env=self.env, since=self._cursor)
        return answer


def _drawable(
    steps: dict[str, Array], parts: Sequence[Part], sketch: Sketch | None
) -> tuple[Sequence[str], dict[str, Array]]:
    """Entries and steps with observations as a page draws them; `steps` itself for images and short vectors."""
    seen = steps["observation"]
    if sketch is not None:
        poses = sketch.poses(seen)
        return sketch.names, {**steps, "pose": poses.reshape(len(poses), -1)}
    if not parts and (seen.ndim == 4 if seen.dtype == "uint8" else seen.ndim == 2 and seen.shape[1] <= MOST_ENTRIES):
        return (), steps
    drawn = observations.on_page(seen, parts=parts)
    return drawn.names, {**steps, "observation": drawn.values}


def why_nothing(answer: dict[str, Any]) -> str:
    """Why an answer has no steps: the run's state and reason."""
    state, reason = answer["state"], answer["reason"]
    if state == "paused" and reason in ("", BY_HAND):
        return "The run is paused; it goes on when it is resumed."
    if reason:
        return f"The run is {state}: {reason}."
    return "No step since the last look."
