"""The actors of a run as a table. Each row has two buttons: restart, and kill (to see how the run reacts)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from workbench.metrics.status import ActorStatus, RunStatus
from workbench.metrics.status_facts import FACTS
from workbench.widgets.views.table import Action, Column, RowTable

if TYPE_CHECKING:
    from workbench.running.handle import Run

COLUMNS = (
    Column("index", "actor", "number", help="number of the actor; its log is logs/actor-N.log"),
    Column("state", "state", "state",
           help="starting: its environments are not connected yet; waiting: for the learner; paused: with the run"),
    Column("last_seen", "last seen", "ago", help="when the learner last received something from the actor"),
    Column("steps_per_second", FACTS["steps_per_second"].title, "number", help="decisions of all its environments"),
    Column("frames_per_second", FACTS["frames_per_second"].title, "number",
           help="the same with repeated actions counted"),
    Column("environments", "environments", "number", help="environments that the actor steps"),
    Column("restarts", "restarts", "number", help="how often the process was started again"),
    Column("pid", "process", "text", help="id of the process"),
)
ACTIONS = (
    Action("restart", "Restart"),
    Action("kill", "Kill", confirm="Kill actor {key}? The run starts it again.", danger=True),
)


class ActorTable:
    """A table of actors that follows the status of their run.

    Attributes:
        view: the widget.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self.view = RowTable(COLUMNS, label="Actors", actions=ACTIONS, on_action=self._do, empty="no actor lives",
                             row="actor {key}").add_class("workbench-actor-table")

    def show(self, status: RunStatus) -> None:
        """Show the actors of a status."""
        self.view.show([_row(actor, status) for actor in status.actors])

    def _do(self, key: str, action: str) -> str:
        self._run.restart_actor(int(key), kill=action == "kill")
        return f"actor {key} is {'killed' if action == 'kill' else 'ended'}; the run starts it again"


def _state(actor: ActorStatus, status: RunStatus) -> str:
    if not actor.alive:
        return "dead" if status.alive else "ended"
    if not actor.environments or not actor.connected:
        return "starting"
    if status.state == "paused":
        return "paused"
    return "alive" if actor.stepping or actor.steps_per_second else "waiting"


def _row(actor: ActorStatus, status: RunStatus) -> dict[str, Any]:
    last_seen = None if actor.last_seen_s is None else round(time.time() - status.age_s - actor.last_seen_s)
    state, moves = _state(actor, status), status.state == "training"
    note = "its process has ended; the run starts it again" if state == "dead" else ""
    return {
        "key": str(actor.index), "index": actor.index, "state": state, "last_seen": last_seen,
        "steps_per_second": round(actor.steps_per_second) or None if moves else None,
        "frames_per_second": round(actor.frames_per_second) or None if moves else None,
        "environments": actor.environments or None, "restarts": actor.restarts, "pid": str(actor.pid or ""),
        "note": note, "actions": [action.name for action in ACTIONS] if actor.alive and status.alive else [],
    }
