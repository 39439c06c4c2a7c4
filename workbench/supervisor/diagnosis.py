"""The reason, in words, why a run is not at full speed."""

from __future__ import annotations

import time
from collections.abc import Mapping

from workbench.supervisor.learner_status import LearnerTracker
from workbench.supervisor.process_group import ProcessGroup
from workbench.supervisor.stalls import HUNG_AFTER_S, STALLED_AFTER_S, explain
from workbench.tables import counted


def reason(state: str, tracker: LearnerTracker, group: ProcessGroup, endings: Mapping[int | None, str]) -> str:
    """What a user should know of a run that has not ended; "" if all is well.

    Args:
        endings: how children last ended, by index of the actor; None: the learner.
    """
    now = time.monotonic()
    training = state == "training"
    down = _learner_down(tracker, group, endings.get(None))
    stalls = explain(
        paused=state == "paused",
        learner_down=down,
        learner_silent_s=tracker.silent_s(),
        learner_mute=tracker.mute,
        learner_reason=tracker.phase.reason,
        dead_actors=[(str(index), endings.get(index, "")) for index, actor in group.actors.items() if not actor.alive],
        actors=len(group.actors),
        hung=tracker.stalls.hung(now) if training else [],
        late=_late(tracker, group, now) if training else [],
        frozen_s=tracker.stalls.frozen_s(now) if training else 0.0,
    )
    return down or ", ".join(filter(None, (stalls, _actors_that_wait(group, now), _repeats(tracker))))


def _learner_down(tracker: LearnerTracker, group: ProcessGroup, ending: str | None) -> str:
    """Why no learner answers, or ""."""
    learner = group.learner
    if learner.restarts < 0 or tracker.has_status_of(learner):
        return ""
    age_s = time.monotonic() - learner.started_at
    waits = f", waiting for {what}" if (what := learner.waits_for()) else ""
    if ending is None:
        return f"the learner is starting ({age_s:.0f} s{waits})"
    since = f"{age_s:.0f} s" if learner.alive else f"in {learner.waiting_s():.1f} s"
    return f"the learner is being restarted ({since}{waits}): it ended with {ending}"


def _late(tracker: LearnerTracker, group: ProcessGroup, now: float) -> list[tuple[str, float]]:
    """Actors whose processes live without a stream to the learner for HUNG_AFTER_S or longer, with the seconds."""
    since = {index: now - max(at, group.actors[index].started_at) for index, at in sorted(tracker.unconnected.items())
             if index in group.actors and group.actors[index].alive and not group.actors[index].waits_for()}
    return [(str(index), seconds) for index, seconds in since.items() if seconds >= HUNG_AFTER_S]


def _actors_that_wait(group: ProcessGroup, now: float) -> str:
    """How many actors have had no process for STALLED_AFTER_S, and what they wait for; "" if none."""
    late = [actor for actor in group.actors.values() if now - actor.started_at > STALLED_AFTER_S and actor.waits_for()]
    if not late:
        return ""
    waited_s = now - min(actor.started_at for actor in late)
    actors = counted(len(group.actors), "actors")
    return f"{len(late)} of {actors} waiting {waited_s:.0f} s for {late[0].waits_for()}"


def _repeats(tracker: LearnerTracker) -> str:
    """How many frames are made a second time, or ""."""
    frames = tracker.to_repeat
    return f"the learner began again where the run was {frames:,} frames ago" if frames else ""
