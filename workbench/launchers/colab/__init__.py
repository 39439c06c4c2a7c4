"""Runs on a hosted notebook's machine, which is taken away after hours: Google Colab with a CPU, a GPU or a TPU.

    from workbench.launchers import colab

    colab.prepare()                                    # mounts Drive; says what the runtime has
    run = wb.launch(..., launcher="colab")             # its checkpoints are copied to Drive
    run = wb.resume(colab.restored("pong-vtrace-1"))   # on the next machine

As `local`, but that the accelerator is found out without touching it, so that the learner's process is the only one
that does, and that a process of its own copies what a run needs to go on to a folder that stays; see `mirror`.
"""

from __future__ import annotations

from workbench.launchers.colab.launcher import ColabLauncher, prepare
from workbench.launchers.colab.mirror import kept, restored
from workbench.launchers.colab.runtime import Runtime, found

__all__ = ["ColabLauncher", "Runtime", "found", "kept", "prepare", "restored"]
