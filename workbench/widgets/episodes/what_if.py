"""The kernel's half of "What if …" in the rollout player: it shows what the policy saw, and plays other futures.

A page asks with a message of type "look", "branch" or "choose". A branch is played in a process of its own while a
thread waits for it; then all pages show it beside its parent, and the answer says how it went.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.environments import observations
from workbench.environments.sketches import entry_names
from workbench.errors import InvalidInput
from workbench.playing.rollout import Rollout
from workbench.tables import number
from workbench.widgets.kernel.refresher import Actions, carry_out

if TYPE_CHECKING:
    from workbench.widgets.episodes.player import RolloutPlayer

RECORDED = ""  # the key of the rollouts with which the player was opened
_CHANGES = {"occlude", "shade"}


class WhatIf:
    """Answers the messages of a player's pages."""

    def __init__(self, player: RolloutPlayer) -> None:
        self._player, self._opened = player, player.rollouts
        self._playing = Actions()

    def answer(self, request: dict[str, Any]) -> None:
        """Answers a message if it is one of these."""
        kind, failed = request.get("type"), partial(self._say_failed, request)
        if kind == "look":
            carry_out(lambda: self._look(request), failed)
        elif kind in ("branch", "choose"):
            act = self._branch if kind == "branch" else self._choose
            self._playing.submit(lambda: act(request), failed)

    def _say_failed(self, request: dict[str, Any], words: str) -> None:
        first = words.partition("\n")[0]
        self._player.send({"type": "branched", "view": request.get("view"), "text": f"no branch: {first}",
                           "error": True})

    def _asked(self, request: dict[str, Any]) -> tuple[Rollout, int]:
        """The rollout and the step that a page means."""
        index, step = int(request["index"]), int(request["step"])
        if not 0 <= index < len(self._player.rollouts):
            raise InvalidInput("that episode is not shown any more.")
        rollout = self._player.rollouts[index]
        if not 0 <= step <= rollout.steps:
            raise InvalidInput(f"that episode has no step {step}.")
        return rollout, step

    def _look(self, request: dict[str, Any]) -> None:
        """Sends what the policy saw at a step."""
        rollout, step = self._asked(request)
        seen = observations.on_page(rollout.observation_rows[step : step + 1], parts=rollout.parts)
        values = seen.values[0]
        kind = np.uint8 if values.ndim == 3 else np.float32
        place = {"view": request.get("view"), "index": int(request["index"]), "step": step}
        names = entry_names(rollout.environment, seen.names)
        self._player.send({"type": "looked", **place, "shape": list(values.shape), "entries": names},
                          [np.ascontiguousarray(values, kind).tobytes()])

    def _branch(self, request: dict[str, Any]) -> None:
        rollout, step = self._asked(request)
        branch = rollout.branch(step, action=request.get("action"), observation=_change(request.get("observation")),
                                hold=request.get("hold", 1))
        self._show((rollout, branch), at=step)

    def _choose(self, request: dict[str, Any]) -> None:
        """Shows a branch beside its parent, or what was shown at first."""
        name = request.get("name")
        if name == RECORDED:
            self._show(self._opened)
            return
        branch = next((one for one in self._family() if one.path is not None and one.path.name == name), None)
        if branch is None or branch.branched is None:
            raise InvalidInput("that branch was deleted.")
        both = [branch]
        if (parent := branch.parent) is not None:
            there = (each for each in self._player.rollouts if each.path == parent.path)  # it is not sent once more
            both.insert(0, next(there, parent))
        self._show(both, at=branch.branched.frame)

    def _show(self, rollouts: Sequence[Rollout], *, at: int | None = None) -> None:
        self._player.show(rollouts)
        self.list_futures()
        first, last = rollouts[0], rollouts[-1]
        words = "" if last.branched is None else f"{last.branched.change}: return {number(last.episode_return)}"
        if words and first is not last:
            words += f", and {number(first.episode_return)} without"
        place = {} if at is None else {"at": at}
        self._player.send({"type": "branched", "text": words, "error": False, **place})

    def list_futures(self, view: str | None = None) -> None:
        """Sends the names of the branches, if there are any."""
        shown, family = self._player.rollouts[-1], self._family()
        if not family:
            return
        options = [{"key": RECORDED, "text": "as recorded"}, *(
            {"key": branch.path.name, "text": f"step {branch.branched.frame}: {branch.branched.change} (return "
                                              f"{number(branch.episode_return)})"}
            for branch in family if branch.path is not None and branch.branched is not None)]
        chosen = shown.path.name if shown.branched is not None and shown.path is not None else RECORDED
        self._player.send({"type": "futures", "view": view, "options": options, "chosen": chosen})

    def _family(self) -> list[Rollout]:
        """The branches of the rollouts with which the player was opened, and theirs."""
        by_path = {branch.path: branch for rollout in self._opened for branch in rollout.family}
        return list(by_path.values())


def reason_against(rollout: Rollout) -> str:
    """Why no other future of a rollout can be played, or ""."""
    if rollout.path is None:
        return "This episode is not on disk, so no other future of it can be played."
    if not rollout.algorithm:
        return "There was no agent in this episode, so nobody would play on from here."
    return ""


def _change(observation: Any) -> Any:
    """The observation that a page asks for; it names numbers by their position."""
    if not isinstance(observation, dict) or _CHANGES & observation.keys():
        return observation
    return {int(place): value for place, value in observation.items()}
