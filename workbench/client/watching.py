"""Following one environment of a run: each look brings the steps that are new since the look before.

The learner keeps the last steps of an environment as long as somebody asks for them (`learner.watch`), so whoever
looks at least every other second misses none, unless the environment is so fast that more are made than are kept.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from workbench.client.control import Control
from workbench.errors import RunNotAlive, RunNotFound, WorkbenchError
from workbench.trajectory import Array
from workbench.wire import columns

LOOK_S = 10.0  # for an answer


@dataclass(frozen=True)
class Look:
    """The steps that were new.

    Attributes:
        life: of the tap; steps of two lives do not follow each other (the learner was restarted, or nobody looked).
        first: number of the first step, counted from the beginning of that life.
        steps: how many.
        missed: steps since the last look that are gone.
        kind: of the scores: "probability" or "q_value".
        action_names: what the actions are called.
        table, packed: the steps as `wire.columns` packs them, compressed by zlib.
        note: why there is nothing new, in plain words; "" if there is.
        over: nothing will be new again: the run has ended.
    """

    life: str = ""
    first: int = 0
    steps: int = 0
    missed: int = 0
    kind: str = ""
    action_names: Sequence[str] = ()
    table: Sequence[dict[str, Any]] = ()
    packed: bytes = b""
    note: str = ""
    over: bool = False

    @cached_property
    def columns(self) -> dict[str, Array]:
        """The steps as columns, each [steps, ...]: observation, reward, flags, action, scores, value and so on, see
        `learner.watch.Seen`."""
        return columns.unpack(self.table, zlib.decompress(self.packed)) if self.packed else {}


class Watching:
    """Environment `env` of a run, from now on. Raises OutOfBounds for one that is not there, RunNotAlive."""

    def __init__(self, control: Control, env: int) -> None:
        self._control = control
        self.env = env
        self.config = control.directory.config()
        self._cursor = ""
        self._cursor = self._ask()["cursor"]

    @property
    def run(self) -> str:
        """The run's name."""
        return self._control.directory.name

    @property
    def role(self) -> str:
        """Whose environment it is and what for, such as "environment 2 of actor 0, evaluating"."""
        actor, place = divmod(self.env, self.config.envs_per_actor)
        evaluates = place >= self.config.envs_per_actor - self.config.evaluating_per_actor
        return f"environment {place} of actor {actor}, {'evaluating' if evaluates else 'training'}"

    def look(self) -> Look:
        """What is new; never raises for what may become of a run, but says it in the look's note."""
        try:
            told = self._ask()
        except WorkbenchError as error:
            return Look(note=str(error), over=isinstance(error, RunNotAlive | RunNotFound))
        self._cursor = told["cursor"]
        life = self._cursor.partition(":")[0]
        if not told["steps"]:
            return Look(life, told["first"], note=_why_nothing(told))
        return Look(
            life, told["first"], told["steps"], told["missed"], told["kind"], told["action_names"], told["columns"],
            base64.b64decode(told["packed"]),
        )

    def _ask(self) -> dict[str, Any]:
        told: dict[str, Any] = self._control.call("watch", timeout_s=LOOK_S, env=self.env, since=self._cursor)
        return told


def _why_nothing(told: dict[str, Any]) -> str:
    state, reason = told["state"], told["reason"]
    if state == "paused" and reason in ("", "paused by hand"):
        return "The run is paused; it goes on when it is resumed."
    if reason:
        return f"The run is {state}: {reason}."
    return "No step since the last look."
