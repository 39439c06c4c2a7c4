"""Classes of a user's own that a call gets for a checkpoint whose files hold no code, as an exported one.

    wb.evaluate("mine", algorithm=Reinforce, environment=Corridor)

They travel by value to the process that plays, as `wb.launch` sends them: in a folder of this user alone, sealed
(`rundir.sealed`), and removed once the call has played. The checkpoint's own folder is never asked for code.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench import environments
from workbench.checkpoints import Checkpoint, held
from workbench.checkpoints.checkpoint import OWN_NETWORK
from workbench.config import check_network_maker
from workbench.config.own_algorithm import difference, named_algorithm
from workbench.environments.adapters import code_by_value
from workbench.environments.adapters.wrapping import Wrapped
from workbench.errors import InvalidInput, UnknownName
from workbench.rundir import code_beside, sealed, write_atomically
from workbench.running.mending import goes_by_name
from workbench.running.starts.checking import say_what_was_edited

_PLACEHOLDERS = ("YourAlgorithm", "YourNetwork", "your_environment", "make_environment")  # where no name is known


@contextmanager
def with_classes(checkpoint: Checkpoint, **given: Any) -> Iterator[Checkpoint]:
    """The checkpoint with these classes, held while the block lasts; None: the one beside it, or that ships.

    Args:
        given: `algorithm`, `network` and, where an environment is made, `environment`.

    Raises InvalidInput for a class that is missing, not needed, or not the one that it was trained by.
    """
    with held(checkpoint.path):
        _check_missing(checkpoint, given)
        for kind, one in given.items():
            if one is not None:
                _CHECKS[kind](checkpoint, one)
        if not any(one is not None for one in given.values()):
            yield checkpoint
            return
        with code_folder(given) as folder:
            yield replace(checkpoint, code=folder)


@contextmanager
def code_folder(given: Mapping[str, Any]) -> Iterator[Path]:
    """A folder with the code of what is `given` by kind, for a process of this user's, while the block lasts."""
    say_what_was_edited(*given.values())
    with tempfile.TemporaryDirectory(prefix="rl-workbench-code-") as folder:
        for kind, one in given.items():
            if one is not None:
                code = code_by_value.dumps(Wrapped(one, ()) if kind == "environment" else one)
                write_atomically(Path(folder) / f"{kind}.pkl", sealed.sealed(f"{kind}.pkl", code))
        yield Path(folder)


def not_in_files(checkpoint: Checkpoint) -> dict[str, str]:
    """What a user wrote of it, which its own files do not hold: {"algorithm": "Reinforce", "network": "YourNetwork"}.
    """
    config = checkpoint.config
    network = checkpoint.meta.get("network") == OWN_NETWORK or _is_beside(checkpoint, "network")
    named = _identifier(config.environment.rpartition(":")[2], "your_environment")
    environment = "make_environment" if config.wrappers else named  # the class alone is not what it was trained in
    return {
        **({"algorithm": _identifier(config.algorithm, "YourAlgorithm")} if config.own_algorithm else {}),
        **({"network": "YourNetwork"} if network else {}),
        **({"environment": environment} if _made_by_user(checkpoint) else {}),
    }


def _identifier(name: str, otherwise: str) -> str:
    return name if name.isidentifier() else otherwise  # others may have written it


def _made_by_user(checkpoint: Checkpoint) -> bool:
    """Whether its environment or wrappers were typed for its run, so that no name makes it."""
    folder, config = code_beside(checkpoint.path), checkpoint.config
    typed = folder is not None and (folder / "environment.pkl").exists()  # torn or whole
    return bool(config.wrappers) or typed or not goes_by_name(config.environment)


def _is_beside(checkpoint: Checkpoint, kind: str) -> bool:
    """Whether the run around it has the class, to its last byte."""
    folder = code_beside(checkpoint.path)
    return folder is not None and sealed.is_whole(folder / f"{kind}.pkl")


