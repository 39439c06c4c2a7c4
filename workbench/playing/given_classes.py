"""Classes of a user's own that a call gets for a checkpoint whose files hold no code, as an exported one.

    wb.evaluate("mine", algorithm=Reinforce)

They travel by value to the process that plays, as `wb.launch` sends them: in a folder of this user alone, sealed
(`rundir.sealed`), and removed once the call has played. The checkpoint's own folder is never asked for code.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench.checkpoints import Checkpoint
from workbench.checkpoints.checkpoint import OWN_NETWORK
from workbench.config.own_algorithm import difference, named_algorithm
from workbench.environments.adapters import code_by_value
from workbench.errors import InvalidInput
from workbench.rundir import code_beside, sealed, write_atomically
from workbench.running.starting import check_network_maker


@contextmanager
def with_classes(checkpoint: Checkpoint, *, algorithm: Any = None, network: Any = None) -> Iterator[Checkpoint]:
    """The checkpoint with these classes, while the block lasts; None: the one beside it, or that ships.

    Raises InvalidInput for a class that is missing, not needed, or not the one that it was trained by.
    """
    _check_missing(checkpoint, algorithm=algorithm, network=network)
    if algorithm is not None:
        _check_algorithm(checkpoint, algorithm)
    if network is not None:
        _check_network(checkpoint, network)
    classes = {"algorithm.pkl": algorithm, "network.pkl": network}
    if algorithm is network is None:
        yield checkpoint
        return
    with tempfile.TemporaryDirectory(prefix="rl-workbench-code-") as folder:
        for file, one in classes.items():
            if one is not None:
                write_atomically(Path(folder) / file, sealed.sealed(file, code_by_value.dumps(one)))
        yield replace(checkpoint, code=Path(folder))


def not_in_files(checkpoint: Checkpoint) -> dict[str, str]:
    """What a user wrote of it, which its own files do not hold: {"algorithm": "Reinforce", "network": "YourNetwork"}.
    """
    config = checkpoint.config
    name = config.algorithm if config.algorithm.isidentifier() else "YourAlgorithm"  # others may have written it
    algorithm = {"algorithm": name} if config.own_algorithm else {}
    own = checkpoint.meta.get("network") == OWN_NETWORK or _is_beside(checkpoint, "network")
    return {**algorithm, **({"network": "YourNetwork"} if own else {})}


def _is_beside(checkpoint: Checkpoint, kind: str) -> bool:
    """Whether the run around it has the class."""
    folder = code_beside(checkpoint.path)
    return folder is not None and (folder / f"{kind}.pkl").exists()


def _check_missing(checkpoint: Checkpoint, **given: Any) -> None:
    needed = not_in_files(checkpoint)
    if not any(given[kind] is None and not _is_beside(checkpoint, kind) for kind in needed):
        return
    what = " and ".join(f"the {kind}{f' {name}' if kind == 'algorithm' else ''}" for kind, name in needed.items())
    arguments = ", ".join(f"{kind}={name}" for kind, name in needed.items())
    raise InvalidInput(f"{checkpoint.path} was trained by {what} of its user's own, and its files hold no code. Define "
                       f"it as it was, and give it to the call: wb.evaluate({str(checkpoint.path)!r}, {arguments}).")


def _check_algorithm(checkpoint: Checkpoint, algorithm: Any) -> None:
    config, where = checkpoint.config, checkpoint.path
    if not config.own_algorithm:
        raise InvalidInput(f"{where} was trained by {config.algorithm}, which ships with the workbench. Leave out "
                           "algorithm=.")
    if _is_beside(checkpoint, "algorithm"):
        raise InvalidInput(f"{where} lies in its run, which has the class {config.algorithm}. Leave out algorithm=.")
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
