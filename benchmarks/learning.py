"""What the benchmarks that learn share: a run by name, its episodes with running means, its facts in words.

No command line: environments.py and pretrained.py have one.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import workbench as wb
from workbench.config import DEFAULT, RunConfig
from workbench.environments.presets import preset_of, with_preset
from workbench.running.starts.checking import with_opponent

if TYPE_CHECKING:
    import pandas as pd

READY_S = 900.0  # for a run to train, on a slow machine
WINDOW = 100  # episodes behind a mean, where nothing else is said


def found_or_launched(
    name: str, environment: str, *, preset: str | None = None, finished: bool = False, **fields: Any
) -> wb.Run:
    """The run of that name: attached, resumed, or new. `finished`: one that has finished is taken as it is, too.

    Raises InvalidInput where it is there and is another one, or has finished otherwise.
    """
    try:
        run = wb.attach(name)
    except wb.errors.RunNotFound:
        return wb.launch(environment, name=name, preset=preset, ready_timeout_s=READY_S, **fields)
    if preset is not None:
        algorithm = fields.get("algorithm", DEFAULT)
        fields = with_preset(preset_of(environment, preset, algorithm=algorithm), fields, algorithm=algorithm)
    check_same(run, {"environment": environment, **{one: fields[one] for one in fields if one != "checkpoint"}})
    status = run.status
    return run if status.alive or (finished and status.state == "finished") else wb.resume(name)


def last_checkpoint(run: wb.Run) -> wb.Checkpoint:
    """Of the weights that it has now. `wb.evaluate(run)` takes the best ones where the return has collapsed."""
    return run.checkpoint() if run.status.alive else run.checkpoints[-1]


def check_same(run: wb.Run, given: dict[str, Any]) -> None:
    """Raises InvalidInput where the run did not start with these fields; what was tuned since does not count."""
    events = run.events
    changed = events[events["kind"].isin(("tune", "scale"))]["data"]
    before = {field: old for data in reversed(changed.tolist()) for field, old in data.get("old", {}).items()}
    known = run.config.all_settings()
    for field, value in with_opponent(given).items():
        if field not in known:
            raise wb.errors.UnknownName.among("field", field, known)
        started = before.get(field, run.config.value(field))
        if started != value:
            raise wb.errors.InvalidInput(f"the run {run.name!r} is there already, and started with "
                                         f"{field}={started!r}, not {value!r}. Give what it has, or another --name.")


def measure_of(run: wb.Run) -> str:
    """What the run's episodes are judged by: the environment's own score where it has one, else the return; of
    environments that evaluate, if any do."""
    kind = "evaluation" if run.config.evaluating_per_actor else "episode"
    return f"{kind}_score" if f"{kind}_score" in run.metric_names else f"{kind}_return"


def episodes_of(run: wb.Run, window: int = WINDOW) -> pd.DataFrame:
    """Episodes that count, oldest first: frames, steps, updates, time_s, episode_return, episode_score where the
    environment has one, and mean_100 (or of another `window`), the mean of the last so many (none before); the first
    two begin with evaluation_ where environments evaluate."""
    measure = measure_of(run)
    kind = measure.partition("_")[0]
    table = run.metrics(f"{kind}_return").rename(columns={"value": f"{kind}_return"})
    if measure.endswith("score"):
        table[measure] = run.metrics(measure)["value"]  # an episode more, if one ended in between
    table[f"mean_{window}"] = table[measure].rolling(window).mean()
    return table


def outcome(
    episodes: pd.DataFrame, target: float, measure: str = "episode_return", *, window: int = WINDOW
) -> str:
    """Whether and when the mean of `window` episodes reached `target`, in words."""
    what = measure.partition("_")[2]
    reached, last = episodes[episodes[f"mean_{window}"] >= target], episodes.iloc[-1]
    if len(reached):
        first = reached.iloc[0]
        return (f"A mean {what} of {target:g} over {window:,} episodes was reached after {first.frames:,.0f} frames "
                f"({first.steps:,.0f} steps, {first.updates:,.0f} updates) and {first.time_s / 60:.1f} minutes.")
    tail = episodes[measure].tail(window)
    return (f"A mean {what} of {target:g} over {window:,} episodes was not reached: {tail.mean():.2f} over the last "
            f"{len(tail)} after {last.frames:,.0f} frames and {last.time_s / 60:.1f} minutes.")


def changes_by_hand(run: wb.Run) -> str:
    """What was tuned while it learnt, as Markdown with a heading line; "" if nothing was."""
    events = run.events
    tuned = [f"- {one.frames:,.0f} frames: {one.message}" for one in events[events["kind"] == "tune"].itertuples()]
    return "Changed by hand while it learnt:\n\n" + "\n".join(tuned) + "\n\n" if tuned else ""


def chosen(config: RunConfig) -> dict[str, Any]:
    """The fields in which a configuration is not the defaults of its algorithm."""
    plain = RunConfig.build("", algorithm=config.algorithm)
    given = {field.name: (getattr(one, field.name), getattr(other, field.name))
             for one, other in ((config, plain), (config.hyperparameters, plain.hyperparameters))
             for field in dataclasses.fields(one) if field.name != "hyperparameters"}
    return {name: value for name, (value, default) in given.items() if value != default}


def settings_list(values: dict[str, Any]) -> str:
    """Settings as a Markdown list."""
    return "\n".join(f"- {name} = {value}" for name, value in values.items())
