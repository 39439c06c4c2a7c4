"""Entry of a tracker's process: `python -m workbench _tracker RUN_DIR NAME` follows a run until it has ended.

It outlives the supervisor by five minutes at most: it hands over what the run wrote last, and no end of a run waits
for a network. `_track REQUEST` hands over what there is, once.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
import traceback
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NoReturn

from workbench import trackers
from workbench.errors import InvalidInput, WorkbenchError
from workbench.metrics import MetricsWriter
from workbench.rundir import RunDirectory, lock
from workbench.trackers.history_sender import HistorySender, alone
from workbench.wire.lifeline import leave, leave_error, let_learner_first

INTERVAL_S = 5.0
_LOOK_S = 0.5
_AFTER_S = 300.0  # the end of the run
_HANGS_S = 600.0  # one call of the service's package
_LONGEST = 500  # characters of a service's error


_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)
_IN_ADDRESS = re.compile(r"(?<=://)[^/@\s]+@")


def without_secrets(text: str) -> str:
    """The text without the values of variables such as WANDB_API_KEY, and without names and passwords in addresses."""
    for name, value in os.environ.items():
        if len(value) > 7 and _SECRET.search(name):
            text = text.replace(value, f"<{name}>")
    return _IN_ADDRESS.sub("", text)


def _said(problem: BaseException) -> WorkbenchError:
    """The problem as a line; its traceback goes to the log."""
    print(without_secrets("".join(traceback.format_exception(problem))), file=sys.stderr, flush=True)
    text = str(problem) if isinstance(problem, WorkbenchError) else f"{type(problem).__name__}: {problem}"
    return WorkbenchError(without_secrets(text)[:_LONGEST])


def _give_up(run: RunDirectory, name: str, problem: WorkbenchError) -> NoReturn:
    """End this process; the supervisor says why, or where there is none this process does, in an event."""
    code = leave_error(run.logs / f"tracker-{name}.error.json", problem)
    if not lock.is_alive(run):
        with suppress(WorkbenchError), closing(MetricsWriter(run.metrics)) as writer:
            writer.event("tracker", f"{name} did not take all: {problem}. wb.attach({run.name!r}).track({name!r}) "
                                    "sends the rest")
    leave(code)


class Watch:
    """Ends this process when one call of the service hangs, or long after the end of the run."""

    def __init__(self, run: RunDirectory, name: str) -> None:
        self._run, self._name = run, name
        self.alive_at = self.began_at = time.monotonic()
        threading.Thread(target=self._look, name="watch", daemon=True).start()

    def _look(self) -> None:
        while True:
            time.sleep(_LOOK_S)
            now = time.monotonic()
            with suppress(WorkbenchError):  # a file system without locks for a while
                if lock.is_alive(self._run):
                    self.alive_at = now
            if now - self.began_at > _HANGS_S:
                _give_up(self._run, self._name, WorkbenchError(f"a call has taken longer than {_HANGS_S:g} s"))
            if now - self.alive_at > _AFTER_S:
                _give_up(self._run, self._name,
                         WorkbenchError(f"it took longer than {_AFTER_S:g} s after the run's end"))


def main(run_dir: str, name: str) -> int:
    """Hand the run to the tracker until it has ended and all is handed over; returns the exit code."""
    run = RunDirectory(Path(run_dir))
    let_learner_first()
    watch = Watch(run, name)
    try:
        mine = False
        while not mine and lock.is_alive(run):
            watch.began_at = time.monotonic()
            with alone(run, name, wait_s=INTERVAL_S) as mine:
                if mine:
                    _follow(run, HistorySender(run, name, trackers.by_name(name)), watch)
    except BaseException as problem:
        _give_up(run, name, _said(problem))
    leave(0)


def _follow(run: RunDirectory, sender: HistorySender, watch: Watch) -> None:
    sender.begin()
    ended = False
    while not ended:
        ended = not lock.is_alive(run)  # before the rest is read
        watch.began_at = time.monotonic()
        while sender.send_new():
            watch.began_at = time.monotonic()
        until = time.monotonic() + INTERVAL_S
        while not ended and time.monotonic() < until and lock.is_alive(run):
            time.sleep(_LOOK_S)
            watch.began_at = time.monotonic()
    sender.finish()


def once(request: str) -> int:
    """Hand over what the service does not have yet; prints one line of JSON with `rows` and `where`, or `error`."""
    asked = json.loads(request)
    answer: dict[str, Any]
    try:
        answer = _sent_once(RunDirectory(Path(asked["run"])), asked["tracker"])
    except InvalidInput as problem:
        answer = {"error": {"type": "InvalidInput", "message": str(problem)}}
    except Exception as problem:
        message = f"{asked['tracker']} took nothing more: {_said(problem)}"
        answer = {"error": {"type": "WorkbenchError", "message": message}}
    print(f"\n{json.dumps(answer)}", flush=True)
    sys.stderr.flush()
    leave(0)


def _sent_once(run: RunDirectory, name: str) -> dict[str, Any]:
    with alone(run, name, wait_s=lock.LOOK_S) as mine:
        if not mine:
            raise InvalidInput(f"{run.name} is being sent to {name} already, by a process of its own.")
        sender = HistorySender(run, name, trackers.by_name(name))
        sender.begin()
        while sender.send_new():
            pass
        sender.finish()
        return {"rows": sender.sent, "where": sender.where}
