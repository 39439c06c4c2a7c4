"""Buttons that answer while a cell runs, also with ipykernel 7.4.

JupyterLab addresses widgets' messages to a subshell of their own, so that they need not wait for a cell. ipykernel 7.4
sends them to the shell that last used the widget instead, which is the busy one as soon as a cell has touched it. The
replies for which that was made (numbered requests) keep their way; every other message goes where the page sent it.
"""

from __future__ import annotations

import sys


def keep_to_the_pages_choice() -> None:
    """Let no comm of this kernel remember the shell that last used it; in a kernel that does not, do nothing."""
    module = sys.modules.get("ipykernel.comm.comm")
    comm = getattr(module, "BaseComm", None)
    if comm is not None and hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_id = property(fset=lambda self, value: None)  # reading it finds nothing: the default
