"""Lesson 11: a run is harmed in seven ways, and does what docs/promises.md says."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.notebooks.lessons import execute
from workbench import rundir
from workbench.metrics import MetricsReader

pytestmark = pytest.mark.full


def test_a_run_is_harmed_in_seven_ways_and_answers_as_the_lesson_says(module_home: Path, tmp_path: Path) -> None:
    _, said = execute("11-break-it", module_home, tmp_path, longest_s=240)
    assert "actor-0 restarted after signal 9 (SIGKILL)" in said and "restarts: [1, 0]" in said
    predicted, at = re.search(r"predicted ([\d,]+) frames, it went on from ([\d,]+):", said).groups()
    assert predicted == at
    assert "no process of the run is left: True; the run is dead" in said
    assert "the learner has not answered for" in said
    assert said.count("the same learner: True") == 2, "neither the nap nor the NaN cost a learner"
    assert ("waiting for the disk, to go on by itself" in said) == (sys.platform == "linux")
    assert "observation has the value nan" in said
    assert "10 updates in a row were not finite" in said
    assert "processes left: 0" in said
    (run,) = rundir.every()
    kinds = [event["kind"] for event in MetricsReader(run.metrics).events()]
    assert run.read()["state"] == "stopped" and kinds.index("pause") < len(kinds) - 1 - kinds[::-1].index("resume")
