"""`Run.fork`: a new run that goes on from a checkpoint of another, with fields changed.

The new run gets the checkpoint as its first (by hard links, which take no space), with the new configuration in
meta.json and without the groups that must not go on. To the learner a fork is therefore a resumed run, which keeps its
checkpoint when the old run is pruned or deleted. run.json is written last: an interrupted fork is no run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import checkpoints, launchers, rundir
from workbench.checkpoints import Checkpoint
from workbench.config import REPLAY_S, WEIGHT_FIELDS, RunConfig, Setting, unknown_field
from workbench.environments.adapters.wrapping import Wrapper
from workbench.errors import InvalidInput, RunExists, RunNotAlive, UnknownName, nearest
from workbench.metrics.collapse import EPISODES
from workbench.metrics.status_facts import exact
from workbench.replay import demonstration_file
from workbench.rundir import RunDirectory, sealed, untried
from workbench.running import waiting
from workbench.running.choosing import chosen_checkpoint, newest_checkpoint, run_and_checkpoint
from workbench.running.connection import Control, stored_status
from workbench.running.starts.checking import (
    Factory,
    check_has_code,
    mended_code,
    moved_to,
    with_algorithm,
    with_opponent,
)
from workbench.running.starts.starting import check_name, created, new_record
from workbench.supervisor import stopping_rules

if TYPE_CHECKING:
    from workbench.running.handle import Run

_LISTED = 8  # checkpoints in a message
_JUDGED = ("opponent", "opponent_agents", "evaluating_per_actor")  # where they differ, a mean is no measure of another
_UNROLLS = ("unroll_length", "burn_in")  # fields on which stored unrolls depend, beside those of weights


def forked(
    run: Run, checkpoint: Checkpoint | str | Path | None, place: launchers.Launcher, *, name: str | None,
    replay: bool = False, launcher: str | None = None, address: str | None = None, state: str = "starting",
    trust_code: bool = False, algorithm: type | str | None = None, network: Factory | str | None = None,
    environment: Factory | str | None = None, wrappers: Sequence[Wrapper] | None = None, changes: dict[str, Any],
) -> RunDirectory:
    """The directory of a fork that is not started; `state` as in `new_record`. Raises the errors of `Run.fork`."""
    changes = with_opponent(changes)
    if not run.directory.owner:
        untried.settle(run.directory)
    now, mended = untried.tried_config(run.directory), dict[str, bytes]()
    class_of_own = algorithm if isinstance(algorithm, type) else None
    maker, factory = (None if isinstance(one, str) else one for one in (network, environment))
    changes = changes | {name: given for name, given, code in (  # what is no code is refused as a field
        ("algorithm", algorithm, class_of_own), ("network", network, maker), ("environment", environment, factory))
        if given is not code}
    if class_of_own is not None:
        now, mended = with_algorithm(now, class_of_own, changes)
    mended |= mended_code(run.directory, class_of_own, maker, factory, wrappers, trust_code=trust_code)
    if name is not None:
        check_name(name)
        if (rundir.home() / "runs" / name).exists():  # checked before the old run writes a checkpoint in vain
            raise RunExists(f"there is a run {name!r} already. Choose another name.")
    replay = Setting("replay", bool, False, "").check(replay)
    source = _source(run, checkpoint, now, replay=replay, changes=changes)
    before = (source.config.with_own(now.own_algorithm, changes) if class_of_own is not None
              else untried.for_its_class(run.directory, source.config))
    changed = config_of_fork(before, changes, frames=source.frames, replay=replay)
    config = moved_to(_with_own_opponent(changed, before, run.directory), launcher, address)
    check_has_code(run.directory, config, but=mended, forks=True)
    code = sealed.every(run.directory.code, config, address=address, trust_code=sealed.TRUST.check(trust_code),
                        but=mended) | mended
    launchers.checked(place, config)
    alike = all(changed.value(name) == before.value(name) for name in _JUDGED)
    if alike:
        _check_target(config, source)
    if replay and not source.has_replay:
        raise InvalidInput(f"{source.path} has no replay. Fork without it, or from a checkpoint that holds it: "
                           "run.checkpoint(replay=True).")
    same_optimizer = config.value("optimizer") == before.value("optimizer")
    parent = rundir.parent_of(source.path, take="all", optimizer=same_optimizer, replay=replay)
    meta = {"config": config.to_json(), "reason": "fork", "fork": parent, "mended": sorted({
        *(file for file, data in mended.items() if untried.is_new(run.directory, file, data)),
        *source.meta.get("mended", ())})}  # the latter: of a fork that has not trained
    if not alike:
        meta["judged"] = {}
    without = [group for group, goes_on in (("optimizer", same_optimizer), ("replay", replay)) if not goes_on]
    record = run.directory.read()
    record = new_record(config, parent=parent, code=code, preset=record.get("preset"), state=state,
                        network=maker is not None or record.get("code", {}).get("network", True))

    def prepare(new: RunDirectory) -> None:
        checkpoints.copy(source, new.checkpoints, without=without, meta=meta)
        if config.imitates:
            demonstration_file.link(run.directory.demonstrations, new.demonstrations)

    return created(name, _stem(run.path.name), record | (_course(run, source) if alike else {}), code, place, prepare)


def _course(run: Run, source: Checkpoint) -> dict[str, Any]:
    """Where the mean of the fork's ancestors began, and the fork's own, which is its best until it has a better one: a
    policy that is soon ruined is so before a hundred episodes have ended."""
    status, judged = stored_status(run.directory), checkpoints.standing(source)
    first = run.directory.read().get("first_mean") if status.first_mean is None else status.first_mean
    if first is None or judged is None or judged.episodes < EPISODES or judged.by != status.judged_by:
        return {"first_mean": first}
    return {"first_mean": first, "best_mean": judged.mean, "best_mean_frames": source.frames}


def _with_own_opponent(config: RunConfig, before: RunConfig, run: RunDirectory) -> RunConfig:
    """The configuration with the run's own copy of an unchanged opponent, which stays when its run is pruned."""
    copy = checkpoints.newest(run.opponent.checkpoints)
    if copy is None or config.opponent is None or config.opponent != before.opponent:
        return config
    return config.replaced(opponent=str(copy.path))


