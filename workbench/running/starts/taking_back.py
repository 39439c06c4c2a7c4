"""Takes mended code back that has never trained (`rundir.untried`), with the settings that came with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from workbench.metrics import MetricsWriter
from workbench.rundir import ENDED, lock, untried
from workbench.running import waiting
from workbench.running.connection import Control
from workbench.running.deletion import END_S
from workbench.running.mending import giving_again
from workbench.running.progress import notify
from workbench.running.starts.starting import start_lock


def take_back(control: Control, *, lease_s: float = lock.LEASE_S) -> str:
    """Drop mended code that has not trained; the run has its former settings and state again. Returns the calls that
    give the code again, "" where there was none.

    Raises RunExists where the run lives, or another process starts it, ConnectionLost, StorageFailed.
    """
    directory = control.directory
    untried.settle(directory)
    if not untried.is_there(directory):
        return ""
    with start_lock(control, lease_s=lease_s):
        if (before := untried.before(directory)) is None:  # another process was faster, or it has trained
            return ""
        again = " and ".join(giving_again(directory, kind) for kind in ("environment", "network", "algorithm")
                             if untried.is_untried(directory, f"{kind}.pkl"))
        now = directory.read()
        unsaid = now.get("config_before") or now["config"]  # for the next life to say what changed since
        directory.write(**before.record, config_before=unsaid)
        with closing(MetricsWriter(directory.metrics)) as writer:
            if before.status is not None:
                writer.status(before.status)  # with the reason of its end
            writer.event("error", f"the mended code never trained, and was taken back; {again} gives it again")
        untried.drop(directory)
    return again


def take_back_first(control: Control, *, lease_s: float = lock.LEASE_S) -> None:
    """The same before another call goes on with the run, which it says: the process that mended the code was killed."""
    if again := take_back(control, lease_s=lease_s):
        notify(f"{control.directory.name} was mended before by code that never trained: that was taken back, with its "
               f"settings. {again} gives it again.")


@contextmanager
def taken_back_if_it_fails(control: Control) -> Iterator[None]:
    """Where mended code fails before the run trains, the run is again what it was.

    After an interrupt the start goes on, with the mended code.
    """
    try:
        yield
    except Exception as error:
        with suppress(Exception):  # it goes on; or else the next call takes the code back, and says what hinders it
            if untried.is_there(control.directory) and control.status().state in ("stopping", *ENDED):
                waiting.until_ended(control, END_S)
            if take_back(control):
                name = control.directory.name
                error.add_note(f"{name} is what it was, with the code and the settings that it had.")
        raise
