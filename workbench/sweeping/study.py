"""Optuna's half of a sweep: the study in SQLite, samplers and pruners by name, and trials as plain data.

Nothing else imports Optuna, and this module only when a sweep is made, run or looked at.
"""

from __future__ import annotations

import math
import sqlite3
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from workbench import imports
from workbench.errors import HomeNotWritable, MissingPackage, StorageFailed
from workbench.metrics import check_tables
from workbench.sweeping.folder import SweepFolder
from workbench.sweeping.objective import MARKS
from workbench.sweeping.space import Choice, Space, from_json

if TYPE_CHECKING:
    from types import ModuleType

    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial
    from optuna.trial import Trial as OpenTrial

PBT = "pbt"  # population-based training, see `population`
SAMPLERS = (PBT, "random", "tpe")
PRUNERS = ("asha", "median", "none")
GOALS = ("max", "min")
LEAST_FOR_IMPORTANCE = 4
MADE = "made"  # attribute of a trial whose run was made

_STUDY = "sweep"
# what Optuna raises for values that it never writes
ODD = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
_TIMEOUT_S = 30.0  # for another process's write to the study to end
_FIRST_MARK = 3  # of 27 at which a run may be pruned
_MOST_ROWS = 200_000  # of a table: more than 5,000 trials, the most there may be, have values at all their marks
_REDUCTION = 3  # of successive halving: of three runs one goes on
_BEST_SHARE = 0.25  # of the trials, whose fields importance is about
State = Literal["running", "finished", "pruned", "failed"]


@dataclass(frozen=True)
class Trial:
    """One run of a sweep.

    Attributes:
        run: name of its run.
        value: its metric at the end, or as far as it came; None: not known yet.
        frames: how far it came; of one that is running, its last mark.
        seconds: from its start to its end; None: it goes on.
        fields: what the sweep chose for it.
        note: why it was pruned or has failed.
        curve: its metric by mark, from 1 to 27.
    """

    number: int
    run: str
    state: State
    value: float | None
    frames: int
    seconds: float | None
    fields: dict[str, Any]
    note: str = ""
    curve: dict[int, float] = field(default_factory=dict)


def optuna() -> ModuleType:
    """The package, quiet. Raises MissingPackage."""
    try:
        import optuna as package
    except ModuleNotFoundError as error:
        raise MissingPackage(f"a sweep needs {error.name}. Install it: {imports.pip_install('sweep')}") from None
    package.logging.set_verbosity(package.logging.ERROR)
    return package


def create(sweep: SweepFolder, *, goal: str, first: dict[str, Any]) -> None:
    """A new study, whose first trial has the fields in `first`. Raises MissingPackage, StorageFailed."""
    package = optuna()
    direction = "maximize" if goal == "max" else "minimize"
    study = package.create_study(storage=_storage(sweep, new=True), study_name=_STUDY, direction=direction)
    if first:
        study.enqueue_trial(first)


def opened(sweep: SweepFolder, *, sampling: bool = False) -> Study:
    """The study; `sampling`: to ask it for trials. Raises MissingPackage, StorageFailed."""
    package = optuna()
    chosen: dict[str, Any] = {}
    if sampling:
        record = sweep.read()
        chosen = {"sampler": _sampler(record), "pruner": _pruner(record["pruner"])}
    try:
        study: Study = package.load_study(storage=_storage(sweep), study_name=_STUDY, **chosen)
    except (*ODD, package.exceptions.OptunaError) as error:
        why = f"{error!s:.200}"
        raise StorageFailed(f"cannot read {sweep.study}: {why}. Its runs are not affected: wb.runs().") from None
    return study


def _storage(sweep: SweepFolder, *, new: bool = False) -> Any:
    if not new and not sweep.study.is_file():
        gone = "no plain file" if sweep.study.exists() else "gone"
        raise StorageFailed(f"{sweep.study} is {gone}. The sweep's runs are not affected: wb.runs().")
    package = optuna()
    address, connecting = f"sqlite:///{sweep.study}", dict[str, Any](connect_args={"timeout": _TIMEOUT_S})
    try:
        if not new:
            check_tables(sweep.study, most_rows=_MOST_ROWS)
            address = f"sqlite:///{sweep.study.name}"  # a whole one would cut a name at its "?"
            connecting = {"creator": partial(_connected, sweep.study)}
        return package.storages.RDBStorage(
            address, engine_kwargs=connecting, skip_table_creation=not new, skip_compatibility_check=not new
        )
    except (StorageFailed, sqlite3.Error, package.exceptions.StorageInternalError) as error:
        raise StorageFailed(f"cannot open {sweep.study}: {error}. Its runs are not affected: wb.runs().") from None


def _connected(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=_TIMEOUT_S, check_same_thread=False)


