"""What a Ray cluster says of the nodes of a run: which it drains, which have another Python, whether any has a GPU.

Ray drains a node before it takes it away: the autoscaler, a cloud's notice, or `ray drain-node`. A thread that ends
with its process asks every 2 s. Each of the run's processes on such a node is told of once, those that arrive later,
too. A Ray that does not answer is said once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from workbench.supervisor.hosts.node_versions import Versions, remark

_EVERY_S = 2.0
_NO_DEADLINE_S = 30.0  # of a drain that names none: what the clouds with the shortest notice leave
_UNHEARD = 5  # answers that fail in a row before it is said


@dataclass(frozen=True)
class Drain:
    """A node that its cluster takes away: its address, the run's processes there by name, and the seconds left."""

    host: str
    names: tuple[str, ...]
    seconds: float

    def __str__(self) -> str:
        return f"Ray drains node {self.host} with {', '.join(self.names)}, and takes it away in {self.seconds:.0f} s"


@dataclass(frozen=True)
class Seat:
    """Where a process of the run is: its node's id and address, and its versions."""

    node: str
    host: str
    versions: Versions


class WatchedCluster(Protocol):
    """What is asked of the cluster; `RayPlace`."""

    notebook: Versions

    def seats(self) -> dict[str, Seat]:
        """Where the run's living processes are, by name, the supervisor among them."""

    def draining(self) -> Mapping[str, int]:
        """When the cluster takes away each node that it drains, in ms since 1970 or 0, by the node's id."""

    def without_gpu(self) -> str | None:
        """That learners, which would have taken a GPU, got none, and what to do; None: nothing to say."""


@dataclass
class RayNotices:
    """Compares what the cluster says with what it said before.

    Args:
        on_drain: called with a drained node and those of its processes that it was not called with before.
        say: called with the kind and the words of an event.
    """

    cluster: WatchedCluster
    on_drain: Callable[[Drain], None]
    say: Callable[[str, str], None]
    _drained: set[tuple[str, str]] = field(default_factory=set)  # node and name
    _remarked: set[str] = field(default_factory=set)  # nodes
    _unheard: int = 0

    def turn(self) -> None:
        """Ask once."""
        try:
            seats, draining = self.cluster.seats(), self.cluster.draining()
            self._unheard = 0
        except Exception as error:  # of Ray's, whose kinds are not documented
            self._unheard += 1
            if self._unheard == _UNHEARD:
                self.say("error", f"Ray does not say which nodes it drains ({type(error).__name__}: {error}): this run "
                                  "notices a lost node only when it is gone")
            return
        self._compare_versions(seats)
        for node, deadline_ms in draining.items():
            self._note_drain(node, deadline_ms, seats)

    def _compare_versions(self, seats: Mapping[str, Seat]) -> None:
        for seat in seats.values():
            words = remark(seat.host, seat.versions, self.cluster.notebook)
            if words and seat.node not in self._remarked:
                self._remarked.add(seat.node)
                self.say("node", words)

    def _note_drain(self, node: str, deadline_ms: int, seats: Mapping[str, Seat]) -> None:
        new = [name for name, seat in seats.items() if seat.node == node and (node, name) not in self._drained]
        if new:
            self._drained.update((node, name) for name in new)
            seconds = max(0.0, deadline_ms / 1000 - time.time()) if deadline_ms else _NO_DEADLINE_S
            self.on_drain(Drain(seats[new[0]].host, tuple(new), seconds))


def watch(
    cluster: WatchedCluster, *, on_drain: Callable[[Drain], None], say: Callable[[str, str], None]
) -> threading.Event:
    """Ask that cluster from now on, with the arguments of `RayNotices`; the event ends the asking."""
    ended, notices = threading.Event(), RayNotices(cluster, on_drain, say)

    def ask_on() -> None:
        ended.wait(_EVERY_S)  # so that the launch's own event is the first
        with suppress(Exception):  # a Ray that does not answer is said by `turn`
            if words := cluster.without_gpu():
                say("node", words)
        while not ended.is_set():
            notices.turn()
            ended.wait(_EVERY_S)

    threading.Thread(target=ask_on, name="ray-notices", daemon=True).start()
    return ended
