"""Headline, progress and key numbers of a run as HTML, the top of its panel.

Every line keeps its place: what is not known yet, or stands still, is "—", and a sentence that is too long is cut, with
the whole of it as its tooltip. So nothing below moves while the run trains, pauses and goes on.
"""

from __future__ import annotations

import html
import math
import time
from collections.abc import Collection, Mapping

import numpy as np

from workbench.metrics.status import RunStatus
from workbench.metrics.status_facts import FACTS
from workbench.supervisor import stopping_rules
from workbench.tables import duration, number
from workbench.widgets.charts.axes import Series
from workbench.widgets.panel import snapshot
from workbench.widgets.panel.badge import badge
from workbench.widgets.panel.snapshot import MEANS, Snapshot

NONE = "—"
TREND_S = 300.0  # of training, over which the return's trend is measured
_SHORTEST_TREND_S = 20.0
_STEADY = 0.02  # of the range of the curve: a smaller change is none
_WIDE = 19  # letters; a fact with more takes two columns
_ALWAYS = ("updates_per_second", "updates", "episodes", "policy_lag", "memory", "time_s")
_SMALL = ("updates_per_second", "updates", "episodes", *MEANS[1:], "policy_lag", "time_s", "replay", "memory",
          "compiler")


def headline(now: Snapshot) -> str:
    """Name, state and its reason in one line; under it, what brings a run back that has gone or is silent."""
    state, why = now.status.state, snapshot.reason(now)
    name, sentence = html.escape(now.name), html.escape(why)
    reason = f'<span class="workbench-reason" title="{sentence}">{sentence or "&nbsp;"}</span>'
    remedy = snapshot.remedy(now)
    code = f'<div class="workbench-remedy">{remedy[0]}: <code>{html.escape(remedy[1])}</code></div>' if remedy else ""
    kind = "workbench-title workbench-over" if now.ended else "workbench-title"
    return f'<div class="{kind}"><b>{name}</b>{badge(state, stale=bool(snapshot.silence(now)))}{reason}</div>{code}'


def detached(now: Snapshot) -> str:
    """What a panel says once its kernel is gone; the page shows it then, since nothing else can (panel.css)."""
    line, goes_on = html.escape(f"wb.attach({now.name!r})"), "" if now.ended else ", and the run may go on without it"
    return (f'<div class="workbench-gone-note" role="status"><b>{html.escape(now.name)}</b> '
            f'{badge(now.status.state) if now.ended else ""}{badge("detached")}last seen {time.strftime("%H:%M")}. '
            f"This page's kernel is gone{goes_on}. To see it again: <code>{line}</code></div>")


def progress(now: Snapshot) -> str:
    """A progress bar to total_frames, with the frames, their share and the time left."""
    share = min(1.0, now.status.frames / now.config.total_frames)
    first, left = html.escape(snapshot.progress(now)), now.status.left and f" · {html.escape(now.status.left)}"
    rest = "".join(f" · {html.escape(rule)}" for rule in stopping_rules.spent(now.config, now.status))
    whole = f"{first}{left}{rest}"
    return (
        f'<div class="workbench-bar" role="progressbar" aria-label="progress" aria-valuemin="0" aria-valuemax="100" '
        f'aria-valuenow="{share * 100:.1f}" aria-valuetext="{whole}"><div style="width:{share * 100:.2f}%"></div></div>'
        f'<div class="workbench-left" title="{whole}">{first}<span class="workbench-eta">{left}</span>{rest}</div>'
    )


def facts(now: Snapshot, *, trend: str = "", seen: Collection[str] = ()) -> str:
    """The key numbers: return and speed large, the rest small.

    Args:
        trend: of the return, from `trend_of`.
        seen: facts that have had a value before, and keep their place without one.
    """
    small = [_pair(now.status, name, always=name in (*_ALWAYS, *seen)) for name in _SMALL]
    cells = "".join(_fact(*pair) for pair in (*small, _rate(now)) if pair is not None)
    main = _fact(*_return(now.status), kind="workbench-main", note=trend) + _speeds(now.status, ended=now.ended)
    return f'<div class="workbench-facts-row">{main}<div class="workbench-small">{cells}</div></div>'


def known(now: Snapshot) -> set[str]:
    """The names of the small facts that have a value now."""
    return {name for name in _SMALL if FACTS[name].shown(now.status, number)}


def trend_of(series: Mapping[str, Series]) -> str:
    """How the mean return has changed in the last minutes of training, such as "↗ +12 in 5 min"; "" if not known."""
    rows = series.get("episode_return_mean")
    if rows is None or len(rows["value"]) < 2:
        return ""
    seconds, values = np.asarray(rows["time_s"]), np.asarray(rows["value"])
    first = int(np.searchsorted(seconds, seconds[-1] - TREND_S))
    past_s = float(seconds[-1] - seconds[first])
    change, span = float(values[-1] - values[first]), float(np.nanmax(values) - np.nanmin(values))
    if past_s < _SHORTEST_TREND_S or not math.isfinite(change):
        return ""
    if abs(change) <= _STEADY * span:
        return f"→ steady for {duration(past_s)}"
    return f"{'↗ +' if change > 0 else '↘ −'}{number(float(f'{abs(change):.3g}'))} in {duration(past_s)}"


def _return(status: RunStatus) -> tuple[str, str]:
    fact = FACTS["episode_return"]
    return fact.shown(status, number) or NONE, fact.named(status)


def _speeds(status: RunStatus, *, ended: bool) -> str:
    """Frames and steps per second, as one number where each step is one frame; of a run that has ended, if known."""
    frames, steps = FACTS["frames_per_second"], FACTS["steps_per_second"]
    values = frames.shown(status, number) or NONE, steps.shown(status, number) or NONE
    if ended and values[0] == NONE:
        return ""
    unit = steps.title if values[0] == NONE else steps.named(status)  # which says whether it is an average
    if status.steps_are_frames:
        return _fact(values[0], f"{frames.title} = {unit}", kind="workbench-main")
    second = f"<b>{html.escape(values[1])}</b><span>{html.escape(unit)}</span>"
    return _fact(values[0], frames.title, kind="workbench-main", note=second)


def _pair(status: RunStatus, name: str, *, always: bool) -> tuple[str, str] | None:
    value = FACTS[name].shown(status, number)
    return (value or NONE, FACTS[name].named(status)) if value or always else None


def _fact(value: str, name: str, *, kind: str = "", note: str = "") -> str:
    more = f'<i class="workbench-note">{note}</i>' if note else ""
    kind = kind or ("workbench-wide" if len(value) + len(name) > _WIDE else "")
    title = html.escape(f"{value} {name}")
    return (f'<div class="workbench-fact {kind}" title="{title}"><b>{html.escape(value)}</b>'
            f"<span>{html.escape(name)}</span>{more}</div>")


def _rate(now: Snapshot) -> tuple[str, str] | None:
    """Value and name of the learning rate in use where it differs from the configured one; else None."""
    rate, config, fact = now.status.learning_rate, now.config, FACTS["learning_rate"]
    if rate is None or now.ended or math.isclose(rate, config.value("learning_rate")):
        return None
    why = "warming up" if now.status.updates < config.value("warmup_updates") else "decaying"
    return (fact.shown(now.status), f"{fact.title}, {why}")
