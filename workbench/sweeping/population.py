"""Population-based training (Jaderberg et al. 2017, arXiv 1711.09846): a sweep whose runs take over from each other.

All runs of the population train for a generation, as many at a time as asked for, and end there. Then each of the worst
quarter is replaced by a fork of one of the best quarter, with weights, optimizer and counters, whose fields are changed
a little. What a field should be may therefore change while it learns. Which run is replaced by what is written to the
study first, in one piece, and done afterwards; whoever takes over from a process that was killed does what is left.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench import checkpoints
from workbench.errors import RunNotFound, WorkbenchError
from workbench.rundir import RunDirectory, lock
from workbench.running.connection import stored_status
from workbench.running.fork import forked
from workbench.running.handle import Run
from workbench.sweeping import study
from workbench.sweeping.objective import MARKS, Curve
from workbench.sweeping.space import Entry, Space, Span, from_json
from workbench.sweeping.sweeper import PERIOD_S, Sweeper, say
from workbench.sweeping.trial import DELETED, Watched, go_on

GENERATIONS = (3, 9, 27)  # numbers of them that divide a run's 27 marks
LEAST_MEMBERS = 2

_SHARE = 0.25  # truncation selection: of the population, on either side
_DRAWN_ANEW = 0.25  # chance of a field's
_FACTORS = (0.8, 1.25)  # of a field on a logarithmic scale
_STEP = 0.1  # of the span, on a linear one
_PLAN = "population"  # attribute of the study: {"generation": that is trained now, "born": what begins with it}


def explored(fields: Mapping[str, Any], space: Space, chance: np.random.Generator) -> dict[str, Any]:
    """The fields, each moved a little or, now and then, drawn anew; all inside the space."""
    return {name: _moved(entry, fields[name], chance) for name, entry in space.items()}


def _moved(entry: Entry, value: Any, chance: np.random.Generator) -> Any:
    anew, up = chance.random() < _DRAWN_ANEW, bool(chance.integers(2))
    if not isinstance(entry, Span):
        return entry.values[chance.integers(len(entry.values))] if anew else value
    if anew:
        return entry.at(chance.random())
    step = _STEP * (entry.high - entry.low)
    found = value * _FACTORS[up] if entry.log else value + (step if up else -step)
    if entry.whole and round(found) == value:
        found = value + (1 if found > value else -1)
    return entry.nearest(found)


def replaced(values: Mapping[int, float | None], goal: str, members: int, chance: np.random.Generator) -> list[
    tuple[int | None, int]
]:
    """Who is replaced by a copy of whom: (number of a trial, or None for one that is gone already, number).

    Args:
        values: of the members that are left, by number; None: it has none, which is worse than any.
        members: of the whole population.
    """
    sign = 1.0 if goal == "max" else -1.0
    best = sorted((one for one in values if values[one] is not None), key=lambda one: -sign * float(values[one] or 0.0))
    ranked = [*best, *(one for one in values if values[one] is None)]
    share = max(1, round(members * _SHARE))
    good = best[: min(share, max(1, len(ranked) // 2))]
    bad = [one for one in ranked[max(len(good), len(ranked) - share):] if one not in good]
    gone: list[int | None] = [None] * (members - len(ranked))
    return [(one, good[chance.integers(len(good))]) for one in [*bad, *gone]] if good else []


@dataclass
class _Member:
    """A member of the population: its trial's number, its run, and who looks at it while it trains."""

    number: int
    run: RunDirectory
    watched: Watched


