"""`workbench sweep` and `sweeps`, and deleting a sweep."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import workbench as wb
from tests.cli.test_commands import OPTIONS, exit_code
from tests.conftest import SMALL, private_home
from workbench import rundir
from workbench.__main__ import main
from workbench.cli.sweep_commands import parsed_space
from workbench.errors import InvalidInput, OutOfBounds, RunAlive, RunNotFound, UnknownName
from workbench.rundir import lock
from workbench.sweeping import sweep_folder

pytest.importorskip("optuna")


def space(*words: str) -> dict[str, object]:
    return parsed_space(words)


def test_a_space_is_read_as_it_is_typed() -> None:
    assert space("learning_rate=1e-5:1e-2", "unroll_length=5:40:log", "optimizer=adam,rmsprop", "batch_size=8,16",
                 "normalize_observations=yes,no") == {
        "learning_rate": (1e-5, 1e-2), "unroll_length": (5, 40, "log"), "optimizer": ["adam", "rmsprop"],
        "batch_size": [8, 16], "normalize_observations": [True, False]}


@pytest.mark.parametrize(("words", "error", "text"), [
    (["learning_rate"], InvalidInput, "'learning_rate' must look like field=values: LOW:HIGH"),
    (["learning_rat=1:2"], UnknownName, "Did you mean 'learning_rate'"),
    (["learning_rate=0.1:x"], OutOfBounds, "learning_rate='x' must be a number, not text"),
    (["learning_rate=0.1,0.2", "learning_rate=0.3,0.4"], InvalidInput, "learning_rate is in the space twice"),
])  # fmt: skip
def test_a_space_that_is_wrong_is_refused(words: list[str], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        space(*words)


@pytest.mark.full
@pytest.mark.parametrize(("arguments", "text"), [
    (["sweep", "CartPole-v1", "--learning-rate=1e-3", "--entropy-cost=0.01"], "names nothing to search"),
    (["sweep", "CartPole-v1", "--space=learning_rate=1e-2:1e-4"], "the low end must lie below the high one"),
    (["sweep", "CartPole-v1", "--space=learning_rate=1e-4:1e-2:cubic"], "unknown scale 'cubic'"),
    (["sweep", "CartPole-v1", "--space=learning_rate=1e-4:1e-2", "--trials=0"], "trials=0 is out of bounds"),
    (["sweeps", "nobody"], "there is no sweep 'nobody'"),
    (["sweeps", "--stop"], "which sweep? Name it"),
    (["sweeps", "nobody", "--runs"], "--runs goes with --delete"),
    (["sweeps", "nobody", "--stop", "--delete"], "not allowed with argument"),
])  # fmt: skip
def test_what_is_wrong_is_one_line_and_starts_nothing(
    home: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], text: str
) -> None:
    code = exit_code(arguments)
    told = capsys.readouterr().err
    assert code == 2 and text in told and len(told.strip().splitlines()) == 1
    assert not wb.runs() and not sweep_folder.listed()[0]


@pytest.fixture(scope="module")
def swept() -> Iterator[Path]:
    """A home with a sweep of two runs, made by the command, that has ended."""
    for path in private_home():
        try:
            asked = ["--actors=1" if one.startswith("--actors=") else one for one in OPTIONS]
            assert main(["sweep", "CartPole-v1", "--name=typed", "--space=learning_rate=1e-4:1e-2", "--trials=2",
                         "--parallel=1", "--total-frames=1500", "--wait", *asked]) == 0
            yield path
        finally:
            for folder in sweep_folder.listed()[0]:
                folder.order_to_stop.touch()
                deadline = time.monotonic() + 60
                while folder.alive and time.monotonic() < deadline:
                    time.sleep(0.05)


@pytest.mark.full
def test_sweeps_lists_sweeps_and_the_trials_of_one(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweeps"]) == 0
    assert "typed  finished" in capsys.readouterr().out
    assert main(["sweeps", "typed"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("typed: finished, 2 of 2 trials") and "typed-1" in out and "learning_rate" in out
    assert wb.attach("typed-0").config.value("batch_size") == SMALL["batch_size"]
    assert main(["stop", "typed"]) == 2
    assert capsys.readouterr().err == ("workbench: 'typed' is a sweep, no run. Look at it: `workbench sweeps typed`; "
                                       "end it: `workbench sweeps typed --stop`.\n")


@pytest.mark.full
def test_a_sweep_is_deleted_with_its_runs_only_when_asked_and_never_while_it_goes_on(
    swept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = wb.attach_sweep("typed")
    for held, words in ((sweep._folder.lock, "typed was not deleted: it goes on. Stop it first"),
                        (lock.of_supervisor(wb.attach("typed-1").directory), "its runs typed-1 live. Stop them first")):
        with lock.held(held, wait_s=5) as mine:
            assert mine
            with pytest.raises(RunAlive, match=words):
                sweep.delete(runs=True)
    assert [one.name for one in reversed(rundir.every())] == ["typed-0", "typed-1"], "none was moved"
    there = sweep.delete()
    assert there.parent == rundir.trash() and not wb.sweeps() and len(wb.runs()) == 2
    with pytest.raises(RunNotFound, match="typed is gone: there is no sweep in it|there is no sweep 'typed'"):
        sweep.delete()
    there.rename(sweep.path)
    assert wb.attach_sweep("typed").status.over == 2, "moved back, it is the sweep that it was"
    fork = swept / "runs" / "typed-0-fork-1"
    fork.mkdir()
    (fork / "run.json").write_bytes((swept / "runs" / "typed-0" / "run.json").read_bytes())
    assert main(["sweeps", "typed", "--delete", "--runs"]) == 0
    assert Path(capsys.readouterr().out.strip()).parent == rundir.trash()
    assert [one.name for one in rundir.every()] == ["typed-0-fork-1"], "a fork of a run is no run of the sweep"
    fork.joinpath("run.json").unlink()
