"""Tab and Shift+Tab in a real kernel: fields, environments, metrics and runs, by the object's type and not its name."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jupyter_client.manager import KernelManager

import workbench as wb
from tests.conftest import LONGEST_S
from tests.widgets import recorded
from workbench.cli import completion
from workbench.cli.completion import matches, open_call
from workbench.config import RunConfig
from workbench.config.own_algorithm import described
from workbench.rundir import RunDirectory


@pytest.mark.parametrize(("code", "function", "keyword", "place", "prefix", "quoted"), [
    ("wb.launch(", "wb.launch", "", 0, "", False),
    ('wb.launch("ALE/Po', "wb.launch", "", 0, "ALE/Po", True),
    ("wb.launch('CartPole-v1', lear", "wb.launch", "", 1, "lear", False),
    ('wb.launch("a", optimizer="r', "wb.launch", "optimizer", 1, "r", True),
    ("x = 3\nmine.tune(learning_rate=f(1, 2), ", "mine.tune", "", 1, "", False),
    ("wb.launch(f(", "f", "", 0, "", False),
    ("wb.launch('a(b', n", "wb.launch", "", 1, "n", False),
    ("wb.launch(env, options={'a': [1, 2], 'b", "", "", 0, "", False),
    ("wb.launch(env, seed=", "wb.launch", "seed", 1, "", False),
    ("# the run's rate (\nwb.launch('a',  # it's a name\n  lear", "wb.launch", "", 1, "lear", False),
    ('def f():\n    """What a run\'s\n    rate (is."""\nwb.launch("a#b', "wb.launch", "", 0, "a#b", True),
    ("wb.launch('''it's\na 'name' (''', n", "wb.launch", "", 1, "n", False),
    ("wb.launch('", "wb.launch", "", 0, "", True),
    ("wb.launch('', n", "wb.launch", "", 1, "n", False),
    ("# see wb.launch('Cart", "", "", 0, "", False),
])
def test_the_call_that_the_cursor_is_in(code: str, function: str, keyword: str, place: int, prefix: str,
                                        quoted: bool) -> None:
    call = open_call(code)
    if not function:
        assert call is None
        return
    assert call is not None
    assert (call.function, call.keyword, call.place, call.prefix, call.quoted) == (
        function, keyword, place, prefix, quoted)


def test_a_closed_call_and_code_of_others_complete_nothing() -> None:
    variables = {"wb": wb, "print": print, "text": "abc"}
    for code in ("wb.launch('CartPole-v1')", "print(", "text.split(", "wb.launch('a').tune(", "unknown(", ")", ""):
        assert matches(code, variables)[0] == []


def test_fields_of_an_algorithm_of_the_users_own_are_offered_where_they_can_be_changed() -> None:
    class Mine(wb.LearningConfig):
        gain: float = wb.setting(1.0, "gain", live=True)
        depth: int = 3

    description = described(Mine, taken={})
    owner = SimpleNamespace(hyperparameters=None,
                            config=RunConfig.build("x", algorithm="Own", own_algorithm=description))
    offered = {name: completion._keywords(getattr(wb.Run, name), owner) for name in ("tune", "fork", "wait")}
    assert "gain" in offered["tune"] and "depth" not in offered["tune"]
    assert {"gain", "depth"} <= set(offered["fork"]) and "gain" not in offered["wait"]


def test_a_keyword_that_is_there_already_is_not_offered_again() -> None:
    words, _ = matches("wb.launch('CartPole-v1', learning_rate=1e-3, learning_", {"wb": wb})
    assert words == ["learning_rate_schedule="]


@pytest.fixture(scope="module")
def run(module_home: Path) -> RunDirectory:
    return recorded.vtrace("completed")


class Kernel:
    """A kernel of IPython, as JupyterLab's page asks it."""

    def __init__(self) -> None:
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(extra_arguments=["--InteractiveShellApp.exec_lines=''"])
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=LONGEST_S)

    def run(self, code: str) -> list[dict[str, Any]]:
        """Execute; returns what came back."""
        messages: list[dict[str, Any]] = []
        self.client.execute_interactive(code, timeout=LONGEST_S, output_hook=messages.append)
        return messages

    def complete(self, code: str) -> list[str]:
        """The texts that Tab offers at the end of `code`."""
        reply = self.client.complete(code, len(code), reply=True, timeout=LONGEST_S)
        content = reply["content"]
        begin = content["cursor_start"]
        return [code[:begin] + text for text in content["matches"]]

    def inspect(self, code: str) -> str:
        """What Shift+Tab shows at the end of `code`."""
        reply = self.client.inspect(code, len(code), reply=True, timeout=LONGEST_S)
        return str(reply["content"]["data"].get("text/plain", ""))

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module", params=[False, True], ids=["without jedi", "with jedi"])
def kernel(request: pytest.FixtureRequest, run: RunDirectory) -> Iterator[Kernel]:
    started = Kernel()
    try:
        started.run(f"%config IPCompleter.use_jedi = {request.param}")
        started.run("import workbench as wb\nmine = wb.attach('completed')")
        yield started
    finally:
        started.close()


