"""Saliency of networks whose gradient is known, and of one that looks at a single place."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from tests.played import checkpoint_in, rolled_out
from workbench.algorithms import PolicyValueOutput, QValueOutput
from workbench.errors import InvalidInput, NetworkFailed
from workbench.playing.worker import saliency
from workbench.testing import CatchEnv

WEIGHTS = torch.tensor([[1.0, -2.0, 0.0, 4.0], [0.0, 1.0, -3.0, 2.0]])  # of CartPole's actions


class Linear(nn.Module):
    """Q(x, a) = w_a·x of vectors; or of images, `divided` by 255 here or only if they are bytes."""

    def __init__(self, spec, *, weights=WEIGHTS, output=QValueOutput, divided="never"):
        super().__init__()
        self.weights, self.output, self.divided = nn.Parameter(weights.clone()), output, divided

    def initial_state(self, batch):
        return ()

    def forward(self, observation, previous_action, reward, start, state):
        features = observation.float().flatten(2)
        if self.divided == "always" or (self.divided == "bytes" and observation.dtype == torch.uint8):
            features = features / 255
        if self.divided == "whole":
            features = features.long().float()
        scores = features @ self.weights.T
        return (QValueOutput(scores) if self.output is QValueOutput
                else PolicyValueOutput(scores, scores.sum(-1))), state


def scaled(values: np.ndarray) -> np.ndarray:
    return np.round(255 * values / values.max())


def test_the_gradient_of_q_is_that_of_the_action_taken(tmp_path):
    checkpoint = checkpoint_in(tmp_path, algorithm="r2d2", network=Linear, value_rescaling=False)
    played = rolled_out(checkpoint, tmp_path / "played", saliency="gradient")
    expected = WEIGHTS.abs().numpy()[played.actions]
    assert played.saliency.dtype == np.uint8
    assert np.array_equal(played.saliency, scaled(expected))


def test_the_gradient_of_a_policy_is_that_of_the_logarithm_of_its_probability(tmp_path):
    checkpoint = checkpoint_in(tmp_path, network=partial(Linear, output=PolicyValueOutput))
    played = rolled_out(checkpoint, tmp_path / "played", saliency="gradient")
    weights = WEIGHTS.numpy()
    mean = played.policy @ weights  # ∂ log π(a)/∂x = w_a - Σ_b π(b) w_b
    assert np.abs(played.saliency - scaled(np.abs(weights[played.actions] - mean))).max() <= 1


def test_stacked_frames_and_their_parts_are_summed(tmp_path):
    weights = torch.cat([WEIGHTS, 2 * WEIGHTS], dim=1)
    checkpoint = checkpoint_in(tmp_path, algorithm="r2d2", network=partial(Linear, weights=weights), frame_stack=2,
                               value_rescaling=False)
    played = rolled_out(checkpoint, tmp_path / "played", saliency="gradient")
    assert np.array_equal(played.saliency, scaled(3 * WEIGHTS.abs().numpy()[played.actions]))


def one_place(row: int, column: int) -> torch.Tensor:
    """Weights of Catch's three actions: all of them look at 6 x 6 pixels."""
    weights = torch.zeros(3, 36, 36)
    weights[:, row : row + 6, column : column + 6] = torch.tensor([1.0, 2.0, 3.0])[:, None, None]
    return weights.flatten(1)


@pytest.mark.parametrize("divided", ["always", "bytes"])
def test_networks_of_bytes_are_followed_whichever_way_they_take_floats(tmp_path, divided):
    network = partial(Linear, weights=one_place(30, 18), divided=divided)
    played = rolled_out(checkpoint_in(tmp_path, CatchEnv, algorithm="r2d2", network=network),
                        tmp_path / "played", saliency="gradient")
    inside = np.zeros((36, 36), bool)
    inside[30:, 18:24] = True
    for one in played.saliency:
        assert (one[inside] > 0).all() and (one[~inside] == 0).all()


def test_a_network_that_cannot_be_differentiated_is_told_of_occlusion(tmp_path):
    network = partial(Linear, weights=one_place(30, 18), divided="whole")
    with pytest.raises(NetworkFailed, match="occlusion"):
        rolled_out(checkpoint_in(tmp_path, CatchEnv, algorithm="r2d2", network=network),
                   tmp_path / "played", saliency="gradient")


def test_occlusion_finds_the_place_that_the_network_looks_at(tmp_path):
    network = partial(Linear, weights=one_place(30, 18), divided="bytes")  # the paddle's first place
    played = rolled_out(checkpoint_in(tmp_path, CatchEnv, algorithm="r2d2", network=network),
                        tmp_path / "played", saliency="occlusion")
    first = played.saliency[0].astype(float)
    row, column = np.unravel_index(first.argmax(), first.shape)
    assert row >= 28 and 16 <= column <= 25
    assert first[:20].max() < 10  # far away nothing counts


