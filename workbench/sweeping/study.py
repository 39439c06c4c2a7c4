"""Optuna's half of a sweep: the study in SQLite, samplers and pruners by name, and trials as plain data.

No other module imports Optuna at its top, and this one does so only when a sweep is created, run or read.
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
from workbench.errors import ConnectionLost, HomeNotWritable, MissingPackage, StorageFailed
from workbench.metrics import check_tables
from workbench.sweeping.objective import MARKS
from workbench.sweeping.space import Choice, Space, from_json
from workbench.sweeping.sweep_folder import SweepFolder

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
MADE = "made"  # attribute of a trial whose run was created
WAITS = "waits"  # attribute of a trial: what its run waits for
SPENT = "spent"  # attribute of a trial that is over: cost and frames of its run

_STUDY = "sweep"
# Optuna's errors for values in a study that it never writes itself
ODD = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
_TIMEOUT_S = 30.0  # how long to wait for another process's write to the study
_FIRST_MARK = 3  # of 27: the first at which a run may be pruned
_MOST_ROWS = 200_000  # of a table: more than 5,000 trials (the maximum) write if each has values at all marks
_REDUCTION = 3  # successive halving continues one of three runs
_BEST_SHARE = 0.25  # of the trials: importance tells which fields bring a trial among them
State = Literal["running", "finished", "pruned", "failed"]


@dataclass(frozen=True)
class Trial:
    """One run of a sweep.

    Attributes:
        run: name of its run.
        value: its metric at the end, or at its last mark; None: no value yet.
        frames: trained so far; of a running trial, those at its last mark.
        seconds: from its start to its end; None while it runs.
        fields: the values that the sweep chose for it.
        note: why it was pruned or failed.
        curve: its metric by mark, from 1 to 27.
        waits: what its run waits for, such as a machine; only of a trial that runs.
        spent: cost of its run and the frames that it trained, those of a fork from its parent on; of a trial that is
            over.
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
    waits: str = ""
    spent: tuple[float, int] = (0.0, 0)

    @property
    def said(self) -> str:
        """The note, and what its run waits for."""
        return "; ".join(filter(None, [self.note, self.waits and f"waits: {self.waits}"]))


def optuna() -> ModuleType:
    """The Optuna package with its logging reduced to errors. Raises MissingPackage."""
    try:
        import optuna as package
    except ModuleNotFoundError as error:
        raise MissingPackage(f"a sweep needs {error.name}. Install it: {imports.pip_install('sweep')}") from None
    package.logging.set_verbosity(package.logging.ERROR)
    return package


def create(sweep: SweepFolder, *, goal: str, first: Sequence[dict[str, Any]] = ()) -> None:
    """Create a study whose first trials have the fields in `first`. Raises MissingPackage, StorageFailed."""
    package = optuna()
    direction = "maximize" if goal == "max" else "minimize"
    study = package.create_study(storage=_storage(sweep, new=True), study_name=_STUDY, direction=direction)
    for fields in first:
        study.enqueue_trial(fields)


def opened(sweep: SweepFolder, *, sampling: bool = False) -> Study:
    """The study, with sampler and pruner if `sampling`. Raises MissingPackage, StorageFailed."""
    package = optuna()
    strategy: dict[str, Any] = {}
    if sampling:
        record = sweep.read()
        strategy = {"sampler": _sampler(record), "pruner": _pruner(record["pruner"])}
    try:
        study: Study = package.load_study(storage=_storage(sweep), study_name=_STUDY, **strategy)
    except (*ODD, package.exceptions.OptunaError) as error:
        why = f"{error!s:.200}"
        raise StorageFailed(f"cannot read {sweep.study}: {why}. Its runs are not affected: wb.runs().") from None
    return study


def _storage(sweep: SweepFolder, *, new: bool = False) -> Any:
    if not new and not (sweep.study.is_file() and sweep.study.stat().st_size):
        lost = "empty" if sweep.study.is_file() else "no plain file" if sweep.study.exists() else "gone"
        raise StorageFailed(f"{sweep.study} is {lost}. The sweep's runs are not affected: wb.runs().")
    package = optuna()
    address, connecting = f"sqlite:///{sweep.study}", dict[str, Any](connect_args={"timeout": _TIMEOUT_S})
    try:
        if not new:
            check_tables(sweep.study, most_rows=_MOST_ROWS)
            address = f"sqlite:///{sweep.study.name}"  # SQLAlchemy would cut a whole path at a "?" in it
            connecting = {"creator": partial(_connected, sweep.study)}
        return package.storages.RDBStorage(
            address, engine_kwargs=connecting, skip_table_creation=not new, skip_compatibility_check=not new
        )
    except (StorageFailed, sqlite3.Error, package.exceptions.StorageInternalError) as error:
        raise StorageFailed(f"cannot open {sweep.study}: {error}. Its runs are not affected: wb.runs().") from None


def _connected(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=_TIMEOUT_S, check_same_thread=False)


