"""Code that was typed in a cell, on disk: sealed with a key that its user has on this machine alone.

A file of it has a mark, a seal (HMAC-SHA256 over the file's name and the code) and the code by value. The key lies in
the user's own configuration, outside of the workbench's home, under a name of this machine, and nothing ever copies
it. So code from an archive, a download, a shared folder, another user, or a copy of one's own home has no seal that
fits here, and this module, which alone decides whose code runs, gives it only to a call that says `trust_code=True`.

Processes of a run on other machines have another key, or none. Whoever starts them there has looked at the seals, and
tells them the SHA-256 of what they may load, in $WORKBENCH_CODE.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import platform
import secrets
from contextlib import suppress
from pathlib import Path

from workbench.config import RunConfig
from workbench.errors import AccessDenied, HomeNotWritable
from workbench.rundir.files import content, is_hollow, make_private, opened, own, owner, write_atomically

MODULE = "module.txt"  # the package of an environment that is named with one, "package:Name-v0"
ADDRESS = "address.txt"  # of a Ray cluster: what answers there is unpickled here
VOUCHED = "WORKBENCH_CODE"  # SHA-256 digests of code, with commas between

_MARK = b"rl-workbench code 1\n"
_SEAL_BYTES = 32
_SEALED_BYTES = len(_MARK) + _SEAL_BYTES  # before the code
_LARGEST = 2**30  # bytes
_MACHINE_ID = Path("/etc/machine-id")


def sealed(name: str, code: bytes) -> bytes:
    """The file `name` that holds `code` of this user's own. Raises HomeNotWritable, AccessDenied."""
    return _MARK + _seal(_key() or _new_key(), name, code) + code


def read(path: Path, *, trust_code: bool = False) -> bytes | None:
    """The code in a file; None if there is no such file.

    Args:
        trust_code: the user has said that it may run, wherever it comes from.

    Raises AccessDenied for code that no launch of this user on this machine has written.
    """
    try:
        if trust_code:
            return _parted(content(path, largest=_LARGEST))[1]
        data = own(path, largest=_LARGEST)
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


def all_code(folder: Path, *, trust_code: bool = False) -> dict[str, bytes]:
    """The code of a run by file name. Raises as `read`."""
    found = {path.name: read(path, trust_code=trust_code) for path in files_in(folder)}
    return {name: code for name, code in found.items() if code is not None}


def every(
    folder: Path, config: RunConfig | None = None, *, address: str | None = None, trust_code: bool = False
) -> dict[str, bytes]:
    """The same, each as a file of this user's own, with what a run of that configuration lets others name.

    Args:
        address: of a Ray cluster that this call names, whatever was named before.

    Raises as `read` and `sealed`; AccessDenied for a package or a cluster that no launch of this user named.
    """
    code = all_code(folder, trust_code=trust_code)
    named = {} if config is None else words(config.environment, config.address)
    for name, word in named.items():
        if not trust_code and code.get(name) != word and (name, word.decode()) != (ADDRESS, address):
            raise _unnamed(folder / name, word.decode())
    return {name: sealed(name, one) for name, one in {**code, **named}.items()}


def words(environment: str, address: str | None = None) -> dict[str, bytes]:
    """What a launch names that can run code, by the file that seals it."""
    given = {MODULE: environment.rpartition(":")[0], ADDRESS: address or ""}
    return {name: word.encode() for name, word in given.items() if word}


def check_module(folder: Path, environment: str, *, trust_code: bool = False) -> None:
    """Before the environment "package:Name-v0" of a run whose code is in `folder` is made, which imports the package.

    The user's own launch has put down the package's name. Raises AccessDenied for one that it did not name.
    """
    for name, package in words(environment).items():
        if not trust_code and read(folder / name) != package:
            raise _unnamed(folder / name, package.decode())


def _unnamed(path: Path, word: str) -> AccessDenied:
    if path.name == ADDRESS:
        said = (f"{path.parents[1].name} is to run on the Ray cluster at {word!r}, which no launch of yours on this "
                "machine named, and whoever answers there can run code here. It was not called. Give address=... "
                "yourself.")
    else:
        said = f"the environment imports {word}, which no launch of yours on this machine named. It was not imported."
    return AccessDenied(f"{said} {_remedy(path)}")


def files_in(folder: Path) -> list[Path]:
    """What there is of code that was typed in a cell, and of names that can run code."""
    return sorted(path for path in folder.glob("[!.]*") if path.suffix == ".pkl" or path.name in (MODULE, ADDRESS))


def check(
    folder: Path, config: RunConfig | None = None, *, address: str | None = None, trust_code: bool = False
) -> None:
    """Before something starts whose code lies in that folder. What the call trusts or names is sealed there.

    Args and errors as of `every`; raises OSError, too.
    """
    for name, data in every(folder, config, address=address, trust_code=trust_code).items():
        path = folder / name
        if not path.exists() or content(path, largest=_LARGEST) != data:
            make_private(folder)
            write_atomically(path, data)


def fingerprint(path: Path) -> str:
    """SHA-256 of the code in a file, which is the same whoever sealed it; or why it cannot be read."""
    try:
        with opened(path) as file:
            status = os.fstat(file.fileno())
            if status.st_size > _LARGEST or is_hollow(status):
                return f"cannot be read: {status.st_size:,} bytes are no code"
            file.seek(_SEALED_BYTES if file.read(len(_MARK)) == _MARK else 0)
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def vouched(folder: Path) -> str:
    """What a run's processes on other machines find in `VOUCHED`. Raises as `read`."""
    return ",".join(map(_digest, all_code(folder).values()))


def _parted(data: bytes) -> tuple[bytes, bytes]:
    """Seal and code; the seal is empty in files of a version before there were seals."""
    if not data.startswith(_MARK):
        return b"", data
    rest = data[len(_MARK):]
    return rest[:_SEAL_BYTES], rest[_SEAL_BYTES:]


def _seal(key: bytes, name: str, code: bytes) -> bytes:
    return hmac.digest(key, name.encode() + b"\0" + code, "sha256")


def _digest(code: bytes) -> str:
    return hashlib.sha256(code).hexdigest()


def _remedy(path: Path) -> str:
    return f"If you know where {path.parents[1]} comes from, and its code may run as you: trust_code=True in the call."


# --- the key ----------------------------------------------------------------------------------------------------------


def key_path() -> Path:
    """Where this user's key of this machine lies."""
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    machine = b""
    with suppress(OSError):
        machine = content(_MACHINE_ID, largest=4096)
    if not machine.strip():  # as in a container's image
        machine = platform.node().encode()
    return folder / "rl-workbench" / f"code-{hashlib.sha256(machine).hexdigest()[:16]}.key"


def _key() -> bytes | None:
    with suppress(FileNotFoundError, NotADirectoryError):
        return own(key_path(), largest=_SEAL_BYTES, secret=True)
    return None


def _new_key() -> bytes:
    """The key, made now unless another process of this user was quicker."""
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
