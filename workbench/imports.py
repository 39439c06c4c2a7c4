"""Imports that may fail: what an extra of this distribution needs, a widget, and Ctrl-C in the middle of one.

The command that installs an extra names the packages themselves and never the distribution: whoever registered that
name at an index could hand its readers any code. pyproject.toml alone says what an extra needs; it is read from the
metadata that an installation leaves.
"""

from __future__ import annotations

import html
import importlib
import importlib.metadata
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any

from workbench.errors import MissingPackage

if TYPE_CHECKING:
    from packaging.requirements import Requirement

DISTRIBUTION = "rl-workbench"


def packages(extra: str) -> tuple[str, ...]:
    """Requirements of `extra` with their bounds, such as ("vizdoom<1.4,>=1.3.2",); empty where the distribution is not
    installed, as in a checkout that is only on the path."""
    from packaging.requirements import Requirement

    try:
        lines = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return ()
    return tuple(_bare(one) for one in map(Requirement, lines) if _is_of(one, extra))


def _is_of(requirement: Requirement, extra: str) -> bool:
    marker = requirement.marker
    return marker is not None and marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""})


def _bare(requirement: Requirement) -> str:
    requirement.marker = None
    return str(requirement)


def pip_install(extra: str, *words: str) -> str:
    """The command that installs what `extra` needs, with more `words` for pip: `pip install envpool==1.2.5`."""
    needed = packages(extra)
    if not needed:
        return f"{shlex.join(['pip', 'install', *words, f'.[{extra}]'])}, in a checkout of RL Workbench"
    return shlex.join(["pip", "install", *words, *needed])


def xla_remedy() -> str:
    """How to get torch_xla."""
    return (f"It needs a Python environment of its own (docs/tpu.md), with the workbench and: {pip_install('tpu')}. "
            "Or choose another device.")


def torch_tpu_remedy() -> str:
    """How to get torch_tpu."""
    return "It needs torch from 2.11 to 2.15 (docs/tpu.md): pip install torch_tpu==0.2.0. Or choose another device."


def missing_xla(device: str) -> MissingPackage:
    """The error for a `device` of XLA where torch_xla is not installed."""
    other = "A TPU can do with torch_tpu, too. " if device == "tpu" else ""
    return MissingPackage(f"device={device!r} needs torch_xla, which is not installed. {other}{xla_remedy()}")


def widget(name: str) -> ModuleType:
    """The module `workbench.widgets.<name>`, loaded when something is shown: handles need no ipywidgets.

    Raises MissingPackage where ipywidgets or anywidget is not installed.
    """
    try:
        return importlib.import_module(f"workbench.widgets.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("workbench"):
            raise
        what = name.rpartition(".")[2]
        raise MissingPackage(f"the {what} needs {error.name}. Install it: pip install {error.name}") from None


def show(handle: object, make_view: Callable[[], Any], first: Callable[[], Mapping[str, str]] | None = None) -> None:
    """Display the widget that `make_view` returns, or print `handle` and how to install a missing package.

    `first`: outputs by MIME type that the cell shows meanwhile; None: "reading…".
    """
    from IPython.display import display

    try:
        with meanwhile(f"{handle!r}: reading…", first):
            display(make_view())  # type: ignore[no-untyped-call, unused-ignore]
    except MissingPackage as error:
        print(f"{handle!r}\n({error})")


def meanwhile(
    text: str, first: Callable[[], Mapping[str, str]] | None = None, *, for_result: bool = False
) -> AbstractContextManager[None]:
    """In a notebook, shows in the cell what is being made in the block, or the outputs of `first`; see `show`.

    `for_result`: see `widgets.kernel.placeholder`.
    """
    if "IPython" not in sys.modules:
        return nullcontext()
    outputs = first() if first else {
        "text/html": f'<div role="status" style="opacity:.75">{html.escape(text)}</div>', "text/plain": text}
    shown: AbstractContextManager[None] = widget("kernel.placeholder").meanwhile(outputs, for_result=for_result)
    return shown


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


def preload(name: str) -> None:
    """In a notebook, load `workbench.widgets.<name>` in a thread, while the cell waits for something else."""
    if in_notebook() and f"workbench.widgets.{name}" not in sys.modules:
        threading.Thread(target=_load_quietly, args=[name], name="workbench-preload", daemon=True).start()


def _load_quietly(name: str) -> None:
    with suppress(Exception):  # whoever shows it says what is missing
        widget(name)


@contextmanager
def deferred() -> Iterator[None]:
    """An interrupt in the block is raised when it ends: Python leaves a package half loaded that was interrupted.

    Nothing changes in other threads, which get none."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    came: list[Any] = []
    signal.signal(signal.SIGINT, lambda *arguments: came.append(arguments))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            before(*came[0])
