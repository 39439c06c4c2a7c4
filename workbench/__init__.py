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
    from workbench.client.listing import runs
    from workbench.client.rollout import Rollout, rollout
    from workbench.client.run import Run, attach
    from workbench.client.start import launch, resume
    from workbench.client.status import RunStatus
    from workbench.environments import register_environment
    from workbench.errors import WorkbenchError
    from workbench.widgets.compare import Comparison, compare

__version__ = "0.1.0"

__all__ = [
    "Checkpoint",
    "Comparison",
    "Evaluation",
    "Rollout",
    "Run",
    "RunStatus",
    "WorkbenchError",
    "attach",
    "compare",
    "environments",
    "errors",
    "evaluate",
    "launch",
    "register_environment",
    "resume",
    "rollout",
    "runs",
]

_HOMES = {
    "Checkpoint": "workbench.checkpoints",
    "Comparison": "workbench.widgets.compare",
    "Evaluation": "workbench.client.evaluation",
    "Rollout": "workbench.client.rollout",
    "Run": "workbench.client.run",
    "RunStatus": "workbench.client.status",
    "WorkbenchError": "workbench.errors",
    "attach": "workbench.client.run",
    "compare": "workbench.widgets.compare",
    "evaluate": "workbench.client.evaluation",
    "launch": "workbench.client.start",
    "register_environment": "workbench.environments",
    "resume": "workbench.client.start",
    "rollout": "workbench.client.rollout",
    "runs": "workbench.client.listing",
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
