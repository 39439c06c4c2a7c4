"""Tab completion in IPython and Jupyter of what a call of the workbench takes: fields, their choices, and names.

    wb.launch("ALE/Po⇥           environments           wb.launch("CartPole-v1", lear⇥    fields
    run.metrics("epi⇥            names of metrics       run.tune(⇥                        live fields of this run
    wb.attach("⇥                 names of runs          wb.launch(..., optimizer="⇥       choices of a field

The code before the cursor is read as words and never executed. An object is looked up by name among the variables.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

_TOKEN = re.compile(
    r"""(?P<text>(?P<three>'{3}|"{3})(?s:.*?)(?P=three)|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")|(?P<comment>\#.*)"""
    r"""|(?P<open>['"](?=.*\Z))|(?P<word>[\w.]+)|(?P<mark>[^\s\w])""")
_LONGEST = 4000  # characters of code that are read, up to the cursor
_RUN_NAMES = ("attach", "resume", "evaluate", "rollout", "play", "export_policy", "compare", "card")


class Call(NamedTuple):
    """The innermost call that is open at the cursor.

    Attributes:
        function: its name with dots, such as "wb.launch".
        keyword: of the argument that the cursor is in; "" if it has none.
        place: number of arguments before the cursor's.
        prefix: the word or text that the cursor ends.
        quoted: whether that is text in quotes.
        keywords: that the call has already.
    """

    function: str
    keyword: str
    place: int
    prefix: str
    quoted: bool
    keywords: tuple[str, ...]


@dataclass
class _Open:
    """A bracket that is not closed; its function is "" where it is no call's."""

    function: str
    place: int = 0
    keyword: str = ""
    keywords: list[str] = field(default_factory=list)


def join(shell: Any) -> None:
    """Add completion to a shell of IPython, once, and an error that helps where a bare `run` means a lost variable."""
    try:
        from IPython.core.completer import context_matcher
    except ImportError:  # IPython before 8.6, as in Colab, whose editor completes by itself
        return
    matchers = shell.Completer.custom_matchers
    if any(getattr(matcher, "__name__", "") == "workbench_matcher" for matcher in matchers):
        return

    @context_matcher()  # type: ignore[untyped-decorator, unused-ignore]
    def workbench_matcher(context: Any) -> dict[str, Any]:
        lines = context.full_text.split("\n")[: context.cursor_line]  # above the cursor's
        words, prefix = matches("\n".join([*lines, context.text_until_cursor]), shell.user_ns)
        return _result(words, prefix)

    matchers.insert(0, workbench_matcher)
    _explain_bare_run(shell)


def _result(words: Iterable[str], prefix: str) -> dict[str, Any]:
    from IPython.core.completer import SimpleCompletion

    completions = [SimpleCompletion(text=word, type="param" if word.endswith("=") else "text") for word in words]
    return {"completions": completions, "suppress": bool(completions), "matched_fragment": prefix, "ordered": True}


def matches(code: str, variables: Mapping[str, Any]) -> tuple[list[str], str]:
    """What may stand in place of the word at the end of `code`, and that word."""
    call = open_call(code[-_LONGEST:])
    function, owner = (None, None) if call is None else _looked_up(call.function, variables)
    if call is None or function is None:
        return [], ""
    if call.quoted:
        words = _texts(call, function, owner)
    elif call.keyword:
        return [], ""
    else:
        words = [f"{name}=" for name in _keywords(function, owner) if name not in call.keywords]
    return [word for word in words if word.startswith(call.prefix)], call.prefix


def open_call(code: str) -> Call | None:
    """The innermost call that is open at the end of `code`; None outside of any."""
    calls: list[_Open] = []
    word, quoted = "", False  # the word just before a token
    for token in _TOKEN.finditer(code):
        text = token[0]
        if token.lastgroup == "open":  # a quote without its end: the cursor is in it
            word, quoted = code[token.end():], True
            break
        if token.lastgroup == "mark":
            _step(calls, text, word)
        word = text if token.lastgroup == "word" else ""
    if not calls or not calls[-1].function:
        return None
    innermost = calls[-1]
    return Call(innermost.function, innermost.keyword, innermost.place, word if quoted or code.endswith(word) else "",
                quoted, tuple(innermost.keywords))


def _step(calls: list[_Open], mark: str, word: str) -> None:
    """Follow one mark of the code, with the word just before it."""
    if mark in "([{":
        calls.append(_Open(word if mark == "(" else ""))
    elif calls and mark in ")]}":
        calls.pop()
    elif calls and mark == ",":
        calls[-1].place, calls[-1].keyword = calls[-1].place + 1, ""
    elif calls and mark == "=" and word and not calls[-1].keyword:
        calls[-1].keyword = word
        calls[-1].keywords.append(word)


def _looked_up(name: str, variables: Mapping[str, Any]) -> tuple[Callable[..., Any] | None, Any]:
    """The function of the workbench with that name, and the object whose method it is; (None, None) for others."""
    first, *rest = name.split(".")
    value, owner = variables.get(first), None
    if rest[1:]:
        return None, None
    if rest and value is sys.modules.get("workbench"):
        value = getattr(value, rest[0], None)
    elif rest and type(value).__module__.startswith("workbench."):
        value, owner = getattr(type(value), rest[0], None), value
    if not callable(value) or not str(getattr(value, "__module__", "")).startswith("workbench."):
        return None, None
    return value, owner


def _keywords(function: Callable[..., Any], owner: Any) -> list[str]:
    """The keywords of a call; of a method of a run, fields of its own algorithm only."""
    names = [name for name, parameter in inspect.signature(function).parameters.items()
             if name != "self" and parameter.kind is not parameter.VAR_POSITIONAL]
    config = getattr(owner, "config", None) if hasattr(owner, "hyperparameters") else None
    if config is None:
        return names
    from workbench.config.signatures import all_settings

    has = config.all_settings()
    foreign = all_settings().keys() - has.keys()  # of other algorithms
    takes_fields = "learning_rate" in names
    mine = [name for name, setting in has.items() if name not in names and takes_fields
            and (setting.live or function.__name__ != "tune")]  # of an algorithm of the user's own
    return [name for name in names if name not in foreign] + mine


def _texts(call: Call, function: Callable[..., Any], owner: Any) -> list[str]:
    """The texts that an argument takes."""
    keyword, name = call.keyword, function.__name__
    first = not keyword and call.place == 0
    if keyword == "environment" or (first and name in ("launch", "sweep")):
        return _environments()
    if first and name == "metrics":
        return list(getattr(owner, "metric_names", []))
    if first and name in _RUN_NAMES:
        return _runs()
    if first and name == "undo":
        return _keywords(type(owner).tune, owner)
    return _choices(keyword)


def _environments() -> list[str]:
    from workbench.environments.catalogue import every_name

    return every_name()


def _runs() -> list[str]:
    from workbench import rundir

    return [directory.name for directory in rundir.every()]


def _choices(keyword: str) -> list[str]:
    """The texts that a field, or an argument of `launch`, may be."""
    from workbench import launchers
    from workbench.config import ALGORITHMS, NETWORKS
    from workbench.config.signatures import all_settings

    known = {"algorithm": tuple(ALGORITHMS), "network": NETWORKS, "launcher": launchers.LAUNCHERS}
    setting = all_settings().get(keyword)
    return list(known.get(keyword) or (setting.choices if setting else ()))


def _explain_bare_run(shell: Any) -> None:
    """`run` alone in a cell is the variable of a run; after a restart IPython takes it for its magic %run."""
    magic = shell.find_line_magic("run")
    if magic is None:
        return

    def run(line: str = "", *arguments: Any, **options: Any) -> Any:
        if line.strip() or arguments:
            return magic(line, *arguments, **options)
        from IPython.core.error import UsageError

        names = _runs()
        remedy = f"run = wb.attach({names[0]!r})" if names else "run = wb.launch('CartPole-v1')"
        raise UsageError(f"this kernel has no variable 'run' (a restart takes variables, not runs). {remedy}")

    run.__doc__ = magic.__doc__
    shell.register_magic_function(run, magic_kind="line", magic_name="run")
