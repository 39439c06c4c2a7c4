"""Demonstrations lie in one file, and unrolls are cut from them as from an actor's life: each step once an epoch, paid
for by steps that were acted, and the same ones after the same number of updates."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.replay.test_experience import unroll
from workbench import algorithms
from workbench.algorithms import Batch
from workbench.checkpoints import tensorfile
from workbench.config import RunConfig
from workbench.environment_spec import ActionSpec, EnvironmentSpec, Part
from workbench.errors import InvalidInput, StorageFailed
from workbench.replay import batch_source, demonstration_file
from workbench.replay.demonstration_file import Demonstration, Recorded
from workbench.replay.demonstrations import Demonstrations, acted_unrolls, held_out
from workbench.replay.unroll_fields import UnrollLayout
from workbench.trajectory import Flags

SPEC = EnvironmentSpec("vector", (3,), "float32", 2, frame_stack=3)
T = 5


def recorded(folder: Path, lengths: tuple[int, ...] = (7, 4, 9)) -> Recorded:
    """Episodes whose observations say their number, their step, and the step of all; rewards as well, from 1 on."""
    episodes, before = [], 0
    for number, length in enumerate(lengths):
        steps = np.arange(length)
        observation = np.stack([np.full(length, number), steps, before + steps], 1).astype(np.float32)
        end = Flags.TERMINATED if number % 2 == 0 else Flags.TRUNCATED
        rewards = (1.0 + before + steps).astype(np.float32)
        episodes.append(Demonstration(observation, (before + steps) % 2, rewards, end))
        before += length
    folder.mkdir(exist_ok=True)
    path = folder / "demonstrations" / "steps.safetensors"
    demonstration_file.write(path, SPEC, episodes)
    return demonstration_file.read(path)


def made(
    folder: Path, lengths: tuple[int, ...] = (7, 4, 9), *, updates: Callable[[], int] = lambda: 0, seed: int = 0,
    **fields: Any,
) -> tuple[Demonstrations, Any, UnrollLayout]:
    config = RunConfig.build("x", algorithm="bc", **{
        "batch_size": 4, "unroll_length": T, "burn_in": 2, "validation_share": 0.0, "demonstration_ratio": 1e6,
        **fields})
    one = algorithms.build(config, spec=SPEC)
    layout = UnrollLayout(SPEC, T, one.overlap, one.behaviour_fields(), ((2,),))
    source = batch_source.build(one, layout, config=config.hyperparameters, folder=folder, seed=seed, pin_memory=False,
                                updates=updates, recorded=recorded(folder, lengths))
    assert isinstance(source, Demonstrations)
    return source, config.hyperparameters, layout


def trained(batch: Batch, *, burn_in: int = 2) -> list[list[int]]:
    """The steps of all episodes that each unroll of the batch trains on."""
    return batch.observation[burn_in:-1, :, 2].long().T.tolist()


class Updates:
    """Counts them."""

    def __init__(self, number: int = 0) -> None:
        self.number = number

    def __call__(self) -> int:
        return self.number


def batches(source: Demonstrations, config: Any, updates: Updates, number: int) -> list[Batch]:
    found = []
    for _ in range(number):
        batch = source.next(config, timeout_s=0.0)
        assert batch is not None
        found.append(batch)
        updates.number += 1
    return found


def test_an_epoch_has_every_step_once_and_the_next_one_another_order(tmp_path: Path) -> None:
    updates = Updates(1)  # the first update costs an unroll of an actor, also at such a ratio
    source, config, _ = made(tmp_path, (7, 4, 9), updates=updates)  # 20 steps: four unrolls
    orders = []
    for batch in batches(source, config, updates, 6):
        unrolls = trained(batch)
        assert Counter(step for steps in unrolls for step in steps) == {step: 1 for step in range(20)}
        assert all(steps == [(steps[0] + t) % 20 for t in range(T)] for steps in unrolls)
        orders.append(tuple(steps[0] for steps in unrolls))
    assert len(set(orders)) > 3 and len({min(order) for order in orders}) > 2, "the cuts move as well"
    assert source.metrics()[0] == {"demonstration_epochs": 7.0}


def test_the_steps_are_those_of_an_actors_life(tmp_path: Path) -> None:
    updates = Updates(1)
    source, config, layout = made(tmp_path, (7, 4, 9), updates=updates)
    starts = {0: (2, Flags.TERMINATED), 7: (0, Flags.TERMINATED), 11: (1, Flags.TRUNCATED)}  # and the end before
    for number, batch in enumerate(batches(source, config, updates, 8), 1):
        assert batch.observation.shape == (layout.length, 4, 3) and not batch.action.is_floating_point()
        assert not any(part.any() for part in batch.initial_state) and not batch.bootstrap_value.any()
        assert (batch.policy_version == number).all(), "no policy lag"
        for b in range(4):
            for t in range(layout.length):
                step = int(batch.observation[t, b, 2])
                assert int(batch.action[t, b]) == step % 2
                assert float(batch.reward[t, b]) == (step - 1) % 20 + 1, "of the transition into the step"
                begun = step in starts
                expected = int(Flags.START | starts[step][1]) if begun else 0
                assert int(batch.flags[t, b]) == expected
                assert int(batch.previous_action[t, b]) == (0 if begun else (step - 1) % 2)
            first, place = batch.observation[0, b].tolist(), int(batch.observation[0, b, 1])
            for back in (2, 1):  # the frames before the unroll's first step, zeros before its episode
                known = [first[0], place - back, first[2] - back] if place >= back else [0, 0, 0]
                assert batch.stack_prefix[b, 2 - back].tolist() == known


def test_what_is_drawn_depends_on_the_seed_and_the_updates_alone(tmp_path: Path) -> None:
    updates = Updates(1)
    source, config, _ = made(tmp_path / "one", updates=updates, validation_share=0.4)
    all_of_them = [trained(batch) for batch in batches(source, config, updates, 9)]
    again = Updates(6)
    resumed, config, _ = made(tmp_path / "two", updates=again, validation_share=0.4)
    assert [trained(batch) for batch in batches(resumed, config, again, 4)] == all_of_them[5:]
    other = Updates(1)
    seeded, config, _ = made(tmp_path / "three", updates=other, seed=1, validation_share=0.4)
    assert [trained(batch) for batch in batches(seeded, config, other, 9)] != all_of_them


def test_a_batch_that_is_not_finite_is_not_drawn_again(tmp_path: Path) -> None:
    """On a CPU such an update counts as none, so that the number of updates stays the same."""
    source, config, _ = made(tmp_path, updates=Updates(1))
    drawn = []
    for _ in range(3):
        batch = source.next(config, timeout_s=0.0)
        assert batch is not None
        source.after_update(batch, None, config)
        drawn.append(trained(batch))
    assert drawn[0] != drawn[1] != drawn[2]


def test_held_out_episodes_are_never_trained_on_and_come_last_with_weight_0(tmp_path: Path) -> None:
    updates, lengths = Updates(1), tuple(range(3, 13))
    source, config, _ = made(tmp_path, lengths, updates=updates, batch_size=10, validation_share=0.3)
    kept_out = {number for number, held in enumerate(held_out(10, 0.3)) if held}
    assert len(kept_out) == 3
    episodes: dict[float, set[int]] = {0.0: set(), 1.0: set()}
    for batch in batches(source, config, updates, 20):
        assert batch.weight.tolist() == [1.0] * 10 + [0.0] * 3
        assert source.batch_unrolls(config) == 13
        for b, weight in enumerate(batch.weight.tolist()):
            episodes[weight] |= set(batch.observation[:, b, 0].long().tolist())
    assert episodes == {0.0: kept_out, 1.0: set(range(10)) - kept_out}


@pytest.mark.parametrize(("episodes", "share", "number"), [(10, 0.1, 1), (10, 0.3, 3), (100, 0.0, 0), (2, 0.1, 1),
                                                           (2, 0.9, 1), (1, 0.5, 0), (3, 0.9, 2)])
def test_at_least_one_episode_is_held_out_and_one_is_trained_on(episodes: int, share: float, number: int) -> None:
    assert held_out(episodes, share).sum() == number


@pytest.mark.parametrize("ratio", [0.3, 1.0, 3.0, 4.0, 100.0])
def test_training_and_acting_wait_for_each_other(tmp_path: Path, ratio: float) -> None:
    updates = Updates()
    source, config, layout = made(tmp_path, updates=updates, demonstration_ratio=ratio)
    acted = 0
    while updates.number < 60:
        if source.next(config, timeout_s=0.0) is None:
            source.queue.put(unroll(dataclasses.replace(layout, spec=dataclasses.replace(SPEC, frame_stack=1)), acted))
            acted += 1
            assert len(source.queue) <= source.queue.capacity
        else:
            updates.number += 1
    assert acted == pytest.approx(60 * 4 / ratio, abs=4 / ratio + 1)
    assert sum(acted_unrolls(update, 4, ratio) for update in range(1000)) == pytest.approx(4000 / ratio, abs=1)


def test_the_file_outlives_the_one_that_it_was_linked_to(tmp_path: Path) -> None:
    first = recorded(tmp_path)
    source, target = tmp_path / "demonstrations" / "steps.safetensors", tmp_path / "fork" / "demonstrations" / "steps"
    target.parent.parent.mkdir()
    demonstration_file.link(source, target)
    source.unlink()
    again = demonstration_file.read(target)
    assert again.spec == first.spec == SPEC and str(again) == "3 demonstrations of 20 steps together, mean return 70"
    for name in ("observation", "action", "reward", "length", "end"):
        assert np.array_equal(getattr(again, name), getattr(first, name))
    demonstration_file.copy(target, tmp_path / "copied" / "steps")
    assert (tmp_path / "copied" / "steps").read_bytes() == target.read_bytes()


@pytest.mark.parametrize("harm", ["gone", "cut", "action", "length", "end", "shape", "spec"])
def test_a_damaged_file_is_named_with_what_to_do(tmp_path: Path, harm: str) -> None:
    recorded(tmp_path)
    path = tmp_path / "demonstrations" / "steps.safetensors"
    with open(path, "rb") as file:
        arrays = {name: np.array(array) for name, array in tensorfile.read(file).items()}
    if harm == "gone":
        path.unlink()
    elif harm == "cut":
        path.write_bytes(path.read_bytes()[:-10])
    else:
        changed = {"action": ("action", arrays["action"] + 2), "length": ("length", arrays["length"] + 1),
                   "end": ("end", arrays["end"] * 0), "shape": ("observation", arrays["observation"][:, :2]),
                   "spec": ("spec", arrays["spec"][:-3])}[harm]
        with open(path, "wb") as file:
            tensorfile.Content.of("demonstrations", {**arrays, changed[0]: changed[1]}).write(file)
    with pytest.raises(StorageFailed, match="or launch a new run"):
        demonstration_file.read(path)


def test_an_environment_with_other_spaces_is_refused(tmp_path: Path) -> None:
    found = recorded(tmp_path)
    demonstration_file.check_spaces(found, dataclasses.replace(SPEC, name="another name", frame_stack=1))
    with pytest.raises(InvalidInput, match=r"wide has observations of shape \(4,\), not \(3,\) as the demonstr"):
        demonstration_file.check_spaces(found, dataclasses.replace(SPEC, name="wide", observation_shape=(4,)))
    parts = Part("view", (2, 2), "uint8"), Part("way", (1,), "float32")
    packed = dataclasses.replace(SPEC, parts=parts, observation_shape=(8,), observation_dtype="uint8")
    said = r"parts view \[2, 2\] uint8, way \[1\] float32, not none as"
    with pytest.raises(InvalidInput, match=said):  # not the bytes that they are packed in
        demonstration_file.check_spaces(found, packed)
    switches = dataclasses.replace(SPEC, actions=ActionSpec("bernoulli", (2, 2)))
    with pytest.raises(InvalidInput, match=r"has actions bernoulli \[2, 2\], not categorical \[2\]"):
        demonstration_file.check_spaces(found, switches)
