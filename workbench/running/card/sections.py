"""The rows of the tables on a run's card: (name, value, remark)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from workbench.checkpoints import Checkpoint, standing
from workbench.config import RunConfig, settings
from workbench.environments.atari.scores import published
from workbench.environments.atari.vector import AtariOptions, atari_options
from workbench.environments.registration import known_ids
from workbench.metrics.schema import STEERED
from workbench.metrics.status import RunStatus
from workbench.metrics.status_facts import FACTS
from workbench.playing.evaluating import evaluation_log
from workbench.rundir import RunDirectory, sealed
from workbench.supervisor import stopping_rules
from workbench.tables import counted

Row = tuple[str, str, str]

# Events on a card.
_EVENTS = ("resume", "move", "restore", "fork", "pause", "restart", "kill", "error", "collapse", "recovered",
           "finished", "stop", "failed")
_MOST_EVENTS = 50
_PREPROCESSING = ("frame_stack", "normalize_observations", "reward_scale", "max_abs_reward", "discount")
_RESULT = ("frames", "steps", "updates", "episodes", "episode_return", "episode_score", "evaluation_return",
           "evaluation_score", "time_s")
_ELSEWHERE = ("environment", "environment_options", "wrappers", "algorithm", "network", "seed", *_PREPROCESSING)
UNITS = (
    ("frames", "emulator frames: steps times the action repeats of the environment, of all environments together", ""),
    ("steps", "decisions of the agent, of all environments together", ""),
    ("updates", "steps of the optimizer, on one batch each", ""),
    ("return", "sum of the environment's own rewards over an episode, neither scaled nor clipped", ""),
    ("training time", "time in which the learner trained, pauses excluded", ""),
)


def result(
    status: RunStatus, config: RunConfig, directory: RunDirectory, best: Checkpoint | None, last: Checkpoint | None
) -> Iterator[Row]:
    """State, best checkpoint, counters, returns and evaluations, each with its checkpoint."""
    yield "state", status.state, next(iter((status.error or status.reason).splitlines()), "")
    if status.collapse:
        yield "collapsed", status.collapse, "a run that has collapsed stands for its best checkpoint"
    if best is not None:
        yield "best checkpoint", best.path.name, f"{standing(best)}{', also the last' if best == last else ''}"
    if text := FACTS["best_return"].shown(status):
        at = FACTS["frames"].written(status.best_return_frames or 0, unit=True)
        yield FACTS["best_return"].title, text, f"at {at}"
    beside = {"frames": f"of {config.total_frames:,}", "episodes": "of training"}
    for fact in map(FACTS.__getitem__, _RESULT):
        if value := fact.shown(status):
            episodes = fact.episodes(status)
            yield fact.title, value, beside.get(fact.name, f"last {counted(episodes, 'episodes')}" if episodes else "")
    for rule in stopping_rules.spent(config, status):
        yield "rule", rule, ""
    places = {checkpoint: f" ({place})" for place, checkpoint in (("the last", last), ("the best", best)) if checkpoint}
    for entry in evaluation_log.kept(directory):
        result = entry.evaluation
        low, high = result.confidence_interval
        sure = f", no interval: {result.no_interval}" if result.no_interval else f" [{low:.4g}, {high:.4g}], 95 %"
        human = "" if result.human_normalized is None else f", {100 * result.human_normalized:.3g} % human-normalized"
        how = f", {result.protocol}{f' with {result.differs}' if result.differs else ''}" if result.protocol else ""
        place = next((place for checkpoint, place in places.items() if entry.of(checkpoint)), "")
        yield (f"evaluated at {result.checkpoint_frames:,} frames{place}", f"{result.mean:.4g}{sure}{human}",
               f"{counted(len(result.returns), 'episodes')}, IQM {result.iqm:.4g}, seed {result.seed}, "
               f"{'likeliest actions' if result.greedy else 'sampled actions'}{how}")


def environment(config: RunConfig, newest: Checkpoint | None) -> Iterator[Row]:
    """The environment, and the preprocessing of its observations and rewards."""
    yield "environment", config.environment, ""
    options = _options(config)
    for name, (value, about) in options.items():
        yield f"option {name}", value, about
    if config.wrappers:
        yield "wrappers", config.wrappers, "innermost first"
    if newest is not None:
        spec = newest.spec
        for part in spec.seen:
            yield f"observation {part.name}".strip(), f"{part.dtype} {list(part.shape)}", "as the network sees it"
        numbers = spec.actions.kind == "tanh_normal"  # none of which has choices
        yield "actions", f"{spec.actions.kind} {list(spec.actions.shape if numbers else spec.actions.sizes)}", ""
        yield "frames per step", str(spec.frames_per_step), "action repeats"
        yield "frames stacked", str(spec.frame_stack), ""
        if spec.agents > 1:
            yield "agents in a game", str(spec.agents), ""
    fields = config.all_settings()
    for name in _PREPROCESSING:
        yield name, str(config.value(name)), fields[name].help
    if (scores := published(config.environment)) is not None:
        yield "human-normalized", f"random play {scores.random:g}, human {scores.human:g}", "arXiv 1511.06581, table 2"


def _options(config: RunConfig) -> dict[str, tuple[str, str]]:
    """The options of the environment, (value, help) by name; those of Atari include the defaults."""
    changed = config.environment_options
    spec = known_ids().get(config.environment)
    if spec is None or not str(spec.entry_point).startswith("ale_py.env"):
        return {name: (str(value), "") for name, value in changed.items()}
    options = atari_options(spec.kwargs, changed)
    return {name: (f"{getattr(options, name)} {setting.unit}".strip(), setting.help)
            for name, setting in settings(AtariOptions).items()}


def run(
    record: Mapping[str, Any], config: RunConfig, newest: Checkpoint | None, directory: RunDirectory
) -> Iterator[Row]:
    """Launch, algorithm, network, seed, origin and code of the run."""
    yield "launched", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(record.get("created", 0.0))), ""
    yield "algorithm", config.algorithm, ""
    meta = {} if newest is None else newest.meta
    numbers = f"{meta['parameters']:,} parameters" if "parameters" in meta else ""
    yield "network", str(config.network or meta.get("network") or "chosen by the observations"), numbers
    yield "seed", str(config.seed), "of environments, network and sampling"
    yield "preset", str(record.get("preset") or "none"), ""
    if (parent := directory.parent()) is not None:
        yield "begins with", f"{parent['take']} of {parent['checkpoint']}", ""
    for file in sealed.files_in(directory.code):
        if file.suffix == ".pkl":
            yield f"{file.stem} of its user's own", f"code/{file.name}", f"SHA-256 {sealed.fingerprint(file)}"


def hyperparameters(config: RunConfig) -> Iterator[Row]:
    """The fields without a row elsewhere, with unit, and with the default where the value differs."""
    defaults = config.defaults
    for name, setting in config.all_settings().items():
        if name in _ELSEWHERE:
            continue
        value, default = config.value(name), defaults.value(name)
        about = setting.help if value == default else f"{setting.help} (default: {default})"
        yield name, f"{value} {setting.unit if value is not None else ''}".strip(), about


def happened(events: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """Changes and other events, oldest first."""
    rows = [event for event in events if event["kind"] in (*_EVENTS, *STEERED)]
    left_out = len(rows) - _MOST_EVENTS
    if left_out > 0:
        steering = [event for event in rows if event["kind"] in STEERED]
        rest = [event for event in rows if event["kind"] not in STEERED][-_MOST_EVENTS:]
        rows = sorted([*steering, *rest], key=lambda event: int(event["id"]))
        yield "", f"{left_out} earlier events are left out", "see run.events"
    for event in rows:
        where = "" if event["frames"] is None else f"at {FACTS['frames'].written(event['frames'], unit=True)}"
        yield event["kind"], (event["message"].splitlines() or [""])[0], where


def machine(record: Mapping[str, Any], status: RunStatus) -> Iterator[Row]:
    """The machine of the run, and the versions of its software."""
    yield "device of the learner", FACTS["device"].shown(status) or "not known", ""
    if compiler := FACTS["compiler"].shown(status):
        yield "its compiler", compiler, ""
    yield from ((name, str(value), "where it was launched") for name, value in record.get("machine", {}).items())
    yield from ((name, str(version), "") for name, version in record.get("versions", {}).items())
