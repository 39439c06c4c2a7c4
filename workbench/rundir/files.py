"""Opens files that another user may have made: only plain ones of bounded size; with a secret or code, only one's own.

No function here waits for a pipe, reads a device to its end, or follows a link to a file with a secret or code.
"""

from __future__ import annotations

import errno
import fcntl
import json
import mmap
import os
import pwd
import re
import secrets
import shlex
import stat
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from io import BufferedReader, BufferedWriter
from pathlib import Path
from typing import Any

import psutil

from workbench.errors import AccessDenied, StorageFailed, WorkbenchError, printable

LARGEST_RECORD = 2**21  # bytes of a file of JSON
LARGEST_LIST = 2**26  # bytes of a file that grows by lines
_MOST_HOLLOW = 1000  # size by bytes on disk: a terabyte of zeros would take minutes to read
_MAY_BE_HOLLOW = 2**20  # bytes; some file systems keep small files elsewhere than in blocks
_BLOCK = 512  # bytes, of st_blocks
_DEEPEST = 100  # level of JSON, so that no later step runs out of its own levels of calls
_FOLDERS = ("beginning", "checkpoints", "code", "demonstrations", "endpoints", "logs", "opponent", "rollouts",
            "tensorboard", "tls", "trackers")
_FILES = re.compile(r"lock|rendezvous|stop|token|.+\.(json|jsonl|lock|log|sock|sqlite)")


def opened(path: Path) -> BufferedReader:
    """The file, for reading. Raises OSError unless it is a plain file: a read from a pipe could wait for ever."""
    return _plain(_descriptor(path), path)


def content(path: Path, *, largest: int) -> bytes:
    """All of a plain file of at most `largest` bytes. Raises OSError."""
    with opened(path) as file:
        return _bounded(file, path, largest)


def last_lines(path: Path, *, size: int, most: int) -> list[bytes]:
    """The newest lines of a plain file, oldest first: at most `most`, within its last `size` bytes. Raises OSError."""
    with opened(path) as file:
        before = max(0, os.fstat(file.fileno()).st_size - size)
        file.seek(before)
        lines = file.read(size).rsplit(b"\n", most)
    return lines[1:] if before or len(lines) > most else lines


def is_hollow(status: os.stat_result) -> bool:
    """Whether next to none of a file's bytes are on disk."""
    return status.st_size > max(_MAY_BE_HOLLOW, status.st_blocks * _BLOCK * _MOST_HOLLOW)


