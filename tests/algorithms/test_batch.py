from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.algorithms.unrolls import random_unroll
from workbench import algorithms
from workbench.algorithms import collate, join_frames, push_frames, stack_frames
from workbench.algorithms.frame_stacking import frames_of_words, push_words, push_words_in_place
from workbench.algorithms.r2d2.agent import R2D2
from workbench.algorithms.vtrace.agent import VTrace
from workbench.algorithms.vtrace.config import VTraceConfig
from workbench.config import RunConfig
from workbench.environment_spec import EnvironmentSpec
from workbench.errors import ShapeMismatch
from workbench.trajectory import unroll_axis

IMAGES = EnvironmentSpec("images", (2, 5, 4), "uint8", 3, frame_stack=4)
VECTORS = EnvironmentSpec("vectors", (6,), "float32", 3, frame_stack=3)
SINGLE = EnvironmentSpec("single", (1, 5, 4), "uint8", 3)


def test_a_batch_holds_each_unroll_in_its_column() -> None:
    rng = np.random.default_rng(0)
    states = [tuple(rng.normal(size=7).astype(np.float32) for _ in range(2)) for _ in range(3)]
    unrolls = [random_unroll(IMAGES, length=4, rng=rng, state=state) for state in states]
    batch = collate(unrolls)
    assert [one.shape[unroll_axis(name)] for name, one in batch.arrays().items()] == [3] * 13
    assert batch.observation.shape == (5, 3, 2, 5, 4) and batch.observation.dtype == torch.uint8
    assert batch.stack_prefix.shape == (3, 3, 2, 5, 4)
    assert batch.action.dtype == batch.previous_action.dtype == batch.policy_version.dtype == torch.int64
    assert batch.reward.dtype == batch.bootstrap_value.dtype == torch.float32 and batch.flags.dtype == torch.uint8
    assert torch.equal(batch.weight, torch.ones(3))
    for b, unroll in enumerate(unrolls):
        for field in ("observation", "reward", "flags", "previous_action", "action", "bootstrap_value"):
            assert np.array_equal(getattr(batch, field)[:, b].numpy(), getattr(unroll, field)), field
        assert np.array_equal(batch.stack_prefix[b].numpy(), unroll.stack_prefix)
        assert np.array_equal(batch.behaviour["policy_logits"][:, b].numpy(), unroll.behaviour["policy_logits"])
        assert all(np.array_equal(part[b].numpy(), own)
                   for part, own in zip(batch.initial_state, unroll.initial_state, strict=True))
        assert np.array_equal(batch.start[:, b].numpy(), (unroll.flags & 8) != 0)


def test_unrolls_of_different_length_do_not_make_a_batch() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ShapeMismatch, match=r"\(4, 2, 5, 4\), \(5, 2, 5, 4\)"):
        collate([random_unroll(IMAGES, length=length, rng=rng) for length in (3, 4)])
    with pytest.raises(ShapeMismatch, match="at least one unroll"):
        collate([])


@pytest.mark.parametrize("spec", [IMAGES, VECTORS, SINGLE], ids=lambda spec: spec.name)
@pytest.mark.parametrize("ends", [0.0, 0.3, 1.0])
def test_stacks_of_an_unroll_equal_a_naive_stack_of_each_step(spec: EnvironmentSpec, ends: float) -> None:
    rng = np.random.default_rng(int(10 * ends))
    batch = collate([random_unroll(spec, length=9, rng=rng, ends=ends) for _ in range(4)])
    stacked = stack_frames(batch.observation, stack_prefix=batch.stack_prefix, start=batch.start)
    assert stacked.shape == (10, 4, *spec.stacked_shape) and stacked.dtype == batch.observation.dtype
    for b in range(4):
        frames = list(batch.stack_prefix[b].numpy())
        for t in range(10):
            if batch.start[t, b]:
                frames = [np.zeros_like(frame) for frame in frames]
            frames.append(batch.observation[t, b].numpy())
            assert np.array_equal(stacked[t, b].numpy(), np.concatenate(frames[-spec.frame_stack :])), (t, b)


@pytest.mark.parametrize("spec", [IMAGES, VECTORS, SINGLE], ids=lambda spec: spec.name)
def test_inference_and_training_stack_the_same_frames(spec: EnvironmentSpec) -> None:
    rng = np.random.default_rng(3)
    batch = collate([random_unroll(spec, length=9, rng=rng) for _ in range(4)])
    stacked = stack_frames(batch.observation, stack_prefix=batch.stack_prefix, start=batch.start)
    before_x_0 = torch.zeros_like(batch.observation[0])[:, None]  # the oldest frame, which the first push drops
    stack = torch.cat([before_x_0, batch.stack_prefix], dim=1)
    for t in range(10):
        old = stack.clone()
        pushed = push_frames(stack, observation=batch.observation[t], start=batch.start[t])
        assert torch.equal(stack, old)
        stack = pushed
        assert torch.equal(join_frames(stack), stacked[t])


def test_words_pushed_in_place_are_the_stacks_of_the_frames() -> None:
    noise = torch.Generator().manual_seed(0)
    words, stacks = torch.zeros(12, 5, 4, dtype=torch.int32), torch.zeros(12, 4, 1, 5, 4, dtype=torch.uint8)
    for rows in ([0, 1, 2, 3], [4], [3, 4, 5, 9, 10, 11], [11, 0, 7, 8], list(range(12)), [2, 1, 0]) * 3:
        observation = torch.randint(256, (len(rows), 1, 5, 4), dtype=torch.uint8, generator=noise)
        start = torch.rand(len(rows), generator=noise) < 0.3
        copied = push_words(words[rows], observation=observation, start=start)
        pushed = push_words_in_place(words, rows=torch.tensor(rows), observation=observation, start=start)
        stacks[rows] = push_frames(stacks[rows], observation=observation, start=start)
        assert torch.equal(pushed, copied)
        assert torch.equal(frames_of_words(words), stacks[:, :, 0])  # of other rows as well


def test_an_algorithm_is_built_by_the_name_in_the_configuration() -> None:
    config = RunConfig.build("CartPole-v1", unroll_length=5)
    algorithm = algorithms.build(config, spec=VECTORS)
    assert isinstance(algorithm, VTrace) and algorithm.overlap == 0
    assert set(algorithm.behaviour_fields()) == {"policy_logits", "value"}
    assert type(config.hyperparameters) is VTraceConfig
    replaying = algorithms.build(RunConfig.build("CartPole-v1", algorithm="r2d2", burn_in=7), spec=VECTORS)
    assert isinstance(replaying, R2D2) and replaying.overlap == 7
