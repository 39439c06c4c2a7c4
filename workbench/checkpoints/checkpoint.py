"""One checkpoint on disk: the content of its `meta.json`, and its tensors, which are verified before they are used."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from workbench.checkpoints import layer_statistics, tensorfile
from workbench.checkpoints.tensorfile import Tensors
from workbench.config import RunConfig
from workbench.environment_spec import EnvironmentSpec
from workbench.errors import CheckpointCorrupt, InvalidInput, UnknownName, printable
from workbench.rundir import files

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 1
META = "meta.json"
LARGEST_META = 2 * files.LARGEST_RECORD  # bytes: it holds more than the run's configuration
NAME = re.compile(r"\d{12,}(-\d+)?", re.ASCII)  # of the folder of one
OWN_NETWORK = "typed in a cell"  # `network` in the meta of one whose network a user wrote
EXACT = "exact"  # reason of one from which an exact run goes on
REPLAY = "replay"  # the one group that may be missing: pruning removes its file, and no other
SUFFIX = ".safetensors"

_END_OF_TIME = 2**33  # unix s
_Decoded = TypeVar("_Decoded")
_GROUP = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
REMEDY = "Use an older checkpoint (wb.resume does so by itself), and delete this folder."


@dataclass(frozen=True)
class Checkpoint:
    """One finished checkpoint.

    Attributes:
        frames, steps, updates, time_s: progress of the run when it was written.
        episode_return: mean of the last training episodes then, or None.
        requested: whether a person asked for it; it is then never pruned.
        created: unix time in s; grows from each checkpoint of a run to the next.
        meta: environment, config, network, parameters, as given to `write`.
        trust_code: whether code in its run may be executed although its author is unknown; see `rundir.sealed`.
        code: folder of the classes that a call was given for it, while that call plays; None: it was given none.
    """

    path: Path
    frames: int
    steps: int
    updates: int
    time_s: float
    episode_return: float | None
    requested: bool
    created: float
    meta: dict[str, Any] = field(repr=False, hash=False)
    files: dict[str, dict[str, Any]] = field(repr=False, hash=False)
    trust_code: bool = field(default=False, repr=False, compare=False)
    code: Path | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        score = "" if self.episode_return is None else f", episode_return={self.episode_return:.4g}"
        return f"Checkpoint({self.path.name}: frames={self.frames:,}{score})"

    @property
    def config(self) -> RunConfig:
        """The run's configuration when it was written. Raises CheckpointCorrupt where it has none."""
        return self._from_meta("config", RunConfig.from_json)

    @property
    def spec(self) -> EnvironmentSpec:
        """The network's environment. Raises CheckpointCorrupt where it has none."""
        return self._from_meta("environment", EnvironmentSpec.from_json)

    def _from_meta(self, name: str, decode: Callable[[Any], _Decoded]) -> _Decoded:
        try:
            return decode(self.meta[name])
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise CheckpointCorrupt(f"{self.path / META} has no such {name}: {error!r:.200}. {REMEDY}") from error

    @property
    def groups(self) -> list[str]:
        """Names of the groups of tensors that it has now, such as model and optimizer."""
        groups = sorted(name.removesuffix(SUFFIX) for name in self.files)
        return [group for group in groups if group != REPLAY or (self.path / file_of(REPLAY)).exists()]

    @property
    def size_bytes(self) -> int:
        """The size of its groups on the disk."""
        return sum(int(self.files[file_of(group)]["size_bytes"]) for group in self.groups)

    @property
    def is_torn(self) -> bool:
        """Whether a file of it is gone, or of another size than it must have; contents are not read."""
        try:
            for group in self.groups:
                with opened(self, file_of(group)):
                    pass
        except (OSError, CheckpointCorrupt):
            return True
        return False

    @property
    def has_replay(self) -> bool:
        """Whether it holds the replay, which only the newest automatic checkpoint of a run keeps."""
        return REPLAY in self.groups

    def load(self, group: str) -> Tensors:
        """The tensors of a group by name, verified and writable. Raises CheckpointCorrupt, UnknownName."""
        return {name: tensor.copy() for name, tensor in self.open(group).items()}

    def open(self, group: str) -> Tensors:
        """As `load`, but read-only and mapped from the disk, for a group that is larger than memory.

        The arrays stay readable if the checkpoint is removed meanwhile.
        """
        self._require(group)
        name = file_of(group)
        try:
            with self._verified(name) as file:
                return tensorfile.read(file)
        except CheckpointCorrupt:
            self._require(group)  # its replay may have just been pruned
            raise
        except (OSError, ValueError, MemoryError) as error:
            raise self._unreadable(name, error) from error

    def _require(self, group: str) -> None:
        if group not in self.groups:
            raise UnknownName.among("group of tensors", group, self.groups, f"(in {self.path})")

    def verify(self, *, replay: bool = True) -> None:
        """Raises CheckpointCorrupt if a file is missing, was changed, or does not belong to it.

        Args:
            replay: whether to read the replay as well, which may be large.
        """
        for group in self.groups:
            if group == REPLAY and not replay:
                continue
            try:
                with self._verified(file_of(group)):
                    pass
            except CheckpointCorrupt:
                if group in self.groups:  # else it is a replay that has just been pruned
                    raise
        unknown = {path.name for path in self.path.glob(f"*{SUFFIX}")} - set(self.files)
        if unknown:
            raise CheckpointCorrupt(f"{self.path} has a file that is not its own: {', '.join(sorted(unknown))}. "
                                    "Move it away, or use an older checkpoint.")

    def _unreadable(self, name: str, why: object) -> CheckpointCorrupt:
        return CheckpointCorrupt(gone(self.path) if is_gone(self.path) else
                                 f"{self.path / name} cannot be read: {why}. {REMEDY}")

    @contextmanager
    def _verified(self, name: str) -> Iterator[BufferedReader]:
        """The open file, after it was read through."""
        path = self.path / name
        with ExitStack() as stack:
            try:
                file = stack.enter_context(opened(self, name))
                checksum = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as error:
                raise self._unreadable(name, error.strerror) from error
            if checksum != self.files[name]["sha256"]:
                raise CheckpointCorrupt(f"{path} was changed after it was written: wrong checksum. {REMEDY}")
            yield file

    def layers(self) -> pd.DataFrame:
        """A table by tensor: shape, norm, rms, low, high, zeros, gradient_norm …: `layer_statistics.Layer`.

        Raises CheckpointCorrupt.
        """
        return _table(layer_statistics.layers(self), layer_statistics.Layer)

    def diff(self, other: Checkpoint, *, group: str = "model") -> pd.DataFrame:
        """A table by tensor: shape, norm, other_norm, difference ‖b - a‖, relative_difference ‖b - a‖ / ‖a‖, cosine,
        only_in (self, other or "").

        The difference is NaN where a tensor is in one of them alone, or the shapes differ. Raises CheckpointCorrupt,
        UnknownName, InvalidInput.
        """
        if not isinstance(other, Checkpoint):
            raise InvalidInput(f"{other!r:.100} is no checkpoint. Give another of run.checkpoints.")
        return _table(layer_statistics.differences(self, other, group=group), layer_statistics.Difference)


