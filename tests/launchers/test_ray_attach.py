"""A notebook that shares no folder with a Ray cluster: none of the cluster's files, and a home of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import workbench as wb
from tests.conftest import CALM, eventually
from tests.launchers.clusters import node_of, ray_cluster
from workbench.rundir import lock

pytestmark = pytest.mark.full

START_S = 240.0
CLIENT_PORT = 23_117
NAME = "apart"
FIELDS = {**CALM, "launcher": "ray", "learner_cpus": 1.0, "actor_cpus": 0.5, "total_frames": 10**9,
          "ready_timeout_s": START_S}
ADDRESS = f"ray://127.0.0.1:{CLIENT_PORT}/{NAME}"


@pytest.fixture(scope="module")
def cluster(module_home: Path) -> Iterator[Any]:
    """A head without room, so that it stays when a node is lost, and two nodes of which each has room for a run."""
    with ray_cluster(0, 2, 2, ray_client_server_port=CLIENT_PORT) as made:
        yield made


@pytest.fixture(scope="module")
def run(cluster: Any) -> Iterator[wb.Run]:
    """The run as the cluster's own machine sees it."""
    made = wb.launch("testing/counting-v0", name=NAME, address=cluster.address, **FIELDS)
    yield made
    if made.status.alive:
        made.stop(timeout_s=20)


class Notebook:
    """A Python process that sees an empty disk in place of the cluster's home, and has a disk of its own for its home,
    which nobody else sees."""

    def __init__(self, hidden: Path, home: Path) -> None:
        code = textwrap.dedent("""
            import json, sys, traceback
            import workbench as wb
            names = {"wb": wb}
            print(json.dumps("up"), flush=True)
            for line in sys.stdin:
                try:
                    code = json.loads(line)
                    try:
                        answer = eval(code, names)
                    except SyntaxError:
                        exec(code, names)
                        answer = None
                    print(json.dumps({"result": answer}), flush=True)
                except Exception as error:
                    traceback.print_exc()
                    print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
        """)
        mounts = " && ".join(f'mount -t tmpfs tmpfs "{folder}"' for folder in (hidden, home))
        mounted = f'{mounts} && exec {sys.executable} -P -c "$CODE"'
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        self._process = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", mounted], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**environment, "WORKBENCH_HOME": str(home / "w"), "HOME": str(home), "CODE": code})
        self._said: list[str] = []
        assert self._process.stderr is not None
        threading.Thread(target=self._said.extend, args=[self._process.stderr], daemon=True).start()
        if self._line() is None:
            self._process.wait()
            pytest.skip(f"only root can hide a folder from a process: {''.join(self._said)[-300:]}")

    def _line(self) -> Any:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(('{"result', '{"error', '"up')):
                return json.loads(line)
        return None

    def __call__(self, code: str) -> Any:
        """The value of an expression there, or None for statements. Fails with the error that they raise."""
        answer = self.tried(code)
        assert "error" not in answer, f"{answer.get('error')}\n{''.join(self._said)[-3000:]}"
        return answer["result"]

    def tried(self, code: str) -> dict[str, Any]:
        """{"result"} or {"error"} of it."""
        assert self._process.stdin is not None
        print(json.dumps(textwrap.dedent(code)), file=self._process.stdin, flush=True)
        answer = self._line()
        assert answer is not None, "".join(self._said)[-3000:]
        return answer

    def end(self) -> None:
        """As when a kernel is killed."""
        self._process.kill()
        self._process.wait()


@pytest.fixture(scope="module")
def notebook(run: wb.Run, module_home: Path) -> Iterator[Notebook]:
    with tempfile.TemporaryDirectory(prefix="wn-") as home:
        made = Notebook(module_home, Path(home))
        made(f"run = wb.attach({ADDRESS!r})")
        yield made
        made.end()


def test_a_notebook_without_the_cluster_s_files_sees_and_steers_the_run(run: wb.Run, notebook: Notebook) -> None:
    assert notebook(f"__import__('os').path.exists({str(run.path)!r})") is False
    assert notebook("run.name") == ADDRESS
    assert notebook("run.state") == "training"
    rows = notebook("len(run.metrics('frames_per_second'))")
    frames = notebook("run.status.frames")
    eventually(lambda: notebook("len(run.metrics('frames_per_second'))") > rows)
    assert notebook(f"run.wait(frames={frames + 200}, timeout_s=240, progress=False).frames") >= frames + 200
    assert notebook("run.tune(learning_rate=1e-5)['new']['learning_rate']") == 1e-5
    assert notebook("run.config.value('learning_rate')") == 1e-5, "it is here when the call returns"
    assert run.config.value("learning_rate") == 1e-5
    assert "tune" in notebook("run.events['kind'].tolist()")
    logs = "{path.name for path in run.directory.logs.iterdir()}"
    assert notebook(f"{{'supervisor.log', 'learner.log', 'actor-0.log'}} <= {logs}") is True
    notebook("run.pause()")
    assert notebook("run.state") == "paused" == run.state
    notebook("run.resume()")
    notebook("run.scale(actors=1)")
    assert notebook("run.config.actors") == 1 == run.config.actors
    assert notebook("type(run.dashboard()).__name__") == "RunPanel"
    assert notebook("len(wb.runs())") == 0, "it is no run of this machine"


