"""Optimizer steps, their guards, and checkpoints of all that they need."""

import copy
import subprocess
import sys
import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import workbench as wb
from workbench import algorithms, checkpoints, networks
from workbench.algorithms import Loss
from workbench.config import RunConfig
from workbench.environment_spec import ActionSpec, EnvironmentSpec, NativeSpace
from workbench.errors import NetworkFailed, ShapeMismatch
from workbench.learner.devices.device import Device
from workbench.learner.run_state import RunState
from workbench.learner.training import checkpointing
from workbench.learner.training.data_parallel import Alone
from workbench.learner.training.optimizers import lay_out, make_optimizer
from workbench.learner.training.restoring import Restoring
from workbench.learner.training.trainer import Trainer
from workbench.rundir import RunDirectory
from workbench.trajectory import Unroll

SPEC = EnvironmentSpec("vector", (4,), "float32", 2)


def unrolls(config: RunConfig, *, seed: int, nan: bool = False) -> list[Unroll]:
    random, steps = np.random.default_rng(seed), config.hyperparameters.unroll_length + 1
    found = []
    for env_id in range(config.hyperparameters.batch_size):
        reward = random.normal(size=steps).astype(np.float32)
        reward[0] = np.nan if nan else 0
        reward[2] = np.nan if nan else 1
        found.append(Unroll(
            env_id=env_id, run_id=1, observation=random.normal(size=(steps, 4)).astype(np.float32),
            stack_prefix=np.zeros((0, 4), np.float32), reward=reward, flags=np.zeros(steps, np.uint8),
            previous_action=random.integers(0, 2, steps), action=random.integers(0, 2, steps),
            policy_version=np.zeros(steps, np.int64), bootstrap_value=np.zeros(steps, np.float32),
            behaviour={"policy_logits": random.normal(size=(steps, 2)).astype(np.float32),
                       "value": np.zeros(steps, np.float32)},
            initial_state=(),
        ))
    return found


def trainer_of(config: RunConfig, *, seed: int = 0, spec: EnvironmentSpec | None = None) -> Trainer:
    algorithm = algorithms.build(config, spec=spec or SPEC)
    network = networks.build(config.network, spec=spec or SPEC, heads=algorithm.heads, seed=seed)
    return Trainer(network, algorithm, Device("cpu", precision="fp32"), config.hyperparameters)


def train(
    trainer: Trainer, config: RunConfig, *, seed: int, learning_rate: float = 1e-3, nan: bool = False
) -> list[str]:
    told: list[str] = []
    batch = algorithms.collate(unrolls(config, seed=seed, nan=nan))
    trainer.update(batch, config=config.hyperparameters, learning_rate=learning_rate, on_bad=told.append)
    return told


def weights(trainer: Trainer) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in trainer.network.parameters()])


def test_an_update_that_is_not_finite_changes_nothing_and_is_told():
    config = RunConfig.build("x", batch_size=2, unroll_length=4)
    trainer = trainer_of(config)
    before = weights(trainer).clone()
    assert "nan" in train(trainer, config, seed=0, nan=True)[0]
    assert (trainer.updates, trainer.bad_updates) == (0, 1)
    assert torch.equal(weights(trainer), before)
    assert not train(trainer, config, seed=0)
    assert (trainer.updates, trainer.bad_updates) == (1, 0)
    assert not torch.equal(weights(trainer), before)


def test_the_gradient_is_clipped_to_its_global_norm():
    config = RunConfig.build("x", batch_size=2, unroll_length=4, max_gradient_norm=1e-3)
    trainer = trainer_of(config)
    train(trainer, config, seed=0)
    norm = torch.nn.utils.get_total_norm([p.grad for p in trainer.parameters if p.grad is not None])
    assert norm == pytest.approx(1e-3, rel=1e-3)
    assert trainer.drain()[0]["gradient_norm"] > 1e-3, "the metric is the norm before clipping"


def test_a_learning_rate_of_zero_changes_nothing():
    config = RunConfig.build("x", batch_size=2, unroll_length=4)
    trainer = trainer_of(config)
    before = weights(trainer).clone()
    train(trainer, config, seed=0, learning_rate=0.0)
    assert torch.equal(weights(trainer), before)


