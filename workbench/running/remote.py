"""Runs on a cluster with which this machine shares no folder: followed by a copy, and resumed there.

The copy (`copies.remote_copy`) is read like any run, and its socket leads to the supervisor; what only the run's own
machine can do is refused with what to do.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any, Protocol

from workbench import launchers, rundir
from workbench.errors import ConnectionLost, InvalidInput, RunNotFound
from workbench.rundir import RunDirectory, lock
from workbench.rundir.files import tail
from workbench.wire.endpoints import SUPERVISOR, reach
from workbench.wire.rpc import Caller

SCHEME = "ray://"
_RESUME_S = 480.0


class Following(Protocol):
    """Whoever keeps a copy up to date for as long as this object is kept."""

    @property
    def directory(self) -> RunDirectory: ...


def is_address(name: object) -> bool:
    """Whether it is the address of a run on a cluster, "ray://HOST:PORT/NAME"."""
    return isinstance(name, str) and name.startswith(SCHEME)


def followed(address: str) -> Following:
    """The run at that address. Raises as `launchers.ray.RayLauncher.follow`; the error names an older copy."""
    place: Any = launchers.by_name("ray")
    try:
        following: Following = place.follow(address)
        return following
    except (ConnectionLost, RunNotFound) as error:
        copies = [path.parent for path in (rundir.home() / "remote").glob(f"*/*/{rundir.REMOTE}")
                  if RunDirectory(path.parent).origin == address]
        if not copies:
            raise
        newest = max(copies, key=lambda path: path.stat().st_mtime)
        raise type(error)(f"{error.args[0]} Its copy here: wb.attach({str(newest)!r}).") from None


def check_here(directory: RunDirectory, what: str, remedy: str) -> None:
    """Raises InvalidInput if this is the copy of a run elsewhere, with which that cannot be done here."""
    if directory.is_copy:
        raise InvalidInput(f"{directory.name} lies on its cluster, and {directory.path} is a copy to read: {what}. "
                           f"{remedy}")


def resume_there(directory: RunDirectory, changes: dict[str, Any], *, trust_code: bool) -> Started:
    """Start the run of that copy again, on its cluster. Raises InvalidInput where nobody follows it, and its errors."""
    if not lock.is_held(lock.of_follower(directory)):
        raise InvalidInput(f"{directory.path} is a copy, which nothing follows now. wb.resume({directory.name!r}) "
                           "starts the run itself again, on its cluster.")
    with closing(Caller(reach(directory, SUPERVISOR), directory.token())) as caller:
        caller.call("resume_there", timeout_s=_RESUME_S, changes=changes, trust_code=trust_code)
    return Started(directory)


class Started:
    """A supervisor on the cluster; see `Launched`."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory

    def poll(self) -> int | None:
        """1 once the run is seen without a supervisor; else None."""
        return None if lock.is_alive(self._directory) else 1

    def stop(self) -> None:
        """Nothing: `Run.stop` ends it."""

    def logs(self) -> str:
        """The last lines of its log."""
        return tail(self._directory.logs / "supervisor.log")
