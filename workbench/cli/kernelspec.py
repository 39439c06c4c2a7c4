"""`workbench kernel install`: a Jupyter kernel for this interpreter and an accelerator, which loads our extension.

The wheel brings the same kernels (top-level folder `kernels/`) for the environment that it is installed into. Jupyter
starts those with the interpreter of its *server*. A kernel that is written here names its own interpreter, so that a
server of another environment can start it, too.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

from workbench import imports
from workbench.errors import InvalidInput, MissingPackage, StorageFailed, UnknownName
from workbench.rundir import write_atomically

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
DEVICES: dict[str, dict[str, str]] = {
    "cpu": {},
    "cuda": {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
    # The chip belongs to the learner: other libraries of a notebook stay away from it.
    "tpu": {"PJRT_DEVICE": "TPU", "JAX_PLATFORMS": "cpu", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
}  # variables besides the threads, by device


def folder_name(device: str) -> str:
    """The name that Jupyter knows the kernel by. Raises UnknownName."""
    if device not in DEVICES:
        raise UnknownName.among("device", device, DEVICES)
    return f"rl-workbench-{device}"


def specification(device: str, *, interpreter: str = "python") -> dict[str, Any]:
    """The content of a kernel.json. A notebook's own arithmetic gets one thread; its runs need the other cores."""
    folder_name(device)
    return {
        "argv": [interpreter, "-m", "ipykernel_launcher", "-f", "{connection_file}", "--ext=workbench"],
        "display_name": f"RL Workbench ({device.upper()})",
        "language": "python",
        "interrupt_mode": "signal",
        "env": {"WORKBENCH_DEVICE": device, **_ONE_THREAD, **DEVICES[device]},
        "metadata": {"debugger": True},
    }


def text(device: str, *, interpreter: str = "python") -> str:
    """The text of a kernel.json."""
    return json.dumps(specification(device, interpreter=interpreter), indent=1) + "\n"


def install(device: str | None = None, *, prefix: str | Path | None = None) -> Path:
    """Writes a kernel for this interpreter; returns its folder.

    Args:
        device: "cpu", "cuda" or "tpu"; None: the one that this machine has.
        prefix: of the environment whose Jupyter lists it, such as sys.prefix; None: this user's Jupyter.

    Raises UnknownName, MissingPackage without ipykernel, StorageFailed.
    """
    if importlib.util.find_spec("ipykernel") is None:
        raise MissingPackage(f"a kernel needs ipykernel in this environment: {imports.pip_install('lab')}")
    if device is None:
        from workbench.launchers.colab.runtime import found

        device = found().device
    folder = _data_folder(prefix) / "kernels" / folder_name(device)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / "kernel.json", text(device, interpreter=sys.executable).encode(), mode=0o644)
    except OSError as error:
        raise StorageFailed(f"cannot write {folder}: {error.strerror}. Choose another place with --prefix.") from None
    return folder


def _data_folder(prefix: str | Path | None) -> Path:
    """Jupyter's data folder of an environment, or (None) of this user. Raises InvalidInput."""
    if prefix is None:
        from jupyter_core.paths import jupyter_data_dir  # comes with ipykernel

        return Path(jupyter_data_dir())
    environment = Path(prefix).expanduser()
    if not environment.is_dir():
        raise InvalidInput(f"prefix={str(prefix)!r} is no folder. Give that of an environment, such as {sys.prefix}.")
    return environment.absolute() / "share" / "jupyter"
