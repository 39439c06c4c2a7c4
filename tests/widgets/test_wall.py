"""The wall on runs that really train: every environment is there with its own step, and a click opens one. And what a
run of CartPole by R2D2 shows on the wall, and in the view of one environment."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.conftest import SMALL, eventually
from tests.widgets.test_watch import joined, looks
from workbench.errors import InvalidInput, OutOfBounds, RunNotAlive
from workbench.playing.wall import Cell, Wall
from workbench.playing.watch import Watching
from workbench.tables import evenly_spaced
from workbench.testing import CountingEnv
from workbench.widgets.episodes.wall_view import WallView
from workbench.wire import columns
from workbench.wire.rpc import Caller


@pytest.fixture(scope="module")
def run(module_home: Path) -> wb.Run:
    options = {"episode_length": 9, "image": True, "step_ms": 10.0}
    return wb.launch("testing/counting-v0", environment_options=options, name="walled", total_frames=10**9,
                     progress=False, **{**SMALL, "actors": 2, "envs_per_actor": 4})


@pytest.fixture
def view(run: wb.Run) -> Iterator[WallView]:
    shown = run.watch()
    yield shown
    shown.close()


def seen(wall: Wall) -> dict[int, Cell]:
    """The newest step of every environment, from as many looks as it takes."""
    cells: dict[int, Cell] = {}

    def all_seen() -> bool:
        cells.update({cell.env: cell for cell in wall.look().cells})
        return set(cells) == set(wall.envs)

    eventually(all_seen, what="a step of every environment")
    return cells


def test_every_environment_is_there_with_its_own_picture_and_step(run: wb.Run) -> None:
    cells = seen(Wall(run._control))
    assert sorted(cells) == list(range(8))
    for cell in cells.values():
        count = CountingEnv.decode(cell.picture)
        assert count.step == cell.episode_step and cell.action in ("0", "1", "2")
        expected = sum(CountingEnv.expected_reward(count.episode, step) for step in range(1, count.step + 1))
        assert cell.episode_return == pytest.approx(expected, abs=1e-3)


def test_a_page_gets_what_is_new_and_one_that_says_hello_gets_all(
    view: WallView, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[tuple[dict[str, Any], list[bytes]]] = []
    monkeypatch.setattr(view, "send", lambda content, buffers=None: messages.append((content, buffers or [])))
    eventually(lambda: (view.look(), len(view._cells))[1] == 8)
    view._received(view, {"type": "hello", "view": "v7"}, [])
    content, [packed] = messages[-1]
    assert content["view"] == "v7" and content["envs"] == list(range(8))
    assert sorted(cell["env"] for cell in content["cells"]) == list(range(8))
    pictures = columns.unpack(content["columns"], zlib.decompress(packed))["picture"]
    assert pictures.shape == (8, 1, 36, 36)
    assert sum(len(message["cells"]) for message, _ in messages) >= 16


def test_a_click_shows_one_below_and_another_click_closes_it(view: WallView, monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[dict[str, Any]] = []
    monkeypatch.setattr(view, "send", lambda content, buffers=None: messages.append(content))
    for env in (3, 5):
        view._received(view, {"type": "open", "env": env}, [])
        assert view.opened is not None and view.opened.env == env and len(view.box.children) == 2
        assert messages[-1]["opened"] == env
    view._received(view, {"type": "open", "env": 5}, [])
    assert view.opened is None and view.box.children == (view,) and messages[-1]["opened"] is None
    for wrong in ("0", 99, None, [1]):
        view._received(view, {"type": "open", "env": wrong}, [])
        assert view.opened is None


def test_a_saved_notebook_keeps_some_of_them(view: WallView) -> None:
    assert "nothing yet" in view.still()["text/plain"]
    eventually(lambda: (view.look(), len(view._cells))[1] == 8)
    assert "mean return" in view.still()["text/html"] and view.still()["image/png"]


def test_no_more_than_64_are_watched_and_they_are_of_all_actors(run: wb.Run) -> None:
    supervisor = Caller(run.directory.supervisor_address, run.directory.token())
    with pytest.raises(OutOfBounds, match="walled has environments 0 to 7"):
        supervisor.call("watch", env=8)
    with pytest.raises(InvalidInput, match="since=\\['7'\\]: a wall's cursors"):
        supervisor.call("wall", since=["7"])
    supervisor.close()
    many = evenly_spaced(200, most=64)
    assert len(set(many)) == 64 and many[0] == 0 and many[-1] == 199
    assert (evenly_spaced(3, most=64), evenly_spaced(1, most=64)) == ([0, 1, 2], [0])
    assert (evenly_spaced(13, most=6), evenly_spaced(2, most=6)) == ([0, 2, 5, 7, 10, 12], [0, 1])


def test_a_wall_follows_the_number_of_actors(run: wb.Run, view: WallView) -> None:
    for actors in (1, 2):
        run.scale(actors=actors)
        everyone = list(range(4 * actors))
        eventually(lambda wanted=everyone: (view.look(), sorted(view._cells))[1] == wanted)
        assert view._wall.envs == everyone and view.title == f"walled, {4 * actors} environments"
        came = view._cells[everyone[-1]]
        eventually(lambda before=came: (view.look(), view._cells[before.env])[1] is not before, what="a later step")


@pytest.fixture(scope="module")
def pole(module_home: Path) -> wb.Run:
    return wb.launch("CartPole-v1", algorithm="r2d2", name="pole", total_frames=10**9, progress=False,
                     **{**SMALL, "actors": 1})


def test_classic_control_is_drawn(pole: wb.Run) -> None:
    cell = next(iter(seen(Wall(pole._control)).values()))
    assert cell.sketch is not None and cell.pose is not None and cell.pose.shape == (4, 3)
    assert cell.pose[1][0] == cell.picture[0]
    (look, *_) = looks(Watching(pole._control, 0), 1)
    assert look.entries[0] == "cart position"
    np.testing.assert_allclose(look.columns["pose"].reshape(-1, 4, 3)[:, 1, 0], look.columns["observation"][:, 0])


def test_q_values_are_shown_for_r2d2(pole: wb.Run) -> None:
    found = looks(Watching(pole._control, 0), 20)
    assert {look.kind for look in found} == {"q_value"}
    steps = joined(found)
    np.testing.assert_allclose(steps["value"], steps["scores"].max(-1), rtol=1e-6)
    assert steps["observation"].shape[1:] == (4,) and np.isfinite(steps["state_norm"]).all()


def test_the_end_of_the_run_is_said(pole: wb.Run) -> None:
    views = [pole.watch(), pole.watch(0)]
    pole.stop()
    for view in views:
        view.look()
        assert view.over and view.tick(), "it asks seldom whether it goes on"
        assert "pole is stopped" in view.still()["text/plain"]
        view.close()
    with pytest.raises(RunNotAlive, match="wb.resume"):
        pole.watch(0)
