"""docs/api.md has every public name with an example; each example's arguments exist, and most of them are run."""

from __future__ import annotations

import ast
import inspect
import runpy
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stdout
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch

import workbench as wb
from tests.conftest import SMALL, eventually
from workbench.errors import WorkbenchError

DOCS = Path(__file__).parents[1] / "docs"
MADE = runpy.run_path(str(DOCS / "api.py"))
WRITTEN = runpy.run_path(str(DOCS / "api_examples.py"))
EXAMPLES: dict[str, str] = WRITTEN["EXAMPLES"]
VARIABLES: dict[str, str] = WRITTEN["VARIABLES"]
CLASSES = {name: getattr(wb, name) for name in wb.__all__ if inspect.isclass(getattr(wb, name))}
UNKNOWN = object()  # what an expression is that the checker cannot tell


def test_the_page_of_the_api_is_fresh() -> None:
    assert (DOCS / "api.md").read_text(encoding="utf-8") == MADE["page"](), "make it anew: python docs/api.py"


def test_a_wrapped_line_of_an_argument_is_no_argument() -> None:
    wrapped = "Write it.\n\nArgs:\n    path: the file, or the folder that one\n        gives: for the first free.\n"
    assert MADE["prose"](wrapped).splitlines()[4:] == [
        "- `path`: the file, or the folder that one", "  gives: for the first free."]


def test_a_signature_names_its_fields_as_its_docstring_does() -> None:
    assert MADE["signature"]("launch", wb.launch).endswith("**fields)")
    assert MADE["signature"]("resume", wb.resume).endswith("**changes)")


def test_every_public_name_method_and_property_has_an_example_and_a_place() -> None:
    assert set(MADE["documented"]()) <= EXAMPLES.keys()
    assert EXAMPLES.keys() <= {*MADE["documented"](), *wb.__all__}, "an example of something that is gone"
    placed = [name for names in WRITTEN["TASKS"].values() for name in names]
    assert sorted(placed) == wb.__all__


# --- each argument in an example exists -------------------------------------------------------------------------------


class Checker(ast.NodeVisitor):
    """Looks up what an example names: attributes by `touched`, and binds the arguments of calls to signatures."""

    def __init__(self) -> None:
        self.touched: set[str] = set()
        self.scope = {name: CLASSES[kind] for name, kind in VARIABLES.items()}

    def kind(self, node: ast.AST) -> Any:
        """A class for an instance of it, a function, a module, or UNKNOWN. Raises AttributeError, TypeError."""
        if isinstance(node, ast.Name):
            return wb if node.id == "wb" else self.scope.get(node.id, UNKNOWN)
        if isinstance(node, ast.Attribute):
            return self.attribute(self.kind(node.value), node.attr)
        if isinstance(node, ast.Call):
            return self.result(self.kind(node.func), node)
        return UNKNOWN

    def attribute(self, owner: Any, name: str) -> Any:
        if owner is UNKNOWN:
            return UNKNOWN
        if inspect.ismodule(owner):
            value = getattr(owner, name)
            self.touched.add(name)
            return ("class", value) if inspect.isclass(value) else value
        kind = owner[1] if isinstance(owner, tuple) else owner
        fields = {*getattr(kind, "__dataclass_fields__", ()), *getattr(kind, "_fields", ())}
        if name in fields or name in kind.__dict__.get("__annotations__", {}):
            return UNKNOWN
        value = inspect.getattr_static(kind, name)
        owners = [each for each in CLASSES.values() if issubclass(kind, each)]
        self.touched |= {f"{each.__name__}.{name}" for each in owners}
        if isinstance(value, property | cached_property):
            return self.named(inspect.signature(value.fget if isinstance(value, property) else value.func))
        return value

    def result(self, function: Any, node: ast.Call) -> Any:
        if function is UNKNOWN:
            return UNKNOWN
        bound = isinstance(function, classmethod) or (
            inspect.isfunction(function) and next(iter(inspect.signature(function).parameters), "") == "self")
        plain = function.__func__ if isinstance(function, classmethod) else function
        if isinstance(function, tuple):
            plain, bound = function[1], False
        elif inspect.ismodule(function):  # wb.environments
            plain, bound = type(function).__call__, True
        signature = inspect.signature(plain)
        if not any(keyword.arg is None for keyword in node.keywords):
            signature.bind(*([None] if bound else []), *node.args,
                           **{keyword.arg: None for keyword in node.keywords})  # type: ignore[misc]
        return function[1] if isinstance(function, tuple) else self.named(signature)

    def named(self, signature: inspect.Signature) -> Any:
        return CLASSES.get(str(signature.return_annotation).partition(" | ")[0].strip("'"), UNKNOWN)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.scope[target.id] = self.kind(node.value)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.kind(node)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        self.kind(node)
        self.generic_visit(node)


