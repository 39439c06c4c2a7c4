"""What a rollout holds of each step, checked against an environment and a network that count."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from tests.learner.counting import CountingNetwork
from tests.played import checkpoint_in, evaluated, rolled_out
from workbench import checkpoints
from workbench.algorithms import QValueOutput
from workbench.algorithms.r2d2 import targets as r2d2
from workbench.environments.adapters import code_by_value
from workbench.errors import EnvironmentFailed, NetworkFailed
from workbench.testing import CatchEnv, Count, CountingEnv, FailingEnv

COUNTING = {"environment_options": {"life": 1, "episode_length": 9}}


@pytest.mark.parametrize("ends", ["terminated", "truncated"])
@pytest.mark.parametrize("image", [False, True])
def test_observations_actions_and_rewards_stand_where_they_belong(tmp_path, ends, image):
    options = {"life": 1, "episode_length": 9, "ends": ends, "image": image}
    checkpoint = checkpoint_in(tmp_path, "testing/counting-v0", environment_options=options)
    played = rolled_out(checkpoint, tmp_path / "played", greedy=False)
    assert (played.terminated, played.truncated) == (ends == "terminated", ends == "truncated")
    assert played.steps == len(played.rewards) == len(played.values) == 9
    assert len(played.observations) == 10
    assert len(set(played.actions.tolist())) > 1
    for t, observation in enumerate(played.observations):
        assert CountingEnv.decode(observation) == Count(1, 0, t, int(played.actions[t - 1]) if t else -1)
    assert played.rewards == pytest.approx([CountingEnv.expected_reward(0, t + 1) for t in range(9)])
    if image:
        assert len(played.frames) == 10
        for frame, observation in zip(played.frames, played.observations, strict=True):
            assert np.array_equal(frame, np.repeat(observation.transpose(1, 2, 0), 3, axis=2))
    else:
        assert played.frames is None and "not images" in played.note


def test_values_and_the_recurrent_state_are_those_of_their_step(tmp_path):
    checkpoint = checkpoint_in(tmp_path, "testing/counting-v0", network=CountingNetwork, frame_stack=3, **COUNTING)
    played = rolled_out(checkpoint, tmp_path / "played")
    t = np.arange(9)
    assert played.state_norm.tolist() == (t + 1).tolist()
    assert played.values.tolist() == (10 * (t + 1) + np.minimum(t + 1, 3)).tolist()
    assert played.policy == pytest.approx(np.full((9, 3), 1 / 3))
    assert played.q_values is None


def test_values_of_clipped_rewards_are_said_to_be_such(tmp_path):
    for bound, words in ((0.0, ""), (100.0, ""), (0.5, "values are of rewards clipped to ±0.5, as in training")):
        checkpoint = checkpoint_in(tmp_path / str(bound), Drawn, max_abs_reward=bound)
        played = rolled_out(checkpoint, tmp_path / f"played {bound}")
        assert (played.max_abs_reward, played.note) == (bound, words)
    blind = rolled_out(checkpoint, tmp_path / "blind", render=False)
    assert blind.note == f"frames were not asked for; {words}"


def test_q_values_are_in_units_of_return(tmp_path):
    checkpoint = checkpoint_in(tmp_path, "testing/counting-v0", algorithm="r2d2",
                               network=partial(CountingNetwork, output=QValueOutput), **COUNTING)
    played = rolled_out(checkpoint, tmp_path / "played")
    said = 10.0 * torch.arange(1, 10) + 1
    expected = r2d2.unrescale(said, epsilon=1e-3).numpy()
    assert played.policy is None
    assert played.q_values == pytest.approx(np.repeat(expected[:, None], 3, axis=1))
    assert played.values == pytest.approx(expected)


def test_a_rollout_cut_short_has_no_end_and_the_observation_after_its_last_action(tmp_path):
    checkpoint = checkpoint_in(tmp_path, "testing/counting-v0", **COUNTING)
    played = rolled_out(checkpoint, tmp_path / "played", max_steps=4)
    assert not (played.terminated or played.truncated)
    assert [CountingEnv.decode(one).step for one in played.observations] == [0, 1, 2, 3, 4]
    assert "cut off" in repr(played)


ATARI = {"environment_options": {"max_frames_per_episode": 400}}
SAME = {
    "cartpole": ("CartPole-v1", {}),
    "lstm": ("testing/recall-v0", {"network": "mlp-lstm"}),
    "catch, stacked": (CatchEnv, {"network": "small-cnn-lstm", "frame_stack": 2}),
    "r2d2": ("testing/catch-v0", {"algorithm": "r2d2"}),
    "truncated": (lambda: gymnasium.wrappers.TimeLimit(gymnasium.make("CartPole-v1"), 8), {}),
    "sticky atari": ("ALE/Pong-v5", {"network": "nature-lstm", **ATARI}),
    "life lost": ("ALE/Breakout-v5", {"environment_options": {"life_loss": True, "max_frames_per_episode": 1000}}),
}


@pytest.mark.parametrize("greedy", [True, False])
@pytest.mark.parametrize("case", [
    pytest.param(one, marks=pytest.mark.full if one in ("sticky atari", "life lost") else ()) for one in SAME])
def test_the_episode_is_the_one_that_an_evaluation_plays(tmp_path, case, greedy):
    environment, fields = SAME[case]
    checkpoint = checkpoint_in(tmp_path, environment, **fields)
    played = rolled_out(checkpoint, tmp_path / "played", seed=5, greedy=greedy)
    assert (played.episode_return, played.steps) == evaluated(checkpoint, seed=5, greedy=greedy)
    assert played.truncated or case not in ("truncated", "sticky atari")
    assert played.terminated != played.truncated


def test_asking_for_saliency_changes_nothing_of_the_episode(tmp_path):
    checkpoint = checkpoint_in(tmp_path, "testing/catch-v0", network="small-cnn-lstm")
    plain, *asked = (rolled_out(checkpoint, tmp_path / str(how), greedy=False, saliency=how)
                     for how in (None, "gradient", "occlusion"))
    for one in asked:
        assert np.array_equal(one.observations, plain.observations) and np.array_equal(one.values, plain.values)
        assert one.saliency.shape == (plain.steps, 36, 36) and one.saliency.max() == 255


def test_atari_is_shown_in_colour_and_full_size(tmp_path):
    checkpoint = checkpoint_in(tmp_path, "ALE/Breakout-v5", **ATARI)
    played = rolled_out(checkpoint, tmp_path / "played", greedy=False)
    assert played.frames.shape == (played.steps + 1, 210, 160, 3)
    assert played.observations.shape == (played.steps + 1, 1, 84, 84)
    red, green, _ = played.frames[7][60, 80]  # a brick
    assert red > green + 50
    assert played.action_names == ("NOOP", "FIRE", "RIGHT", "LEFT") and played.fps == 15


class Drawn(gymnasium.Env):
    """Draws the number of its step; with `without` it cannot."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 12}
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, render_mode: str | None = None, without: str = "") -> None:
        self.render_mode, self.without = render_mode, without

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.number = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: int) -> Any:
        self.number += 1
        return np.ones(2, np.float32), 1.0, self.number == 5, False, {}

    def render(self) -> Any:
        if self.without:
            raise gymnasium.error.DependencyNotInstalled(f"run `pip install {self.without}`")
        return np.full((20, 30, 3), 10 * self.number, np.uint8)


