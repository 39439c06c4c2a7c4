"""Another machine: a network namespace whose only way to us is a cable that can be pulled."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pytest

_numbers = itertools.count()


@dataclass(frozen=True)
class OtherHost:
    """A network namespace with a cable to ours.

    Attributes:
        name: of the namespace.
        here, there: the addresses of the two ends of the cable, ours and its.
        prefix: what a command begins with that is to run there.
    """

    name: str
    here: str
    there: str

    @property
    def prefix(self) -> list[str]:
        return ["ip", "netns", "exec", self.name]

    def cut(self) -> None:
        """Pull the cable: nothing that is sent arrives, and nobody is told."""
        self._cable("down")

    def mend(self) -> None:
        """Plug it in again."""
        self._cable("up")

    def _cable(self, state: str) -> None:
        subprocess.run(["ip", "link", "set", f"{self.name}a", state], check=True)


@contextmanager
def other_host() -> Iterator[OtherHost]:
    """A machine beside ours, which goes with all that runs on it; skips where none can be made."""
    number = next(_numbers)
    name = f"wb{os.getpid()}n{number}"
    here, there = (f"10.231.{os.getpid() % 256}.{4 * (number % 64) + end}" for end in (1, 2))
    host = OtherHost(name, here, there)
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"only root can make a network namespace: {made.stderr.strip()}")
    try:
        for command in (
            f"ip link add {name}a type veth peer name {name}b netns {name}", f"ip addr add {host.here}/30 dev {name}a",
            f"ip link set {name}a up", f"ip -n {name} addr add {host.there}/30 dev {name}b",
            f"ip -n {name} link set {name}b up", f"ip -n {name} link set lo up",
        ):
            subprocess.run(command.split(), check=True)
        yield host
    finally:
        for pid in subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout.split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)  # what a test that failed left there
        subprocess.run(["ip", "link", "del", f"{name}a"], capture_output=True)
        subprocess.run(["ip", "netns", "del", name], check=True)