def _stem(name: str) -> str:
    """pong-r2d2-1 and pong-r2d2-1-fork-2 → pong-r2d2-1-fork."""
    return f"{re.sub(r'-fork-[0-9]+$', '', name)[:80]}-fork"


def _source(
    run: Run, checkpoint: Checkpoint | str | Path | None, now: RunConfig, *, replay: bool, changes: dict[str, Any]
) -> Checkpoint:
    """The checkpoint of the fork: the user's, one that a live run writes now, or the newest good one.

    Args:
        now: the run's configuration, for the class that the fork has.
    """
    if checkpoint is not None:
        return _own(run.directory, checkpoint)
    status = run.status
    if status.alive:
        config_of_fork(now, changes, frames=status.frames, replay=replay)  # before anything is written
        with closing(Control(run.directory)) as control:
            try:
                return waiting.written_checkpoint(control, "fork", replay=True if replay else None, timeout_s=REPLAY_S)
            except RunNotAlive:  # it is ending, with a last checkpoint
                waiting.until_ended(control, REPLAY_S)
    return newest_checkpoint(run.directory)


def _own(directory: RunDirectory, source: Checkpoint | str | Path) -> Checkpoint:
    """The checkpoint of that run: itself, by its folder, by that folder's name, or as "RUN@NAME". Raises InvalidInput,
    UnknownName."""
    if not isinstance(source, Checkpoint | str | Path):
        raise InvalidInput(f"checkpoint={source!r} is none. Give one of run.checkpoints, its folder, or that folder's "
                           "name.")
    of_run = isinstance(source, str) and run_and_checkpoint(source)[1]
    checkpoint = chosen_checkpoint(source) if of_run else checkpoints.at(_folder_of(directory, source))
    if checkpoint.path.parent.resolve() != directory.checkpoints.resolve():
        raise InvalidInput(f"{checkpoint.path} is not a checkpoint of {directory.name}. Fork the run that wrote it, or "
                           "start from its weights: wb.launch(..., checkpoint=...).")
    return checkpoint


def _folder_of(directory: RunDirectory, source: Checkpoint | str | Path) -> Path:
    """The folder of a checkpoint, which may be gone. Raises UnknownName for a name that is none of the run's."""
    if isinstance(source, Checkpoint):
        return source.path
    for folder in (directory.checkpoints / source, Path(source)):
        if os.path.exists(folder):  # False also for a name that is too long
            return folder
    if Path(source).name != str(source):
        return Path(source)
    names = [checkpoint.path.name for checkpoint in checkpoints.every(directory.checkpoints)]
    newest = f"Its newest: {', '.join(names[-_LISTED:])}." if names else "It has none yet."
    raise UnknownName(f"{directory.name} has no checkpoint {str(source)!r}.{nearest(source, names)} {newest}")


def config_of_fork(before: RunConfig, changes: dict[str, Any], *, frames: int, replay: bool) -> RunConfig:
    """The fork's configuration. Raises InvalidInput for changes that a fork at `frames` frames cannot make."""
    settings = before.all_settings()
    for name in changes:
        if name not in settings:
            raise unknown_field(name, settings, algorithm=before.algorithm)
    if replay and not before.replays:
        raise InvalidInput(f"the algorithm {before.algorithm!r} has no replay to take along. Leave replay=True out.")
    for name in changes:
        if changes[name] == before.value(name):
            continue
        former = "" if before.value(name) is None else f" from {before.value(name)!r}"
        what = f"{name} cannot change{former} to {changes[name]!r} in a fork"
        if name in WEIGHT_FIELDS:
            raise InvalidInput(f"{what}: the weights would not fit, or mean something else. Start a new run; "
                               "wb.launch(..., checkpoint=...) takes the weights alone, if all of them fit.")
        if settings[name].initial:
            raise InvalidInput(f"{what}: its checkpoint holds what has become of it. Start a new run; "
                               "wb.launch(..., checkpoint=...) takes the weights alone.")
        if replay and name in _UNROLLS:
            raise InvalidInput(f"{what} with its replay: the unrolls in it would not fit. Fork without replay=True.")
    config = before.replaced(**changes)
    if config.total_frames <= frames:
        raise InvalidInput(f"total_frames={config.total_frames} is reached already: the fork would begin at {frames} "
                           f"frames. Give more: total_frames={2 * frames}.")
    return config


def _check_target(config: RunConfig, source: Checkpoint) -> None:
    """Raises InvalidInput where the means of the checkpoint would finish the fork at once."""
    if (judged := checkpoints.standing(source)) is None:
        return
    means = {"episode_return": source.episode_return, judged.by: judged.mean}
    field, what, mean = stopping_rules.target_reached(
        config, lambda what: means.get(stopping_rules.mean_name(what, config)))
    if field:
        raise InvalidInput(f"{field}={config.value(field):g} is reached already: the fork would begin with a mean "
                           f"{what} of {exact(mean)}. Give another one, or {field}=None.")
