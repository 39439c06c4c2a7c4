"""The IPython extension: `%load_ext workbench`, or a kernel of `workbench kernel install`, which loads it by itself.

    %runs                                       all runs, as wb.runs()
    %attach pong-vtrace-1                       the handle, also as the variable `run`; without a name: the newest run
    %tune learning_rate=3e-4 entropy_cost=0.02  live fields of `run`; `%tune NAME ...`: of another; alone: lists them
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

from workbench import rundir
from workbench.cli.values import changes_of
from workbench.errors import InvalidInput, RunNotFound, WorkbenchError
from workbench.running.handle import Run, attach
from workbench.running.reading.listing import Runs, runs

_VARIABLE = "run"  # the notebook's variable that holds the handle


class Magics:
    """The magics of one shell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def functions(self) -> dict[str, Callable[[str], Any]]:
        """The magics by name."""
        return {name: _without_traceback(getattr(self, name)) for name in ("runs", "attach", "tune")}

    def runs(self, line: str) -> Runs:
        """All runs, newest first."""
        if line.strip():
            raise InvalidInput(f"%runs takes no argument, but got {line.strip()!r}. %attach NAME returns a handle.")
        return runs()

    def attach(self, line: str) -> Run:
        """The handle of the run of that name, or of the newest one; it is the variable `run` as well."""
        name = line.strip()
        if not name:
            directories = rundir.every()
            if not directories:
                raise RunNotFound(f"there are no runs in {rundir.home() / 'runs'}.")
            name = directories[0].name
        self._shell.user_ns[_VARIABLE] = run = attach(name)
        return run

    def tune(self, line: str) -> Any:
        """Change live fields of a run; without any, list them."""
        try:
            words = shlex.split(line)
        except ValueError as error:  # a quotation that does not end
            raise InvalidInput(f"%tune {line}: {error}. Write %tune NAME field=value.") from None
        has_name = bool(words) and "=" not in words[0]
        run = attach(words.pop(0)) if has_name else self._shell.user_ns.get(_VARIABLE)
        if not isinstance(run, Run):
            raise InvalidInput(f"%tune changes the run in the variable {_VARIABLE!r}, and there is none: "
                               "%attach NAME first, or %tune NAME field=value.")
        if not words:
            return run.hyperparameters
        changes = run.tune(**changes_of(words, run.config))
        for name, new in changes["new"].items():
            print(f"{run.name}: {name} {changes['old'][name]} → {new}")
        return None

    def names(self, _: Any, event: Any) -> list[str]:
        """Completions behind %attach: names of runs."""
        return [directory.name for directory in rundir.every() if directory.name.startswith(event.symbol)]

    def fields(self, _: Any, event: Any) -> list[str]:
        """Completions behind %tune: live fields of `run`."""
        run = self._shell.user_ns.get(_VARIABLE)
        known = [field.name for field in run.hyperparameters] if isinstance(run, Run) else []
        return [f"{name}=" for name in known if name.startswith(event.symbol)]


def _without_traceback(magic: Callable[[str], Any]) -> Callable[[str], Any]:
    """`magic` with errors of one line, without a traceback."""

    def short(line: str) -> Any:
        try:
            return magic(line)
        except WorkbenchError as error:
            from IPython.core.error import UsageError

            raise UsageError(str(error)) from None

    short.__doc__ = magic.__doc__
    return short


def load_ipython_extension(shell: Any) -> None:
    """Called by `%load_ext workbench`."""
    magics = Magics(shell)
    for name, function in magics.functions().items():
        shell.register_magic_function(function, magic_kind="line", magic_name=name)
    shell.set_hook("complete_command", magics.names, str_key="%attach")
    shell.set_hook("complete_command", magics.fields, str_key="%tune")


def unload_ipython_extension(shell: Any) -> None:
    """Called by `%unload_ext workbench`."""
    for name in ("runs", "attach", "tune"):
        shell.magics_manager.magics["line"].pop(name, None)
