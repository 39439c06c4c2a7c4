"""A directory of compiled levels that the actors of a machine share, as `deepmind_lab` asks for one.

Most levels of DMLab-30 are generated anew for each episode, and compiling one takes longer than many steps. Nothing is
ever removed: how much is kept is how many seeds are met.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path


class LevelCache:
    """See docs/users/python_api.md of DeepMind Lab, "Level Cache". `directory` is made when it is first written."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def fetch(self, key: str, pk3_path: str) -> bool:
        """Copies the level of `key` to `pk3_path`; False if there is none."""
        try:
            shutil.copyfile(self._path(key), pk3_path)
        except FileNotFoundError:
            return False
        return True

    def write(self, key: str, pk3_path: str) -> None:
        """Keeps the level at `pk3_path` as that of `key`; another process never sees half of it."""
        path = self._path(key)
        if path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as copy:
            written = Path(copy.name)
        try:
            shutil.copyfile(pk3_path, written)
            written.replace(path)
        finally:
            with suppress(FileNotFoundError):
                written.unlink()

    def _path(self, key: str) -> Path:
        name = hashlib.sha256(key.encode()).hexdigest()  # a key may be long and have slashes
        return self._directory / name[:2] / name[2:]
