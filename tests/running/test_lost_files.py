"""A run that has lost a file says so wherever it is looked at, with what to do."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.conftest import CALM, eventually
from tests.widgets import recorded
from workbench import checkpoints, rundir
from workbench.copies import FOLDER
from workbench.environments.adapters.code_by_value import load_factory
from workbench.errors import InvalidInput, RunNotAlive, RunNotFound, StorageFailed, WorkbenchError
from workbench.metrics import MetricsWriter
from workbench.rundir import RunDirectory, sealed
from workbench.running.handle import Run
from workbench.running.starts.checking import check_has_code


@pytest.fixture
def run(home: Path) -> RunDirectory:
    """A run that has been stopped, with two checkpoints."""
    run = recorded.vtrace("lost")
    meta = {"steps": 500, "updates": 125, "time_s": 61.0, "config": run.read()["config"]}
    with closing(MetricsWriter(run.metrics)) as writer:
        for frames in (1000, 2000):
            checkpoints.write(run.checkpoints, frames=frames, groups={"model": {}}, meta=meta, requested=False)
            writer.event("checkpoint", f"checkpoint at {frames:,} frames", data={"frames": frames})
    run.write(state="stopped", lives=1)
    return run


def test_a_lost_history_is_told_with_the_counters_of_the_last_checkpoint(run: RunDirectory) -> None:
    for journal in run.path.glob("metrics.sqlite*"):
        journal.unlink()
    said = f"its history is gone: there is no {run.metrics}."
    status = wb.attach("lost").status
    assert (status.frames, status.updates, status.warning) == (2000, 125, said)
    assert repr(wb.attach("lost")).startswith(f"Run(lost: stopped, 2,000 frames: {said}"[:60])
    assert wb.runs()["lost"].frames == 2000
    run.metrics.touch()
    status = wb.attach("lost").status
    assert (status.frames, status.warning) == (2000, f"its history is gone: {run.metrics} is empty.")
    run.metrics.unlink()
    run.write(config={**run.read()["config"], "storage": "file:///kept"})
    assert wb.attach("lost").status.warning == f"{said} wb.resume('lost') brings that of its copy in file:///kept."


def test_a_damaged_history_is_told_with_the_counters_of_the_last_checkpoint(run: RunDirectory) -> None:
    for journal in run.path.glob("metrics.sqlite-*"):
        journal.unlink()
    run.metrics.write_bytes(b"no database" * 1000)
    status = wb.attach("lost").status
    assert status.frames == 2000 and "move it away" in status.warning and "move it away" in repr(wb.attach("lost"))
    assert status.age_s < 60, "nobody knows how old what it says is"


@pytest.mark.full
def test_a_history_that_is_moved_away_from_a_live_run_holds_it_until_it_is_back(home: Path) -> None:
    live = wb.launch("testing/counting-v0", name="live", progress=False, **CALM)
    try:
        live.wait(updates=3, timeout_s=240)
        aside = live.directory.metrics.rename(live.path / "aside")
        eventually(lambda: "metrics.sqlite is gone while its run is alive. Move it back" in live.status.warning)
        eventually(lambda: live.status.state == "paused")
        held = live.status.updates
        aside.rename(live.directory.metrics)
        assert live.wait(updates=held + 3, timeout_s=240).warning == ""
        rows = live.metrics("loss").updates
        assert rows.is_monotonic_increasing and rows.min() <= 3 and rows.max() > held
    finally:
        live.stop()


def test_lost_checkpoints_are_told_with_their_copy(run: RunDirectory) -> None:
    shutil.rmtree(run.checkpoints)
    run.checkpoints.mkdir()
    with pytest.raises(InvalidInput, match=r"checkpoint any more: there is nothing in .*Put one back, or launch"):
        wb.evaluate("lost")
    run.write(config={**run.read()["config"], "storage": "file:///kept"})
    with pytest.raises(InvalidInput, match=r"any more.*wb.resume\('lost'\) brings the one of its copy in file:///kept"):
        wb.attach("lost").fork()


def test_a_rescue_says_which_better_checkpoint_it_passes_over_and_where_there_is_none_what_to_do(
    run: RunDirectory, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Run, "fork", lambda self, best, **changes: best)
    lost, config = wb.attach("lost"), run.read()["config"]
    for frames, mean in ((3000, 5.0), (4000, 9.0)):
        judged = {"by": "episode_return", "mean": mean, "episodes": 50}
        meta = {"steps": 500, "updates": 125, "time_s": 61.0, "config": config, "judged": judged}
        checkpoints.write(run.checkpoints, frames=frames, groups={"model": {}}, meta=meta, requested=False)
    best = lost.best
    assert best is not None and best.frames == 4000
    (best.path / "model.safetensors").write_bytes(b"torn")
    assert lost.rescue().frames == 3000
    assert f"Passed over: {best.path}" in capsys.readouterr().out
    for one in lost.checkpoints:
        (one.path / "meta.json").write_text("{")
    with pytest.raises(InvalidInput, match=r"no good checkpoint\..*Put one back, or launch a new run"):
        lost.rescue()
    assert "lost has no good checkpoint." in str(lost.checkpoints.table)
    shutil.rmtree(run.checkpoints)
    assert "lost has no good checkpoint any more: there is nothing in" in str(lost.checkpoints.table)


def test_a_run_that_never_wrote_a_checkpoint_has_lost_none(home: Path) -> None:
    run = recorded.vtrace("young")  # it has made updates
    run.write(state="stopped", lives=1)
    with pytest.raises(InvalidInput, match=r"^young has no checkpoint yet\.$"):
        wb.evaluate("young")
    again = r"young is stopped\. wb\.resume\('young'\) begins it again: it has no checkpoint\.$"
    with pytest.raises(RunNotAlive, match=again):
        wb.attach("young").tune(learning_rate=1e-3)


def test_a_torn_checkpoint_is_said_to_be_passed_over(run: RunDirectory, capsys: pytest.CaptureFixture[str]) -> None:
    newest = checkpoints.every(run.checkpoints)[-1].path / "model.safetensors"
    os.truncate(newest, newest.stat().st_size - 1)
    with pytest.raises(WorkbenchError):  # it holds no network
        wb.evaluate("lost")
    said = capsys.readouterr().out
    assert said.startswith(f"Passed over: {newest} is torn") and "Taking the last checkpoint of lost, at 1,000" in said


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_text('{"state": "sto')])
def test_a_run_without_its_record_is_listed_as_damaged_and_says_how_to_go_on(run: RunDirectory, harm: Any) -> None:
    harm(run.record)
    (row,) = wb.runs()
    newest = run.checkpoints / "000000002000"
    remedy = rf"Put back a copy of it\. .*wb\.resume\(URL\).*wb\.launch\(\.\.\., checkpoint='{newest}'\)"
    assert (row.name, row.state) == ("lost", "damaged") and "Put back a copy of it" in row.problem
    with pytest.raises(StorageFailed if run.record.exists() else RunNotFound, match=remedy):
        wb.attach("lost").status  # noqa: B018
    shutil.rmtree(run.checkpoints)
    if not run.record.exists():
        with pytest.raises(RunNotFound, match="is not a run: it has no run.json. wb.runs"):
            wb.attach("lost")
        assert list(wb.runs()) == []


@pytest.mark.parametrize(("kind", "remedy"), [
    ("environment", r"(wb\.resume\('lost', |run\.fork\()environment=YourEnvironment\)"),
    ("network", r"(wb\.resume\('lost', |run\.fork\()network=YourNetwork\)")])
def test_lost_code_is_told_before_anything_is_started(
    run: RunDirectory, kind: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, "file:///kept")  # that a run on Colab is copied to
    run.write(code={"environment": False, "network": False, "algorithm": False, kind: True})
    before, path = run.read(), run.code / f"{kind}.pkl"
    for torn in (b"", sealed.sealed(path.name, b"\x80\x05" + bytes(300)), b"\x80\x05"):
        run.code.mkdir(exist_ok=True)
        path.write_bytes(torn)
        for trust_code in (False, True):
            with pytest.raises(InvalidInput, match=rf"the {kind} of lost, .* which is torn: {path}\. .*{remedy}"):
                wb.resume("lost", total_frames=10**9, trust_code=trust_code)
        with pytest.raises(StorageFailed, match=rf"{path} is torn: .* Put a copy of it back"):
            load_factory(path, trust_code=True)
    path.unlink()
    for go_on in (lambda: wb.resume("lost", total_frames=10**9), lambda: wb.attach("lost").fork()):
        with pytest.raises(InvalidInput, match=rf"the {kind} of lost, .* which is not in .*code any more\. .*{remedy}"):
            go_on()
    assert run.read() == before and [one.name for one in rundir.every()] == ["lost"]
    check_has_code(run, run.config(), but=[f"{kind}.pkl"])
    for place in ({"storage": "file:///kept"}, {"launcher": "colab"}):
        with pytest.raises(InvalidInput, match="or take the folder code of its copy in file:///kept"):
            check_has_code(run, run.config().replaced(**place))
