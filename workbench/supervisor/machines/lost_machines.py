"""What a run does before a machine of it is taken back: a spot machine by its cloud, a node by its cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.errors import WorkbenchError
from workbench.supervisor.endings import Outcome
from workbench.supervisor.machines.spot_notices import Notice
from workbench.supervisor.supervisor import Supervisor

if TYPE_CHECKING:
    from workbench.supervisor.machines.ray_notices import Drain

_LEAVE_S = 4.0  # of the time before a machine is taken back, for what comes after the checkpoint


def taken_back(supervisor: Supervisor, notice: Notice) -> None:
    """Write a checkpoint before the supervisor's machine goes. A run on a cluster then moves, as with any lost node;
    another stops, and is resumed on the next machine."""
    words, within_s = notice.words, max(1.0, notice.seconds - _LEAVE_S)
    if supervisor.config.launcher != "ray":
        how = "stopped in time; wb.resume goes on, on the next machine"
        supervisor.end(Outcome("stopped", f"{words}: {how}", timeout_s=within_s, ended_by="notice"))
        return
    try:
        supervisor.ask_learner("checkpoint", timeout_s=within_s, reason="spot")
        supervisor.event("checkpoint", f"{words}: a checkpoint is written; the run moves when its node is gone")
    except WorkbenchError as error:
        supervisor.event("error", f"{words}, and no checkpoint was written: {error}")


def drained(supervisor: Supervisor, drain: Drain) -> None:
    """Leave a node that its cluster takes away: actors start elsewhere at once; for the learner or the supervisor a
    checkpoint is written, and they move when the node is gone."""
    actors = [name for name in drain.names if name.startswith("actor-")]
    if actors:
        supervisor.event("drain", f"{drain}: its actors start elsewhere")
    for name in actors:
        supervisor.restart_actor(int(name.removeprefix("actor-")), "move")
    if len(actors) < len(drain.names):
        taken_back(supervisor, Notice(str(drain), drain.seconds))
