"""The command line, as a person types it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import workbench as wb
from tests.conftest import SMALL, eventually, processes_of
from tests.widgets import recorded
from workbench.__main__ import main
from workbench.cli.commands import build_parser
from workbench.cli.parser import APART
from workbench.cli.values import option
from workbench.config import ALGORITHMS
from workbench.config.signatures import all_settings
from workbench.errors import WrongType
from workbench.lessons import notebook_files

OPTIONS = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]


def workbench(*arguments: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "workbench", *arguments], capture_output=True, text=True, timeout=timeout_s
    )


def exit_code(arguments: list[str]) -> int:
    """Of the command with these arguments, in this process."""
    try:
        return main(arguments)
    except SystemExit as end:  # argparse
        return int(end.code or 0)


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Gives what a command prints, in this process."""
    def printed(*arguments: str) -> str:
        assert exit_code(list(arguments)) == 0
        return capsys.readouterr().out

    return printed


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["launch", "CartPole-v11"], "Did you mean 'CartPole-v1'"),
        (["launch", "CartPole-v1", "--learning-rat=1"], "unrecognized arguments: --learning-rat=1"),
        (["launch", "CartPole-v1", "--actrs=3"], "arguments: --actrs=3. Did you mean '--actors'? (see workbench lau"),
        (["launch", "CartPole-v1", "--actrs", "3"], "Did you mean '--actors'?"),
        (["train", "CartPole-v1", "--gae_lambda=1"], "--gae_lambda=1. Did you mean '--lambda'?"),
        (["train", "CartPole-v1", "--lr", "1"], "Did you mean '--learning-rate'?"),
        (["stop", "nobody", "--timeout", "3"], "Did you mean '--timeout-s'? (see workbench stop --help)"),
        (["lanch", "CartPole-v1"], "Did you mean 'launch'? (see workbench --help)"),
        (["launch", "CartPole-v1", "--total-frames=20 X"], "total_frames='20 X' must be a whole number"),
        (["launch", "CartPole-v1", "--total-frames=1.5"], "total_frames=1.5 must be a whole number"),
        (["stop", "nobody"], "`workbench runs` lists the runs."),
        (["rollout", "nobody", "--output=film.avi"], "cannot save a film as 'film.avi': its name must end in .mp4 or"),
        (["rollout", "nobody", "--output=nowhere/film.gif"], "cannot write"),
        (["evaluate", "nobody", "--checkpoint=000000000001"], "there is no run 'nobody'"),
        (["launch", "CartPole-v1", "--learning-rate=7"], "learning_rate=7.0 is out of bounds"),
        (["launch", "CartPole-v1", "--learning-rate", "-1e-3"], "learning_rate=-0.001 is out of bounds"),
        (["launch", "CartPole-v1", "--actors=two"], "actors='two' must be a whole number, not text"),
        (["launch", "CartPole-v1", "--actors=0"], "actors=0 is out of bounds"),
        (["launch", "CartPole-v1", "--environment-option=fast"], "'fast' must look like name=value"),
        (["train", "CartPole-v1", "--algorithm=vtrac"], "Did you mean 'vtrace'"),
        (["status", "nobody"], "there is no run 'nobody'"),
        (["stop", "nobody"], "there is no run 'nobody'"),
        (["tune", "nobody", "learning_rate=1e-4"], "there is no run 'nobody'"),
        (["fork", "nobody", "--replay", "learning_rate=1e-4"], "there is no run 'nobody'"),
        (["fork", "nobody", "--replai", "learning_rate=1e-4"], "unrecognized arguments: --replai"),
        (["compare", "nobody"], "there is no run 'nobody'"),
        (["metrics", "nobody", "loss"], "there is no run 'nobody'"),
        (["logs", "nobody"], "there is no run 'nobody'"),
        (["fields", "learning_rat"], "Did you mean 'learning_rate'? `workbench fields` lists them."),
        (["fork", "nobody@000000000001"], "there is no run 'nobody'"),
        (["tune"], "the following arguments are required: name (see"),
        (["scale", "nobody", "3"], "there is no run 'nobody'"),
        (["launch", "CartPole-v1", "--clip=0.1"], "A run that has it: `workbench launch ENVIRONMENT --algorithm ppo`"),
        (["evaluate", "nobody"], "there is no run 'nobody'"),
        (["dance"], "invalid choice: 'dance'"),
        (["list"], "invalid choice: 'list'. Did you mean 'runs'?"),
        ([], "required"),
    ],
)
def test_an_error_is_one_line_and_exit_code_2(
    home: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], text: str
) -> None:
    code = exit_code(arguments)
    out, told = capsys.readouterr()
    assert code == 2
    assert text in told
    assert len(told.strip().splitlines()) == 1
    assert out == ""
    assert len(wb.runs()) == 0


