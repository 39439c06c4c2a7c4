"""A workbench for distributed reinforcement learning that is driven from a notebook; importing it loads no torch.

    import workbench as wb

    run = wb.launch("CartPole-v1", actors=1, learning_rate=1e-3)
    run.wait(episode_return=475)
    wb.evaluate(run)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench import environments, errors
    from workbench.checkpoints import Checkpoint
    from workbench.client.evaluation import Evaluation, evaluate
    from workbench.client.evaluation_aggregate import Aggregate, aggregate
    from workbench.client.exported import export_policy, load_policy
    from workbench.client.game import Game, play
    from workbench.client.listing import runs
    from workbench.client.rollout import Rollout, rollout
    from workbench.client.run import Run, attach
    from workbench.client.start import launch, resume
    from workbench.client.status import RunStatus
    from workbench.client.sweep import attach_sweep, sweep, sweeps
    from workbench.client.sweep_handle import Sweep, SweepStatus
    from workbench.environments import register_environment
    from workbench.errors import WorkbenchError
    from workbench.planning import plan
    from workbench.recipes import recipe
    from workbench.widgets.compare import Comparison, compare

__version__ = "0.1.0"

__all__ = [
    "Aggregate",
    "Checkpoint",
    "Comparison",
    "Evaluation",
    "Game",
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
    "plan",
    "play",
    "recipe",
    "register_environment",
    "resume",
    "rollout",
    "runs",
    "sweep",
    "sweeps",
]

_HOMES = {
    "Aggregate": "workbench.client.evaluation_aggregate",
    "Checkpoint": "workbench.checkpoints",
    "Comparison": "workbench.widgets.compare",
    "Evaluation": "workbench.client.evaluation",
    "Game": "workbench.client.game",
    "Rollout": "workbench.client.rollout",
    "Run": "workbench.client.run",
    "RunStatus": "workbench.client.status",
    "Sweep": "workbench.client.sweep_handle",
    "SweepStatus": "workbench.client.sweep_handle",
    "WorkbenchError": "workbench.errors",
    "aggregate": "workbench.client.evaluation_aggregate",
    "attach": "workbench.client.run",
    "attach_sweep": "workbench.client.sweep",
    "compare": "workbench.widgets.compare",
    "evaluate": "workbench.client.evaluation",
    "launch": "workbench.client.start",
    "export_policy": "workbench.client.exported",
    "load_ipython_extension": "workbench.magics",  # what IPython looks for, and no name for people
    "load_policy": "workbench.client.exported",
    "plan": "workbench.planning",
    "play": "workbench.client.game",
    "recipe": "workbench.recipes",
    "register_environment": "workbench.environments",
    "resume": "workbench.client.start",
    "rollout": "workbench.client.rollout",
    "runs": "workbench.client.listing",
    "sweep": "workbench.client.sweep",
    "sweeps": "workbench.client.sweep",
    "unload_ipython_extension": "workbench.magics",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that `import workbench` is quick."""
    if name in _HOMES:
        found = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in ("environments", "errors"):
        found = importlib.import_module(f"workbench.{name}")  # environments can be called, see there
    else:
        raise AttributeError(f"module 'workbench' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
