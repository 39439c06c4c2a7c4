"""What networks see of observations as they travel: parts, packed bits, stacks, and running normalisation."""

import math
import time

import numpy as np
import pytest
import torch
from torch import nn

from tests.algorithms.unrolls import random_unroll
from workbench import algorithms, networks
from workbench.algorithms import PolicyValueOutput, collate, stack_frames
from workbench.algorithms.frame_stacking import join_frames, push_frames
from workbench.algorithms.interface import Heads
from workbench.algorithms.running_statistics import RunningStatistics
from workbench.checkpoints import write
from workbench.config import RunConfig
from workbench.environment_spec import ActionSpec, EnvironmentSpec, Part
from workbench.errors import ShapeMismatch
from workbench.learner.devices.device import Device
from workbench.learner.inference.published_weights import PublishedPolicy
from workbench.learner.training.checkpointing import groups_of, restore
from workbench.learner.training.trainer import Trainer
from workbench.networks.normalization import Observed, needs_observed
from workbench.networks.torsos import Joined, small_cnn

PARTS = (
    Part("camera", (3, 4, 5), "uint8"),
    Part("board", (2, 3, 3), "bits"),  # 18 bits: three bytes, six bits of them empty
    Part("speed", (3,), "float32"),
    Part("mission", (1,), "uint8"),
    Part("a.b", (2,), "float32"),
)
BYTES = 60 + 3 + 12 + 1 + 8


def spec_of(parts=PARTS, frame_stack=1, **more):
    return EnvironmentSpec("parts", (sum(part.wire_bytes for part in parts),), "uint8", 3, frame_stack, parts=parts,
                           **more)


def values_of(parts, lead, random):
    """Random values by name, as a network is to see single frames of them."""
    made = {}
    for part in parts:
        shape = (*lead, *part.shape)
        made[part.name] = (random.normal(size=shape).astype(np.float32) if part.dtype == "float32" else
                           random.integers(0, 2, shape).astype(np.uint8) * 255 if part.dtype == "bits" else
                           random.integers(0, 256, shape).astype(np.uint8))
    return made


def packed(values, parts):
    """The bytes as `trajectory` and its readers say: one part after another, little-endian, bits by np.packbits."""
    lead = next(iter(values.values())).shape[: -len(parts[0].shape)]
    rows = []
    for part in parts:
        flat = values[part.name].reshape(*lead, -1)
        own = (np.packbits(flat != 0, axis=-1) if part.dtype == "bits" else
               flat.astype("<f4").view(np.uint8) if part.dtype == "float32" else flat)
        assert own.shape[-1] == part.wire_bytes
        rows.append(own)
    return np.concatenate(rows, -1)


def identity(spec):
    return Observed(nn.Identity(), spec, normalise=False)


@pytest.mark.parametrize("lead", [(1, 1), (1, 4), (5, 1), (3, 4)])
@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (3, 2, 1, 0, 4), (2,), (1,), (3, 4)])
def test_parts_are_cut_apart_as_numpy_packs_them_wherever_they_begin(lead, order):
    parts = tuple(PARTS[number] for number in order)
    values = values_of(parts, lead, np.random.default_rng(0))
    seen = identity(spec_of(parts)).decoded(torch.from_numpy(packed(values, parts)))
    assert set(seen) == set(values)
    for part in parts:
        assert str(seen[part.name].dtype) == f"torch.{part.seen_dtype}"
        np.testing.assert_array_equal(seen[part.name].numpy(), values[part.name])


def test_rows_within_a_longer_tensor_are_read_in_place():
    """As R2D2 gives a network pieces of an unroll: numbers there need not begin at a multiple of four."""
    parts = (Part("byte", (1,), "uint8"), Part("number", (2,), "float32"))
    values = values_of(parts, (7, 3), np.random.default_rng(1))
    row = torch.from_numpy(packed(values, parts))
    for piece in (row[2:3, 1:2], row[3:], row[:, 2:]):
        first = identity(spec_of(parts)).decoded(piece)["number"]
        assert first.shape == (*piece.shape[:2], 2)
    np.testing.assert_array_equal(identity(spec_of(parts)).decoded(row[2:3, 1:2])["number"].numpy(),
                                  values["number"][2:3, 1:2])