def test_the_policy_lag_is_counted_in_updates():
    config = RunConfig.build("x", batch_size=2, unroll_length=4)
    trainer = trainer_of(config)
    for seed in range(3):
        train(trainer, config, seed=seed)
    _, lags, _ = trainer.drain()
    assert np.bincount(lags).tolist() == [8, 8, 8]


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
@pytest.mark.parametrize("target_entropy", [None, 0.5])
def test_training_goes_on_after_a_checkpoint_as_if_nothing_had_been(tmp_path, optimizer, target_entropy):
    config = RunConfig.build("x", batch_size=2, unroll_length=4, optimizer=optimizer, target_entropy=target_entropy)
    unbroken = trainer_of(config)
    for seed in range(6):
        train(unbroken, config, seed=seed)
    first = trainer_of(config)
    for seed in range(3):
        train(first, config, seed=seed)
    generator = torch.Generator().manual_seed(3)
    meta = {"frames": 1, "steps": 1, "updates": 3, "time_s": 1.0, "episodes": 0, "episode_return": None}
    groups = checkpointing.groups_of(first, generator)
    expected = torch.rand(3, generator=generator)
    written = checkpoints.write(tmp_path, frames=1, groups=groups, meta=meta, requested=True)
    second, other = trainer_of(config, seed=1), torch.Generator()
    assert checkpointing.restore(written, second, other) == []
    for seed in range(3, 6):
        train(second, config, seed=seed)
    assert torch.equal(weights(second), weights(unbroken))
    assert torch.equal(torch.rand(3, generator=other), expected), "the sampling generator goes on too"


def test_a_checkpoint_of_another_kind_of_device_restores_all_but_the_random_numbers_of_actions(tmp_path):
    config = RunConfig.build("x", batch_size=2, unroll_length=4)
    first, generator = trainer_of(config), torch.Generator().manual_seed(3)
    train(first, config, seed=0)
    groups = checkpointing.groups_of(first, generator)
    groups["rng"]["sampling"] = np.zeros(16, np.uint8)  # the size of a GPU's: seed and offset
    meta = {"frames": 1, "steps": 1, "updates": 1, "time_s": 1.0, "episodes": 0, "episode_return": None}
    written = checkpoints.write(tmp_path, frames=1, groups=groups, meta=meta, requested=True)
    second, before = trainer_of(config, seed=1), generator.get_state()
    assert checkpointing.restore(written, second, generator) == ["acting"]
    assert torch.equal(weights(second), weights(first)) and torch.equal(generator.get_state(), before)


@pytest.mark.parametrize("anew", [["acting"], ["training"], ["acting", "training"]], ids=" and ".join)
def test_random_numbers_of_another_kind_of_device_are_seeded_by_the_updates_and_an_event_says_so(tmp_path, anew):
    config = RunConfig.build("x", batch_size=2, unroll_length=4, seed=40)
    first = trainer_of(config)
    groups = checkpointing.groups_of(first, torch.Generator().manual_seed(3))
    for name in anew:
        groups["rng"][{"acting": "sampling"}.get(name, name)] = np.zeros(16, np.uint8)  # the size of a GPU's
    meta = {"steps": 1, "updates": 25, "time_s": 1.0, "episodes": 0, "episode_return": None, "reason": "interval",
            "config": config.to_json()}
    checkpoints.write(tmp_path / "checkpoints", frames=1, groups=groups, meta=meta, requested=True)
    second, generator, said = trainer_of(config, seed=1), torch.Generator(), []
    restoring = Restoring(
        RunDirectory(tmp_path),
        state=RunState(config, learners=Alone(), paused=None), trainer=second, generator=generator,
        log=SimpleNamespace(event=lambda kind, message, **_: said.append((kind, message))),
        experience=SimpleNamespace(occupancy=None))
    assert restoring.restore().updates == 25
    (kind, message), = said
    of = f"the random numbers of {' and '.join(anew)} are of another kind of device, and begin anew"
    assert kind == "restore" and message == f"continues from the checkpoint at 1 frames; {of}"
    seeds = {"acting": (generator, 40 + 1 + 25), "training": (second.algorithm.training_generator, 40 + 6 + 25)}
    for name, (one, seed) in seeds.items():
        assert (one.initial_seed() == seed) == (name in anew)
        if name in anew:
            assert torch.equal(one.get_state(), torch.Generator().manual_seed(seed).get_state())


def test_random_numbers_of_training_go_on_or_begin_anew_by_themselves(tmp_path):
    config = RunConfig.build("x", batch_size=2, unroll_length=4)
    first, generator = trainer_of(config), torch.Generator()
    groups = checkpointing.groups_of(first, generator)
    expected = torch.rand(3, generator=first.algorithm.training_generator)
    meta = {"frames": 1, "steps": 1, "updates": 1, "time_s": 1.0, "episodes": 0, "episode_return": None}
    for state, goes_on in ((groups["rng"]["training"], True), (np.zeros(16, np.uint8), False)):
        groups["rng"]["training"] = state
        written = checkpoints.write(tmp_path, frames=1 + goes_on, groups=groups, meta=meta, requested=True)
        second = trainer_of(config, seed=1)
        second.algorithm.training_generator.manual_seed(99)
        assert checkpointing.restore(written, second, generator) == ([] if goes_on else ["training"])
        drawn = torch.rand(3, generator=second.algorithm.training_generator)
        assert torch.equal(drawn, expected) == goes_on


