"""Progress and key numbers of a run as HTML, for a panel to show between its headline and its charts."""

from __future__ import annotations

import html
import math

from workbench.metrics.status_facts import FACTS
from workbench.supervisor import stopping_rules
from workbench.tables import number
from workbench.widgets.panel import snapshot
from workbench.widgets.panel.snapshot import MEANS, Snapshot

_WATCHED = ("frames_per_second", "steps_per_second", "updates_per_second", "updates", "episodes", *MEANS, "policy_lag",
            "replay", "memory", "time_s")


def progress(now: Snapshot) -> str:
    """A progress bar to total_frames, with the frames, their share and the time left."""
    share = min(1.0, now.status.frames / now.config.total_frames)
    parts = [snapshot.progress(now), now.status.left, *stopping_rules.spent(now.config, now.status)]
    text = html.escape(" · ".join(part for part in parts if part))
    return (
        f'<div class="workbench-bar" role="progressbar" aria-label="progress" aria-valuemin="0" aria-valuemax="100" '
        f'aria-valuenow="{share * 100:.1f}" aria-valuetext="{text}"><div style="width:{share * 100:.2f}%"></div></div>'
        f'<div class="workbench-left">{text}</div>'
    )


def facts(now: Snapshot) -> str:
    """The key numbers in a row, each value above its name."""
    pairs = [(FACTS[name].named(now.status), FACTS[name].shown(now.status, number)) for name in _WATCHED]
    cells = "".join(
        f'<div class="workbench-fact"><b>{html.escape(value)}</b><span>{html.escape(name)}</span></div>'
        for name, value in [*pairs, _rate(now)] if value
    )
    return f'<div class="workbench-facts-row">{cells}</div>'


def _rate(now: Snapshot) -> tuple[str, str]:
    """Name and value of the learning rate in use where it differs from the configured one; else ("", "")."""
    rate, config, fact = now.status.learning_rate, now.config, FACTS["learning_rate"]
    if rate is None or now.status.state != "training" or math.isclose(rate, config.value("learning_rate")):
        return ("", "")
    why = "warming up" if now.status.updates < config.value("warmup_updates") else "decaying"
    return (f"{fact.title}, {why}", fact.shown(now.status))
