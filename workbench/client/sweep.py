"""`sweep`, `sweeps` and `attach_sweep`: many runs that search for good hyperparameters, in the background.

A sweep is a process of its own, detached as runs are. Its runs are plain runs, named after it, which go on if it dies:
`attach_sweep(name).resume()` takes them over.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from workbench import launchers, rundir
from workbench.checkpoints import Checkpoint
from workbench.client import start, sweep_folder, sweep_study
from workbench.client.run import Run
from workbench.client.sweep_folder import SweepFolder
from workbench.client.sweep_handle import Sweep, SweepStatus
from workbench.client.sweep_space import Space, checked_space, to_json
from workbench.client.sweep_start import MOST_TRIALS, begin, check_count, sharing_the_machine
from workbench.client.tables import duration
from workbench.config import RunConfig
from workbench.environments.wrapping import Wrapper
from workbench.errors import InvalidInput, OutOfBounds, RunExists, RunNotFound, StorageFailed, UnknownName
from workbench.tables import Columns, Table

EPISODES = tuple(f"{kind}_{what}" for kind in ("episode", "evaluation") for what in
                 ("length", "return", "return_mean", "score", "score_mean"))  # fmt: skip

_LONGEST_NAME = 90  # its runs' are longer

_COLUMNS: Columns = {
    "name": lambda row: row.name,
    "state": lambda row: row.state,
    "age": lambda row: duration(row.age_s),
    "trials": lambda row: f"{row.over} of {row.trials}",
    "metric": lambda row: row.metric,
    "best": lambda row: "" if row.best_value is None else f"{row.best_value:.4g}",
    "best run": lambda row: row.best_run,
}


def sweep(
    environment: str | start.Factory,
    *,
    space: Mapping[str, Any],
    trials: int = 20,
    parallel: int = 2,
    algorithm: str = "vtrace",
    metric: str = "episode_return",
    goal: str = "max",
    sampler: str = "tpe",
    pruner: str = "asha",
    name: str | None = None,
    launcher: str = "local",
    address: str | None = None,
    network: str | start.Factory | None = None,
    preset: str | None = None,
    wrappers: Sequence[Wrapper] = (),
    checkpoint: Checkpoint | Run | str | Path | None = None,
    **fields: Any,
) -> Sweep:
    """A search for good hyperparameters, in the background; its handle, once it has begun.

    The first trial has the values that a run would have anyway, where they lie in the space.

    Args:
        environment, algorithm, launcher, address, network, preset, wrappers, checkpoint: as `wb.launch`.
        space: what to search, by name: (low, high), (low, high, "log") or (low, high, "linear") of a number, both ends
            included, on the field's own scale unless it is said; or a list of choices.
        trials: runs in all.
        parallel: runs at a time; on this machine at most as many as it has cores.
        metric: what a run is judged by: its mean over the last tenth of the frames.
        goal: "max" or "min".
        sampler: "tpe" (Bergstra et al. 2011) or "random".
        pruner: what stops runs that are worse than others at equal frames: "asha" (successive halving, Li et al.
            2020), "median", or "none". A run that it stops keeps its data, and can be resumed.
        name: of the sweep; its runs are NAME-0, NAME-1, ...; None: the first free one.
        fields: that all runs have in common, `total_frames` above all.

    Raises:
        InvalidInput: UnknownName, OutOfBounds and so on; nothing was started.
        RunExists, HomeNotWritable, MissingPackage: nothing was started.
        RunFailed: its process ended while it started.
    """
    fields = {"device": os.environ.get(start.DEVICE, "auto"), **fields, "launcher": launcher, "address": address}
    config, code, chosen = start.checked_config(environment, algorithm, network, preset, wrappers, fields)
    given = {*fields, *(["network"] if network is not None else [])}
    found = checked_space(space, config, given)
    how = _checked_how(
        trials=trials, metric=metric, goal=goal, sampler=sampler, pruner=pruner, config=config, space=found
    )
    config = sharing_the_machine(config, found, parallel)
    launchers.checked(launchers.by_name(launcher), config)
    parent = None if checkpoint is None else rundir.parent_of(start.chosen_checkpoint(checkpoint).path, take="weights")
    record = {
        "created": time.time(), "state": "starting", "error": None, "config": config.to_json(), "space": to_json(found),
        **how, "parallel": parallel, "seed": config.seed, "parent": parent, "preset": chosen, "lives": 0,
    }  # fmt: skip
    first = {field: config.value(field) for field, entry in found.items() if entry.holds(config.value(field))}
    folder = _created(name, f"{start.stem_of(config.environment)}-{algorithm}-sweep", record, code,
                      lambda new: sweep_study.create(new, goal=goal, first=first))
    begin(folder)
    return Sweep(folder)


def attach_sweep(name: str | Path) -> Sweep:
    """The handle of a sweep, by name or folder; starts and stops nothing. Raises RunNotFound with the nearest name."""
    return Sweep(sweep_folder.find(name))


def sweeps() -> Table[SweepStatus]:
    """All sweeps, newest first, as a table; `sweeps()["name"]` finds one. Raises MissingPackage without Optuna."""
    rows = []
    for folder in sweep_folder.every():
        with suppress(RunNotFound, StorageFailed):  # deleted in this moment, or damaged
            rows.append(Sweep(folder).status)
    return Table(rows, _COLUMNS, empty=f"no sweeps in {sweep_folder.folder()}")


# --- checking ---------------------------------------------------------------------------------------------------------


def _checked_how(
    *, trials: int, metric: str, goal: str, sampler: str, pruner: str, config: RunConfig, space: Space
) -> dict[str, Any]:
    """These values, as sweep.json has them. Raises UnknownName, OutOfBounds, InvalidInput."""
    known = (("goal", goal, sweep_study.GOALS), ("sampler", sampler, sweep_study.SAMPLERS),
             ("pruner", pruner, sweep_study.PRUNERS))  # fmt: skip
    for what, given, names in known:
        if given not in names:
            raise UnknownName.among(what, str(given), names)
    check_count("trials", trials, MOST_TRIALS)
    if not isinstance(metric, str):
        raise OutOfBounds(f"metric={metric!r} must be the name of one, such as 'episode_return'.")
    if metric.startswith(("episode_", "evaluation_")) and metric not in EPISODES:
        raise UnknownName.among("metric", metric, EPISODES)
    evaluates = config.evaluating_per_actor or "evaluation_envs_per_actor" in space
    if metric.startswith("evaluation_") and not evaluates:
        raise InvalidInput(f"metric={metric!r}, and no environment evaluates. Give evaluation_envs_per_actor=1 and at "
                           "least two environments per actor, or sweep for episode_return.")
    return {"trials": trials, "metric": metric, "goal": goal, "sampler": sampler, "pruner": pruner}


# --- starting ---------------------------------------------------------------------------------------------------------


def _created(
    name: str | None, stem: str, record: Mapping[str, Any], code: Mapping[str, bytes],
    prepare: Callable[[SweepFolder], object],
) -> SweepFolder:
    """The new sweep's folder, by its name or the first free one of `stem`."""
    if name is not None:
        start.check_name(name)
        if len(name) > _LONGEST_NAME:
            raise InvalidInput(f"name={name!r} is too long for a sweep: its runs add a number. Use up to "
                               f"{_LONGEST_NAME} letters.")
        return sweep_folder.create(name, record, code, prepare)
    for number in count(1):
        try:
            return sweep_folder.create(f"{stem}-{number}", record, code, prepare)
        except RunExists:
            continue
    raise AssertionError("unreachable")
