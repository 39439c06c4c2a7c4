"""Patches of ipykernel 7.4: buttons answer while a cell runs, and pages may be refreshed while they are in use.

JupyterLab addresses widgets' messages to a separate subshell, so that they need not wait for a cell. ipykernel 7.4
sends them to the shell that last used the widget instead, which is the busy one as soon as a cell has touched it. With
the patch every message goes where the page sent it, except replies to numbered requests, ipykernel's purpose.

When a page is refreshed or closed, its subshell is deleted. ipykernel stops the subshell's loop with tasks pending: the
page's last messages are never handled, "Task was destroyed but it is pending!" appears in any later cell, and if the
thread that forwards printed text logs it, the kernel blocks for ten seconds.
"""

from __future__ import annotations

import asyncio
import functools
import sys
from contextlib import suppress
from typing import Any

END_S = 1.0  # for a deleted subshell to finish its tasks; then they are cancelled


def keep_to_the_pages_choice() -> None:
    """Makes this kernel's comms forget the shell that last used them; does nothing in kernels without that memory."""
    module = sys.modules.get("ipykernel.comm.comm")
    comm = getattr(module, "BaseComm", None)
    if comm is not None and hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_id = property(fset=lambda self, value: None)  # reading it finds nothing: the default


def end_what_a_page_began() -> None:
    """Makes this kernel finish a subshell's messages before it is deleted; does nothing in kernels without subshells.
    """
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
            with suppress(TimeoutError):  # ipykernel itself waits for a message that occupies its thread
                ended.result(timeout=5 * END_S)
            ended.cancel()
        delete(self, subshell_id)

    manager._delete_subshell = ended_first


async def _end_all() -> None:
    """Returns once this loop has no task and no message left."""
    await asyncio.sleep(0.01)  # lets the loop read messages that have arrived
    while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
        late = (await asyncio.wait(tasks, timeout=END_S))[1]
        for task in late:
            task.cancel()
        await asyncio.sleep(0.01)
