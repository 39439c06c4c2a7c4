"""`pretrained`: policies that ship with the package, each trained by a recorded run of `benchmarks/pretrained.py`.

`workbench/pretrained/<name>/` has the weights (model.safetensors), what they belong to (meta.json: configuration,
spaces, checksums, how well they play) and the card of the run that trained them (card.md). Nothing is ever
written there: their rollouts are in `$WORKBENCH_HOME/rollouts`, evaluations by the inspector in
`$WORKBENCH_HOME/pretrained`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, overload

from workbench import checkpoints, imports, rundir
from workbench.checkpoints import Checkpoint
from workbench.checkpoints.checkpoint import META
from workbench.environments.presets import NONE
from workbench.errors import InvalidInput, UnknownName
from workbench.rundir import RunDirectory
from workbench.rundir.files import make_private
from workbench.running.handle import Run
from workbench.running.launch import launch
from workbench.running.reading.checkpoint_list import Checkpoints
from workbench.running.starts.fork import config_of_fork
from workbench.tables import Columns, Table

FOLDER = Path(__file__).parents[1] / "pretrained"
CARD = "card.md"
JUDGED = "judged"  # in meta.json: how well the weights play, as `judgement` of benchmarks/pretrained.py wrote it


class Page(str):
    """Markdown text, which a cell renders."""

    def _repr_markdown_(self) -> str:
        return str(self)


@dataclass(frozen=True, repr=False)
class PretrainedPolicy(Checkpoint):
    """A policy that ships with the package: a checkpoint of weights alone, with the card of its run."""

    @property
    def name(self) -> str:
        """Its name for `wb.pretrained`."""
        return self.path.name

    @property
    def card(self) -> Page:
        """The reproduction card of its run, as Markdown: how it was trained, and how to start such a run again."""
        return Page((self.path / CARD).read_text(encoding="utf-8"))

    def fork(self, *, name: str | None = None, progress: bool | None = None, **changes: Any) -> Run:
        """A new run that continues from these weights with their run's configuration and changed fields.

        Only weights ship: the optimizer begins anew, and the counters at 0. Raises as `Run.fork` and `wb.launch` do.
        """
        config = config_of_fork(self.config, changes, frames=0, replay=False)
        return launch(config.environment, algorithm=config.algorithm, name=name, preset=NONE, checkpoint=self,
                      progress=progress, **config.changed)

    def __repr__(self) -> str:
        return f"PretrainedPolicy({self.name}: {self.config.environment}, {_plays(self) or 'not evaluated'})"


def _plays(policy: PretrainedPolicy) -> str:
    judged = policy.meta.get(JUDGED)
    return "" if judged is None else f"mean return {judged['mean']:.4g} over {judged['episodes']} episodes"


def size(checkpoint: Checkpoint) -> str:
    """The size of its files on the disk, in words."""
    total = checkpoint.size_bytes
    return f"{total / 2**20:.1f} MiB" if total >= 2**20 else f"{total / 2**10:.0f} KiB"


_COLUMNS: Columns = {
    "name": lambda policy: policy.name,
    "environment": lambda policy: policy.config.environment,
    "algorithm": lambda policy: policy.config.algorithm,
    "plays": lambda policy: _plays(policy),
    "frames": lambda policy: f"{policy.frames:,}",
    "size": lambda policy: size(policy),
}


class PretrainedPolicies(Table[PretrainedPolicy]):
    """The policies that ship, as a table. The inspector shows the weights, and evaluates, plays and forks them."""

    def inspect(self) -> Any:
        """The inspector of all policies, like that of `run.checkpoints`. Raises MissingPackage."""
        return imports.widget("inspector.inspector").CheckpointInspector(_PretrainedOwner(self))


class _PretrainedOwner:
    """The inspector's view of the policies: in the place of a run."""

    name = "pretrained"

    def __init__(self, policies: PretrainedPolicies) -> None:
        self._policies = policies
        self.directory = RunDirectory(rundir.home() / "pretrained")
        make_private(self.directory.path)

    @property
    def checkpoints(self) -> Checkpoints:
        return Checkpoints(self._policies, self)

    def fork(self, checkpoint: Checkpoint, *, name: str | None, replay: bool, progress: bool | None,
             **changes: Any) -> Run:
        if replay:
            raise InvalidInput(f"{checkpoint.path.name} ships without a replay. Fork without it.")
        return self._policies[checkpoint.path.name].fork(name=name, progress=progress, **changes)


@overload
def pretrained() -> PretrainedPolicies: ...
@overload
def pretrained(name: str) -> PretrainedPolicy: ...
def pretrained(name: str | None = None) -> PretrainedPolicy | PretrainedPolicies:
    """A policy that ships with the package, as a Checkpoint; without a name, the table of all policies.

        wb.rollout(wb.pretrained("cartpole"))                                       also evaluate, play, export_policy
        wb.launch("CartPole-v1", checkpoint=wb.pretrained("cartpole"))              a new run with these weights
        wb.pretrained("cartpole").fork(learning_rate=1e-4)                          … and as that run was configured
        wb.pretrained("cartpole").card                                              how it was trained

    Raises UnknownName with the nearest.
    """
    folders = {path.parent.name: path.parent for path in FOLDER.glob(f"[a-z]*/{META}")}
    if name is None:
        policies = [_at(folders[each]) for each in sorted(folders)]
        return PretrainedPolicies(policies, _COLUMNS, empty="no policy ships with this installation")
    if name not in folders:
        raise UnknownName.among("pretrained policy", str(name), folders, "wb.pretrained() lists what ships.")
    return _at(folders[name])


def _at(folder: Path) -> PretrainedPolicy:
    checkpoint = checkpoints.at(folder)
    return PretrainedPolicy(**{field.name: getattr(checkpoint, field.name) for field in fields(checkpoint)})
