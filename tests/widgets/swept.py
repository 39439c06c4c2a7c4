"""A sweep on disk with a study written by hand: three trials finished, one pruned, one failed, one open."""

from __future__ import annotations

from typing import Any

import pytest

from tests.widgets import recorded
from workbench.config import RunConfig
from workbench.sweeping import study as sweep_study
from workbench.sweeping import sweep_folder
from workbench.sweeping.space import Choice, Space, Span, to_json
from workbench.sweeping.sweep_handle import Sweep

optuna = pytest.importorskip("optuna")
SPACE: Space = {"learning_rate": Span(1e-5, 1e-1, True, False), "batch_size": Span(4, 64, False, True),
                "network": Choice(("mlp", "mlp-lstm"))}  # fmt: skip
TRIALS = (  # learning_rate, batch_size, network, value, state
    (1e-3, 16, "mlp", 120.0, "COMPLETE"), (1e-2, 32, "mlp-lstm", 300.0, "COMPLETE"), (1e-5, 8, "mlp", 20.0, "PRUNED"),
    (1e-4, 64, "mlp-lstm", None, "FAIL"), (3e-3, 8, "mlp", 200.0, "COMPLETE"), (2e-3, 8, "mlp", None, "RUNNING"),
)  # fmt: skip


def by_hand(name: str = "mine", *, network: str = "mlp-lstm", note: str = "<b>late</b>") -> Sweep:
    """The sweep, stopped, in the home of the test; of its runs only the best, NAME-1, is there.

    Args:
        network: the second of those that it tries.
        note: of the trial that failed.
    """
    space = {**SPACE, "network": Choice(("mlp", network))}
    config = RunConfig.build("CartPole-v1", total_frames=27_000)
    record: dict[str, Any] = {
        "created": 1.0, "state": "stopped", "error": None, "config": config.to_json(), "space": to_json(space),
        "trials": 20, "parallel": 2, "metric": "episode_return", "goal": "max", "sampler": "tpe", "pruner": "asha",
        "seed": 0, "lives": 1,
    }  # fmt: skip
    folder = sweep_folder.create(name, record, {}, lambda new: sweep_study.create(new, goal="max"))
    study = sweep_study.opened(folder)
    for rate, batch, net, value, state in TRIALS:
        study.add_trial(optuna.create_trial(
            state=optuna.trial.TrialState[state], value=value, distributions=sweep_study.distributions(space),
            params={"learning_rate": rate, "batch_size": batch, "network": network if net == "mlp-lstm" else net},
            intermediate_values={1: 10.0, 2: 15.0}, user_attrs={"note": note} if state == "FAIL" else {},
        ))  # fmt: skip
    recorded.vtrace(f"{name}-1")
    return Sweep(folder)
