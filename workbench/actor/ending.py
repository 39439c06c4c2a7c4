"""The end of an actor that its supervisor asks for, SIGTERM: its environments are closed first.

It comes at once where the actor waits, and else after what an environment is at: a constructor, a reset or a step is
not broken off. Who takes longer than the supervisor allows is killed.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from workbench.environments.contract import VectorEnvironment
from workbench.wire import child_group
from workbench.wire.lifeline import at_sigterm

_OTHERS_S = 2.0  # of the three that the supervisor allows


class Ending:
    """Ends this process at SIGTERM, after it has closed what `made` has made."""

    def __init__(self) -> None:
        self._groups: list[VectorEnvironment] = []
        self._is_asked = self._is_busy = False
        at_sigterm(self._ask)

    def made(self, make: Callable[[], list[VectorEnvironment]]) -> list[VectorEnvironment]:
        """The groups that `make` returns; their steps and resets are not broken off."""
        self.run(lambda: self._groups.extend(make()))
        return [cast(VectorEnvironment, _Guarded(group, self)) for group in self._groups]

    def run(self, function: Any, *arguments: Any, **keywords: Any) -> Any:
        """The result of a function during which the process does not end."""
        self._is_busy = True
        try:
            return function(*arguments, **keywords)
        finally:
            self._is_busy = False
            if self._is_asked:
                self._end()

    def close(self) -> None:
        """Close what was made."""
        while self._groups:
            with suppress(BaseException):  # the others, too
                self._groups.pop().close()

    def _ask(self, *_: object) -> None:
        if not self._is_asked:
            self._is_asked = True
            if not self._is_busy:
                self._end()

    def _end(self) -> None:
        asyncio._set_running_loop(None)  # of the stream, which is given up: an environment may end one of its own
        try:
            self.close()
            sys.stdout.flush()
            child_group.wait_for_others(os.getpid(), _OTHERS_S)
        finally:
            os._exit(0)


class _Guarded:
    """A group of environments as it is, but for its steps and resets."""

    def __init__(self, group: VectorEnvironment, ending: Ending) -> None:
        self._group, self._ending = group, ending

    def __getattr__(self, name: str) -> Any:
        return getattr(self._group, name)

    def reset(self, **how: Any) -> Any:
        return self._ending.run(self._group.reset, **how)

    def step(self, actions: Any) -> Any:
        return self._ending.run(self._group.step, actions)
