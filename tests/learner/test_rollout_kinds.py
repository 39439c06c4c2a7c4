"""Rollouts of every kind of action and observation, with scores, and of games of several agents."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tests.environments.games import CountingGame
from tests.played import checkpoint_in, rolled_out
from workbench.errors import StorageFailed
from workbench.playing import store
from workbench.playing.rollout import load
from workbench.playing.worker import rollout as playing
from workbench.testing import Count, CountingEnv
from workbench.trajectory import ActionSpec, StepBatch
from workbench.widgets.episodes import player
from workbench.widgets.episodes.player import RolloutPlayer
from workbench.wire import columns


class Kinds(gymnasium.Env):
    """Six steps; the observation tells the last action: as a vector, beside its planes where `planes`."""

    SPACES = {
        "parts": spaces.MultiDiscrete([3, 2]), "switches": spaces.MultiBinary(3),
        "numbers": spaces.Box(np.array([-2, 0], np.float32), np.array([2, 10], np.float32)),
    }

    def __init__(self, kind: str, planes: bool = False) -> None:
        self.kind, self.planes = kind, planes
        self.action_space = self.SPACES[kind]
        size = self.action_space.shape[0]
        vector = spaces.Box(-100, 100, (size,), np.float32)
        image = spaces.Box(0, 255, (36, 36, 2), np.uint8)
        self.observation_space = spaces.Dict({"done": vector, "planes": image}) if planes else vector

    def _seen(self, action: Any) -> Any:
        vector = np.asarray(action, np.float32)
        if not self.planes:
            return vector
        image = np.zeros((36, 36, 2), np.uint8)
        image[self.left, :, 0] = image[0, 0, 1] = 255
        return {"done": vector, "planes": image}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.left = 6
        return self._seen(np.zeros(self.action_space.shape)), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.left -= 1
        return self._seen(action), 0.5, self.left == 0, False, {}


SPECS = {
    "parts": ActionSpec("multi_discrete", (3, 2)), "switches": ActionSpec("bernoulli", (2, 2, 2)),
    "numbers": ActionSpec("tanh_normal", (0, 0)),
}
KINDS = {"parts": "probability", "switches": "probability", "numbers": "mean"}


@pytest.mark.parametrize("greedy", [True, False])
@pytest.mark.parametrize("kind", SPECS)
def test_actions_of_every_kind_are_kept_with_what_was_said_of_them(tmp_path, kind, greedy):
    checkpoint = checkpoint_in(tmp_path, Kinds, environment_options={"kind": kind})
    played = rolled_out(checkpoint, tmp_path / "played", greedy=greedy)
    spec, size = SPECS[kind], len(SPECS[kind].sizes)
    assert played.action_spec == spec and played.actions.shape == (6, size)
    told = played.observations[1:]
    if kind == "numbers":
        assert played.policy is None and played.said is played.means and played.means.shape == (6, 2)
        assert played.actions.dtype == np.float32 and np.abs(played.actions).max() <= 1
        np.testing.assert_allclose(told, played.actions * [2, 5] + [0, 5], rtol=1e-5)  # stretched to low … high
        assert np.array_equal(played.actions, played.means) == greedy
    else:
        assert played.means is None and played.said is played.policy
        assert np.array_equal(told, played.actions) and played.actions.dtype == np.int64
    if kind == "parts":
        np.testing.assert_allclose([played.policy[:, :3].sum(1), played.policy[:, 3:].sum(1)], 1, rtol=1e-5)
        likeliest = np.stack([played.policy[:, :3].argmax(1), played.policy[:, 3:].argmax(1)], 1)
        assert not greedy or np.array_equal(played.actions, likeliest)
    if kind == "switches":
        assert not greedy or np.array_equal(played.actions, played.policy > 0.5)


@pytest.mark.parametrize("kind", SPECS)
def test_the_player_and_a_saved_notebook_show_them(tmp_path, kind):
    checkpoint = checkpoint_in(tmp_path, Kinds, environment_options={"kind": kind, "planes": True})
    played = rolled_out(checkpoint, tmp_path / "played", greedy=False)
    content, buffers = player.episode(played)
    told, header = columns.unpack(content["columns"], zlib.decompress(buffers[0])), content["header"]
    assert (header["actions"], header["kind"]) == (SPECS[kind].kind, KINDS[kind])
    assert told["scores"].shape[1] == (5 if kind == "parts" else len(SPECS[kind].sizes))
    assert np.array_equal(told["action"][:6], played.actions) and len(told["action"]) == 7
    last = told["action"][6]
    assert np.isnan(last).all() if kind == "numbers" else (last == -1).all()
    bundle = RolloutPlayer([played]).still()
    assert "image/png" in bundle and player.facts(played)["taken"] in bundle["text/plain"]
    film = played.save(tmp_path / "film.gif", overlay=True)
    assert film.stat().st_size > 1000


def test_pendulum_is_played_through_with_its_torque(tmp_path):
    checkpoint = checkpoint_in(tmp_path, "Pendulum-v1")
    played = rolled_out(checkpoint, tmp_path / "played", greedy=False, max_steps=40)
    assert played.action_spec == ActionSpec("tanh_normal", (0,)) and played.actions.shape == (40, 1)
    assert "number 1" in player.facts(played)["taken"]
    velocity, angle = played.observations[:, 2], np.arctan2(played.observations[:, 1], played.observations[:, 0])
    torque = 2 * played.actions[:, 0]  # θ'' = 15 sin θ + 3 u, each 0.05 s (Gymnasium's pendulum.py)
    expected = np.clip(velocity[:-1] + 0.05 * (15 * np.sin(angle[:-1]) + 3 * torque), -8, 8)
    np.testing.assert_allclose(velocity[1:], expected, atol=1e-4)


def test_observations_of_several_parts_come_by_name_and_the_image_is_shown(tmp_path):
    checkpoint = checkpoint_in(tmp_path, Kinds, environment_options={"kind": "switches", "planes": True})
    played = rolled_out(checkpoint, tmp_path / "played", greedy=False)
    assert set(played.observations) == {"done", "planes"}
    assert np.array_equal(played.observations["done"][1:], played.actions)
    assert played.observations["planes"].shape == (7, 2, 36, 36)
    for t, frame in enumerate(played.frames):
        assert frame[6 - t, 5].tolist() == [86, 180, 233] and not frame[20].any()  # the first plane
    blind = rolled_out(checkpoint, tmp_path / "blind", render=False)
    content, buffers = player.episode(blind)
    seen = columns.unpack(content["columns"], zlib.decompress(buffers[0]))["observation"]
    assert content["header"]["shape"] == [2, 36, 36] and np.array_equal(
        seen.reshape(7, 2, 36, 36), blind.observations["planes"])


def test_vectors_of_several_parts_are_shown_by_their_names(tmp_path):
    def typed() -> gymnasium.Env:
        return gymnasium.wrappers.TransformObservation(
            Kinds("switches"), lambda seen: {"a": seen[:1], "b": seen[1:]},
            spaces.Dict({"a": spaces.Box(-1, 1, (1,), np.float32), "b": spaces.Box(-1, 1, (2,), np.float32)}))

    played = rolled_out(checkpoint_in(tmp_path, typed), tmp_path / "played", greedy=False)
    content, _ = player.episode(played)
    assert content["header"]["entries"] == ["a[0]", "b[0]", "b[1]"] and content["header"]["shape"] == [3]


def test_a_rollout_of_the_format_before_opens_as_one_of_choices(tmp_path):
    played = rolled_out(checkpoint_in(tmp_path), tmp_path / "played")
    record = tmp_path / "played" / store.RECORD
    told = json.loads(record.read_text())
    assert told.pop("format") == 2
    for new in ("actions", "parts", "reward_scale"):
        del told[new]
    record.write_text(json.dumps({**told, "format": 1}))
    old = load(tmp_path / "played")
    assert old.action_spec == played.action_spec == ActionSpec("categorical", (2,))
    assert np.array_equal(old.observations, played.observations) and repr(old) == repr(played)
    record.write_text(json.dumps({**told, "format": 2, "actions": {"kind": "categorical", "sizes": [2]}}))
    with pytest.raises(StorageFailed, match="damaged: it lacks 'parts'"):
        load(tmp_path / "played")


class Scored:
    """An environment that counts twice its reward."""

    def __init__(self, environment: Any) -> None:
        self._environment, self.spec = environment, replace(environment.spec, scored=True)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._environment, name)

    def step(self, actions: Any) -> StepBatch:
        step = self._environment.step(actions)
        return replace(step, score=2 * step.reward)


def test_what_an_environment_counts_itself_stands_beside_the_rewards(tmp_path, monkeypatch):
    made = playing.make_environment
    monkeypatch.setattr(playing, "make_environment", lambda *given, **how: Scored(made(*given, **how)))
    checkpoint = checkpoint_in(tmp_path, Kinds, environment_options={"kind": "parts"})
    played = rolled_out(checkpoint, tmp_path / "played")
    assert played.scores.tolist() == [1.0] * 6 and (played.episode_return, played.episode_score) == (3.0, 6.0)
    assert "return 3, score 6" in repr(played) and player.facts(played)["score"] == "6"
    content, buffers = player.episode(played)
    assert columns.unpack(content["columns"], zlib.decompress(buffers[0]))["score"].tolist() == [0.0, *[1.0] * 6]


@pytest.mark.parametrize(("lengths", "ends"), [((3, 5), "terminated"), ((5, 2), "terminated"), ((2, 4), "truncated")])
def test_of_a_game_of_several_the_first_agent_is_shown_to_its_own_end(tmp_path, lengths, ends):
    game = partial(CountingGame, lengths=lengths, ends=(ends, "terminated"), number=1)
    played = rolled_out(checkpoint_in(tmp_path, game, agents=2), tmp_path / "played", greedy=False)
    assert played.steps == lengths[0] and (played.terminated, played.truncated) == (ends == "terminated",
                                                                                    ends == "truncated")
    assert played.rewards == pytest.approx([CountingGame.reward(0, 0, step + 1) for step in range(lengths[0])])
    for t, observation in enumerate(played.observations):
        assert CountingEnv.decode(observation) == Count(10, 0, t, int(played.actions[t - 1]) if t else -1)


def test_values_of_scaled_rewards_are_said_to_be_such(tmp_path):
    options = {"environment_options": {"kind": "switches"}, "reward_scale": 0.5, "max_abs_reward": 0.1}
    played = rolled_out(checkpoint_in(tmp_path, Kinds, **options), tmp_path / "played", render=False)
    assert played.note.endswith("values are of rewards times 0.5 and clipped to ±0.1, as in training")
