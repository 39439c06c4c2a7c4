"""Writes docs/api.md: the public interface by task, from signatures, docstrings and examples. `python docs/api.py`"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import workbench as wb
from workbench.config.signatures import ARGUMENTS, all_settings

sys.path.insert(0, str(Path(__file__).parent))
from api_examples import EXAMPLES, TASKS

PAGE = Path(__file__).with_suffix(".md")
HEAD = """# API

Made from the code by `python docs/api.py`; a test keeps it fresh, checks the arguments of each example, and runs most
of them.

```python
import workbench as wb
```

Everything public is a name of this module, or an attribute of what its calls return. Arguments after the first are
given by name. `**fields` and `**changes` stand for [fields](fields.md) of a run, which editors complete. Importing
the module loads no torch; `wb.Algorithm` and `wb.Loss` do.
"""
SECTION = re.compile(r"^(Args|Attributes|Returns|Raises):$")
ITEM = re.compile(r"^    (\*{0,2}\w[\w, .…]*): (.*)$")  # deeper lines continue the item before


def members(owner: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a public class that no other public class has, in order of declaration."""
    others = [getattr(wb, name) for name in wb.__all__ if inspect.isclass(getattr(wb, name))]
    bases = [each for each in owner.__mro__ if each is owner or (each.__module__.startswith("workbench.")
             and each not in others and each.__module__ != "workbench.tables")]
    seen = set()
    for base in bases:
        for name, value in vars(base).items():
            kinds = (property, cached_property, classmethod, staticmethod)
            is_member = inspect.isfunction(value) or isinstance(value, kinds)
            if is_member and not name.startswith("_") and name not in seen:
                seen.add(name)
                yield name, value


def is_property(value: Any) -> bool:
    """Whether a member is read rather than called."""
    return isinstance(value, property | cached_property)


def documented() -> list[str]:
    """What needs an example: each public function, and each method and property, as Owner.name."""
    names = []
    for name in wb.__all__:
        value = getattr(wb, name)
        if not inspect.isclass(value):
            names.append(name)
        names += [f"{name}.{member}" for member, _ in members(value)] if inspect.isclass(value) else []
    return names


def example(name: str) -> str:
    """The example of a public name. Exits with what to do where it has none."""
    if name not in EXAMPLES:
        sys.exit(f"{name} is public and has no example: add one to EXAMPLES in docs/api_examples.py, and if it is a "
                 "name of workbench itself, its section to TASKS.")
    return EXAMPLES[name]


def signature(name: str, function: Any) -> str:
    """The call, without types; the fields of a run are one `**fields`, or as the function names them."""
    function = function.__func__ if isinstance(function, classmethod | staticmethod) else function
    if inspect.ismodule(function):
        return f"wb.{name}(pattern=None)"
    fields = {field for field in all_settings() if field not in ARGUMENTS}
    parts, star, takes = [], False, False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.VAR_KEYWORD or (parameter.name in fields and name.split(".")[-1] in (
                "launch", "resume", "tune", "fork", "sweep")):
            takes = takes or parameter.kind is not parameter.VAR_KEYWORD
            if parameter.kind is parameter.VAR_KEYWORD:
                parts.append(f"**{parameter.name}")
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        parts.append(f"{parameter.name}{default}")
    owner, _, member = name.rpartition(".")
    call = f"{owner}.{member}" if owner else f"wb.{name}"
    return f"{call}({', '.join([*parts, *([f'**{keywords(function)}'] if takes else [])])})"


def keywords(function: Any) -> str:
    """The name behind the ** of a function whose signature shows fields in its place."""
    code = inspect.unwrap(function).__code__
    at = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS)
    return str(code.co_varnames[at]) if code.co_flags & inspect.CO_VARKEYWORDS else "fields"


def prose(docstring: str) -> str:
    """A docstring as Markdown: its sections as lists, its indented code as code."""
    text = inspect.cleandoc(docstring).partition("\n\nFields (")[0]
    lines: list[str] = []
    section = ""
    for line in text.splitlines():
        if SECTION.match(line):
            section = line[:-1]
            lines += [] if not lines or not lines[-1] else [""]
            lines += [f"**{section}**", ""]
        elif section and (item := ITEM.match(line)):
            lines.append(f"- `{item[1]}`: {escaped(item[2])}")
        elif section and line.startswith("    "):
            lines.append(f"  {escaped(line.strip())}" if lines[-1] else f"{escaped(line.strip())}")
        else:
            if section and line:
                section = ""
            lines.append(line if line.startswith("    ") else escaped(line))
    return "\n".join(fenced(lines))


def fenced(lines: list[str]) -> Iterator[str]:
    """The lines, with indented code between fences."""
    inside = False
    for at, line in enumerate(lines):
        code = line.startswith("    ") or (inside and not line and any(
            later for later in lines[at + 1:at + 2] if later.startswith("    ")))
        if code != inside:
            yield "```text" if code else "```"
            if not code and line:
                yield ""
        inside = code
        yield line[4:] if code else line
    if inside:
        yield "```"


def escaped(text: str) -> str:
    """Text in which Markdown reads no emphasis, outside of code in backticks."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([*_<>|])", r"\\\1", part) for part in parts)


def first_paragraph(value: Any) -> str:
    """The first paragraph of a docstring in one line, for a table."""
    text = inspect.cleandoc((value.func if isinstance(value, cached_property) else value).__doc__ or "")
    return escaped(" ".join(text.partition("\n\n")[0].split()))


def call_section(name: str, value: Any, level: str) -> list[str]:
    """The section of a function or method."""
    function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
    docstring = type(value).__call__.__doc__ if inspect.ismodule(value) and callable(value) else function.__doc__
    title = name if "." in name else f"wb.{name}"
    head = [] if name == "errors" else ["", "```text", *textwrap.wrap(
        signature(name, value), 110, subsequent_indent="    ", break_long_words=False), "```"]
    if name == "environments":
        from workbench.environments.catalogue import environments

        docstring = environments.__doc__
    if name == "errors":
        docstring = "The module of all errors: see [errors](errors.md)."
        return ["", f"{level} {title}", "", docstring, "", "```python", example(name), "```"]
    return ["", f"{level} {title}", *head, "", prose(docstring or ""), "", "```python", example(name), "```"]


def class_section(name: str, owner: type) -> list[str]:
    """The section of a class: what it is, its properties in a table, its methods one by one."""
    lines = ["", f"### wb.{name}", "", prose(owner.__doc__ or "")]
    if name in EXAMPLES:
        lines += ["", "```python", example(name), "```"]
    if name.endswith("Config"):
        return [*lines, "", "Its fields: [fields](fields.md)."]
    properties = [(member, value) for member, value in members(owner) if is_property(value)]
    if properties:
        lines += ["", "| property | what it is | example |", "|---|---|---|", *(
            f"| `{member}` | {first_paragraph(value)} | `{example(f'{name}.{member}').replace('|', chr(92) + '|')}` |"
            for member, value in properties)]
    for member, value in members(owner):
        if not is_property(value):
            lines += call_section(f"{name}.{member}", value, "####")
    return lines


def page() -> str:
    """The text of docs/api.md."""
    lines: list[str] = []
    for task, names in TASKS.items():
        lines += ["", f"## {task}"]
        for name in names:
            value = getattr(wb, name)
            lines += class_section(name, value) if inspect.isclass(value) else call_section(name, value, "###")
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.name} has {len(documented())} examples.")
