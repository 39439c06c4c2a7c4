"""What `run.checkpoints` is: a list, which shows itself as a table, and in a notebook's cell as the inspector."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from workbench import imports
from workbench.checkpoints import Checkpoint
from workbench.errors import MissingPackage
from workbench.tables import Columns, Table, duration

if TYPE_CHECKING:
    from workbench.rundir import RunDirectory
    from workbench.running.handle import Run

_COLUMNS: Columns = {
    "checkpoint": lambda checkpoint: checkpoint.path.name,
    "frames": lambda checkpoint: f"{checkpoint.frames:,}",
    "updates": lambda checkpoint: f"{checkpoint.updates:,}",
    "return": lambda checkpoint: "" if checkpoint.episode_return is None else f"{checkpoint.episode_return:.4g}",
    "age": lambda checkpoint: duration(max(0.0, time.time() - checkpoint.created)),
    "why": lambda checkpoint: "asked for" if checkpoint.requested else str(checkpoint.meta.get("reason", "")),
    "replay": lambda checkpoint: "with replay" if checkpoint.has_replay else "",
}


class Owner(Protocol):
    """Whose checkpoints they are: a run, or the package (see `pretrained`). Its directory keeps their evaluations."""

    @property
    def name(self) -> str: ...
    @property
    def directory(self) -> RunDirectory: ...
    @property
    def checkpoints(self) -> Checkpoints: ...
    def fork(self, checkpoint: Checkpoint, *, name: str | None, replay: bool, progress: bool | None,
             **changes: Any) -> Run: ...


class Checkpoints(list[Checkpoint]):
    """The checkpoints of a run as they are on disk now, oldest first."""

    def __init__(self, found: Iterable[Checkpoint], owner: Owner) -> None:
        super().__init__(found)
        self._owner = owner

    @property
    def table(self) -> Table[Checkpoint]:
        """The same as a table of text."""
        return Table(self, _COLUMNS, empty=f"{self._owner.name} has no checkpoint yet")

    def inspect(self) -> Any:
        """The inspector, also what a cell shows: layers, differences, evaluation, play, fork and export."""
        return imports.widget("inspector.inspector").CheckpointInspector(self._owner)

    def _ipython_display_(self) -> None:
        from IPython.display import display

        try:
            shown: Any = self.inspect()
        except MissingPackage as error:
            print(f"{self!r}\n({error})")
        else:
            display(shown)  # type: ignore[no-untyped-call, unused-ignore]

    def __repr__(self) -> str:
        return repr(self.table)

    def _repr_html_(self) -> str:
        return self.table._repr_html_()
