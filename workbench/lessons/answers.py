"""Kinds of exercises, and what checks have in common: Wrong says the input, the answer and what was expected."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from workbench.lessons.exercise import Exercise, Wrong


def expect_written(answer: Any) -> Any:
    """The answer. Raises Wrong where there is none yet, or a function still returns nothing."""
    if answer is ...:
        raise Wrong("Write your answer in the place of the three dots.")
    if answer is None:
        raise Wrong("It returns nothing yet: write its body, and return the result.")
    return answer


def expect_close(answer: Any, expected: Any, words: str, inputs: Mapping[str, Any], *, tolerance: float = 1e-5) -> None:
    """Raises Wrong unless the numbers of `answer` are those of `expected`, to `tolerance` of 1 + their size."""
    numbers, wanted = np.asarray(answer, dtype=float), np.asarray(expected, dtype=float)
    if numbers.shape != wanted.shape:
        raise Wrong(f"{words}: it returns numbers of shape {numbers.shape}, where {wanted.shape} is needed.")
    if not np.allclose(numbers, wanted, rtol=tolerance, atol=tolerance):
        given = "\n".join(f"  {name} = {_short(value)}" for name, value in inputs.items())
        raise Wrong(f"{words}, it differs.\n{given}\n  yours:    {_short(numbers)}\n  expected: {_short(wanted)}")


def compared(
    right: Callable[..., Any], *cases: tuple[Any, ...], why: str, words: str = "", names: Sequence[str] = (),
    tolerance: float = 1e-5, expected: Callable[..., Any] | None = None,
) -> Exercise:
    """An exercise whose answer is a function that returns the numbers of `right` in each case; or those of `expected`,
    where `right` shows how a student would write it.

    A case holds the arguments, or a dict of them, and, last, what is special in it; where `words` say that for all
    cases, arguments alone. A wrong answer is shown with its arguments by `names`, which are those of the parameters
    unless given.
    """
    names = names or list(inspect.signature(right).parameters)

    def check(answer: Any) -> None:
        for case in cases:
            inputs, said = (case, words) if words else (case[:-1], case[-1])
            named = inputs[0] if isinstance(inputs[0], dict) else {}
            inputs = () if named else inputs
            shown = {name: named[name] for name in names if name in named} or dict(zip(names, inputs, strict=False))
            mine = expect_written(answer(*inputs, **named))
            expect_close(mine, (expected or right)(*inputs, **named), said, shown, tolerance=tolerance)

    return Exercise(check, right, why)


def number(
    right: float, words: str, inputs: Mapping[str, Any], *, why: str, hints: Mapping[float, str] | None = None,
    tolerance: float = 1e-5,
) -> Exercise:
    """An exercise whose answer is a number, which `words` say how to compute from `inputs`; `hints` say why some others
    are not."""

    def check(answer: Any) -> None:
        said = float(expect_written(answer))
        for wrong, hint in (hints or {}).items():
            if math.isclose(said, wrong):
                raise Wrong(hint)
        expect_close(said, right, words, inputs, tolerance=tolerance)

    return Exercise(check, right, why)


def table(right: Mapping[str, str], hints: Mapping[str, str], *, why: str, missing: str) -> Exercise:
    """An exercise whose answer gives each key of `right` one of some words; `hints` say what to ask about a key, and
    `missing` what to fill in."""

    def check(answer: Any) -> None:
        if not isinstance(answer, Mapping) or any(value is ... for value in answer.values()):
            raise Wrong(missing)
        said = {key: str(answer.get(key, "")).strip() for key in right}
        wrong = [key for key, word in right.items() if said[key].lower() != word.lower()]
        if wrong:
            raise Wrong(f"{len(right) - len(wrong)} of {len(right)} are right.\n" + "\n".join(
                f"  {key}: you said {said[key] or 'nothing'}; {hints[key]}" for key in wrong))

    return Exercise(check, right, why)


def choice(right: str, hints: Mapping[str, str], *, why: str) -> Exercise:
    """An exercise whose answer is one of some words: `right`; `hints` say why each other one is not."""
    return Exercise(partial(expect_choice, right=right, hints=hints), right, why)


def expect_choice(answer: Any, right: str, hints: Mapping[str, str]) -> None:
    """Raises Wrong unless the answer is `right`; `hints` say why each other choice is not."""
    if answer is None or answer is ...:
        raise Wrong("There is no answer yet: put it in the place of the three dots.")
    said = str(answer).strip().lower()
    if said == right.lower():
        return
    known = {choice.lower(): hint for choice, hint in hints.items()}
    raise Wrong(known.get(said, f"{answer!r} is not one of the answers: {_listed([right, *hints])}."))


def _listed(choices: Iterable[str]) -> str:
    return ", ".join(repr(choice) for choice in sorted(choices))


def _short(value: Any) -> str:
    """Numbers, rounded to six digits, so that a probability of 10⁻⁸ is none of 0; what float errors leave is 0."""
    rounded = np.vectorize(lambda number: float(f"{number:.6g}"), otypes=[float])
    return str(rounded(np.round(np.asarray(value, dtype=float), 12)).tolist())
