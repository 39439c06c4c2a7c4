"""Hands a run's history to one tracker, each row once, and remembers in the run's directory how far that went.

`trackers/<name>.json` of the run has the identity of the service's run and the place in the history. A batch is written
beside it before it is handed over and removed after it: a process that died in between leaves the batch, which the next
one hands over again, as the same rows with the same numbers. No key is ever written there.
"""

from __future__ import annotations

import dataclasses
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from workbench.metrics import MetricsReader
from workbench.rundir import ENDED, RunDirectory, lock
from workbench.rundir.files import content, make_private, read_record, write_atomically, write_record
from workbench.trackers.contract import Row, TrackedRun, Tracker
from workbench.trackers.unsent import HistoryPlace, batch

_LARGEST_BATCH = 2**28  # bytes


class HistorySender:
    """One tracker of one run. Not for several processes at once: `alone` guards that.

    Attributes:
        where: what the tracker said of its run's place.
        sent: rows handed over by this object.
    """

    def __init__(self, run: RunDirectory, name: str, tracker: Tracker) -> None:
        self._run, self._tracker = run, tracker
        self._reader = MetricsReader(run.metrics)
        self._record, self._batch = run.trackers / f"{name}.json", run.trackers / f"{name}.batch.json"
        make_private(self._record.parent)
        stored = read_record(self._record) if self._record.exists() else {}
        self._identity = str(stored.get("identity") or f"{run.name}-{secrets.token_hex(4)}")
        self._place = HistoryPlace(stored.get("rows", {}), int(stored.get("event", 0)), int(stored.get("sent", 0)),
                                   stored.get("first"))
        self._created = float(run.read()["created"])
        self.where, self.sent = "", 0

    def begin(self) -> None:
        """Begin, or go on with, the service's run; then hand over what a process that died may have handed over."""
        self._remember(self._place)
        self.where = self._tracker.begin(_described(self._run, self._identity, self._created))
        if self._batch.exists():
            data = json.loads(content(self._batch, largest=_LARGEST_BATCH))
            self._hand_over([Row(**row) for row in data["rows"]], HistoryPlace(**data["place"]), again=True)

    def send_new(self) -> bool:
        """Hand over the next batch, if anything is new; returns whether something was."""
        rows, place = batch(self._reader, self._place, created=self._created)
        if place == self._place:
            return False
        data = {"rows": [dataclasses.asdict(row) for row in rows], "place": dataclasses.asdict(place)}
        write_atomically(self._batch, json.dumps(data).encode())
        self._hand_over(rows, place, again=False)
        return True

    def finish(self) -> None:
        """End the service's run as this run has ended, or leave it as one that runs."""
        alive, state = lock.is_alive(self._run), self._run.read()["state"]  # in this order: it may end meanwhile
        unended = "running" if alive else "dead"
        self._tracker.finish(state if state in ENDED else unended)

    def _hand_over(self, rows: list[Row], place: HistoryPlace, *, again: bool) -> None:
        self._tracker.send(rows, again=again)
        self._remember(place)
        self._batch.unlink()
        self._place, self.sent = place, self.sent + len(rows)

    def _remember(self, place: HistoryPlace) -> None:
        write_record(self._record, {"identity": self._identity, **dataclasses.asdict(place)})


@contextmanager
def alone(run: RunDirectory, name: str, *, wait_s: float) -> Iterator[bool]:
    """Within the block no other process hands this run to that tracker; yields whether that is so after `wait_s`."""
    make_private(run.trackers)
    with lock.held(run.trackers / f"{name}.lock", wait_s=wait_s) as mine:
        yield mine


def _described(run: RunDirectory, identity: str, created: float) -> TrackedRun:
    record, config = run.read(), run.config()
    fields: dict[str, Any] = {name: config.value(name) for name in config.all_settings()}
    facts = {**record.get("machine", {}), **record.get("versions", {})}
    tags = {"environment": config.environment, "algorithm": config.algorithm,
            **{str(name): str(value) for name, value in facts.items()}}
    return TrackedRun(run.name, identity, created, fields, tags)
