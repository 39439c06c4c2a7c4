"""What all learners of a run do between the same two updates: they begin alike, pause, hold, and change settings.

The leader is called and orders the others. Where training finds a reason to pause, any learner may order it.
"""

from __future__ import annotations

from typing import Any

from workbench.config import RunConfig
from workbench.learner.metrics.recorder import Log
from workbench.learner.run_state import RunState
from workbench.learner.training.data_parallel import Word


class Orders:
    """The orders of one learner and to it. Called by the training thread."""

    def __init__(self, state: RunState, log: Log) -> None:
        self._state, self._learners, self._log = state, state.learners, log

    def agree(self) -> None:
        """Take over the leader's configuration, and whether it is paused."""
        state = self._state
        leaders = self._learners.from_leader({"config": state.config.to_json(), "paused": state.paused})
        state.configure(RunConfig.from_json(leaders["config"]))
        state.paused = leaders["paused"]

    def pause(self, reason: str | None) -> None:
        """Hold all learners, or let them go on."""
        self._state.pause(reason)
        self._learners.order("pause", reason=reason)

    def hold(self, reason: str) -> None:
        """Hold all learners while the disk takes nothing, or let them go on."""
        self._state.hold(reason)
        self._learners.order("hold", reason=reason)

    def configure(self, config: RunConfig) -> None:
        """Go by `config` from now on, in all learners."""
        self._state.configure(config)
        self._learners.order("config", config=config.to_json())

    def meet(self, ready: bool, *, log_largest: float = 0.0) -> bool:
        """Whether all learners are ready, now that they know of each other and have done what was ordered.

        Args:
            log_largest: see `Word`.

        Raises:
            PeersLost: another one is gone.
            BaseException: what this one fails with; the others end when it is gone.
        """
        state = self._state
        state.raise_failure()
        steps = state.parts.inference.steps if state.ready.is_set() else 0
        word = Word(ready, state.stopping, steps, log_largest)
        return self._learners.meet(word, obey=self._obey, over=lambda: state.over)

    def _obey(self, order: str, **arguments: Any) -> None:
        """Do what another learner ordered."""
        match order:
            case "pause":
                self._state.pause(arguments["reason"])
            case "hold":
                self._state.hold(arguments["reason"])
            case "config":
                self._state.configure(RunConfig.from_json(arguments["config"]))
            case "event":
                self._log.event_of_all(arguments["kind"], arguments["message"], progress=self._state.progress)
