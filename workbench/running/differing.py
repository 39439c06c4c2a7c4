"""In which fields of their configurations some runs differ, from their directories alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from workbench import rundir
from workbench.errors import InvalidInput
from workbench.metrics import MetricsReader
from workbench.rundir import RunDirectory, sealed
from workbench.running.connection import still_there
from workbench.running.handle import Run
from workbench.running.reading.changes import changes, courses
from workbench.running.reading.listing import RunSummary

Compared = Run | RunSummary | str | Path | Sequence[Run | RunSummary | str | Path]


def differences(runs: Compared) -> pd.DataFrame:
    """The fields in which the runs differ, with a column for each run. Raises InvalidInput, RunNotFound."""
    return table(named(_listed(runs)))


def requested(runs: Any) -> list[tuple[str, Any]]:
    """The runs with the labels of their groups, "" without groups. Raises InvalidInput for a group without a run."""
    if not isinstance(runs, Mapping):
        return [("", run) for run in _listed(runs)]
    groups = {label: _listed(some) for label, some in runs.items()}
    for label, some in groups.items():
        if not isinstance(label, str) or not some or isinstance(runs[label], Mapping):
            wrong = "is no text" if not isinstance(label, str) else "has a dict for its runs" if some else "has no runs"
            raise InvalidInput(f"the group {label!r:.100} {wrong}. Give each a label and some runs: "
                               'wb.compare({"PPO": [run_a, run_b], "V-trace": [run_c, run_d]}).')
    return [(label, run) for label, some in groups.items() for run in some]


def _listed(runs: Any) -> list[Any]:
    return [runs] if isinstance(runs, (Run, RunSummary, str, Path)) or not isinstance(runs, Iterable) else list(runs)


def named(runs: Sequence[Any]) -> dict[str, RunDirectory]:
    """The runs' directories by name, or by path where two homes have a run of the same name.

    Raises InvalidInput for no runs or one of them twice, RunNotFound.
    """
    if not runs:
        raise InvalidInput("compare() got no runs. Give some: wb.compare([run_a, run_b]); wb.runs() lists them.")
    directories: list[RunDirectory] = []
    for run in [one.name if isinstance(one, RunSummary) else one for one in runs]:
        if not isinstance(run, (Run, str, Path)):
            of_sweep = " Those of a sweep are sweep.runs." if hasattr(type(run), "best_fields") else ""
            raise InvalidInput(f"{run!r:.100} is no run. Give handles, names or directories of runs.{of_sweep}")
        directory = still_there(run.directory if isinstance(run, Run) else rundir.find(run))
        if any(directory.path.resolve() == other.path.resolve() for other in directories):
            raise InvalidInput(f"{directory.name} is given twice. Name every run once.")
        directories.append(directory)
    names = [directory.name for directory in directories]
    return {directory.name if names.count(directory.name) == 1 else str(directory.path): directory
            for directory in directories}


def table(directories: Mapping[str, RunDirectory], groups: Mapping[str, str] | None = None) -> pd.DataFrame:
    """The fields in which the runs differ, in the configuration's order, with a column for each run.

    `groups`: the label of each run's group; the fields are then those of groups, and the columns too.
    """
    fields = {name: _fields(directory) for name, directory in directories.items()}
    if groups is not None:
        fields = _of_groups(fields, groups)
    names = dict.fromkeys(field for run_fields in fields.values() for field in run_fields)
    rows = {field: [run_fields.get(field, "") for run_fields in fields.values()] for field in names}
    differing = {field: row for field, row in rows.items() if any(cell != row[0] for cell in row)}
    return pd.DataFrame.from_dict(differing, orient="index", columns=list(fields), dtype=object).rename_axis("field")


def _of_groups(fields: Mapping[str, dict[str, Any]], groups: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The fields of each group; where its runs differ, all values in words, such as the seeds "0, 1, 2"."""
    found: dict[str, dict[str, Any]] = {}
    for label in dict.fromkeys(groups.values()):
        runs = [fields[name] for name, group in groups.items() if group == label]
        values = {name: list(dict.fromkeys(str(run.get(name, "")) for run in runs)) for run in runs for name in run}
        found[label] = {name: runs[0].get(name, "") if len(values[name]) == 1 else ", ".join(values[name])
                        for name in values}
    return found


def _fields(directory: RunDirectory) -> dict[str, Any]:
    """Every field of the run, a tuned one with all its values in words; also its code and its parent."""
    config = directory.config()
    values: dict[str, Any] = {name: config.value(name) for name in ("environment", "algorithm")}
    values |= {name: config.value(name) for name in config.all_settings() if name != "own_algorithm"}
    values |= courses(changes(MetricsReader(directory.metrics).events()))
    code = {f"{path.stem} code": f"your own ({sealed.fingerprint(path)[:8]})"
            for path in sealed.files_in(directory.code)}
    parent = directory.parent()
    origin = {"started from": f"{parent['run'] or ''} {Path(parent['checkpoint']).name}".strip()} if parent else {}
    return values | code | origin
