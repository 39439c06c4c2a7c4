"""A directory of compiled levels that the actors of a machine share, with the interface that `deepmind_lab` requires.

Most levels of DMLab-30 are generated anew for each episode, and compiling one takes longer than many steps. Nothing is
ever removed: the directory grows with the number of seeds.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path


class LevelCache:
    """See docs/users/python_api.md of DeepMind Lab, "Level Cache". The first write makes `directory`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def fetch(self, key: str, pk3_path: str) -> bool:
        """Copies the level of `key` to `pk3_path`. Returns False if there is none."""
        try:
            shutil.copyfile(self._path(key), pk3_path)
        except FileNotFoundError:
            return False
        return True

    def write(self, key: str, pk3_path: str) -> None:
        """Stores the level at `pk3_path` under `key`, atomically."""
        path = self._path(key)
        if path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as copy:
            temporary = Path(copy.name)
        try:
            shutil.copyfile(pk3_path, temporary)
            temporary.replace(path)
        finally:
            with suppress(FileNotFoundError):
                temporary.unlink()

    def _path(self, key: str) -> Path:
        name = hashlib.sha256(key.encode()).hexdigest()  # a key may be long and have slashes
        return self._directory / name[:2] / name[2:]
