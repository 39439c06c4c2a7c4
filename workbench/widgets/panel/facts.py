"""How far a run is and how it does, as small pieces of HTML that a panel shows between its headline and its charts."""

from __future__ import annotations

import html
import math

from workbench.running.status import RunStatus
from workbench.supervisor import stopping_rules
from workbench.widgets.panel import snapshot
from workbench.widgets.panel.snapshot import Snapshot, duration, number


def progress(now: Snapshot) -> str:
    """A bar to total_frames, with how many frames those are, the share, and the time that is left."""
    total = now.config.total_frames
    share = min(1.0, now.status.frames / total)
    left = snapshot.seconds_left(now)
    said = [f"{number(now.status.frames)} of {number(total)} frames ({share:.1%})"]
    if left is not None:
        said.append(f"about {duration(left)} left")
    said += stopping_rules.spent(now.config, vars(now.status))
    text = html.escape(" · ".join(said))
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
    running = status.state == "training"
    return [
        *_speeds(status),
        ("updates/s", number(status.updates_per_second) if running and status.updates_per_second else ""),
        ("updates", number(status.updates)),
        ("episodes", number(status.episodes)),
        (f"mean return{_behind(status.episodes_in_mean)}", _value(status.episode_return)),
        (f"mean score{_behind(status.episodes_in_mean)}", _value(status.episode_score)),
        (f"evaluation return{_behind(status.evaluation_episodes)}", _value(status.evaluation_return)),
        (f"evaluation score{_behind(status.evaluation_episodes)}", _value(status.evaluation_score)),
        ("policy lag, updates", "" if status.policy_lag is None else number(round(status.policy_lag, 1))),
        ("replay", status.replay),
        (f"memory of {_holder(status)}", memory(status)),
        ("training time", duration(status.time_s) if status.time_s else ""),
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


def memory(status: RunStatus) -> str:
    """Memory in use and there, such as "1.2 of 80 GiB"; "" where it is not known."""
    if status.device_memory_gb is None:
        return ""
    total = f" of {number(status.device_memory_total_gb)}" if status.device_memory_total_gb else ""
    return f"{number(status.device_memory_gb)}{total} GiB"


def _holder(status: RunStatus) -> str:
    return "the learner (cpu)" if status.device == "cpu" else status.device


def _behind(episodes: int | None) -> str:
    return f" ({number(episodes)} episodes)" if episodes else ""


def _value(value: float | None) -> str:
    return "" if value is None else number(value)
