"""The algorithm that a run's configuration names."""

from __future__ import annotations

import importlib

from workbench.algorithms.interface import Algorithm
from workbench.algorithms.own_code import own_code
from workbench.config import RunConfig
from workbench.config.algorithms import only_class
from workbench.environment_spec import EnvironmentSpec
from workbench.errors import InvalidInput


def build(config: RunConfig, *, spec: EnvironmentSpec, own: type[Algorithm] | None = None) -> Algorithm:
    """The algorithm of `config` for the environment `spec`; `own` is its class where a user wrote it.

    Raises:
        InvalidInput: it cannot choose such actions, or its class is not here.
        AlgorithmFailed: a user's own raised.
    """
    if config.own_algorithm:
        if own is None:
            raise InvalidInput(f"the algorithm {config.algorithm} is a class of its user's own, which is not exported "
                               f"with weights. Play the checkpoint in its run, or by a call that takes the class: "
                               f"wb.evaluate(..., algorithm={config.algorithm}).")
        with own_code(own, f"{own.__name__}(...)", lets=lambda error: isinstance(error, InvalidInput)):
            return own(config.hyperparameters, spec=spec)
    agent = importlib.import_module(f"workbench.algorithms.{config.algorithm}.agent")
    algorithm: Algorithm = only_class(agent, Algorithm)(config.hyperparameters, spec=spec)
    return algorithm