def buffer(file: BufferedReader) -> mmap.mmap | bytes:
    """All of an open file: mapped if this user alone can write it, else read, since a mapped file that another user
    truncates ends the process that reads it (SIGBUS). Raises OSError if the file to read is too large."""
    status = os.fstat(file.fileno())
    if status.st_uid in (os.geteuid(), 0) and not status.st_mode & 0o022:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if status.st_size > (free := psutil.virtual_memory().available // 2):
        raise OSError(errno.EFBIG, f"others can write it, so it is read and not mapped, and it has {status.st_size:,} "
                                   f"bytes, more than half of the free memory, {free:,} bytes. Copy it", str(file.name))
    file.seek(0)
    return file.read(status.st_size)


def to_append(path: Path) -> BufferedWriter:
    """The file, to append lines; a missing one is made, for this user alone.

    Raises OSError unless it is a plain file without another name elsewhere, whose content would change, too.
    """
    descriptor = _descriptor(path, flags=os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no plain file of its own", str(path))
    return os.fdopen(descriptor, "ab")


def is_linked(path: Path) -> StorageFailed:
    """The error for a link in the place of what is written."""
    return StorageFailed(f"{path} is a link to {os.readlink(path)}. Nothing is written through it: move there what it "
                         "leads to, or delete it.")


def check_unlinked(folder: Path) -> None:
    """Called before a program writes there. Raises StorageFailed if an entry of it, or of one of its folders, is a
    link, or a file in it or in its logs has another name elsewhere: a write would change another place. Also if a
    folder or a pipe has the name of a file that a run or a sweep writes, or a file that of a folder."""
    try:
        for path, status in _entries(folder):
            if stat.S_ISLNK(status.st_mode):
                raise is_linked(path)
            own, beside = shlex.quote(str(path)), shlex.quote(f"{path}.own")
            is_plain, is_folder = stat.S_ISREG(status.st_mode), stat.S_ISDIR(status.st_mode)
            if path.parent.name in (folder.name, "logs") and is_plain and status.st_nlink > 1:
                raise StorageFailed(f"{path} has another name elsewhere, and both would change. Copy it: "
                                    f"cp {own} {beside} && mv {beside} {own}")
            is_file = is_plain or stat.S_ISSOCK(status.st_mode)
            if (_FILES.fullmatch(path.name) and not is_file) or (path.name in _FOLDERS and not is_folder):
                raise StorageFailed(f"{path} is no {'folder' if path.name in _FOLDERS else 'plain file'}, and a run or "
                                    "a sweep needs one there. Move it away.")
    except OSError as error:
        if isinstance(error, StorageFailed):
            raise
        raise StorageFailed(f"cannot look at {error.filename}: {error.strerror}. Make it readable.") from None


def _entries(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """The entries of a folder, and of the folders in it, with their status; without those that vanish meanwhile."""
    for parent in (folder, *(path for path, status in _inside(folder) if stat.S_ISDIR(status.st_mode))):
        yield from _inside(parent)


def _inside(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    with suppress(FileNotFoundError):
        for path in folder.iterdir():
            with suppress(FileNotFoundError):
                yield path, path.lstat()


def make_private(folder: Path) -> None:
    """Make a folder and its missing parents, for this user alone, whatever the umask. Raises OSError."""
    for path in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        path.mkdir(mode=0o700, exist_ok=True)


def absolute(entries: Iterable[str]) -> list[str]:
    """These entries of `sys.path` as absolute paths, for processes in other folders; without relative ones if the
    working directory was deleted."""
    paths = []
    for entry in entries:
        with suppress(FileNotFoundError):
            paths.append(str(Path(entry or ".").absolute()))
    return paths


def locked(descriptor: int, path: Path, kind: int) -> bool:
    """Whether an open file is locked so now; without LOCK_NB in `kind`, waits for it.

    Raises StorageFailed where the file system of `path` has no locks.
    """
    try:
        fcntl.flock(descriptor, kind)
        return True
    except BlockingIOError:
        return False
    except OSError as error:
        raise _without_locks(path, error) from None


def _without_locks(path: Path, error: OSError) -> StorageFailed:
    """The error for a file whose file system refused a lock."""
    return StorageFailed(
        f"the file system of {path} has no locks now ({error.strerror}), and without them two processes could write "
        "one run. Set WORKBENCH_HOME to a folder on a disk of this machine, or on NFS with locks. A mount of object "
        "storage has none: keep a copy of the run there by storage=..., its URL or that folder.")


def place_or(folder: Path) -> Path | None:
    """A child's working directory: `folder` if ours was deleted, since MKL fails to load there; else None: ours."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return folder
    return None


def free_path(words: str, suffix: str) -> Path:
    """A path of no file yet in the working directory, named after `words`: "Pong v5", ".mp4" → Pong-v5.mp4."""
    stem = re.sub(r"[^\w.-]+", "-", words, flags=re.ASCII).strip("-.") or "run"
    names = (Path.cwd() / f"{stem}{number}{suffix}" for number in ["", *(f"-{at}" for at in range(2, 10_000))])
    return next(name for name in names if not name.exists())


def tail(path: Path, size: int = 4000, *, since: int = 0) -> str:
    """The end of a log, at most `size` bytes of those from `since` on, without control characters; "" if it cannot be
    read."""
    try:
        with opened(path) as file:
            file.seek(max(since, os.fstat(file.fileno()).st_size - size))
            return printable(file.read(size).decode(errors="replace"))
    except OSError:
        return ""


def own(path: Path, *, largest: int, secret: bool = False) -> bytes:
    """All of a plain file of this user's, in a folder of this user's; no other user can write either of them.

    Args:
        secret: whether the file must also be unreadable for others.

    Raises FileNotFoundError, or AccessDenied for a file that others could have put there.
    """
    with ExitStack() as stack:
        try:
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, folder)
            _check_own(os.fstat(folder), path.parent, 0o022)
            file = stack.enter_context(_plain(_descriptor(Path(path.name), folder), path))
            _check_own(os.fstat(file.fileno()), path, 0o077 if secret else 0o022)
            return _bounded(file, path, largest)
        except (FileNotFoundError, AccessDenied):
            raise
        except OSError as error:
            raise AccessDenied(f"{path} is not read: {error.strerror}.") from None


def check_stays(folder: Path) -> None:
    """Raises AccessDenied if others can replace a folder in this one, or this one, or one above it."""
    place = folder.resolve()
    for path in (place, *place.parents):
        if not path.exists():
            continue
        status = path.stat()
        if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
            own = path.is_dir() and status.st_uid == os.getuid() and (path == place or path.is_relative_to(Path.home()))
            remedy = f"Make it yours (chmod o-w {shlex.quote(str(path))}), or set" if own else "Set"
            raise AccessDenied(f"everybody can write {path}, and so replace a folder in it. Nothing is sent to a run "
                               f"there. {remedy} WORKBENCH_HOME to another folder.")


def owner(path: Path) -> str:
    """The owner of a file or folder, in words: "yours", "alice's", "of user 1234"."""
    return whose(os.lstat(path).st_uid)


def whose(uid: int) -> str:
    """As `owner`, for the id of a user."""
    if uid == os.geteuid():
        return "yours"
    try:
        return f"{pwd.getpwuid(uid).pw_name}'s"
    except KeyError:
        return f"of user {uid}"


def _descriptor(path: Path, folder: int | None = None, *, flags: int = os.O_RDONLY) -> int:
    """The descriptor of an open file. Raises OSError, also for a link, whose target may change."""
    try:
        return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a link", str(path)) from None
        raise


def _plain(descriptor: int, path: Path) -> BufferedReader:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a plain file", str(path))
    return os.fdopen(descriptor, "rb")


def _bounded(file: BufferedReader, path: Path, largest: int) -> bytes:
    size = os.fstat(file.fileno()).st_size
    data = b"" if size > largest else file.read(size + 1)  # it may grow meanwhile, but is allocated at once
    if max(size, len(data)) > largest:
        raise OSError(errno.EFBIG, f"it has more than {largest:,} bytes", str(path))
    return data


def _check_own(status: os.stat_result, path: Path, forbidden: int) -> None:
    if status.st_uid != os.geteuid():
        raise AccessDenied(f"{path} is {whose(status.st_uid)}, not yours. What is in it can be looked at, but neither "
                           "its secrets nor its code are used.")
    if stat.S_IMODE(status.st_mode) & forbidden:
        can = "read or written" if forbidden & 0o044 else "written"
        mode = "go-rwx" if forbidden & 0o044 else "go-w"
        raise AccessDenied(f"{path} can be {can} by others. Make it yours alone: chmod {mode} "
                           f"{shlex.quote(str(path))}")


def write_atomically(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write `data`; a reader, or a crash, finds the whole old file or the whole new one."""
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(beside, mode)
        os.replace(beside, path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise


@contextmanager
def saving(path: Path) -> Iterator[Path]:
    """A hidden path to write, which replaces `path` when the block ends, and is removed if the block raises. Nobody can
    have put a link there. Raises StorageFailed for an OSError of the system in the block."""
    beside = path.with_name(f".{path.stem}.{secrets.token_hex(8)}{path.suffix}")
    try:
        yield beside
        with open(beside, "rb") as file:
            os.fsync(file.fileno())
        os.replace(beside, path)
    except WorkbenchError:  # some are an OSError, too
        raise
    except OSError as error:
        raise StorageFailed(f"cannot write {path}: {error.strerror or error}. Choose another place, or free space "
                            "there.") from None
    finally:
        with suppress(OSError):
            beside.unlink()


def decoded(text: bytes | str) -> Any:
    """The value of JSON text that others may have written. Raises ValueError, RecursionError."""
    value = json.loads(text)
    level = [value]
    for _ in range(_DEEPEST):
        level = [inner for outer in level if isinstance(outer, dict | list)
                 for inner in (outer.values() if isinstance(outer, dict) else outer)]
        if not level:
            return value
    raise ValueError(f"it is nested deeper than {_DEEPEST} levels")


def read_record(path: Path) -> dict[str, Any]:
    """The JSON object in a file. Raises FileNotFoundError, or StorageFailed if it is damaged."""
    try:
        data = decoded(content(path, largest=LARGEST_RECORD))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StorageFailed(f"cannot read {path}: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise StorageFailed(f"cannot read {path}: {error!s:.200}.") from None
    if not isinstance(data, dict):
        raise StorageFailed(f"cannot read {path}: it holds no JSON object.")
    return data


_TEXTS = {"error": ("type", "message"), "parent": ("checkpoint", "take")}  # of records in a record
_LARGEST = 2.0**53  # of counts, process ids and times in a record


def check_fields(
    record: Mapping[str, Any], kinds: Mapping[str, tuple[type, ...]], path: Path, *, needed: Collection[str] = ()
) -> None:
    """Raises StorageFailed if a field of the record in `path` has another type, or a needed one is missing; also if an
    error or a parent in it lacks its texts.

    Args:
        kinds: the types of each field; other fields may have any.
    """
    for name, types in kinds.items():
        if name not in record and name not in needed:
            continue
        value = record.get(name)
        too_large = isinstance(value, int | float) and not abs(value) <= _LARGEST  # or NaN
        if type(value) not in types or too_large:
            raise StorageFailed(f"{path} is damaged: {name}={value!r:.100} is no {types[0].__name__}. Move its "
                                "folder away, or put back a copy of the file.")
    for name, keys in _TEXTS.items():
        value = record.get(name) if name in kinds else None
        if type(value) is dict and not all(type(value.get(key)) is str for key in keys):
            raise StorageFailed(f"{path} is damaged: its {name} has no {' and '.join(keys)}. Move its folder away, or "
                                "put back a copy of the file.")


def write_record(path: Path, data: Mapping[str, Any]) -> None:
    """Write `data` as a JSON object, atomically. Raises StorageFailed if it cannot be written."""
    text = json.dumps(data, indent=1).encode()
    if len(text) > LARGEST_RECORD:
        raise StorageFailed(f"cannot write {path}: it would have {len(text):,} bytes, and at most "
                            f"{LARGEST_RECORD:,} are read. Give its environment shorter options: a file's name.")
    try:
        write_atomically(path, text)
    except OSError as error:
        raise StorageFailed(f"cannot write {path}: {error.strerror}. Make room on its disk.") from None
