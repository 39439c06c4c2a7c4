"""The one table of what a status says: each with its title, unit and format, for every place that shows it.

A place chooses its facts by name and a form for numbers: `exact` in lines, cards and tables, `tables.number` in panels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.tables import counted, duration, number

if TYPE_CHECKING:
    from workbench.metrics.status import LearnerStatus, RunStatus


def exact(value: float) -> str:
    """A number for the record: all digits of a count, four of a mean."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


@dataclass(frozen=True)
class StatusFact:
    """One thing that a status says.

    Attributes:
        name: in the table, and of the status's attribute where `of` says nothing else.
        of: its value; None or "": nothing is to be said.
        form: of its numbers in all places; None: that of the place.
        behind: of a mean, the attribute that says how many episodes are behind it.
        score: of a mean return, the attribute with the mean score that is said beside it.
        note: what stands behind the title for this status.
    """

    name: str
    title: str
    unit: str = ""
    of: Callable[[RunStatus], float | str | None] | None = None
    form: Callable[[float], str] | None = None
    behind: str = ""
    score: str = ""
    note: Callable[[RunStatus], str] = lambda status: ""

    def episodes(self, status: LearnerStatus) -> int | None:
        """The episodes behind a mean; None: not known, or no mean."""
        return getattr(status, self.behind) if self.behind else None

    def named(self, status: RunStatus) -> str:
        """The title with its unit, and with the episodes behind a mean: "evaluation return (40 episodes)"."""
        unit = f", {self.unit}" if self.unit not in ("", self.title) else ""
        episodes = self.episodes(status)
        note = f" ({counted(number(episodes), 'episodes')})" if episodes else self.note(status)
        return f"{self.title}{unit}{note}"

    def written(self, value: float | str | None, form: Callable[[float], str] = exact, *, unit: bool = False) -> str:
        """A value as people read it, such as "1,000", or "1,000 frames" with its `unit`; "" for None."""
        text = (self.form or form)(value) if isinstance(value, int | float) else value or ""
        return counted(text, self.unit).rstrip() if unit and text else text

    def shown(self, status: RunStatus, form: Callable[[float], str] = exact, *, unit: bool = False) -> str:
        """The same of the value in that status; "" where nothing is to be said."""
        return self.written(self.of(status) if self.of else getattr(status, self.name), form, unit=unit)

    def said(self, status: RunStatus, form: Callable[[float], str] = exact) -> str:
        """It in a sentence: "1,000 frames", "mean return 3 (score 0.25)"; "" where nothing is to be said."""
        text, score = self.shown(status, form, unit=True), FACTS[self.score].shown(status, form) if self.score else ""
        title = "" if self.title == self.unit else f"{self.title} "
        return text and f"{title}{text}{f' (score {score})' if score else ''}"


def _whole(value: float) -> str:
    return number(round(value) if value >= 1 else value)  # a slow run does not stand still


def _average(status: RunStatus) -> str:
    return "" if status.state == "training" else ", on average"


def _device_of(status: RunStatus) -> str:
    threads = counted(status.learner_threads, "threads") if status.device == "cpu" and status.learner_threads else ""
    return ", ".join(filter(None, (f"{status.device} {status.precision}".strip(), threads)))


def _memory_of(status: RunStatus) -> str:
    return f" of {'the learner (cpu)' if status.device == 'cpu' else status.device}"


FACTS: Mapping[str, StatusFact] = {fact.name: fact for fact in (
    StatusFact("frames", "frames", "frames"),
    StatusFact("steps", "steps", "steps"),
    StatusFact("updates", "updates", "updates"),
    StatusFact("speed", "speed"),
    StatusFact("frames_per_second", "frames/s", "frames/s", lambda status: status.speeds[0], _whole, note=_average),
    StatusFact("steps_per_second", "steps/s", "steps/s", lambda status: status.speeds[1], _whole, note=_average),
    StatusFact("updates_per_second", "updates/s", "updates/s",
         lambda status: status.updates_per_second or None if status.state == "training" else None),
    StatusFact("episodes", "episodes", "episodes"),
    StatusFact("episode_return", "mean return", behind="episodes_in_mean", score="episode_score"),
    StatusFact("episode_score", "mean score", behind="episodes_in_mean"),
    StatusFact("evaluation_return", "evaluation return", behind="evaluation_episodes", score="evaluation_score"),
    StatusFact("evaluation_score", "evaluation score", behind="evaluation_episodes"),
    StatusFact("best_return", "best mean return"),
    StatusFact("policy_lag", "policy lag", "updates"),
    StatusFact("learning_rate", "learning rate", form="{:.2g}".format),
    StatusFact("replay", "replay"),
    StatusFact("memory", "memory", note=_memory_of),
    StatusFact("time_s", "training time", of=lambda status: status.time_s or None, form=duration),
    StatusFact("alive_s", "hours", "h", form=lambda seconds: f"{seconds / 3600:.3g}"),
    StatusFact("cost", "cost", form="{:.2f}".format),
    StatusFact("cost_per_billion_frames", "cost per billion frames", form="{:,.2f}".format),
    StatusFact("device", "device", of=_device_of),
    StatusFact("compiler", "compiler"),
)}  # fmt: skip
