"""How a run is: what a learner measures, what its supervisor knows beside it, and the JSON in which that travels.

    learner ── LearnerPhase, LearnerStatus ──▶ supervisor ── RunStatus ──▶ notebook, and the row in metrics.sqlite

How a status is shown stands in `status_facts`.
"""

from __future__ import annotations

import math
import re
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from functools import cache
from itertools import islice
from typing import Any, Literal, Self, get_args, get_origin, get_type_hints

from workbench.errors import NamesNearest
from workbench.metrics.status_facts import FACTS, exact
from workbench.tables import duration, number, plain

JudgedBy = Literal["", "episode_return", "episode_score", "evaluation_return", "evaluation_score"]  # means of a status
JUDGED = get_args(JudgedBy)[1:]
_ALIVE = ("starting", "training", "paused", "stopping")
_LARGEST = 2.0**63
LONGEST_GAME = 27_000  # steps: Atari's, 108,000 frames
_MOST = 4096  # actors, or parts of anything
_SHORTEST_S = 1e-3  # of training, that has a mean speed
_INDEX = re.compile(r"[0-9]{1,6}")
_ALSO = {int: float, float: int}  # what JSON writes for it
_ODD = object()  # what cannot be of a field


class JsonFields:
    """A dataclass that travels as JSON, under the names of its fields; parts that have an index as an object by it."""

    def to_json(self) -> dict[str, Any]:
        """Plain data; `from_json` is its inverse."""
        return {name: _plain(kind, getattr(self, name)) for name, kind in _kinds(type(self)).items()}

    @classmethod
    def from_json(cls, data: Any, **known: Any) -> Self:
        """What `data` says and can be, where it is not `known` better; the default elsewhere. Raises nothing.

        Files may be damaged or a stranger's, JSON has infinities and integers of any length, and another version may
        have other fields.
        """
        data = data if isinstance(data, dict) else {}
        values = {name: _read(kind, data[name]) for name, kind in _kinds(cls).items() if name in data}
        return cls(**{**{name: value for name, value in values.items() if value is not _ODD}, **known})


_kinds: Callable[[type], dict[str, Any]] = cache(get_type_hints)


def _plain(kind: Any, value: Any) -> Any:
    if get_origin(kind) is not tuple:
        return value
    return {str(part.index): part.to_json() for part in value} if is_dataclass(get_args(kind)[0]) else list(value)


