"""The Python half of the player: what it sends, what it saves, and what a saved notebook keeps."""

from __future__ import annotations

import base64
import io
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.conftest import eventually
from workbench.environment_spec import ActionSpec, Part
from workbench.environments.observations import MOST_ENTRIES, decode
from workbench.errors import InvalidInput
from workbench.playing.rollout import Rollout
from workbench.widgets.episodes import filmstrip, player
from workbench.widgets.episodes.player import RolloutPlayer
from workbench.wire import columns

T, A = 12, 3


def rollout(**changes: Any) -> Rollout:
    """A made-up episode of 12 steps: frame t is uniformly of grey 10·t."""
    frames = np.stack([np.full((210, 160, 3), 10 * t, np.uint8) for t in range(T + 1)])
    policy = np.tile(np.array([0.2, 0.5, 0.3], np.float32), (T, 1))
    rewards = np.zeros(T, np.float32)
    rewards[[3, 8]] = 1.0, -2.0
    made = Rollout(
        environment="ALE/Pong-v5", algorithm="vtrace", checkpoint=Path("/runs/pong/checkpoints/5000"),
        checkpoint_frames=5000, seed=7, greedy=True, frames=frames,
        observation_rows=np.zeros((T + 1, 1, 84, 84), np.uint8), actions=np.arange(T) % A, rewards=rewards,
        values=np.linspace(0, 1, T, dtype=np.float32), policy=policy,
        q_values=None, state_norm=None, saliency=None, terminated=True, truncated=False,
        action_names=("NOOP", "UP", "DOWN"), fps=15.0, action_spec=ActionSpec("categorical", (A,)),
    )
    return replace(made, **changes)


def sent(shown: RolloutPlayer, monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict[str, Any], list[bytes]]]:
    messages: list[tuple[dict[str, Any], list[bytes]]] = []
    monkeypatch.setattr(shown, "send", lambda content, buffers=None: messages.append((content, buffers or [])))
    return messages


def told_of(content: dict[str, Any], buffers: list[bytes]) -> dict[str, np.ndarray]:
    """The columns of an episode's message."""
    return columns.unpack(content["columns"], zlib.decompress(buffers[0]))


def test_an_episode_is_one_message_with_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    saliency = np.random.default_rng(0).integers(0, 255, (T, 7, 5)).astype(np.uint8)
    norm = np.full(T, 2.5, np.float32)
    made = rollout(saliency=saliency, state_norm=norm)
    shown = RolloutPlayer([made])
    messages = sent(shown, monkeypatch)
    shown._received(shown, {"type": "hello", "view": "v1"}, [])
    [(content, [packed, pictures, compressed])] = messages
    assert (content["type"], content["view"], content["index"], content["count"]) == ("episode", "v1", 0, 1)
    header, told = content["header"], told_of(content, [packed])
    assert header["groups"] == [{"title": "", "names": ("NOOP", "UP", "DOWN"), "kind": "choice"}]
    assert header["actions"] == "categorical"
    assert header["kind"] == "probability" and header["fps"] == 15.0
    assert (header["picture"]["height"], header["picture"]["width"]) == (210, 160)
    assert header["saliency"] == [T, 7, 5]
    np.testing.assert_array_equal(np.frombuffer(zlib.decompress(compressed), np.uint8).reshape(T, 7, 5), saliency)
    starts = [0, *told["picture_end"].tolist()]
    for t, (start, end) in enumerate(zip(starts[:-1], starts[1:], strict=True)):
        picture = Image.open(io.BytesIO(pictures[start:end]))
        assert Image.MIME[str(picture.format)] == header["picture"]["mime"]
        assert picture.size == (160, 210) and picture.convert("L").getpixel((80, 100)) == 10 * t
    assert len(starts) == T + 2 and starts[-1] == len(pictures)


