"""The algorithms that are here: each folder of `workbench.algorithms` with a config.py is one, and nothing names it.

A folder has two modules. `config.py` defines one subclass of `LearningConfig`, and `agent.py`, which needs torch, one
subclass of `algorithms.Algorithm`. The folder's name is the algorithm's name.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

from workbench.config.hyperparameters import LearningConfig
from workbench.errors import UnknownName

_FOLDER = Path(__file__).parents[1] / "algorithms"
_USUAL = "vtrace"  # what learns where no algorithm is named


def only_class(module: ModuleType, base: type) -> type:
    """The subclass of `base` that a module defines."""
    (found,) = (value for value in vars(module).values()
                if isinstance(value, type) and issubclass(value, base) and value.__module__ == module.__name__)
    return found


def _found() -> dict[str, type[LearningConfig]]:
    """The configuration classes by the algorithm's name; the default comes first."""
    names = sorted((file.parent.name for file in _FOLDER.glob("*/config.py")), key=lambda name: (name != _USUAL, name))
    return {name: only_class(importlib.import_module(f"workbench.algorithms.{name}.config"), LearningConfig)
            for name in names}


ALGORITHMS = _found()
DEFAULT = next(iter(ALGORITHMS))


def unknown_algorithm(name: object) -> UnknownName:
    """The error for a name that no algorithm has, with the nearest one, or one that does most like what has that name
    elsewhere."""
    return UnknownName.among("algorithm", str(name), ALGORITHMS, "One of your own is given in Python, as its class.",
                             {str(name): like(str(name))})


def like(name: str) -> str:
    """The algorithm that has this name in another case, or does most like what has it elsewhere; "": none."""
    return next((ours for ours, config in ALGORITHMS.items() if name.lower() in (ours, *config.relatives)), "")
