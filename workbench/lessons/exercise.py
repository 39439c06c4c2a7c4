"""Exercises that check themselves.

    check("vtrace.targets", my_targets)      # right, or what is wrong with it
    solution("vtrace.targets")               # the answer, folded until it is clicked
    targets = solved("vtrace.targets", my_targets)   # mine if it is right, else the answer, so that the lesson goes on

An exercise is an attribute of a module in `workbench/lessons/exercises`: `vtrace.targets` is `targets` of `vtrace.py`.
"""

from __future__ import annotations

import copy
import html
import importlib
import inspect
import pkgutil
import textwrap
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from workbench.errors import UnknownName
from workbench.lessons import exercises

_THE_SOLUTION = ("That is the solution, which `solved` has put in the place of yours. Run the cell of your own answer "
                 "again, and check it there.")
_CHANGED = ("It changes what it is given, which others need as it was: work on a copy (`values.copy()` of an array, "
            "`.clone()` of a tensor, `list(steps)`).")


class Wrong(Exception):
    """An answer is wrong; the message says in what, with the input, the answer and what was expected."""


@dataclass(frozen=True)
class Exercise:
    """One exercise.

    Attributes:
        check: takes an answer and returns if it is right; raises Wrong where it is not.
        solution: an answer that is right: a function (its source is shown) or a value.
        why: what the solution shows, in a sentence or two; may be empty.
    """

    check: Callable[[Any], None]
    solution: Any
    why: str = ""

    def is_its_solution(self, answer: Any) -> bool:
        """Whether the answer is the very function or class that is the solution, as `solved` hands it out."""
        return callable(answer) and answer is self.solution

    def verdict(self, answer: Any) -> Verdict:
        """Whether the answer is right, and if not, why. An error that the answer raises is a wrong answer, too, and so
        is a function that changes what it is given, which the lesson needs again."""
        tried = _OnCopies(answer) if callable(answer) and not isinstance(answer, type) else None
        try:
            self.check(tried or answer)
            wrong = ""
        except Wrong as error:
            wrong = str(error)
        except Exception as error:
            wrong = f"It raised {type(error).__name__}: {error}{_line_of(error, answer)}"
        if tried is not None and tried.changed:
            wrong = (f"{wrong}\n" if wrong else "The numbers are right, but: ") + _CHANGED
        return Verdict(not wrong, wrong or self.why)


class _OnCopies:
    """A function, called with copies of what it gets. `changed`: whether a call has changed one of them."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function, self.changed = function, False

    def __call__(self, *given: Any, **named: Any) -> Any:
        copies = copy.deepcopy((given, named))
        before = repr(copies)
        answer = self._function(*copies[0], **copies[1])
        self.changed |= repr(copies) != before
        return answer


@dataclass(frozen=True)
class Verdict:
    """What `check` says; shown by a notebook."""

    right: bool
    text: str

    def __repr__(self) -> str:
        return f"{'Right.' if self.right else 'Not yet.'} {self.text}".strip()

    def _repr_html_(self) -> str:
        colour, mark = ("#2e7d32", "✓ Right.") if self.right else ("#c62828", "✗ Not yet.")
        return (f'<div style="border-left:4px solid {colour};padding:4px 10px;white-space:pre-wrap">'
                f'<b style="color:{colour}">{mark}</b> {html.escape(self.text)}</div>')


@dataclass(frozen=True)
class Solution:
    """The answer to an exercise, folded until it is clicked."""

    code: str
    why: str

    def __repr__(self) -> str:
        return f"<the solution: print(solution(...).code), {len(self.code.splitlines())} lines>"

    def _repr_html_(self) -> str:
        return (f"<details><summary>Show the solution</summary><pre>{html.escape(self.code)}</pre>"
                f"<p>{html.escape(self.why)}</p></details>")


def check(name: str, answer: Any) -> Verdict:
    """The verdict on an answer to the exercise `name`, such as "vtrace.targets". Raises UnknownName."""
    exercise = named(name)
    return Verdict(False, _THE_SOLUTION) if exercise.is_its_solution(answer) else exercise.verdict(answer)


def solution(name: str) -> Solution:
    """The answer to the exercise `name`, folded. Raises UnknownName."""
    exercise = named(name)
    answer = exercise.solution
    code = textwrap.dedent(inspect.getsource(answer)) if callable(answer) else repr(answer)
    return Solution(code.strip(), exercise.why)


def solved(name: str, answer: Any) -> Any:
    """`answer` if it is right, otherwise the solution, and a line says which of them the lesson goes on with."""
    exercise = named(name)
    if exercise.is_its_solution(answer):
        print(f"{name}: the lesson goes on with the solution, as before.")
        return answer
    if exercise.verdict(answer).right:
        print(f"{name}: the lesson goes on with yours.")
        return answer
    print(f"{name}: the lesson goes on with the solution, since yours is not right yet.")
    return exercise.solution


def named(name: str) -> Exercise:
    """The exercise of that name. Only its own module is imported: others load torch. Raises UnknownName."""
    module = name.partition(".")[0]
    found = _of_module(module) if module in _modules() else {}
    if name not in found:
        raise UnknownName.among("exercise", name, every())
    return found[name]


def every() -> dict[str, Exercise]:
    """All exercises by name, "module.attribute"."""
    return {name: exercise for module in _modules() for name, exercise in _of_module(module).items()}


def _modules() -> list[str]:
    return [module.name for module in pkgutil.iter_modules(exercises.__path__)]


def _of_module(module: str) -> dict[str, Exercise]:
    attributes = vars(importlib.import_module(f"{exercises.__name__}.{module}"))
    return {f"{module}.{name}": value for name, value in attributes.items() if isinstance(value, Exercise)}


def _line_of(error: BaseException, answer: Any) -> str:
    """", in line 3: ..." of the answer's own code; "" where the error came from elsewhere."""
    path = getattr(getattr(answer, "__code__", None), "co_filename", None)
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return f", in line {lines[-1].lineno} of its cell: {lines[-1].line}" if lines else ""
