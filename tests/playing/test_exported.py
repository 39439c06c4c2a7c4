"""A policy as files to take away, and back in a plain Gymnasium loop; and as ONNX, which says what torch says."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import workbench as wb
from tests.played import checkpoint_in, evaluated
from workbench import checkpoints
from workbench.__main__ import main
from workbench.environments.contract import seeds_of
from workbench.errors import (
    CheckpointCorrupt,
    InvalidInput,
    MissingPackage,
    NetworkFailed,
    ShapeMismatch,
    StorageFailed,
)
from workbench.networks import PolicyValueNetwork
from workbench.networks.torsos import MLP
from workbench.playing.worker import onnx_export
from workbench.policies.player import load_policy


def played(policy: Any, env: gymnasium.Env, *, seed: int) -> tuple[float, int]:
    """Return and length of an episode, in a plain loop."""
    observation, _ = env.reset(seed=int(seeds_of(seed, 1)[0]))
    policy.reset()
    reward, total, length, terminated, truncated = 0.0, 0.0, 0, False, False
    while not (terminated or truncated):
        observation, reward, terminated, truncated, _ = env.step(policy.act(observation, reward))
        total, length = total + float(reward), length + 1
    return total, length


@pytest.mark.parametrize(("environment", "fields", "greedy"), [
    ("CartPole-v1", {"network": "mlp"}, False),
    ("testing/recall-v0", {"network": "mlp-lstm", "algorithm": "r2d2"}, True),  # has memory, and reads the last reward
    ("Pendulum-v1", {}, True),  # its actions are stretched
    ("testing/catch-v0", {"frame_stack": 3}, False),
])  # fmt: skip
def test_a_plain_loop_plays_the_episodes_that_an_evaluation_plays(
    tmp_path: Path, environment: str, fields: dict[str, Any], greedy: bool
) -> None:
    one = checkpoint_in(tmp_path, environment, **fields)
    there = wb.export_policy(one, target=tmp_path / "taken")
    env = gymnasium.make(environment)
    expected = [evaluated(one, seed=seed, greedy=greedy) for seed in (4, 5)]
    found = [played(wb.load_policy(there, env=env, greedy=greedy, seed=seed), env, seed=seed) for seed in (4, 5)]
    assert found == [(pytest.approx(total), length) for total, length in expected]
    policy = wb.load_policy(there, env=env)
    first = played(policy, env, seed=4)
    assert played(policy, env, seed=4) == first, "reset forgets the episode before"


def test_what_is_exported_has_the_weights_and_nothing_that_only_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = checkpoint_in(tmp_path, "CartPole-v1")
    path = wb.export_policy(one, target=tmp_path / "taken")
    assert sorted(file.name for file in path.iterdir()) == ["README.md", "meta.json", "model.safetensors"]
    assert repr(wb.load_policy(path, env=gymnasium.make("CartPole-v1"))) == (
        "Policy(CartPole-v1 at 1,200 frames, likeliest actions)")
    packed = wb.export_policy(one, target=tmp_path / "taken.zip")
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(tmp_path / "unpacked")
    assert (tmp_path / "unpacked" / "taken" / "meta.json").read_bytes() == (path / "meta.json").read_bytes()
    with pytest.raises(InvalidInput, match="taken is there already. Choose another name"):
        wb.export_policy(one, target=path)
    for name in ("policy.pt", "policy.onx", "policy.zpi", ".onnx"):
        with pytest.raises(InvalidInput, match=f"'{name}' ends as a file of another format. Name a new folder"):
            wb.export_policy(one, target=tmp_path / name)
    assert wb.export_policy(one, target=tmp_path / "pong.v2").is_dir()
    with pytest.raises(InvalidInput, match=r"taken\.zip is packed\. Unzip it, and give the folder"):
        wb.evaluate(packed, episodes=1)
    (tmp_path / "net.onnx").touch()
    with pytest.raises(InvalidInput, match=r"net\.onnx is a network for other programs, and its card, net\.md, has"):
        wb.evaluate(tmp_path / "net.onnx", episodes=1)
    assert zipfile.is_zipfile(wb.export_policy(one, target=tmp_path / "TAKEN.ZIP"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert wb.load_policy("~/taken", env=gymnasium.make("CartPole-v1"))
    shutil.rmtree(tmp_path / "run")
    assert wb.evaluate(path, episodes=1).lengths, "it needs nothing of its run"


def test_an_environment_whose_actions_have_other_bounds_is_refused(tmp_path: Path) -> None:
    one = checkpoint_in(tmp_path, "Pendulum-v1")
    weaker = gymnasium.wrappers.RescaleAction(gymnasium.make("Pendulum-v1"), -1, 1)
    with pytest.raises(ShapeMismatch, match=r"action_bounds=\(\(-2.0, 2.0\),\), and this environment has \(\(-1"):
        wb.load_policy(one, env=weaker)


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    one = checkpoint_in(tmp_path, "CartPole-v1")
    weights = {name: np.full_like(values, np.nan) for name, values in one.load("model").items()}
    more = {"steps": 1, "updates": 1, "time_s": 1.0, "config": one.config.to_json(), "environment": one.spec.to_json()}
    broken = checkpoints.write(one.path.parent, frames=1300, groups={"model": weights}, meta=more, requested=True)
    with pytest.raises(CheckpointCorrupt, match="has NaN, so its policy cannot choose an action. Choose an earlier"):
        wb.evaluate(broken, episodes=1)


def test_an_environment_of_another_kind_is_refused(tmp_path: Path) -> None:
    one = checkpoint_in(tmp_path, "CartPole-v1")
    with pytest.raises(ShapeMismatch, match=r"was trained in CartPole-v1 with observation_shape=\(4,\), and this"):
        wb.load_policy(one, env=gymnasium.make("Pendulum-v1"))
    with pytest.raises(InvalidInput, match="env='CartPole-v1' is no Gymnasium environment. Give one: gymnasium.make"):
        wb.load_policy(one, env="CartPole-v1")
    policy = wb.load_policy(one, env=gymnasium.make("CartPole-v1"))
    with pytest.raises(InvalidInput, match=r"observation of shape \(2,\); the observation space has shape \(4,\)"):
        policy.act(np.zeros(2, np.float32))
    with pytest.raises(InvalidInput, match="the value nan, which is not finite"):
        policy.act(np.full(4, np.nan, np.float32))


def test_an_atari_policy_acts_on_gymnasiums_own_preprocessing(tmp_path: Path) -> None:
    pytest.importorskip("ale_py")
    pytest.importorskip("cv2", reason="gymnasium's AtariPreprocessing needs OpenCV")
    env = gymnasium.wrappers.AtariPreprocessing(gymnasium.make("ALE/Pong-v5", frameskip=1), noop_max=0)
    policy = wb.load_policy(checkpoint_in(tmp_path, "ALE/Pong-v5"), env=env)
    observation, _ = env.reset(seed=0)
    assert env.action_space.contains(policy.act(observation))


@pytest.mark.full
def test_onnx_says_what_torch_says_step_after_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    one = checkpoint_in(tmp_path, "testing/recall-v0", network="mlp-lstm", algorithm="r2d2", lstm_size=16)
    assert main(["export", str(one.path), str(tmp_path / "recall.onnx")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "recall.onnx")
    session = runtime.InferenceSession(tmp_path / "recall.onnx")
    assert [entry.name for entry in session.get_inputs()] == [
        "observation", "previous_action", "reward", "start", "state_0", "state_1"]
    assert json.loads(session.get_modelmeta().custom_metadata_map["environment"])["name"] == "testing/recall-v0"
    policy = load_policy(one)
    state, generator = policy.network.initial_state(1), np.random.default_rng(0)
    given = {f"state_{at}": value.numpy() for at, value in enumerate(state)}
    for start in (True, False, False, True, False):
        seen = generator.random((1, 1, *policy.spec.seen[0].shape), np.float32)
        step = {"observation": seen, "previous_action": generator.integers(policy.spec.num_actions, size=(1, 1)),
                "reward": generator.random((1, 1), np.float32), "start": np.array([[start]])}
        with torch.inference_mode():
            expected, state = policy.network(*map(torch.from_numpy, step.values()), state)
        told = dict(zip([entry.name for entry in session.get_outputs()], session.run(None, {**step, **given}),
                        strict=True))
        np.testing.assert_allclose(told["q_values"], expected.q_values.numpy(), atol=1e-5)
        given = {f"state_{at}": told[f"next_state_{at}"] for at in range(2)}
        np.testing.assert_allclose(given["state_1"], state[1].numpy(), atol=1e-5)
    with pytest.raises(InvalidInput, match="recall.onnx is there already"):
        wb.export_policy(one, target=tmp_path / "recall.onnx")


def noting(spec: Any) -> torch.nn.Module:
    """A network with a buffer that is no weight, and no number yet."""
    network = PolicyValueNetwork(MLP(spec.stacked_shape), actions=spec.actions)
    network.register_buffer("best", torch.tensor(float("nan")))
    return network


def test_a_buffer_may_hold_what_is_no_number(tmp_path: Path) -> None:
    assert wb.evaluate(checkpoint_in(tmp_path, "CartPole-v1", network=noting), episodes=1).lengths


class Branching(torch.nn.Module):
    """Looks into its observation, which no graph can."""

    def __init__(self, spec: Any) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, spec.num_actions), torch.nn.Linear(4, spec.num_actions)

    def initial_state(self, batch: int) -> tuple[()]:
        return ()

    def forward(self, observation: Any, action: Any, reward: Any, start: Any, state: Any) -> Any:
        from workbench.algorithms import PolicyValueOutput

        head = self.first if float(observation.sum()) > 0 else self.second
        return PolicyValueOutput(head(observation), observation.sum(-1)), state


@pytest.mark.full
def test_what_onnx_cannot_hold_is_an_error_that_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    one = checkpoint_in(tmp_path, "CartPole-v1", network=Branching)
    with pytest.raises(NetworkFailed, match="Branching cannot be written as ONNX"):
        onnx_export._export(str(one.path), False, str(tmp_path / "b.onnx"))
    plain = checkpoint_in(tmp_path / "plain", "CartPole-v1", network="mlp")
    with pytest.raises(StorageFailed, match="No such file or directory. Choose another place"):
        onnx_export._export(str(plain.path), False, str(tmp_path / "none" / "b.onnx"))
    assert not list(tmp_path.glob("*b.onnx*"))
    monkeypatch.setattr(onnx_export, "_NEEDED", ("onnx", "nonesuch"))
    with pytest.raises(MissingPackage, match=r"ONNX needs nonesuch. Install it: pip install 'onnx<"):
        onnx_export._export(str(plain.path), False, str(tmp_path / "b.onnx"))
