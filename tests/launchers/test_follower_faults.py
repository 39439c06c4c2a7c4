"""Whoever follows a run, or asks Ray about one, when something goes away at a bad moment."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import LONGEST_S, eventually
from tests.launchers.test_followed import ADDRESS, Nearby
from workbench import rundir
from workbench.config import RunConfig
from workbench.errors import ConnectionLost
from workbench.launchers import ray as ray_launcher
from workbench.launchers.ray import RayLauncher, finding
from workbench.launchers.ray.follower import LOG
from workbench.rundir import RunDirectory, lock


def ended(name: str) -> RunDirectory:
    """A run without processes."""
    config = RunConfig.build("CartPole-v1").to_json()
    return rundir.create(name, {"created": 7.0, "config": config, "state": "stopped", "lives": 1})


def test_who_takes_over_while_the_cluster_is_away_follows_once_it_answers(home: Path) -> None:
    run = ended("later")
    said: dict[str, Any] = {}
    second = Nearby("ray://10.0.0.9:10001/later", said.update)
    second.run = run
    copy = second.begin()
    copy.update()  # as the first one has
    second.cable = False  # since then
    following = threading.Thread(target=second.follow, args=[copy], kwargs={"takes_over": True}, daemon=True)
    following.start()
    eventually(lambda: said.get("following") == str(copy.directory.path))
    log = copy.directory.logs / LOG
    eventually(lambda: log.exists() and "later" in log.read_text())  # whose log says why the copy is old
    run.write(state="failed")
    second.cable = True
    eventually(lambda: copy.directory.read()["state"] == "failed")
    shutil.rmtree(copy.directory.path)
    following.join(LONGEST_S)
    assert not following.is_alive(), "nothing is left to follow"


def test_a_process_that_follows_no_more_ends_and_leaves_the_copy_s_lock(tmp_path: Path) -> None:
    code = textwrap.dedent(f"""
        import os
        from pathlib import Path
        from types import SimpleNamespace
        from workbench.launchers.ray import follower
        from workbench.rundir import RunDirectory

        class Failing(follower.Follower):
            def begin(self):
                return SimpleNamespace(directory=RunDirectory(Path({str(tmp_path)!r})))
            def follow(self, copy, **_):
                self._say(following=str(copy.directory.path))
                raise ZeroDivisionError("a fault of ours")

        follower.Follower = Failing
        os._exit(follower.main({ADDRESS!r}))
    """)
    with subprocess.Popen([sys.executable, "-P", "-c", code], text=True, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == {"following": str(tmp_path)}
        try:
            assert process.wait(LONGEST_S) == 0, "though nobody has closed its input"
        finally:
            process.kill()
        assert "a fault of ours" in process.stdout.read()
    assert not lock.is_held(lock.of_follower(RunDirectory(tmp_path)))


def test_a_copy_that_was_removed_is_followed_by_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    (tmp_path / "some_follower.py").write_text(textwrap.dedent(f"""
        import json, os, sys
        os.makedirs(copy := {str(tmp_path / "copy")!r}, exist_ok=True)
        open(f"{{copy}}/remote.json", "w").close()
        print(json.dumps({{"following": copy}}), flush=True)
        sys.stdin.read()
    """))
    monkeypatch.syspath_prepend(tmp_path)
    helper, place = ray_launcher._Helper, RayLauncher()
    monkeypatch.setattr(ray_launcher, "_Helper", lambda module, address: helper("some_follower", address))
    first = place.follow(ADDRESS)
    assert place.follow(ADDRESS) is first
    shutil.rmtree(first.directory.path)
    assert place.follow(ADDRESS) is not first and first.directory.is_copy


def test_a_late_answer_is_not_taken_for_the_next_one(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a cluster that was busy for longer than anybody waits."""
    (tmp_path / "slow_starter.py").write_text(textwrap.dedent("""
        import json, os, sys, time
        for line in sys.stdin:
            asked = json.loads(line)["waits_for"]
            while asked.endswith("slow") and not os.path.exists(f"{asked}/ready"):
                time.sleep(0.01)
            print(json.dumps({"answer": asked}), flush=True)
            if asked.endswith("slow"):
                sys.stdin.read()  # so that it is its last answer
    """))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(ray_launcher, "_starter", lambda address: ray_launcher._Helper("slow_starter", address))
    slow, other, place = ended("slow"), ended("other"), RayLauncher()
    with monkeypatch.context() as patch, pytest.raises(ConnectionLost):
        patch.setattr(ray_launcher, "_CONNECT_S", 0.0)
        place.waits_for(slow)
    (slow.path / "ready").touch()
    assert place.waits_for(other) == str(other.path)


def test_a_host_that_ends_while_it_is_looked_for_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")

    def gone(name: str) -> Any:
        raise ValueError(f"Failed to look up actor with name '{name}'")

    monkeypatch.setattr(ray.util, "list_named_actors", lambda: ["learners of pong 0123456789abcdef"])
    monkeypatch.setattr(ray, "get_actor", gone)
    assert finding._alive("pong") == []
