"""The graphs that a run's compiler has compiled, kept in the run's directory, so that a resume compiles nothing.

A compiled graph is a program: whoever can put one there runs code in the learner. So only graphs that a learner of this
user on this machine has compiled are used. After each checkpoint a list with the SHA-256 of each file is written and
sealed as code is (`rundir.sealed`), and whatever such a list does not vouch for is deleted before the compiler sees
the folder. Nothing copies the folder to another machine.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

from workbench.errors import AccessDenied, HomeNotWritable
from workbench.rundir import sealed
from workbench.rundir.files import make_private, opened, write_atomically

LIST = "graphs.list"


class CompiledGraphs:
    """The folder with the graphs of one run.

    Args:
        folder: of this run's alone.
        compiler: name and version; a list of another compiler's graphs vouches for nothing.

    Attributes:
        files: the folder that the compiler reads and writes.
        found: number of graphs that were there, and were this user's own.
    """

    def __init__(self, folder: Path, *, compiler: str) -> None:
        self._list, self._compiler = folder / LIST, compiler
        self.files = folder / "graphs"
        self.found = 0
        self._sealed: dict[Path, str] | None = None  # the files of the last list
        self._digests: dict[str, tuple[tuple[int, int], str]] = {}  # by path: size and time, SHA-256

    def admit(self, tell: Callable[[str], None]) -> Path | None:
        """The folder for the compiler, in which only this user's own graphs are left.

        Links and other special files are deleted like all that is not vouched for; nothing is followed. Where that
        fails it returns None, and `tell` is called with a sentence.
        """
        try:
            return self._admitted()
        except OSError as error:
            tell(f"compiled graphs are not kept: {error}")
            return None

    def _admitted(self) -> Path:
        for place in (self.files.parent, self.files):
            if place.is_symlink() or place.exists() and not place.is_dir():
                place.unlink()
        make_private(self.files)
        vouched = self._vouched()
        for path in self._inside():
            name = str(path.relative_to(self.files))
            if name not in vouched or self._digest(path) != vouched[name]:
                path.unlink()
            else:
                self.found += 1
        return self.files

    def seal(self, tell: Callable[[str], None]) -> None:
        """Vouch for all graphs that are there now; `tell` is called with a sentence where that fails."""
        digests = {path: digest for path in self._inside() if (digest := self._digest(path))}
        if digests == self._sealed:
            return
        files = {str(path.relative_to(self.files)): digest for path, digest in digests.items()}
        text = json.dumps({"compiler": self._compiler, "files": files}, sort_keys=True).encode()
        try:
            for path in digests:
                path.chmod(0o600)  # a compiler writes them for all to read
            write_atomically(self._list, sealed.sealed(LIST, text))
        except (OSError, HomeNotWritable, AccessDenied) as error:
            tell(f"a resume will compile its graphs anew, since they could not be vouched for: {error}")
        self._sealed = digests

    def _vouched(self) -> dict[str, str]:
        """The SHA-256 by path of the graphs in a list of this user's on this machine; nothing for any other list."""
        try:
            listed = json.loads(sealed.read(self._list) or b"{}")
        except (AccessDenied, HomeNotWritable, ValueError):
            return {}
        return dict(listed["files"]) if listed.get("compiler") == self._compiler else {}

    def _inside(self) -> list[Path]:
        """All in the folder that is no folder; a link to one is no folder."""
        paths = []
        for folder, folders, files in os.walk(self.files):
            links = [name for name in folders if Path(folder, name).is_symlink()]
            paths += [Path(folder, name) for name in (*files, *links)]
        return sorted(paths)

    def _digest(self, path: Path) -> str:
        """SHA-256 of a plain file; "" of anything else, and of a file that has gone."""
        try:
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode):
                return ""
            mark, digest = self._digests.get(str(path), (None, ""))
            if mark != (now := (status.st_size, status.st_mtime_ns)):
                with opened(path) as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
                self._digests[str(path)] = now, digest
            return digest
        except OSError:
            return ""
