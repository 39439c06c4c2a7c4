"""Waiting for a run: until it trains, until a target, until it has ended."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from workbench import checkpoints
from workbench.checkpoints import Checkpoint
from workbench.config import REPLAY_S, Setting
from workbench.errors import InvalidInput, RunFailed, RunNotAlive, RunPaused, WaitTimeout, WorkbenchError, error_of
from workbench.metrics.collapse import LEAST_EPISODES
from workbench.metrics.status import RunStatus
from workbench.metrics.status_facts import FACTS, exact
from workbench.rundir import BY_HAND, ENDED, lock
from workbench.running.connection import Control, resuming
from workbench.running.mending import going_on_mended, going_on_paused
from workbench.running.progress import ProgressBar, interactive, notify
from workbench.tables import plain

if TYPE_CHECKING:
    from workbench.launchers.contract import Launched

_POLL_S = 0.2
_ANSWER_S = 5.0  # for the supervisor to answer that the learner takes too long
_BOUNDED = (
    Setting("frames", int, None, "", low=0, high=10**15, optional=True),
    Setting("steps", int, None, "", low=0, high=10**15, optional=True),
    Setting("updates", int, None, "", low=0, high=10**12, optional=True),
    Setting("seconds", float, None, "", unit="s", low=0, high=31 * 86_400, optional=True),
    *(Setting(f"{kind}_{what}", float, None, "", low=-1e12, high=1e12, optional=True)
      for kind in ("episode", "evaluation") for what in ("return", "score")),
)
TIMEOUT = Setting("timeout_s", float, None, "", unit="s", low=0, high=31 * 86_400, optional=True)


def _statuses(control: Control, timeout_s: float | None) -> Iterator[RunStatus]:
    """The status of a run every 0.2 s, for the last time when the timeout has passed."""
    deadline = float("inf") if timeout_s is None else time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        yield control.status()
        time.sleep(min(_POLL_S, max(0.0, deadline - time.monotonic())))
    yield control.status()


def failure(control: Control) -> WorkbenchError:
    """The error with which the run failed, in its own class."""
    error = control.directory.read().get("error") or {"type": "RunFailed", "message": "it failed for no known reason"}
    return error_of(error)


def ended_early(what: str, process: Launched) -> RunFailed:
    """The error for a process that ended before it did anything."""
    return RunFailed(f"{what} ended while it started. Its log ends:\n{process.logs()}")


def until_ready(control: Control, launched: Launched, timeout_s: float, *, progress: bool | None) -> RunStatus:
    """The status once the learner trains. Raises the run's own error, or WaitTimeout, after which the run goes on."""
    name, preset, began = control.directory.name, control.directory.read().get("preset"), time.monotonic()
    with ProgressBar(name, shown=interactive() if progress is None else progress) as line:
        for status in _statuses(control, timeout_s):
            line.show(0, [_started(status, time.monotonic() - began, preset)])
            if status.state in ("training", "paused", "finished"):
                return status
            if status.state == "failed":
                raise failure(control)
            if status.state == "stopped":
                raise RunNotAlive(f"{name} was stopped while it started.")
            if status.state == "dead" and launched.poll() is not None:
                raise ended_early(f"the supervisor of {name}", launched)
    raise WaitTimeout(
        f"{name} does not train after {timeout_s:g} s: {(status.reason or status.state).rstrip('.')}. "
        f"It goes on; wb.attach({name!r}).status says more, and its logs are in {control.directory.logs}."
    )


def _started(status: RunStatus, waited_s: float, preset: str | None) -> str:
    """The status of a run that starts; once it trains, or fills its replay, words that stay true: a cell keeps them."""
    if status.state != "training":
        return status.line()
    return f"runs in the background after a start of {waited_s:.1f} s" + (f", with preset={preset!r}" if preset else "")


def until(
    control: Control, requested: Mapping[str, float | None], *, timeout_s: float | None, progress: bool | None
) -> RunStatus:
    """The status when the first target is reached; without one, when the run has ended. See `Run.wait`."""
    began, timeout_s = time.monotonic(), TIMEOUT.check(timeout_s)
    checked = {**requested, **{setting.name: setting.check(requested[setting.name]) for setting in _BOUNDED}}
    targets = {name: value for name, value in checked.items() if value is not None}
    limits_s = [limit_s for limit_s in (targets.get("seconds"), timeout_s) if limit_s is not None]
    status, paused = control.status(), False
    with _bar(control, status, targets, interactive() if progress is None else progress) as bar:
        for status in _statuses(control, min(limits_s, default=None)):
            waited_s = time.monotonic() - began
            bar.show(_value(status, _unit(targets), waited_s), list(_facts(status, _unit(targets))), line=status.line())
            if _reached(status, targets, waited_s) and status.state != "failed":
                return status
            _check_scores(status, targets)
            if status.state in (*ENDED, "dead"):
                return _last_status(control, status, targets)
            was_paused, paused = paused, status.state == "paused"
            if not paused:
                continue
            why = control.directory.read().get("paused")  # None: it goes on by itself, once its disk has room
            if why not in (None, BY_HAND) and targets.keys() != {"seconds"}:  # nobody may come to resume it
                raise RunPaused(f"{status.name} paused itself at {FACTS['frames'].said(status)}, before "
                                f"{_in_words(targets)}: {status.reason}. Then wb.attach({status.name!r}).resume() goes "
                                f"on.{going_on_paused(control.directory, why)}")
            if not was_paused:
                notify(f"{status.name} is paused, and the wait goes on{f': {status.reason}' if status.reason else ''}"
                       .rstrip(".") + (f". wb.attach({status.name!r}).resume() ends the pause." if why else "."))
    raise WaitTimeout(
        f"{status.name} has not reached {_in_words(targets)} after {timeout_s:g} s; it goes on. Now: {status.line()}"
    )


