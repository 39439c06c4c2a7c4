"""What an environment of somebody else raises or returns wrongly, as an error that names it, its index and the rule."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.environments.contract import Array
from workbench.errors import EnvironmentFailed, MissingPackage, WorkbenchError

# where in a message an environment is: its number, or nothing where it is a vector's step that failed
Index = int | None

LARGEST = float(np.finfo(np.float32).max)  # what a reward must be below


def called(name: str, index: Index, where: str, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """What `function` returns; what it raises becomes an EnvironmentFailed that ends with the traceback."""
    try:
        return function(*arguments, **keywords)
    except WorkbenchError:
        raise
    except Exception as error:
        raise raised(name, index, where, error) from error


def close_all(opened: list[Any]) -> None:
    """Closes every environment in `opened`, and empties it; an error in one of them does not keep the others open."""
    while opened:
        with contextlib.suppress(Exception):
            opened.pop().close()


def raised(name: str, index: Index, where: str, error: Exception) -> WorkbenchError:
    """The error for `error`, which came out of `where`: "constructor", "reset", "step", "render"."""
    if type(error).__name__ == "DependencyNotInstalled":
        return MissingPackage(f"environment {name!r} needs a package that is not installed: {error}")
    own = error.__traceback__  # its first frame is ours: drop it, unless the error arose there
    trace = own.tb_next if own is not None and own.tb_next is not None else own
    text = "".join(traceback.format_exception(type(error), error, trace)).rstrip()
    return EnvironmentFailed(
        f"environment {_which(name, index)} raised {type(error).__name__} in {where}: {short(error)}\n\n{text}")


def broken(name: str, index: Index, where: str, rule: str) -> EnvironmentFailed:
    """The error for something that `where` returned against `rule`."""
    return EnvironmentFailed(f"environment {_which(name, index)} broke a rule in {where}: {rule}.")


def frame_of(name: str, index: Index, drawn: Any) -> Array:
    """What `render` returned, uint8 [H, W, 3]. Raises EnvironmentFailed where it is something else."""
    frame: Array = np.asarray(drawn)
    if frame.ndim != 3 or frame.shape[2] != 3 or frame.dtype != np.uint8:
        raise broken(name, index, "render", f"a frame must be uint8 [H, W, 3], not {frame.dtype} {list(frame.shape)}")
    return frame


def short(value: Any) -> str:
    """One line that shows `value`."""
    text = " ".join((str(value) if isinstance(value, Exception) else repr(value)).split())
    return text if len(text) <= 200 else text[:197] + "..."


def _which(name: str, index: Index) -> str:
    return repr(name) if index is None else f"{name!r} (index {index})"