@pytest.mark.parametrize("values", [1, 7, 8, 9, 15, 16, 27])
def test_bits_that_do_not_fill_their_bytes_keep_their_places(values):
    part = Part("", (values,), "bits")
    bits = np.random.default_rng(values).integers(0, 2, (2, 3, values)).astype(np.uint8)
    seen = identity(spec_of((part,))).decoded(torch.from_numpy(np.packbits(bits, axis=-1)))
    assert isinstance(seen, torch.Tensor), "a part without a name is seen as a plain array"
    np.testing.assert_array_equal(seen.numpy(), bits * 255)


def test_stacked_parts_hold_the_older_frames_first_and_zeros_before_an_episode_in_inference_and_training():
    spec, random = spec_of(frame_stack=3), np.random.default_rng(2)
    values = values_of(PARTS, (5, 2), random)
    rows = torch.from_numpy(packed(values, PARTS))
    start = torch.zeros(5, 2, dtype=torch.bool)
    start[0] = start[3, 1] = True
    stack, inferred = torch.zeros(2, 3, BYTES, dtype=torch.uint8), []
    for t in range(5):
        stack = push_frames(stack, observation=rows[t], start=start[t])
        inferred.append(join_frames(stack))
    trained = stack_frames(rows, stack_prefix=torch.zeros(2, 2, BYTES, dtype=torch.uint8), start=start)
    assert torch.equal(torch.stack(inferred), trained)
    seen = identity(spec).decoded(trained)
    assert [part.shape for part in spec.seen] == [tuple(seen[part.name].shape[2:]) for part in PARTS]
    for part in PARTS:
        for t in range(5):
            for row, first in ((0, 0), (1, 3 if t >= 3 else 0)):
                frames = [values[part.name][k, row] if k >= first else np.zeros_like(values[part.name][0, 0])
                          for k in range(t - 2, t + 1)]
                np.testing.assert_array_equal(seen[part.name][t, row].numpy(), np.concatenate(frames))


def test_plain_observations_that_are_not_normalised_go_to_the_network_as_they_travel():
    vector = EnvironmentSpec("vector", (4,), "float32", 3)
    image = EnvironmentSpec("image", (1, 36, 36), "uint8", 3)
    assert not needs_observed(vector, normalise=False) and not needs_observed(image, normalise=True)
    assert needs_observed(vector, normalise=True) and needs_observed(spec_of(), normalise=False)
    built = networks.build("mlp", spec=vector, heads=Heads(PolicyValueOutput), seed=0)
    assert not isinstance(built, Observed)


# --- networks over parts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("actions", [None, ActionSpec("multi_discrete", (2, 3)), ActionSpec("tanh_normal", (0, 0))])
@pytest.mark.parametrize("name", [None, "small-cnn-lstm", "mlp", "mlp-lstm", "impala-deep"])
def test_networks_read_every_part(name, actions):
    """A change of any part, alone, changes what a network says; and the same weights come of the same seed."""
    spec = spec_of(frame_stack=2, actions=actions)
    heads = Heads(PolicyValueOutput)
    network = networks.build(name, spec=spec, heads=heads, seed=3)
    networks.check(network, spec=spec, output=PolicyValueOutput)
    again = networks.build(name, spec=spec, heads=heads, seed=3).state_dict()
    assert all(torch.equal(value, again[key]) for key, value in network.state_dict().items())
    random = np.random.default_rng(4)
    values = values_of(PARTS, (1, 2), random)

    def said(values):
        rows = torch.from_numpy(np.concatenate([packed(values, PARTS)] * 2, -1))
        previous = torch.zeros(1, 2, *spec.actions.shape, dtype=getattr(torch, spec.actions.dtype))
        with torch.no_grad():
            output, _ = network(rows, previous, torch.zeros(1, 2), torch.zeros(1, 2, dtype=torch.bool),
                                network.initial_state(2))
        return output

    before = said(values)
    assert before.policy_logits.shape == (1, 2, spec.actions.parameters)
    for part in PARTS:
        other = {**values, part.name: values_of((part,), (1, 2), random)[part.name]}
        if part.name == "mission":
            other["mission"] = 255 - values["mission"]
        after = said(other)
        assert not torch.equal(before.value, after.value), f"{name} does not read {part.name}"
        assert not torch.equal(before.policy_logits, after.policy_logits), f"the policy does not read {part.name}"


