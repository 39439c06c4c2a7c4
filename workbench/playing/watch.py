"""Following one environment of a run: each look brings the steps that are new since the look before.

The learner keeps the last steps of an environment as long as somebody asks for them (`learner.inference.watch_tap`), so
whoever looks at least every other second misses none, unless an environment is so fast that more are made than kept.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from workbench.environments import observations
from workbench.environments.observations import MOST_ENTRIES
from workbench.errors import RunNotAlive, RunNotFound, WorkbenchError
from workbench.running.connection import Control
from workbench.trajectory import ActionSpec, Array, EnvironmentSpec, Part
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
        kind: of the scores: "probability", "q_value" or "mean".
        action_names: what the actions, or their parts, are called.
        action_spec: what an action is.
        entries: names of an observation's numbers (the first ones, where it has many) where it is no image; () where
            they have none.
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
    action_spec: ActionSpec = ActionSpec("categorical", (0,))
    entries: Sequence[str] = ()
    table: Sequence[dict[str, Any]] = ()
    packed: bytes = b""
    note: str = ""
    over: bool = False

    @cached_property
    def columns(self) -> dict[str, Array]:
        """The steps as columns, each [steps, ...]: observation, reward, flags, action, scores, value and so on, see
        `learner.inference.watch_tap.Seen`."""
        return columns.unpack(self.table, zlib.decompress(self.packed)) if self.packed else {}


class Watching:
    """Environment `env` of a run, from now on. Raises OutOfBounds for one that is not there, RunNotAlive."""

    def __init__(self, control: Control, env: int) -> None:
        self._control = control
        self.env = env
        self.config = control.directory.config()
        self._cursor = ""
        first = self._ask()
        self._cursor = first["cursor"]
        # Where the learner does not say it: it is about to start, or of an earlier version.
        place = env % self.config.envs_per_actor
        guess = place >= self.config.envs_per_actor - self.config.evaluating_per_actor
        self._evaluates = bool(first.get("evaluating", guess))

    @property
    def run(self) -> str:
        """The run's name."""
        return self._control.directory.name

    @property
    def role(self) -> str:
        """Whose environment it is and what for, such as "environment 2 of actor 0, evaluating"."""
        actor, place = divmod(self.env, self.config.envs_per_actor)
        return f"environment {place} of actor {actor}, {'evaluating' if self._evaluates else 'training'}"

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
        names, packed = told["action_names"], base64.b64decode(told["packed"])
        spec = _spec(told)
        entries, table, packed = _drawable(told["columns"], packed, spec.parts)
        return Look(life, told["first"], told["steps"], told["missed"], told["kind"], names, spec.actions, entries,
                    table, packed)

    def _ask(self) -> dict[str, Any]:
        told: dict[str, Any] = self._control.call("watch", timeout_s=LOOK_S, env=self.env, since=self._cursor)
        return told


def _spec(told: Mapping[str, Any]) -> EnvironmentSpec:
    """The run's environment; a learner of an earlier version, which still runs, has choices only and says nothing."""
    if "environment" in told:
        return EnvironmentSpec.from_json(told["environment"])
    return EnvironmentSpec("", (), "float32", len(told["action_names"]))


def _drawable(
    table: Sequence[dict[str, Any]], packed: bytes, parts: Sequence[Part]
) -> tuple[Sequence[str], Sequence[dict[str, Any]], bytes]:
    """Entries, table and bytes in which observations became what the page draws of them; images, and short vectors,
    are that already."""
    [kept] = [one for one in table if one["name"] == "observation"]
    shape = kept["shape"][1:]
    if not parts and (len(shape) == 3 if kept["dtype"] == "uint8" else len(shape) == 1 and shape[0] <= MOST_ENTRIES):
        return (), table, packed
    steps = columns.unpack(table, zlib.decompress(packed))
    seen = observations.on_page(steps["observation"], parts=parts)
    table, data = columns.pack({**steps, "observation": seen.values})
    return seen.names, table, zlib.compress(data, 1)


def _why_nothing(told: dict[str, Any]) -> str:
    state, reason = told["state"], told["reason"]
    if state == "paused" and reason in ("", "paused by hand"):
        return "The run is paused; it goes on when it is resumed."
    if reason:
        return f"The run is {state}: {reason}."
    return "No step since the last look."
