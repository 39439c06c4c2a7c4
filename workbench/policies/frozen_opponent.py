"""A run's own copy of the checkpoint that its opponent plays, so that it stays when the run that wrote it is pruned.

It lies in `<run>/opponent/`, as a run directory in small: the weights (hard links, which cost no space), and the code
of network and algorithm where that was typed in a cell, with what that algorithm learnt.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from workbench import checkpoints
from workbench.checkpoints import Checkpoint
from workbench.errors import InvalidInput
from workbench.rundir import RunDirectory, around, sealed, untried, write_atomically


def kept(run: RunDirectory, path: str) -> Checkpoint:
    """The copy of the checkpoint in `path`, made now if there is none. Raises InvalidInput where both are gone."""
    own = run.opponent
    if (copy := checkpoints.newest(own.checkpoints)) is not None:
        return copy
    given = _at(path)
    own.code.mkdir(mode=0o700, parents=True, exist_ok=True)
    theirs = around(given.path)
    code = sealed.every(theirs.code) if theirs.record.exists() else {}
    for name in ("network.pkl", "algorithm.pkl"):
        if name in code:
            write_atomically(own.code / name, code[name])
    config = untried.for_its_class(theirs, given.config) if theirs.record.exists() else given.config
    record = json.dumps({"config": config.to_json()})  # says that the code beside it is this user's
    write_atomically(own.record, record.encode())
    played = {"model", *(["algorithm"] if "algorithm.pkl" in code else [])}
    return checkpoints.copy(given, own.checkpoints, without=[group for group in given.groups if group not in played])


def known(checkpoint: Checkpoint, path: str) -> Checkpoint:
    """The opponent of the run that wrote `checkpoint`: that run's copy of what is in `path`, else that itself.

    Raises InvalidInput for a checkpoint that lies in no run: what its file says must not choose which folder's code is
    loaded.
    """
    run = around(checkpoint.path)
    if not run.record.exists():
        raise InvalidInput(f"{checkpoint.path} was trained against an opponent, which lies with its run: play a "
                           "checkpoint in that run, where it was exported from.")
    return replace(checkpoints.newest(run.opponent.checkpoints) or _at(path), trust_code=checkpoint.trust_code)


def _at(path: str) -> Checkpoint:
    try:
        return checkpoints.at(Path(path))
    except InvalidInput as error:
        raise InvalidInput(f"the opponent's checkpoint is gone: {error} Move it back, or choose another one in a fork: "
                           "run.fork(opponent=...).") from None
