"""Observations of several parts, as MiniGrid's, football's and Dict spaces: ONNX says of them what torch says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from workbench import algorithms, networks
from workbench.algorithms import PolicyValueOutput
from workbench.config import RunConfig
from workbench.environment_spec import EnvironmentSpec, Part
from workbench.networks.normalization import Observed, output_of
from workbench.playing.worker import onnx_export
from workbench.policies.player import LoadedPolicy

KINDS = {
    "an image and a vector": (Part("view", (3, 36, 36), "uint8"), Part("way", (5,), "float32")),
    "bits": (Part("", (4, 36, 36), "bits"),),
    "one vector of several": (Part("pose", (6,), "float32"),),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("normalise", [False, True])
def test_onnx_says_what_torch_says(kind: str, normalise: bool, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    parts = KINDS[kind]
    spec = EnvironmentSpec("x", (sum(part.wire_bytes for part in parts),), "uint8", 3, parts=parts)
    config = RunConfig.build("x")
    algorithm = algorithms.build(config, spec=spec)
    network = networks.build(None, spec=spec, heads=algorithm.heads, seed=0, normalise=normalise).eval()
    assert isinstance(network, Observed)
    random = np.random.default_rng(0)
    for statistics in network.statistics.values():
        statistics.add(torch.from_numpy(random.normal(3, 2, (50, *statistics.mean.shape))))
    names = list(onnx_export.write(
        LoadedPolicy(network, algorithm, spec, config.hyperparameters), tmp_path / "x.onnx")["inputs"])
    called = {part.name: f"observation.{part.name}" if part.name else "observation" for part in spec.seen}
    assert names[: len(parts)] == list(called.values())
    seen = {part.name: random.normal(3, 2, (1, 1, *part.shape)).astype(np.float32) if part.dtype == "float32"
            else random.choice(np.array([0, 255], np.uint8), (1, 1, *part.shape)) for part in spec.seen}
    inputs = {**{called[name]: value for name, value in seen.items()},
              "previous_action": np.ones((1, 1), np.int64), "reward": np.ones((1, 1), np.float32),
              "start": np.zeros((1, 1), bool)}
    said = runtime.InferenceSession(tmp_path / "x.onnx").run(
        None, {name: value for name, value in inputs.items() if name in names})
    others = (torch.from_numpy(inputs[name]) for name in ("previous_action", "reward", "start"))
    with torch.no_grad():
        output, _ = output_of(network, {name: torch.from_numpy(value) for name, value in seen.items()}, *others, ())
    for one, other in zip(said, output, strict=True):
        np.testing.assert_allclose(one, other.numpy(), atol=2e-5)


class OneZeroForBoth(nn.Module):
    """Says its two states, which begin as one tensor."""

    def initial_state(self, batch: int) -> tuple[Tensor, ...]:
        zeros = torch.zeros(batch, 2)
        return zeros, zeros

    def forward(self, observation: Tensor, _: Tensor, __: Tensor, start: Tensor, state: tuple[Tensor, ...]) -> object:
        first, second = (part * ~start[0][:, None] for part in state)
        return PolicyValueOutput((observation[0, :, :2] + first - 2 * second)[None], second[None, :, 0]), state


def test_a_file_tells_states_apart_that_begin_as_one_tensor(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    spec, config = EnvironmentSpec("x", (2,), "float32", 2), RunConfig.build("x")
    policy = LoadedPolicy(OneZeroForBoth(), algorithms.build(config, spec=spec), spec, config.hyperparameters)
    onnx_export.write(policy, tmp_path / "x.onnx")
    said, *_ = runtime.InferenceSession(tmp_path / "x.onnx").run(None, {
        "observation": np.zeros((1, 1, 2), np.float32), "previous_action": np.zeros((1, 1), np.int64),
        "reward": np.zeros((1, 1), np.float32), "start": np.zeros((1, 1), bool),
        "state_0": np.full((1, 2), 5, np.float32), "state_1": np.full((1, 2), 7, np.float32)})
    assert said.tolist() == [[[-9, -9]]]
