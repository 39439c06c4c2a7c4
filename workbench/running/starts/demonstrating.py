"""The demonstrations that a launch is given: found, checked against each other, and kept in the run as one file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench import rundir
from workbench.config import ALGORITHMS, DemonstrationsConfig, RunConfig
from workbench.environment_spec import NEARLY_1, EnvironmentSpec
from workbench.errors import InvalidInput, UnknownName
from workbench.replay import demonstration_file
from workbench.replay.demonstration_file import Demonstration
from workbench.trajectory import Array, Flags

if TYPE_CHECKING:
    from workbench.playing.rollout import Rollout

_RECORDERS = "wb.rollout(run) and wb.play(run) record them."
_SHOWN = 5  # folders that an error lists


def checked(demonstrations: Any, config: RunConfig) -> Callable[[Path], None]:
    """A function that writes the demonstrations to a file, or does nothing where the algorithm needs none.

    Args:
        demonstrations: a rollout, its folder or that folder's name, or several of them; None: none.

    Raises:
        InvalidInput: the algorithm needs some and there are none, or the other way round; or one of them is no
            rollout, has numbers that are not finite, or other spaces than the first.
        StorageFailed: one of them is damaged.
    """
    given = [] if demonstrations is None else _listed(demonstrations)
    if not config.imitates:
        if given:
            raise InvalidInput(f"algorithm={config.algorithm!r} learns from its own steps, not from demonstrations. "
                               f"Leave them out, or choose algorithm={' or '.join(map(repr, _imitators()))}.")
        return lambda path: None
    if not given:
        raise InvalidInput(f"algorithm={config.algorithm!r} learns from demonstrations: give rollouts, "
                           f"demonstrations=[rollout, ...]. {_RECORDERS}")
    rollouts = [_rollout(each) for each in given]
    specs = [_spec(rollout) for rollout in rollouts]
    for number, (rollout, spec) in enumerate(zip(rollouts, specs, strict=True)):
        if different := demonstration_file.difference(spec, specs[0]):
            raise InvalidInput(f"demonstration {number} ({_named(rollout)}) has {different} as the first one "
                               f"({_named(rollouts[0])}). Give rollouts of one environment with the same options.")
    episodes = [_episode(rollout, number) for number, rollout in enumerate(rollouts)]
    return partial(demonstration_file.write, spec=specs[0], episodes=episodes)


def _listed(demonstrations: Any) -> list[Any]:
    if isinstance(demonstrations, Sequence) and not isinstance(demonstrations, str | bytes):
        return list(demonstrations)
    return [demonstrations]


def _imitators() -> list[str]:
    return [name for name, config in ALGORITHMS.items() if issubclass(config, DemonstrationsConfig)]


# --- finding ----------------------------------------------------------------------------------------------------------


def _rollout(source: Any) -> Rollout:
    """The rollout itself, or the one in a folder. Raises InvalidInput, StorageFailed."""
    from workbench.playing import store  # not with the module, which every launch imports
    from workbench.playing.rollout import Rollout, load

    if isinstance(source, Rollout):
        return source
    if not isinstance(source, str | Path) or not str(source):
        if isinstance(source, rundir.OfRun):
            raise InvalidInput(f"demonstrations are rollouts, and this is the run {source.directory.name!r}: give "
                               "its rollouts.")
        raise InvalidInput(f"demonstrations={source!r:.100}: give rollouts, their folders, or the names of these. "
                           f"{_RECORDERS}")
    folder = Path(os.path.expanduser(source))
    if store.is_rollout(folder):
        return load(folder)
    if folder.name != str(source):
        raise InvalidInput(f"there is no rollout in {folder}. {_RECORDERS}")
    return load(_kept(folder.name))


def _kept(name: str) -> Path:
    """The folder of that name among those that were kept. Raises UnknownName, and InvalidInput if there are several."""
    from workbench.playing import store

    home = rundir.home()
    folders = [record.parent for pattern in ("rollouts/*", "runs/*/rollouts/*")
               for record in sorted(home.glob(f"{pattern}/{store.RECORD}"))]
    same = [folder for folder in folders if folder.name == name]
    if not same:
        raise UnknownName.among("rollout", name, sorted({folder.name for folder in folders}), _RECORDERS)
    if len(same) > 1:
        listed = ", ".join(map(str, same[:_SHOWN])) + (" …" if len(same) > _SHOWN else "")
        raise InvalidInput(f"{len(same)} rollouts are called {name!r}: {listed}. Give the folder.")
    return same[0]


# --- converting -------------------------------------------------------------------------------------------------------


def _named(rollout: Rollout) -> str:
    return str(rollout.path) if rollout.path is not None else repr(rollout)


def _spec(rollout: Rollout) -> EnvironmentSpec:
    rows, actions = rollout.observation_rows, rollout.action_spec
    return EnvironmentSpec(rollout.environment, rows.shape[1:], rows.dtype.name, actions.encoded_size, actions=actions,
                           parts=rollout.parts)


def _episode(rollout: Rollout, number: int) -> Demonstration:
    """The steps of a rollout as a run learns from them. Raises InvalidInput for numbers that are not finite."""
    observation = _seen(rollout)
    for what, values in (("observations", observation), ("actions", rollout.actions), ("rewards", rollout.rewards)):
        finite = values.dtype.kind != "f" or np.isfinite(values).all()
        if not finite:
            step = int(np.argwhere(~np.isfinite(values))[0][0])
            raise InvalidInput(f"demonstration {number} ({_named(rollout)}) has {what} that are not finite, first at "
                               f"step {step:,}. Leave it out.")
    end = Flags.TERMINATED if rollout.terminated else Flags.TRUNCATED
    return Demonstration(observation, _kept_actions(rollout), rollout.rewards, end)


def _seen(rollout: Rollout) -> Array:
    """What the policy saw, [T, ...]: of a branch also what was edited; without the observation after the last step."""
    rows = rollout.observation_rows[: rollout.steps]
    if rollout.edited_at is None or rollout.edited is None or not len(rollout.edited_at):
        return rows
    seen: Array = np.array(rows)
    seen[rollout.edited_at] = rollout.edited
    return seen


def _kept_actions(rollout: Rollout) -> Array:
    """The actions as unrolls keep them (`ActionSpec`): for numbers u, of which the environment got tanh(u)."""
    spec = rollout.action_spec
    actions = rollout.actions.astype(spec.dtype)
    numbers = np.array(spec.sizes) == 0  # columns
    if numbers.any():
        actions[:, numbers] = np.arctanh(actions[:, numbers].astype(np.float64).clip(-NEARLY_1, NEARLY_1))
    return actions