def test_samples_of_nothing_are_left_out():
    trainer = trainer_of(RunConfig.build("x"))
    trainer._add(Loss(torch.zeros(()), {"loss": torch.zeros(())}, {"none": torch.zeros(0), "one": torch.ones(1)}),
                 np.zeros(1, np.int64))
    assert list(trainer.drain()[2]) == ["one"]


def test_a_checkpoint_of_another_network_is_refused_in_words(tmp_path):
    config = RunConfig.build("x", batch_size=2, unroll_length=4)
    meta = {"frames": 1, "steps": 1, "updates": 3, "time_s": 1.0, "episodes": 0, "episode_return": None}
    generator = torch.Generator()
    groups = checkpointing.groups_of(trainer_of(config), generator)
    meta["config"] = config.to_json()
    written = checkpoints.write(tmp_path, frames=1, groups=groups, meta=meta, requested=True)
    for fields, said in (({"network": "mlp-lstm"}, "network=None, and this run has 'mlp-lstm'"),
                         ({"algorithm": "sac"}, "algorithm='vtrace', and this run has 'sac'")):
        another = RunConfig.build("x", batch_size=2, unroll_length=4, **fields)
        with pytest.raises(ShapeMismatch, match=r"does not fit this run's network: [\w.]+ is (absent|of shape \[.*\]) "
                           rf"there and .* here; it was written with {said}. Start from another"):
            checkpointing.restore(written, trainer_of(another), generator, config=another)
    with pytest.raises(ShapeMismatch, match=r"this run's network: [\w.]+ is .* here. Start from another"):
        checkpointing.restore(written, trainer_of(another), generator)
    with pytest.raises(ShapeMismatch, match=r" here\. The run is as it was, .* new run.*: wb\.launch\(.* network=Your"):
        checkpointing.restore(written, trainer_of(another), generator, mended_network=True)


def test_a_checkpoint_of_another_environment_that_does_not_fit_is_said_to_be_of_other_spaces(tmp_path):
    config, generator = RunConfig.build("x", batch_size=2, unroll_length=4), torch.Generator()
    trainer = trainer_of(config)
    theirs = replace(trainer.algorithm.spec, name="theirs", observation_shape=(9,))
    meta = {"steps": 1, "updates": 3, "time_s": 1.0, "environment": theirs.to_json()}
    groups = checkpointing.groups_of(trainer, generator)
    first = next(name for name, array in groups["model"].items() if array.ndim == 2)
    groups["model"][first] = np.zeros((len(groups["model"][first]), 9), np.float32)
    written = checkpoints.write(tmp_path, frames=1, groups=groups, meta=meta, requested=True)
    with pytest.raises(ShapeMismatch, match=r"was written in theirs with observation_shape=\(9,\), and this run's"):
        checkpointing.restore(written, trainer, generator)


def test_a_run_does_not_go_on_where_actions_have_other_bounds_but_a_new_one_takes_the_weights(tmp_path):
    def bounded(high):
        native = NativeSpace((2,), low=(-1.0, -1.0), high=(high, high))
        return replace(SPEC, num_actions=2, actions=ActionSpec("tanh_normal", (0, 0), native=native))

    config, generator = RunConfig.build("x", batch_size=2, unroll_length=4), torch.Generator()
    trainer = trainer_of(config, spec=bounded(1.0))
    meta = {"steps": 1, "updates": 3, "time_s": 1.0, "environment": bounded(3.0).to_json()}
    written = checkpoints.write(tmp_path, frames=1, groups=checkpointing.groups_of(trainer, generator), meta=meta,
                                requested=True)
    with pytest.raises(ShapeMismatch, match=r"was written in .* with action_bounds=\(\(-1.0, 3.0\), .* and this run's"):
        checkpointing.restore(written, trainer, generator)
    assert checkpointing.restore(written, trainer, generator, weights_only=True) == []