def test_an_environment_that_draws_is_shown_up_to_its_last_frame(tmp_path):
    played = rolled_out(checkpoint_in(tmp_path, Drawn), tmp_path / "played")
    assert [int(frame[3, 3, 0]) for frame in played.frames] == [0, 10, 20, 30, 40, 50]
    assert (played.fps, played.note, played.action_names) == (12.0, "", ("0", "1"))


def test_frames_that_need_a_package_are_left_out_with_the_command_that_installs_it(tmp_path):
    checkpoint = checkpoint_in(tmp_path, Drawn, environment_options={"without": "pygame"})
    played = rolled_out(checkpoint, tmp_path / "played")
    assert played.frames is None and played.steps == 5
    assert "pip install pygame" in played.note and "no frames" in played.note


class Blank(Drawn):
    """An image environment that says it can draw, and gives nothing."""

    observation_space = gymnasium.spaces.Box(0, 255, (40, 48, 3), np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.full((40, 48, 3), 7, np.uint8), {}

    def step(self, action: int) -> Any:
        return np.full((40, 48, 3), 9, np.uint8), *super().step(action)[1:]

    def render(self) -> Any:
        return None


def test_an_image_stands_in_for_what_an_environment_does_not_draw(tmp_path):
    played = rolled_out(checkpoint_in(tmp_path, Blank), tmp_path / "played")
    assert [int(frame[3, 3, 0]) for frame in played.frames] == [7, 9, 9, 9, 9, 9] and played.note == ""


def test_weights_without_the_code_of_their_network_are_refused_in_words(tmp_path):
    checkpoint = checkpoint_in(tmp_path, "testing/counting-v0", network=CountingNetwork, **COUNTING)
    exported = checkpoints.at(checkpoints.export(checkpoint, tmp_path / "taken" / "away"))
    with pytest.raises(NetworkFailed, match="taken/away are not of the network .*.*play the checkpoint in its run"):
        rolled_out(exported, tmp_path / "played")


def test_code_that_lies_beside_an_exported_checkpoint_is_not_loaded(tmp_path):
    exported = checkpoints.at(checkpoints.export(checkpoint_in(tmp_path), tmp_path / "taken" / "away"))
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "network.pkl").write_bytes(code_by_value.dumps(CountingNetwork))
    (tmp_path / "code" / "network.pkl").chmod(0o600)
    assert rolled_out(exported, tmp_path / "played").policy.shape[1] == 2


def test_frames_that_nobody_asked_for_are_not_drawn(tmp_path):
    checkpoint = checkpoint_in(tmp_path, Drawn, environment_options={"without": "pygame"})
    assert rolled_out(checkpoint, tmp_path / "played", render=False).note == "frames were not asked for"


def test_an_environment_that_fails_is_named_with_its_traceback(tmp_path):
    checkpoint = checkpoint_in(tmp_path, "testing/failing-v0", environment_options={"at": 4})
    with pytest.raises(EnvironmentFailed, match="(?s)in step: on purpose.*Traceback"):
        rolled_out(checkpoint, tmp_path / "played")


FailsAtOnce = partial(FailingEnv, where="reset", at=1)


def test_an_environment_that_fails_at_once_is_not_taken_for_one_that_cannot_draw(tmp_path):
    checkpoint = checkpoint_in(tmp_path, FailsAtOnce)
    with pytest.raises(EnvironmentFailed, match="in reset: on purpose"):
        rolled_out(checkpoint, tmp_path / "played")