def names_of(example: str) -> set[str]:
    """What an example shows for certain, as Owner.name. Raises what is wrong with it."""
    tree = ast.parse(example)
    checker = Checker()
    checker.visit(tree)
    return checker.touched


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_shows_its_name_and_gives_arguments_that_there_are(name: str) -> None:
    tree = ast.parse(EXAMPLES[name])
    if name == "errors":  # it shows what happens to a misspelt argument
        with pytest.raises(TypeError, match="learning_rat"):
            names_of(EXAMPLES[name])
        return
    if not name.startswith("Algorithm."):
        assert name in names_of(EXAMPLES[name])
        return
    method = getattr(wb.Algorithm, name.partition(".")[2])
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            arguments = node.args
            mine = [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
            assert (node.name, mine) == (method.__name__, list(inspect.signature(method).parameters))
            return
        if isinstance(node, ast.Call):
            inspect.signature(method).bind(None, *node.args, **{one.arg: None for one in node.keywords if one.arg})
            return
    raise AssertionError("it neither defines nor calls the method")


@pytest.mark.parametrize(("example", "error"), [
    ("run.tune(learning_rat=1)", TypeError), ("wb.lunch('CartPole-v1')", AttributeError),
    ("run.chekpoint()", AttributeError), ("wb.launch('CartPole-v1', actor=2)", TypeError),
    ("wb.attach('x').wait(second=3)", TypeError), ("checkpoint.diff()", TypeError),
    ("with run.paused():\n    run.checkpoint(replays=True)", TypeError),
])
def test_the_check_of_examples_finds_what_is_wrong(example: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        names_of(example)


# --- most of them are run ---------------------------------------------------------------------------------------------


APART = (  # what costs minutes, ends the run or needs code of the reader's; other files of tests run it
    "Sweep.", "sweep", "attach_sweep", "launch", "resume", "attach", "Run.delete", "Run.rescue", "Run.close",
    "Run.restart_actor", "Run.scale", "Run.share", "Run.track", "PretrainedPolicy.fork", "Algorithm.", "Loss",
    "load_policy", "register_environment",
)


def ordered() -> Iterator[str]:
    """The examples in an order in which each finds what it needs."""
    first = ("Run.checkpoint", "Run.fork", "Run.tune", "Run.undo", "compare", "evaluate", "aggregate", "rollout",
             "play", "Game.step", "Game.hand_over", "pretrained", "export_policy")
    last = ("Game.run", "Game.stop", "Game.close", "Run.stop")
    for name in (*first, *(name for name in EXAMPLES if name not in (*first, *last)), *last):
        apart = name in APART or name.startswith(tuple(each for each in APART if each.endswith(".")))
        if name in EXAMPLES and not apart:
            yield name


@pytest.mark.full
def test_the_examples_run(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with ExitStack() as stack:
        run = wb.launch("CartPole-v1", launcher="inline", name="api", progress=False, **{**SMALL, "actors": 1})
        stack.callback(run.stop)
        run.wait(updates=20, timeout_s=240, progress=False)
        older = run.checkpoint()
        run.wait(updates=run.status.updates + 5, timeout_s=240, progress=False)
        policies = wb.pretrained()
        space: dict[str, Any] = {"wb": wb, "run": run, "older": older, "status": run.status,
                                 "policies": policies,
                                 "sweep_status": wb.SweepStatus.damaged("sweep-1", "its record cannot be read")}
        for name in ordered():
            prepare(name, space)
            with redirect_stdout(StringIO()):
                try:
                    exec(EXAMPLES[name], space)
                except Exception as error:
                    raise AssertionError(f"{name}: {EXAMPLES[name]}") from error
            if name == "play":
                stack.callback(space["game"].close)
            if name == "compare":
                space["other"].stop()  # it has shown what is compared
            if name == "Run.fork":
                stack.callback(space["other"].stop)


def prepare(name: str, space: dict[str, Any]) -> None:
    """Give an example what the page's reader would have."""
    if name == "compare":
        for run in (space["run"], space["other"]):
            eventually(lambda run=run: {"entropy", "episode_return"} <= set(run.metric_names))
    if name == "Loss.of":
        space |= dict.fromkeys(("policy_loss", "value_loss", "entropy"), torch.zeros(()))
    if name.startswith("Aggregate."):
        space["r2d2"] = space["vtrace"]
    if name in ("Game.moment", "Game.press", "Game.step", "Game.advice", "Game.in_words") and space["game"].moment.over:
        space["game"].restart()


def test_what_raises_in_an_example_is_what_the_page_says(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    for name in ("WorkbenchError", "errors"):
        exec(EXAMPLES[name], {"wb": wb})
    printed = capsys.readouterr().out
    assert "no-such-run" in printed and "learning_rate" in printed
    with pytest.raises(WorkbenchError):
        wb.attach("no-such-run")
