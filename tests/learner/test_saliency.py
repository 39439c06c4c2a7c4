"""Saliency of networks whose gradient is known, and of one that looks at a single place."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from tests.played import checkpoint_in, rolled_out
from workbench.algorithms import PolicyValueOutput, QValueOutput
from workbench.errors import InvalidInput, NetworkFailed
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
