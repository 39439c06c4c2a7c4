"""How a run is, as people see it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from typing import Any

from workbench.tables import duration, number, plain

ALIVE = ("starting", "training", "paused", "stopping")
_LARGEST = 2.0**63
_MOST_ACTORS = 4096
_SHORTEST_S = 1e-3  # of training, that a speed is told of
_INDEX = re.compile(r"[0-9]{1,6}")
_KINDS: Mapping[str, tuple[type, ...]] = {
    "int": (int, float), "float": (float, int), "str": (str,), "bool": (bool,), "None": (type(None),),
}  # fmt: skip


@dataclass(frozen=True)
class ActorStatus:
    """One actor process.

    Attributes:
        alive: whether its process lives.
        restarts: lives after the first.
        last_seen_s: since the learner last heard of it.
        environments: that it steps.
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


@dataclass(frozen=True, repr=False)
class RunStatus:
    """One look at a run.

    Attributes:
        state: starting, training, paused, stopping, stopped, finished, failed, or dead: its supervisor is gone.
        reason: why it is in that state or not at full speed, in plain words, with the remedy where there is one.
        error: what made it fail, with the traceback; else None.
        episode_return, episode_length: means of the last 100 training episodes, or None before the first.
        evaluation_return: mean of the last 100 episodes of environments that evaluate, or None before the first.
        evaluation_episodes: episodes behind `evaluation_return`.
        episode_score, evaluation_score: the same means of what the environment itself counts, where it tells a score
            beside a shaped reward; else None.
        policy_lag: updates between acting and learning, mean.
        learning_rate: that of now, warm-up and decay included; None: not known.
        replay_unrolls, replay_capacity: unrolls in the replay, and what it holds at most; None without replay.
        device_memory_gb, device_memory_total_gb: GiB in use and there: the accelerator's, or (on a CPU) the learner
            process's and the machine's; None: not known.
        learner_threads: threads of training on a CPU; 0: not known yet.
        bottleneck: share of time that each part waits or works, by part.
        episodes_in_mean: episodes behind `episode_return`; None: not known.
        hint: what holds the run back, and what may help, in one sentence.
        time_s: seconds of training, pauses excluded.
        alive_s: seconds that the run's supervisor has lived, in all its lives, pauses included.
        cost: those hours at `price_per_hour`.
        best_return: the highest mean return so far, of at least 20 episodes, and at how many frames that was; of
            environments that evaluate, if any do. None before it.
        eta_s: seconds until the run finishes by frames, hours or cost at its present speed; None: not known.
        learner_pid, learner_pids: process of the first learner, and of each.
        age_s: seconds since this was true.
    """

    name: str
    state: str
    reason: str = ""
    error: str | None = None
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
    policy_lag: float | None = None
    learning_rate: float | None = None
    replay_unrolls: int | None = None
    replay_capacity: int | None = None
    actors: tuple[ActorStatus, ...] = ()
    device: str = ""
    precision: str = ""
    learner_threads: int = 0
    device_memory_gb: float | None = None
    device_memory_total_gb: float | None = None
    bottleneck: Mapping[str, float] = field(default_factory=dict)
    time_s: float = 0.0
    alive_s: float = 0.0
    cost: float = 0.0
    best_return: float | None = None
    best_return_frames: int | None = None
    eta_s: float | None = None
    hint: str = ""
    warning: str = ""
    supervisor_pid: int | None = None
    learner_pid: int | None = None
    learner_pids: tuple[int | None, ...] = ()
    age_s: float = 0.0

    @classmethod
    def from_told(cls, name: str, told: Mapping[str, Any], **known_better: Any) -> RunStatus:
        """From what a supervisor said; what this version does not know, or cannot be, is left out."""
        kept = _fitting(cls, told)
        actors = islice(_mapping(told.get("actors")).items(), _MOST_ACTORS)
        said = {int(index): one for index, one in actors if _INDEX.fullmatch(index)}
        pids = told.get("learner_pids")
        found = {
            "name": name, "state": kept.get("state", "starting"),
            "actors": tuple(_actor(index, _mapping(said[index])) for index in sorted(said)),
            "learner_pids": tuple(pids) if isinstance(pids, list | tuple) else (),
            "bottleneck": {key: share for key, share in _mapping(told.get("bottleneck")).items()
                           if type(share) in _KINDS["float"] and _can_be(share)},
        }
        return cls(**{**kept, **found, **known_better})

    @property
    def alive(self) -> bool:
        """Whether the run goes on: it can be steered."""
        return self.state in ALIVE

    @property
    def replay(self) -> str:
        """How full the replay is, such as "1,234 of 5,000 unrolls"; "" without one."""
        if self.replay_unrolls is None:
            return ""
        most = "" if self.replay_capacity is None else f" of {self.replay_capacity:,.0f}"
        return f"{self.replay_unrolls:,.0f}{most} unrolls"

    @property
    def speed(self) -> str:
        """In words: that of now while it trains, the average once it has ended; "" where there is none."""
        if self.state == "training":
            return _speed(self.frames_per_second, self.steps_per_second)
        average = "" if self.alive else _speed(*self.mean_speed)
        return average and f"on average {average}"

    @property
    def mean_speed(self) -> tuple[float, float]:
        """Frames and steps per second of training, over the whole run."""
        return (self.frames / self.time_s, self.steps / self.time_s) if self.time_s > _SHORTEST_S else (0.0, 0.0)

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

    def returns(self, form: Callable[[float], str]) -> list[str]:
        """The means that are known, each with its score: "mean return 3 (score 0.25)"."""
        said = []
        for name in ("episode", "evaluation"):
            title, value = FACTS[f"{name}_return"].title, FACTS[f"{name}_return"].shown(self, form)
            score = FACTS[f"{name}_score"].shown(self, form)
            said += [f"{title} {value}" + (f" (score {score})" if score else "")] if value else []
        return said

    def line(self) -> str:
        """State, progress and returns in one line, without the name; the replay while it fills."""
        speed = self.speed if self.state == "training" else ""
        replay = f"replay {self.replay}" if self.replay and self.replay_unrolls != self.replay_capacity else ""
        parts = [self.state, f"{self.frames:,} frames", speed, *self.returns(exact), replay, self.left]
        reason = f": {self.reason.splitlines()[0]}" if self.reason else ""
        return plain(", ".join(part for part in parts if part) + reason)

    def __repr__(self) -> str:
        return f"RunStatus({plain(self.name)}: {self.line()})"


