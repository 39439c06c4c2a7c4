"""ViZDoom's engine as a child process that leaves nothing behind.

By default, the engine outlives a killed parent for ever, its shared memory (some 0.3 MB of /dev/shm) outlives both, and
it writes `_vizdoom/` and `_vizdoom.ini` into the working directory. Here, on Linux:
- a few lines of Python start the engine and ask the kernel to kill it when its parent dies (PR_SET_PDEATHSIG), however
  it dies. They lie in memory (memfd), so that no file is needed. A shell starts them, since a script's first line
  cannot name a Python whose path is long or has a blank;
- the names of its shared memory are removed once both sides have it open, so that the kernel frees it with them;
- its working directory is in the directory for temporary files.
"""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

_starting = threading.Lock()
_START = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
if os.getppid() != {parent}:  # it has ended already
    os._exit(1)
os.makedirs({directory!r}, mode=0o700, exist_ok=True)
os.chdir({directory!r})
os.execv({engine!r}, [{engine!r}, *sys.argv[1:]])
"""


def start(game: Any) -> None:
    """`game.init()` of a `vizdoom.DoomGame` whose engine leaves nothing behind.

    One at a time: two at once have ended the whole process (std::terminate in the package's own code).
    """
    with _starting:
        _start(game)


def _start(game: Any) -> None:
    if sys.platform == "linux":
        game.set_vizdoom_path(_starter(os.getpid()))
        game.set_doom_config_path(os.devnull)
    game.init()
    for kind in ("SM", "MQCtr", "MQDoom"):
        with suppress(OSError):
            os.unlink(f"/dev/shm/ViZDoom{kind}{game.get_instance_id()}")


@cache
def _starter(parent: int) -> str:
    """Path of the program that starts an engine for the process `parent`, which must be this one."""
    import vizdoom

    engine = str(Path(vizdoom.__file__).with_name("vizdoom"))
    directory = str(Path(tempfile.gettempdir(), f"workbench-vizdoom-{os.getuid()}"))
    file = os.memfd_create("vizdoom", 0)  # open for as long as this process lives, and for the child
    start = _START.format(parent=parent, directory=directory, engine=engine)
    command = shlex.join([sys.executable, "-ISS", "-c", start])
    os.write(file, f'#!/bin/sh\nexec {command} "$@"\n'.encode())
    return f"/proc/{parent}/fd/{file}"
