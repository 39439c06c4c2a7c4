"""Type checkers know the fields of a run: keywords.py is fresh, and mypy refuses a field that there is not."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import workbench as wb
from workbench.config import RunConfig, keywords, signatures
from workbench.errors import UnknownName

REFUSED = {  # calls, and the field that mypy refuses there
    "wb.launch('CartPole-v1', learning_rate=1e-3, actors=2, opponent=None)": "",
    "wb.launch('CartPole-v1', learning_rat=1e-3)": "learning_rat",
    "wb.launch('CartPole-v1', learning_rate='fast')": "learning_rate",
    "wb.attach('a').tune(entropy_cost=0.1)": "",
    "wb.attach('a').tune(unroll_length=3)": "unroll_length",
    "wb.attach('a').fork(unroll_length=3)": "",
    "wb.resume('a', actors=3)": "",
    "wb.resume('a', unroll_length=3)": "unroll_length",
}


def test_the_generated_keywords_are_fresh() -> None:
    text = Path(keywords.__file__).read_text(encoding="utf-8")
    assert text == signatures.generated(), "make them anew: python -m workbench.config.signatures"


def test_signatures_show_the_fields_that_a_call_takes() -> None:
    launch, tune = (inspect.signature(function).parameters for function in (wb.launch, wb.Run.tune))
    assert launch["unroll_length"].default == 20 and launch["learning_rate"].annotation == "float"
    assert "learning_rate" in tune and "unroll_length" not in tune
    assert not any(parameter.kind is parameter.VAR_KEYWORD for parameter in (*launch.values(), *tune.values()))


@pytest.mark.full
def test_mypy_knows_the_fields(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("\n".join(["import workbench as wb", *REFUSED]), encoding="utf-8")
    checked = subprocess.run([sys.executable, "-m", "mypy", "--strict", str(file)], capture_output=True, text=True)
    said = dict(re.findall(r"mine\.py:(\d+): error: (.+)", checked.stdout))
    refused = {str(line): field for line, field in enumerate(REFUSED.values(), start=2) if field}
    assert said.keys() == refused.keys(), checked.stdout + checked.stderr
    assert all(field in said[line] for line, field in refused.items()), checked.stdout


def test_fields_of_a_run_are_read_by_name() -> None:
    config = RunConfig.build("x", algorithm="ppo", clip=0.3, actors=3)
    assert (config["clip"], config["actors"]) == (0.3, 3)
    assert "clip" in config and "to_json" not in config and "q_value" not in config
    with pytest.raises(TypeError, match="not iterable"):
        list(config)  # type: ignore[call-overload]
    with pytest.raises(UnknownName, match="unknown field 'learning_rat'. Did you mean 'learning_rate'"):
        _ = config["learning_rat"]