class Population(Sweeper):
    """Trains generation after generation, until the last or until somebody asks it to stop."""

    def _go_on(self) -> dict[str, Any] | None:
        members = self._members()
        while not self._sweep.order_to_stop.exists():
            generation = self._generation
            waiting = [one for one in members if not self._through(one, generation)]
            members = self._train(members, waiting, generation)
            if self._sweep.order_to_stop.exists():
                break
            if self._is_last(generation) and any(one.state == "finished" for one in self._ended()):
                return {"state": "finished"}
            if not members:
                error = self._hopeless() or f"no run of the population is left; see {self._sweep.log}"
                return {"state": "failed", "error": {"type": "RunFailed", "message": error}}
            self._decide(members, generation)
            members = self._members()
        return None

    # --- training -----------------------------------------------------------------------------------------------

    @property
    def _generation(self) -> int:
        return int(self._study.user_attrs.get(_PLAN, {"generation": 0})["generation"])

    def _end(self, generation: int) -> int:
        """Frames at which a generation ends."""
        return self._config.total_frames * (generation + 1) // int(self._record["generations"])

    def _members(self) -> list[_Member]:
        """All that are under way, those that are to be born included."""
        self._bear()
        while self._begun() < self._record["members"]:
            self._study.ask(self._ranges)
        found = []
        for one in self._study.get_trials(deepcopy=False):
            if one.state.name == "RUNNING":
                found.append(self._member(one.number))
        return [one for one in found if one is not None]

    def _member(self, number: int) -> _Member | None:
        """The member of that number, whose run is made where it has had none yet; None: it has none, and has failed."""
        run = self._sweep.run(number)
        trial = study.under_way(self._study, number, self._ranges)
        try:
            self._provide(trial, run)
        except study.refusals():
            raise
        except WorkbenchError as error:
            self._failed(trial, run, error)
            return None
        return _Member(number, run, Watched(
            self._study, trial, run, self._record["metric"], self._config.total_frames))

    def _make(self, trial: Any, run: RunDirectory) -> None:
        if "of" in trial.user_attrs:
            self._fork(trial, run)
        else:
            self._created(run, {**trial.params, "total_frames": self._end(0)}, "stopped")

    def _fork(self, trial: Any, new: RunDirectory) -> None:
        """The run of a trial that begins with a later generation: a fork of another's end of the one before."""
        source, generation = self._sweep.run(trial.user_attrs["of"]), trial.user_attrs["born"][0]
        frames = self._end(generation - 1)
        reached = next((each for each in checkpoints.every(source.checkpoints) if each.frames >= frames), None)
        if reached is None:
            raise RunNotFound(f"{source.name}, which it is to be a fork of, has no checkpoint at {frames:,} frames")
        note = f"a fork of {source.name} at {reached.frames:,} frames"
        trial.set_user_attr("note", note)
        forked(Run(source), reached, self._place, name=new.name, state="stopped",
               changes={**trial.params, "total_frames": self._end(generation)}).write(sweep=self._sweep.name)
        say(f"{new.name}: {note}: {trial.params}")

    def _is_last(self, generation: int) -> bool:
        return generation == int(self._record["generations"]) - 1

    def _through(self, one: _Member, generation: int) -> bool:
        """Whether it has trained to the end of a generation that is not the last, and no process of it is left."""
        if self._is_last(generation):
            return False  # it is through once it is counted
        try:
            status = stored_status(one.run)
        except RunNotFound:
            return False
        return status.state == "finished" and status.frames >= self._end(generation) and not lock.is_alive(one.run)

    def _train(self, members: Sequence[_Member], waiting: list[_Member], generation: int) -> list[_Member]:
        """Train those that wait to the end of the generation; the members that are left, unless asked to stop."""
        left, training = list(members), list[_Member]()
        self._watched = []
        while (waiting or training) and not self._sweep.order_to_stop.exists():
            if waiting and len(training) < self._record["parallel"]:
                one = waiting.pop(0)
                if self._started(one, generation):
                    training.append(one)
                    self._watched.append(one.watched)
                else:
                    left.remove(one)
            if not waiting:
                self._last = []
            for one in list(training):
                over = self._over(one.watched)
                if over or self._through(one, generation):
                    training.remove(one)
                if over and one.watched.verdict != "finished":
                    left.remove(one)
            self._watched = [one.watched for one in training]
            time.sleep(PERIOD_S)
        return left

    def _started(self, one: _Member, generation: int) -> bool:
        """Start its run, which goes on where it is, unless an earlier process has; False if that cannot be."""
        one.watched.end = self._end(generation)
        try:
            status = stored_status(one.run)
            if one.watched.verdict or status.state in ("starting", "training", "paused") or (
                status.state == "finished" and status.frames >= one.watched.end
            ):
                return True
            go_on(one.run, total_frames=self._end(generation))
        except study.refusals():
            raise
        except RunNotFound:
            self._failed(one.watched.trial, one.run, RunNotFound(DELETED))
            return False
        except WorkbenchError as error:
            self._failed(one.watched.trial, one.run, error)
            return False
        return True

    # --- selection ----------------------------------------------------------------------------------------------

    def _decide(self, members: Sequence[_Member], generation: int) -> None:
        """Choose who is replaced by a copy of whom, and write it down with the next generation."""
        mark = (generation + 1) * MARKS // int(self._record["generations"])
        chance = np.random.default_rng([self._record["seed"], generation])
        values = {one.number: _value(one.run, self._record["metric"], self._config.total_frames, mark)
                  for one in members}
        fields = {one.number: one.watched.trial.params for one in members}
        space = from_json(self._record["space"])
        born = [{"instead": instead, "of": of, "fields": explored(fields[of], space, chance)}
                for instead, of in replaced(values, self._record["goal"], self._record["members"], chance)]
        self._study.set_user_attr(_PLAN, {"generation": generation + 1, "born": born})

    def _bear(self) -> None:
        """Do what was written down and is not done yet."""
        plan = self._study.user_attrs.get(_PLAN, {"generation": 0, "born": []})
        for place, one in enumerate(plan["born"]):
            known = {tuple(trial.user_attrs["born"]): trial for trial in self._study.get_trials(deepcopy=False)
                     if "born" in trial.user_attrs}
            key = plan["generation"], place
            if key not in known:
                self._study.enqueue_trial(one["fields"], user_attrs={"born": list(key), "of": one["of"]})
            if key not in known or known[key].state.name == "WAITING":
                self._ask_for(key)
            number = next(trial.number for trial in self._study.get_trials(deepcopy=False)
                          if tuple(trial.user_attrs.get("born", ())) == key)
            self._copy(number, one, plan["generation"])
        self._sweep.write(trials=max(self._record["members"], self._begun()))

    def _ask_for(self, key: tuple[int, int]) -> None:
        """Let the trial that waits be under way: the study gives it to whoever asks next."""
        asked = self._study.ask(self._ranges)
        assert tuple(asked.user_attrs.get("born", ())) == key, (asked.user_attrs, key)

    def _copy(self, number: int, one: Mapping[str, Any], generation: int) -> None:
        """See to the run of a trial that begins with this generation; who is replaced by it is counted."""
        if self._state(number) == "RUNNING":
            self._member(number)
        if one["instead"] is None or self._state(one["instead"]) != "RUNNING" or self._state(number) == "FAIL":
            return  # who should have been replaced goes on where there is no fork
        old = self._member(one["instead"])
        if old is not None:
            source, new, frames = self._sweep.run(one["of"]), self._sweep.run(number), self._end(generation - 1)
            old.watched.replace(f"replaced by {new.name}, a fork of {source.name}, at {frames:,} frames")

    def _state(self, number: int) -> str:
        return str(self._study.get_trials(deepcopy=False)[number].state.name)


def _value(run: RunDirectory, metric: str, total_frames: int, mark: int) -> float | None:
    curve = Curve(run, metric, total_frames)
    curve.follow()
    return curve.value(mark)
