"""The calls by which a run goes on with mended code of its user's own, in words."""

from __future__ import annotations

from workbench import environments
from workbench.config import RunConfig
from workbench.errors import AlgorithmFailed, EnvironmentFailed, NetworkFailed, UnknownName, WorkbenchError
from workbench.rundir import RunDirectory


def goes_by_name(environment: str) -> bool:
    """Whether a run's environment goes by a name, and not by that of a class or function of its user's."""
    if not environment.isidentifier():  # such as one that names a module, which is not imported for this
        return True
    try:
        environments.check_name(environment)
        return True
    except UnknownName:
        return False


def environment_again(config: RunConfig) -> str:
    """The arguments by which a run gets its environment again: by name, its wrappers alone."""
    wrappers = f"wrappers=[{config.wrappers}]"
    if not config.wrappers and ":" not in config.environment:
        return "environment=YourEnvironment"
    return wrappers if goes_by_name(config.environment) else f"environment=YourEnvironment, {wrappers}"


def going_on_mended(directory: RunDirectory, error: WorkbenchError) -> str:
    """How a run that failed with this error goes on once its code is mended, as a sentence; "" if no such code failed.
    """
    config = directory.config()
    if isinstance(error, AlgorithmFailed) and config.own_algorithm:
        arguments = f"algorithm={config.algorithm}"
    elif isinstance(error, NetworkFailed) and directory.read().get("code", {}).get("network"):
        arguments = "network=YourNetwork"
    elif isinstance(error, EnvironmentFailed) and directory.read().get("code", {}).get("environment"):
        arguments = environment_again(config)
    else:
        return ""
    return f"Mend it, and go on from the newest checkpoint: wb.resume({directory.name!r}, {arguments})."
