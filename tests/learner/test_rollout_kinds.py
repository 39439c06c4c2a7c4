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
from tests.played import branching_here, checkpoint_in, rolled_out
from workbench.checkpoints import tensorfile
from workbench.environment_spec import ActionSpec
from workbench.errors import StorageFailed, WorkbenchError
from workbench.playing import action_words, store
from workbench.playing.rollout import load
from workbench.playing.worker import played_episode as playing
from workbench.testing import Count, CountingEnv
from workbench.trajectory import StepBatch
from workbench.widgets.episodes import player
from workbench.widgets.episodes.player import RolloutPlayer
from workbench.wire import columns


class Kinds(gymnasium.Env):
    """Six steps; the observation tells the last action: as a vector, beside its planes where `planes`."""

    SPACES = {
        "parts": spaces.MultiDiscrete([3, 2]), "switches": spaces.MultiBinary(3),
        "numbers": spaces.Box(np.array([-2, 0], np.float32), np.array([2, 10], np.float32)),
        "mixed": spaces.Dict({"throttle": spaces.Box(0, 10, (1,), np.float32), "move": spaces.Discrete(3, start=1),
                              "press": spaces.MultiBinary(2)}),
    }

    def __init__(self, kind: str, planes: bool = False) -> None:
        self.kind, self.planes = kind, planes
        self.action_space = self.SPACES[kind]
        if kind == "mixed":
            self.action_names = {"move": ("LEFT", "STAY", "RIGHT"), "press": ("A", "B")}
        size = 4 if kind == "mixed" else self.action_space.shape[0]
        vector = spaces.Box(-100, 100, (size,), np.float32)
        image = spaces.Box(0, 255, (36, 36, 2), np.uint8)
        self.observation_space = spaces.Dict({"done": vector, "planes": image}) if planes else vector

    def _seen(self, action: Any) -> Any:
        members = action.values() if isinstance(action, dict) else [action]
        vector = np.concatenate([np.asarray(member, np.float32).reshape(-1) for member in members])
        if not self.planes:
            return vector
        image = np.zeros((36, 36, 2), np.uint8)
        image[self.left, :, 0] = image[0, 0, 1] = 255
        return {"done": vector, "planes": image}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.left = 6
        return self._seen(np.zeros(4 if self.kind == "mixed" else self.action_space.shape)), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.left -= 1
        return self._seen(action), 0.5, self.left == 0, False, {}


SPECS = {
    "parts": ActionSpec("multi_discrete", (3, 2)), "switches": ActionSpec("bernoulli", (2, 2, 2)),
    "numbers": ActionSpec("tanh_normal", (0, 0)),
    "mixed": ActionSpec.mixed({
        "move": ActionSpec("categorical", (3,)), "press": ActionSpec("bernoulli", (2, 2)),
        "throttle": ActionSpec("tanh_normal", (0,))}),
}
KINDS = {"parts": "probability", "switches": "probability", "numbers": "mean", "mixed": "probability"}


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
    elif kind == "mixed":
        assert played.means is None and played.said is played.policy and played.policy.shape == (6, 6)
        assert played.actions.dtype == np.float32 and played.action_names[:5] == ("LEFT", "STAY", "RIGHT", "A", "B")
        np.testing.assert_allclose(told, played.actions * [1, 1, 1, 5] + [1, 0, 0, 5], rtol=1e-5)
        np.testing.assert_allclose(played.policy[:, :3].sum(1), 1, rtol=1e-5)
        likeliest = np.column_stack([played.policy[:, :3].argmax(1), played.policy[:, 3:5] > 0.5, played.policy[:, 5]])
        assert np.array_equal(played.actions, likeliest.astype(np.float32)) == greedy
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
    assert told["scores"].shape[1] == SPECS[kind].encoded_size
    assert np.array_equal(told["action"][:6], played.actions) and len(told["action"]) == 7
    last = told["action"][6]
    assert np.isnan(last).all() if kind in ("numbers", "mixed") else (last == -1).all()
    bundle = RolloutPlayer([played]).still()
    assert "image/png" in bundle and player.facts(played)["taken"] in bundle["text/plain"]
    film = played.save(tmp_path / "film.gif", overlay=True)
    assert film.stat().st_size > 1000


def test_a_mixed_action_is_shown_by_the_names_of_its_parts_and_another_future_takes_it_by_them(tmp_path):
    checkpoint = checkpoint_in(tmp_path, Kinds, environment_options={"kind": "mixed"})
    played = rolled_out(checkpoint, tmp_path / "played")
    assert action_words.in_words(played.action_spec, played.action_names, np.array([2, 1, 0, 0.311], np.float32)) == (
        "move: RIGHT; press: A; throttle: 0.31")
    assert player.facts(played)["an action"] == "move: one of 3; press: 2 switches; throttle: 1 number"
    assert player.episode(played)[0]["header"]["groups"] == [
        {"title": "move", "names": ("LEFT", "STAY", "RIGHT"), "kind": "choice"},
        {"title": "press", "names": ("A", "B"), "kind": "switches"},
        {"title": "throttle", "names": ("number 1",), "kind": "numbers"}]
    with branching_here():
        branch = played.branch(2, action={"move": "RIGHT", "press": [1, 0], "throttle": -0.5})
        assert branch.actions[2].tolist() == [2, 1, 0, -0.5] and branch.observations[3].tolist() == [3, 1, 0, 2.5]
        assert np.array_equal(branch.actions[:2], played.actions[:2])
        assert branch.branched.change == "action move: RIGHT; press: A; throttle: -0.50"
        again = branch.branch(4, action=[[0, 0, 1, 1], [1, 0, 1, 1]])  # goes through the forced action once more
        assert again.actions[2:].tolist() == [[2, 1, 0, -0.5], branch.actions[3].tolist(), [0, 0, 1, 1], [1, 0, 1, 1]]
        for action, said in (({"move": "UP", "press": [1, 0], "throttle": 0}, "action 'UP'"),
                             ({"move": 1}, "must have the parts move, press, throttle, and no other"),
                             ({"move": 1, "press": "x", "throttle": 0}, "press='x' is no part of an action"),
                             ({"move": 3, "press": [1, 0], "throttle": 0}, "3 of part 'move' is not a whole number")):
            with pytest.raises(WorkbenchError, match=said):
                played.branch(2, action=action)


@pytest.mark.parametrize("method", ["gradient", "occlusion"])
def test_saliency_of_a_mixed_action_is_of_all_its_parts(tmp_path, method):
    checkpoint = checkpoint_in(tmp_path, Kinds, environment_options={"kind": "mixed", "planes": True})
    played = rolled_out(checkpoint, tmp_path / "played", saliency=method)
    assert played.saliency.shape == (6, 36, 36) and played.saliency.any((1, 2)).all()


def test_damaged_mixed_actions_of_a_rollout_are_refused(tmp_path):
    played = rolled_out(checkpoint_in(tmp_path, Kinds, environment_options={"kind": "mixed"}), tmp_path / "played")
    arrays = {name: np.array(array) for name, array in store.read(tmp_path / "played").arrays.items()}
    for column, value in ((0, 0.5), (0, 3), (1, -1), (2, np.nan)):
        actions = arrays["actions"].copy()
        actions[1, column] = value
        with open(tmp_path / "played" / "steps.safetensors", "wb") as file:
            tensorfile.Content.of("steps", {**arrays, "actions": actions}).write(file)
        with pytest.raises(StorageFailed, match="an action is none of"):
            load(played.path)


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
