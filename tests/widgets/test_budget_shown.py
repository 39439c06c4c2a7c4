"""What is spent and how long is left stands in the panel, for the rules that a run has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.widgets import recorded
from workbench.metrics.status import RunStatus
from workbench.supervisor import stopping_rules
from workbench.widgets.panel import facts, snapshot

SPENT = {"alive_s": 5400.0, "cost": 2.0, "best_return": -19.5, "best_return_frames": 250_000}


def shown(name: str, **fields: Any) -> tuple[str, str]:
    """The progress bar's text, and the sentence of a saved notebook."""
    directory = recorded.new(name, **fields)
    status = RunStatus.from_json({**recorded.STATUS, **SPENT}, name=name)
    status = replace(status, eta_s=stopping_rules.seconds_left(directory.config(), status))
    now = snapshot.read(directory, status=status)
    return facts.progress(now), snapshot.sentence(now)


def test_hours_and_cost_are_shown_and_the_first_that_is_used_up_says_how_long_is_left(home: Path) -> None:
    for text in shown("ruled", max_hours=1.75, price_per_hour=1.5, max_cost=9.0, patience_frames=500_000):
        cost = "cost 2.00 of 9 (6,510.42 per billion frames)"
        assert f"about 15 min left · 1.5 of 1.75 h · {cost} · none above the mean return of -19.5" in text


def test_a_run_without_rules_shows_none(home: Path) -> None:
    for text in shown("free"):
        assert "about 32 min left" in text and "cost" not in text