def test_rewards_come_with_the_frame_after_the_action_and_the_last_frame_has_no_action() -> None:
    content, buffers = player.episode(rollout())
    told = told_of(content, buffers)
    assert np.flatnonzero(told["reward"]).tolist() == [4, 9]
    assert told["episode_return"].tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 1, -1, -1, -1, -1]
    assert told["action"].tolist() == [*(t % A for t in range(T)), -1]
    assert np.isnan(told["value"][-1]) and np.isnan(told["scores"][-1]).all()
    np.testing.assert_allclose(told["scores"][0], [0.2, 0.5, 0.3], rtol=1e-6)
    np.testing.assert_allclose(told["time_s"], np.arange(T + 1) / 15)
    assert "state_norm" not in told


def test_an_episode_of_values_is_told_by_its_q_values() -> None:
    q_values = np.arange(T * A, dtype=np.float32).reshape(T, A)
    content, buffers = player.episode(rollout(policy=None, q_values=q_values, algorithm="r2d2"))
    assert content["header"]["kind"] == "q_value"
    np.testing.assert_array_equal(told_of(content, buffers)["scores"][:T], q_values)


def test_an_environment_that_draws_nothing_shows_its_observations() -> None:
    observations = np.random.default_rng(0).normal(size=(T + 1, 4)).astype(np.float32)
    made = rollout(frames=None, observation_rows=observations, note="CartPole draws nothing")
    content, buffers = player.episode(made)
    assert content["header"]["picture"] is None and content["header"]["shape"] == [4]
    assert content["header"]["note"] == "No pictures: CartPole draws nothing."
    np.testing.assert_array_equal(told_of(content, buffers)["observation"], observations)
    assert "image/png" not in RolloutPlayer([made]).still()


