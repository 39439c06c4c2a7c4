"""Which checkpoint is meant by a run, by a name, or by a folder."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from workbench import checkpoints, rundir
from workbench.checkpoints import Checkpoint
from workbench.checkpoints.checkpoint import META, gone, is_gone
from workbench.config import REPLAY_S
from workbench.copies import of_its_copy
from workbench.errors import InvalidInput
from workbench.rundir import OfRun, RunDirectory, around, lock, sealed, untried
from workbench.rundir.files import check_unlinked
from workbench.running import waiting
from workbench.running.connection import Control, lost_checkpoints, still_there, stored_status
from workbench.running.progress import notify
from workbench.tables import named

GIVE_CHECKPOINT = "Give a run, its name, or one of its checkpoints."
GIVE_GREEDY = "greedy=True takes the likeliest action; greedy=False samples from the policy."
_ONE = re.compile(r"(?P<run>.+)@(?P<name>[^/@]+)")  # a checkpoint by its run and its folder's name


def chosen_checkpoint(source: Checkpoint | OfRun | str | Path, *, trust_code: bool = False) -> Checkpoint:
    """The checkpoint itself, one by its folder or as "RUN@NAME", or the one that a run stands for; verified.

    A run stands for its last good checkpoint; once its return has collapsed, for its best (`Run.best`). It is said
    which. A live run without a checkpoint writes one now. `trust_code`: see `rundir.sealed`. Raises InvalidInput.
    """
    trust_code = sealed.TRUST.check(trust_code)
    if not isinstance(source, Checkpoint | OfRun | str | Path):
        raise InvalidInput(f"{source!r:.100} is no checkpoint and no run: give one, its name, or its folder.")
    if isinstance(source, OfRun):
        checkpoint = _stands_for(source.directory)
    elif isinstance(source, str) and (one := run_and_checkpoint(source))[1]:
        listed = {known.path.name: known for known in checkpoints.every(_run_of(one[0]).checkpoints)}
        checkpoint = named(one[1], "checkpoint", listed)
        checkpoint.verify(replay=False)
    elif not isinstance(source, Checkpoint) and not os.path.exists(f"{os.path.expanduser(source)}/{META}"):
        checkpoint = _stands_for(_run_of(source))
    else:
        checkpoint = source if isinstance(source, Checkpoint) else checkpoints.at(Path(source))
        checkpoint.verify(replay=False)
    return replace(checkpoint, trust_code=trust_code)


def run_and_checkpoint(source: str) -> tuple[str, str]:
    """The two halves of "RUN@NAME"; (source, "") for anything else, such as a folder that is there."""
    one = _ONE.fullmatch(source)
    return (one["run"], one["name"]) if one and not Path(source).expanduser().exists() else (source, "")


def to_play(source: Checkpoint | OfRun | str | Path, *, trust_code: bool) -> Checkpoint:
    """The `chosen_checkpoint`, to be played in its environment.

    Raises AccessDenied, before a process is started, for code that this process would refuse (`rundir.sealed`), and
    StorageFailed.
    """
    checkpoint = chosen_checkpoint(source, trust_code=trust_code)
    run = around(checkpoint.path)
    if run.record.exists():
        check_unlinked(run.path)  # rollouts are written there
        untried.settle(run)
        torn = [path.name for path in run.code.glob("*.pkl") if not sealed.is_whole(path)]  # the call may give it
        sealed.all_code(run.code, trust_code=trust_code, but=torn)
    sealed.check_module(run.code, checkpoint.config.environment, trust_code=trust_code)
    return checkpoint


def _stands_for(run: RunDirectory) -> Checkpoint:
    """The checkpoint that a run stands for, which is said to the caller."""
    if stored_status(still_there(run)).collapsed and (best := best_checkpoint(run)) is not None:
        notify(f"Taking the best checkpoint of {run.name}, at {best.frames:,} frames ({checkpoints.standing(best)}): "
               f"its return has collapsed since. wb.attach({run.name!r}).checkpoints lists the others.")
        return best
    last = _newest_or_first(run)
    later, status = "", stored_status(run)
    if status.alive and lock.is_alive(run) and status.frames > last.frames:
        later = f" The run is at {status.frames:,} now; wb.attach({run.name!r}).checkpoint() makes a newer one."
    notify(f"Taking the last checkpoint of {run.name}, at {last.frames:,} frames.{later}")
    return last


def _newest_or_first(run: RunDirectory) -> Checkpoint:
    if checkpoints.every(still_there(run).checkpoints) or not lock.is_alive(run):
        return newest_checkpoint(run)
    with closing(Control(run)) as control:
        return waiting.written_checkpoint(control, "requested", replay=None, timeout_s=REPLAY_S)


def best_checkpoint(directory: RunDirectory) -> Checkpoint | None:
    """A run's best good checkpoint; its replay is not checked. Says which better ones are passed over."""
    best, problems = checkpoints.best_good(checkpoints.every(directory.checkpoints))
    say_passed_over(problems)
    return best


def newest_checkpoint(directory: RunDirectory) -> Checkpoint:
    """A run's newest good checkpoint; its replay is not checked. Raises InvalidInput."""
    newest, problems = checkpoints.newest_good(directory.checkpoints, replay=False)
    if newest is None:
        raise none_good(directory, problems, of_its_copy(directory.config()))
    say_passed_over(problems)
    if problems and not lock.is_alive(directory) and (copied := of_its_copy(directory.config())):
        notify(f"wb.resume({directory.name!r}) brings the newest {copied}, if that is newer.")
    return newest


def say_passed_over(problems: Sequence[str]) -> None:
    """Say what is wrong with the checkpoints that were passed over, a line each."""
    for problem in problems:
        notify(f"Passed over: {problem}")


def none_good(directory: RunDirectory, problems: Sequence[str], copied: str = "") -> InvalidInput:
    """The error of a run without a good checkpoint: what is wrong with those that it has, and what to do.

    Args:
        copied: the end of a phrase about what its copies have.
    """
    gone = not problems and lost_checkpoints(directory)
    lacks = ("good checkpoint" if problems else
             f"good checkpoint any more: there is nothing in {directory.checkpoints}" if gone else "checkpoint yet")
    remedy = ""
    if problems or gone:
        remedy = (f"wb.resume({directory.name!r}) brings the one {copied}." if copied
                  else "Put one back, or launch a new run.")
    error = directory.read().get("error")
    first_line = error["message"].strip().partition("\n")[0] if error else ""
    why = f"It failed: {error['type']}{f': {first_line}' * bool(first_line)}" if error else ""
    return InvalidInput(" ".join(filter(None, [
        f"{directory.name} has no {lacks}.", *problems, remedy, why])))


def _run_of(name: str | Path) -> RunDirectory:
    path = Path(os.path.expanduser(name))
    if path.suffix.lower() == ".zip" and path.is_file():
        raise InvalidInput(f"{path} is packed. Unzip it, and give the folder.")
    if path.suffix.lower() == ".onnx" and path.is_file():
        raise InvalidInput(f"{path} is a network for other programs, and its card, {path.with_suffix('.md').name}, has "
                           "code that acts by it. Give the run, or a folder: wb.export_policy(run, target='policy').")
    if path.is_absolute() and not os.path.exists(path / "run.json"):
        if is_gone(path):
            raise InvalidInput(gone(path))
        raise InvalidInput(f"there is no checkpoint in {path}. Give a run, its name, or the folder of one of its "
                           "checkpoints, such as run.checkpoints[-1].path.")
    return rundir.find(name)
