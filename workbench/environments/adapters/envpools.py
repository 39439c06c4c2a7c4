"""How an environment of envpool is given up."""

from __future__ import annotations

import ctypes
from typing import Any


def leave(pool: Any) -> None:
    """Leaves `pool` to the end of the process, which ends its threads.

    Its destructor joins them, and was seen to wait for ever, once, on a loaded machine (envpool 1.2.5), with the
    interpreter's lock held, so that nothing of the process went on. A pool is small, but for football's, whose games
    envpool keeps anyway (see football_pool.py).
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(pool))
