"""What is said of a checkpoint's layers is what slow sums over its numbers say, and what training really computed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.learner.test_training import train, trainer_of
from workbench import checkpoints
from workbench.checkpoints import Checkpoint, layer_statistics
from workbench.config import RunConfig
from workbench.errors import CheckpointCorrupt
from workbench.learner.training import checkpointing
from workbench.learner.training.trainer import Trainer

META = {"steps": 1, "updates": 1, "time_s": 1.0}


def written(folder: Path, tensors: dict[str, Any], **meta: Any) -> Checkpoint:
    groups = {"model": {name: np.asarray(value) for name, value in tensors.items()}}
    return checkpoints.write(folder, frames=1, groups=groups, meta=META | meta, requested=False)


def kept(trainer: Trainer, config: RunConfig, folder: Path) -> Checkpoint:
    """A checkpoint as the learner writes it."""
    trained = [name for name, _ in trainer.network.named_parameters()]
    return checkpoints.write(
        folder, frames=1, groups=checkpointing.groups_of(trainer, torch.Generator()), requested=False,
        meta=META | {"config": config.to_json(), "trained": trained},
    )


@pytest.mark.parametrize("piece", [7, 10**6])
def test_a_layer_is_what_slow_sums_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    monkeypatch.setattr(layer_statistics, "_PIECE", piece)
    tensor = np.random.default_rng(0).normal(size=(6, 5, 2)).astype(np.float32)
    tensor[2] = 0
    numbers = [float(one) for one in tensor.ravel()]
    (layer,) = layer_statistics.layers(written(tmp_path, {"weight": tensor}))
    assert (layer.name, layer.shape, layer.not_finite) == ("weight", (6, 5, 2), 0)
    assert layer.norm == pytest.approx(math.sqrt(sum(one * one for one in numbers)))
    assert layer.rms == pytest.approx(math.sqrt(sum(one * one for one in numbers) / 60))
    assert (layer.low, layer.high) == (min(numbers), max(numbers))
    assert (layer.zeros, layer.dead_units) == (10 / 60, 1 / 6)
    assert math.isnan(layer.gradient_norm) and math.isnan(layer.gradient_rms)


def test_numbers_that_are_not_finite_are_counted_and_left_out(tmp_path: Path) -> None:
    found = written(tmp_path, {"a": np.array([3, np.nan, -4, np.inf], np.float32), "b": np.full(2, np.nan)})
    first, second = layer_statistics.layers(found)
    assert (first.norm, first.low, first.high, first.not_finite) == (5, -4, 3, 2)
    assert second.not_finite == 2 and second.norm == 0 and math.isnan(second.rms) and math.isnan(second.low)


def test_strange_tensors_do_no_harm(tmp_path: Path) -> None:
    found = written(tmp_path, {"empty": np.zeros((0, 3), np.float32), "scalar": np.float64(2.0), "whole": np.arange(4)})
    layers = {layer.name: layer for layer in layer_statistics.layers(found)}
    assert layers["scalar"].norm == 2 and layers["whole"].high == 3
    assert layers["empty"].norm == 0 and math.isnan(layers["empty"].dead_units)
    assert layer_statistics.histogram(np.zeros(0))[1].sum() == 0


@pytest.mark.parametrize("piece", [11, 10**6])
def test_a_histogram_counts_every_finite_number(monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    monkeypatch.setattr(layer_statistics, "_PIECE", piece)
    tensor = np.random.default_rng(1).normal(size=(40, 25)).astype(np.float32)
    edges, counts = layer_statistics.histogram(tensor)
    expected, places = np.histogram(tensor.astype(np.float64), layer_statistics.BINS)
    np.testing.assert_array_equal(counts, expected)
    np.testing.assert_allclose(edges, places)
    tensor[0, :3] = [np.nan, np.inf, -np.inf]
    assert layer_statistics.histogram(tensor)[1].sum() == 997
    assert layer_statistics.histogram(np.full(5, 2.0))[1].tolist().count(5) == 1
    shared = layer_statistics.edges_of(np.array([-1.0]), np.array([3.0]), bins=4)
    assert shared.tolist() == [-1, 0, 1, 2, 3]
    assert layer_statistics.histogram(np.array([0.5, 2.5, 9.0]), edges=shared)[1].tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
def test_gradient_norms_are_the_weighted_mean_squares_of_the_gradients_that_training_had(
    tmp_path: Path, optimizer: str
) -> None:
    config = RunConfig.build(
        "x", batch_size=2, unroll_length=4, optimizer=optimizer, adam_beta2=0.9, rmsprop_decay=0.8,
        max_gradient_norm=0.3,
    )
    trainer, updates = trainer_of(config), 12
    beta = 0.9 if optimizer == "adam" else 0.8
    mean = {name: 0.0 for name, _ in trainer.network.named_parameters()}
    for update in range(updates):
        train(trainer, config, seed=update)
        for name, parameter in trainer.network.named_parameters():
            assert parameter.grad is not None
            mean[name] = beta * mean[name] + (1 - beta) * float(parameter.grad.double().square().sum())
    found = kept(trainer, config, tmp_path)
    layers = list(layer_statistics.layers(found))
    assert [layer.name for layer in layers] == list(mean), "in the order of the network"
    for layer in layers:
        squares = mean[layer.name] / (1 - beta**updates)
        assert layer.gradient_norm == pytest.approx(math.sqrt(squares), rel=1e-4), layer.name
        assert layer.gradient_rms == pytest.approx(math.sqrt(squares / math.prod(layer.shape)), rel=1e-4)
    total = math.sqrt(sum(layer.gradient_norm**2 for layer in layers))
    assert 0 < total <= 0.3 * (1 + 1e-5), "gradients were clipped"


def test_a_unit_that_gets_no_gradient_is_dead(tmp_path: Path) -> None:
    config = RunConfig.build("x", batch_size=2, unroll_length=4, network="mlp")
    trainer = trainer_of(config)
    name, layer = "torso.hidden.0", trainer.network.get_submodule("torso.hidden.2")
    with torch.no_grad():
        layer.weight[:, :16] = 0  # nothing after them looks at the first 16 of 64 units
        layer.weight.register_hook(lambda gradient: gradient.index_fill(1, torch.arange(16), 0.0))
    for update in range(3):
        train(trainer, config, seed=update)
    found = {one.name: one for one in layer_statistics.layers(kept(trainer, config, tmp_path))}
    assert found[f"{name}.weight"].dead_units == 0.25
    assert found["value_torso.hidden.0.weight"].dead_units == 0
    assert math.isnan(found[f"{name}.bias"].dead_units)


def test_a_checkpoint_that_does_not_tell_its_parameters_has_no_gradient_norms(tmp_path: Path) -> None:
    config = RunConfig.build("x", batch_size=2, unroll_length=4)
    trainer = trainer_of(config)
    train(trainer, config, seed=0)
    old = checkpoints.write(
        tmp_path, frames=1, groups=checkpointing.groups_of(trainer, torch.Generator()), requested=False,
        meta=META | {"config": config.to_json()},
    )
    assert all(math.isnan(layer.gradient_norm) for layer in layer_statistics.layers(old))
    before = kept(trainer_of(config), config, tmp_path)
    assert all(math.isnan(layer.gradient_norm) for layer in layer_statistics.layers(before)), "no update yet"


@pytest.mark.parametrize("piece", [3, 10**6])
def test_differences_are_those_of_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    monkeypatch.setattr(layer_statistics, "_PIECE", piece)
    a, b = torch.randn(5, 7, dtype=torch.float64), torch.randn(5, 7, dtype=torch.float64)
    first = written(tmp_path, {"w": a.numpy(), "gone": np.ones(2), "reshaped": np.ones(2), "zero": np.zeros(2)})
    other = written(tmp_path, {"w": b.numpy(), "new": np.ones(3), "reshaped": np.ones(1), "zero": np.ones(2)})
    found = {one.name: one for one in layer_statistics.differences(first, other)}
    assert list(found) == ["gone", "new", "reshaped", "w", "zero"]
    w = found["w"]
    assert w.difference == pytest.approx(float((b - a).norm()))
    assert w.relative_difference == pytest.approx(float((b - a).norm() / a.norm()))
    assert w.cosine == pytest.approx(float(torch.cosine_similarity(a.flatten(), b.flatten(), dim=0)))
    assert found["zero"].relative_difference == np.inf and math.isnan(found["zero"].cosine)
    assert (found["gone"].only_in, found["new"].only_in, found["new"].shape) == ("self", "other", (3,))
    assert math.isnan(found["reshaped"].difference)
    (same,) = (one for one in layer_statistics.differences(first, first) if one.name == "w")
    assert same.difference == 0 and same.cosine == pytest.approx(1)


def test_layers_is_a_table(tmp_path: Path) -> None:
    table = written(tmp_path, {"b": [1.0], "a": [[3.0, 4.0]]}).layers()
    assert list(table.index) == ["a", "b"] and table.loc["a", "norm"] == 5


def test_damage_is_met_before_anything_is_said(tmp_path: Path) -> None:
    found = written(tmp_path, {"a": np.ones(4)})
    file = found.path / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(CheckpointCorrupt, match="was changed"):
        list(layer_statistics.layers(found))
