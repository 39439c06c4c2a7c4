"""How far a run is and how it does, as small pieces of HTML that a panel shows between its headline and its charts."""

from __future__ import annotations

import html
import math

from workbench.running.status import FACTS, RunStatus
from workbench.supervisor import stopping_rules
from workbench.tables import number
from workbench.widgets.panel.snapshot import Snapshot


def progress(now: Snapshot) -> str:
    """A bar to total_frames, with how many frames those are, the share, and the time that is left."""
    total = now.config.total_frames
    share = min(1.0, now.status.frames / total)
    said = [f"{number(now.status.frames)} of {number(total)} frames ({share:.1%})", now.status.left,
            *stopping_rules.spent(now.config, vars(now.status))]
    text = html.escape(" · ".join(part for part in said if part))
    return (
        f'<div class="workbench-bar" role="progressbar" aria-label="progress" aria-valuemin="0" aria-valuemax="100" '
        f'aria-valuenow="{share * 100:.1f}" aria-valuetext="{text}"><div style="width:{share * 100:.2f}%"></div></div>'
        f'<div class="workbench-left">{text}</div>'
    )


def facts(now: Snapshot) -> str:
    """What a person watches: each a value above what it is."""
    shown = "".join(
        f'<div class="workbench-fact"><b>{html.escape(value)}</b><span>{html.escape(name)}</span></div>'
        for name, value in [*_watched(now.status), _rate(now)] if value
    )
    return f'<div class="workbench-facts-row">{shown}</div>'


def _watched(status: RunStatus) -> list[tuple[str, str]]:
    """Names and values; "" where there is none."""
    per_second = number(status.updates_per_second) if status.state == "training" and status.updates_per_second else ""
    holder = "the learner (cpu)" if status.device == "cpu" else status.device
    return [
        *_speeds(status),
        ("updates/s", per_second),
        *((f"memory of {holder}" if name == "memory" else fact.named(status), fact.shown(status, number))
          for name, fact in FACTS.items() if name not in ("frames", "steps", "speed", "device")),
    ]


def _speeds(status: RunStatus) -> list[tuple[str, str]]:
    """Those of now while it trains, the averages once it has ended."""
    running = status.state == "training"
    frames, steps = (status.frames_per_second, status.steps_per_second) if running else status.mean_speed
    of = "" if running else ", on average"
    shown = frames > 0 and (running or not status.alive)
    return [(f"frames/s{of}", number(round(frames))), (f"steps/s{of}", number(round(steps)))] if shown else []


def _rate(now: Snapshot) -> tuple[str, str]:
    """The learning rate in use, where it is not the one that is set."""
    rate, config = now.status.learning_rate, now.config
    if rate is None or now.status.state != "training" or math.isclose(rate, config.value("learning_rate")):
        return ("", "")
    why = "warming up" if now.status.updates < config.value("warmup_updates") else "decaying"
    return (f"learning rate, {why}", f"{rate:.2g}")
