"""The public surface is a sorted list, every name on it exists and has a docstring, and none is hidden by a module."""

import inspect
import pkgutil
import re
import subprocess
import sys

import pytest

import workbench as wb
from workbench import errors


def test_public_names_are_sorted() -> None:
    assert wb.__all__ == sorted(wb.__all__)


@pytest.mark.parametrize("name", wb.__all__)
def test_every_public_name_exists_and_is_documented(name: str) -> None:
    assert inspect.getdoc(getattr(wb, name))


def test_no_module_hides_a_public_name() -> None:
    modules = {module.name for module in pkgutil.iter_modules(wb.__path__)}
    assert modules & set(wb.__all__) <= {"environments", "errors"}


@pytest.mark.parametrize("name", [name for name in wb.__all__ if inspect.isfunction(getattr(wb, name))])
def test_public_functions_take_one_or_two_positional_arguments(name: str) -> None:
    parameters = inspect.signature(getattr(wb, name)).parameters.values()
    positional = [one for one in parameters if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    assert len(positional) <= (2 if name in ("check_algorithm", "compare", "register_environment", "setting") else 1)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="lunch"):
        _ = wb.lunch  # type: ignore[attr-defined]


def test_a_name_of_other_libraries_gets_the_call_that_does_the_same() -> None:
    with pytest.raises(AttributeError, match=r"Did you mean wb\.evaluate\(run\)\?"):
        _ = object.__new__(wb.Run).evaluate  # type: ignore[attr-defined]
    for owner, calls in (("workbench", errors._CALLS["workbench"]), ("Run", errors._CALLS["Run"])):
        own = dir(wb.Run) if owner == "Run" else wb.__all__
        assert not set(calls) & set(own)
        for whose, attribute in re.findall(r"\b(wb|run)\.([a-z_]+)", " ".join(calls.values())):
            assert attribute in (wb.__all__ if whose == "wb" else dir(wb.Run))


def test_importing_workbench_loads_nothing_heavy() -> None:
    heavy = ("torch", "pandas", "altair", "grpc", "numpy")
    code = f"import sys, workbench; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_all_names_are_listed_for_completion() -> None:
    assert set(wb.__all__) <= set(dir(wb))
