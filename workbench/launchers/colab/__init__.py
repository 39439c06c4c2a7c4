"""Runs on a hosted notebook's machine, which ends after some hours: Google Colab with a CPU, a GPU or a TPU.

    from workbench.launchers import colab

    colab.prepare()                                    # mounts Drive; prints what the runtime has
    run = wb.launch(..., launcher="colab")             # its checkpoints are copied to Drive
    run = wb.resume(colab.restored("pong-vtrace-1"))   # on the next machine

As `local`, with two differences. The accelerator is detected without opening it, so that only the learner's process
opens it. The supervisor copies all that a run needs to continue to a folder that outlives the machine (`copies`).
"""

from __future__ import annotations

from workbench.copies.restored_run import restored
from workbench.launchers.colab.launcher import ColabLauncher, kept, prepare
from workbench.launchers.colab.runtime import Runtime, found

__all__ = ["ColabLauncher", "Runtime", "found", "kept", "prepare", "restored"]
