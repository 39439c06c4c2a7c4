"""The end of an actor that its supervisor asks for, SIGTERM: its environments are closed first.

It comes at once where the actor waits, and after the step or the reset where an environment is at one: none is closed
in the middle. Who takes longer than the supervisor allows is killed.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, cast

from workbench.environments.adapters.guarded_calls import close_all
from workbench.environments.contract import VectorEnvironment


class Ending:
    """Ends this process at SIGTERM. `guarded` makes what it closes then."""

    def __init__(self) -> None:
        self._groups: list[VectorEnvironment] = []
        self._is_asked = self._is_busy = False
        signal.signal(signal.SIGTERM, self._ask)

    def guarded(self, groups: list[VectorEnvironment]) -> list[VectorEnvironment]:
        """The same groups, whose steps and resets are not broken off."""
        self._groups = groups
        return [cast(VectorEnvironment, _Guarded(group, self)) for group in groups]

    def run(self, function: Any, *arguments: Any, **keywords: Any) -> Any:
        """The result of a function during which the process does not end."""
        self._is_busy = True
        try:
            return function(*arguments, **keywords)
        finally:
            self._is_busy = False
            if self._is_asked:
                self._end()

    def _ask(self, *_: object) -> None:
        if not self._is_asked:
            self._is_asked = True
            if not self._is_busy:
                self._end()

    def _end(self) -> None:
        close_all([*self._groups])
        sys.stdout.flush()
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
