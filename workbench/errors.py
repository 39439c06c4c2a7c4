"""Every error that the workbench raises on purpose.

A message says what is wrong, which value, and what to do; a misspelt name comes with the nearest one.

    WorkbenchError
    ├── InvalidInput (ValueError)
    │   ├── UnknownName          environment, algorithm, hyperparameter, network, option
    │   ├── OutOfBounds          a value outside the field's bounds, or of the wrong type
    │   ├── NotLive              a change of a field that is fixed once a run has started
    │   └── ShapeMismatch        spaces, shapes or dtypes that do not fit
    ├── EnvironmentFailed        an environment raised; carries its traceback
    ├── NetworkFailed            a network raised, or returned the wrong shapes
    ├── RunNotFound (KeyError)   no such run
    ├── RunExists                a run of that name is there already
    ├── RunNotAlive              the run has ended or its supervisor is dead
    ├── RunAlive                 the run must be stopped first
    ├── RunFailed                the run stopped with an error
    ├── WaitTimeout (TimeoutError)
    ├── HomeNotWritable (OSError)
    ├── StorageFailed (OSError)  a file of a run cannot be written or read: full disk, I/O error, newer format
    ├── AccessDenied (PermissionError)   bad token, or a file that others could have written
    ├── ConnectionLost (ConnectionError) the other process went away
    ├── CheckpointCorrupt        a checkpoint is torn or was changed
    └── MissingPackage (ImportError)     carries the command that installs it
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_SHOWN = 12  # of the names that are known, where none is near


class WorkbenchError(Exception):
    """Base of all errors of the workbench."""

    def __str__(self) -> str:  # KeyError would show the message's repr
        return str(self.args[0]) if self.args else ""


class InvalidInput(WorkbenchError, ValueError):
    """Something given by the caller is wrong."""


def nearest(name: object, known: Iterable[str]) -> str:
    """" Did you mean 'pong'?", where one that is known is like `name`; else ""."""
    near = difflib.get_close_matches(str(name), list(known), n=1, cutoff=0.5)
    return f" Did you mean {near[0]!r}?" if near else ""


class UnknownName(InvalidInput):
    """A name that is not known, with the nearest one that is."""

    @classmethod
    def among(cls, kind: str, name: object, known: Iterable[str], remedy: str = "") -> UnknownName:
        """The error for `name`, which is no `kind` among `known`."""
        names = sorted(set(known) - {name})
        if not (hint := nearest(name, names)):
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            hint = f" Known: {', '.join(names[:_SHOWN])}{more}." if names else ""
        return cls(f"unknown {kind} {name!r}.{hint}{' ' + remedy if remedy else ''}")


class OutOfBounds(InvalidInput):
    """A value outside its field's bounds, or of the wrong type."""


class NotLive(InvalidInput):
    """A change of a field that is fixed once a run has started."""


class ShapeMismatch(InvalidInput):
    """Spaces, shapes or dtypes that do not fit each other."""


class EnvironmentFailed(WorkbenchError):
    """An environment raised in its constructor, reset or step; the message ends with its traceback."""


class NetworkFailed(WorkbenchError):
    """A network raised, or returned something of the wrong shape."""


class RunNotFound(WorkbenchError, KeyError):
    """There is no run of that name or directory."""


class RunExists(WorkbenchError):
    """A run of that name is there already."""


class RunNotAlive(WorkbenchError):
    """The run has ended, or its supervisor is dead."""


class RunAlive(WorkbenchError):
    """What was asked for cannot be done while the run is alive; stop it first."""


class RunFailed(WorkbenchError):
    """The run stopped with an error."""


class WaitTimeout(WorkbenchError, TimeoutError):
    """`wait` ran out of time; the run goes on."""


class HomeNotWritable(WorkbenchError, OSError):
    """The workbench's home directory cannot be written."""


class StorageFailed(WorkbenchError, OSError):
    """A file of a run cannot be written or read: the disk is full, failed, or the format is a newer one."""


class AccessDenied(WorkbenchError, PermissionError):
    """A bad token, or a file that others could have written."""


class ConnectionLost(WorkbenchError, ConnectionError):
    """The process at the other end went away."""


class CheckpointCorrupt(WorkbenchError):
    """A checkpoint is torn, or was changed after it was written."""


class MissingPackage(WorkbenchError, ImportError):
    """An optional package is not installed; the message has the command that installs it."""


def by_name(name: str, message: str) -> WorkbenchError:
    """The error of class `name` with `message`; how an error crosses a process border without pickle."""
    found = globals().get(name)
    if isinstance(found, type) and issubclass(found, WorkbenchError):
        return found(message)
    return WorkbenchError(f"{name}: {message}" if name else message)