def _read(kind: Any, value: Any) -> Any:
    """`value` as one of that type, or _ODD; of several, the first _MOST without those of another type."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Mapping and isinstance(value, dict):
        parts = {key: _read(inner[1], part) for key, part in islice(value.items(), _MOST)}
        return {key: part for key, part in parts.items() if part is not _ODD}
    if origin is tuple and is_dataclass(inner[0]):
        return parts_from_json(inner[0], value)
    if origin is tuple and isinstance(value, list):
        return tuple(part for part in (_read(inner[0], part) for part in value[:_MOST]) if part is not _ODD)
    if origin is Literal:
        return value if value in inner else _ODD
    kinds = inner if origin is types.UnionType else (kind,)
    fits = type(value) in kinds or _ALSO.get(type(value)) in kinds
    most = sys.float_info.max if float in kinds else _LARGEST
    return value if fits and (not isinstance(value, int | float) or abs(value) <= most) else _ODD


def parts_from_json(cls: Any, data: Any) -> tuple[Any, ...]:
    """Parts of a class with an `index`, in its order, from an object by index."""
    parts = dict(islice(data.items(), _MOST)) if isinstance(data, dict) else {}
    by_index = {int(index): part for index, part in parts.items() if _INDEX.fullmatch(index)}
    return tuple(cls.from_json(by_index[index], index=index) for index in sorted(by_index))


@dataclass(frozen=True)
class ActorStatus(JsonFields):
    """One actor process.

    Attributes:
        alive: whether its process lives.
        restarts: lives after the first.
        last_seen_s: since the learner last heard of it.
        environments: that it steps.
        connected: whether the learner has a stream of it.
        stepping: whether it steps: no group of it waits for the learner.
    """

    index: int
    pid: int | None = None
    alive: bool = False
    restarts: int = 0
    steps: int = 0
    steps_per_second: float = 0.0
    frames_per_second: float = 0.0
    last_seen_s: float | None = None
    environments: int = 0
    connected: bool = False
    stepping: bool = False


@dataclass(frozen=True)
class LearnerPhase(JsonFields):
    """What a learner does now.

    Attributes:
        state: waiting (for a first update in this life, or unrolls to replay), training, paused, finished or stopped.
        reason: why, or "".
        held: whether it is paused because a disk is full, and goes on by itself.
        writing_replay: whether it is writing a checkpoint with its replay.
        floods: sentences about strangers at its port.
        trained: whether it has made an update in this life.
    """

    state: str = "waiting"
    reason: str = ""
    held: bool = False
    writing_replay: bool = False
    floods: tuple[str, ...] = ()
    trained: bool = False


@dataclass(frozen=True, kw_only=True)
class LearnerStatus(JsonFields):
    """What a learner has done, and measured in the last second.

    Attributes:
        episode_return, episode_length: means of the last training episodes, or None before the first: of 100, or of
            one for each environment, if there are more.
        episodes_in_mean: episodes behind `episode_return`; None: not known.
        evaluation_return: the same mean of environments that evaluate.
        evaluation_episodes: episodes behind `evaluation_return`.
        episode_score, evaluation_score: the same means of what the environment itself counts, where it tells a score
            beside a shaped reward; else None.
        judged_by: the one of these four means by which the run is judged (`metrics.collapse`); "": not known yet.
        judged_spread: standard deviation of the episodes behind that mean.
        policy_lag: updates between acting and learning, mean.
        learning_rate: that of now, warm-up and decay included; None: not known.
        replay_unrolls, replay_capacity: unrolls in the replay, and what it holds at most; None without replay.
        device_memory_gb, device_memory_total_gb: GiB in use and there: the accelerator's, or (on a CPU) the learner
            process's and the machine's; None: not known.
        learner_threads: threads of training on a CPU; 0: not known yet.
        compiler: what a device that compiles has compiled, and how exactly it multiplies; "" of other devices.
        bottleneck: share of time that each part waits or works, by part.
        hint: what holds the run back, and what may help, in one sentence.
        warning: what a disk refuses, or "".
        time_s: seconds of training, pauses excluded.
    """

    frames: int = 0
    steps: int = 0
    updates: int = 0
    episodes: int = 0
    frames_per_second: float = 0.0
    steps_per_second: float = 0.0
    updates_per_second: float = 0.0
    episode_return: float | None = None
    episode_length: float | None = None
    episodes_in_mean: int | None = None
    evaluation_return: float | None = None
    evaluation_episodes: int = 0
    episode_score: float | None = None
    evaluation_score: float | None = None
    judged_by: JudgedBy = ""
    judged_spread: float | None = None
    policy_lag: float | None = None
    learning_rate: float | None = None
    replay_unrolls: int | None = None
    replay_capacity: int | None = None
    actors: tuple[ActorStatus, ...] = ()
    device: str = ""
    precision: str = ""
    learner_threads: int = 0
    compiler: str = ""
    device_memory_gb: float | None = None
    device_memory_total_gb: float | None = None
    bottleneck: Mapping[str, float] = field(default_factory=dict)
    time_s: float = 0.0
    hint: str = ""
    warning: str = ""

    def standing_still(self) -> Self:
        """The same with all speeds 0, those of its actors too, and without a hint at what would raise them."""
        actors = tuple(replace(actor, steps_per_second=0.0, frames_per_second=0.0) for actor in self.actors)
        return replace(self, frames_per_second=0.0, steps_per_second=0.0, updates_per_second=0.0, hint="",
                       actors=actors)


NO_END_YET = "no episode has ended yet"


def without_end(*, steps: int, episodes: int, environments: int) -> str:
    """That no episode has ended in as many steps as Atari's longest game takes, in words; "" before, and after one."""
    if episodes or steps < LONGEST_GAME * environments:
        return ""
    return (f"no episode has ended in {steps // environments:,} steps of each environment, and a return comes with an "
            "end: gymnasium.wrappers.TimeLimit gives one to an environment that has none")


def judged_mean(status: LearnerStatus) -> tuple[float | None, int]:
    """The mean by which a run is judged, and the episodes behind it; (None, 0) without one."""
    if not status.judged_by:
        return None, 0
    return getattr(status, status.judged_by), FACTS[status.judged_by].episodes(status) or 0


@dataclass(frozen=True, kw_only=True)
class Spent(JsonFields):
    """What a run has spent in all its lives, and how far its best return reached.

    Attributes:
        alive_s: seconds that the run's supervisor has lived, pauses included.
        cost: those hours at `price_per_hour`.
        first_frames: frames at which the run began, which a fork has from its parent; None: before its first status.
        best_return: the highest mean return so far, of at least 20 episodes, and at how many frames that was; of
            environments that evaluate, if any do. None before it.
    """

    alive_s: float = 0.0
    cost: float = 0.0
    first_frames: int | None = None
    best_return: float | None = None
    best_return_frames: int | None = None


@dataclass(frozen=True, kw_only=True)
class Course(JsonFields):
    """How the mean by which a run is judged went in all its lives (`metrics.collapse`); None before it counts.

    Attributes:
        first_mean: where it began; in a fork, where the first of its ancestors began.
        best_mean, best_mean_frames, best_mean_spread: its highest, at how many frames that was, and the standard
            deviation of the episodes behind it.
        collapsed: whether the run has lost most of what it had gained by then.
    """

    first_mean: float | None = None
    best_mean: float | None = None
    best_mean_frames: int | None = None
    best_mean_spread: float | None = None
    collapsed: bool = False


