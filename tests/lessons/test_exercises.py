"""Each exercise accepts its solution and refuses answers that students give; a module of wrong ones for each lesson."""

from __future__ import annotations

import functools
import importlib
import subprocess
import sys
from typing import Any

import pytest

from workbench import errors
from workbench.lessons import check, solution, solved
from workbench.lessons.exercise import every

EXERCISES = every()


def wrong_answers(name: str) -> list[Any]:
    """`WRONG` of tests/lessons/wrong_<module>.py: by attribute, at least three answers that are wrong."""
    module, _, attribute = name.partition(".")
    answers: list[Any] = importlib.import_module(f"tests.lessons.wrong_{module}").WRONG[attribute]
    return answers


@pytest.mark.parametrize("name", EXERCISES)
def test_an_exercise_accepts_its_solution_and_shows_it(name: str) -> None:
    verdict = EXERCISES[name].verdict(EXERCISES[name].solution)
    assert verdict.right, verdict.text
    assert "Right." in verdict._repr_html_()
    folded = solution(name)
    assert folded.code and "<details><summary>" in folded._repr_html_()


@pytest.mark.parametrize("name", EXERCISES)
def test_an_exercise_refuses_three_wrong_answers_and_says_why(name: str) -> None:
    answers = wrong_answers(name)
    assert len(answers) >= 3
    verdicts = {repr(answer): check(name, answer) for answer in answers}
    assert [answer for answer, verdict in verdicts.items() if verdict.right] == []
    assert all(len(verdict.text) > 15 for verdict in verdicts.values())


@pytest.mark.parametrize("name", EXERCISES)
def test_an_answer_that_is_not_written_yet_is_wrong_in_words(name: str) -> None:
    unwritten = (lambda *_, **__: ...) if callable(EXERCISES[name].solution) else ...
    assert "Not yet" in repr(check(name, unwritten))


def test_a_lesson_goes_on_with_the_students_answer_only_if_it_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    ours, wrong = EXERCISES["vtrace.targets"].solution, wrong_answers("vtrace.targets")[0]

    def mine(*given: Any, **named: Any) -> Any:
        return ours(*given, **named)

    assert solved("vtrace.targets", mine) is mine and "yours." in capsys.readouterr().out
    assert solved("vtrace.targets", wrong) is ours and "not right yet" in capsys.readouterr().out


def test_the_solution_is_never_taken_for_the_students_answer(capsys: pytest.CaptureFixture[str]) -> None:
    answer = wrong_answers("vtrace.targets")[0]
    for words in ("not right yet", "the solution, as before."):  # a cell that is run twice
        answer = solved("vtrace.targets", answer)
        assert words in capsys.readouterr().out
    verdict = check("vtrace.targets", answer)
    assert not verdict.right and "`solved` has put in the place of yours" in verdict.text


def test_an_answer_that_raises_is_told_its_line() -> None:
    def mine(values: Any, **_: Any) -> Any:
        return values["x"]

    assert 'values["x"]' in check("vtrace.targets", mine).text


def test_an_answer_is_judged_on_copies_and_told_that_it_changes_what_it_gets() -> None:
    def right(rewards: Any, discounts: Any) -> Any:
        for t in reversed(range(len(rewards) - 1)):
            rewards[t] += discounts[t] * rewards[t + 1]
        return rewards

    def wrong(rewards: Any, discounts: Any) -> Any:
        rewards *= 2
        return rewards

    verdict = check("reinforce.discounted_returns", right)
    assert not verdict.right and verdict.text.startswith("The numbers are right, but: It changes what it is given")
    assert check("reinforce.discounted_returns", functools.partial(right)).text == verdict.text, "not only functions"
    verdict = check("reinforce.discounted_returns", wrong)
    assert "rewards = [[1.0, 1.0]" in verdict.text and verdict.text.endswith("`list(steps)`).")


def test_a_hint_names_the_mistake_and_shows_the_numbers_that_were_given() -> None:
    above = wrong_answers("first_run.reached")[1]
    assert "a return equal to the target has reached it" in check("first_run.reached", above).text
    shown = check("lag_in_small.push", lambda probability, epsilon=1e-6: probability).text
    assert "π = 0.5\n  ε = 1e-06\n  yours:    0.5\n  expected: 0.999998" in shown


def test_an_answer_of_the_first_lesson_is_checked_without_torch() -> None:
    code = ("import sys; from workbench.lessons import check; print(check('first_run.restart', 'goes on').right, "
            "'torch' in sys.modules)")
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=240)
    assert said.stdout.split() == ["True", "False"]


def test_an_unknown_exercise_has_a_near_name() -> None:
    with pytest.raises(errors.UnknownName, match="vtrace.targets"):
        check("vtrace.target", None)