def _table(rows: Iterator[Any], kind: type) -> pd.DataFrame:
    import pandas as pd

    columns = [column.name for column in fields(kind)]
    table = pd.DataFrame([[getattr(row, name) for name in columns] for row in rows], columns=columns)
    return table.set_index(table.pop("name").map(printable))


# --- meta.json --------------------------------------------------------------------------------------------------------


def file_of(group: str) -> str:
    """The file of a group. Raises InvalidInput."""
    if not _GROUP.fullmatch(group):
        raise InvalidInput(f"group {group!r} is not a simple name: use lower-case letters, digits and underscores.")
    return f"{group}{SUFFIX}"


@contextmanager
def opened(checkpoint: Checkpoint, name: str) -> Iterator[BufferedReader]:
    """A file of a checkpoint: plain, and of the size that it must have; its content is not verified.

    Raises OSError, or CheckpointCorrupt where it is of another size, or hollow.
    """
    path, expected = checkpoint.path / name, checkpoint.files[name]["size_bytes"]
    with files.opened(path) as file:
        status = os.fstat(file.fileno())
        if files.is_hollow(status):
            raise CheckpointCorrupt(f"{path} is hollow: of {status.st_size:,} bytes it has next to none. {REMEDY}")
        if status.st_size != expected:
            raise CheckpointCorrupt(f"{path} is torn: it has {status.st_size} bytes and must have {expected}. "
                                    f"{REMEDY}")
        yield file


def plain_meta(meta: dict[str, Any]) -> dict[str, Any]:
    """`meta` as JSON data. Raises InvalidInput if it cannot be, or is incomplete."""
    missing = [name for name in ("steps", "updates", "time_s") if name not in meta]
    if missing:
        raise InvalidInput(f"meta of a checkpoint lacks {', '.join(missing)}.")
    try:
        plain: dict[str, Any] = json.loads(json.dumps(meta, default=lambda value: value.item()))
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(f"meta of a checkpoint must be JSON data: {error}.") from error
    return plain