@dataclass(frozen=True, repr=False)
class RunStatus(LearnerStatus, Spent, Course, NamesNearest):
    """One look at a run: what its learner said last (`LearnerStatus`), what was spent (`Spent`), how its return went
    (`Course`), and the following.

    Attributes:
        state: starting, training, paused, stopping, stopped, finished, failed, or dead: its supervisor is gone.
        reason: why it is in that state or not at full speed, in plain words, with the remedy where there is one.
        error: what made it fail, with the traceback; else None.
        eta_s: seconds until the run finishes by frames, hours or cost at its present speed; None: not known.
        learner_pid, learner_pids: process of the first learner, and of each.
        age_s: seconds since this was true.
        unread: whether its last status could not be read; its counters are then those of its newest checkpoint.
    """

    name: str
    state: str = "starting"
    reason: str = ""
    error: str | None = None
    eta_s: float | None = None
    supervisor_pid: int | None = None
    learner_pid: int | None = None
    learner_pids: tuple[int | None, ...] = ()
    age_s: float = 0.0
    unread: bool = False

    @property
    def alive(self) -> bool:
        """Whether the run goes on: it can be steered."""
        return self.state in _ALIVE

    @property
    def replay(self) -> str:
        """How full the replay is, such as "1,234 of 5,000 unrolls"; "" without one."""
        if self.replay_unrolls is None:
            return ""
        most = "" if self.replay_capacity is None else f" of {self.replay_capacity:,.0f}"
        return f"{self.replay_unrolls:,.0f}{most} unrolls"

    @property
    def speeds(self) -> tuple[float, float] | tuple[None, None]:
        """Frames and steps per second: those of now while it trains, the averages once it has ended."""
        frames, steps = self.frames_per_second, self.steps_per_second
        if self.state != "training":
            seconds = math.inf if self.alive or self.time_s <= _SHORTEST_S else self.time_s
            frames, steps = self.frames / seconds, self.steps / seconds
        return (frames, steps) if frames else (None, None)

    @property
    def steps_are_frames(self) -> bool:
        """Whether every step is one frame, so that one number says both speeds."""
        frames, steps = self.speeds
        return self.frames == self.steps > 0 and (frames is None or steps is None or round(frames) == round(steps))

    @property
    def cost_per_billion_frames(self) -> float | None:
        """The cost so far for each billion of frames so far; None without a price, or without frames."""
        frames = self.frames - (self.first_frames or 0)
        return self.cost / frames * 1e9 if self.cost and frames > 0 else None

    @property
    def speed(self) -> str:
        """The speeds in words, such as "5,000 frames/s (1,250 steps/s)"; "" where there are none."""
        frames, steps = (FACTS[f"{name}_per_second"].said(self) for name in ("frames", "steps"))
        both = f"{frames} = steps/s" if self.steps_are_frames else f"{frames} ({steps})"
        return frames and f"{'' if self.state == 'training' else 'on average '}{both}"

    @property
    def memory(self) -> str:
        """Memory in use and there, such as "1.2 of 80 GiB"; "" where it is not known."""
        if self.device_memory_gb is None:
            return ""
        total = f" of {number(self.device_memory_total_gb)}" if self.device_memory_total_gb else ""
        return f"{number(self.device_memory_gb)}{total} GiB"

    @property
    def left(self) -> str:
        """How long it trains on, such as "about 32 min left"; "" unless it trains."""
        return "" if self.state != "training" or self.eta_s is None else f"about {duration(self.eta_s)} left"

    @property
    def collapse(self) -> str:
        """The collapse in words: "mean return 9, 98 % below its best of 500 at 2,380,000 frames"; "" without one."""
        return self.collapse_in(exact)

    def collapse_in(self, form: Callable[[float], str]) -> str:
        """The same with another form of numbers."""
        if not self.collapsed or self.best_mean is None or not self.judged_by:
            return ""
        (mean, _), best, fact = judged_mean(self), self.best_mean, FACTS[self.judged_by]
        shares = mean is not None and best > 0 <= mean  # of a return below 0 there is no share
        below = f"{1 - mean / best:.0%}".replace("%", " %") if shares and mean is not None else "far"
        frames = FACTS["frames"].written(self.best_mean_frames or 0, form, unit=True)
        return f"{fact.said(self, form)}, {below} below its best of {fact.written(best, form)} at {frames}"

    def line(self) -> str:
        """State, progress and returns in one line, without the name; the replay while it fills."""
        speed = self.speed if self.state == "training" else ""
        replay = ["replay"] if self.replay_unrolls != self.replay_capacity else []
        facts = [FACTS[name].said(self) for name in ("episode_return", "evaluation_return", *replay)]
        if self.state == "training" and self.steps and not self.episodes:
            facts.append(NO_END_YET)
        if self.collapsed and self.best_mean is not None:
            facts.append(f"collapsed from {exact(self.best_mean)}")
        if again := sum(actor.restarts for actor in self.actors):
            facts.append(f"actors began again {'once' if again == 1 else f'{again} times'}")
        parts = [self.state, FACTS["frames"].said(self), speed, *facts, self.left]
        why = self.reason or self.warning
        reason = f": {why.splitlines()[0]}" if why else ""
        return plain(", ".join(part for part in parts if part) + reason)

    def __repr__(self) -> str:
        return f"RunStatus({plain(self.name)}: {self.line()})"
