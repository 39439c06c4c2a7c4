"""Names of runs, and what an interrupt leaves."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import workbench as wb
from tests.conftest import SMALL, eventually
from workbench.client.start import _created, _stem
from workbench.config import RunConfig


@pytest.mark.parametrize(
    ("environment", "stem"),
    [
        ("ALE/Pong-v5", "pong"),
        ("CartPole-v1", "cartpole"),
        ("package:Some/My_Env-v12", "my-env"),
        ("MyEnv", "myenv"),
        ("lambda", "lambda"),
        ("///", "run"),
    ],
)
def test_a_name_is_made_of_the_environments(environment: str, stem: str) -> None:
    assert _stem(environment) == stem


def test_launches_at_the_same_time_get_names_of_their_own(home: Path) -> None:
    config = RunConfig.build("CartPole-v1")
    record = {"created": time.time(), "config": config.to_json(), "state": "stopped"}
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: _created(None, config, record).name, range(16)))
    assert sorted(made) == sorted(f"cartpole-vtrace-{number}" for number in range(1, 17))
    assert {one.state for one in wb.runs()} == {"stopped"}


def test_an_interrupted_launch_leaves_the_run_and_says_its_name(home: Path) -> None:
    code = f"import workbench as wb; wb.launch('CartPole-v1', name='left', **{SMALL!r})"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as kernel:
        try:
            eventually(lambda: "left" in [run.name for run in wb.runs()] and wb.attach("left").status.supervisor_pid)
            kernel.send_signal(signal.SIGINT)
            out, _ = kernel.communicate(timeout=30)
        finally:
            kernel.kill()
    assert out.decode() == "left goes on in the background: wb.attach('left') gives its handle, .stop() ends it.\n"
    assert wb.attach("left").wait(updates=1, timeout_s=60).state == "training"
