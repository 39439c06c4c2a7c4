"""The panel on a real metrics database, filled by the writer that a learner uses."""

from __future__ import annotations

import base64
import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from ipywidgets import HTML, Button, Checkbox, Dropdown, Text, ToggleButton
from ipywidgets.widgets.widget import _instances as open_models

from tests.conftest import eventually
from tests.widgets import recorded
from tests.widgets.conftest import log
from workbench import rundir
from workbench.config import RunConfig
from workbench.metrics import MetricsWriter
from workbench.metrics.status import ActorStatus, RunStatus
from workbench.rundir import RunDirectory, lock
from workbench.running.handle import Run
from workbench.widgets.charts import static_render
from workbench.widgets.panel import actor_table, facts, snapshot
from workbench.widgets.panel.buttons import LINES, Notes
from workbench.widgets.panel.panel import RunPanel


@pytest.mark.parametrize("algorithm", ["vtrace", "r2d2"])
def test_every_live_field_has_a_control_with_the_value_in_force(
    algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    directory = recorded.new("one", algorithm, learning_rate=2e-3)
    panel = RunPanel(Run(directory))
    live = {name for name, one in directory.config().all_settings().items() if one.live}
    assert panel.controls.keys() == live | {"actors"}
    assert panel.controls["learning_rate"].field.value == "0.002"
    assert ("save_replay" in panel.controls) == (algorithm == "r2d2")
    panel.close()


def test_a_value_out_of_bounds_is_refused_in_words_under_its_control(panel: RunPanel) -> None:
    control = panel.controls["learning_rate"]
    control.field.value = "7"
    assert "learning_rate=7.0 is out of bounds: it must lie in [0, 1]" in control.message.value
    assert 'role="alert"' in control.message.value
    assert control.field.value == "0.0006"


def test_what_is_no_number_is_refused_in_words(panel: RunPanel) -> None:
    control = panel.controls["learning_rate"]
    control.field.value = "fast"
    assert "must be a number" in control.message.value


def test_a_dead_run_says_so_under_the_control_and_how_to_continue(panel: RunPanel) -> None:
    control = panel.controls["learning_rate"]
    control.slider.value = 1e-3
    eventually(lambda: control.message.value and "wb.resume" in control.message.value)
    assert control.slider.value == pytest.approx(6e-4)
    assert "dead" in panel.parts.headline.value
    assert panel.buttons["pause"].disabled and panel.buttons["stop"].disabled


def test_a_button_shows_the_error_it_meets(panel: RunPanel) -> None:
    panel.buttons["checkpoint"].disabled = False
    panel.buttons["checkpoint"].click()
    eventually(lambda: "alert" in log(panel))
    assert "is dead" in log(panel)


def test_stop_asks_once_before_it_acts(panel: RunPanel) -> None:
    assert panel.buttons["confirm"].layout.display == "none"
    panel.buttons["stop"].click()
    assert panel.buttons["confirm"].layout.display == ""
    panel.buttons["cancel"].click()
    assert panel.buttons["confirm"].layout.display == "none"
    assert log(panel) == ""


def test_a_checkbox_asks_the_run_and_goes_back_where_it_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    shown = RunPanel(Run(recorded.r2d2("pong")))
    control = shown.controls["save_replay"]
    control.field.value = True
    eventually(lambda: control.message.value and "wb.resume" in control.message.value)
    assert control.field.value is False
    shown.close()


def test_controls_follow_changes_made_elsewhere(panel: RunPanel, directory: RunDirectory) -> None:
    directory.write(config=directory.config().with_live(learning_rate=1e-3).to_json())
    panel.refresh()
    assert panel.controls["learning_rate"].field.value == "0.001"
    assert panel.controls["learning_rate"].slider.value == pytest.approx(1e-3)


def test_the_state_is_said_in_plain_words(directory: RunDirectory) -> None:
    with lock.held(lock.of_supervisor(directory), wait_s=1.0) as held:
        assert held
        now = snapshot.read(directory)
        assert now.status.state == "training"
        assert snapshot.reason(now) == "", "what limits it stands in the line of advice"
        said = snapshot.sentence(now)
    for part in ("307,200 of 10 M frames (3.1%)", "5,000 frames/s (1,250 steps/s)", "120 episodes", "mean return -20",
                 "policy lag 1.4 updates", "about 32 min left"):
        assert part in said


def test_the_static_picture_loads_nothing_from_anywhere(panel: RunPanel) -> None:
    bundle = panel._repr_mimebundle_()
    assert bundle["application/vnd.jupyter.widget-view+json"]["model_id"] == panel.view.model_id
    assert base64.b64decode(bundle["image/png"]).startswith(b"\x89PNG")
    page = bundle["text/html"]
    assert "<script" not in page and "http" not in page and "<link" not in page
    assert re.search(r'<img alt="Charts of pong: [^"]+" style="[^"]+" src="data:image/png;base64,', page)
    assert "learning_rate 0.0006 → 0.0003" in page
    assert bundle["text/plain"].startswith("pong: dead")
    json.dumps(bundle)


def test_a_run_without_metrics_has_a_picture_of_its_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    empty = rundir.create("new", {"created": time.time(), "config": RunConfig.build("CartPole-v1").to_json(),
                                  "state": "starting", "error": None})
    bundle = static_render.bundle(snapshot.read(empty))
    assert "image/png" not in bundle and "CartPole-v1" in bundle["text/html"]


def test_a_frozen_panel_is_a_picture_and_nothing_else(panel: RunPanel) -> None:
    panel.freeze()
    bundle = panel._repr_mimebundle_()
    assert set(bundle) == {"text/html", "image/png", "text/plain"}
    assert not panel.tick()


def test_the_charts_are_those_of_the_run_over_the_axis_that_was_chosen(panel: RunPanel) -> None:
    shown = panel.parts.charts.figures
    assert {"returns", "speed", "losses", "policy_lag", "bottleneck"} <= shown.keys()
    assert shown["speed"].spec()["layer"] and "hours" not in json.dumps(shown["speed"].spec())
    panel.parts.axis.value = "hours"
    eventually(lambda: "hours" in json.dumps(panel.parts.charts.figures["speed"].spec()))


def test_a_refresh_of_the_charts_without_anything_new_sends_nothing(panel: RunPanel) -> None:
    sent: list[Any] = []
    panel.parts.charts.send = lambda *message: sent.append(message)  # type: ignore[method-assign]
    panel.refresh(draw=True)
    assert sent == []


def test_an_outcome_is_said_even_if_newer_lines_took_the_place_of_its_question() -> None:
    notes = Notes()
    asked = notes.say("checkpoint …")
    for number in range(LINES):
        notes.say(f"line {number}")
    notes.say("checkpoint: the disk is full", bad=True, instead=asked)
    assert "the disk is full" in notes.view.value and "line 0" not in notes.view.value


class Steered(Run):
    """A run that is asked for things one of which takes long; each waits until it may go on."""

    may: dict[str, threading.Event]

    def __init__(self, directory: RunDirectory) -> None:
        super().__init__(directory)
        self.may = {name: threading.Event() for name in ("checkpoint", "tune", "undo")}

    def checkpoint(self, **_: Any) -> Any:
        assert self.may["checkpoint"].wait(240)

    def stop(self, **_: Any) -> Any:
        return None

    def tune(self, **changes: Any) -> dict[str, Any]:
        assert self.may["tune"].wait(240)
        self._directory.write(config=self.config.with_live(**changes).to_json())
        return {}

    def undo(self, name: str | None = None) -> dict[str, Any]:
        assert self.may["undo"].wait(240)
        return {"old": {"learning_rate": 6e-4}, "new": {"learning_rate": 3e-4}}


@pytest.fixture
def steered(directory: RunDirectory) -> Iterator[tuple[RunPanel, dict[str, threading.Event]]]:
    run = Steered(directory)
    shown = RunPanel(run)
    yield shown, run.may
    for one in run.may.values():
        one.set()
    shown.close()


def test_a_checkpoint_that_is_being_written_holds_up_nothing(
    steered: tuple[RunPanel, dict[str, threading.Event]]
) -> None:
    panel, may = steered
    may["tune"].set()
    commands = panel.parts.buttons.all
    commands["checkpoint"].disabled = commands["confirm"].disabled = False
    commands["checkpoint"].click()
    commands["confirm"].click()
    panel.controls["learning_rate"].field.value = "0.002"
    eventually(lambda: "stop: done" in log(panel) and "learning_rate: 0.0006 → 0.002" in log(panel))
    assert "checkpoint …" in log(panel)
    may["checkpoint"].set()
    eventually(lambda: "checkpoint: done" in log(panel))


def test_an_undo_leaves_alone_what_a_person_asked_for_after_it(
    steered: tuple[RunPanel, dict[str, threading.Event]]
) -> None:
    panel, may = steered
    control = panel.controls["learning_rate"]
    panel.parts.changes.undo.disabled = False
    panel.parts.changes.undo.click()
    control.field.value = "0.002"
    may["undo"].set()
    eventually(lambda: "(undo)" in log(panel))
    assert control.pending == 1 and control.field.value == "0.002" and control.value == 3e-4
    may["tune"].set()
    eventually(lambda: "learning_rate: 0.0003 → 0.002" in log(panel))
    assert control.pending == 0 and control.field.value == "0.002"


def test_an_undo_removes_errors_of_before(steered: tuple[RunPanel, dict[str, threading.Event]]) -> None:
    panel, may = steered
    panel.controls["discount"].field.value = "1.5"
    assert panel.controls["discount"].message.value
    panel.parts.changes.undo.disabled = False
    panel.parts.changes.undo.click()
    may["undo"].set()
    eventually(lambda: "(undo)" in log(panel))
    assert panel.controls["discount"].message.value == ""


def test_a_closed_panel_leaves_nothing_in_the_browser(directory: RunDirectory) -> None:
    RunPanel(Run(directory)).close()  # what all panels share is there from now on
    before = set(open_models)
    panel = RunPanel(Run(directory))
    assert 100 < len(set(open_models) - before) < 270
    panel.close()
    assert set(open_models) == before


def test_a_game_ends_where_another_one_begins_or_the_run_goes_on(
    panel: RunPanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, games, may_end = panel.parts.next_steps, list[HTML](), threading.Event()

    class View(HTML):  # type: ignore[misc]
        def __init__(self, game: Any) -> None:
            super().__init__(game.title)
            games.append(self)

        def close(self) -> None:
            assert may_end.wait(240)
            super().close()

    def play() -> None:
        steps.all["play"].click()
        eventually(lambda: not steps.all["play"].disabled, what="a game")

    monkeypatch.setattr("workbench.playing.by_hand.game.play", lambda path: SimpleNamespace(title=path.name))
    monkeypatch.setattr("workbench.widgets.episodes.game_view.GameView", View)
    play()
    may_end.set()
    play()
    assert [game.comm is None for game in games] == [True, False] and steps._place.children == (games[1],)
    may_end.clear()
    for _ in range(2):
        steps.show(ended=False, collapsed=False)  # which does not wait for the game
    may_end.set()
    eventually(lambda: games[1].comm is None, what="the game has ended")
    assert steps._place.children == ()


# The history of changes, from events alone


def tuned(directory: RunDirectory, *, undoes: int | None = None, **values: tuple[Any, Any]) -> None:
    old, new = ({name: pair[side] for name, pair in values.items()} for side in (0, 1))
    writer = MetricsWriter(directory.metrics)
    writer.event("tune", "…", progress=recorded.at(70), data={"old": old, "new": new, "undoes": undoes})
    writer.close()


def test_the_history_tells_every_change_newest_first_and_what_was_taken_back(
    panel: RunPanel, directory: RunDirectory
) -> None:
    tuned(directory, learning_rate=(6e-4, 1e-3))
    tuned(directory, entropy_cost=(0.01, 0.02))
    tuned(directory, learning_rate=(1e-3, 6e-4), undoes=2)
    panel.refresh()
    shown = re.sub("<[^>]*>", " ", panel.parts.changes.view.children[-1].value)
    rows = re.findall(r"179,200 +(\w+) +(\S+) +(\S+) +((?:undo|taken back)?)", shown)
    assert rows == [("learning_rate", "0.001", "0.0006", "undo"), ("entropy_cost", "0.01", "0.02", ""),
                    ("learning_rate", "0.0006", "0.001", "taken back")]
    assert panel.controls["learning_rate"].undo.disabled and not panel.controls["entropy_cost"].undo.disabled
    assert panel.parts.changes.undo.tooltip == "entropy_cost back to 0.01"
    whole = RunPanel(Run(directory))  # as after a kernel restart
    assert whole.parts.changes.all == panel.parts.changes.all and len(whole.parts.changes.all) == 3
    whole.close()


def test_undo_of_a_dead_run_says_so_under_the_button_that_asked(panel: RunPanel, directory: RunDirectory) -> None:
    tuned(directory, learning_rate=(6e-4, 1e-3))
    panel.refresh()
    panel.parts.changes.undo.click()
    eventually(lambda: "wb.resume" in panel.parts.changes.message.value)
    panel.controls["learning_rate"].undo.click()
    eventually(lambda: "wb.resume" in panel.controls["learning_rate"].message.value)


# What is said


def test_progress_and_facts_are_said_to_everybody(alive: None, panel: RunPanel) -> None:
    panel.refresh()
    assert 'role="progressbar"' in panel.parts.progress.value and 'aria-valuenow="3.1"' in panel.parts.progress.value
    assert "about 32 min left" in panel.parts.progress.value
    said = re.sub("<[^>]*>", " ", panel.parts.facts.value)
    for part in ("5,000  frames/s", "1,250  steps/s", "1.4  policy lag", "1.2 of 16 GiB  memory of the learner (cpu)"):
        assert part in said


def now_of(directory: RunDirectory, **fields: Any) -> snapshot.Snapshot:
    status = RunStatus.from_json({**recorded.STATUS, "state": "training", **fields}, name=directory.name)
    return snapshot.Snapshot(directory.name, directory.config(), status)


def plain(page: str) -> str:
    return re.sub(" +", " ", re.sub("<[^>]*>", " ", page)).strip()


def test_a_speed_is_one_number_where_each_step_is_one_frame(directory: RunDirectory) -> None:
    same = {"frames": 640, "steps": 640, "frames_per_second": 1250.0}
    assert "1,250 frames/s = steps/s" in plain(facts.facts(now_of(directory, **same)))
    assert now_of(directory, **same).status.speed == "1,250 frames/s = steps/s"
    assert "5,000 frames/s 1,250 steps/s" in plain(facts.facts(now_of(directory)))


@pytest.mark.parametrize("state", ["paused", "starting", "stopping"])
def test_what_stands_still_has_no_speed_of_zero(directory: RunDirectory, state: str) -> None:
    said = plain(facts.facts(now_of(directory, state=state, frames_per_second=0.0, steps_per_second=0.0)))
    assert "— frames/s — steps/s" in said and "— updates/s" in said
    assert re.findall("[a-z/]+", said) == re.findall("[a-z/]+", plain(facts.facts(now_of(directory)))), "the same lines"


def test_a_slow_run_does_not_stand_still(directory: RunDirectory) -> None:
    assert "0.25 frames/s" in plain(facts.facts(now_of(directory, frames_per_second=0.25, steps_per_second=0.0625)))


def test_a_run_that_is_silent_or_dead_says_so_with_the_line_that_brings_it_back(directory: RunDirectory) -> None:
    assert "<code>" not in facts.headline(now_of(directory))
    silent = facts.headline(now_of(directory, age_s=40.0))
    assert "no news from the learner for 40 s" in silent and "wb.attach(&#x27;pong&#x27;).stop()" in silent
    assert "#2e7d46" not in silent, "its badge is not green"
    assert "no news from the run for 40 s" in facts.headline(now_of(directory, age_s=40.0, state="paused"))
    assert "<code>wb.resume(&#x27;pong&#x27;)</code>" in facts.headline(snapshot.read(directory))


def test_a_panel_holds_what_the_page_shows_once_the_kernel_is_gone(panel: RunPanel) -> None:
    said = plain(panel.parts.gone.value)
    assert re.search(r"pong dead ?detached last seen \d\d:\d\d\.", said) and "wb.attach(&#x27;pong&#x27;)" in said


def test_an_ended_run_goes_on_nowhere_once_the_kernel_is_gone(directory: RunDirectory) -> None:
    assert "the run may go on without it" in facts.detached(now_of(directory))
    said = plain(facts.detached(now_of(directory, state="stopped")))
    assert re.search(r"pong stopped ?detached last seen", said) and "go on" not in said


def test_a_picture_of_a_live_run_says_when_that_was(directory: RunDirectory) -> None:
    page = static_render.page(now_of(directory), "")
    assert re.search(r"as of \d{4}-\d\d-\d\d \d\d:\d\d", page) and "#2e7d46" not in page
    assert "wb.attach(&#x27;pong&#x27;)" in page


def test_the_trend_of_the_return_is_that_of_the_last_minutes() -> None:
    def said(*values: float) -> str:
        time_s = np.linspace(0.0, 600.0, len(values))
        return facts.trend_of({"episode_return_mean": {"time_s": time_s, "value": np.array(values)}})

    assert said(0.0, 0.0, 10.0) == "↗ +10 in 5 min" and said(500.0, 500.0, 9.0) == "↘ −491 in 5 min"
    assert said(0.0, 100.0, 101.0) == "→ steady for 5 min" and said(1.0) == ""
    assert facts.trend_of({}) == ""


def test_a_result_that_somebody_waited_for_outlives_lines_that_fade() -> None:
    notes = Notes()
    notes.say("mean return 363", of="evaluate", stays=True)
    for number in range(2 * LINES):
        notes.say(f"learning_rate: {number}")
    assert "mean return 363" in notes.view.value and f"rate: {2 * LINES - 1}" in notes.view.value
    assert notes.view.value.count("<div") == LINES and notes.dismiss.layout.display == ""
    notes.say("mean return 400", of="evaluate", stays=True)
    assert "363" not in notes.view.value and "400" in notes.view.value
    notes.dismiss.click()
    assert "400" not in notes.view.value and notes.dismiss.layout.display == "none"


def test_a_result_replaces_the_error_of_its_command_and_errors_can_be_dismissed() -> None:
    notes = Notes()
    notes.say("checkpoint: the disk is full", bad=True, of="checkpoint")
    notes.say("pause: no answer", bad=True, of="pause")
    assert notes.dismiss.layout.display == ""
    notes.say("checkpoint at 5 frames saved", of="checkpoint")
    assert "the disk is full" not in notes.view.value and "no answer" in notes.view.value
    notes.dismiss.click()
    assert "no answer" not in notes.view.value and "5 frames saved" in notes.view.value
    assert notes.dismiss.layout.display == "none"


@pytest.mark.parametrize(("state", "fields", "shown"), [
    ("training", {"alive": True}, "starting"), ("training", {"alive": True, "environments": 4}, "starting"),
    ("training", {"alive": True, "environments": 4, "connected": True}, "waiting"),
    ("training", {"alive": True, "environments": 4, "connected": True, "steps_per_second": 9.0}, "alive"),
    ("paused", {"alive": True, "environments": 4, "connected": True, "steps_per_second": 9.0}, "paused"),
    ("training", {}, "dead"), ("stopped", {}, "ended"),
])
def test_an_actor_is_alive_once_it_steps(state: str, fields: dict[str, Any], shown: str) -> None:
    row = actor_table._row(ActorStatus(0, **fields), RunStatus("pong", state))
    assert row["state"] == shown
    assert row["steps_per_second"] == (9 if shown == "alive" else None)


def test_large_numbers_are_said_as_people_say_them(panel: RunPanel) -> None:
    status = RunStatus("big", "training", updates_per_second=12_345.6, episode_return=21_345.5, evaluation_return=18.5,
                       device_memory_gb=120.0, device_memory_total_gb=141.0)
    now = snapshot.Snapshot("big", RunConfig.build("CartPole-v1"), status)
    said = facts.facts(now)
    for part in ("12,346", "21,346", "18.5", "120 of 141 GiB"):
        assert f"<b>{part}</b>" in said
    assert "e+" not in said


def test_every_widget_that_a_person_uses_says_what_it_does(panel: RunPanel) -> None:
    for widget in panel.parts.widgets():
        if isinstance(widget, (Button, ToggleButton)):
            assert widget.tooltip, widget
        elif isinstance(widget, (Text, Checkbox, Dropdown)):
            assert widget.description and widget.tooltip, widget
