"""The launcher, and `prepare`, which a notebook calls before it."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

from workbench import rundir
from workbench.config import RunConfig
from workbench.config.chosen import DEVICE_VARIABLE
from workbench.copies import FOLDER, RECORD, check_writable
from workbench.errors import InvalidInput, OutOfBounds, RunExists
from workbench.launchers.colab.runtime import Runtime, found
from workbench.launchers.local import LocalLauncher, LocalProcess
from workbench.rundir import RunDirectory

DRIVE = Path("/content/drive")


def prepare(folder: str | Path | None = DRIVE / "MyDrive" / "rl-workbench") -> Runtime:
    """This machine's hardware. Runs are copied to `folder` from now on; if it is on Drive, Drive is mounted first.

    Args:
        folder: one that outlives this machine; None: runs are not copied.

    Raises InvalidInput if there is no Drive to mount, StorageFailed if `folder` cannot be written.
    """
    runtime = found()
    print(runtime)
    if folder is None:
        os.environ.pop(FOLDER, None)
        print("Checkpoints are not copied: they are lost when this machine ends.")
        return runtime
    path = Path(folder).expanduser().absolute()
    if path.is_relative_to(DRIVE):
        _mount_drive()
    check_writable(path, "Give another: colab.prepare(...).")
    os.environ[FOLDER] = str(path)
    print(f"Checkpoints are copied to {path}")
    return runtime


def kept(run: str | Path) -> dict[str, Any]:
    """The last copy of a run: {"folder", "frames", "time", "error"}; "error" says why the newest copy failed."""
    path = rundir.find(run).path / RECORD
    return rundir.read_record(path) if path.exists() else {}


def _mount_drive() -> None:
    if os.path.ismount(DRIVE):
        return
    try:
        drive = importlib.import_module("google.colab.drive")
    except ModuleNotFoundError:
        raise InvalidInput(f"{DRIVE} is Colab's Google Drive, and this is not Colab. Give another folder: "
                           "colab.prepare('/some/folder').") from None
    drive.mount(str(DRIVE))


class ColabLauncher(LocalLauncher):
    """Starts supervisors as detached processes of this machine, with its accelerator as device."""

    def check(self, config: RunConfig) -> None:
        """See `Launcher`. Raises OutOfBounds for an accelerator that this runtime does not have."""
        runtime = found()
        if config.device not in ("auto", "cpu", "xla", runtime.device):
            raise OutOfBounds(f"device={config.device!r}, but this is {runtime}. Change the runtime's type, or "
                              "use device='auto'.")

    def check_name(self, name: str) -> None:
        """See `Launcher`: a copy in the folder is another run's, whose machine may have ended."""
        from workbench.copies.url_storage import Storage

        folder = os.environ.get(FOLDER)
        if folder and (why := Storage(folder).taken(name)):
            raise RunExists(f"{why}; or choose another name.")

    def start(self, run: RunDirectory) -> LocalProcess:
        """Start the run's supervisor, which copies it to the prepared folder, and return at once."""
        if not os.environ.get(FOLDER):
            print(f"{run.name} is on this machine alone, and is lost when it ends: colab.prepare() copies it to Drive.")
        return super().start(run)

    def environment(self) -> dict[str, str]:
        """See `LocalLauncher`; with this machine's device."""
        return {**super().environment(), DEVICE_VARIABLE: os.environ.get(DEVICE_VARIABLE) or found().device}