def _speed(frames_per_second: float, steps_per_second: float) -> str:
    return f"{frames_per_second:,.0f} frames/s ({steps_per_second:,.0f} steps/s)" if frames_per_second else ""


def exact(value: float) -> str:
    """A number for the record: all digits of a count, four of a mean."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


@dataclass(frozen=True)
class Fact:
    """One thing that a status says, for every place that shows it.

    Attributes:
        title: what it is called.
        of: its value; None or "": nothing is to be said.
        behind: of a mean, the episodes behind it; None: not known.
    """

    title: str
    of: Callable[[RunStatus], float | str | None]
    behind: Callable[[RunStatus], int | None] = lambda status: None

    def named(self, status: RunStatus) -> str:
        """The title, with the episodes behind a mean: "evaluation return (40 episodes)"."""
        behind = self.behind(status)
        return f"{self.title} ({number(behind)} episodes)" if behind else self.title

    def shown(self, status: RunStatus, form: Callable[[float], str]) -> str:
        """The value as people read it, numbers in that form; "" where nothing is to be said."""
        value = self.of(status)
        return form(value) if isinstance(value, int | float) else value or ""


_last_trained, _last_evaluated = attrgetter("episodes_in_mean"), attrgetter("evaluation_episodes")
FACTS: Mapping[str, Fact] = {
    "frames": Fact("frames", attrgetter("frames")),
    "steps": Fact("steps", attrgetter("steps")),
    "updates": Fact("updates", attrgetter("updates")),
    "speed": Fact("speed", attrgetter("speed")),
    "episodes": Fact("episodes", attrgetter("episodes")),
    "episode_return": Fact("mean return", attrgetter("episode_return"), _last_trained),
    "episode_score": Fact("mean score", attrgetter("episode_score"), _last_trained),
    "evaluation_return": Fact("evaluation return", attrgetter("evaluation_return"), _last_evaluated),
    "evaluation_score": Fact("evaluation score", attrgetter("evaluation_score"), _last_evaluated),
    "policy_lag": Fact("policy lag, updates", attrgetter("policy_lag")),
    "replay": Fact("replay", attrgetter("replay")),
    "memory": Fact("memory", attrgetter("memory")),
    "time_s": Fact("training time", lambda status: duration(status.time_s) if status.time_s else ""),
    "device": Fact("device", lambda status: f"{status.device} {status.precision}".strip()),
}


def _actor(index: int, said: Mapping[str, Any]) -> ActorStatus:
    return ActorStatus(**{**_fitting(ActorStatus, said), "index": index})


def _mapping(said: Any) -> Mapping[str, Any]:
    return said if isinstance(said, dict) else {}


def _fitting(cls: type, told: Mapping[str, Any]) -> dict[str, Any]:
    """What `told` says of plain fields, where it is of a field's type: files may be damaged, or a stranger's."""
    kinds = {one.name: [kind for part in str(one.type).split(" | ") for kind in _KINDS.get(part, ())]
             for one in dataclasses.fields(cls)}
    return {name: value for name, value in told.items() if type(value) in kinds.get(name, ()) and _can_be(value)}


def _can_be(value: Any) -> bool:
    """Whether a number is one that can be counted or measured: JSON has infinities, and integers of any length."""
    return not isinstance(value, int | float) or abs(value) <= _LARGEST
