"""The list `run.checkpoints`. Its repr is a table; in a notebook's cell it shows the inspector."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol, SupportsIndex, Unpack, overload

from workbench import checkpoints, imports
from workbench.checkpoints import Checkpoint
from workbench.copies import of_its_copy
from workbench.metrics.status_facts import FACTS, exact
from workbench.running.choosing import none_good
from workbench.tables import Columns, Table, check_index, duration, named

if TYPE_CHECKING:
    from workbench.config.keywords import RunFields
    from workbench.rundir import RunDirectory
    from workbench.running.handle import Run


def why_written(checkpoint: Checkpoint) -> str:
    """Why a checkpoint was written, in words; "" where it does not tell."""
    return "asked for" if checkpoint.requested else str(checkpoint.meta.get("reason", ""))


def _mean(checkpoint: Checkpoint, by: str) -> str:
    judged = checkpoints.standing(checkpoint)
    return exact(judged.mean) if judged is not None and judged.by == by else ""


_COLUMNS: Columns = {
    "checkpoint": lambda checkpoint: checkpoint.path.name,
    "frames": lambda checkpoint: f"{checkpoint.frames:,}",
    "updates": lambda checkpoint: f"{checkpoint.updates:,}",
    "return": lambda checkpoint: "" if checkpoint.episode_return is None else f"{checkpoint.episode_return:.4g}",
    "age": lambda checkpoint: duration(max(0.0, time.time() - checkpoint.created)),
    "why": why_written,
    "replay": lambda checkpoint: "with replay" if checkpoint.has_replay else "",
}
_BEST = "the best"


class Owner(Protocol):
    """A run, or the package (see `pretrained`), whose checkpoints they are. Its directory keeps their evaluations."""

    @property
    def name(self) -> str: ...
    @property
    def directory(self) -> RunDirectory: ...
    @property
    def checkpoints(self) -> Checkpoints: ...
    def fork(self, checkpoint: Checkpoint, *, name: str | None, replay: bool, progress: bool | None,
             **changes: Unpack[RunFields]) -> Run: ...


class Checkpoints(list[Checkpoint]):
    """The checkpoints of a run that are on disk now, oldest first."""

    def __init__(self, every: Iterable[Checkpoint], owner: Owner) -> None:
        super().__init__(every)
        self._owner = owner

    @overload
    def __getitem__(self, at: SupportsIndex | str) -> Checkpoint: ...
    @overload
    def __getitem__(self, at: slice) -> list[Checkpoint]: ...
    def __getitem__(self, at: SupportsIndex | str | slice) -> Checkpoint | list[Checkpoint]:
        """By position, or by the name of its folder. Raises NoSuchIndex, UnknownName, WrongType."""
        if isinstance(at, str):
            return named(at, "checkpoint", {checkpoint.path.name: checkpoint for checkpoint in self})
        check_index(at, len(self), "checkpoint")
        return super().__getitem__(at)

    @property
    def best(self) -> Checkpoint | None:
        """The best of the run (see `Run.best`) with all its files, which are not read here; None where they are of no
        run."""
        own = self._owner.directory.checkpoints
        return checkpoints.best_whole([each for each in self if each.path.parent == own])

    @property
    def table(self) -> Table[Checkpoint]:
        """The checkpoints as a table of text, which marks damaged ones, and the best with what it is the best by."""
        best = self.best
        by = None if best is None else checkpoints.standing(best)
        mean: Columns = {FACTS[by.by].title: lambda one: _mean(one, by.by)} if by and by.by != "episode_return" else {}
        columns: Columns = {**_COLUMNS, **mean, "": lambda one: ", ".join(
            mark for mark, holds in ((_BEST, one == best), ("damaged", one.path.exists() and one.is_torn)) if holds)}
        return Table(self, columns, empty="" if self else self._why_empty())

    def _why_empty(self) -> str:
        directory = self._owner.directory
        _, problems = checkpoints.newest_good(directory.checkpoints, replay=False)
        return str(none_good(directory, problems, of_its_copy(directory.config())))

    def inspect(self) -> Any:
        """The inspector, as a cell shows it: layers, differences, evaluation, play, fork and export."""
        return imports.widget("inspector.inspector").CheckpointInspector(self._owner)

    def _ipython_display_(self) -> None:
        imports.show(self, self.inspect)

    def __repr__(self) -> str:
        return repr(self.table)

    def _repr_html_(self) -> str:
        return self.table._repr_html_()
