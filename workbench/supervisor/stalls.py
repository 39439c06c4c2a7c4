"""Stalls: actors that make no step though they have their actions, and the time since the last frame of the run.

Times are seconds of a monotonic clock, which callers pass.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

HUNG_AFTER_S = 10.0
STALLED_AFTER_S = 5.0


class Stalls:
    """The times of the last step of each actor and of the last frame of the run."""

    def __init__(self, now: float) -> None:
        self._actors: dict[int, tuple[int, float]] = {}
        self._frames = (0, now)

    def note_steps(
        self, now: float, frames: int, actor_steps: Mapping[int, int], waiting: Collection[int] = ()
    ) -> None:
        """Take in a report of the learner; `waiting`: actors that wait for actions."""
        if frames != self._frames[0]:
            self._frames = (frames, now)
        for actor in set(self._actors) - set(actor_steps):
            del self._actors[actor]
        for actor, steps in actor_steps.items():
            if actor in waiting or actor not in self._actors or self._actors[actor][0] != steps:
                self._actors[actor] = (steps, now)

    def restart_clocks(self, now: float) -> None:
        """Count all times from now, after a pause or a restart."""
        self._frames = (self._frames[0], now)
        self._actors = {actor: (steps, now) for actor, (steps, _) in self._actors.items()}

    def forget(self, actor: int) -> None:
        """Remove an actor that is being ended."""
        self._actors.pop(actor, None)

    def frozen_s(self, now: float) -> float:
        """Seconds since the number of frames last grew."""
        return now - self._frames[1]

    def hung(self, now: float) -> list[tuple[int, float]]:
        """Actors without a step for HUNG_AFTER_S or longer that do not wait for actions, with the seconds."""
        return [(actor, now - at) for actor, (_, at) in sorted(self._actors.items()) if now - at >= HUNG_AFTER_S]