def _check_missing(checkpoint: Checkpoint, given: Mapping[str, Any]) -> None:
    needed = {kind: name for kind, name in not_in_files(checkpoint).items() if kind in given}
    if not any(given[kind] is None and not _is_beside(checkpoint, kind) for kind in needed):
        return
    what = " and ".join(f"the {kind}{'' if name in _PLACEHOLDERS else f' {name}'}" for kind, name in needed.items())
    arguments = ", ".join(f"{kind}={name}" for kind, name in needed.items())
    around = checkpoint.config.wrappers if "environment" in needed else ""
    wrapped = f", with {around!s:.200} around it (make_environment: a function that makes all of it)" if around else ""
    raise InvalidInput(f"{checkpoint.path} was trained with {what} of its user's own{wrapped}, and its files hold no "
                       "code. Define it as it was, and give it to the call: "
                       f"wb.evaluate({str(checkpoint.path)!r}, {arguments}).")


def _check_algorithm(checkpoint: Checkpoint, algorithm: Any) -> None:
    config, where = checkpoint.config, checkpoint.path
    if not config.own_algorithm:
        raise InvalidInput(f"{where} was trained by {config.algorithm}, which ships with the workbench. Leave out "
                           "algorithm=.")
    if _is_beside(checkpoint, "algorithm"):
        raise InvalidInput(f"{where} lies in its run, which has the class {config.algorithm}. Leave out algorithm=.")
    if not isinstance(algorithm, str | type):
        raise InvalidInput(f"algorithm={algorithm!r:.100} must be the class {config.algorithm}, by which {where} was "
                           "trained.")
    name, own = named_algorithm(algorithm, taken={})
    if not own or name != config.algorithm:
        raise InvalidInput(f"algorithm={name}: {where} was trained by a class called {config.algorithm}. Give that "
                           "class.")
    if differs := difference(algorithm, config.own_algorithm):
        now, then = differs
        raise InvalidInput(f"{name}.Config has {now}, and had {then} when {where} was trained. Give the class as it "
                           "was then.")


def _check_network(checkpoint: Checkpoint, network: Any) -> None:
    check_network_maker(network)
    if _is_beside(checkpoint, "network"):
        raise InvalidInput(f"{checkpoint.path} lies in its run, which has its network. Leave out network=.")
    known = checkpoint.meta.get("network", OWN_NETWORK)
    if known != OWN_NETWORK:
        raise InvalidInput(f"{checkpoint.path} has a network that ships with the workbench ({known!s:.50}). Leave out "
                           "network=.")


def _check_environment(checkpoint: Checkpoint, environment: Any) -> None:
    name, where = checkpoint.config.environment, checkpoint.path
    if not callable(environment):
        raise InvalidInput(f"environment={environment!r:.100} must be a class or a function that makes the environment "
                           f"that {where} was trained in, {name}, wrapped as it was.")
    has_wrappers = not isinstance(environment, type) or any(
        base.__name__ == "Wrapper" and base.__module__.startswith("gymnasium.") for base in environment.__mro__)
    if checkpoint.config.wrappers and not has_wrappers:
        raise InvalidInput(f"environment={environment.__name__} is a class, and {where} was trained with "
                           f"{checkpoint.config.wrappers!s:.200} around it. Give a function that makes all of it.")
    if _is_beside(checkpoint, "environment"):
        raise InvalidInput(f"{where} lies in its run, which has its environment. Leave out environment=.")
    if not _made_by_user(checkpoint):
        raise InvalidInput(f"{where} was trained in {name}, which is made by its name. Leave out environment=.")
    options = checkpoint.config.environment_options
    try:
        environments.check_options(name, options, environment)
    except UnknownName as error:
        raise InvalidInput(f"environment={getattr(environment, '__name__', environment)!s:.100} is called with what "
                           f"{where} was trained with, environment_options={options}. Give the class, or a function "
                           f"that takes these: {str(error).partition('. ')[0]}.") from None


_CHECKS = {"algorithm": _check_algorithm, "network": _check_network, "environment": _check_environment}
