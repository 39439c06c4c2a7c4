"""Waiting for a run: until it trains, until a target, until it has ended."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from workbench import checkpoints
from workbench.checkpoints import Checkpoint
from workbench.config import Setting
from workbench.errors import RunFailed, RunNotAlive, WaitTimeout, WorkbenchError, by_name
from workbench.metrics.status import RunStatus
from workbench.metrics.status_facts import FACTS
from workbench.rundir import ENDED, lock
from workbench.running.connection import Control
from workbench.running.progress import Progress, interactive
from workbench.supervisor.stopping_rules import LEAST_EPISODES

if TYPE_CHECKING:
    from workbench.launchers.contract import Launched

_POLL_S = 0.2
_ANSWER_S = 5.0  # for the supervisor to say that the learner takes too long
_BOUNDED = (
    Setting("frames", int, None, "", low=0, high=10**15, optional=True),
    Setting("updates", int, None, "", low=0, high=10**12, optional=True),
    Setting("seconds", float, None, "", unit="s", low=0, high=31 * 86_400, optional=True),
)


def _looks(look: Callable[[], RunStatus], timeout_s: float | None) -> Iterator[RunStatus]:
    """Looks at a run, every 0.2 s, the last one when the time is up."""
    deadline = float("inf") if timeout_s is None else time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        yield look()
        time.sleep(min(_POLL_S, max(0.0, deadline - time.monotonic())))
    yield look()


def failure(control: Control) -> WorkbenchError:
    """What made the run fail, in its own class."""
    error = control.directory.read().get("error") or {"type": "RunFailed", "message": "it failed for no known reason"}
    return by_name(error["type"], error["message"])


def until_ready(control: Control, launched: Launched, timeout_s: float, *, progress: bool | None) -> RunStatus:
    """The status once the learner trains. Raises what made the run fail, or WaitTimeout; the run is left alone."""
    name = control.directory.name
    shown = interactive() if progress is None else progress
    with Progress(name, shown=shown) as line:
        for status in _looks(control.status, timeout_s):
            line.show(0, status.line())
            if status.state in ("training", "paused", "finished"):
                return status
            if status.state == "failed":
                raise failure(control)
            if status.state == "stopped":
                raise RunNotAlive(f"{name} was stopped while it started.")
            if status.state == "dead" and launched.poll() is not None:
                raise RunFailed(f"the supervisor of {name} ended while it started. Its log ends:\n{launched.logs()}")
    raise WaitTimeout(
        f"{name} does not train after {timeout_s:g} s: {status.reason or status.state}. "
        f"It goes on; wb.attach({name!r}).status tells more, and its logs are in {control.directory.logs}."
    )


def until(
    control: Control, targets: Mapping[str, float | None], *, timeout_s: float | None, progress: bool | None
) -> RunStatus:
    """The status when the first target is reached; without one, when the run has ended. See `Run.wait`."""
    began = time.monotonic()
    checked = {**targets, **{setting.name: setting.check(targets[setting.name]) for setting in _BOUNDED}}
    wanted = {name: value for name, value in checked.items() if value is not None}
    status = control.status()
    with _bar(control, status, wanted, interactive() if progress is None else progress) as bar:
        for status in _looks(control.status, _first_of(targets["seconds"], timeout_s)):
            waited_s = time.monotonic() - began
            bar.show(_so_far(status, _unit(wanted), waited_s), status.line())
            if _reached(status, wanted, waited_s) and status.state != "failed":
                return status
            if status.state in (*ENDED, "dead"):
                return _ended(control, status, wanted)
    raise WaitTimeout(
        f"{status.name} has not reached {_targets(wanted)} after {timeout_s:g} s; it goes on. Now: {status.line()}"
    )


def _bar(control: Control, status: RunStatus, wanted: dict[str, float], shown: bool) -> Progress:
    unit = _unit(wanted)
    total = wanted.get(unit)
    if not wanted:
        total = control.directory.config().total_frames
    called = "s" if unit == "seconds" else unit
    return Progress(status.name, unit=called, total=total, start=_so_far(status, unit, 0.0), shown=shown)


def _unit(wanted: dict[str, float]) -> str:
    """What the bar counts: the first of these that is a target."""
    return next((unit for unit in ("frames", "updates", "seconds") if unit in wanted), "frames")


def _so_far(status: RunStatus, unit: str, waited_s: float) -> float:
    return waited_s if unit == "seconds" else float(getattr(status, unit))


def _first_of(seconds: float | None, timeout_s: float | None) -> float | None:
    """When to look for the last time."""
    return min((limit_s for limit_s in (seconds, timeout_s) if limit_s is not None), default=None)


def _reached(status: RunStatus, wanted: dict[str, float], waited_s: float) -> bool:
    if waited_s >= wanted.get("seconds", math.inf):
        return True
    return any(
        getattr(status, name) is not None and getattr(status, name) >= target
        for name, target in wanted.items()
        if name != "seconds"
        if (episodes := FACTS[name].episodes(status)) is None or episodes >= LEAST_EPISODES
    )


def _ended(control: Control, status: RunStatus, wanted: dict[str, float]) -> RunStatus:
    """The last status if nothing more was wanted. Raises RunFailed or RunNotAlive."""
    if status.state == "failed":
        error = failure(control)
        raise RunFailed(f"{status.name} failed: {type(error).__name__}: {error}") from error
    if status.state == "dead" or wanted:
        remedy = status.reason if status.state == "dead" else f"wb.resume({status.name!r}) continues it."
        before = f"at {FACTS['frames'].said(status)}, before {_targets(wanted)}"
        raise RunNotAlive(f"{status.name} is {status.state} {before}. {remedy}")
    return status


def _targets(wanted: dict[str, float]) -> str:
    return " or ".join(f"{name}={value:,g}" for name, value in wanted.items()) or "its end"


def until_ended(control: Control, timeout_s: float) -> RunStatus:
    """The status once the run has ended and none of its processes is left. Raises WaitTimeout."""
    held = lock.of_supervisor(control.directory)
    for status in _looks(control.status, timeout_s):
        if status.state in (*ENDED, "dead") and not lock.is_held(held):
            return status
    raise WaitTimeout(f"{status.name} has not ended after {timeout_s:g} s: {status.line()}")


def written_checkpoint(control: Control, reason: str, *, replay: bool | None, timeout_s: float) -> Checkpoint:
    """A checkpoint that the run writes now, for a reason; see `Run.checkpoint`."""
    answer = control.call("checkpoint", timeout_s=timeout_s + _ANSWER_S, reason=reason, replay=replay, wait_s=timeout_s)
    return checkpoints.at(answer["path"])
