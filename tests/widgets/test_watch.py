"""The live view on runs that really train: what it shows is what happened, in order, and it costs little."""

from __future__ import annotations

import base64
import io
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

import workbench as wb
from tests.conftest import SMALL, eventually
from workbench.config import RunConfig
from workbench.environment_spec import ActionSpec
from workbench.errors import OutOfBounds, RunNotAlive
from workbench.playing.watch import Look, Watching
from workbench.testing import CountingEnv
from workbench.trajectory import Flags
from workbench.widgets.episodes import live_widget
from workbench.widgets.episodes.watch_view import LiveView
from workbench.wire.rpc import Caller


@pytest.fixture(scope="module")
def run(module_home: Path) -> wb.Run:
    options = {"episode_length": 9, "image": True, "step_ms": 10.0}
    fields = {**SMALL, "actors": 1, "evaluation_envs_per_actor": 1}
    return wb.launch("testing/counting-v0", environment_options=options, name="watched", total_frames=10**9,
                     progress=False, **fields)


@pytest.fixture
def view(run: wb.Run) -> Iterator[LiveView]:
    shown = run.watch(1)
    yield shown
    shown.close()


def looks(watching: Watching, steps: int) -> list[Look]:
    found: list[Look] = []
    while sum(one.steps for one in found) < steps:
        found.append(eventually(lambda: (look := watching.look()).steps and look, what="something new"))
    return found


def joined(found: list[Look]) -> dict[str, Any]:
    return {name: np.concatenate([one.columns[name] for one in found]) for name in found[0].columns}


def test_steps_come_in_order_with_the_actions_that_were_taken(run: wb.Run) -> None:
    found = looks(Watching(run._control, 1), 300)
    for before, after in zip(found[:-1], found[1:], strict=True):
        assert after.life == before.life
        assert after.first == before.first + before.steps + after.missed
    for seen in found:
        told = seen.columns
        counts = [CountingEnv.decode(frame) for frame in told["observation"]]
        for t, (one, other) in enumerate(zip(counts[:-1], counts[1:], strict=True)):
            expected = (one.episode, one.step + 1) if other.step else (one.episode + 1, 0)
            assert (other.episode, other.step) == expected
            assert other.action in (told["action"][t], -1)
        for t, one in enumerate(counts):
            assert bool(told["flags"][t] & Flags.START) == (one.step == 0)
            if one.step:
                assert told["reward"][t] == np.float32(CountingEnv.expected_reward(one.episode, one.step))
    told = joined(found)
    assert found[0].kind == "probability"
    np.testing.assert_allclose(told["scores"].sum(-1), 1, rtol=1e-5)
    assert set(told["action"].tolist()) <= {0, 1, 2} and (np.diff(told["time_s"]) >= 0).all()


def test_an_environment_that_is_not_there_is_refused_with_the_range(run: wb.Run) -> None:
    for wrong in (4, -1, 1.5, "0", True):
        with pytest.raises(OutOfBounds, match=r"watched has environments 0 to 3 \(1 actor with 4 each\)"):
            run.watch(wrong)  # type: ignore[arg-type]


def test_the_view_says_whose_environment_it_is(run: wb.Run) -> None:
    assert Watching(run._control, 1).role == "environment 1 of actor 0, training"
    assert Watching(run._control, 3).role == "environment 3 of actor 0, evaluating"


