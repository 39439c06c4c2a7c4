"""Stalls: actors that make no step though they have their actions, and the time since the last frame of the run.

Times are seconds of a monotonic clock, which callers pass.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from workbench.tables import counted

HUNG_AFTER_S = 10.0
STALLED_AFTER_S = 5.0


class Stalls:
    """The times of the last step of each actor and of the last frame of the run."""

    def __init__(self, now: float) -> None:
        self._actors: dict[str, tuple[int, float]] = {}
        self._frames = (0, now)

    def note_steps(
        self, now: float, frames: int, actor_steps: Mapping[str, int], waiting: Collection[str] = ()
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

    def forget(self, actor: str) -> None:
        """Remove an actor that is being ended."""
        self._actors.pop(actor, None)

    def frozen_s(self, now: float) -> float:
        """Seconds since the number of frames last grew."""
        return now - self._frames[1]

    def hung(self, now: float) -> list[tuple[str, float]]:
        """Actors without a step for HUNG_AFTER_S or longer that do not wait for actions, with the seconds."""
        return [(actor, now - at) for actor, (_, at) in sorted(self._actors.items()) if now - at >= HUNG_AFTER_S]


def explain(
    *,
    paused: bool,
    learner_down: str,
    learner_silent_s: float,
    learner_mute: str,
    learner_reason: str,
    dead_actors: Sequence[tuple[str, str]],
    actors: int,
    hung: Sequence[tuple[str, float]],
    late: Sequence[tuple[str, float]],
    frozen_s: float,
) -> str:
    """Why a run is not at full speed, in words; "" if it is.

    Args:
        learner_down: why no learner lives, or "".
        learner_mute: its answer instead of a status, or "".
        dead_actors: (index, how it ended) of actors without a process.
        hung, late: (index, seconds) of actors that make no step, and of those that are not connected to the learner.
    """
    if learner_down:
        return learner_down
    parts = []
    if learner_silent_s > STALLED_AFTER_S:
        mute = f": {learner_mute}" if learner_mute else ""
        parts.append(f"the learner has not answered for {learner_silent_s:.0f} s{mute}")
    if dead_actors:
        last = dead_actors[-1][1]
        parts.append(f"{len(dead_actors)} of {counted(actors, 'actors')} dead" + (f" ({last})" if last else ""))
    parts += [f"actor {actor} has made no step for {seconds:.0f} s" for actor, seconds in hung]
    parts += [f"actor {actor} has been starting for {seconds:.0f} s" for actor, seconds in late]
    if frozen_s > STALLED_AFTER_S and not paused:
        parts.append(f"batch waiting {frozen_s:.0f} s")
    if learner_reason:
        parts.append(learner_reason)
    return ", ".join(parts)