def test_a_checkpoint_is_written_copied_and_played_there(run: wb.Run, notebook: Notebook) -> None:
    name = notebook("run.checkpoint().path.name")
    assert name in [checkpoint.path.name for checkpoint in run.checkpoints]
    assert notebook(f"run.checkpoints[{name!r}].verify()") is None
    assert notebook(f"wb.rollout(run.checkpoints[{name!r}], max_steps=20).path.parent.parent == run.path") is True
    assert notebook("len(run.rollouts)") == 1
    assert run.rollouts == [], "what the notebook plays stays with it"
    assert notebook("len(wb.evaluate(run, episodes=2).returns)") == 2
    assert ADDRESS in notebook("run.card().markdown")


def test_a_supervisor_that_ray_starts_again_is_found_again(run: wb.Run, notebook: Notebook) -> None:
    run.checkpoint()
    status = run.status
    host = psutil.Process(status.supervisor_pid).parent()
    assert host is not None and "ProcessHost" in " ".join(host.cmdline())
    host.kill()
    eventually(lambda: notebook("run.status.supervisor_pid") not in (None, status.supervisor_pid))
    assert notebook(f"run.wait(frames={status.frames + 200}, timeout_s=240, progress=False).state") == "training"


def test_a_run_that_moves_to_another_node_is_followed_there(run: wb.Run, notebook: Notebook, cluster: Any) -> None:
    run.checkpoint()
    status = run.status
    cluster.remove_node(node_of(cluster, status.supervisor_pid), allow_graceful=False)
    eventually(lambda: notebook("run.status.supervisor_pid") not in (None, status.supervisor_pid))
    assert notebook(f"run.wait(frames={status.frames + 200}, timeout_s=240, progress=False).state") == "training"
    assert notebook("run.tune(entropy_cost=0.03)['new']") == {"entropy_cost": 0.03}


def test_a_supervisor_that_was_killed_is_told_and_the_run_resumed_on_its_cluster(
    run: wb.Run, notebook: Notebook
) -> None:
    frames = notebook("run.checkpoint().frames")
    os.kill(run.status.supervisor_pid, signal.SIGKILL)
    eventually(lambda: notebook("run.state") == "dead")
    assert f"wb.resume('{ADDRESS}')" in notebook("run.status.reason")
    refused = notebook.tried("run.tune(learning_rate=1e-4)")
    assert refused["error"].startswith("RunNotAlive")
    resumed = f"wb.resume(run, learning_rate=2e-5, ready_timeout_s={START_S}, progress=False)"
    assert notebook(f"{resumed}.state") == "training"
    assert notebook("run.config.value('learning_rate')") == 2e-5 == run.config.value("learning_rate")
    assert notebook(f"run.wait(frames={frames + 200}, timeout_s=240, progress=False).state") == "training"
    assert lock.is_alive(run.directory)


def test_a_launch_from_there_says_what_to_do(cluster: Any, notebook: Notebook) -> None:
    fields = {**FIELDS, "address": f"ray://127.0.0.1:{CLIENT_PORT}", "learner_cpus": 0.1, "actor_cpus": 0.1}
    refused = notebook.tried(f"wb.launch('testing/counting-v0', name='unseen', **{fields!r})")
    assert "does not see the run directory" in refused["error"]
    assert "wb.attach('ray://HOST:PORT/NAME')" in refused["error"]


def test_what_is_not_there_is_said(notebook: Notebook) -> None:
    missing = notebook.tried(f"wb.attach({ADDRESS[:-1]!r})")
    assert missing["error"].startswith("RunNotFound") and f"Did you mean '{NAME}'" in missing["error"]
    nobody = notebook.tried("wb.attach('ray://127.0.0.1:1/apart')")
    assert nobody["error"].startswith("ConnectionLost") and "no Ray cluster answers" in nobody["error"]
    wrong = notebook.tried("wb.attach('ray://apart')")
    assert wrong["error"].startswith("InvalidInput") and "ray://HOST:PORT/NAME" in wrong["error"]


def test_a_run_that_is_stopped_from_there_has_its_last_checkpoint_there(run: wb.Run, notebook: Notebook) -> None:
    assert notebook("run.stop(timeout_s=60).state") == "stopped"
    assert eventually(lambda: run.status.state == "stopped")
    last = run.checkpoints[-1]
    assert notebook("run.checkpoints[-1].path.name") == last.path.name
    assert notebook("run.checkpoints[-1].verify()") is None
    assert notebook("run.status.frames") == run.status.frames
    assert not lock.is_alive(run.directory)


def test_a_run_that_has_ended_is_found_by_the_nodes_that_see_it(run: wb.Run, notebook: Notebook) -> None:
    notebook(f"del run; other = wb.attach('{ADDRESS}')")
    assert notebook("other.state") == "stopped"
    assert notebook("len(other.rollouts)") == 1, "the notebook's own, in the same copy"
    assert notebook(f"wb.resume({ADDRESS!r}, ready_timeout_s={START_S}, progress=False).state") == "training"
    assert notebook("other.stop(timeout_s=60).state") == "stopped"
