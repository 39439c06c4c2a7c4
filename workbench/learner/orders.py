"""Orders that all learners of a run carry out between the same two updates: pause, hold, change settings.

The leader gets the calls and orders the others. Any learner may order a pause for which its training finds a reason.
"""

from __future__ import annotations

from typing import Any

from workbench.config import RunConfig
from workbench.learner.metrics.recorder import Log
from workbench.learner.run_state import RunState
from workbench.learner.training.data_parallel import Word


class Orders:
    """The orders that one learner gives and obeys. Called by the training thread."""

    def __init__(self, state: RunState, log: Log) -> None:
        self._state, self._learners, self._log = state, state.learners, log

    def agree(self) -> None:
        """Take over the leader's configuration, and whether it is paused."""
        state = self._state
        agreed = self._learners.from_leader({"config": state.config.to_json(), "paused": state.paused})
        state.configure(RunConfig.from_json(agreed["config"]))
        state.paused = agreed["paused"]

    def pause(self, reason: str | None) -> None:
        """Pause all learners for that reason, or let them go on (None)."""
        self._state.pause(reason)
        self._learners.order("pause", reason=reason)

    def hold(self, reason: str) -> None:
        """Hold all learners while the disk refuses data, or let them go on ("")."""
        self._state.hold(reason)
        self._learners.order("hold", reason=reason)

    def configure(self, config: RunConfig) -> None:
        """Use `config` from now on, in all learners."""
        self._state.configure(config)
        self._learners.order("config", config=config.to_json())

    def meet(self, ready: bool, *, log_largest: float = 0.0) -> bool:
        """Exchange states and orders with the other learners, and obey theirs. Returns whether all are ready.

        Args:
            log_largest: see `Word`.

        Raises:
            PeersLost: another learner is gone.
            BaseException: the failure of this learner; the others end when it is gone.
        """
        state = self._state
        state.raise_failure()
        steps = state.parts.inference.steps if state.ready.is_set() else 0
        word = Word(ready, state.stopping, steps, log_largest)
        return self._learners.meet(word, obey=self._obey, over=lambda: state.over)

    def _obey(self, order: str, **arguments: Any) -> None:
        """Carry out the order of another learner."""
        match order:
            case "pause":
                self._state.pause(arguments["reason"])
            case "hold":
                self._state.hold(arguments["reason"])
            case "config":
                self._state.configure(RunConfig.from_json(arguments["config"]))
            case "event":
                self._log.event_of_all(arguments["kind"], arguments["message"], progress=self._state.progress)
