"""The Python half of a game on a page: what it sends, what it makes of keys and buttons, and when it ends."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import workbench as wb
from tests.conftest import eventually
from tests.played import checkpoint_in
from workbench.widgets.episodes import game_view as games
from workbench.widgets.episodes.game_view import GameView

Sent = list[tuple[dict[str, Any], list[bytes]]]


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory: pytest.TempPathFactory, module_home: Path) -> wb.Checkpoint:
    return checkpoint_in(tmp_path_factory.mktemp("cartpole"), "CartPole-v1")


@pytest.fixture
def view(cartpole: wb.Checkpoint) -> Iterator[GameView]:
    shown = GameView(wb.play(cartpole, seed=2))
    yield shown
    shown.close()


@pytest.fixture
def sent(view: GameView, monkeypatch: pytest.MonkeyPatch) -> Sent:
    messages: Sent = []
    monkeypatch.setattr(view, "send", lambda content, buffers=None: messages.append((content, buffers or [])))
    return messages


def say(to: GameView, kind: str, **content: Any) -> None:
    to._received(to, {"type": kind, **content}, [])


def test_a_page_that_says_hello_gets_everything(view: GameView, sent: Sent) -> None:
    for key in ("ArrowLeft", "d"):
        say(view, "press", held=[key])
    sent.clear()
    say(view, "hello", view="v1")
    [(content, [picture])] = sent
    assert (content["type"], content["view"]) == ("moments", "v1")
    assert [state["step"] for state in content["states"]] == [0, 1, 2] and content["states"][2]["action"] == 1
    header = content["header"]
    image = Image.open(io.BytesIO(picture))
    assert content["mime"] == Image.MIME[str(image.format)]
    assert image.size == (header["picture"]["width"], header["picture"]["height"]) == (600, 400)
    assert header["groups"] == [{"title": "", "names": ("left", "right"), "kind": "choice"}]
    assert header["kind"] == "probability"
    assert header["keys"] == ["ArrowLeft", "ArrowRight", "a", "d"]
    assert header["legend"] == [("ArrowLeft, a", "left"), ("ArrowRight, d", "right")] and "Tab" in header["reserved"]
    assert header["agent"] and header["fps"] == 50 and header["frames_per_step"] == 1


def test_each_step_is_sent_once_with_its_picture(view: GameView, sent: Sent) -> None:
    say(view, "press", held=["ArrowLeft"])
    say(view, "do", name="advice")
    assert [[one["step"] for one in content["states"]] for content, _ in sent] == [[1], [2]]
    assert [content["states"][0]["by"] for content, _ in sent] == ["person", "agent"]
    assert all(picture[:4] == b"\x89PNG" for _, [picture] in sent) and not view._pulled


def test_buttons_hand_over_and_take_back(view: GameView, sent: Sent) -> None:
    say(view, "do", name="agent")
    assert view.game.moment.playing == "agent"
    say(view, "do", name="agent")
    assert view.game.moment.playing == "person"
    say(view, "pace", speed=4, turns=False)
    assert (view.game.moment.rate, view.game.moment.turns) == (200, False)
    say(view, "keys", held=["d"], begin=True)
    eventually(lambda: view.game.moment.over)
    kept = view.game.moment.kept
    assert kept is not None and wb.rollout(kept).actions.all()
    say(view, "do", name="restart")
    assert (view.game.moment.seed, view.game.moment.step) == (3, 0) and len(view._states) == 1
    say(view, "press", held=["ArrowLeft"])
    say(view, "do", name="keep")
    assert view.game.moment.kept not in (None, kept)


def test_what_goes_wrong_is_told_to_the_page(view: GameView, sent: Sent) -> None:
    for content, said in (({"kind": "press", "held": ["z"]}, "mean no action"),
                          ({"kind": "do", "name": "keep"}, "nothing was played yet"),
                          ({"kind": "pace", "speed": 1e9}, "speed=")):
        sent.clear()
        say(view, **content)
        assert [one["text"] for one, _ in sent if one["type"] == "problem" and said in one["text"]], content
    say(view, "do", name="_end")  # nothing that a page may ask for
    assert view.game.alive


def test_a_process_that_is_killed_is_told_with_what_helps(view: GameView, sent: Sent) -> None:
    say(view, "press", held=["a"])
    os.kill(view.game._process.pid, 9)
    [problem] = eventually(lambda: [one["text"] for one, _ in sent if one["type"] == "problem"])
    assert "exit code -9" in problem and "wb.play(" in problem
    sent.clear()
    say(view, "hello", view="v2")
    assert "The episode is not lost" in sent[-1][0]["text"]


@pytest.mark.full
def test_it_ends_with_its_widget_and_when_nobody_looks(
    view: GameView, cartpole: wb.Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert view.tick() and view.game.alive
    monkeypatch.setattr(games, "UNSEEN_S", -1.0)
    assert not view.tick() and not view.game.alive
    other = GameView(wb.play(cartpole))
    other.close()
    assert not other.game.alive


def test_a_saved_notebook_keeps_the_last_frame_and_how_it_stands(view: GameView) -> None:
    view.game.step(0)
    bundle = view.still()
    assert Image.open(io.BytesIO(base64.b64decode(bundle["image/png"]))).height >= 160
    for fact in ("CartPole-v1 with vtrace at 1,200 frames", "1 (1 by a person)", "return"):
        assert fact in bundle["text/plain"]


def test_where_nothing_comes_unasked_every_request_is_answered(
    view: GameView, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "_pulled", True)  # as in Colab
    say(view, "press", held=["a"])
    say(view, "pull")
    assert [content["states"][-1]["step"] for content, _ in sent] == [1, 1]