def _sampler(record: dict[str, Any]) -> BaseSampler:
    samplers, seed = optuna().samplers, record["seed"] + record["lives"]  # so that a second life draws other values
    if record["sampler"] in ("random", PBT):
        return samplers.RandomSampler(seed=seed)  # type: ignore[no-any-return]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # these arguments are experimental
        startup = max(4, min(10, record["trials"] // 4))
        return samplers.TPESampler(  # type: ignore[no-any-return]
            seed=seed, multivariate=True, constant_liar=record["parallel"] > 1, n_startup_trials=startup
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
    """The errors of a disk that refuses to write files of a sweep or its runs, and of a cluster that does not answer;
    they may pass."""
    return StorageFailed, HomeNotWritable, ConnectionLost, optuna().exceptions.StorageInternalError


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """The space as Optuna's distributions, by field."""
    kinds = optuna().distributions
    return {
        name: kinds.CategoricalDistribution(entry.values) if isinstance(entry, Choice)
        else (kinds.IntDistribution if entry.whole else kinds.FloatDistribution)(entry.low, entry.high, log=entry.log)
        for name, entry in space.items()
    }  # fmt: skip


def under_way(study: Study, number: int, ranges: dict[str, BaseDistribution]) -> OpenTrial:
    """A trial that has begun. Fields still without a value get one: a process may have died while it chose them."""
    trial = optuna().trial.Trial(study, study.get_trials(deepcopy=False)[number]._trial_id)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about enqueued values outside their range
        for name, distribution in ranges.items():
            trial._suggest(name, distribution)  # keeps a value chosen earlier
    return trial  # type: ignore[no-any-return]


# --- reading ----------------------------------------------------------------------------------------------------------


def trials(sweep: SweepFolder, study: Study) -> list[Trial]:
    """All trials that have begun, oldest first. Raises StorageFailed."""
    try:
        record = sweep.read()
        total, space = record["config"]["total_frames"], from_json(record["space"])
        return [_trial(sweep, frozen, total, space) for frozen in study.get_trials(deepcopy=False)
                if frozen.state.name != "WAITING"]
    except (*ODD, optuna().exceptions.OptunaError) as error:
        raise StorageFailed(f"cannot read {sweep.study}: {error!s:.200}.") from None


def _trial(sweep: SweepFolder, frozen: FrozenTrial, total_frames: int, space: Space) -> Trial:
    states: dict[str, State] = {"RUNNING": "running", "COMPLETE": "finished", "PRUNED": "pruned", "FAIL": "failed"}
    curve = dict(sorted(frozen.intermediate_values.items()))
    last = max(curve, default=0)
    value = frozen.value if frozen.state.name in ("COMPLETE", "PRUNED") else None
    frames = frozen.user_attrs.get("frames", last * total_frames // MARKS)
    duration = frozen.duration.total_seconds() if frozen.duration else None
    note = frozen.user_attrs.get("note", "")
    numbers = [number for number in (value, *curve, *curve.values()) if number is not None]
    of = frozen.user_attrs.get("of", 0)  # number of the trial that it forks, of which a path is made
    waits = frozen.user_attrs.get(WAITS, "") if frozen.state.name == "RUNNING" else ""
    cost, trained = frozen.user_attrs.get(SPENT, (0.0, 0))
    numbers += [cost, trained]
    if type(frames) is not int or type(of) is not int or type(note) is not str or type(waits) is not str or any(
            type(number) not in (int, float) for number in numbers):
        raise ValueError(f"trial {frozen.number} has values that no sweep writes")
    if not all(math.isfinite(space[name].place(value)) for name, value in frozen.params.items()):
        raise ValueError(f"trial {frozen.number} has fields that the sweep does not search")
    return Trial(frozen.number, sweep.run(frozen.number).name, states[frozen.state.name], value if value is not None
                 else curve.get(last), frames, duration, dict(frozen.params), note, curve, waits, (cost, trained))


def best(trials: Sequence[Trial], goal: str) -> Trial | None:
    """The finished trial with the best value; of all trials if none has finished; None where no trial has a value."""
    candidates = [trial for trial in trials if trial.state == "finished"] or list(trials)
    valued = [trial for trial in candidates if trial.value is not None]
    sign = 1 if goal == "max" else -1
    return max(valued, key=lambda trial: sign * (trial.value or 0.0), default=None)


def importance(trials: Sequence[Trial], space: Space, goal: str) -> dict[str, float]:
    """How much each field decides whether a trial is among the best quarter, as shares of 1, largest first.

    PED-ANOVA (Watanabe et al. 2023) over finished and pruned trials, where a pruned trial counts as one of the worst.
    Empty for fewer than 4 trials.
    """
    judged = [trial for trial in trials if trial.state in ("finished", "pruned") and trial.value is not None]
    if len(judged) < LEAST_FOR_IMPORTANCE:
        return {}
    try:
        return _shares(judged, space, goal)
    except (*ODD, optuna().exceptions.OptunaError) as error:
        raise StorageFailed(f"the trials of {judged[0].run.rpartition('-')[0]} do not fit its space: "
                            f"{error!s:.200}.") from None


def _shares(judged: Sequence[Trial], space: Space, goal: str) -> dict[str, float]:
    package = optuna()
    study = package.create_study(direction="maximize" if goal == "max" else "minimize")
    ranges = distributions(space)
    worst = min if goal == "max" else max
    worst_value = worst(trial.value for trial in judged if trial.value is not None)
    for trial in judged:  # a pruned trial's own value is of fewer frames than the others'
        value = trial.value if trial.state == "finished" else worst_value
        study.add_trial(package.create_trial(params=trial.fields, distributions=ranges, value=value))
    with warnings.catch_warnings(), suppress(RuntimeError, ValueError):  # all values are the same
        warnings.simplefilter("ignore")
        evaluator = package.importance.PedAnovaImportanceEvaluator(target_quantile=_BEST_SHARE)
        shares: dict[str, float] = package.importance.get_param_importances(study, evaluator=evaluator)
        return shares
    return {}