def test_packed_planes_travel_compressed_and_of_thousands_of_numbers_only_those_that_are_drawn() -> None:
    planes = (Part("", (16, 72, 96), "bits"),)
    rows = np.zeros((T + 1, 16 * 72 * 96 // 8), np.uint8)
    rows[:, ::1000] = 129
    content, buffers = player.episode(rollout(frames=None, observation_rows=rows, parts=planes, note="no pictures"))
    assert content["header"]["shape"] == [16, 72, 96] and content["header"]["entries"] == []
    np.testing.assert_array_equal(told_of(content, buffers)["observation"], decode(rows, planes))
    assert sum(map(len, buffers)) < rows.nbytes / 2
    many = np.random.default_rng(0).normal(size=(T + 1, 3, 40, 50)).astype(np.float32)
    for seen, parts in ((many, ()), (many.reshape(T + 1, -1), ()),
                        (many.reshape(T + 1, -1).view(np.uint8), (Part("far", (6000,), "float32"),))):
        content, buffers = player.episode(rollout(frames=None, observation_rows=seen, parts=parts, note="none"))
        assert content["header"]["shape"] == [MOST_ENTRIES] and len(content["header"]["entries"]) == MOST_ENTRIES
        np.testing.assert_array_equal(
            told_of(content, buffers)["observation"], many.reshape(T + 1, -1)[:, :MOST_ENTRIES])
    bars = (Path(__file__).parents[2] / "widgets" / "src" / "bars.js").read_text()
    assert f"const ENTRIES = {MOST_ENTRIES};" in bars


def test_two_rollouts_are_two_messages_and_three_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = RolloutPlayer([rollout(), rollout(seed=8)])
    messages = sent(shown, monkeypatch)
    shown._received(shown, {"type": "hello", "view": "a"}, [])
    assert [(content["index"], content["count"]) for content, _ in messages] == [(0, 2), (1, 2)]
    assert "seed 7" in shown.label and "seed 8" in shown.label
    for wrong in ([], [rollout()] * 3):
        with pytest.raises(InvalidInput, match=f"not {len(wrong)}"):
            RolloutPlayer(wrong)


def test_a_film_is_written_into_the_notebooks_folder_under_a_free_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = RolloutPlayer([rollout()])
    messages = sent(shown, monkeypatch)
    for _ in range(2):
        shown._received(shown, {"type": "save", "view": "v", "index": 0, "format": "gif", "overlay": False}, [])
    eventually(lambda: sum("saved: " in one["text"] for one, _ in messages) == 2, what="both are written")
    assert {path.name for path in tmp_path.iterdir()} == {"Pong-v5-5000-seed7.gif", "Pong-v5-5000-seed7-2.gif"}
    assert Image.open(tmp_path / "Pong-v5-5000-seed7.gif").size[0] >= 160
    assert any(one["text"] == f"saved: {tmp_path / 'Pong-v5-5000-seed7-2.gif'}" for one, _ in messages)
    assert not any(one["error"] for one, _ in messages)


@pytest.mark.parametrize(
    ("made", "asked", "said"),
    [
        (rollout(frames=None, note="it draws nothing"), {"index": 0, "format": "mp4"}, "it draws nothing"),
        (rollout(), {"index": 0, "format": "avi"}, "choose one of"),
        (rollout(), {"index": 5, "format": "gif"}, "index"),
    ],
)
def test_what_cannot_be_saved_is_said_in_words(
    made: Rollout, asked: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = RolloutPlayer([made])
    messages = sent(shown, monkeypatch)
    shown._received(shown, {"type": "save", "view": "v", **asked}, [])
    [told] = eventually(lambda: [one for one, _ in messages if one["error"]])
    assert told["text"].startswith("not saved: ") and said in told["text"]
    assert list(tmp_path.iterdir()) == []


def test_a_failure_without_text_is_said_by_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise TimeoutError

    shown = RolloutPlayer([rollout()])
    messages = sent(shown, monkeypatch)
    monkeypatch.setattr(shown, "save", fail)
    shown._received(shown, {"type": "save", "view": "v", "index": 0, "format": "mp4"}, [])
    [told] = eventually(lambda: [one for one, _ in messages if one["error"]])
    assert told["text"] == "not saved: TimeoutError"


def test_a_saved_notebook_keeps_a_strip_of_frames_and_the_facts() -> None:
    bundle = RolloutPlayer([rollout()]).still()
    strip = Image.open(io.BytesIO(base64.b64decode(bundle["image/png"])))
    assert strip.width > 5 * strip.height * 0.6 and "http" not in bundle["text/html"]
    for fact in ("ALE/Pong-v5", "return", "-1", "12 (0.8 s), terminated"):
        assert fact in bundle["text/html"] and fact in bundle["text/plain"]


def test_a_large_return_is_written_as_people_read_it() -> None:
    made = rollout(rewards=np.full(T, 1778.8, np.float32))
    assert player.title(made).endswith("return 21,346") and player.facts(made)["return"] == "21,346"


def test_observations_become_pictures_by_their_channels() -> None:
    assert filmstrip.picture_of(np.zeros(4, np.float32)) is None
    grey = filmstrip.picture_of(np.full((1, 2, 3), 9, np.uint8))
    assert grey is not None and grey.shape == (2, 3, 3) and (grey == 9).all()
    planes = np.zeros((16, 2, 2), np.uint8)
    planes[0, 0, 0] = planes[1, 1, 1] = 255
    drawn = filmstrip.picture_of(planes)
    assert drawn is not None and drawn[0, 0].any() and drawn[1, 1].any() and not drawn[0, 1].any()
    assert drawn[0, 0].tolist() != drawn[1, 1].tolist()


def test_columns_come_back_as_they_were_packed() -> None:
    given = {
        "a": np.arange(3, dtype=np.uint8), "b": np.arange(4, dtype=np.float64).reshape(2, 2),
        "c": np.zeros((0, 5), np.float32), "d": np.arange(2, dtype=np.int32)[::-1],
    }
    table, data = columns.pack(given)
    assert all(one["offset"] % 8 == 0 for one in table)
    for name, column in columns.unpack(table, data).items():
        np.testing.assert_array_equal(column, given[name])
    with pytest.raises(InvalidInput, match="'x' is int64"):
        columns.pack({"x": np.arange(3)})