def test_a_fused_step_is_that_of_the_formula_whatever_the_layout_of_gradients_and_of_what_a_checkpoint_held():
    """Weights of convolutions lie channels last; a gradient or moment that does not would be added to other weights."""
    hyper, random = RunConfig.build("x", optimizer="adam").hyperparameters, torch.Generator().manual_seed(0)
    first = torch.randn(4, 3, 5, 5, generator=random)
    fused, plain = (torch.nn.Parameter(first.clone(memory_format=layout))
                    for layout in (torch.channels_last, torch.contiguous_format))
    steps = [make_optimizer([[fused]], hyper, fused=True), make_optimizer([[plain]], hyper)]
    for update in range(6):
        gradient = torch.randn(first.shape, generator=random)
        for weight, optimizer in zip((fused, plain), steps, strict=True):
            weight.grad = gradient.clone()
            lay_out(optimizer)
            optimizer.step()
        if update == 2:  # as a checkpoint has it
            saved = copy.deepcopy(steps[0].state_dict())
            saved["state"] = {0: {name: value.contiguous() for name, value in saved["state"][0].items()}}
            steps[0] = make_optimizer([[fused]], hyper, fused=True)
            steps[0].load_state_dict(saved)
    torch.testing.assert_close(fused, plain, rtol=0, atol=1e-7)
    assert fused.is_contiguous(memory_format=torch.channels_last)


def test_an_optimizer_loads_no_compiler():
    code = """
import sys, torch
from workbench.config import RunConfig
from workbench.learner.training.optimizers import make_optimizer

for name in ("adam", "rmsprop"):
    weight = torch.nn.Parameter(torch.zeros(2))
    optimizer = make_optimizer([[weight]], RunConfig.build("x", optimizer=name).hyperparameters, fused=True)
    weight.grad = torch.ones(2)
    optimizer.step()
    optimizer.zero_grad()
    optimizer.load_state_dict(optimizer.state_dict())
    assert weight.abs().min() > 0
sys.exit("torch._dynamo" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=240).returncode == 0


class Scaled(torch.nn.Module):
    """A user's network with weights of this type beside the usual ones."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        heads = algorithms.build(RunConfig.build("x"), spec=SPEC).heads
        self.inner = networks.build(None, spec=SPEC, heads=heads, seed=0)
        self.scale = torch.nn.Parameter(torch.rand(5).to(dtype))
        self.register_buffer("counted", torch.rand(3).to(torch.bfloat16))

    def initial_state(self, batch):
        return self.inner.initial_state(batch)

    def forward(self, *arguments):
        output, state = self.inner(*arguments)
        return output._replace(value=output.value * self.scale.abs().float().mean()), state


class WithExtra(Scaled):
    def get_extra_state(self):
        return {"seen": 3}

    def set_extra_state(self, state):
        pass


def test_short_floats_are_kept_exactly_and_complex_numbers_are_refused_before_a_run_trains(tmp_path):
    wb.check_algorithm("vtrace", network=lambda spec: Scaled(torch.bfloat16))
    config = RunConfig.build("x", batch_size=2, unroll_length=4)
    algorithm = algorithms.build(config, spec=SPEC)
    before, after = (Trainer(Scaled(torch.bfloat16), algorithm, Device("cpu", precision="fp32"), config.hyperparameters)
                     for _ in range(2))
    assert not train(before, config, seed=1)
    meta = {"frames": 1, "steps": 1, "updates": 1, "time_s": 1.0, "episodes": 0, "config": config.to_json()}
    groups = checkpointing.groups_of(before, torch.Generator())
    written = checkpoints.write(tmp_path, frames=1, groups=groups, meta=meta, requested=True)
    checkpointing.restore(written, after, torch.Generator())
    for ours, theirs in ((before.network.state_dict(), after.network.state_dict()),
                         *zip(before.optimizer.state.values(), after.optimizer.state.values(), strict=True)):
        assert all(theirs[name].dtype == tensor.dtype and torch.equal(theirs[name], tensor)
                   for name, tensor in ours.items())
    with pytest.raises(NetworkFailed, match=r"_extra_state of the network is a dict, .* by register_buffer\("):
        wb.check_algorithm("vtrace", network=lambda spec: WithExtra(torch.float32))
    with pytest.raises(NetworkFailed, match="scale of the network is a complex64 .* which no checkpoint can hold"):
        wb.check_algorithm("vtrace", network=lambda spec: Scaled(torch.complex64))


def test_a_network_that_cannot_be_copied_is_refused_with_what_keeps_it_from_that():
    class Locked(Scaled):
        def __init__(self):
            super().__init__(torch.float32)
            self.inner.lock = threading.Lock()

    with pytest.raises(NetworkFailed, match=r"inner\.lock of the network cannot be copied \(.*lock.*\)\. The learner"):
        wb.check_algorithm("vtrace", network=lambda spec: Locked())