def test_images_have_torsos_of_their_own_and_bytes_count_as_shares_of_255():
    shapes = {"left": (1, 8, 8), "right": (3, 8, 8), "numbers": (2,), "bytes": (4,)}
    torso = Joined(shapes, small_cnn)
    assert len(torso.images) == 2 and torso.features == 2 * 256 + 64
    rows = {"left": torch.zeros(5, 1, 8, 8, dtype=torch.uint8), "right": torch.zeros(5, 3, 8, 8, dtype=torch.uint8),
            "numbers": torch.randn(5, 2), "bytes": torch.full((5, 4), 51, dtype=torch.uint8)}
    given = []
    torso.vectors.register_forward_pre_hook(lambda module, inputs: given.append(inputs[0]))
    assert torso(rows).shape == (5, torso.features)
    torch.testing.assert_close(given[0], torch.cat([rows["numbers"], torch.full((5, 4), 0.2)], -1))


def test_networks_of_images_refuse_parts_without_one():
    with pytest.raises(ShapeMismatch, match="mlp"):
        networks.build("nature", spec=spec_of(PARTS[2:4]), heads=Heads(PolicyValueOutput), seed=0)


def test_the_default_network_fits_the_smallest_image():
    parts = (Part("camera", (3, 84, 84), "uint8"), Part("map", (1, 16, 16), "uint8"))
    network = networks.build(None, spec=spec_of(parts), heads=Heads(PolicyValueOutput), seed=0)
    networks.check(network, spec=spec_of(parts), output=PolicyValueOutput)


@pytest.mark.parametrize("lstm", [False, True])
def test_the_football_network_is_seeds(lstm):
    """Four stacks of 16, 32, 32, 32 with two residual blocks each (SEED football/networks.py) on 16 planes 72x96."""
    spec = spec_of((Part("", (4, 72, 96), "bits"),), frame_stack=4)
    heads = Heads(PolicyValueOutput, lstm_size=256)
    network = networks.build("football-lstm" if lstm else "football", spec=spec, heads=heads, seed=0)
    convolutions = [tuple(part.weight.shape) for part in network.modules() if isinstance(part, nn.Conv2d)]
    assert sorted(convolutions) == sorted(
        [(16, 16, 3, 3)] * 5 + [(32, 16, 3, 3)] + [(32, 32, 3, 3)] * 4 + [(32, 32, 3, 3)] * 5 + [(32, 32, 3, 3)] * 5)
    (dense,) = [part for part in network.modules() if isinstance(part, nn.Linear) and part.in_features > 256]
    assert (dense.in_features, dense.out_features) == (32 * 5 * 6, 256)
    assert len(network.initial_state(1)) == 2 * lstm
    networks.check(network, spec=spec, output=PolicyValueOutput)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_parts_train_in_both_precisions(precision):
    spec = spec_of(frame_stack=2, actions=ActionSpec("tanh_normal", (0, 0)))
    config, algorithm = RunConfig.build("parts", normalize_observations=True), None
    algorithm = algorithms.build(config, spec=spec)
    network = networks.build("small-cnn-lstm", spec=spec, heads=algorithm.heads, seed=0, normalise=True)
    trainer = Trainer(network, algorithm, Device("cpu", precision=precision), config.hyperparameters)
    loss = trained(trainer, spec, config, seed=0)
    assert loss is not None and loss.total.isfinite()
    assert network.statistics["part_speed"].mean.dtype == torch.float64
    assert all(parameter.dtype == torch.float32 for parameter in network.parameters())


# --- normalisation ----------------------------------------------------------------------------------------------------


def test_statistics_are_numpys_of_all_rows_however_they_are_split():
    random = np.random.default_rng(5)
    rows = random.normal([1e4, -3.0, 0.0], [0.5, 20.0, 1e-3], (1000, 3)).astype(np.float32)
    whole = rows.astype(np.float64)
    for borders in ([], [1], [3, 4, 500], sorted(random.integers(1, 1000, 40).tolist())):
        statistics = RunningStatistics((3,))
        for piece in np.split(rows, np.unique(borders).astype(int)):
            statistics.add(torch.from_numpy(piece))
        assert float(statistics.count) == 1000
        np.testing.assert_allclose(statistics.mean.numpy(), whole.mean(0), rtol=1e-12)
        np.testing.assert_allclose(statistics.variance.numpy(), whole.var(0), rtol=1e-9)
    normalised = statistics(torch.from_numpy(rows))
    assert normalised.dtype == torch.float32
    np.testing.assert_allclose(normalised.mean(0).numpy(), 0, atol=0.01)
    np.testing.assert_allclose(normalised.std(0).numpy(), 1, atol=0.01)


