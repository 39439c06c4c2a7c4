"""How the processes of a run end, what that means for the run, and how a run ends: an `Outcome`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from workbench.config import RunConfig
from workbench.config.few_updates import more_updates
from workbench.supervisor.hosts.life import ProcessEnding
from workbench.supervisor.learner_status import LearnerTracker
from workbench.supervisor.process_group import EndedChild
from workbench.wire.lifeline import PASSING, PEERS_LOST

_MAX_FAILURES = 5  # in a row without an update, or of an actor without a step; of lost machines, within a minute


@dataclass(frozen=True)
class Outcome:
    """How a run ends: the state is "stopped", "finished" or "failed".

    Attributes:
        timeout_s: for the learner's last checkpoint; None: as the configuration says.
        ended_by: "notice" (its machine is taken back) or "signal"; None: whoever asked, or the run itself.
    """

    state: str
    message: str
    error: dict[str, str] | None = None
    timeout_s: float | None = None
    ended_by: Literal["notice", "signal"] | None = None


class Endings:
    """How each child of a run last ended. Not thread-safe: callers hold the supervisor's lock.

    Attributes:
        words: how, by index of the actor; None: the learner.
    """

    def __init__(self, tracker: LearnerTracker) -> None:
        self.words: dict[int | None, str] = {}
        self._tracker = tracker
        self._vain: Counter[int] = Counter()  # endings of actors before they stepped, or before the run trained
        self._requested: set[int | None] = set()  # actors whose next ending is what a person wanted

    def expect_kill(self, index: int) -> None:
        """A person wants this actor's next ending."""
        self._requested.add(index)

    def before_restart(self, index: int | None) -> str:
        """How the child ended whose next life begins now, in words."""
        self._requested.discard(index)
        return self.words.get(index, "its end")

    def note(self, ended: EndedChild) -> bool:
        """Take in an ending; returns whether it says anything new: one that passes is tried until it has passed."""
        words = "a request" if ended.ending.recent == 0 else str(ended.ending)
        again = _passes(ended.ending) and self.words.get(ended.index) == words
        self.words[ended.index] = words
        return ended.ending.recent > 0 and not again

    def is_hopeless(self, ended: EndedChild, *, starting: bool) -> bool:
        """Whether it is useless to restart the child; `starting`: the run has not trained in this life."""
        ending, tracker = ended.ending, self._tracker
        if _passes(ending):
            return False
        often = ending.recent > _MAX_FAILURES
        if ended.index is None:
            away = bool(ending.lost) or (ending.code == PEERS_LOST and tracker.progress.updates > 0)
            tracker.fruitless[away] += 1
            in_vain = tracker.fruitless.total() if often else tracker.fruitless[False]
            return ending.error is not None or in_vain > _MAX_FAILURES
        stepped = ended.index in tracker.stepped
        if ending.lost:  # with its machine, which is no fault of its environments
            return often and not stepped
        if ending.error is None:
            useless = starting or not stepped
            self._vain[ended.index] += useless
            return useless and self._vain[ended.index] > _MAX_FAILURES
        return often or (ending.first and not stepped and starting)

    def event(self, ended: EndedChild) -> tuple[str, str]:
        """Kind and message of the event of an ending after which the child is restarted."""
        if ended.index in self._requested:
            return "kill", f"{ended.child.name} killed on request"
        ending = ended.ending
        raised = ending.code > 0 and ending.error is None and not ending.lost  # what its log then ends with
        last = ended.child.log_tail().strip().rpartition("\n")[2] if raised else ""
        return "error", f"{ended.child.name} ended with {ending}{f': {last:.200}' if last else ''}"


def _passes(ending: ProcessEnding) -> bool:
    """Whether a later try may find mended what ended the child; a user's own code may end it with any exit code."""
    return ending.code == PASSING and ending.error is not None


def finished(why: str, updates: int, *, remedy: str = "") -> Outcome:
    """The end of a run by one of its rules, after so many updates; `remedy`: said where there were none."""
    untrained = "" if updates else f" before the first update, so that nothing was learnt{remedy}"
    return Outcome("finished", f"{why}{untrained}")


def at_total(config: RunConfig, updates: int) -> Outcome:
    """The end of a run that has all its frames."""
    return finished(f"reached total_frames={config.total_frames}", updates, remedy=f". {more_updates(config)}")


def failure(ended: EndedChild) -> Outcome:
    """The end of a run whose child cannot be restarted."""
    child, ending = ended.child, ended.ending
    log = child.log_tail() or "(it is empty: what ran in it, such as an environment, may have ended the process itself)"
    log_tail = f"{child.name} ended with {ending} again and again. Its log ends:\n{log}"
    return Outcome("failed", f"{child.name}: {ending}", ending.error or {"type": "RunFailed", "message": log_tail})