def _sampler(record: dict[str, Any]) -> BaseSampler:
    samplers, seed = optuna().samplers, record["seed"] + record["lives"]  # else a second life would draw the same
    if record["sampler"] in ("random", PBT):
        return samplers.RandomSampler(seed=seed)  # type: ignore[no-any-return]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that they are experimental
        at_random = max(4, min(10, record["trials"] // 4))
        return samplers.TPESampler(  # type: ignore[no-any-return]
            seed=seed, multivariate=True, constant_liar=record["parallel"] > 1, n_startup_trials=at_random
        )


def _pruner(name: str) -> BasePruner:
    pruners = optuna().pruners
    if name == "asha":
        return pruners.SuccessiveHalvingPruner(  # type: ignore[no-any-return]
            min_resource=_FIRST_MARK, reduction_factor=_REDUCTION
        )
    if name == "median":
        return pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=_FIRST_MARK)  # type: ignore[no-any-return]
    return pruners.NopPruner()  # type: ignore[no-any-return]


def refusals() -> tuple[type[Exception], ...]:
    """What is raised where a disk refuses a sweep's files or its runs', which may pass."""
    return StorageFailed, HomeNotWritable, optuna().exceptions.StorageInternalError


def had_run(study: Study, number: int) -> bool:
    """Whether the run of that trial was made once. Older versions did not write that down, but values from it."""
    trial = study.get_trials(deepcopy=False)[number]
    return MADE in trial.user_attrs or bool(trial.intermediate_values)


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """The space as Optuna has it."""
    kinds = optuna().distributions
    return {
        name: kinds.CategoricalDistribution(one.values) if isinstance(one, Choice)
        else (kinds.IntDistribution if one.whole else kinds.FloatDistribution)(one.low, one.high, log=one.log)
        for name, one in space.items()
    }  # fmt: skip


def under_way(study: Study, number: int, ranges: dict[str, BaseDistribution]) -> OpenTrial:
    """A trial that has begun, with a value for each field: a process may have died while it asked for them."""
    trial = optuna().trial.Trial(study, study.get_trials(deepcopy=False)[number]._trial_id)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of values that were asked for and lie outside
        for name, one in ranges.items():
            trial._suggest(name, one)  # what was chosen already stays
    return trial  # type: ignore[no-any-return]


# --- looking ----------------------------------------------------------------------------------------------------------


def trials(sweep: SweepFolder, study: Study) -> list[Trial]:
    """All trials that have begun, oldest first. Raises StorageFailed."""
    try:
        total, space = sweep.read()["config"]["total_frames"], space_of(sweep)
        found = study.get_trials(deepcopy=False)
        return [_trial(sweep, one, total, space) for one in found if one.state.name != "WAITING"]
    except (*ODD, optuna().exceptions.OptunaError) as error:
        raise StorageFailed(f"cannot read {sweep.study}: {error!s:.200}.") from None


def _trial(sweep: SweepFolder, one: FrozenTrial, total_frames: int, space: Space) -> Trial:
    states: dict[str, State] = {"RUNNING": "running", "COMPLETE": "finished", "PRUNED": "pruned", "FAIL": "failed"}
    curve = dict(sorted(one.intermediate_values.items()))
    last = max(curve, default=0)
    value = one.value if one.state.name in ("COMPLETE", "PRUNED") else None
    frames = one.user_attrs.get("frames", last * total_frames // MARKS)
    duration = one.duration.total_seconds() if one.duration else None
    said = one.user_attrs.get("note", "")
    numbers = [number for number in (value, *curve, *curve.values()) if number is not None]
    if type(frames) is not int or type(said) is not str or any(type(number) not in (int, float) for number in numbers):
        raise ValueError(f"trial {one.number} has values that no sweep writes")
    if not all(math.isfinite(space[name].place(value)) for name, value in one.params.items()):
        raise ValueError(f"trial {one.number} has fields that the sweep does not search")
    return Trial(one.number, sweep.run(one.number).name, states[one.state.name], value if value is not None
                 else curve.get(last), frames, duration, dict(one.params), said, curve)


def best(found: Sequence[Trial], goal: str) -> Trial | None:
    """The one with the best value of those that finished; of all, if none did; None: no value is known."""
    whole = [one for one in found if one.state == "finished"] or list(found)
    known = [one for one in whole if one.value is not None]
    sign = 1 if goal == "max" else -1
    return max(known, key=lambda one: sign * (one.value or 0.0), default=None)


def importance(found: Sequence[Trial], space: Space, goal: str) -> dict[str, float]:
    """How much each field has to do with whether a trial is among the best quarter, as shares of 1, largest first.

    PED-ANOVA (Watanabe et al. 2023), over finished and pruned trials: one that was pruned is known to be among the
    others. Empty for fewer than 4.
    """
    judged = [one for one in found if one.state in ("finished", "pruned") and one.value is not None]
    if len(judged) < LEAST_FOR_IMPORTANCE:
        return {}
    try:
        return _shares(judged, space, goal)
    except (*ODD, optuna().exceptions.OptunaError) as error:
        raise StorageFailed(f"the trials of {judged[0].run.rpartition('-')[0]} are not of what it searches: "
                            f"{error!s:.200}.") from None


def _shares(judged: Sequence[Trial], space: Space, goal: str) -> dict[str, float]:
    package = optuna()
    study = package.create_study(direction="maximize" if goal == "max" else "minimize")
    ranges = distributions(space)
    worst = min if goal == "max" else max
    least = worst(one.value for one in judged if one.value is not None)
    for one in judged:  # the value of a pruned one is of fewer frames than those that it is compared with
        value = one.value if one.state == "finished" else least
        study.add_trial(package.create_trial(params=one.fields, distributions=ranges, value=value))
    with warnings.catch_warnings(), suppress(RuntimeError, ValueError):  # all values are the same
        warnings.simplefilter("ignore")
        evaluator = package.importance.PedAnovaImportanceEvaluator(target_quantile=_BEST_SHARE)
        shares: dict[str, float] = package.importance.get_param_importances(study, evaluator=evaluator)
        return shares
    return {}


def space_of(sweep: SweepFolder) -> Space:
    """What the sweep searches."""
    return from_json(sweep.read()["space"])
