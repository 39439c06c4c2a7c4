"""Calls whose arguments do not fit are errors of the project; no run is started."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import workbench as wb
from tests.widgets import recorded
from workbench import imports
from workbench.config import RunConfig
from workbench.errors import (
    InvalidInput,
    NoSuchIndex,
    NotLive,
    OutOfBounds,
    RunNotAlive,
    RunNotFound,
    UnknownName,
    WrongArguments,
    WrongType,
)
from workbench.metrics import MetricsWriter
from workbench.metrics.status import RunStatus
from workbench.metrics.status_facts import FACTS
from workbench.rundir import lock
from workbench.running.connection import stored_status
from workbench.running.reading.checkpoint_list import Checkpoints
from workbench.tables import counted


@pytest.fixture
def run(home: Path) -> wb.Run:
    return wb.attach(recorded.vtrace("pole").path)


@pytest.mark.parametrize(("call", "text"), [
    (lambda run: run.metrics(), r"^metrics\(\): missing .*'name'\. Give one .* run\.metric_names lists the names\.$"),
    (lambda run: run.metrics("loss", "entropy"), r"^metrics\(\): too many .*\. Give one name a call: run\.metrics\("),
    (lambda run: run.wait(second=3), r"^wait\(\): there is no argument 'second'\. Did you mean 'seconds'\?$"),
    (lambda run: run.wait(3), r"^wait\(\): too many positional arguments\. Give arguments by name: frames=\.\.\., "),
    (lambda run: run.checkpoint(colour=3), r"there is no argument 'colour'\. Known: replay, timeout_s\.$"),
    (lambda run: run.resume(total_frames=3), r"^resume\(\): there is no argument 'total_frames'\. A run that has ended "
                                             r"goes on by wb\.resume\(run, total_frames=\.\.\.\)\.$"),
    (lambda run: run.scale(), r"run\.scale\(actors=4\), for example\.$"),
    (lambda run: run.tune(3e-4),
     r"^tune\(\): too many positional arguments\. Give fields by name, such as learning_rate=3e-4\.$"),
    (lambda run: wb.launch(), r"^launch\(\): missing .*'environment'\. Give its name: wb\.launch\('CartPole-v1'\)\.$"),
    (lambda run: wb.load_policy("nope"), r"^load_policy\(\): missing .*'env'\. Give the environment to act in: env="),
    (lambda run: wb.evaluate(run, episode=1), r"^evaluate\(\): there is no argument 'episode'.* 'episodes'\?$"),
    (lambda run: wb.runs(state="training"), r"^runs\(\): there is no argument 'state'\. Choose among the rows: \[row"),
    (lambda run: wb.runs(colour=3), r"^runs\(\): there is no argument 'colour'\. It takes none\.$"),
    (lambda run: wb.Sweep.wait(run, seconds=3), r"^wait\(\): there is no argument 'seconds'\. timeout_s=60 raises "),
    (lambda run: wb.Sweep.stop(run, timeout=3), r"^stop\(\): there is no argument 'timeout'\. .* 'timeout_s'\?$"),
    (lambda run: wb.launch("CartPole-v1", nmae="x"),
     r"^launch\(\): there is no argument 'nmae'\. Did you mean 'name'\?$"),
    (lambda run: wb.launch("CartPole-v1", exp_name="x"), r"^launch\(\): there is no argument 'exp_name'.*'name'\?$"),
    (lambda run: wb.sweep("CartPole-v1", space={"learning_rate": (1e-4, 1e-2)}, trial=3),
     r"^sweep\(\): there is no argument 'trial'\. Did you mean 'trials'\?$"),
    (lambda run: wb.machine(3), r"^machine\(\): too many positional arguments"),
    (lambda run: wb.plan(fps=3), r"^plan\(\): there is no argument 'fps'\. Give frames_per_second=\.\.\.$"),
    (lambda run: wb.recipe(), r"^recipe\(\): missing .*'kind'\. Give 'ray-cluster', "),
    (lambda run: wb.sweep(), r"^sweep\(\): missing .*'environment'\. Give its name: wb.sweep\('CartPole-v1', space="),
])  # fmt: skip
def test_arguments_that_do_not_fit_are_named(run: wb.Run, call: Callable[[Any], object], text: str) -> None:
    with pytest.raises(WrongArguments, match=text) as refusal:
        call(run)
    assert isinstance(refusal.value, TypeError)


def test_a_pattern_of_environments_is_a_word() -> None:
    with pytest.raises(WrongType, match=r"pattern=3 must be a word, such as wb\.environments\('mujoco'\)"):
        wb.environments(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("service", [5, ["wandb"], ""])
def test_a_service_to_track_by_is_a_name(run: wb.Run, service: Any) -> None:
    with pytest.raises(InvalidInput, match="is not one tracker. Give one of"):
        run.track(service)


def test_events_are_shown_whole_also_some_of_them(run: wb.Run) -> None:
    """Pandas cuts what is longer than 50 characters, and leaves columns out."""
    long = "much was said " * 20 + "of it"
    with closing(MetricsWriter(run.directory.metrics)) as writer:
        writer.event("error", long, data={"much": "z" * 500})
    for events in (run.events, run.events.query("kind == 'error'"), run.events[["kind", "message"]].tail(1)):
        assert long in repr(events) and long in events._repr_html_()
        assert all(name in repr(events) for name in events.columns)
        assert "z" * 60 not in repr(events) + events._repr_html_(), "data are cut"
    assert run.events["data"].iloc[-1]["much"] == "z" * 500


@pytest.mark.parametrize(("ask", "call"), [
    (lambda run: run.learn, "run.wait()"), (lambda run: run.predict, "wb.load_policy(run, env=...).act"),
    (lambda run: run.status.fps, "frames_per_second"),
    (lambda run: run.config.learning_rate, "config['learning_rate']"),
    (lambda run: run.hyperparameters.learning_rate, "table['learning_rate']"), (lambda run: wb.make, "wb.launch("),
    (lambda run: wb.PPO, "wb.launch(..., algorithm='ppo')"),
])  # fmt: skip
def test_an_attribute_that_is_not_there_comes_with_what_does_the_same(
    run: wb.Run, ask: Callable[[Any], object], call: str
) -> None:
    with pytest.raises(AttributeError, match=re.escape(f"Did you mean {call}")):
        ask(run)


def test_a_run_that_has_ended_is_not_watched_and_nothing_is_shown_first(
    run: wb.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "meanwhile", lambda *_, **__: pytest.fail("something was shown"))
    for env in (None, 0):
        with pytest.raises(RunNotAlive, match="pole is"):
            run.watch(env)


def test_an_error_inside_a_call_is_not_taken_for_its_arguments(run: wb.Run) -> None:
    with pytest.raises(UnknownName):
        run.metrics("los")
    with pytest.raises(WrongType, match=r"^metrics\(\['loss'\]\): Give one name a call"):
        run.metrics(["loss"])  # type: ignore[arg-type]


def test_a_metric_that_is_not_recorded_yet_has_no_rows(run: wb.Run) -> None:
    assert "kl_cost" not in run.metric_names and "evaluation_return" not in run.metric_names
    for name in ("kl_cost", "evaluation_return"):
        table = run.metrics(name)
        assert len(table) == 0 and list(table.columns) == list(run.metrics("loss").columns)


def test_a_checkpoint_is_found_by_position_and_by_the_name_of_its_folder(run: wb.Run) -> None:
    first, last = (SimpleNamespace(path=run.directory.checkpoints / name) for name in ("000000000100", "000000000200"))
    checkpoints: Any = Checkpoints([first, last], run)  # type: ignore[list-item]
    assert checkpoints[last.path.name] is checkpoints[-1] is last and checkpoints[-1:] == [last]
    text = r"^\[99\] finds no checkpoint: positions go from 0 to 1, or from -2 to -1\.$"
    with pytest.raises(NoSuchIndex, match=text) as refusal:
        checkpoints[99]
    assert isinstance(refusal.value, IndexError)
    with pytest.raises(UnknownName, match="unknown checkpoint 'x'. Known: 000000000100, 000000000200."):
        checkpoints["x"]
    with pytest.raises(WrongType, match=r"^\[1\.5\] finds no checkpoint\. Give a position, such as 0 or -1, or a name"):
        checkpoints[1.5]
    with pytest.raises(NoSuchIndex, match=r"^\[-1\] finds no checkpoint: there is none yet\.$"):
        run.checkpoints[-1]


def test_a_row_beyond_the_end_of_a_table_is_named(run: wb.Run) -> None:
    rows = run.hyperparameters
    assert rows[-1] is list(rows)[-1] and list(reversed(rows))[0] is rows[-1] and rows["learning_rate"] in rows
    with pytest.raises(NoSuchIndex, match=r"^\[99\] finds no row: positions go from 0 to"):
        rows[99]


@pytest.mark.parametrize(("changes", "text"), [
    ({"learning_rate": "x"}, "^learning_rate='x' must be a number, not text. For example: learning_rate=0.0006.$"),
    ({"learning_rate": None}, "^learning_rate=None must be a number, not None. For example: learning_rate=0.0006.$"),
    ({"learning_rate": True}, "^learning_rate=True must be a number, not bool. For example: learning_rate=0.0006.$"),
    ({"max_batch": 1.5}, "^max_batch=1.5 must be a whole number. For example: max_batch=0.$"),
    ({"max_batch": [1]}, r"^max_batch=\[1\] must be a whole number, not list. For example: max_batch=0.$"),
])  # fmt: skip
def test_a_value_of_another_type_is_an_error_that_speaks_of_types(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(WrongType, match=text) as refusal:
        RunConfig.build("CartPole-v1", **changes)
    assert isinstance(refusal.value, OutOfBounds) and isinstance(refusal.value, TypeError)


def test_a_configuration_shows_the_call_that_builds_it_and_nothing_of_its_defaults() -> None:
    config = RunConfig.build("CartPole-v1", algorithm="r2d2", actors=3, learning_rate=1e-3)
    assert config.changed == {"actors": 3, "learning_rate": 1e-3}
    assert repr(config) == "RunConfig.build('CartPole-v1', algorithm='r2d2', learning_rate=0.001, actors=3)"
    assert eval(repr(config)) == config


def test_a_fixed_field_comes_with_the_call_that_changes_it_and_not_with_all_live_ones() -> None:
    config = RunConfig.build("CartPole-v1")
    with pytest.raises(NotLive) as refusal:
        config.with_live(learning_rate_schedule="linear")
    assert str(refusal.value) == (
        "learning_rate_schedule is fixed once a run has started. Call run.fork(learning_rate_schedule='linear') "
        "instead. run.hyperparameters lists the fields that can be changed.")
    with pytest.raises(NotLive, match=r"Call run\.scale\(actors=4\) instead"):
        config.with_live(actors=4)


@pytest.mark.parametrize(("changes", "error", "text"), [
    ({"actors": 2.5}, WrongType, r"^actors=2\.5 must be a whole number\."),
    ({"actors": 0}, OutOfBounds, r"^actors=0 is out of bounds"),
    ({"unroll_length": "long"}, WrongType, r"^unroll_length='long' must be a whole number, not text\."),
    ({"environment": "Acrobot-v1"}, NotLive, r"start a new run, wb\.launch\('Acrobot-v1'\)\. run\.hyper"),
    ({"network": "mlp"}, NotLive, r"start a new run, wb\.launch\('CartPole-v1', network='mlp'\)\. run\.hyper"),
    ({"unroll_length": 40}, NotLive, r"Call run\.fork\(unroll_length=40\) instead\. "),
])  # fmt: skip
def test_advice_on_a_fixed_field_is_a_call_that_works(changes: dict[str, Any], error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        RunConfig.build("CartPole-v1").with_live(**changes)


def test_only_a_near_name_of_a_run_is_suggested(run: wb.Run) -> None:
    with pytest.raises(RunNotFound, match=r"there is no run 'nope' in [^ ]*\. wb\.runs\(\) lists the runs\.$"):
        wb.attach("nope")  # not "pole", which has half of its letters
    with pytest.raises(RunNotFound, match="Did you mean 'pole'"):
        wb.attach("pol")


def test_a_wait_for_a_dead_run_says_why_it_is_dead(run: wb.Run) -> None:
    text = r"^pole is dead at .* frames, before seconds=3: its supervisor is gone\. wb\.resume\('pole'\)"
    with pytest.raises(RunNotAlive, match=text):
        run.wait(seconds=3)


def test_a_cell_shows_an_error_with_its_notes_and_a_cause_that_it_does_not_say_itself() -> None:
    cause = wb.errors.AlgorithmFailed("loss(...) raised")
    for text, more in (("it failed: AlgorithmFailed: loss(...) raised", []),
                       ("it failed", ["Caused by AlgorithmFailed: loss(...) raised"])):
        error = wb.errors.RunFailed(text)
        error.__cause__ = cause
        error.add_note("it is what it was")
        assert error._render_traceback_()[1:-1] == ["it is what it was", *more]


def test_numbers_have_their_nouns() -> None:
    status = RunStatus("one", "training", frames=1, episode_return=2.0, episodes_in_mean=1)
    assert (FACTS["frames"].said(status), FACTS["episode_return"].named(status)) == (
        "1 frame", "mean return (1 episode)")
    assert [counted(number, "actors") for number in (0, 1, 1200)] == ["0 actors", "1 actor", "1,200 actors"]


def test_the_text_of_a_handle_is_what_the_files_say_now(run: wb.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = run.directory
    directory.write(state="training")
    with lock.held(lock.of_supervisor(directory), wait_s=1.0):
        row = stored_status(directory).to_json()
        for frames in (111, 222):
            writer = MetricsWriter(directory.metrics)
            writer.status({**row, "state": "training", "frames": frames})
            writer.close()
            monkeypatch.setattr(run, "_last_at", time.monotonic() - 60.0)  # as if nobody had looked for a minute
            assert re.fullmatch(rf"Run\(pole: training, {frames} frames.*, \d s ago\)", repr(run))
