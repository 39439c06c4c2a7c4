"""Plays a branch of a recorded episode in a separate process: see `Rollout.branch`.

Here the arguments are checked and named; `playing.worker.branch` plays. A branch lies beside its episode, in
`<episode>.branches/<frame>-<digest>/`, with the branches of branches; asked for again, it takes its own place.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.checkpoints.checkpoint import META, digest
from workbench.config import Setting
from workbench.environment_spec import EnvironmentSpec
from workbench.environments import observations
from workbench.environments.contract import checked_actions
from workbench.environments.sketches import entry_names
from workbench.errors import InvalidInput, ShapeMismatch, StorageFailed, UnknownName
from workbench.metrics.status import LONGEST_GAME
from workbench.playing import action_words, store, worker_process
from workbench.playing.given_classes import with_classes
from workbench.playing.observation_edit import change_of, in_words
from workbench.rundir import RunDirectory
from workbench.rundir.files import check_unlinked
from workbench.running.choosing import to_play
from workbench.trajectory import Array

if TYPE_CHECKING:
    from workbench.playing.rollout import Rollout

MOST_BRANCHES = 24  # kept with an episode
MAX_STEPS = LONGEST_GAME
_MOST_FORCED = 1000  # actions
_MOST_NAMED = 3


def play_branch(
    rollout: Rollout, frame: int, *, action: Any, observation: Any, hold: int, max_steps: int | None,
    timeout_s: float | None, trust_code: bool, **classes: Any,
) -> Path:
    """The folder of the branch. Arguments and errors: see `Rollout.branch`."""
    path = _folder_of(rollout)
    frame = Setting("frame", int, 0, "", unit="steps", low=0, high=rollout.steps - 1).check(frame)
    hold = Setting("hold", int, 1, "", unit="steps", low=1, high=MAX_STEPS).check(hold)
    ended = rollout.terminated or rollout.truncated
    longest = Setting("max_steps", int, MAX_STEPS, "", unit="steps", low=frame + 1, high=10_000_000).check(
        max_steps if max_steps is not None else max(MAX_STEPS, frame + 1) if ended else rollout.steps)
    forced = [] if action is None else _forced_actions(action, rollout)
    change = None if observation is None else change_of(
        observation, rollout.observation_rows[frame], parts=rollout.parts, environment=rollout.environment)
    source = to_play(checkpoint_of(rollout), trust_code=trust_code)
    spec = source.spec
    if (spec.actions, spec.observation_shape) != (rollout.action_spec, rollout.observation_rows.shape[1:]):
        raise InvalidInput(f"{source.path} plays another environment than {rollout!r}: it cannot go on from there.")
    asked = {"frame": frame, "actions": np.asarray(forced).tolist(), "change": change, "hold": hold,
             "max_steps": longest}
    home = _home(path)
    target = home / f"{frame}-{digest({**asked, 'parent': path.name})[:8]}"
    words = _in_words(rollout, forced, change, hold)
    with (with_classes(source, **classes) as complete,
          store.replacing(target) as folder):
        request = {**worker_process.of(complete), **asked, "episode": str(path), "folder": str(folder), "words": words}
        worker_process.answer_of("_branch", request, timeout_s=timeout_s, what="branch",
                                 remedy="Branch at an earlier step, or play fewer: max_steps=1000.")
    _remove_oldest(home, but=target)
    return target


def _folder_of(rollout: Rollout) -> Path:
    if rollout.path is None or not store.is_rollout(rollout.path):
        raise InvalidInput("this rollout is not on disk (any more), and a branch begins in its record. Play it again: "
                           "wb.rollout(...)")
    if not rollout.algorithm:
        raise InvalidInput("there was no agent in this episode, so nobody would play on from there. Branch an episode "
                           "that a run or a checkpoint has a part in.")
    return rollout.path


def checkpoint_of(rollout: Rollout) -> Path:
    """The folder of the checkpoint that played: in the run in which the rollout lies now, or as it was recorded."""
    for folder in () if rollout.path is None else (rollout.path.parents[0], rollout.path.parents[1]):
        run = RunDirectory(folder.parent)
        if folder == run.rollouts and run.record.exists():
            here = run.checkpoints / rollout.checkpoint.name
            return here if (here / META).exists() else rollout.checkpoint
    return rollout.checkpoint


def _forced_actions(action: Any, rollout: Rollout) -> list[Array]:
    """One action or several, as the environment takes each. Raises InvalidInput, UnknownName, ShapeMismatch."""
    actions, seen = rollout.action_spec, rollout.observation_rows
    if actions.kind == "categorical":
        action = _numbered(action, rollout.action_names)
    action = action_words.columns_of(actions, rollout.action_names, action)
    try:
        rows = np.asarray(action)
    except ValueError as error:
        raise ShapeMismatch(f"action={action!r:.100} is no action: {error}.") from None
    if rows.ndim <= len(actions.shape):  # a number alone is refused below, where it should be several
        rows = rows[None]
    if actions.dtype == "float32" and rows.dtype.kind in "iu":
        rows = rows.astype(np.float32)
    if not 1 <= len(rows) <= _MOST_FORCED:
        raise InvalidInput(f"{len(rows):,} actions are forced; it can be 1 to {_MOST_FORCED:,}.")
    spec = EnvironmentSpec(rollout.environment, seen.shape[1:], seen.dtype.name, actions.encoded_size, actions=actions)
    return list(checked_actions(rows, spec, len(rows)))


def _numbered(action: Any, names: Sequence[str]) -> Any:
    """Names of actions as their numbers."""
    if isinstance(action, str):
        if action not in names:
            raise UnknownName.among("action", action, names)
        return list(names).index(action)
    return [_numbered(each, names) for each in action] if isinstance(action, list | tuple) else action


def _home(path: Path) -> Path:
    """The folder of the branches of the episode in `path`. Raises StorageFailed if a write there would go elsewhere."""
    home = store.folder_of_branches(path)
    if home.is_symlink():
        raise StorageFailed(f"{home} is a link to {os.readlink(home)}. Nothing is written through it: delete it.")
    check_unlinked(home)
    return home


def _in_words(rollout: Rollout, forced: Sequence[Array], change: dict[str, Any] | None, hold: int) -> str:
    words = []
    if forced:
        named = [action_words.in_words(rollout.action_spec, rollout.action_names, each) for each in forced]
        same = len(set(named)) == 1 and len(named) > 1
        shown = f"{named[0]} for {len(named)} steps" if same else ", ".join(named[:_MOST_NAMED])
        words.append(f"action {shown}{'' if same or len(named) <= _MOST_NAMED else ', …'}")
    if change is not None:
        names = observations.drawable(rollout.observation_rows[:1], parts=rollout.parts).names
        seen = in_words(change, entry_names(rollout.environment, names))
        words.append(f"the policy sees {seen}{f' for {hold} steps' if hold > 1 else ''}")
    return "; ".join(words) or "nothing changed"


def _remove_oldest(home: Path, *, but: Path) -> None:
    """Keep the newest MOST_BRANCHES in a folder of branches."""
    aged = []
    for record in home.glob(f"[0-9]*/{store.RECORD}"):
        with suppress(OSError):
            aged.append((record.lstat().st_mtime, record.parent))
    for _, folder in sorted(aged)[:-MOST_BRANCHES]:
        if folder != but and not folder.is_symlink():
            shutil.rmtree(folder, ignore_errors=True)