def test_occlusion_of_vectors_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="saliency='gradient'"):
        rolled_out(checkpoint_in(tmp_path), tmp_path / "played", saliency="occlusion")


class Planes(gymnasium.Env):
    """Three planes of bits, beside a vector where `beside`; one place in a corner is always lit."""

    action_space = spaces.Discrete(3)

    def __init__(self, beside: bool = False, images: int = 1) -> None:
        planes = {f"planes{at or ''}": spaces.MultiBinary((3, 36, 36)) for at in range(images)}
        vector = {"speed": spaces.Box(-1, 1, (2,), np.float32)} if beside else {}
        parts = {**planes, **vector}
        self.observation_space = spaces.Dict(parts) if len(parts) > 1 else planes["planes"]

    def _seen(self):
        planes = self.np_random.integers(0, 2, (3, 36, 36)).astype(np.int8)
        if isinstance(self.observation_space, spaces.MultiBinary):
            return planes
        return {name: planes if name.startswith("planes") else np.ones(2, np.float32)
                for name in self.observation_space}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 4
        return self._seen(), {}

    def step(self, action):
        self.left -= 1
        return self._seen(), 0.0, self.left == 0, False, {}


class OnePlace(Linear):
    """Q-values of 6 x 6 pixels of the planes, and of the vector where there is one."""

    def __init__(self, spec, *, divided):
        super().__init__(spec, weights=one_place(12, 18).repeat(1, 3), divided=divided)

    def forward(self, observation, previous_action, reward, start, state):
        if not isinstance(observation, dict):
            return super().forward(observation, previous_action, reward, start, state)
        output, state = super().forward(observation["planes"], previous_action, reward, start, state)
        return QValueOutput(output.q_values + observation["speed"].sum(-1, keepdim=True)), state


@pytest.mark.parametrize("method", ["gradient", "occlusion"])
@pytest.mark.parametrize("beside", [False, True])
def test_planes_of_bits_are_explained_alone_and_beside_a_vector(tmp_path, method, beside):
    network = partial(OnePlace, divided="bytes")
    checkpoint = checkpoint_in(tmp_path, Planes, algorithm="r2d2", network=network, value_rescaling=False,
                               environment_options={"beside": beside})
    played = rolled_out(checkpoint, tmp_path / "played", saliency=method)
    assert played.saliency.shape == (4, 36, 36)
    inside = np.zeros((36, 36), bool)
    inside[12:18, 18:24] = True
    for one in played.saliency:
        if method == "gradient":
            assert (one[inside] == 255).all() and (one[~inside] == 0).all()
        else:
            row, column = np.unravel_index(one.argmax(), one.shape)
            assert 9 <= row <= 20 and 15 <= column <= 26 and one[28:].max() < 10


@pytest.mark.parametrize("method", ["gradient", "occlusion"])
def test_our_own_network_of_planes_and_a_normalised_vector_is_followed(tmp_path, method):
    checkpoint = checkpoint_in(tmp_path, Planes, network="small-cnn-lstm", normalize_observations=True, frame_stack=2,
                               environment_options={"beside": True})
    played = rolled_out(checkpoint, tmp_path / "played", saliency=method)
    assert played.saliency.shape == (4, 36, 36) and played.saliency.max() == 255


def test_parts_without_an_image_of_their_own_are_refused_in_words(tmp_path):
    checkpoint = checkpoint_in(tmp_path, Planes, environment_options={"images": 2})
    with pytest.raises(InvalidInput, match="have the parts planes, planes1, 2 of them images. Use saliency=None"):
        rolled_out(checkpoint, tmp_path / "played", saliency="gradient")


def test_numbers_that_are_chosen_are_explained_by_their_middles(tmp_path):
    checkpoint = checkpoint_in(tmp_path, "Pendulum-v1")
    played = rolled_out(checkpoint, tmp_path / "played", saliency="gradient", max_steps=5)
    assert played.saliency.shape == (5, 3) and played.saliency.max() == 255


@pytest.mark.parametrize("size", [7, 84])
def test_occlusion_blurs_small_images_too(size: int) -> None:
    occlusion = saliency._Occlusion(SimpleNamespace(part=SimpleNamespace(shape=(3, size, size))))
    for matrix in occlusion._blur:
        assert float(matrix.diagonal().max()) < 0.5, "a pixel that stays as it is is not occluded"
