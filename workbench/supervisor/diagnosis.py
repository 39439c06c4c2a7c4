"""The reason, in words, why a run is not at full speed."""

from __future__ import annotations

import time
from collections.abc import Mapping

from workbench.supervisor.learner_status import LearnerTracker
from workbench.supervisor.process_group import ProcessGroup
from workbench.supervisor.stalls import HUNG_AFTER_S, STALLED_AFTER_S
from workbench.tables import counted

_AT_WORK = ("starting", "training")

def reason(state: str, tracker: LearnerTracker, group: ProcessGroup, endings: Mapping[int | None, str]) -> str:
    """What a user should know of a run that has not ended; "" if all is well.

    Args:
        endings: how children last ended, by index of the actor; None: the learner.
    """
    if down := _learner_down(tracker, group, endings.get(None)):
        return down
    now = time.monotonic()
    still = _standing_still(tracker, group, now, trains=state == "training") if state in _AT_WORK else []
    parts = (_silence(tracker), _dead(group, endings), *still, tracker.phase.reason, _actors_that_wait(group, now),
             _repeats(tracker))
    return ", ".join(filter(None, parts))


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


def _silence(tracker: LearnerTracker) -> str:
    """For how long a learner that lives has sent no status, and its answer instead; "" if it sends them."""
    if (silent_s := tracker.silent_s()) <= STALLED_AFTER_S:
        return ""
    return f"the learner has not answered for {silent_s:.0f} s" + (f": {tracker.mute}" if tracker.mute else "")


def _dead(group: ProcessGroup, endings: Mapping[int | None, str]) -> str:
    """How many actors have no process, and how the last of them ended; "" if none."""
    dead = [index for index, actor in group.actors.items() if not actor.alive]
    if not dead:
        return ""
    last = endings.get(dead[-1], "")
    return f"{len(dead)} of {counted(len(group.actors), 'actors')} dead" + (f" ({last})" if last else "")


def _standing_still(tracker: LearnerTracker, group: ProcessGroup, now: float, *, trains: bool) -> list[str]:
    """What stands still though the run acts: actors that make no step, those without a stream, and, where it `trains`,
    the frames."""
    frozen_s = tracker.stalls.frozen_s(now) if trains else 0.0
    return [*(f"actor {actor} has made no step for {seconds:.0f} s" for actor, seconds in tracker.hung()),
            *(f"actor {actor} has been starting for {seconds:.0f} s" for actor, seconds in _late(tracker, group, now)),
            *([f"batch waiting {frozen_s:.0f} s"] if frozen_s > STALLED_AFTER_S else [])]


def _late(tracker: LearnerTracker, group: ProcessGroup, now: float) -> list[tuple[int, float]]:
    """Actors whose processes live without a stream to the learner for HUNG_AFTER_S or longer, with the seconds."""
    since = {index: now - max(at, group.actors[index].started_at) for index, at in sorted(tracker.unconnected.items())
             if index in group.actors and group.actors[index].alive and not group.actors[index].waits_for()}
    return [(index, seconds) for index, seconds in since.items() if seconds >= HUNG_AFTER_S]


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
    return f"the learner began again from earlier: {frames:,} frames are to be made again" if frames else ""
