"""The events of a run's configuration: what `tune`, `scale` and `wb.resume` changed in it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from workbench.config import RunConfig
from workbench.metrics.schema import CHANGES


class ChangeEvents:
    """Records changes as events, those of `wb.resume` before any later one.

    Args:
        resumed_with: the configuration with which this life of the supervisor began.
        event: records an event, of kind, message and data.

    Attributes:
        before_resume: the configuration before `wb.resume`, as JSON; None once its changes are recorded.
    """

    def __init__(
        self, resumed_with: RunConfig, before_resume: dict[str, Any] | None, *, event: Callable[..., None]
    ) -> None:
        self.before_resume = before_resume
        self._resumed_with, self._event = resumed_with, event
        self._guard = threading.Lock()

    def record(
        self, kind: str, before: RunConfig, after: RunConfig, names: Sequence[str], **more: Any
    ) -> dict[str, dict[str, Any]]:
        """Record changes of these fields as an event of `tune`, `scale` or `move`; returns {"old", "new"}.

        The event leaves out those that stay the same, and there is none where all do.
        """
        self.record_resumption()
        old, new = ({name: config.value(name) for name in names} for config in (before, after))
        if changed := [name for name in names if old[name] != new[name]]:
            undo = "undo: " if more.get("undoes") is not None else ""
            self._event(kind, undo + ", ".join(f"{name} {old[name]} → {new[name]}" for name in changed),
                        old={name: old[name] for name in changed}, new={name: new[name] for name in changed}, **more)
        return {"old": old, "new": new}

    def record_resumption(self) -> None:
        """Record the changes of `wb.resume`, once."""
        with self._guard:
            json, self.before_resume = self.before_resume, None
        if json is None:
            return
        before, after = RunConfig.from_json(json), self._resumed_with
        kinds: dict[str, list[str]] = {kind: [] for kind in CHANGES}
        known = before.all_settings().keys() - {"own_algorithm"}  # a mended class may have other fields
        for name, setting in after.all_settings().items():
            if name in known and before.value(name) != after.value(name):
                kinds["scale" if name == "actors" else "tune" if setting.live else "move"].append(name)
        for kind, names in kinds.items():
            if names:
                self.record(kind, before, after, names)
