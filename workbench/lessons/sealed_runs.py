"""Runs of CartPole with one hidden fault each, to be found from their curves and mended while they run (lesson 5).

    run = broken_run(2)            # launches it
    run.tune(**remedy(2, field))   # a usual value of that field, whether or not it is the fault

Every run has the same fields at unusual values. One of them keeps it from learning; the others do no harm, which
tests/lessons/test_sealed_runs.py shows, so that the configuration does not give the fault away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import workbench as wb
from workbench.errors import OutOfBounds, UnknownName

USUAL: Mapping[str, Any] = {
    "learning_rate": 2e-3, "entropy_cost": 1e-3, "max_gradient_norm": 0.5, "discount": 0.97, "reward_scale": 1.0,
    "pg_rho_clip": 1.0, "baseline_cost": 0.5,
}  # fmt: skip
_SAME: Mapping[str, Any] = {
    "actors": 1, "envs_per_actor": 16, "batch_size": 8, "warmup_updates": 0, "learner_threads": 1,
    "total_frames": 20_000_000, "max_abs_reward": 0.0,
}  # fmt: skip


@dataclass(frozen=True)
class Sealed:
    """What is inside a broken run.

    Attributes:
        fault: the field that keeps it from learning.
        fields: its unusual values, of which all others are harmless.
        evidence: which curve gives the fault away, and how.
    """

    fault: str
    fields: Mapping[str, Any]
    evidence: str


SEALED = {
    1: Sealed("learning_rate", {
        "learning_rate": 2e-6, "entropy_cost": 1e-4, "max_gradient_norm": 1e-3, "discount": 0.93, "reward_scale": 3.0,
        "pg_rho_clip": 20.0, "baseline_cost": 0.1},
        "Nothing moves: the entropy stays at ln 2, and so does the value loss near its first value, though the "
        "gradient is large. The gradient points somewhere, and no step follows it. Adam divides a gradient by its own "
        "size, so the clipping of this run takes nothing away; what is left is the size of the step."),
    2: Sealed("entropy_cost", {
        "learning_rate": 1e-3, "entropy_cost": 5.0, "max_gradient_norm": 0.05, "discount": 0.95, "reward_scale": 0.05,
        "pg_rho_clip": 10.0, "baseline_cost": 2.0},
        "The value loss falls, so the network does learn. Only the policy does not: its entropy stays at ln 2, and "
        "the entropy loss is far larger than the policy loss. The bonus for being random outweighs the rewards."),
    3: Sealed("max_gradient_norm", {
        "learning_rate": 1.5e-3, "entropy_cost": 3e-4, "max_gradient_norm": 1e-6, "discount": 0.98, "reward_scale": 0.5,
        "pg_rho_clip": 5.0, "baseline_cost": 1.0},
        "Nothing moves, neither the entropy nor the value loss, though the learning rate is a usual one. The gradient "
        "norm, which is recorded before clipping, is a million times what it is clipped to. Adam would make up for "
        "that, but such a gradient is small beside its ε of 1e-5, and so is the step."),
    4: Sealed("discount", {
        "learning_rate": 3e-3, "entropy_cost": 1e-4, "max_gradient_norm": 0.02, "discount": 0.05, "reward_scale": 2.0,
        "pg_rho_clip": 30.0, "baseline_cost": 0.2},
        "The value loss falls to almost nothing, because there is nothing to predict: each step is worth the next "
        "reward and hardly more, whatever is done. Returns of healthy runs differ, and their value loss stays "
        "above 1. The policy loss vanishes with it, as no action looks better than another."),
    5: Sealed("reward_scale", {
        "learning_rate": 1e-3, "entropy_cost": 1e-2, "max_gradient_norm": 0.1, "discount": 0.96, "reward_scale": 1e-4,
        "pg_rho_clip": 3.0, "baseline_cost": 1.0},
        "The value loss is tiny from the first update on, before anything could be learnt: what the network is to "
        "predict is itself tiny. Next to such advantages even a small entropy bonus is a giant, and the policy stays "
        "at ln 2."),
    6: Sealed("pg_rho_clip", {
        "learning_rate": 2e-3, "entropy_cost": 2e-4, "max_gradient_norm": 0.01, "discount": 0.94, "reward_scale": 1.5,
        "pg_rho_clip": 1e-4, "baseline_cost": 0.3},
        "The value loss falls, the entropy stays at ln 2, and the policy loss is as good as 0 from the first update "
        "on, so no bonus outweighs it: it is not there. Its importance ratios are near 1, and a clip far below 1 "
        "cuts the whole policy gradient off, not only its extremes."),
}


def broken_run(number: int) -> wb.Run:
    """Launches broken run 1 to 6, which learns nothing until its fault is mended. Raises OutOfBounds for another."""
    return wb.launch("CartPole-v1", **{**_SAME, **inside(number).fields})


def inside(number: int) -> Sealed:
    """What is inside a broken run; whoever is to find it does not look here. Raises OutOfBounds."""
    if number not in SEALED:
        raise OutOfBounds(f"there is no broken run {number!r}: choose one of 1 to {len(SEALED)}.")
    return SEALED[number]


def remedy(number: int, field: str) -> dict[str, Any]:
    """A usual value of that field of a broken run, for `run.tune`. Raises UnknownName for a field that is usual."""
    fields = inside(number).fields
    if field not in fields:
        raise UnknownName.among("unusual field", field, fields)
    return {field: USUAL[field]}
