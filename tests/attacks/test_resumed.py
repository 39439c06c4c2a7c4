"""A stranger's checkpoint that a run goes on from: optimizer, random numbers and replay of any numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.learner.test_training import train, trainer_of
from tests.replay.test_prioritized import assert_same, empty, go_on, saved
from workbench import checkpoints
from workbench.config import RunConfig
from workbench.errors import CheckpointCorrupt, ShapeMismatch
from workbench.learner.training import checkpointing
from workbench.replay.queue import UnrollQueue
from workbench.replay.replayed import _COUNTERS, Replayed

META = {"frames": 1, "steps": 1, "updates": 1, "time_s": 1.0, "episodes": 0}
ODD: dict[str, tuple[str, str, Any]] = {
    "random numbers of another dtype": ("rng", "torch", np.zeros(8, np.float32)),
    "random numbers of another size": ("rng", "torch", np.zeros(8, np.uint8)),
    "random numbers of actions of another dtype": ("rng", "sampling", None),
    "an optimizer of another shape": ("optimizer", "0.exp_avg", np.zeros((3, 3), np.float32)),
    "an optimizer of many steps": ("optimizer", "0.step", np.zeros(5, np.float32)),
    "an optimizer of no parameter": ("optimizer", "999.exp_avg", np.zeros(5, np.float32)),
    "an optimizer of no number": ("optimizer", "x.exp_avg", np.zeros(5, np.float32)),
    "weights of another shape": ("model", "", np.zeros(5, np.float32)),
}


@pytest.mark.parametrize("case", ODD)
def test_a_checkpoint_of_odd_arrays_is_our_own_error(tmp_path: Path, case: str) -> None:
    config = RunConfig.build("x", batch_size=2, unroll_length=4)
    first, generator = trainer_of(config), torch.Generator()
    train(first, config, seed=0)
    groups = checkpointing.groups_of(first, generator)
    group, name, array = ODD[case]
    name = name or next(iter(groups["model"]))
    groups[group][name] = groups[group][name].astype(np.float32) if array is None else array
    written = checkpoints.write(tmp_path, frames=1, groups=groups, meta=META, requested=True)
    with pytest.raises(ShapeMismatch, match="does not fit this run"):
        checkpointing.restore(written, trainer_of(config), torch.Generator())


LACKING = [("adam", {}, "exp_avg_sq"), ("adam", {}, "step"), ("rmsprop", {}, "square_avg"),
           ("rmsprop", {"rmsprop_momentum": 0.9}, "momentum_buffer")]


@pytest.mark.parametrize(("optimizer", "fields", "name"), LACKING)
def test_an_entry_of_the_optimizer_that_lacks_a_tensor_is_our_own_error_that_names_it(
    tmp_path: Path, optimizer: str, fields: dict[str, Any], name: str
) -> None:
    config = RunConfig.build("x", batch_size=2, unroll_length=4, optimizer=optimizer, **fields)
    first, generator = trainer_of(config), torch.Generator()
    train(first, config, seed=0)
    groups = checkpointing.groups_of(first, generator)
    whole = checkpoints.write(tmp_path, frames=1, groups=groups, meta=META, requested=True)
    checkpointing.restore(whole, trainer_of(config), torch.Generator())
    del groups["optimizer"][f"1.{name}"]
    written = checkpoints.write(tmp_path, frames=2, groups=groups, meta=META, requested=True)
    with pytest.raises(ShapeMismatch, match=f"entry 1 of the optimizer lacks {name}"):
        checkpointing.restore(written, trainer_of(config), torch.Generator())


@pytest.mark.parametrize("episodes", ["absent", None, "x", 1.5, [], True])
def test_a_checkpoint_without_a_number_of_episodes_is_our_own_error(tmp_path: Path, episodes: Any) -> None:
    meta = {**META, "episodes": episodes}
    if episodes == "absent":
        del meta["episodes"]
    written = checkpoints.write(tmp_path, frames=1, groups={"model": {}}, meta=meta, requested=True)
    with pytest.raises(CheckpointCorrupt, match="episodes="):
        checkpointing.Counters.of(written)


CHANGES: dict[str, Any] = {
    "serial": [lambda rows: rows * 0, lambda rows: -rows, lambda rows: rows.sum()],
    "successor": [lambda rows: rows + 10**9, lambda rows: rows - 2, lambda rows: rows.astype(np.float64)],
    "priority": [lambda rows: rows * np.nan, lambda rows: -rows, lambda rows: rows[:2]],
    "weight": [lambda rows: rows * np.inf, lambda rows: rows - 100.0],
    "priority_exponent": [lambda rows: rows[0], lambda rows: rows * np.nan, lambda rows: rows[:0]],
    "random": [lambda rows: rows[:5], lambda rows: np.frombuffer(b'{"bit_generator": "PCG64"}', np.uint8),
               lambda rows: np.frombuffer(b'{"bit_generator": "PCG64", "state": 5}', np.uint8),
               lambda rows: np.frombuffer(b"[" * 100_000, np.uint8)],
    _COUNTERS: [lambda rows: rows[:3], lambda rows: rows * np.nan, lambda rows: rows[None], lambda rows: None],
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_replay_of_odd_numbers_changes_nothing(name: str) -> None:
    theirs, mine = empty(20), empty(20, seed=9)
    go_on(theirs, 0, 15)
    go_on(mine, 100, 110)
    experience = Replayed(UnrollQueue(4), mine, None, min_size=1)  # type: ignore[arg-type]
    good = {**saved(theirs), _COUNTERS: np.zeros(4)}
    before = saved(mine)
    for change in CHANGES[name]:
        odd = {**good, name: change(good[name])}
        with pytest.raises((CheckpointCorrupt, ShapeMismatch)):
            experience.load({key: array for key, array in odd.items() if array is not None})
        assert_same(saved(mine), before)
    assert experience.load(good) == 0
