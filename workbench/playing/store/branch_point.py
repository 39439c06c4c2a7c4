"""Where an episode parted from the one that it is a branch of, as its record says it, and the folders of branches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from workbench.rundir.files import check_fields

BRANCHES = ".branches"  # after the name of an episode's folder: beside it, the folder of its branches and of theirs
_FIELDS: dict[str, tuple[type, ...]] = {"parent": (str,), "frame": (int,), "forced": (int,), "change": (str,)}
_LONGEST = 1000  # characters of a name or of the change


@dataclass(frozen=True)
class BranchPoint:
    """How a branch differs from its parent.

    Attributes:
        parent: name of the parent's folder.
        frame: the step at which they part: observations up to this one are the same.
        forced: how many actions from `frame` on were forced.
        change: what was changed, in words.
    """

    parent: str
    frame: int
    forced: int
    change: str

    def to_json(self) -> dict[str, Any]:
        """Plain data; `of_record` is its inverse."""
        return asdict(self)


def of_record(record: Mapping[str, Any], steps: int, path: Path) -> BranchPoint | None:
    """The branch point in the record in `path` of an episode of so many steps; None if it is no branch.

    Raises StorageFailed, ValueError or TypeError for impossible contents.
    """
    entry = record.get("branch")
    if entry is None:
        return None
    check_fields(entry, _FIELDS, path, needed=_FIELDS)
    point = BranchPoint(**{name: entry[name] for name in _FIELDS})
    if not (0 <= point.frame < steps and 0 <= point.forced <= steps - point.frame):
        raise ValueError(f"a branch of {steps:,} steps begins at {point.frame} with {point.forced} forced actions")
    if Path(point.parent).name != point.parent or max(len(point.parent), len(point.change)) > _LONGEST:
        raise ValueError(f"a branch has the parent {point.parent!r:.100}")
    return point


def folder_of_branches(episode: Path) -> Path:
    """The folder of the branches of the episode in folder `episode`: one for it, its branches, and theirs."""
    return episode.parent if episode.parent.name.endswith(BRANCHES) else episode.with_name(f"{episode.name}{BRANCHES}")


def folder_of_parent(branch: Path, point: BranchPoint) -> Path:
    """The folder of a branch's parent: another branch, or the episode that the folder of branches is named after."""
    home = branch.parent
    root = home.name.removesuffix(BRANCHES)
    return home.with_name(root) if point.parent == root else home / point.parent
