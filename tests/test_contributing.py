"""What CONTRIBUTING.md tells somebody to add is added to a copy of the package, as it stands there, and runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.test_optional_parts import copied, plays

TEXT = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
FILES = dict(re.findall(r"```python\n# (workbench/\S+)\n(.*?)```", TEXT, flags=re.DOTALL))

CHECK = """
import os, pathlib, sys
import workbench as wb
from workbench.errors import UnknownName

assert wb.__file__.startswith(sys.argv[1]), wb.__file__
assert "lights/" in [one.name for one in wb.environments()]
assert [one.name for one in wb.environments("lights/")] == ["lights/pole"]
try:
    wb.launch("lights/poll")
except UnknownName as error:
    assert "Did you mean 'lights/pole'" in str(error), error
run = wb.launch("lights/pole", launcher="polite", actors=1, envs_per_actor=4, batch_size=4, unroll_length=10,
                learner_threads=1, progress=False)
status = run.wait(updates=3, timeout_s=240)
assert b"POLITE=1" in pathlib.Path(f"/proc/{status.supervisor_pid}/environ").read_bytes()
assert wb.evaluate(run.stop().name, episodes=2).returns
assert run.track("printed") > 0 and run.track("printed") == 0
print("played")
"""


@pytest.mark.full
def test_a_family_a_launcher_and_a_tracker_are_added_as_it_says(home: Path, tmp_path: Path) -> None:
    copied(tmp_path)
    assert len(FILES) == 4
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    plays(tmp_path, CHECK, str(tmp_path))