def _check_scores(status: RunStatus, targets: dict[str, float]) -> None:
    """Raises InvalidInput where episodes have ended, and the environment told no score of them."""
    for kind in ("episode", "evaluation"):
        told = getattr(status, f"{kind}_return") is None or getattr(status, f"{kind}_score") is not None
        if f"{kind}_score" in targets and not told:
            raise InvalidInput(f"{status.name} never reaches {kind}_score={exact(targets[f'{kind}_score'])}: its "
                               f"environment tells no score. Wait for {kind}_return, or see `metadata[\"score\"]` in "
                               "docs/environments.md.")


def _bar(control: Control, status: RunStatus, targets: dict[str, float], shown: bool) -> ProgressBar:
    unit = _unit(targets)
    total = targets.get(unit) if targets else control.directory.config().total_frames
    symbol = "s" if unit == "seconds" else unit
    return ProgressBar(status.name, unit=symbol, total=total, start=_value(status, unit, 0.0), shown=shown)


def _facts(status: RunStatus, unit: str) -> Iterator[str]:
    """What a bar of that unit says of the run, most important first."""
    if status.state != "training":
        yield status.state
    names = ("episode_return", "evaluation_return", "frames_per_second",
             *(["steps_per_second"] if not status.steps_are_frames else []), *(["frames"] if unit != "frames" else []))
    yield from (fact for name in names if (fact := FACTS[name].said(status)))
    if status.replay_unrolls != status.replay_capacity:
        yield FACTS["replay"].said(status)
    if status.reason:
        yield plain(status.reason.splitlines()[0])


def _unit(targets: dict[str, float]) -> str:
    """The unit of the bar: the first of these that is a target."""
    return next((unit for unit in ("frames", "steps", "updates", "seconds") if unit in targets), "frames")


def _value(status: RunStatus, unit: str, waited_s: float) -> float:
    return waited_s if unit == "seconds" else float(getattr(status, unit))


def _reached(status: RunStatus, targets: dict[str, float], waited_s: float) -> bool:
    if waited_s >= targets.get("seconds", math.inf):
        return True
    return any(
        getattr(status, name) is not None and getattr(status, name) >= target
        for name, target in targets.items()
        if name != "seconds"
        if (episodes := FACTS[name].episodes(status)) is None or episodes >= LEAST_EPISODES
    )


def _last_status(control: Control, status: RunStatus, targets: dict[str, float]) -> RunStatus:
    """The last status of a run that has ended, where nothing but time was waited for. Raises RunFailed or RunNotAlive.
    """
    if status.state == "failed":
        error = failure(control)
        why = f"{status.name} failed: {type(error).__name__}: {error}".rstrip()
        raise RunFailed("\n".join(filter(None, (why, going_on_mended(control.directory, error))))) from error
    if status.state == "dead" or targets.keys() - {"seconds"}:
        remedy = (f": {status.reason}" if status.state == "dead"
                  else f". {resuming(control.directory, status.state)}")
        place = f"at {FACTS['frames'].said(status)}, before {_in_words(targets)}"
        raise RunNotAlive(f"{status.name} is {status.state} {place}{remedy}")
    return status


def _in_words(targets: dict[str, float]) -> str:
    return " or ".join(f"{name}={exact(value)}" for name, value in targets.items()) or "its end"


def until_ended(control: Control, timeout_s: float) -> RunStatus:
    """The status once the run and all its processes have ended. Raises WaitTimeout."""
    lock_path = lock.of_supervisor(control.directory)
    for status in _statuses(control, timeout_s):
        if status.state in (*ENDED, "dead") and not lock.is_held(lock_path):
            return status
    raise WaitTimeout(f"{status.name} has not ended after {timeout_s:g} s: {status.line()}")


def written_checkpoint(control: Control, reason: str, *, replay: bool | None, timeout_s: float | None) -> Checkpoint:
    """A checkpoint that the run writes now; `reason` is recorded with it. See `Run.checkpoint`."""
    timeout_s = REPLAY_S if timeout_s is None else TIMEOUT.check(timeout_s)
    answer = control.call("checkpoint", timeout_s=timeout_s + _ANSWER_S, reason=reason, replay=replay, wait_s=timeout_s)
    return checkpoints.at(answer["path"])
