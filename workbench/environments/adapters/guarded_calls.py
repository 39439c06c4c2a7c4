"""Errors of other people's environments: each names the environment, its index and the rule that it broke."""

from __future__ import annotations

import ctypes
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.environment_spec import EnvironmentSpec
from workbench.environments.contract import Array
from workbench.environments.observations import picture_of
from workbench.errors import EnvironmentFailed, MissingPackage, WorkbenchError

Index = int | None  # of an environment in a message; None if a whole vector failed

LARGEST = float(np.finfo(np.float32).max)  # exclusive bound of a reward's magnitude


def called(name: str, index: Index, where: str, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """Returns the result of `function`; its exception becomes an EnvironmentFailed that ends with the traceback."""
    try:
        return function(*arguments, **keywords)
    except WorkbenchError:
        raise
    except (Exception, SystemExit) as error:
        raise raised(name, index, where, error) from error


def close_all(opened: list[Any]) -> None:
    """Closes every environment in `opened`, and empties it; an error in one is printed, and leaves no other open."""
    while opened:
        try:
            opened.pop().close()
        except (Exception, SystemExit) as error:
            print(f"close() of an environment raised {type(error).__name__}: {short(error)}", file=sys.stderr)


def abandon_pool(pool: Any) -> None:
    """Keeps an envpool environment until the process ends, which ends its threads.

    Its destructor joins them, and once waited for ever on a loaded machine (envpool 1.2.5), with the interpreter's lock
    held, so that the whole process hung. A pool is small, except football's, whose games envpool keeps anyway (see
    football/pool.py).
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(pool))


def raised(name: str, index: Index, where: str, error: BaseException) -> WorkbenchError:
    """The error for an exception in `where`: "constructor", "reset", "step", "render"."""
    if type(error).__name__ == "DependencyNotInstalled":
        return MissingPackage(f"environment {name!r} needs a package that is not installed: {error}")
    own = error.__traceback__  # its first frame is ours: dropped, unless the error arose there
    trace = own.tb_next if own is not None and own.tb_next is not None else own
    text = "".join(traceback.format_exception(type(error), error, trace)).rstrip()
    remedy = (". Gymnasium's reset takes them: def reset(self, *, seed=None, options=None)."
              if where == "reset" and isinstance(error, TypeError) and "unexpected keyword" in str(error) else "")
    return EnvironmentFailed(
        f"environment {_which(name, index)} raised {type(error).__name__} in {where}: {short(error)}{remedy}\n\n{text}")


def broken(name: str, index: Index, where: str, rule: str) -> EnvironmentFailed:
    """The error for a result of `where` that breaks `rule`."""
    return EnvironmentFailed(f"environment {_which(name, index)} broke a rule in {where}: {rule}.")


def real(value: Any, what: str, broken: Callable[[str], EnvironmentFailed]) -> float:
    """The number `value`. Raises `broken` of a sentence on `what` unless it is a number that float32 holds."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if not isinstance(value, (int, float, np.number, np.bool_)):
        raise broken(f"{what} {short(value)} is not a number")
    told = float(value)
    if not -LARGEST < told < LARGEST:  # also refuses NaN
        raise broken(f"{what} {told} is not a finite float32")
    return told


def frame_of(name: str, index: Index, result: Any) -> Array:
    """The result of `render`, uint8 [H, W, 3]. Raises EnvironmentFailed if it is something else."""
    frame: Array = np.asarray(result)
    if frame.ndim != 3 or frame.shape[2] != 3 or frame.dtype != np.uint8:
        raise broken(name, index, "render", f"a frame must be uint8 [H, W, 3], not {frame.dtype} {list(frame.shape)}")
    return frame


def drawn(name: str, index: Index, env: Any, observation: Array, spec: EnvironmentSpec) -> Array | None:
    """The frame that `env` draws of itself; otherwise the picture that its observation is, if it is one."""
    draws = getattr(env, "render_mode", None) == "rgb_array"
    frame = called(name, index, "render", env.render) if draws else None
    return picture_of(observation, spec) if frame is None else frame_of(name, index, frame)


def short(value: Any) -> str:
    """`value` as one line of at most 200 characters."""
    text = " ".join((str(value) if isinstance(value, Exception) else repr(value)).split())
    return text if len(text) <= 200 else text[:197] + "..."


def _which(name: str, index: Index) -> str:
    return repr(name) if index is None else f"{name!r} (index {index})"
