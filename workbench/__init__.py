"""A workbench for distributed reinforcement learning that is driven from a notebook; importing it loads no torch.

    import workbench as wb

    run = wb.launch("CartPole-v1", actors=1, learning_rate=1e-3)
    run.wait(episode_return=475)
    wb.evaluate(run)
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from workbench.imports import deferred

if TYPE_CHECKING:
    from workbench import environments, errors
    from workbench.algorithms.interface import Algorithm, Loss
    from workbench.checkpoints import Checkpoint
    from workbench.config import DemonstrationsConfig, EpochsConfig, LearningConfig, ReplayConfig, setting
    from workbench.config.field_list import fields
    from workbench.environments import register_environment
    from workbench.environments.check import check_environment
    from workbench.errors import WorkbenchError
    from workbench.metrics.status import RunStatus
    from workbench.planning.plan import plan
    from workbench.planning.recipes.recipe import recipe
    from workbench.playing.by_hand.game import Game, play
    from workbench.playing.episodes import evaluate, rollout
    from workbench.playing.evaluating.aggregate import Aggregate, aggregate
    from workbench.playing.evaluating.evaluation import Evaluation
    from workbench.playing.export import export_policy, load_policy
    from workbench.playing.pretrained import PretrainedPolicies, PretrainedPolicy, pretrained
    from workbench.playing.rollout import Rollout
    from workbench.policies.check_algorithm import check_algorithm
    from workbench.running.handle import Run, attach
    from workbench.running.launch import launch, resume
    from workbench.running.machine_info import Machine, machine
    from workbench.running.reading.listing import runs
    from workbench.sweeping.sweep import attach_sweep, sweep, sweeps
    from workbench.sweeping.sweep_handle import Sweep
    from workbench.sweeping.sweep_status import SweepStatus
    from workbench.widgets.views.compare import Comparison, compare

__version__ = "0.1.0"

__all__ = [
    "Aggregate",
    "Algorithm",
    "Checkpoint",
    "Comparison",
    "DemonstrationsConfig",
    "EpochsConfig",
    "Evaluation",
    "Game",
    "LearningConfig",
    "Loss",
    "Machine",
    "PretrainedPolicies",
    "PretrainedPolicy",
    "ReplayConfig",
    "Rollout",
    "Run",
    "RunStatus",
    "Sweep",
    "SweepStatus",
    "WorkbenchError",
    "aggregate",
    "attach",
    "attach_sweep",
    "check_algorithm",
    "check_environment",
    "compare",
    "environments",
    "errors",
    "evaluate",
    "export_policy",
    "fields",
    "launch",
    "load_policy",
    "machine",
    "plan",
    "play",
    "pretrained",
    "recipe",
    "register_environment",
    "resume",
    "rollout",
    "runs",
    "setting",
    "sweep",
    "sweeps",
]

_HOMES = {  # of each public name, its module
    name: module
    for module, names in (
        ("workbench.algorithms.interface", ("Algorithm", "Loss")),
        ("workbench.checkpoints", ("Checkpoint",)),
        ("workbench.cli.magics", ("load_ipython_extension", "unload_ipython_extension")),  # for IPython
        ("workbench.config", ("DemonstrationsConfig", "EpochsConfig", "LearningConfig", "ReplayConfig", "setting")),
        ("workbench.config.field_list", ("fields",)),
        ("workbench.environments", ("register_environment",)),
        ("workbench.environments.check", ("check_environment",)),
        ("workbench.errors", ("WorkbenchError",)),
        ("workbench.metrics.status", ("RunStatus",)),
        ("workbench.planning", ("plan",)),
        ("workbench.planning.recipes", ("recipe",)),
        ("workbench.playing.by_hand.game", ("Game", "play")),
        ("workbench.playing.episodes", ("evaluate", "rollout")),
        ("workbench.playing.evaluating.aggregate", ("Aggregate", "aggregate")),
        ("workbench.playing.evaluating.evaluation", ("Evaluation",)),
        ("workbench.playing.export", ("export_policy", "load_policy")),
        ("workbench.playing.pretrained", ("PretrainedPolicies", "PretrainedPolicy", "pretrained")),
        ("workbench.playing.rollout", ("Rollout",)),
        ("workbench.policies.check_algorithm", ("check_algorithm",)),
        ("workbench.running.handle", ("Run", "attach")),
        ("workbench.running.launch", ("launch", "resume")),
        ("workbench.running.reading.listing", ("runs",)),
        ("workbench.running.machine_info", ("Machine", "machine")),
        ("workbench.sweeping.sweep_handle", ("Sweep",)),
        ("workbench.sweeping.sweep_status", ("SweepStatus",)),
        ("workbench.sweeping.sweep", ("attach_sweep", "sweep", "sweeps")),
        ("workbench.widgets.views.compare", ("Comparison", "compare")),
    )
    for name in names
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that `import workbench` is quick."""
    if name not in (*_HOMES, "environments", "errors"):
        from workbench.errors import missing_attribute

        raise missing_attribute(sys.modules[__name__], name)
    with deferred():
        module = importlib.import_module(_HOMES.get(name, f"workbench.{name}"))
    value = getattr(module, name) if name in _HOMES else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])


def _join_ipython() -> None:
    """Completion of fields, names of runs and so on, where IPython is running."""
    ipython: Any = sys.modules.get("IPython")
    if ipython is not None and (shell := ipython.get_ipython()) is not None:
        from workbench.cli.completion import join

        join(shell)


_join_ipython()
