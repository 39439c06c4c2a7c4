"""The time machine of the inspector: values in force at a frame, the nearest film, and what a page is told."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import eventually
from tests.played import checkpoint_in
from tests.widgets import recorded
from workbench import checkpoints
from workbench.checkpoints import Checkpoint
from workbench.config import RunConfig
from workbench.metrics import MetricsWriter
from workbench.playing import rollout as rollouts
from workbench.playing.worker import played_episode as playing
from workbench.running.handle import attach
from workbench.widgets.inspector.inspector import CheckpointInspector
from workbench.widgets.inspector.time_machine import fields_of, nearest
from workbench.wire import columns


def event(kind: str, frames: int | None, **data: Any) -> dict[str, Any]:
    return {"kind": kind, "frames": frames, "data": data}


def tuned(frames: int | None, **values: tuple[Any, Any]) -> dict[str, Any]:
    return event("tune", frames, old={name: old for name, (old, _) in values.items()},
                 new={name: new for name, (_, new) in values.items()})


def values_of(fields: list[dict[str, Any]], name: str) -> list[tuple[int, str]]:
    return next(field["values"] for field in fields if field["name"] == name)


CONFIG = RunConfig.build("CartPole-v1", learning_rate=3e-4)


def test_a_hyperparameter_has_each_of_its_values_from_the_frame_of_its_change() -> None:
    fields = fields_of(CONFIG, [tuned(100, learning_rate=(6e-4, 5e-4)), tuned(300, learning_rate=(5e-4, 3e-4))])
    assert values_of(fields, "learning_rate") == [(0, "0.0006"), (100, "0.0005"), (300, "0.0003")]
    assert values_of(fields, "entropy_cost") == [(0, f"{CONFIG.value('entropy_cost'):g}")]


def test_frames_that_were_trained_anew_have_the_values_of_the_second_time() -> None:
    events = [tuned(100, learning_rate=(6e-4, 5e-4)), tuned(300, learning_rate=(5e-4, 3e-4)), event("restore", 200),
              event("scale", None, old={"actors": 1}, new={"actors": 2})]
    fields = fields_of(CONFIG, events)
    assert values_of(fields, "learning_rate") == [(0, "0.0006"), (100, "0.0005"), (200, "0.0003")]
    assert values_of(fields, "actors") == [(0, "1"), (200, "2")]


def test_a_change_that_changes_nothing_is_none_and_what_a_stranger_wrote_breaks_nothing() -> None:
    odd = [tuned(5, learning_rate=(3e-4, 3e-4)), event("tune", 7, old=[1], new={"learning_rate": 1}), event("tune", 8),
           tuned(9, nonsense=(1, 2), entropy_cost=(10**400, {"a": [1]}))]
    fields = fields_of(CONFIG, odd)
    assert values_of(fields, "learning_rate") == [(0, "0.0003")]
    assert values_of(fields, "entropy_cost") == [(0, f"1{'0' * 99}"), (9, "{'a': [1]}")]
    assert "nonsense" not in [field["name"] for field in fields]
    assert fields_of(None, odd) == []


@pytest.fixture
def run(home: Path) -> Any:
    """A run that nobody is at work at, with three checkpoints and a change."""
    made = checkpoint_in(home / "made", "CartPole-v1")
    directory = recorded.new("pole")
    directory.write(config=made.config.to_json(), state="stopped", created=0.0)
    writer = MetricsWriter(directory.metrics)
    for update in range(1, 21):
        writer.scalars(recorded.at(update), {"episode_return_mean": float(update)})
    old, new = {"learning_rate": 6e-4}, {"learning_rate": 3e-4}
    writer.event("tune", "learning_rate 0.0006 → 0.0003", progress=recorded.at(10), data={"old": old, "new": new})
    writer.close()
    for update in (4, 12, 20):
        at = recorded.at(update)
        meta = {**made.meta, "steps": at.steps, "updates": update, "time_s": at.time_s, "episode_return": 1.0 * update}
        checkpoints.write(directory.checkpoints, frames=at.frames, requested=True,
                          groups={"model": made.load("model")}, meta=meta)
    return attach("pole")


def recorded_film(checkpoint: Checkpoint, *, seed: int = 0) -> Path:
    folder = checkpoint.path.parents[1] / "rollouts" / f"{checkpoint.path.name}-seed{seed}"
    folder.mkdir(parents=True)
    playing._play_rollout(str(checkpoint.path), False, str(folder), seed, True, 30, None, True)
    return folder


def test_the_film_is_that_of_the_checkpoint_or_else_the_nearest(run: Any) -> None:
    first, second, last = run.checkpoints
    known = {checkpoint.path.name: checkpoint for checkpoint in run.checkpoints}
    assert nearest(run.directory.rollouts, first, known) is None
    of_last = recorded_film(last)
    of_first = recorded_film(first)
    assert [nearest(run.directory.rollouts, one, known) for one in (first, second, last)] == [
        of_first, nearest(run.directory.rollouts, second, known), of_last]
    newer = recorded_film(first, seed=1)
    os.utime(newer / "rollout.json", (2**31, 2**31))
    assert nearest(run.directory.rollouts, first, known) == newer
    rollouts.load(of_first).branch(2, action=0)  # branches are no films of a checkpoint
    assert nearest(run.directory.rollouts, first, known) == newer


def test_a_page_gets_the_curve_checkpoints_and_values_of_a_dead_run(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = CheckpointInspector(run)
    try:
        curve = shown.time.curve
        messages: list[Any] = []
        monkeypatch.setattr(curve, "send", lambda content, buffers=None: messages.append((content, buffers or [])))
        curve._received(curve, {"type": "hello", "view": "v"}, [])
        [(course, [packed])] = messages
        assert course["view"] == "v" and [one["frames"] for one in course["saved"]] == [
            one.frames for one in run.checkpoints]
        assert values_of(course["fields"], "learning_rate") == [(0, "0.0006"), (recorded.at(10).frames, "0.0003")]
        told = columns.unpack(course["columns"], packed)
        assert told["value"].tolist() == np.arange(1, 21).tolist() and course["y"] == "mean return"
        shown.time.refresh(run.checkpoints)
        assert len(messages) == 1, "nothing is new"
    finally:
        shown.close()


def test_where_the_cursor_rests_a_checkpoint_is_chosen_with_its_film(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = CheckpointInspector(run)
    try:
        first = run.checkpoints[0]
        curve, film = shown.time.curve, shown.time.film
        eventually(lambda: "No episode of this run is stored yet" in film.strip.value, what="no film")
        assert film.button.disabled
        moved: list[Any] = []
        monkeypatch.setattr(curve, "send", lambda content, buffers=None: moved.append(content))
        recorded_film(first)
        curve._received(curve, {"type": "at", "view": "v", "checkpoint": first.path.name, "frames": 7}, [])
        eventually(lambda: "Film of this checkpoint: return" in film.strip.value, what="its film")
        assert shown.chosen.value == first.path.name
        assert moved == [{"type": "at", "frames": 7, "by": "v"}], "the cursor stays where the person left it"
        film.button.click()
        (player,) = film.stage.children
        assert player.rollouts[0].path == film.rollout.path
        shown.choose(run.checkpoints[1].path.name)
        assert moved[1:] == [{"type": "at", "frames": run.checkpoints[1].frames, "by": None}]
        eventually(lambda: "This checkpoint has no film yet; the nearest one is of" in film.strip.value, what="another")
        assert film.stage.children == (player,), "the same film goes on"
        curve._received(curve, {"type": "at", "view": "v", "checkpoint": "gone", "frames": 7}, [])
        assert shown.chosen.value == run.checkpoints[1].path.name
    finally:
        shown.close()


def test_a_page_that_is_loaded_anew_has_its_cursor_at_the_chosen_checkpoint(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = CheckpointInspector(run)
    try:
        curve, told = shown.time.curve, list[Any]()
        monkeypatch.setattr(curve, "send", lambda content, buffers=None: told.append(content.get("at")))

        def cursor() -> Any:
            curve._received(curve, {"type": "hello", "view": "v"}, [])
            return told[-1]

        first, second, last = run.checkpoints
        assert cursor() == last.frames
        shown.chosen.value = first.path.name
        assert cursor() == first.frames
        curve._received(curve, {"type": "at", "view": "v", "checkpoint": second.path.name,
                                "frames": second.frames + 1}, [])
        assert cursor() == second.frames + 1
    finally:
        shown.close()


@pytest.mark.full
def test_a_film_is_recorded_by_a_button(run: Any) -> None:
    shown = CheckpointInspector(run)
    try:
        form = shown.forms["record"]
        form.fields["steps"].value = 20
        form.button.click()
        eventually(lambda: not form.busy and ": return" in form.message.value, what="a film")
        assert "Film of this checkpoint" in shown.time.film.strip.value and not shown.time.film.button.disabled
    finally:
        shown.close()


def test_where_there_are_no_metrics_there_is_no_time_machine(home: Path) -> None:
    recorded.new("young")
    shown = CheckpointInspector(attach("young"))
    try:
        assert shown.time.view.layout.display == "none"
    finally:
        shown.close()