def test_values_are_as_they_are_before_the_first_row_and_then_clipped_at_10():
    statistics = RunningStatistics((2,))
    values = torch.tensor([[0.5, -7.0]])
    assert torch.equal(statistics(values), values)
    statistics.add(torch.tensor([[0.0, 5.0], [2.0, 5.0]]))
    torch.testing.assert_close(statistics(torch.tensor([[2.0, 5.0], [1e9, 4.0], [-1e9, math.inf]])),
                               torch.tensor([[1.0, 0.0], [10.0, -10.0], [-10.0, 10.0]]))


def test_one_infinite_number_does_not_spoil_the_statistics_for_ever():
    statistics = RunningStatistics((2,))
    statistics.add(torch.tensor([[1.0, 4.0], [3.0, 6.0]]))
    statistics.add(torch.tensor([[math.inf, 5.0], [math.nan, 5.0]]))
    assert statistics.mean.tolist() == [2.0, 5.0] and statistics.variance.isfinite().all()
    assert statistics(torch.tensor([[2.0, 5.0]])).tolist() == [[0.0, 0.0]]


VECTOR = EnvironmentSpec("vector", (3,), "float32", 2, frame_stack=2)


def trainer_of(spec=VECTOR, algorithm="vtrace", **fields):
    config = RunConfig.build("vector", algorithm=algorithm, normalize_observations=True, unroll_length=4, batch_size=2,
                             **fields)
    made = algorithms.build(config, spec=spec)
    network = networks.build(config.network, spec=spec, heads=made.heads, seed=0, normalise=True)
    return Trainer(network, made, Device("cpu", precision="fp32"), config.hyperparameters), config


def unroll_of(spec, algorithm, seed, state=()):
    random = np.random.default_rng(seed)
    length = 4 + algorithm.overlap
    unroll = random_unroll(spec, length=length, rng=random, behaviour=algorithm.behaviour_fields(), state=state)
    if spec.actions.dtype == "float32":
        unroll.action = random.normal(size=(length + 1, *spec.actions.shape)).astype(np.float32)
        unroll.previous_action = np.zeros_like(unroll.action)
    if spec.parts:
        values = values_of(spec.parts, (length + spec.frame_stack,), random)
        unroll.stack_prefix, unroll.observation = np.split(packed(values, spec.parts), [spec.frame_stack - 1])
    return unroll


def trained(trainer, spec, config, seed, reward=None):
    state = tuple(part[0].numpy() for part in trainer.network.initial_state(1))
    unrolls = [unroll_of(spec, trainer.algorithm, 2 * seed + number, state) for number in range(2)]
    for unroll in unrolls:
        unroll.reward += np.float32(reward or 0)
    batch, lines = collate(unrolls), []
    loss = trainer.update(batch, config=config.hyperparameters, learning_rate=1e-3, on_bad=lines.append)
    assert (loss is None) == bool(lines)
    trainer.batch = batch
    return loss


def test_statistics_are_of_the_stacked_observations_that_were_trained_on_and_of_no_others():
    trainer, config = trainer_of()
    statistics = trainer.network.statistics["part_"]
    rows = []
    for seed in range(3):
        trained(trainer, VECTOR, config, seed)
        batch = trainer.batch
        stacked = stack_frames(batch.observation, stack_prefix=batch.stack_prefix, start=batch.start)
        rows.append(stacked[:-1].flatten(0, 1))  # the last is the next unroll's first
    whole = torch.cat(rows).double().numpy()
    np.testing.assert_allclose(statistics.mean.numpy(), whole.mean(0), rtol=1e-9)
    np.testing.assert_allclose(statistics.variance.numpy(), whole.var(0), rtol=1e-9)
    before = statistics.mean.clone()
    with torch.no_grad():
        trainer.algorithm.loss(trainer.network, batch=trainer.batch, config=config.hyperparameters)
    trained(trainer, VECTOR, config.replaced(max_abs_reward=0.0), 9, reward=math.nan)
    assert trainer.bad_updates == 1
    assert torch.equal(statistics.mean, before), "seen, or skipped, but not trained on"


