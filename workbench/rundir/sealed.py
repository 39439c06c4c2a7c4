"""Code typed in a cell, on disk: sealed with a key that the user has on this machine alone.

A file has a mark, a seal (HMAC-SHA256 over the file's name and the code) and the code by value. The key lies in the
user's own configuration, outside of the workbench's home, under a name of this machine, and nothing copies it. So code
from an archive, a download, a shared folder, another user, or a copy of one's own home has no valid seal here. This
module alone decides which code runs, and returns such code only to a call with `trust_code=True`.

Processes of a run on other machines have another key, or none. The process that starts them there checks the seals,
and passes the SHA-256 of the code that they may load in $WORKBENCH_CODE.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import platform
import secrets
from collections.abc import Collection
from contextlib import suppress
from io import BufferedReader
from pathlib import Path

from workbench.config import RunConfig, Setting
from workbench.errors import AccessDenied, HomeNotWritable
from workbench.rundir.files import (
    check_unlinked,
    content,
    is_hollow,
    make_private,
    opened,
    own,
    owner,
    write_atomically,
)

MODULE = "module.txt"  # the package of an environment "package:Name-v0"
ADDRESS = "address.txt"  # of a Ray cluster, whose answers are unpickled here
VOUCHED = "WORKBENCH_CODE"  # SHA-256 digests of code, with commas between

TRUST = Setting("trust_code", bool, False, "")  # the argument of calls that may load what others sealed

_MARK = b"rl-workbench code 1\n"
_SEAL_BYTES = 32
_FIRST, _LAST = b"\x80", b"."  # bytes of a pickle, which this module does not load
_SEALED_BYTES = len(_MARK) + _SEAL_BYTES  # before the code
LARGEST = 2**30  # bytes of a file of code
_MACHINE_ID = Path("/etc/machine-id")


def sealed(name: str, code: bytes) -> bytes:
    """The content of the file `name` with this user's own `code`. Raises HomeNotWritable, AccessDenied."""
    return _MARK + _seal(_key() or _new_key(), name, code) + code


def read(path: Path, *, trust_code: bool = False) -> bytes | None:
    """The code in a file; None if there is no such file.

    Args:
        trust_code: whether the user allows it to run, wherever it comes from.

    Raises AccessDenied for code that no launch of this user on this machine has written.
    """
    try:
        if trust_code:
            return _parted(content(path, largest=LARGEST))[1]
        data = own(path, largest=LARGEST)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except AccessDenied as error:
        raise AccessDenied(f"{error} {_remedy(path)}") from None
    except OSError as error:
        raise AccessDenied(f"{path} is not read: {error.strerror}.") from None
    seal, code = _parted(data)
    key = _key()
    if key is not None and hmac.compare_digest(seal, _seal(key, path.name, code)):
        return code
    if _digest(code) in os.environ.get(VOUCHED, "").split(","):
        return code
    raise AccessDenied(f"{path} ({owner(path)}) holds code that was typed in a cell, and no launch of yours on this "
                       f"machine wrote it. It was not loaded. {_remedy(path)}")


def is_whole(path: Path) -> bool:
    """Whether a file holds code to its end, whoever wrote it; of a file that cannot be looked at `read` says why."""
    try:
        with opened(path) as file:
            _seek_code(file)
            if file.read(1) != _FIRST:
                return False
            file.seek(-1, os.SEEK_END)
            return file.read(1) == _LAST
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True


def is_code(data: bytes) -> bool:
    """Whether these bytes, without their seal, begin and end as code does: what was torn does not."""
    return data.startswith(_FIRST) and data.endswith(_LAST)


def all_code(folder: Path, *, trust_code: bool = False, but: Collection[str] = ()) -> dict[str, bytes]:
    """The code of a run by file name, `but` for these files. Raises as `read`."""
    contents = {path.name: read(path, trust_code=trust_code) for path in files_in(folder) if path.name not in but}
    return {name: code for name, code in contents.items() if code is not None}


def every(
    folder: Path, config: RunConfig | None = None, *, address: str | None = None, trust_code: bool = False,
    but: Collection[str] = (),
) -> dict[str, bytes]:
    """The same, each sealed by this user, with the package and the Ray cluster that the configuration names.

    Args:
        address: of a Ray cluster that this call names, whatever was named before.

    Raises as `read` and `sealed`; AccessDenied for a package or a cluster that no launch of this user named.
    """
    code = all_code(folder, trust_code=trust_code, but=but)
    names = {} if config is None else words(config.environment, config.address)
    for name, word in names.items():
        if not trust_code and code.get(name) != word and (name, word.decode()) != (ADDRESS, address):
            raise _unnamed(folder / name, word.decode())
    return {name: sealed(name, data) for name, data in {**code, **names}.items()}