def test_every_command_and_every_setting_is_in_the_help(here: Callable[..., str]) -> None:
    told = here("--help")
    assert all(name in told for name in ("train", "launch", "fork", "runs", "status", "tune", "stop"))
    shown = here("launch", "--help")
    assert "--learning-rate" in shown
    assert "--lambda" in shown
    assert "--envs-per-actor" in shown


def test_the_help_of_a_command_groups_its_options_and_leaves_none_out(here: Callable[..., str]) -> None:
    shown = here("help", "launch")
    assert shown == here("launch", "--help") and shown.startswith("usage: workbench launch ENVIRONMENT [op")
    titles = [line for line in shown.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles[:7] == ["positional arguments:", "options:", "when it ends:", "environments and actors:",
                          "checkpoints:", "where it runs, and how fast:", "learning:"]
    assert {f"learning, {name} only:" for name in ALGORITHMS} <= {*titles[7:]}
    assert "learning, awr and ppo and vmpo only:" in titles
    for name in set(all_settings()) - set(APART):
        assert len(re.findall(rf"^  {option(name)} ", shown, re.MULTILINE)) == 1, name
    assert re.search(r"--name NAME +of the sweep; default: ", here("sweep", "--help"))
    description = here("--help").split("\n\n")[1]
    assert description.endswith("command line.")


def test_runs_are_compared_and_read_from_a_shell(home: Path, here: Callable[..., str]) -> None:
    first, _ = recorded.vtrace("first"), recorded.new("second", "ppo")
    first.logs.mkdir(exist_ok=True)
    (first.logs / "learner.log").write_text("all went well\n")
    together = here("compare", "first", "second")
    assert re.search(r"^algorithm +vtrace +ppo$", together, re.MULTILINE) and together.startswith("name ")
    assert "loss" in here("metrics", "first").splitlines()
    assert here("metrics", "first", "loss").startswith("frames,steps,updates,time_s,value\n")
    assert here("metrics", "second", "loss") == "frames,steps,updates,time_s,value\n"
    assert "max_gradient_norm" in here("fields", "ppo") and "ppo" in here("fields", "epochs")
    happened, events = here("events", "first").splitlines(), wb.attach("first").events
    assert [line.split()[2] for line in happened] == events["kind"].tolist()
    assert re.match(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d  ", happened[0])
    assert here("logs", "first") == f"{first.logs / 'learner.log'}\nall went well\n"


def test_a_change_is_also_taken_as_an_option() -> None:
    for words in ("tune --batch-size 16 mine", "tune mine --batch-size=16", "fork --replay mine --batch-size 16",
                  "resume mine batch_size=16"):
        parsed = build_parser().parse_args(words.split())
        assert (parsed.name, parsed.changes) == ("mine", ["batch_size=16"])


def test_the_version_is_told(here: Callable[..., str]) -> None:
    assert here("--version") == f"workbench {wb.__version__}\n"


@pytest.mark.parametrize("text", ["20M", "20 M", "2e7", "20_000_000", "20,000,000", "0.02G", "20000k"])
def test_a_number_is_taken_as_panels_write_it(text: str) -> None:
    setting = all_settings()["total_frames"]
    value = setting.typed(text)
    assert (value, type(value)) == (20_000_000, int)
    with pytest.raises(WrongType):
        wb.launch("CartPole-v1", total_frames=text)  # Python has numbers of its own


def test_runs_of_an_empty_home(home: Path, here: Callable[..., str]) -> None:
    assert here("runs").startswith("no runs in")


def test_launch_status_tune_evaluate_stop(
    home: Path, here: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*arguments: str) -> str:
        """What it says on the standard error, having done nothing."""
        assert exit_code(list(arguments)) == 2
        out, told = capsys.readouterr()
        assert out == ""
        return told

    more = ("--name=typed", "--total-frames=1e9", "--warmup-updates=0", "--network=mlp",
            "--environment-option=step_ms=10")
    assert workbench("launch", "testing/counting-v0", *more, *OPTIONS).stdout == "typed\n"
    assert "typed" in here("runs")
    told = json.loads(workbench("status", "typed", "--json").stdout)
    assert told["state"] == "training"
    assert "actor 1: alive" in here("status", "typed")
    assert exit_code(["resume", "typed"]) == 0
    assert capsys.readouterr() == ("typed\n", "typed is training already: it was not started again.\n")
    assert here("pause", "typed").startswith("typed: paused")
    assert refused("pause", "other").startswith("workbench: there is no run 'other'")
    assert here("resume", "typed", "entropy_cost=0.02") == "typed\n" and wb.attach("typed").state == "training"
    assert wb.attach("typed").config.value("entropy_cost") == 0.02
    written = here("checkpoint", "typed").strip()
    assert written == f"typed@{wb.attach('typed').checkpoints[-1].path.name}"
    assert "2 episodes" in here("evaluate", written, "--episodes=2")
    assert here("tune", "typed", "learning_rate=3e-4") == "learning_rate: 0.0006 → 0.0003\n"
    assert refused("tune", "typed", "batch_size=3").startswith("workbench: batch_size is fixed once a run has started")
    assert "`workbench scale typed 1`" in refused("tune", "typed", "actors=1")
    assert "actors='one' must be a whole number" in refused("scale", "typed", "one")
    assert here("scale", "typed", "actors=2") == "actors: 2 → 2\n"
    assert here("scale", "typed", "1") == "actors: 2 → 1\n" and wb.attach("typed").config.actors == 1
    assert workbench("stop", "typed").stdout.startswith("typed: stopped")
    shown = here("status", "typed")
    assert "actor 0: ended" in shown and "dead" not in shown and "\n  learner: cpu fp32, 1 thread\n" in shown
    words = ["seed=3", "--name=other", "learning_rate=1e-4", "--launcher", "local", "actors=1"]
    assert here("fork", written, *words) == "other\n"
    assert Path(wb.attach("other").directory.parent()["checkpoint"]).name == written.partition("@")[2]
    config = wb.attach("other").config
    assert (config.seed, config.value("learning_rate"), config.actors) == (3, 1e-4, 1)
    assert here("stop", "other").startswith("other: stopped")
    assert here("resume", "other", "actors=2") == "other\n"
    several = workbench("stop", "nobody", "other", "--timeout-s=60", "--", "typed")
    assert several.stdout.startswith("other: stopped") and "\ntyped: stopped" in several.stdout
    assert several.returncode == 2 and several.stderr.startswith("workbench: there is no run 'nobody'")
    assert "stopped" in here("checkpoints", "other") and wb.attach("other").config.actors == 2
    told = refused("fork", "typed", f"--checkpoint={written}", "--name=third", "network=resnet")
    assert told.startswith("workbench: network cannot change from 'mlp' to 'resnet' in a fork"), told
    assert eventually(lambda: not processes_of(home / "runs" / "typed"))
    newest = here("checkpoints", "typed").splitlines()[-1].split()[0]
    shown = workbench("evaluate", "typed", "--checkpoint", newest, "--episodes=3").stdout
    assert here("evaluate", f"typed@{newest}", "--episodes=3") == shown
    assert all("unknown checkpoint" in refused(command, f"typed@{newest}0") for command in ("evaluate", "fork"))
    assert shown.startswith("Evaluation(testing/counting-v0 at ")
    assert "3 episodes" in shown


@pytest.mark.full
def test_train_shows_progress_until_the_run_finishes(home: Path) -> None:
    done = workbench("train", "CartPole-v1", "--name=short", "--total-frames=3000", *OPTIONS)
    assert done.returncode == 0, done.stderr
    assert "short: finished" in done.stdout
    assert wb.attach("short").status.state == "finished"


def test_an_interrupt_says_which_runs_were_not_reached(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("workbench.rundir.find", interrupted)
    assert exit_code(["delete", "one", "two", "three"]) == 130
    assert capsys.readouterr().err.strip() == "not reached: two, three"
    assert exit_code(["delete", "one"]) == 130 and not capsys.readouterr().err.strip()


@pytest.mark.full
def test_an_interrupt_of_train_leaves_the_run_or_stops_it(home: Path) -> None:
    command = [sys.executable, "-u", "-m", "workbench", "train", "CartPole-v1", "--name=kept", *OPTIONS]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as train:
        try:
            eventually(lambda: "kept" in [one.name for one in wb.runs()] and wb.attach("kept").state == "training")
            os.kill(train.pid, signal.SIGINT)
            _, told = train.communicate(timeout=240)
        finally:
            train.kill()
    assert train.returncode == 130
    assert "Traceback" not in told
    assert wb.attach("kept").status.state == "training"


@pytest.mark.full
def test_lab_serves_copies_of_the_lessons_and_leaves_one_that_is_there(tmp_path):
    (tmp_path / "02-central-inference.ipynb").write_text("mine")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "workbench", "lab", "--", "--no-browser", f"--port={port}", "--ServerApp.token=t"]
    environment = {**os.environ, "HOME": str(tmp_path), "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime")}
    url = f"http://127.0.0.1:{port}/api/contents/01-first-run.ipynb?token=t&content=0"

    def served() -> bool:
        with suppress(OSError), urllib.request.urlopen(url, timeout=240) as answer:
            return answer.status == 200
        return False

    with (tmp_path / "log").open("wb") as log:
        lab = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
    try:
        eventually(served, what=f"JupyterLab answers: {(tmp_path / 'log').read_text()[-500:]}")
        for path, answer in (("workbench/api/overview", b'"runs"'), ("lab", b'"rl-workbench"')):  # with its side panel
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}?token=t", timeout=240) as page:
                assert answer in page.read()
    finally:
        lab.terminate()
        lab.wait(240)
    assert {path.name for path in tmp_path.glob("*.ipynb")} == {path.name for path in notebook_files.every()}
    assert (tmp_path / "02-central-inference.ipynb").read_text() == "mine"


