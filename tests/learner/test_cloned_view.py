"""A batch of demonstrations shows a network what the policy saw that recorded them: the probabilities are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.learner.test_rollout_kinds import Kinds
from tests.played import branching_here, checkpoint_in, rolled_out
from workbench import algorithms, checkpoints
from workbench.algorithms import Batch
from workbench.algorithms.bc.agent import BC
from workbench.checkpoints import Checkpoint
from workbench.config import RunConfig
from workbench.playing.rollout import Rollout
from workbench.policies.player import LoadedPolicy, load_policy
from workbench.replay import batch_source, demonstration_file
from workbench.replay.demonstrations import Demonstrations, DemonstrationStream
from workbench.replay.unroll_fields import UnrollLayout
from workbench.running.starts import demonstrating

T = 7
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "vectors": ("CartPole-v1", {"network": "mlp"}),
    "vectors and memory": ("CartPole-v1", {"network": "mlp-lstm"}),
    "normalised": ("CartPole-v1", {"network": "mlp", "normalize_observations": True}),
    "stacked images and memory": ("testing/catch-v0", {"network": "small-cnn-lstm", "frame_stack": 4}),
    "several choices": (Kinds, {"environment_options": {"kind": "parts"}, "frame_stack": 2}),
    "switches, an image and a vector": (Kinds, {"environment_options": {"kind": "switches", "planes": True}}),
    "choices, switches and numbers": (Kinds, {"environment_options": {"kind": "mixed"}}),
    "numbers and memory": (Kinds, {"environment_options": {"kind": "numbers"}, "network": "mlp-lstm"}),
}


def opinionated(folder: Path, environment: Any, **fields: Any) -> Checkpoint:
    """A checkpoint of first weights, with a last layer that is no longer near zero: what it sees makes a difference."""
    first = checkpoint_in(folder, environment, **fields)
    weights = {name: np.array(array) * (300 if name.endswith("policy.weight") else 1)
               for name, array in first.load("model").items()}
    return checkpoints.write(first.path.parent, frames=first.frames + 1, requested=True, groups={"model": weights},
                             meta={name: first.meta[name] for name in ("steps", "updates", "time_s", "config",
                                                                       "environment")})


def drawn(rollouts: list[Rollout], policy: LoadedPolicy, path: Path, *, burn_in: int) -> tuple[Batch, np.ndarray]:
    """A batch that has every step of the rollouts, as a run would draw it, and which steps [T, B] it trains on."""
    config = RunConfig.build(policy.spec.name, algorithm="bc", unroll_length=T, burn_in=burn_in, validation_share=0.0)
    demonstrating.checked(rollouts, config)(path)
    recorded = demonstration_file.read(path)
    demonstration_file.check_spaces(recorded, policy.spec)
    one = algorithms.build(config, spec=policy.spec)
    layout = UnrollLayout.of(one, policy.network, T)
    config = config.replaced(batch_size=-(-len(recorded.reward) // T), demonstration_ratio=1e6)
    source = batch_source.build(one, layout, config=config.hyperparameters, folder=path.parent, seed=5,
                                pin_memory=False, updates=lambda: 1, recorded=recorded)
    assert isinstance(source, Demonstrations)
    batch = source.next(config.hyperparameters, timeout_s=0.0)
    stream = DemonstrationStream(recorded, np.arange(len(rollouts)), layout=layout, seed=[5, 0])
    number = config.hyperparameters.batch_size
    starts = stream.starts(number + np.arange(number))
    assert batch is not None
    return batch, (starts + np.arange(T)[:, None]) % stream.steps


@torch.no_grad()
def scores(policy: LoadedPolicy, batch: Batch, *, burn_in: int) -> np.ndarray:
    """What the network says at every step that the batch trains on, [T, B, A]."""
    one = BC(RunConfig.build("x", algorithm="bc", burn_in=burn_in).hyperparameters, spec=policy.spec)
    output = one._after_burn_in(policy.network, batch)  # type: ignore[arg-type]
    return one.outlook(output, config=None).scores[:-1].numpy()


@pytest.mark.parametrize("case", CASES)
def test_the_network_that_recorded_them_gives_the_recorded_probabilities(tmp_path: Path, case: str) -> None:
    environment, fields = CASES[case]
    checkpoint = opinionated(tmp_path, environment, **fields)
    policy = load_policy(checkpoint)
    greedy = environment is not Kinds
    rollouts = [rolled_out(checkpoint, tmp_path / f"seed{seed}", seed=seed, render=False, greedy=greedy)
                for seed in range(3)]
    longest = max(rollout.steps for rollout in rollouts)
    batch, steps = drawn(rollouts, policy, tmp_path / "new" / "steps.safetensors", burn_in=longest)
    said = np.concatenate([rollout.said for rollout in rollouts])
    assert said.std(0).max() > 0.01, "it says different things at different steps"
    assert sorted(set(steps.flatten().tolist())) == list(range(len(said))), "every step is there"
    np.testing.assert_allclose(scores(policy, batch, burn_in=longest), said[steps], rtol=1e-4, atol=1e-5)
    trained = batch.action[longest:-1]
    chosen = policy.algorithm.distribution.to_environment(trained).numpy()
    np.testing.assert_allclose(chosen, np.concatenate([rollout.actions for rollout in rollouts])[steps], atol=2e-6)
    rewards = np.concatenate([rollout.rewards for rollout in rollouts])
    assert np.array_equal(batch.reward[longest + 1 :].numpy(), rewards[steps]), "of the transition from each step"


def test_without_a_burn_in_the_state_begins_with_zeros_and_differs_from_what_it_was(tmp_path: Path) -> None:
    """So the test above would notice."""
    checkpoint = opinionated(tmp_path, "CartPole-v1", network="mlp-lstm")
    policy, rollout = load_policy(checkpoint), rolled_out(checkpoint, tmp_path / "seed0", render=False)
    batch, steps = drawn([rollout], policy, tmp_path / "new" / "steps.safetensors", burn_in=0)
    difference = np.abs(scores(policy, batch, burn_in=0) - rollout.said[steps]).max((0, 2))
    assert difference[steps[0] > 0].max() > 0.01


def test_what_a_branch_edited_is_what_the_network_sees(tmp_path: Path) -> None:
    checkpoint = opinionated(tmp_path, "CartPole-v1", network="mlp")
    policy = load_policy(checkpoint)
    rollouts = checkpoint.path.parents[1] / "rollouts"
    rollouts.mkdir()
    played = rolled_out(checkpoint, rollouts / f"{checkpoint.path.name}-seed0")
    with branching_here():
        branch = played.branch(2, observation={"x[2]": 0.3}, hold=3)
    batch, steps = drawn([branch], policy, tmp_path / "new" / "steps.safetensors", burn_in=0)
    np.testing.assert_allclose(scores(policy, batch, burn_in=0), branch.said[steps], rtol=1e-4, atol=1e-5)
    assert np.isclose(batch.observation[..., 2].numpy(), 0.3).any(), "the environment never was there"


