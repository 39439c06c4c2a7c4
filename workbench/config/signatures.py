"""The fields of a run as keyword arguments: for completion, for Shift+Tab, and for type checkers and editors.

`with_fields` gives a function that takes `**fields` the fields' names, types and defaults in its signature, and a table
of them in its docstring. `keywords.py` has the same names and types for type checkers, who run no code:

    python -m workbench.config.signatures    writes it anew
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from workbench.config.algorithms import ALGORITHMS, DEFAULT
from workbench.config.run import RunConfig
from workbench.config.settings import Setting, settings
from workbench.tables import readable

F = TypeVar("F", bound=Callable[..., Any])

_KEYWORDS = Path(__file__).with_name("keywords.py")
ARGUMENTS = (  # of `launch` itself
    "environment", "algorithm", "own_algorithm", "wrappers", "network", "launcher", "address")
_LONGEST = 120  # characters of a line of keywords.py
_LONGEST_HELP = 58  # characters of a table's line


def all_settings(*, live: bool = False) -> dict[str, Setting]:
    """The settings of a run and of every algorithm by name, or only the live ones; the default algorithm's
    where several have one."""
    every: dict[str, Setting] = {}
    for config in (*ALGORITHMS.values(), RunConfig):
        for name, field in settings(config).items():
            every.setdefault(name, field)
    return {name: field for name, field in every.items() if field.live or not live}


def with_fields(*, live: bool = False, also: Iterable[str] = ()) -> Callable[[F], F]:
    """A decorator that shows the fields in the signature and the docstring of a function with `**keywords`.

    Args:
        live: only the live ones, and `also`; their defaults are those of the run, so the signature has none.
    """
    def decorate(function: F) -> F:
        shown = {name: field for name, field in all_settings().items()
                 if name not in ARGUMENTS and (field.live or not live or name in also)}
        signature = inspect.signature(function)
        kept = [parameter for parameter in signature.parameters.values()
                if parameter.kind is not inspect.Parameter.VAR_KEYWORD]
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=_type_of(field),
                              default=... if live else field.default)
            for name, field in shown.items() if name not in signature.parameters
        ]
        function.__signature__ = signature.replace(parameters=[*kept, *added])  # type: ignore[attr-defined]
        if function.__doc__:  # None under python -OO
            function.__doc__ = f"{inspect.cleandoc(function.__doc__)}\n\n{_table(shown)}"
        return function

    return decorate


def bounds_of(field: Setting) -> str:
    """The values that a field takes, such as "0 to 1", "1 to 4096 steps" or "'adam', 'rmsprop'"; "" for any."""
    if field.choices:
        return ", ".join(map(repr, field.choices))
    if field.low is None or field.high is None:
        return "True, False" if field.kind is bool else ""
    return f"{readable(field.low)} to {readable(field.high)}{f' {field.unit}' if field.unit else ''}"


def _table(shown: dict[str, Setting]) -> str:
    """A line for each field: of the run and its default algorithm, then what others have instead or beside."""
    first, others = DEFAULT, [name for name in ALGORITHMS if name != DEFAULT]
    own = settings(ALGORITHMS[first]).keys() | settings(RunConfig).keys()
    lines = [f"Fields ({first}; default, bounds, meaning; a preset may change a default):"]
    lines += [_line(field) for name, field in shown.items() if name in own]
    for algorithm in others:
        theirs = {name: field for name, field in settings(ALGORITHMS[algorithm]).items() if name in shown}
        lines += ["", f"Fields of {algorithm} that {first} lacks, or with another default:"]
        lines += [_line(field) for name, field in theirs.items()
                  if name not in own or field.default != shown[name].default]
    return "\n".join(lines)


def _line(field: Setting) -> str:
    text = field.help if len(field.help) <= _LONGEST_HELP else f"{field.help[:_LONGEST_HELP].rsplit(' ', 1)[0]} …"
    values = bounds_of(field)
    return f"    {field.name} = {field.default!r}{f'  [{values}]' if values else ''}  {text}"


def _type_of(field: Setting) -> str:
    if field.name == "opponent":
        return "Any"  # also a run or a checkpoint
    kind = "dict[str, Any]" if field.kind is dict else field.kind.__name__
    return f"{kind} | None" if field.optional else kind


def generated() -> str:
    """The text of keywords.py."""
    head = '''"""A run's fields as keyword arguments, for type checkers; made by `workbench.config.signatures`."""

from __future__ import annotations

from typing import Any, TypedDict
'''
    classes = [
        _typed_dict("LiveFields", "TypedDict", "Fields that can change while a run learns.", all_settings(live=True)),
        _typed_dict("ResumeFields", "LiveFields", "Fields that can change when a run is resumed.",
                    {"actors": all_settings()["actors"]}),
        _typed_dict("RunFields", "ResumeFields", "All fields of a run but those that are arguments.",
                    {name: field for name, field in all_settings().items()
                     if not field.live and name not in (*ARGUMENTS, "actors")}),
    ]
    return head + "".join(classes)


def _typed_dict(name: str, bases: str, text: str, shown: dict[str, Setting]) -> str:
    lines = [f"    {field.name}: {_type_of(field)}  # {_line(field).split('=', 1)[1].strip()}"
             for field in shown.values()]
    cut = [line if len(line) <= _LONGEST else f"{line[:_LONGEST - 2]} …" for line in lines]
    return "\n".join(["", "", f"class {name}({bases}, total=False):", f'    """{text}"""', "", *cut, ""])


if __name__ == "__main__":
    _KEYWORDS.write_text(generated(), encoding="utf-8")
    print(f"{_KEYWORDS} has {len(all_settings())} fields.")