@pytest.mark.parametrize(("is_full", "said"), [
    (True, "workbench: cannot write the output: No space left on device. Make room, or send it elsewhere.\n"),
    (False, ""),
], ids=["a full disk", "a reader that has gone"])
def test_an_output_that_takes_no_more_ends_the_command_without_a_traceback(
    home: Path, is_full: bool, said: str
) -> None:
    if is_full:
        target = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, target = os.pipe()
        os.close(reader)
    try:
        done = subprocess.run([sys.executable, "-m", "workbench", "fields"], stdout=target, stderr=subprocess.PIPE,
                              text=True, timeout=120)
    finally:
        os.close(target)
    assert (done.returncode, done.stderr) == (1, said)


def test_a_command_works_where_the_working_directory_is_gone(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    code = f"import os, sys; os.rmdir({str(gone)!r}); from workbench.__main__ import main; sys.exit(main(['runs']))"
    done = subprocess.run([sys.executable, "-c", code], cwd=gone, text=True, capture_output=True, timeout=240,
                          env={**os.environ, "WORKBENCH_HOME": str(tmp_path / "home")})
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr


def test_a_launch_waits_as_long_as_it_was_told(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = exit_code(["launch", "testing/counting-v0", "--name=slow", "--ready-timeout-s=0.01", *OPTIONS])
    assert code == 2 and "slow does not train after 0.01 s" in capsys.readouterr().err
    assert wb.attach("slow").wait(updates=1, timeout_s=240)
