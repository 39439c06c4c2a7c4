"""The command line names commands where the same message in Python names calls."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import workbench as wb
from tests.cli.test_commands import exit_code
from tests.widgets import recorded
from workbench.cli.wording import CALL, in_commands, say_error
from workbench.config import ALGORITHMS, RunConfig, unknown_field
from workbench.errors import InvalidInput, RunNotAlive, UnknownName
from workbench.metrics import meanings
from workbench.metrics.meanings import described

WITHOUT_COMMAND = (  # beginnings of calls, and of file names
    "run.checkpoint", "run.dashboard", "run.events", "run.ipynb", "run.json", "run.metric", "run.path",
    "run.restart_actor", "run.status.", "run.wait(", "wb.attach('x').resume()", "wb.compare(", "wb.evaluate", "wb.plan",
    "wb.play(", "wb.launch('x', algorithm=YourClass)", "wb.pretrained(", "wb.register_environment", "wb.resume(colab",
    "wb.resume(run", "wb.launch('x'1, checkpoint=",
    "wb.setting(", "wb.sweep('CartPole-v1', space=", "run.md", "run.track", "wb.aggregate", "wb.attach('x').track('x')",
    "wb.export_policy(", "wb.fields(", "wb.load_policy", 'wb.resume("1", launcher="ray"', "wb.rollout(run)",
    "wb.check_environment", "run.best", "wb.launch(YourEnvironment", "wb.launch(..., network=", "wb.resume(URL)",
    "wb.resume('x', network=",
)


@pytest.mark.parametrize(("message", "command"), [
    ("x is dead. wb.resume('x') continues it.", "x is dead. `workbench resume x` continues it."),
    ("Give more: wb.resume('x', total_frames=20).", "Give more: `workbench resume x total_frames=20`."),
    ("or none: wb.resume('x', max_hours=None).", "or none: `workbench resume x max_hours=none`."),
    ("once it has ended: wb.resume(...)", "once it has ended: `workbench resume pong`"),
    ("Stop it first: wb.attach('a run').stop().", "Stop it first: `workbench stop 'a run'`."),
    ("Call run.scale(actors=2) instead.", "Call `workbench scale pong 2` instead."),
    ("wb.attach('x').checkpoint() makes one", "`workbench checkpoint x` makes one"),
    ("wb.attach('x').status tells more.", "`workbench status x` tells more."),
    ("run.tune(learning_rate=3e-4)", "`workbench tune pong learning_rate=0.0003`"),
    ("run.fork(target_return=-5)", "`workbench fork pong target_return=-5`"),
    ("wb.launch(..., checkpoint=...)", "`workbench launch ENVIRONMENT --checkpoint ...`"),
    ("wb.attach_sweep('x').resume() goes on", "`workbench sweeps x --resume` goes on"),
    ("wb.play('/a/journal') goes on", "wb.play('/a/journal') goes on"),
    ("wb.resume(colab.restored('x'))", "wb.resume(colab.restored('x'))"),
    ("it has no run.json", "it has no run.json"),
    ("Traceback:\n  File x\n    run.stop()\nValueError: 1", "Traceback:\n  File x\n    run.stop()\nValueError: 1"),
    ("wb.resume('x; rm y', name='$(z)')", "`workbench resume 'x; rm y' name='$(z)'`"),
])  # fmt: skip
def test_a_call_becomes_the_command_that_does_the_same(message: str, command: str) -> None:
    assert in_commands(message, "pong") == command


def messages() -> Iterator[str]:
    """Every string of the package but docstrings, with placeholders filled."""
    for path in Path(wb.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text())
        parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                yield "".join(filled(part) for part in node.values)
            elif (isinstance(node, ast.Constant) and isinstance(node.value, str)
                  and not isinstance(parents[node], ast.Expr | ast.JoinedStr | ast.FormattedValue)):
                yield node.value


def filled(part: ast.expr) -> str:
    if isinstance(part, ast.FormattedValue):
        return "'x'" if part.conversion == ord("r") else "1"
    assert isinstance(part, ast.Constant)
    return str(part.value)


def test_every_call_that_a_message_names_has_a_command_or_is_known_to_have_none() -> None:
    calls = {match[0].replace("(1=", "(x=").replace(" 1=", " x=")
             for text in messages() for match in CALL.finditer(text)}
    assert len(calls) > 15
    left = [call for call in calls if in_commands(call) == call and not call.startswith(WITHOUT_COMMAND)]
    assert left == [], "add it to workbench/cli/wording.py, or here"


def test_an_error_names_the_command_on_the_command_line_and_the_call_in_python(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded.vtrace("typed")
    assert exit_code(["tune", "typed", "learning_rate=1e-4"]) == 2
    message = capsys.readouterr().err
    assert "`workbench resume typed` begins it again" in message and "wb." not in message
    assert exit_code(["status", "typed"]) == 0
    status = capsys.readouterr().out
    assert "`workbench resume typed` begins it again" in status and "wb." not in status
    with pytest.raises(RunNotAlive, match=r"wb\.resume\('typed'\) begins it again"):
        wb.attach("typed").tune(learning_rate=1e-4)


def test_what_was_noted_of_an_error_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    error = InvalidInput("a corridor is blocked\n\nTraceback")
    error.add_note("new has trained nothing, and lies in trash/new-1 now.")
    assert say_error(argparse.Namespace(name="new"), error) == 2
    assert capsys.readouterr().err == (
        "workbench: a corridor is blocked\nnew has trained nothing, and lies in trash/new-1 now.\n")


@pytest.mark.parametrize(("word", "field"), [
    ("lr", "learning_rate"), ("LR", "learning_rate"), ("bs", "batch_size"), ("ent", "entropy_cost"),
    ("gamma", "discount"), ("learning_rte", "learning_rate"), ("vf_coef", "baseline_cost"), ("wu", "warmup_updates"),
])  # fmt: skip
def test_an_abbreviation_finds_its_field(word: str, field: str) -> None:
    message = str(unknown_field(word, RunConfig.build("CartPole-v1").all_settings()))
    assert message == f"unknown hyperparameter {word!r}. Did you mean {field!r}?"


@pytest.mark.parametrize(("algorithm", "word", "field"), [
    ("ppo", "n_steps", "unroll_length"), ("ppo", "grad_clip", "max_gradient_norm"), ("ppo", "workers", "actors"),
    ("ppo", "ent_coef", "entropy_cost"), ("sac", "ent_coef", "first_temperature"), ("awr", "alpha", "temperature"),
    ("sac", "temperature", "first_temperature"), ("sac", "tau", "target_share"), ("r2d2", "burn_in_length", "burn_in"),
    ("r2d2", "tau", "target_update_period"), ("sac", "train_freq", "replay_ratio"), ("ppo", "cuda", "device"),
])  # fmt: skip
def test_a_word_of_other_libraries_leads_to_the_field_that_the_algorithm_has(
    algorithm: str, word: str, field: str
) -> None:
    with pytest.raises(UnknownName, match=rf"^unknown hyperparameter '{word}'\. Did you mean '{field}'\?"):
        RunConfig.build("CartPole-v1", algorithm=algorithm, **{word: 1.0})


@pytest.mark.parametrize(("algorithm", "field", "whose"), [
    ("ppo", "rho_clip", "'vtrace'"), ("ppo", "replay_ratio", "'r2d2' and 'sac'"), ("vtrace", "kl_bound", "'vmpo'"),
])  # fmt: skip
def test_a_field_of_other_algorithms_is_said_to_be_theirs(algorithm: str, field: str, whose: str) -> None:
    with pytest.raises(UnknownName, match=f"^{field} is a field of {whose}, and not of this run's algorithm") as error:
        RunConfig.build("CartPole-v1", algorithm=algorithm, **{field: 1.0})
    remedy = f"A run that has it: wb.launch(..., algorithm={whose.split()[0]})."
    assert str(error.value).endswith(f"algorithm, {algorithm!r}. {remedy}")


def test_a_checkpoint_with_the_replay_keeps_its_flag() -> None:
    said = in_commands("First write one: run.checkpoint(replay=True), or run.checkpoint().", "typed")
    assert said == "First write one: `workbench checkpoint typed --replay`, or `workbench checkpoint typed`."


def test_an_unknown_field_says_the_nearest_and_how_to_list_all(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded.vtrace("typed")
    assert exit_code(["tune", "typed", "lr=1e-3"]) == 2
    assert capsys.readouterr().err == (
        "workbench: unknown hyperparameter 'lr'. Did you mean 'learning_rate'? `workbench tune typed` lists the fields "
        "that can be changed.\n")
    assert exit_code(["tune", "typed"]) == 0
    table = capsys.readouterr().out
    assert "learning_rate" in table and "0 to 1" in table and "batch_size" not in table
    with pytest.raises(UnknownName, match=r"Did you mean 'learning_rate'\? run\.hyperparameters lists"):
        wb.attach("typed").tune(lr=1e-3)


def test_a_narrow_terminal_has_room_for_the_return(home: Path) -> None:
    recorded.vtrace("seen-vtrace-1")
    table = wb.runs()
    assert all(word in repr(table) for word in ("mean return", "-20", "algorithm", "vtrace"))
    narrow = table.text(65).splitlines()
    assert max(map(len, narrow)) <= 65 and narrow[-1] == "(a wider terminal shows steps/s, age, algorithm)"
    assert "mean return" in narrow[0] and "-20" in narrow[1] and "ALE/Pong-v5" in narrow[1]


def test_stopping_a_run_that_has_ended_is_said_in_one_sentence(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded.vtrace("typed").write(state="stopped")
    sentence = "typed is stopped already: there is nothing to stop.\n"
    assert exit_code(["stop", "typed"]) == 0
    out, notice = capsys.readouterr()
    assert exit_code(["status", "typed"]) == 0
    assert recorded.STATUS["hint"] not in capsys.readouterr().out, "what would help a run that goes on"
    assert notice == sentence and out.startswith("typed: stopped")
    assert wb.attach("typed").stop().state == "stopped"
    assert capsys.readouterr().out == sentence


@pytest.mark.parametrize(("name", "said"), [
    ("total_timesteps", r"Did you mean 'total_frames'\? It counts frames: each step of an Atari game is four"),
    ("buffer_size", r"buffer_size \(replay_size here\) is a field of 'r2d2' and 'sac', and not of .*'ppo'"),
    ("burn_in", "burn_in is a field of 'bc' and 'r2d2', and not of this run's algorithm"),
])
def test_a_word_of_another_library_is_told_with_its_unit_and_its_algorithm(name: str, said: str) -> None:
    with pytest.raises(UnknownName, match=said):
        RunConfig.build("CartPole-v1", algorithm="ppo", **{name: 5})


def test_metrics_have_the_names_of_other_libraries_too() -> None:
    known = set().union(*(described(config) for config in ALGORITHMS.values()))
    assert {name for name in meanings.SYNONYMS.values()} <= known | {"episode_score", "episode_score_mean"}
