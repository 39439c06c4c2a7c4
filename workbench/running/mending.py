"""The calls by which a run goes on with mended code of its user's own, in words."""

from __future__ import annotations

from contextlib import suppress
from keyword import iskeyword

from workbench import environments
from workbench.errors import AlgorithmFailed, EnvironmentFailed, NetworkFailed, UnknownName, WorkbenchError
from workbench.rundir import NOT_FINITE, RunDirectory


def goes_by_name(environment: str) -> bool:
    """Whether a run's environment goes by a name that is known here without its user's code, or by one in a module."""
    if environments.registered_factory(environment) is not None:
        return False
    if ":" in environment:  # of a module, which is not imported for this
        return True
    try:
        environments.check_name(environment)
    except UnknownName:
        return False
    except WorkbenchError:  # its package is not installed here
        pass
    return True


def is_registered(directory: RunDirectory) -> bool:
    """Whether the run's environment goes by a name that its user registered, in this process or in another one."""
    environment = directory.config().environment
    if environments.registered_factory(environment) is not None:
        return True
    has_code = directory.read().get("code", {}).get("environment")
    return bool(has_code) and not environment.isidentifier() and not goes_by_name(environment)


def registering(environment: str, mended: str = "YourEnvironment") -> str:
    """The call that registers a mended environment under its name, as code."""
    return f"wb.register_environment({environment!r}, {mended})"


def giving_again(directory: RunDirectory, kind: str, *, forks: bool = False) -> str:
    """The call by which a run, or a fork of it, gets its code of that kind again, mended or not: "environment" (where
    that goes by name, its wrappers alone), "network" or "algorithm"."""
    config, call = directory.config(), "run.fork(" if forks else f"wb.resume({directory.name!r}, "
    if kind != "environment":
        return f"{call}{kind}={config.algorithm if kind == 'algorithm' else 'YourNetwork'})"
    wrappers = f"wrappers=[{config.wrappers}]" if config.wrappers or ":" in config.environment else ""
    registered = is_registered(directory)
    called = config.environment.isidentifier() and not iskeyword(config.environment) and not registered
    mended = config.environment if called else "YourEnvironment"  # which a registered one may be called
    environment = "" if wrappers and goes_by_name(config.environment) else f"environment={mended}"
    first = f"{registering(config.environment)}, then " if registered else ""
    return f"{first}{call}{', '.join(filter(None, (environment, wrappers)))})"


def going_on_mended(directory: RunDirectory, error: WorkbenchError) -> str:
    """How a run that failed with this error goes on once its code is mended, as a sentence; "" where no such code
    failed, or where it cannot go on here."""
    with suppress(Exception):  # none may take the place of the run's own error
        if call := "" if directory.is_copy or directory.owner else _call(directory, error):
            return f"Mend it, and go on from the newest checkpoint: {call}."
    return ""


def going_on_paused(directory: RunDirectory, reason: str) -> str:
    """How a run that paused for this reason goes on with a mended algorithm or network, as a sentence after a blank;
    "" where neither can be at fault, or where it cannot go on here."""
    with suppress(Exception):  # as above
        if NOT_FINITE in reason and not (directory.is_copy or directory.owner):
            calls = [call for kind in (AlgorithmFailed, NetworkFailed) if (call := _call(directory, kind("")))]
            if calls:
                return f" Or mend its code: wb.attach({directory.name!r}).stop(), then {' or '.join(calls)}."
    return ""


def _call(directory: RunDirectory, error: WorkbenchError) -> str:
    code = directory.read().get("code", {})
    if isinstance(error, AlgorithmFailed) and directory.config().own_algorithm:
        return giving_again(directory, "algorithm")
    if isinstance(error, NetworkFailed) and code.get("network"):
        return giving_again(directory, "network")
    if isinstance(error, EnvironmentFailed) and code.get("environment"):
        return giving_again(directory, "environment")
    return ""
