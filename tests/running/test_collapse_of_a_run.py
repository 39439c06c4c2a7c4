"""A run whose return collapses is seen, stands for its best checkpoint, and is rescued from there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import workbench as wb
from tests.conftest import SMALL, eventually
from tests.rewarding import Rewarding
from workbench import checkpoints
from workbench.__main__ import main
from workbench.errors import InvalidInput
from workbench.playing.evaluating import evaluation_log

pytestmark = pytest.mark.full

FIELDS = {**SMALL, "total_frames": 10**9, "network": "mlp", "checkpoint_interval_s": 1.0, "keep_checkpoints": 2,
          "warmup_updates": 0, "progress": False}


def paying(file: Path) -> Callable[[], Rewarding]:
    """An environment whose every step is worth what the file says at that moment."""

    class Paying(Rewarding):
        length = 5

        def reward(self) -> float:
            return float(file.read_text() or 0)

    return Paying


def written(file: Path, value: float) -> None:
    """Replace the file in one step: actors read it all the time."""
    beside = file.with_suffix(".new")
    beside.write_text(str(value))
    beside.rename(file)


def test_a_collapse_is_told_and_the_best_checkpoint_is_rescued(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(pay := home / "pay", 0.0)
    run = wb.launch(paying(pay), name="falls", **FIELDS)
    eventually(lambda: run.status.first_mean is not None)
    assert not run.status.collapsed and run.status.collapse == ""
    written(pay, 1.0)
    eventually(lambda: run.best is not None and run.best.episode_return == 5.0)
    eventually(lambda: run.status.best_mean == 5.0)
    best = run.best
    assert best is not None
    written(pay, 0.0)
    status = eventually(lambda: one if (one := run.status).collapsed else None)
    assert status.best_mean == 5.0 and status.collapse.startswith("mean return ") and "best of 5 at" in status.collapse
    assert "collapsed from 5" in status.line()

    newest = run.checkpoints[-1].frames
    eventually(lambda: len([one for one in run.checkpoints if one.frames > newest]) >= 2)
    eventually(lambda: len(run.checkpoints) == 3, what="pruning keeps the best beside the newest two")
    assert run.best == best
    assert run.checkpoints.best == best and repr(run.checkpoints).count("the best") == 1

    evaluation = wb.evaluate(run, episodes=1)
    assert evaluation.checkpoint_frames == best.frames
    assert f"Taking the best checkpoint of falls, at {best.frames:,} frames" in capsys.readouterr().out
    assert wb.rollout(run.name, max_steps=3).checkpoint_frames == best.frames
    last = run.checkpoint()  # one that is not pruned
    assert wb.evaluate(last, episodes=1).checkpoint_frames == last.frames > best.frames
    exported = wb.export_policy(run, target=home / "policy")
    assert checkpoints.at(exported).frames == best.frames
    evaluation_log.keep(run.directory, best, evaluation)

    page = run.card().markdown
    assert "below its best of 5 at" in run.card().summary
    assert f"| best checkpoint | {best.path.name} | mean return 5 of 100 episodes |" in page
    assert f"| evaluated at {best.frames:,} frames (the best) |" in page and "| collapse |" in page
    assert main(["status", "falls"]) == 0 and "below its best of 5" in capsys.readouterr().out

    rescued = run.rescue()
    assert rescued.name == "falls-fork-1" and rescued.checkpoints[0].frames == best.frames
    assert rescued.config.value("learning_rate") == best.config.value("learning_rate") / 2
    assert run.status.state == "training", "the old run goes on"
    eventually(lambda: rescued.status.best_mean is not None)
    assert rescued.status.first_mean == 0.0, "as low as the run that it came from had begun"
    assert rescued.status.best_mean == 5.0, "what its checkpoint was worth, though the policy may be ruined at once"
    eventually(lambda: rescued.status.collapsed)
    rescued.stop()
    assert main(["rescue", "falls", "--name", "again", "learning_rate=1e-5"]) == 0
    assert wb.attach("again").config.value("learning_rate") == 1e-5
    wb.attach("again").stop()

    written(pay, 1.0)
    eventually(lambda: not run.status.collapsed)
    eventually(lambda: "recovered" in list(run.events["kind"]))
    kinds = list(run.events["kind"])
    assert (kinds.count("collapse"), kinds.count("recovered")) == (1, 1)
    written(pay, 0.0)
    eventually(lambda: run.status.collapsed)
    run.stop()
    assert run.status.collapsed and "collapsed from" in wb.attach("falls").status.line(), "also once it has ended"
    with pytest.raises(InvalidInput, match="total_frames"):
        run.rescue(total_frames=1)
    for one in run.checkpoints:
        if not checkpoints.is_collapsed(one, run.status):
            checkpoints.remove(one.path)
    with pytest.raises(InvalidInput, match=r"no checkpoint from before its collapse.*smaller learning_rate than"):
        run.rescue()


def test_a_run_without_a_collapse_stands_for_its_last_checkpoint_and_says_so(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(pay := home / "pay", 0.0)
    run = wb.launch(paying(pay), name="calm", **FIELDS)
    run.tune(checkpoint_interval_s=1e6)
    run.checkpoint()

    def said() -> str:
        capsys.readouterr()
        wb.evaluate("calm", episodes=1)
        return capsys.readouterr().out

    eventually(lambda: "now; wb.attach('calm').checkpoint() makes a newer one." in said())
    run.stop()
    capsys.readouterr()
    assert wb.evaluate("calm", episodes=1).checkpoint_frames == run.checkpoints[-1].frames
    assert capsys.readouterr().out == f"Taking the last checkpoint of calm, at {run.checkpoints[-1].frames:,} frames.\n"
