"""The advice of a panel: one sentence, and a button that applies it where the run can change the field."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import eventually
from tests.widgets import recorded
from workbench.config import RunConfig
from workbench.errors import RunNotAlive
from workbench.metrics.limiting_part import limit
from workbench.metrics.status import RunStatus
from workbench.running.handle import Run
from workbench.widgets.panel.panel import RunPanel
from workbench.widgets.panel.snapshot import Snapshot
from workbench.widgets.panel.tuning import advice as module
from workbench.widgets.panel.tuning.advice import AdviceLine, advice

STATES: dict[str, dict[str, float]] = {
    "inference": {"inference": 0.86}, "batch_wait": {"batch_wait": 0.6}, "environments": {"environments": 0.9},
    "training": {"training": 0.95}, "": {"training": 0.5},
}


def now(parts: dict[str, float], *, state: str = "training", device: str = "cuda", **fields: Any) -> Snapshot:
    status = RunStatus("pong", state, bottleneck=parts, device=device)
    return Snapshot("pong", RunConfig.build("CartPole-v1", **fields), status)


@pytest.mark.parametrize("limiting", STATES)
def test_what_takes_most_of_the_time_limits_the_run(limiting: str) -> None:
    assert limit(STATES[limiting]) == limiting


def test_a_full_queue_is_no_reason_for_smaller_batches() -> None:
    assert limit({"batch_wait": 0.6, "queue_blocked": 0.7}) == ""


@pytest.mark.parametrize(("limiting", "fields", "field", "value", "live"), [
    ("inference", {"actors": 2, "envs_per_actor": 16}, "max_batch", 32, True),
    ("inference", {"actors": 4, "envs_per_actor": 16, "max_batch": 8}, "max_batch", 16, True),
    ("inference", {"actors": 2, "envs_per_actor": 16, "max_batch": 32}, "envs_per_actor", 32, False),
    ("batch_wait", {}, "batch_timeout_ms", 15.0, True),
    ("environments", {"actors": 3}, "actors", 4, True),
    ("training", {"batch_size": 32}, "batch_size", 64, False),
])
def test_each_limit_has_a_remedy_within_the_bounds_of_its_field(
    limiting: str, fields: dict[str, Any], field: str, value: float, live: bool
) -> None:
    snapshot = now(STATES[limiting], **fields)
    remedy = advice(snapshot)
    assert remedy is not None and (remedy.field, remedy.value, remedy.live) == (field, value, live)
    setting = snapshot.config.all_settings()[field]
    assert setting.check(value) == value and (setting.live or field == "actors") == live
    assert f"{max(STATES[limiting].values()):.0%} of the time" in remedy.sentence


def test_there_is_none_where_nothing_helps_or_nothing_moves() -> None:
    assert advice(now(STATES[""])) is None and advice(now({})) is None
    assert advice(now(STATES["inference"], state="paused")) is None
    assert advice(now(STATES["inference"], state="stopped")) is None
    assert advice(now(STATES["batch_wait"], batch_timeout_ms=0.1)) is None
    assert advice(now(STATES["training"], batch_size=4096)) is None, "the field has a bound"


def test_what_no_field_mends_is_said_without_a_button() -> None:
    status = RunStatus("pong", "training", bottleneck=STATES["training"], device="cpu",
                       hint="training 95% of the time: a GPU or a smaller network would help most")
    line = AdviceLine(lambda *_: pytest.fail("there is nothing to apply"))
    line.show(Snapshot("pong", RunConfig.build("CartPole-v1"), status))
    assert "<span>Training 95% of the time: a GPU or a smaller network would help most.</span>" in line._text.value
    assert "<code>" not in line._text.value and line.apply.layout.visibility == "hidden"
    line.apply.click()


def test_a_live_remedy_is_applied_and_one_that_is_not_is_a_line_to_copy() -> None:
    applied: list[tuple[str, Any]] = []
    line = AdviceLine(lambda name, value: applied.append((name, value)))
    assert line.apply.layout.visibility == "hidden"
    line.show(now(STATES["inference"]))
    assert line.apply.layout.visibility == "visible" and "max_batch to 32" in line.apply.tooltip
    line.apply.click()
    assert applied == [("max_batch", 32)]
    line.show(now(STATES["training"]))
    assert "<code>wb.attach(&#x27;pong&#x27;).fork(batch_size=64)</code>" in line._text.value
    assert line.apply.layout.visibility == "hidden"
    line.apply.click()
    assert applied == [("max_batch", 32)]


def test_an_advice_stays_while_the_shares_change_and_goes_with_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    line = AdviceLine(lambda *_: None)
    line.show(now(STATES["inference"]))
    line.show(now(STATES[""]))
    assert "actions 86% of the time" in line._text.value
    line.show(now(STATES[""], state="paused"))
    assert line._text.value == ""
    monkeypatch.setattr(module, "KEPT_S", 0.0)
    line.show(now(STATES["inference"]))
    line.show(now(STATES[""]))
    assert line._text.value == ""


@pytest.fixture
def panel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunPanel]:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    shown = RunPanel(Run(recorded.vtrace("pong")))
    yield shown
    shown.close()


def test_apply_tunes_the_field_as_its_control_does(panel: RunPanel, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned: list[dict[str, Any]] = []
    monkeypatch.setattr(Run, "tune", lambda _, **changes: tuned.append(changes))
    panel.parts.advice.show(now(STATES["inference"]))
    panel.parts.advice.apply.click()
    eventually(lambda: "max_batch: 0 → 32" in panel.parts.notes.view.value)
    assert tuned == [{"max_batch": 32}]


def test_an_error_of_apply_is_in_the_log(panel: RunPanel, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RunNotAlive("the run has just ended")

    monkeypatch.setattr(Run, "tune", fail)
    panel.parts.advice.show(now(STATES["inference"]))
    panel.parts.advice.apply.click()
    eventually(lambda: "max_batch: the run has just ended" in panel.parts.notes.view.value)