def words(environment: str, address: str | None = None) -> dict[str, bytes]:
    """The names in a launch that can run code, by the file that seals each."""
    names = {MODULE: environment.rpartition(":")[0], ADDRESS: address or ""}
    return {name: word.encode() for name, word in names.items() if word}


def check_module(folder: Path, environment: str, *, trust_code: bool = False) -> None:
    """Called before the environment "package:Name-v0" of a run is made, which imports the package.

    The user's own launch has sealed the package's name in `folder`. Raises AccessDenied for any other package.
    """
    for name, package in words(environment).items():
        if not trust_code and read(folder / name) != package:
            raise _unnamed(folder / name, package.decode())


def _unnamed(path: Path, word: str) -> AccessDenied:
    if path.name == ADDRESS:
        reason = (f"{path.parents[1].name} is to run on the Ray cluster at {word!r}, which no launch of yours on this "
                  "machine named, and a cluster can run code here. It was not called. Give address=... yourself.")
    else:
        reason = f"the environment imports {word}, which no launch of yours on this machine named. It was not imported."
    return AccessDenied(f"{reason} {_remedy(path)}")


def files_in(folder: Path) -> list[Path]:
    """The files with code typed in a cell, and with names that can run code."""
    return sorted(path for path in folder.glob("[!.]*") if path.suffix == ".pkl" or path.name in (MODULE, ADDRESS))


def check(
    folder: Path, config: RunConfig | None = None, *, address: str | None = None, trust_code: bool = False,
    but: Collection[str] = (),
) -> None:
    """Called before a run starts whose code is in that folder. Seals there what the call trusts or names.

    Arguments and errors are those of `every`; raises StorageFailed as `check_unlinked` of the run, and OSError.
    """
    check_unlinked(folder.parent)
    for name, data in every(folder, config, address=address, trust_code=trust_code, but=but).items():
        path = folder / name
        if not path.exists() or content(path, largest=LARGEST) != data:
            make_private(folder)
            write_atomically(path, data)


def fingerprint(path: Path) -> str:
    """SHA-256 of the code in a file, which does not depend on its seal; or why it cannot be read."""
    try:
        with opened(path) as file:
            status = os.fstat(file.fileno())
            if status.st_size > LARGEST or is_hollow(status):
                return f"cannot be read: {status.st_size:,} bytes are no code"
            _seek_code(file)
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _seek_code(file: BufferedReader) -> None:
    file.seek(_SEALED_BYTES if file.read(len(_MARK)) == _MARK else 0)


def vouched(*files: Path) -> str:
    """The value of `VOUCHED` for a run's processes on other machines that may load these. Raises as `read`."""
    return ",".join(_digest(code) for code in map(read, files) if code is not None)


def _parted(data: bytes) -> tuple[bytes, bytes]:
    """Seal and code of a file; the seal is empty in a file without the mark."""
    if not data.startswith(_MARK):
        return b"", data
    rest = data[len(_MARK):]
    return rest[:_SEAL_BYTES], rest[_SEAL_BYTES:]


def _seal(key: bytes, name: str, code: bytes) -> bytes:
    return hmac.digest(key, name.encode() + b"\0" + code, "sha256")


def _digest(code: bytes) -> str:
    return hashlib.sha256(code).hexdigest()


def _remedy(path: Path) -> str:
    return (f"If you know where {path.parents[1]} comes from, and its code may run as you: trust_code=True in the "
            "call, or --trust-code in a shell.")


# --- the key ----------------------------------------------------------------------------------------------------------


def key_path() -> Path:
    """The file with this user's key of this machine."""
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    machine = b""
    with suppress(OSError):
        machine = content(_MACHINE_ID, largest=4096)
    if not machine.strip():  # in a container
        machine = platform.node().encode()
    return folder / "rl-workbench" / f"code-{hashlib.sha256(machine).hexdigest()[:16]}.key"


def _key() -> bytes | None:
    with suppress(FileNotFoundError, NotADirectoryError):
        return own(key_path(), largest=_SEAL_BYTES, secret=True)
    return None


def _new_key() -> bytes:
    """The key, made now, or by another process of this user meanwhile."""
    path = key_path()
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        make_private(path.parent)
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(_SEAL_BYTES))
                os.fchmod(file.fileno(), 0o600)
            with suppress(FileExistsError):
                os.link(beside, path)
        finally:
            beside.unlink()
    except OSError as error:
        raise HomeNotWritable(f"cannot write {path}, the key that seals code typed in a cell: {error.strerror}. Set "
                              "XDG_CONFIG_HOME to a folder of your own that can be written.") from None
    key = _key()
    assert key is not None
    return key
