"""A workbench for distributed reinforcement learning that is driven from a notebook; importing it loads no torch.

    import workbench as wb

    run = wb.launch("CartPole-v1", actors=1, learning_rate=1e-3)
    run.wait(episode_return=475)
    wb.evaluate(run)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from workbench.interrupts import deferred

if TYPE_CHECKING:
    from workbench import environments, errors
    from workbench.checkpoints import Checkpoint
    from workbench.environments import register_environment
    from workbench.errors import WorkbenchError
    from workbench.planning import plan
    from workbench.play.evaluation import Evaluation, evaluate
    from workbench.play.export import export_policy, load_policy
    from workbench.play.game import Game, play
    from workbench.play.pretrained import PretrainedPolicies, PretrainedPolicy, pretrained
    from workbench.play.rollout import Rollout, rollout
    from workbench.recipes.recipe import recipe
    from workbench.reports.aggregate import Aggregate, aggregate
    from workbench.runs.handle import Run, attach
    from workbench.runs.launch import launch, resume
    from workbench.runs.listing import runs
    from workbench.runs.machine_info import Machine, machine
    from workbench.runs.status import RunStatus
    from workbench.sweeps.handle import Sweep, SweepStatus
    from workbench.sweeps.sweep import attach_sweep, sweep, sweeps
    from workbench.widgets.views.compare import Comparison, compare

__version__ = "0.1.0"

__all__ = [
    "Aggregate",
    "Checkpoint",
    "Comparison",
    "Evaluation",
    "Game",
    "Machine",
    "PretrainedPolicies",
    "PretrainedPolicy",
    "Rollout",
    "Run",
    "RunStatus",
    "Sweep",
    "SweepStatus",
    "WorkbenchError",
    "aggregate",
    "attach",
    "attach_sweep",
    "compare",
    "environments",
    "errors",
    "evaluate",
    "export_policy",
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
    "sweep",
    "sweeps",
]

_HOMES = {
    "Aggregate": "workbench.reports.aggregate",
    "Checkpoint": "workbench.checkpoints",
    "Comparison": "workbench.widgets.views.compare",
    "Evaluation": "workbench.play.evaluation",
    "Game": "workbench.play.game",
    "Machine": "workbench.runs.machine_info",
    "PretrainedPolicies": "workbench.play.pretrained",
    "PretrainedPolicy": "workbench.play.pretrained",
    "Rollout": "workbench.play.rollout",
    "Run": "workbench.runs.handle",
    "RunStatus": "workbench.runs.status",
    "Sweep": "workbench.sweeps.handle",
    "SweepStatus": "workbench.sweeps.handle",
    "WorkbenchError": "workbench.errors",
    "aggregate": "workbench.reports.aggregate",
    "attach": "workbench.runs.handle",
    "attach_sweep": "workbench.sweeps.sweep",
    "compare": "workbench.widgets.views.compare",
    "evaluate": "workbench.play.evaluation",
    "launch": "workbench.runs.launch",
    "export_policy": "workbench.play.export",
    "load_ipython_extension": "workbench.cli.magics",  # what IPython looks for, and no name for people
    "load_policy": "workbench.play.export",
    "machine": "workbench.runs.machine_info",
    "plan": "workbench.planning",
    "play": "workbench.play.game",
    "pretrained": "workbench.play.pretrained",
    "recipe": "workbench.recipes",
    "register_environment": "workbench.environments",
    "resume": "workbench.runs.launch",
    "rollout": "workbench.play.rollout",
    "runs": "workbench.runs.listing",
    "sweep": "workbench.sweeps.sweep",
    "sweeps": "workbench.sweeps.sweep",
    "unload_ipython_extension": "workbench.cli.magics",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that `import workbench` is quick."""
    if name not in (*_HOMES, "environments", "errors"):
        raise AttributeError(f"module 'workbench' has no attribute {name!r}")
    with deferred():
        module = importlib.import_module(_HOMES.get(name, f"workbench.{name}"))
    found = getattr(module, name) if name in _HOMES else module  # environments can be called, see there
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
