"""One sentence about what limits a run's speed, with a button that applies the remedy, or the line that forks with it.

A remedy is a live field, or the number of actors, where that can help; else a field of which a new run would profit.
Where no field helps, the sentence says what would.
The line keeps its place, so that nothing below moves, and its advice for some seconds, since the shares of time change
each second.

CSS classes: workbench-advice, workbench-advice-text, workbench-apply
"""

from __future__ import annotations

import html
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import ipywidgets

from workbench.config import RunConfig
from workbench.metrics.limiting_part import limit
from workbench.tables import readable
from workbench.widgets.panel.buttons import button
from workbench.widgets.panel.snapshot import Snapshot

KEPT_S = 15.0  # for which an advice is shown after its last reason
_SHORTEST_TIMEOUT_MS = 0.1


@dataclass(frozen=True)
class FieldAdvice:
    """A remedy.

    Attributes:
        sentence: what limits the run, why, and what would help.
        field: the name of the field to change; "": none would help.
        live: whether the run can change it; else a fork can.
    """

    sentence: str
    field: str = ""
    value: float = 0.0
    live: bool = True

    @property
    def in_place(self) -> bool:
        """Whether the run itself can take the remedy."""
        return bool(self.field) and self.live

    def possible(self, config: RunConfig) -> bool:
        """Whether the field, if there is one, may have the value."""
        high = config.all_settings()[self.field].high if self.field else self.value
        return high is not None and self.value <= high


def advice(now: Snapshot) -> FieldAdvice | None:
    """What would make the run faster; None if nothing is known that would, or if it does not train."""
    parts = now.status.bottleneck
    limiting = limit(parts) if now.status.state == "training" and not now.ended else ""
    if limiting not in _REMEDIES:
        return None
    latest = _REMEDIES[limiting](now, f"{parts[limiting]:.0%} of the time")
    return latest if latest is not None and latest.possible(now.config) else None


def _of_inference(now: Snapshot, share: str) -> FieldAdvice:
    config = now.config
    environments = config.environments() // config.learners
    batch = config.max_batch or max(1, environments // 2)
    if batch < environments:
        larger = min(2 * batch, environments)
        return FieldAdvice(
            f"The network chooses actions {share}, for at most {batch} environments at once, and the others wait. "
            f"Batches of up to {larger} environments would take little longer.", "max_batch", larger)
    return FieldAdvice(
        f"The network chooses actions {share}, for all environments at once. More environments per actor would make "
        "batches larger; their number is fixed in a run, but a fork would go on from here with it:",
        "envs_per_actor", 2 * config.envs_per_actor, live=False)


def _of_batch_wait(now: Snapshot, share: str) -> FieldAdvice | None:
    timeout_ms = now.config.batch_timeout_ms
    return None if timeout_ms <= _SHORTEST_TIMEOUT_MS else FieldAdvice(
        f"Environments wait {share} for others, since the network chooses actions for many at once. A batch that is "
        f"not full would start after {readable(timeout_ms / 2)} ms instead of {readable(timeout_ms)} ms.",
        "batch_timeout_ms", timeout_ms / 2)


def _of_environments(now: Snapshot, share: str) -> FieldAdvice:
    return FieldAdvice(
        f"The actors step environments {share}, and the learner waits for them. One more actor would step more of them "
        "at once, if the machine has a core for it.", "actors", now.config.actors + 1)


def _of_training(now: Snapshot, share: str) -> FieldAdvice | None:
    if now.status.device in ("", "cpu"):
        return FieldAdvice(f"{now.status.hint[0].upper()}{now.status.hint[1:]}.") if now.status.hint else None
    return FieldAdvice(
        f"The network is trained {share}, so acting waits for it. Larger updates use the {now.status.device} device "
        "better; batch_size is fixed in a run, but a fork would go on from here with it:",
        "batch_size", 2 * int(now.config.hyperparameters.batch_size), live=False)


_REMEDIES: Mapping[str, Callable[[Snapshot, str], FieldAdvice | None]] = {
    "inference": _of_inference, "batch_wait": _of_batch_wait, "environments": _of_environments,
    "training": _of_training,
}


class AdviceLine:
    """The line in a panel.

    Attributes:
        view: the widget.
        apply: the button.
    """

    def __init__(self, on_apply: Callable[[str, Any], None]) -> None:
        self._advice: FieldAdvice | None = None
        self._on_apply, self._kept_until = on_apply, 0.0
        self._text = ipywidgets.HTML().add_class("workbench-advice-text")
        self.apply = button("apply", "Apply", "check", "nothing to apply")
        self.apply.on_click(lambda _: self._press())
        self.view = ipywidgets.HBox([self._text, self.apply]).add_class("workbench-advice")
        self._draw(None, "")

    def show(self, now: Snapshot) -> None:
        """Show the advice for the run as it is now."""
        latest = advice(now)
        if latest is not None:
            self._kept_until = time.monotonic() + KEPT_S
        elif time.monotonic() < self._kept_until and now.status.state == "training":
            return
        self._draw(latest, now.name)
        self.view.layout.display = "none" if now.ended else ""

    def _draw(self, latest: FieldAdvice | None, name: str) -> None:
        self._advice = latest
        sentence = html.escape(latest.sentence) if latest else ""
        line = _fork(latest, name) if latest and latest.field and not latest.live else ""
        fork = line and f"<code>{html.escape(line)}</code>"
        self._text.value = sentence and f'<div title="{sentence}"><span>{sentence}</span>{fork}</div>'
        in_place = latest is not None and latest.in_place
        self.apply.layout.visibility = "visible" if in_place else "hidden"
        if latest is not None and in_place:
            self.apply.tooltip = f"set {latest.field} to {readable(latest.value)}; the history can undo it"

    def _press(self) -> None:
        if self._advice is not None and self._advice.in_place:
            self._kept_until = 0.0
            self._on_apply(self._advice.field, self._advice.value)


def _fork(latest: FieldAdvice, name: str) -> str:
    return f"wb.attach({name!r}).fork({latest.field}={latest.value})"
