"""Buttons that answer while a cell runs, and pages that are refreshed while they are used, also with ipykernel 7.4.

JupyterLab addresses widgets' messages to a subshell of their own, so that they need not wait for a cell. ipykernel 7.4
sends them to the shell that last used the widget instead, which is the busy one as soon as a cell has touched it. The
replies for which that was made (numbered requests) keep their way; every other message goes where the page sent it.

A page that is refreshed or closed has its subshell deleted. ipykernel stops that one's loop whatever it has begun: the
page's last messages are never handled, "Task was destroyed but it is pending!" appears in any later cell, and where
that is logged from the thread that sends what is printed, the kernel stands still for ten seconds.
"""

from __future__ import annotations

import asyncio
import functools
import sys
from contextlib import suppress
from typing import Any

END_S = 1.0  # for a deleted subshell to end what it has begun; then that is cancelled


def keep_to_the_pages_choice() -> None:
    """Let no comm of this kernel remember the shell that last used it; in a kernel that does not, do nothing."""
    module = sys.modules.get("ipykernel.comm.comm")
    comm = getattr(module, "BaseComm", None)
    if comm is not None and hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_id = property(fset=lambda self, value: None)  # reading it finds nothing: the default


def end_what_a_page_began() -> None:
    """Let a subshell of this kernel end its messages before it is deleted; in a kernel without any, do nothing."""
    manager = getattr(sys.modules.get("ipykernel.subshell_manager"), "SubshellManager", None)
    delete = getattr(manager, "_delete_subshell", None)
    if manager is None or delete is None or hasattr(delete, "__wrapped__"):
        return

    @functools.wraps(delete)
    def ended_first(self: Any, subshell_id: str) -> None:  # in the thread that hands out messages: none comes meanwhile
        with self._lock_cache:
            thread = self._get_subshell(subshell_id)
        if thread.is_alive():
            ended = asyncio.run_coroutine_threadsafe(_end_all(), thread.io_loop.asyncio_loop)
            with suppress(TimeoutError):  # a message that occupies its thread is waited for by ipykernel
                ended.result(timeout=5 * END_S)
            ended.cancel()
        delete(self, subshell_id)

    manager._delete_subshell = ended_first


async def _end_all() -> None:
    """Return once this loop has nothing begun and nothing to begin."""
    await asyncio.sleep(0.01)  # what has arrived is read
    while begun := asyncio.all_tasks() - {asyncio.current_task()}:
        late = (await asyncio.wait(begun, timeout=END_S))[1]
        for task in late:
            task.cancel()
        await asyncio.sleep(0.01)
