"""The one table of what a status says: each with its title, unit and format, for every place that shows it.

A place chooses its facts by name and a form for numbers: `exact` in lines, cards and tables, `tables.number` in panels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from workbench.tables import duration, number

if TYPE_CHECKING:
    from workbench.metrics.status import RunStatus

Form = Callable[[float], str]


def exact(value: float) -> str:
    """A number for the record: all digits of a count, four of a mean."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _whole(value: float) -> str:
    return number(round(value))


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.3g}"


@dataclass(frozen=True)
class Fact:
    """One thing that a status says.

    Attributes:
        title: what it is called.
        of: its value; None or "": nothing is to be said.
        unit: of its value, or "".
        form: of its numbers in all places; None: that of the place.
        behind: of a mean, the episodes behind it; None: not known.
        score: of a mean return, the mean score that is said with it.
        note: what stands behind the title of this status.
    """

    title: str
    of: Callable[[RunStatus], float | str | None]
    unit: str = ""
    form: Form | None = None
    behind: Callable[[RunStatus], int | None] = lambda status: None
    score: Callable[[RunStatus], float | None] = lambda status: None
    note: Callable[[RunStatus], str] = lambda status: ""

    def named(self, status: RunStatus) -> str:
        """The title with its unit, and with the episodes behind a mean: "evaluation return (40 episodes)"."""
        unit = f", {self.unit}" if self.unit not in ("", self.title) else ""
        behind = self.behind(status)
        return f"{self.title}{unit}{f' ({number(behind)} episodes)' if behind else self.note(status)}"

    def written(self, value: float | str | None, form: Form = exact) -> str:
        """A value as people read it; "" where nothing is to be said."""
        return (self.form or form)(value) if isinstance(value, int | float) else value or ""

    def with_unit(self, value: float | str | None, form: Form = exact) -> str:
        """A value with its unit, such as "1,000 frames"; "" where nothing is to be said."""
        text = self.written(value, form)
        return text and f"{text} {self.unit}".rstrip()

    def shown(self, status: RunStatus, form: Form = exact) -> str:
        """The value in that status, as people read it; "" where nothing is to be said."""
        return self.written(self.of(status), form)

    def said(self, status: RunStatus, form: Form = exact) -> str:
        """The value in a sentence: "1,000 frames", "mean return 3 (score 0.25)"; "" where nothing is to be said."""
        text, score = self.with_unit(self.of(status), form), self.score(status)
        title = "" if self.title == self.unit else f"{self.title} "
        return text and f"{title}{text}{'' if score is None else f' (score {form(score)})'}"


def _average(status: RunStatus) -> str:
    return "" if status.state == "training" else ", on average"


FACTS: Mapping[str, Fact] = {
    "frames": Fact("frames", attrgetter("frames"), "frames"),
    "steps": Fact("steps", attrgetter("steps"), "steps"),
    "updates": Fact("updates", attrgetter("updates"), "updates"),
    "speed": Fact("speed", attrgetter("speed")),
    "frames_per_second": Fact(
        "frames/s", lambda status: status.speeds[0] or None, "frames/s", form=_whole, note=_average),
    "steps_per_second": Fact(
        "steps/s", lambda status: status.speeds[1] if status.speeds[0] else None, "steps/s", form=_whole,
        note=_average),
    "updates_per_second": Fact(
        "updates/s", lambda status: (status.updates_per_second or None) if status.state == "training" else None,
        "updates/s"),
    "episodes": Fact("episodes", attrgetter("episodes"), "episodes"),
    "episode_return": Fact("mean return", attrgetter("episode_return"), behind=attrgetter("episodes_in_mean"),
                           score=attrgetter("episode_score")),
    "episode_score": Fact("mean score", attrgetter("episode_score"), behind=attrgetter("episodes_in_mean")),
    "evaluation_return": Fact("evaluation return", attrgetter("evaluation_return"),
                              behind=attrgetter("evaluation_episodes"), score=attrgetter("evaluation_score")),
    "evaluation_score": Fact("evaluation score", attrgetter("evaluation_score"),
                             behind=attrgetter("evaluation_episodes")),
    "best_return": Fact("best mean return", attrgetter("best_return")),
    "policy_lag": Fact("policy lag", attrgetter("policy_lag"), "updates"),
    "learning_rate": Fact("learning rate", attrgetter("learning_rate"), form="{:.2g}".format),
    "replay": Fact("replay", attrgetter("replay")),
    "memory": Fact("memory", attrgetter("memory"), note=lambda status: (
        f" of {'the learner (cpu)' if status.device == 'cpu' else status.device}")),
    "time_s": Fact("training time", lambda status: status.time_s or None, form=duration),
    "alive_s": Fact("hours", attrgetter("alive_s"), "h", form=_hours),
    "cost": Fact("cost", attrgetter("cost"), form="{:.2f}".format),
    "device": Fact("device", lambda status: f"{status.device} {status.precision}".strip()),
}  # fmt: skip
