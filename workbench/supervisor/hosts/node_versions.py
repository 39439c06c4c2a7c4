"""Python and the workbench on a node of a cluster, beside those of the notebook that launched the run.

Code typed in a cell travels as bytecode (cloudpickle), which another minor version of Python cannot run; processes of
different versions of the workbench need not understand each other. Either ends the launch (`refusal`). Another Python
alone is only said (`remark`). A package that a node lacks is named with the node (`with_node`).
"""

from __future__ import annotations

import platform
import re
import sys
from dataclasses import dataclass

_MISSING = re.compile(r"No module named '([\w.]+)'")

NOTEBOOK = "WORKBENCH_NOTEBOOK"  # the notebook's versions, for the run's processes on other machines


@dataclass(frozen=True)
class Versions:
    """Of Python, such as "3.11.9", and of the workbench; `str` of it is read back by `read`."""

    python: str
    workbench: str

    @property
    def minor(self) -> str:
        """Python's version without its patch: "3.11"."""
        return ".".join(self.python.split(".")[:2])

    def __str__(self) -> str:
        return f"{self.python} {self.workbench}"


def here() -> Versions:
    """Those of this process."""
    from workbench import __version__  # the package's own names are above this module

    return Versions(platform.python_version(), __version__)


def read(text: str) -> Versions:
    """Those that were written as text; of "", which says nothing, this process's own."""
    return Versions(*text.split()) if text else here()


def refusal(node: str, there: Versions, notebook: Versions, *, has_cells: bool) -> str | None:
    """Why a run of this notebook cannot have a process on that node, and what to do; None: it can.

    `has_cells`: the run has code that was typed in a cell, or lies beside the notebook.
    """
    if there.workbench != notebook.workbench:
        return (f"node {node} has version {there.workbench} of the workbench, the notebook has {notebook.workbench}. "
                "Install the same version on all nodes of the cluster and beside the notebook.")
    if has_cells and there.minor != notebook.minor:
        return (f"node {node} has Python {there.python}, the notebook has {notebook.python}, and code that was typed "
                "in a cell, or lies beside the notebook, runs in one minor version only. Give all nodes Python "
                f"{notebook.minor}, start the notebook with {there.minor}, or put that code into a package that is "
                "installed on both.")
    return None


def remark(node: str, there: Versions, notebook: Versions) -> str | None:
    """What is worth saying of a node that is not refused; None: nothing."""
    if there.minor == notebook.minor:
        return None
    return (f"node {node} has Python {there.python}, the notebook has {notebook.python}: code typed in a cell could "
            "not run there; this run has none")


def with_node(node: str, error: dict[str, str] | None) -> dict[str, str] | None:
    """The error ({"type", "message"}) of a process there; if it lacks a package, with the node and what to do."""
    if error is None:
        return None
    found = _MISSING.search(error["message"])
    if found is None and error["type"] != "MissingPackage":
        return error
    what = f"has no module {found[1]!r}: install its package" if found else "lacks a package: install it"
    return {**error, "message": f"node {node} {what} there (for {sys.executable}), or in the image of all nodes. "
                                f"{error['message']}"}