def encoded_meta(meta: dict[str, Any], *, files: dict[str, Any], requested: bool, created: float) -> bytes:
    """The content of meta.json."""
    content = {"format": FORMAT, "created": created, "requested": requested, "files": files, "meta": meta}
    return json.dumps({**content, "sha256": digest(content)}, indent=1).encode()


def is_gone(path: Path) -> bool:
    """Whether a checkpoint's folder is not there any more; False where that cannot be told."""
    try:
        path.lstat()
    except FileNotFoundError:
        return bool(NAME.fullmatch(path.name)) and path.parent.is_dir()
    except OSError:
        pass
    return False


def gone(path: Path) -> str:
    """What to say of a checkpoint that is not in its folder any more."""
    return (f"checkpoint {path.name} is gone: there is nothing in {path}. A run keeps its newest keep_checkpoints and "
            "its best. run.checkpoints lists those that are there, and run.checkpoint() writes one that stays.")


def digest(content: dict[str, Any]) -> str:
    """The checksum of meta.json, of all its other fields."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def at(path: Path, *, trust_code: bool = False, code: str | Path | None = None) -> Checkpoint:
    """The checkpoint in that folder; its files are verified when they are loaded.

    Raises InvalidInput if there is none, CheckpointCorrupt if its meta.json is damaged.
    """
    path = Path(path).expanduser().absolute()
    if not os.path.isdir(path):  # False also where it cannot be looked at
        raise InvalidInput(gone(path) if is_gone(path) else f"there is no checkpoint in {path}.")
    meta = path / META
    try:
        content = files.decoded(files.content(meta, largest=LARGEST_META))
        return replace(_decoded(path, content), trust_code=trust_code, code=None if code is None else Path(code))
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not NAME.fullmatch(path.name):  # a folder that `write` did not make
            raise InvalidInput(f"there is no checkpoint in {path}: it has no {META}.") from None
        raise CheckpointCorrupt(f"{meta} cannot be read: {error.strerror}. {REMEDY}") from error
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise CheckpointCorrupt(f"{meta} is damaged: {error!r:.200}. {REMEDY}") from error


def _decoded(path: Path, content: dict[str, Any]) -> Checkpoint:
    if content["format"] != FORMAT:
        raise CheckpointCorrupt(f"{path / META} has format {content['format']!r:.20}, and this version of rl-workbench "
                                f"knows {FORMAT}. Read it with the version that wrote it, or with a newer one.")
    checksum = content.pop("sha256")
    if digest(content) != checksum:
        raise CheckpointCorrupt(f"{path / META} was changed after it was written: wrong checksum. {REMEDY}")
    files, meta = content["files"], content["meta"]
    for name in files:
        if not (name.endswith(SUFFIX) and _GROUP.fullmatch(name.removesuffix(SUFFIX))):
            raise CheckpointCorrupt(f"{path / META} names a file outside the checkpoint: {name!r}. {REMEDY}")
    _check(content)
    return Checkpoint(
        path, int(meta["frames"]), int(meta["steps"]), int(meta["updates"]), float(meta["time_s"]),
        meta.get("episode_return"), content["requested"], content["created"], meta, files,
    )


def _check(content: dict[str, Any]) -> None:
    """Raises ValueError if a field by which checkpoints are sorted, shown or compared is of another type."""
    files, meta = content["files"], content["meta"]
    is_valid = {
        "created": is_number(content["created"]) and 0 <= content["created"] < _END_OF_TIME,
        "requested": type(content["requested"]) is bool,
        "episode_return": meta.get("episode_return") is None or is_number(meta["episode_return"]),
        "parameters": type(meta.get("parameters", 0)) is int,
        "files": all(type(file["size_bytes"]) is int and type(file["sha256"]) is str for file in files.values()),
        "time_s": is_number(meta["time_s"]) and 0 <= meta["time_s"] < _END_OF_TIME,
        "frames": all(0 <= int(meta[name]) < 2**63 for name in ("frames", "steps", "updates")),
    }
    wrong = [name for name, valid in is_valid.items() if not valid]
    if wrong:
        raise ValueError(f"no checkpoint has such {', '.join(wrong)}")


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a number of JSON, and none that is too large for a float."""
    return type(value) is float or (type(value) is int and abs(value) < 10**300)