@pytest.mark.parametrize(("code", "expected", "not_expected"), [
    ('wb.launch("CartPole-v1", lear', "learning_rate=", ""),
    ('wb.launch("ALE/Po', "ALE/Pong-v5", "CartPole-v1"),
    ("mine.tune(", "entropy_cost=", "unroll_length="),
    ("mine.tune(lear", "learning_rate=", "entropy_cost="),
    ("mine.fork(un", "unroll_length=", "learning_rate="),
    ("mine.fork(", "entropy_cost=", "replay_ratio="),
    ('mine.metrics("episode_re', "episode_return", "total_loss"),
    ('wb.attach("com', "completed", ""),
    ('wb.launch("CartPole-v1", optimizer="', "rmsprop", ""),
    ('wb.launch("CartPole-v1", algorithm="r', "r2d2", "vtrace"),
    ("wb.la", "launch", "importlib"),
    ('import numpy as np\nwb.launch("CartPo', "CartPole-v1", "ALE/Pong-v5"),
    ('# a run\'s rate\nrun = wb.launch("CartPole-v1",\n                lear', "learning_rate=", ""),
    ('wb.launch("CartPole-v1", actors=1)\nnumbers = sorted([1, 2], ke', "key=", "actors="),
])
def test_tab_offers_what_a_call_takes(kernel: Kernel, code: str, expected: str, not_expected: str) -> None:
    offered = kernel.complete(code)
    assert any(text.endswith(expected) for text in offered), offered
    assert not not_expected or not any(text.endswith(not_expected) for text in offered), offered


def test_tab_behind_the_package_lists_the_public_names_and_nothing_else(kernel: Kernel) -> None:
    offered = {text.rpartition(".")[2] for text in kernel.complete("wb.")}
    assert {name for name in offered if not name.startswith("__")} == set(wb.__all__)


@pytest.mark.parametrize(("code", "texts"), [
    ("wb.launch(", (
        "learning_rate = 0.0006  [0 to 1]", "replay_ratio = 0.75", "unroll_length = 20  [1 to 10,000 steps]")),
    ("mine.tune(", ("entropy_cost = 0.01  [0 to 10]",)),
    ("mine.fork(", ("unroll_length = 20",)),
    ("wb.resume(", ("actors = 2  [1 to 4096 processes]",)),
])
def test_shift_tab_shows_the_fields_with_default_bounds_and_unit(
    kernel: Kernel, code: str, texts: tuple[str, ...]
) -> None:
    shown = kernel.inspect(code)
    assert all(text in shown for text in texts), shown


def test_an_error_shows_the_users_line_and_the_message_and_the_rest_on_demand(kernel: Kernel) -> None:
    code = "first = 1\nwb.launch('CartPole-v1', learning_rate=-1)"
    [error] = [message["content"] for message in kernel.run(code) if message["msg_type"] == "error"]
    assert len(error["traceback"]) == 3
    assert "Cell In[" in error["traceback"][0] and "line 2:  wb.launch('CartPole-v1'" in error["traceback"][0]
    assert "learning_rate=-1.0 is out of bounds: it must lie in [0, 1]" in error["traceback"][1]
    [whole] = [message["content"] for message in kernel.run("%tb") if message["msg_type"] == "error"]
    assert "settings.py" in "".join(whole["traceback"])


def test_a_misspelt_name_gets_the_nearest(kernel: Kernel) -> None:
    for code, hint in (("wb.lanuch", "launch"), ("mine.tuen", "tune"), ("mine.metrics('reward')", "episode_return")):
        [error] = [message["content"] for message in kernel.run(code) if message["msg_type"] == "error"]
        assert f"Did you mean '{hint}'?" in error["evalue"]


def test_a_bare_run_after_a_restart_says_how_to_attach(kernel: Kernel) -> None:
    printed = "".join(str(message["content"]) for message in kernel.run("run"))
    assert "run = wb.attach('completed')" in printed and "IndexError" not in printed
    assert any("3" in str(message["content"]) for message in kernel.run("run = 3\nrun"))


def test_without_ipython_nothing_of_it_is_loaded() -> None:
    code = "import sys, workbench; print('IPython' in sys.modules, 'workbench.cli' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["False", "False"]
