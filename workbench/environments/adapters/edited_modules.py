"""Which functions of loaded modules are not what their files say now: a run gets the files, and not what is loaded."""

from __future__ import annotations

import inspect
import sys
import types
from collections import defaultdict
from collections.abc import Iterable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

from workbench.environments.adapters import sent_modules


def edited(names: Iterable[str]) -> dict[str, list[str]]:
    """Names of the functions that were edited since they were imported, by file: those of the modules of these names,
    and of the modules beside the notebook that they import. Imports nothing."""
    found = {}
    for each, source in sent_modules.collected(names)[0].items():
        module = sys.modules.get(each)
        plain = type(getattr(getattr(module, "__spec__", None), "loader", None)) is SourceFileLoader  # rewrites nothing
        if module is not None and plain and (functions := _edited(module, source)):
            found[Path(source[0]).name] = functions
    return found


def _edited(module: types.ModuleType, source: sent_modules.Source) -> list[str]:
    now = defaultdict(list)
    for code in () if (written := sent_modules.compiled(source)) is None else _within(written):
        now[code.co_qualname].append(_work(code))
    loaded = (code for code in _loaded(vars(module), module.__name__) if code.co_filename == source[0])
    return sorted({code.co_qualname for code in loaded if (those := now[code.co_qualname])
                   and _work(code) not in those})


def _within(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code of everything that is defined in `code`."""
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _within(constant)


def _loaded(members: Any, module: str) -> Iterator[types.CodeType]:
    """The code of the functions of a module, or of a class in it."""
    for member in list(members.values()):
        if isinstance(member, type) and member.__module__ == module and vars(member) is not members:
            yield from _loaded(vars(member), module)
        elif isinstance(member, property):
            yield from (function.__code__ for function in (member.fget, member.fset) if inspect.isfunction(function))
        elif inspect.isfunction(function := inspect.unwrap(getattr(member, "__func__", member))):
            yield function.__code__


def _work(code: types.CodeType) -> tuple[Any, ...]:
    """What code does, wherever its lines lie; with the types of constants, since 1, 1.0 and True are equal."""
    constants = tuple(_work(one) if isinstance(one, types.CodeType) else (type(one), one) for one in code.co_consts)
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, constants
