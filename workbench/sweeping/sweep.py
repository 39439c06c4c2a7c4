"""`sweep`, `sweeps` and `attach_sweep`: many runs that search for good hyperparameters, in the background.

A sweep has a process of its own, detached as runs are. Its runs are plain runs, named after it, which survive it:
`attach_sweep(name).resume()` takes them over.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from workbench import checkpoints, imports, launchers, rundir
from workbench.checkpoints import Checkpoint
from workbench.config import DEFAULT, RunConfig
from workbench.config.chosen import DEVICE_VARIABLE
from workbench.config.few_updates import ROUND
from workbench.config.own_algorithm import network_of
from workbench.config.settings import Setting
from workbench.copies.url_storage import Storage
from workbench.environments.adapters.wrapping import Wrapper
from workbench.errors import (
    InvalidInput,
    OutOfBounds,
    RunExists,
    RunNotFound,
    StorageFailed,
    UnknownName,
    checked_arguments,
)
from workbench.metrics import meanings
from workbench.playing.rollout import Rollout
from workbench.running import choosing
from workbench.running.handle import Run
from workbench.running.progress import notify
from workbench.running.starts import checking, demonstrating, starting
from workbench.supervisor import stopping_rules
from workbench.sweeping import study, sweep_folder
from workbench.sweeping.population import GENERATIONS, LEAST_MEMBERS
from workbench.sweeping.space import Space, checked_space, first_trials, own_space, to_json
from workbench.sweeping.start import (
    MOST_TRIALS,
    begin,
    checked_count,
    checked_parallel,
    fitting,
    sharing_the_machine,
    warm_up_warning,
)
from workbench.sweeping.sweep_folder import SweepFolder
from workbench.sweeping.sweep_handle import Sweep
from workbench.sweeping.sweep_status import SweepStatus
from workbench.tables import Columns, Table, duration

EPISODES = tuple(f"{kind}_{what}" for kind in ("episode", "evaluation") for what in
                 ("length", "return", "return_mean", "score", "score_mean"))  # fmt: skip

LEAST_FRAMES = 900  # of a population
_LONGEST_NAME = 90  # letters of a sweep's name; the names of its runs are longer

_COLUMNS: Columns = {
    "name": lambda row: row.name,
    "state": lambda row: row.state,
    "age": lambda row: "" if row.problem else duration(row.age_s),
    "trials": lambda row: "" if row.problem else f"{row.over} of {row.trials}",
    "metric": lambda row: row.metric,
    "best": lambda row: "" if row.best_value is None else f"{row.best_value:.4g}",
    "best run": lambda row: row.best_run,
}


@checked_arguments(environment="Give its name: wb.sweep('CartPole-v1', space={'learning_rate': (1e-4, 1e-2)}).")
def sweep(
    environment: str | checking.Factory,
    *,
    space: Mapping[str, Any] | None = None,
    trials: int = 20,
    parallel: int | None = None,
    algorithm: str | type = DEFAULT,
    metric: str = "episode_return",
    goal: str = "max",
    sampler: str = "tpe",
    pruner: str | None = None,
    generations: int = 9,
    name: str | None = None,
    launcher: str = "local",
    address: str | None = None,
    network: str | checking.Factory | None = None,
    preset: str | None = None,
    wrappers: Sequence[Wrapper] = (),
    checkpoint: Checkpoint | Run | str | Path | None = None,
    demonstrations: Rollout | str | Path | Sequence[Rollout | str | Path] | None = None,
    **fields: Any,
) -> Sweep:
    """Start a search for good hyperparameters in the background, and return its handle once it has begun.

    The first trial has the default values, where they lie in the space. Of lists alone each combination is tried once
    before any is tried again, where there are trials enough.

    Args:
        environment, algorithm, launcher, address, network, preset, wrappers, checkpoint, demonstrations: as
            `wb.launch`.
        space: what to search, by name: (low, high), (low, high, "log") or (low, high, "linear") of a number, both ends
            included, on the field's own scale unless one is named; or a list of choices. None: the algorithm's own
            space, without the fields that are given.
        trials: number of runs; with "pbt" the size of the population, at least 2, better 8.
        parallel: runs at a time, on this machine at most its number of cores. None: 2, or 1 on a single core.
        metric: the metric by which runs are judged: its mean over the last tenth of the frames.
        goal: "max" or "min".
        sampler: "tpe" (Bergstra et al. 2011), "random", or "pbt", population-based training (Jaderberg et al. 2017):
            after each generation the worst quarter of the runs is replaced by forks of the best, with live fields
            changed.
        pruner: the rule that stops runs that are worse than others at equal frames: "asha" (successive halving, Li
            et al. 2020; the default), "median", or "none". A pruned run keeps its data and can be resumed. "pbt" has
            no pruner.
        generations: of "pbt": 3, 9 or 27, of equal numbers of frames.
        name: of the sweep, whose runs are NAME-0, NAME-1, ...; None: the first free name.
        fields: fields that all runs share, `total_frames` above all.

    Raises:
        InvalidInput: UnknownName, OutOfBounds and so on; nothing was started.
        RunExists, HomeNotWritable, MissingPackage: nothing was started.
        RunFailed: the sweep's process ended while it started.
    """
    gives_network, network = network is not None, network_of(algorithm, network)
    fields = {"device": os.environ.get(DEVICE_VARIABLE, "auto"), **fields, "launcher": launcher, "address": address}
    config, code, preset_name = checking.checked_config(environment, algorithm, network, preset, wrappers, fields)
    fixed = {*fields, *(["network"] if network is not None else [])}
    searched = checked_space(own_space(config, fixed) if space is None else space, config, fixed)
    method = _checked_method(
        trials=trials, metric=metric, goal=goal, sampler=sampler, pruner=pruner, generations=generations,
        config=config, space=searched,
    )  # fmt: skip
    parallel = checked_parallel(config, fitting(config) if parallel is None else parallel)
    config = sharing_the_machine(config, searched, parallel)
    launchers.checked(launchers.by_name(launcher), config)
    if config.storage:
        Storage(config.storage).names()  # it can be reached
    keep_demonstrations = demonstrating.checked(demonstrations, config)
    weights = None if checkpoint is None else choosing.chosen_checkpoint(checkpoint)
    parent = None if weights is None else rundir.parent_of(weights.path, take="weights")
    record = {
        "created": time.time(), "state": "starting", "error": None, "config": config.to_json(),
        "space": to_json(searched), **method, "parallel": parallel, "seed": config.seed, "parent": parent,
        "preset": preset_name, "lives": 0, "network": gives_network or checking.OF_CLASS,
    }  # fmt: skip

    def fill(new: SweepFolder) -> None:
        study.create(new, goal=goal, first=first_trials(searched, config, method["trials"]))
        keep_demonstrations(new.demonstrations)
        if weights is not None:
            checkpoints.copy(weights, new.checkpoints, without=["optimizer", "replay"])

    if warning := warm_up_warning(config, searched):
        notify(warning)
    folder = _created(name, f"{starting.stem_for(config)}-sweep", record, code, fill)
    if "total_frames" not in fixed:
        notify(f"{folder.path.name}: {method['trials']} runs of up to {config.total_frames:,} frames each. Give "
               "total_frames=... for others.")
    with imports.meanwhile(f"{folder.path.name}: starting…"):
        begin(folder)
    return Sweep(folder)


def attach_sweep(name: str | Path | Sweep) -> Sweep:
    """The handle of a sweep, by name, folder or another handle; starts and stops nothing.

    Raises RunNotFound with the nearest name.
    """
    return Sweep(sweep_folder.find(name.path if isinstance(name, Sweep) else name))


def sweeps() -> Table[SweepStatus]:
    """All sweeps, newest first, as a table; `sweeps()["name"]` finds one. Raises MissingPackage without Optuna."""
    folders, damaged = sweep_folder.listed()
    rows = []
    for folder in folders:
        try:
            rows.append(Sweep(folder).status)
        except RunNotFound:
            continue
        except StorageFailed as error:
            damaged[folder] = str(error)
        except study.ODD as error:
            damaged[folder] = f"its record or study is damaged: {type(error).__name__}: {error!s:.200}"
    rows += [SweepStatus.damaged(folder.name, why) for folder, why in damaged.items()]
    return Table(rows, _COLUMNS, empty=f"no sweeps in {sweep_folder.folder()}")


# --- checking ---------------------------------------------------------------------------------------------------------


def _checked_method(
    *, trials: int, metric: str, goal: str, sampler: str, pruner: str | None, generations: int, config: RunConfig,
    space: Space,
) -> dict[str, Any]:
    """The checked arguments as sweep.json holds them. Raises UnknownName, OutOfBounds, InvalidInput."""
    if sampler == study.PBT and pruner not in (None, "none"):
        raise InvalidInput(f"pruner={pruner!r} does not go with sampler='pbt', which replaces runs itself. Leave it "
                           "out.")
    pruner = pruner or ("none" if sampler == study.PBT else "asha")
    options = (("goal", goal, study.GOALS), ("sampler", sampler, study.SAMPLERS),
             ("pruner", pruner, study.PRUNERS))  # fmt: skip
    for option, value, names in options:
        if value not in names:
            raise UnknownName.among(option, str(value), names)
    trials = checked_count("trials", trials, MOST_TRIALS)
    generations = Setting("generations", int, 9, "").check(generations)
    if sampler == study.PBT:
        _check_population(trials, generations, config, space)
    if not isinstance(metric, str):
        raise OutOfBounds(f"metric={metric!r} must be the name of one, such as 'episode_return'.")
    of_episodes = metric.startswith(("episode_", "evaluation_"))
    if of_episodes or not config.own_algorithm:  # one of a user's own need not describe its metrics
        known = EPISODES if of_episodes else sorted(meanings.described(type(config.hyperparameters)))
        if metric not in known:
            raise UnknownName.among("metric", metric, known)
    evaluates = config.evaluating_per_actor or "evaluation_envs_per_actor" in space
    if metric.startswith("evaluation_") and not evaluates:
        raise InvalidInput(f"metric={metric!r}, but no environment evaluates. Give evaluation_envs_per_actor=1 and at "
                           "least two environments per actor, or sweep for episode_return.")
    return {"trials": trials, "members": trials, "generations": generations, "metric": metric, "goal": goal,
            "sampler": sampler, "pruner": pruner}


def _check_population(members: int, generations: int, config: RunConfig, space: Space) -> None:
    """Raises OutOfBounds or InvalidInput for arguments that population-based training cannot use."""
    if members < LEAST_MEMBERS:
        raise OutOfBounds(f"trials={members}: a population has at least {LEAST_MEMBERS} runs, better 8.")
    if generations not in GENERATIONS:
        raise OutOfBounds(f"generations={generations!r} must be 3, 9 or 27.")
    fixed = [name for name in space if not config.all_settings()[name].live]
    if fixed:
        raise InvalidInput(f"{', '.join(fixed)} cannot change while a run learns, so sampler='pbt' cannot search it. "
                           "Use another sampler, or leave it out.")
    if config.value("learning_rate_schedule") != "constant":
        raise InvalidInput("learning_rate_schedule='linear' ends at total_frames, and the runs of a population end "
                           "several times before. Search learning_rate instead: it may fall from fork to fork.")
    rules = [name for name in stopping_rules.RULES if config.value(name) is not None]
    if rules:
        raise InvalidInput(f"{', '.join(rules)} would end runs of a population one by one, and they train and end "
                           "together. Leave it out, and end the sweep by hand: .stop().")
    steps = math.prod(getattr(config.hyperparameters, name, 1) for name in ROUND)
    steps = math.ceil(steps / getattr(config.hyperparameters, "replay_ratio", 1.0))
    least = max(LEAST_FRAMES, 2 * generations * steps)  # a step has a frame or more, and a run ends up to a round late
    if config.total_frames < least:
        raise OutOfBounds(f"total_frames={config.total_frames} is too little for {generations} generations, in which "
                          f"training takes {steps:,} steps at a time: give at least {least}.")


# --- starting ---------------------------------------------------------------------------------------------------------


def _created(
    name: str | None, stem: str, record: Mapping[str, Any], code: Mapping[str, bytes],
    prepare: Callable[[SweepFolder], object],
) -> SweepFolder:
    """Create the sweep's folder, named `name` or by the first free number after `stem`."""
    if name is not None:
        starting.check_name(name)
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
