"""Population-based training (Jaderberg et al. 2017, arXiv 1711.09846): a sweep whose runs replace each other.

All runs of the population train for a generation, `parallel` at a time, and end there. Then each of the worst quarter
is replaced by a fork of one of the best quarter, with weights, optimizer and counters, and slightly changed fields. So
a field may follow a schedule. The replacements are written to the study in one piece before they are carried out, so a
process that takes over from a killed one completes them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench import checkpoints
from workbench.errors import RunNotFound, WorkbenchError
from workbench.rundir import RunDirectory, lock
from workbench.rundir.dated_lines import print_dated
from workbench.running.connection import stored_status
from workbench.running.handle import Run
from workbench.running.starts.fork import forked
from workbench.sweeping import study
from workbench.sweeping.objective import MARKS, MetricCurve
from workbench.sweeping.space import Entry, Space, Span, from_json
from workbench.sweeping.sweeper import PERIOD_S, Sweeper
from workbench.sweeping.trial import DELETED, WatchedTrial, has_trained

GENERATIONS = (3, 9, 27)  # divisors of a run's 27 marks
LEAST_MEMBERS = 2

_SHARE = 0.25  # truncation selection: of the population, on either side
_RESAMPLE = 0.25  # probability that a field is drawn anew
_FACTORS = (0.8, 1.25)  # by which a field on a logarithmic scale changes
_STEP = 0.1  # of the span, by which a field on a linear scale changes
_PLAN = "population"  # attribute of the study: {"generation": in training, "born": the trials that begin with it}


def explored(fields: Mapping[str, Any], space: Space, chance: np.random.Generator) -> dict[str, Any]:
    """The fields, each changed a little or, with probability 0.25, drawn anew; all inside the space."""
    return {name: _moved(entry, fields[name], chance) for name, entry in space.items()}


def _moved(entry: Entry, value: Any, chance: np.random.Generator) -> Any:
    anew, up = chance.random() < _RESAMPLE, bool(chance.integers(2))
    if not isinstance(entry, Span):
        return entry.values[chance.integers(len(entry.values))] if anew else value
    if anew:
        return entry.at(chance.random())
    step = _STEP * (entry.high - entry.low)
    moved = value * _FACTORS[up] if entry.log else value + (step if up else -step)
    if entry.whole and round(moved) == value:
        moved = value + (1 if moved > value else -1)
    return entry.nearest(moved)


def replaced(values: Mapping[int, float | None], goal: str, members: int, chance: np.random.Generator) -> list[
    tuple[int | None, int]
]:
    """The replacements as pairs: the number of the trial to replace, or None for a lost one, and that of its parent.

    Args:
        values: by number, of the remaining members; None counts as the worst.
        members: size of the whole population.
    """
    sign = 1.0 if goal == "max" else -1.0
    valued = {number: sign * value for number, value in values.items() if value is not None}
    best = sorted(valued, key=lambda number: -valued[number])
    ranked = [*best, *(number for number in values if number not in valued)]
    share = max(1, round(members * _SHARE))
    good = best[: min(share, max(1, len(ranked) // 2))]
    bad = [number for number in ranked[max(len(good), len(ranked) - share):] if number not in good]
    gone: list[int | None] = [None] * (members - len(ranked))
    return [(number, good[chance.integers(len(good))]) for number in [*bad, *gone]] if good else []


class Population(Sweeper):
    """Trains generation after generation, until the last or a request to stop."""

    def _go_on(self) -> dict[str, Any] | None:
        members = self._members()
        while not self._sweep.order_to_stop.exists():
            generation = int(self._study.user_attrs.get(_PLAN, {"generation": 0})["generation"])
            waiting = [member for member in members if not self._has_trained(member, generation)]
            members = self._train(members, waiting, generation)
            if self._sweep.order_to_stop.exists():
                break
            done = self._is_last(generation) or not members  # runs of few frames reach their end in an earlier one
            if done and any(trial.state == "finished" for trial in self._ended()):
                return {"state": "finished"}
            if not members:
                error = self._hopeless() or f"no run of the population is left; see {self._sweep.log}"
                return {"state": "failed", "error": {"type": "RunFailed", "message": error}}
            self._decide(members, generation)
            members = self._members()
        return None

    # --- training -----------------------------------------------------------------------------------------------

    def _end(self, generation: int) -> int:
        """Frames at which a generation ends."""
        return self._config.total_frames * (generation + 1) // int(self._record["generations"])

    def _members(self) -> list[WatchedTrial]:
        """All running members, after creating the planned successors."""
        self._create_successors()
        while self._begun() < self._record["members"]:
            self._study.ask(self._ranges)
        members = [self._member(trial.number) for trial in self._study.get_trials(deepcopy=False)
                   if trial.state.name == "RUNNING"]
        return [member for member in members if member is not None]

    def _member(self, number: int) -> WatchedTrial | None:
        """The member of a trial, after creating its run if it never had one; None if that failed."""
        run = self._sweep.run(number)
        trial = study.under_way(self._study, number, self._ranges)
        try:
            self._provide(trial, run)
        except study.refusals():
            raise
        except WorkbenchError as error:
            self._record_failure(self._watch(trial, run), error)
            return None
        return self._watch(trial, run)

    def _make(self, trial: Any, run: RunDirectory) -> None:
        if "of" in trial.user_attrs:
            self._fork(trial, run)
        else:
            self._create(run, {**trial.params, "total_frames": self._end(0)}, "stopped")

    def _fork(self, trial: Any, new: RunDirectory) -> None:
        """Create a successor's run: a fork of its parent at the end of the previous generation."""
        source, generation = self._sweep.run(trial.user_attrs["of"]), trial.user_attrs["born"][0]
        frames = self._end(generation - 1)
        checkpoint = next((each for each in checkpoints.every(source.checkpoints) if each.frames >= frames), None)
        if checkpoint is None:
            raise RunNotFound(f"{source.name}, the parent of this fork, has no checkpoint at {frames:,} frames")
        note = f"a fork of {source.name} at {checkpoint.frames:,} frames"
        trial.set_user_attr("note", note)
        forked(Run(source), checkpoint, self._place, name=new.name, state="stopped",
               changes={**trial.params, "total_frames": self._end(generation)}).write(sweep=self._sweep.name)
        print_dated(f"{new.name}: {note}: {trial.params}")

    def _is_last(self, generation: int) -> bool:
        return generation == int(self._record["generations"]) - 1

    def _has_trained(self, member: WatchedTrial, generation: int) -> bool:
        """Whether it has ended a generation before the last, and has no process left."""
        if self._is_last(generation):
            return False  # in the last one its trial ends instead
        try:
            status = stored_status(member.run)
        except RunNotFound:
            return False
        return has_trained(member.run, status, self._end(generation)) and not lock.is_alive(member.run)

    def _train(
        self, members: Sequence[WatchedTrial], waiting: list[WatchedTrial], generation: int
    ) -> list[WatchedTrial]:
        """Train the waiting members to the end of the generation, and return the remaining members."""
        remaining, self._watched = list(members), []
        while (waiting or self._watched) and not self._sweep.order_to_stop.exists():
            if waiting and self._has_room(self._watched):
                member = waiting.pop(0)
                if self._ensure_started(member, generation):
                    self._watched.append(member)
                else:
                    remaining.remove(member)
            if not waiting:
                self._last = []
            for member in list(self._watched):
                over = self._over(member)
                if over or self._has_trained(member, generation):
                    self._watched.remove(member)
                if over and member.verdict != "finished":
                    remaining.remove(member)
            time.sleep(PERIOD_S)
        return remaining

    def _ensure_started(self, member: WatchedTrial, generation: int) -> bool:
        """Begin its run, or go on with it, unless an earlier process has. Returns False if that failed."""
        member.end = self._end(generation)
        try:
            status = stored_status(member.run)
            end = member.run.config().total_frames  # of an earlier generation, unless it has begun this one
            goes_on = status.state in ("starting", "training", "paused", "dead")
            under_way = goes_on and not has_trained(member.run, status, end)
            if member.verdict or under_way or has_trained(member.run, status, member.end):
                return True
            member.begin(total_frames=member.end)
        except study.refusals():
            raise
        except RunNotFound:
            self._record_failure(member, RunNotFound(DELETED))
            return False
        except WorkbenchError as error:
            self._record_failure(member, error)
            return False
        return True

    # --- selection ----------------------------------------------------------------------------------------------

    def _decide(self, members: Sequence[WatchedTrial], generation: int) -> None:
        """Choose the replacements, and write them to the study with the next generation."""
        mark = (generation + 1) * MARKS // int(self._record["generations"])
        chance = np.random.default_rng([self._record["seed"], generation])
        since = self._end(generation - 1)  # a fork has no rows before it, where its parent was worse
        metric, total = self._record["metric"], self._config.total_frames
        values = {member.trial.number: _value(member.run, metric, total, mark, since) for member in members}
        fields = {member.trial.number: member.trial.params for member in members}
        space = from_json(self._record["space"])
        successors = [{"instead": instead, "of": of, "fields": explored(fields[of], space, chance)}
                for instead, of in replaced(values, self._record["goal"], self._record["members"], chance)]
        self._study.set_user_attr(_PLAN, {"generation": generation + 1, "born": successors})

    def _create_successors(self) -> None:
        """Carry out the planned replacements that are not complete yet."""
        plan = self._study.user_attrs.get(_PLAN, {"generation": 0, "born": []})
        for place, successor in enumerate(plan["born"]):
            trials = {tuple(trial.user_attrs["born"]): trial for trial in self._study.get_trials(deepcopy=False)
                     if "born" in trial.user_attrs}
            key = plan["generation"], place
            if key not in trials:
                self._study.enqueue_trial(successor["fields"], user_attrs={"born": list(key), "of": successor["of"]})
            if key not in trials or trials[key].state.name == "WAITING":
                self._begin_successor(key)
            number = next(trial.number for trial in self._study.get_trials(deepcopy=False)
                          if tuple(trial.user_attrs.get("born", ())) == key)
            self._replace_by(number, successor, plan["generation"])
        self._sweep.write(trials=max(self._record["members"], self._begun()))

    def _begin_successor(self, key: tuple[int, int]) -> None:
        """Begin the enqueued trial: the study returns it to the next request."""
        trial = self._study.ask(self._ranges)
        assert tuple(trial.user_attrs.get("born", ())) == key, (trial.user_attrs, key)

    def _replace_by(self, number: int, successor: Mapping[str, Any], generation: int) -> None:
        """Create a successor's run, and count the trial that it replaces as pruned."""
        if self._state(number) == "RUNNING":
            self._member(number)
        instead = successor["instead"]
        if instead is None or self._state(instead) != "RUNNING" or self._state(number) == "FAIL":
            return  # without a fork the old member stays
        old = self._member(instead)
        if old is not None:
            source, new, frames = self._sweep.run(successor["of"]), self._sweep.run(number), self._end(generation - 1)
            old.replace(f"replaced by {new.name}, a fork of {source.name}, at {frames:,} frames")

    def _state(self, number: int) -> str:
        return str(self._study.get_trials(deepcopy=False)[number].state.name)


def _value(run: RunDirectory, metric: str, total_frames: int, mark: int, since: int) -> float | None:
    curve = MetricCurve(run, metric, total_frames)
    curve.follow()
    return curve.value(mark, since=since)
