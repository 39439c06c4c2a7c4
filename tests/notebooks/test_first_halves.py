"""The first half of each lesson, a third of a long one; whole ones are run by tests of their own, in make test-all."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import nbformat
import pytest

from tests.notebooks.lessons import CHECKOUT, LESSONS

if TYPE_CHECKING:
    from nbclient import NotebookClient

_spec = importlib.util.spec_from_file_location("run", CHECKOUT / "notebooks" / "run.py")
run: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(run)

SMALL: dict[str, dict[str, Any]] = {
    "00-concepts": {"updates": 20, "slow_updates": 5},
    "01-first-run": {"envs_per_actor": 4, "seconds": 3, "pong_seconds": 1, "episodes": 1,
                     "pong_games": 1},
    "02-central-inference": {"actors": 2, "envs_per_actor": 2, "step_ms": 5.0, "looks": 1, "batch_sizes": [2, 4],
                             "timeouts_ms": [5], "actor_counts": [1]},
    "03-vtrace-by-hand": {"lag_updates": 10, "value_updates": 30, "frames": 2_000, "seeds": (0,)},
    "04-r2d2-by-hand": {"corridor": 3, "unroll_length": 5, "burn_in": 2, "seeds": 1, "solved_at": -1.0,
                        "ratio_updates": 20},
    "05-tuning-live": {"look": 2_000, "rescue": 4_000, "trials": 1, "trial_frames": 2_000, "longest_s": 60},
    "06-what-has-it-learnt": {"beginner_frames": 500, "expert_frames": 14_000, "mending_frames": 500, "episodes": 1},
    "07-your-own": {"frames": 2_000, "seeds": (0,), "episodes": 2, "longest_s": 30},
    "08-football": {"frames": 200, "envs_per_actor": 4, "episodes": 1, "games": 1, "longest_s": 10},
    "09-more-machines": {"frames": 1_000, "measure_s": 0.2},
    "14-self-play": {"milestones": (500, 1_000), "games": 2, "longest_s": 60},
    "15-lag-in-small": {"lags": (0, 2), "seeds": 1, "updates": 20},
    "16-who-computes-where": {"core_counts": [1, 4]},
    "appendix-colab-tpu": {"environment": "CartPole-v1", "frames": 2_000, "fields": {
        "actors": 1, "envs_per_actor": 4, "batch_size": 4, "unroll_length": 10, "learner_threads": 1}},
    "10-your-own-algorithm": {"frames": 4_000, "seeds": (0,), "longest_s": 30},
    "11-break-it": {"envs_per_actor": 2, "checkpoint_interval_s": 3.0},
    "12-which-is-better": {"frames": 500, "seeds": (100,), "episodes": 2, "longest_s": 60},
    "13-find-the-bottleneck": {"look_s": 1, "settle_s": 0, "longest_s": 10},
}

LONG = {"05-tuning-live", "06-what-has-it-learnt", "08-football", "13-find-the-bottleneck"}


NEW_LESSON = """
import os as _os, ipywidgets as _widgets
_widgets.Widget.close_all()
_os.chdir({folder!r})
_os.environ["WORKBENCH_HOME"] = {home!r}
get_ipython().reset(new_session=False, aggressive=False)
"""


@pytest.fixture(scope="module")
def client() -> Iterator[NotebookClient]:
    """One kernel for all of them: what each kernel imports first takes five seconds of a processor."""
    with mock.patch.dict(os.environ), run.kernel() as client:  # it sets variables of Jupyter
        yield client


@pytest.mark.parametrize("lesson", [path.stem for path in LESSONS])
def test_the_first_half_of_a_lesson_runs(
    lesson: str, client: NotebookClient, home: Path, tmp_path: Path
) -> None:
    own = {"folder": str(tmp_path / "drive")} if lesson == "appendix-colab-tpu" else {}
    client.nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(
        NEW_LESSON.format(folder=str(tmp_path), home=str(home)))])
    client.execute(cleanup_kc=False)
    executed = tmp_path / f"{lesson}.executed.ipynb"
    failure = run.execute(CHECKOUT / "notebooks" / f"{lesson}.ipynb", executed, {**SMALL[lesson], **own},
                          client=client, share=0.33 if lesson in LONG else 0.5)
    assert failure == ""
    code = [cell for cell in nbformat.read(executed, as_version=4).cells if cell.cell_type == "code"]
    assert len(code) > 3 and all(cell.execution_count for cell in code)


def test_a_cell_after_one_that_fails_has_no_output_even_if_it_was_handed_in_with_one(
    client: NotebookClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forged = nbformat.v4.new_code_cell("1 + 1", execution_count=2, outputs=[
        nbformat.v4.new_output("execute_result", {"text/plain": "Right."}, execution_count=2)])
    handed_in, executed = tmp_path / "handed-in.ipynb", tmp_path / "executed.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0"), forged]), handed_in)
    assert "ZeroDivisionError" in run.execute(handed_in, executed, {}, client=client)
    assert "ZeroDivisionError" in capsys.readouterr().err
    failed, after = nbformat.read(executed, as_version=4).cells
    assert failed.outputs and not after.outputs and after.execution_count is None