def test_a_view_sends_what_is_new_and_all_of_it_to_a_page_that_says_hello(
    view: LiveView, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[tuple[dict[str, Any], list[bytes]]] = []
    monkeypatch.setattr(view, "send", lambda content, buffers=None: messages.append((content, buffers or [])))
    for number in range(1, 4):
        eventually(lambda: (view.look(), sum(len(one["chunks"]) for one, _ in messages))[1] >= number)  # noqa: B023
    chunks = [chunk for content, _ in messages for chunk in content["chunks"]]
    view._received(view, {"type": "hello", "view": "v7"}, [])
    content, buffers = messages[-1]
    assert content["view"] == "v7" and len(buffers) == len(content["chunks"])
    assert [one["first"] for one in content["chunks"]] == [one["first"] for one in chunks]
    header = content["header"]
    assert header["shape"] == [1, 36, 36] and content["note"] == ""
    assert header["groups"] == [{"title": "", "names": ("0", "1", "2"), "kind": "choice"}]


def test_a_view_is_ticked_until_nobody_looks(view: LiveView, monkeypatch: pytest.MonkeyPatch) -> None:
    eventually(lambda: view.tick() and view._looks, what="it has looked")
    monkeypatch.setattr(live_widget, "UNSEEN_S", 0.0)
    assert not view.tick()
    monkeypatch.undo()
    view._received(view, {"type": "seen"}, [])
    assert view.tick()
    view.close()
    assert not view.tick()


def test_a_page_that_hears_nothing_gets_all_that_is_kept_in_the_answer(
    view: LiveView, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[dict[str, Any]] = []

    def lost(content: dict[str, Any], buffers: Any = None) -> None:
        """As in Colab: what a thread sends never arrives."""

    monkeypatch.setattr(view, "send", lost)
    for number in range(1, 4):
        eventually(lambda: (view.look(), len(view._looks))[1] >= number)  # noqa: B023
    monkeypatch.setattr(view, "send", lambda content, buffers=None: messages.append(content))
    first = view._looks[0].first
    view._received(view, {"type": "pull", "view": "v"}, [])
    answer = messages[-1]
    assert (answer["type"], answer["view"]) == ("live", "v")
    assert answer["chunks"][0]["first"] == first and len(answer["chunks"]) >= 3


def test_a_saved_notebook_keeps_what_was_seen_last(view: LiveView) -> None:
    assert "nothing yet" in view.still()["text/plain"] and "image/png" not in view.still()
    eventually(lambda: (view.look(), view._looks)[1])
    bundle = view.still()
    assert Image.open(io.BytesIO(base64.b64decode(bundle["image/png"]))).height > 100
    assert "return of the episode so far" in bundle["text/html"]


@pytest.mark.full
def test_watching_does_not_slow_the_run_down(run: wb.Run) -> None:
    def speed(step: Callable[[], object], seconds: float = 2.0) -> float:
        began = run.status
        while (now := run.status).time_s - began.time_s < seconds:
            step()
            time.sleep(0.25)
        return (now.steps - began.steps) / (now.time_s - began.time_s)

    watching = Watching(run._control, 0)
    rates: dict[str, list[float]] = {"alone": [], "watched": []}
    for _ in range(3):  # in turns: the machine has other work as well
        for name, step in (("alone", lambda: None), ("watched", watching.look)):
            rates[name].append(speed(step))
    assert max(rates["watched"]) > 0.6 * max(rates["alone"]), rates


@pytest.mark.full
def test_the_tap_is_off_again_some_seconds_after_the_last_question(run: wb.Run) -> None:
    learner = Caller(run.directory.learner_address(), run.directory.token())

    def life() -> str:
        cursor: str = learner.call("watch", env=2)["cursor"]
        return cursor.partition(":")[0]

    first = life()
    time.sleep(1.0)
    assert life() == first, "it goes on while somebody asks"
    time.sleep(7.5)  # watch_tap.LINGER_S and a batch
    assert life() != first
    learner.close()


def test_a_paused_run_is_named_as_the_reason(run: wb.Run) -> None:
    watching = Watching(run._control, 0)
    looks(watching, 1)
    with run.paused():
        eventually(lambda: watching.look().note == "The run is paused; it goes on when it is resumed.")
    assert eventually(lambda: watching.look().steps, what="it goes on")


@pytest.mark.full
def test_numbers_that_a_run_chooses_are_followed_on_their_axes(module_home: Path) -> None:
    run = wb.launch("Pendulum-v1", name="numbers", total_frames=10**9, progress=False, **{**SMALL, "actors": 1})
    try:
        watching = Watching(run._control, 0)
        found = joined(seen := looks(watching, 40))
        assert seen[-1].kind == "mean" and seen[-1].action_spec == ActionSpec("tanh_normal", (0,))
        assert found["action"].dtype == np.float32 and found["action"].shape[1:] == (1,)
        assert 0 < np.abs(found["action"]).max() <= 1 and np.abs(found["scores"]).max() <= 1
        velocity, angle = found["observation"][:, 2], np.arctan2(found["observation"][:, 1], found["observation"][:, 0])
        follows = (np.diff(found["episode_step"]) == 1)
        expected = np.clip(velocity + 0.05 * (15 * np.sin(angle) + 3 * 2 * found["action"][:, 0]), -8, 8)[:-1]
        np.testing.assert_allclose(velocity[1:][follows], expected[follows], atol=1e-3)
    finally:
        run.stop()


def test_a_view_of_a_run_that_ended_wakes_up_when_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    class Followed:
        dead = False
        directory = SimpleNamespace(name="run-1", config=lambda: RunConfig.build("CartPole-v1"))

        def call(self, what: str, **more: Any) -> dict[str, Any]:
            if self.dead:
                raise RunNotAlive("run-1 is stopped")
            return {"cursor": "l2:1", "steps": 0, "first": 0, "state": "paused", "reason": ""}

    monkeypatch.setattr(live_widget, "OVER_S", 0.0)
    control = Followed()
    view = LiveView(Watching(control, 0))  # type: ignore[arg-type]
    view.send, view.comm = lambda *message: None, view.comm or object()
    control.dead = True
    view.look()
    assert view.over and view.tick()
    control.dead = False
    eventually(lambda: view.tick() and not view.over)