def test_inference_gets_the_statistics_with_the_weights():
    trainer, config = trainer_of()
    policy = PublishedPolicy(trainer.network, version=0, device=Device("cpu", precision="fp32"))
    trained(trainer, VECTOR, config, 0)
    with policy.reading() as (network, _):
        assert float(network.statistics["part_"].count) == 0
    policy.publish(1)
    with policy.reading() as (network, version):
        assert version == 1
        for name, value in trainer.network.state_dict().items():
            assert torch.equal(value, network.state_dict()[name]), name
        assert float(network.statistics["part_"].count) == 8, "4 steps of each of 2 unrolls"


@pytest.mark.parametrize("algorithm", ["vtrace", "r2d2"])
def test_checkpoints_keep_the_statistics_and_the_target_networks(algorithm, tmp_path):
    fields = {"burn_in": 2, "lstm_size": 8, "dueling_size": 8} if algorithm == "r2d2" else {}
    trainer, config = trainer_of(algorithm=algorithm, **fields)
    for seed in range(2):
        trained(trainer, VECTOR, config, seed)
    checkpoint = write(tmp_path, frames=1, groups=groups_of(trainer, torch.Generator()), requested=False,
                       meta={"steps": 1, "updates": 2, "time_s": 1.0})
    other, _ = trainer_of(algorithm=algorithm, **fields)
    restore(checkpoint, other, torch.Generator())
    wanted, found = groups_of(trainer, torch.Generator()), groups_of(other, torch.Generator())
    for group in ("model", "optimizer", "algorithm"):
        assert wanted[group].keys() == found[group].keys()
        for name, value in wanted[group].items():
            np.testing.assert_array_equal(value, found[group][name], f"{group} {name}")
            assert value.dtype == found[group][name].dtype
    assert "statistics.part_.mean" in wanted["model"] and wanted["model"]["statistics.part_.mean"].dtype == np.float64
    bits = Observed(nn.Identity(), EnvironmentSpec("bits", (1,), "uint8", 2, parts=(Part("", (8,), "bits"),)),
                    normalise=False)
    assert not list(bits.buffers()), "a constant table is no state, which each update would copy"


def test_the_target_network_of_r2d2_takes_the_statistics_over_with_the_weights():
    fields = {"burn_in": 2, "lstm_size": 8, "dueling_size": 8, "target_update_period": 2}
    trainer, config = trainer_of(algorithm="r2d2", **fields)
    counts = []
    for seed in range(3):
        trained(trainer, VECTOR, config, seed)
        counts.append(float(trainer.algorithm.state()["target.statistics.part_.count"]))
    seen = float(trainer.network.statistics["part_"].count) / 3
    assert counts == [0, 2 * seen, 2 * seen]


def test_parts_whose_names_differ_in_a_dot_have_statistics_of_their_own():
    parts = (Part("a.b", (2,), "float32"), Part("a_b", (3,), "float32"), Part("a__b", (4,), "float32"))
    network = Observed(nn.Identity(), spec_of(parts), normalise=True)
    assert [tuple(one.mean.shape) for one in network.statistics.values()] == [(2,), (3,), (4,)]


def test_unpacking_bits_is_no_large_part_of_an_update():
    """Football's planes, 9 million bits: some 4 times as long as a copy of what comes of it; bit by bit, 20 times."""
    network = identity(spec_of((Part("", (4, 72, 96), "bits"),)))
    rows = torch.randint(0, 256, (21, 16, 3456), dtype=torch.uint8)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        times = []
        for _ in range(4):
            started = time.perf_counter()
            seen = network.decoded(rows)
            times.append(time.perf_counter() - started)
            copied = time.perf_counter()
            seen.clone()
            copied = time.perf_counter() - copied
            times[-1] /= copied
    finally:
        torch.set_num_threads(threads)
    assert min(times) < 12, f"unpacking takes {min(times):.0f} times as long as a copy of what comes of it"
