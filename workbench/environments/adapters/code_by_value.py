"""A factory or wrappers as bytes, code included, so that classes typed in a cell run in this user's other processes.

cloudpickle sends classes and functions of `__main__` by value. With them travel the source lines of the cells that
define them, since a traceback elsewhere would show none, the text of the modules beside the notebook that they need
(`sent_modules`), and the kernel's import path. Loading runs code: which file's may run is decided in `rundir.sealed`.
"""

from __future__ import annotations

import inspect
import io
import linecache
import pickle
import sys
import traceback
import types
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import cloudpickle

from workbench.environments.adapters import sent_modules
from workbench.environments.adapters.wrapping import Factory, Wrapped
from workbench.errors import (
    AlgorithmFailed,
    EnvironmentFailed,
    InvalidInput,
    NetworkFailed,
    StorageFailed,
    WorkbenchError,
)
from workbench.rundir import sealed
from workbench.rundir.files import absolute

_FAILURES = {"environment": EnvironmentFailed, "network": NetworkFailed, "algorithm": AlgorithmFailed}


class _SourceCollector(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """A pickler that notes the files of all code that it writes by value, and modules that are to be imported."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.filenames: set[str] = set()
        self.modules: set[str] = set()

    def reducer_override(self, item: Any) -> Any:
        if isinstance(item, types.CodeType):
            self.filenames.add(item.co_filename)
            self.modules.update(sent_modules.imports_of(item))
        elif isinstance(item, types.ModuleType):
            self.modules.add(item.__name__)
        elif isinstance(item, type | types.FunctionType) and isinstance(item.__module__, str):
            self.modules.add(item.__module__)
        return super().reducer_override(item)


def _unsendable(factory: Any) -> str:
    """The name of a variable that a class or function uses and that cannot be sent, with a colon; "" if none is found.
    """
    members: Mapping[str, Any] = vars(factory) if isinstance(factory, type) else {"": factory}
    used = {name: value for name, value in members.items() if not (inspect.isfunction(value) or name.startswith("__"))}
    for function in filter(inspect.isfunction, members.values()):
        variables = inspect.getclosurevars(function)
        used |= {**variables.globals, **variables.nonlocals}
    for name, value in used.items():
        try:
            cloudpickle.dumps(value)
        except Exception:
            if value is not factory:
                return f"{name}: "
    return ""


def dumps(factory: Factory | Wrapped, *, imports: Iterable[str] = ()) -> bytes:
    """`factory` (a class, a function, or wrappers) with its code, as bytes for `loads` in another process of this user.

    Args:
        imports: names of further modules that the other process will import.

    Raises InvalidInput if it refers to something that cannot be sent.
    """
    file = io.BytesIO()
    collector = _SourceCollector(file)
    try:
        collector.dump(factory)
    except Exception as error:
        name = factory.names if isinstance(factory, Wrapped) else getattr(factory, "__qualname__", repr(factory))
        raise InvalidInput(
            f"{name} cannot be sent to another process: {_unsendable(factory)}{error}. Create open files, locks, "
            "windows and generators inside it, not outside."
        ) from error
    sources = {name: linecache.getlines(name) for name in sorted(collector.filenames)}
    modules, unsent = sent_modules.collected(sorted({*collector.modules, *imports}))
    return cloudpickle.dumps(  # type: ignore[no-any-return]
        (sources, absolute(sys.path), file.getvalue(), modules, unsent))


def loads(data: bytes, *, failure: type[WorkbenchError] = EnvironmentFailed) -> Any:
    """The argument of `dumps`: a factory or wrappers.

    Runs the code in `data`: only for bytes from `rundir.sealed`, or from this process's own parent.

    Its source lines show in later tracebacks of this process. Raises `failure` if its code cannot be loaded here, for
    instance because it imports a module that does not exist.
    """
    sources, path, payload, modules, unsent = (*pickle.loads(data), {}, {})[:5]  # noqa: S301  # see above
    sys.path.extend(entry for entry in path if entry not in sys.path and Path(entry).exists())
    for name, lines in sources.items():
        if lines and not Path(name).exists():
            # no modification time: linecache.checkcache leaves the entry alone
            linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
    try:
        with sent_modules.importable(modules):
            return pickle.loads(payload)  # noqa: S301
    except Exception as error:
        raise failure(
            f"code of this run could not be loaded in another process: {_why(error, unsent)}\n\n"
            + traceback.format_exc().rstrip()) from error


def _why(error: Exception, unsent: dict[str, str]) -> str:
    """An error in words; `unsent`: why modules beside the notebook were not sent, by name."""
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    if name in unsent:
        return (f"the module {name} was not sent, since {unsent[name]}. Put it into a package that is installed there, "
                "or into a folder of shared storage that is on PYTHONPATH.")
    return f"{type(error).__name__}: {error}"


def load_factory(*paths: Path, trust_code: bool = False) -> Any:
    """The factory, the wrappers or the class in the first of these files that is there; None if none is.

    Raises AccessDenied for code that no launch of this user wrote here, unless the user trusts it, see
    `rundir.sealed`; StorageFailed for torn code; EnvironmentFailed, NetworkFailed or AlgorithmFailed, by the file's
    name, as `loads`.
    """
    for path in paths:
        if (code := sealed.read(path, trust_code=trust_code)) is not None:
            if not sealed.is_code(code):
                raise StorageFailed(f"{path} is torn: it does not begin and end as code does. Put a copy of it back.")
            return loads(code, failure=_FAILURES[path.stem])
    return None
