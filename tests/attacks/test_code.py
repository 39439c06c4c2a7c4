"""Code runs only where its user put it: every call that would unpickle, against code that came from elsewhere."""

from __future__ import annotations

import ast
import json
import os
import pickle
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import workbench
import workbench as wb
from tests.attacks import hostile
from tests.played import checkpoint_in, code_of
from workbench import checkpoints, rundir
from workbench.checkpoints import Checkpoint
from workbench.config import RunConfig
from workbench.environments.adapters import code_by_value
from workbench.errors import AccessDenied, InvalidInput
from workbench.launchers import colab
from workbench.playing.rollout import Rollout, load
from workbench.playing.store import RolloutWriter
from workbench.rundir import RunDirectory, sealed, untried
from workbench.running.starts.checking import checked_config
from workbench.sweeping import study, sweep_folder

PACKAGE = Path(workbench.__file__).parent
SOMEBODY = 65534  # another user


class Planted:
    """Whose unpickling leaves a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (self.path, "w")


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """What the planted code leaves behind when it runs."""
    return tmp_path / "ran"


@pytest.fixture
def planted(home: Path, tmp_path: Path, ran: Path) -> Checkpoint:
    """As it comes out of a stranger's archive: a run with code, every file of it now one's own."""
    made = checkpoint_in(tmp_path / "archive", "CartPole-v1", actors=1, envs_per_actor=2)
    run = RunDirectory(made.path.parents[1])
    rundir.write_atomically(run.path / "token", b"a" * 64)
    run.write(supervisor_pid=None, error=None, parent=None)
    for kind in ("environment", "network"):
        rundir.write_atomically(run.code / f"{kind}.pkl", pickle.dumps(Planted(ran)))
    return made


def run_of(checkpoint: Checkpoint) -> Path:
    return checkpoint.path.parents[1]


def as_sweep(checkpoint: Checkpoint) -> sweep_folder.SweepFolder:
    """A sweep out of an archive, put where sweeps are."""
    sweep = sweep_folder.create(
        "theirs", {"state": "stopped", "config": checkpoint.config.to_json(), "created": 0.0, "trials": 2,
                   "parallel": 1, "sampler": "random", "space": {}, "goal": "maximize", "metric": "return",
                   "error": None, "parent": None, "lives": 1, "seed": 1, "pruner": "none"},
        {}, lambda new: study.create(new, goal="maximize"))
    shutil.copytree(run_of(checkpoint) / "code", sweep.code, dirs_exist_ok=True)
    return sweep


def as_rollout(checkpoint: Checkpoint) -> Rollout:
    """An episode of one step that the checkpoint played, as a stranger may have written it."""
    folder = run_of(checkpoint) / "rollouts" / f"{checkpoint.path.name}-seed0"
    folder.mkdir(parents=True)
    with RolloutWriter(folder) as writer:
        writer.append(actions=np.int64(0), rewards=np.float32(1), values=np.float32(0),
                      policy=np.full(2, 0.5, np.float32))
        for _ in range(2):
            writer.append(observations=np.zeros(4, np.float32))
        writer.finish({
            "environment": "CartPole-v1", "algorithm": "vtrace", "checkpoint": str(checkpoint.path), "seed": 0,
            "checkpoint_frames": 1, "greedy": True, "terminated": True, "truncated": False, "fps": 50.0, "note": "",
            "action_names": ["0", "1"], "actions": {"kind": "categorical", "sizes": [2]}, "parts": []})
    return load(folder)


CALLS: dict[str, Callable[[Checkpoint], Any]] = {
    "evaluate": lambda one: wb.evaluate(one, episodes=1),
    "evaluate, by its folder": lambda one: wb.evaluate(str(one.path), episodes=1),
    "evaluate, by its run": lambda one: wb.evaluate(run_of(one), episodes=1),
    "rollout": lambda one: wb.rollout(one, max_steps=2),
    "branch": lambda one: as_rollout(one).branch(0, action=1),
    "play": lambda one: wb.play(one),
    "load_policy": lambda one: wb.load_policy(one, env=gymnasium.make("CartPole-v1")),
    "export_policy": lambda one: wb.export_policy(one, target=one.path.parents[2] / "made.onnx"),
    "fork": lambda one: wb.attach(run_of(one)).fork(wait_ready=False),
    "resume": lambda one: wb.resume(run_of(one), wait_ready=False),
    "opponent": lambda one: wb.launch("CartPole-v1", opponent=one, wait_ready=False),
    "sweep": lambda one: as_sweep(one) and wb.attach_sweep("theirs").resume(),
    "colab.restored": lambda one: colab.restored("run", run_of(one).parent),
}


@pytest.mark.parametrize("call", CALLS)
def test_code_out_of_an_archive_does_not_run(planted: Checkpoint, ran: Path, call: str) -> None:
    with pytest.raises(AccessDenied) as refused:
        CALLS[call](planted)
    assert not ran.exists()
    said = str(refused.value)
    assert ".pkl (yours) holds code" in said and "trust_code=True" in said and "It was not loaded" in said


def test_every_call_that_unpickles_is_among_these() -> None:
    """Whoever adds one adds it to CALLS, or shows that its bytes come from its own parent process."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            loads = ("code_by_value.loads", "loads", "pickle.loads")
            if called.rpartition(".")[2] == "load_factory" or called in loads:
                found.add(str(path.relative_to(PACKAGE)))
    assert found == {
        "environments/adapters/code_by_value.py",
        "environments/spread/worker.py",  # from its own parent, by a pipe
        "playing/worker/game_server.py",  # from its own parent, in a folder that it has just sealed
        "actor/main.py", "learner/build.py",  # of their own run, after launch, fork or resume
        "policies/player.py",  # evaluate, rollout, branch, play, load_policy, export_policy
    }


@pytest.mark.full
def test_code_that_a_launch_of_ones_own_wrote_runs_without_a_word(home: Path, tmp_path: Path) -> None:
    mine = checkpoint_in(tmp_path / "mine", Short, actors=1)
    assert wb.evaluate(mine, episodes=1).lengths == (1,)
    moved = tmp_path / "elsewhere"
    shutil.move(run_of(mine), moved)
    assert wb.evaluate(moved / "checkpoints" / mine.path.name, episodes=1).lengths == (1,)


class Short(gymnasium.Env):
    """Episodes of one step."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return self.observation_space.low, {}

    def step(self, action: Any) -> Any:
        return self.observation_space.low, 1.0, True, False, {}


@pytest.mark.full
def test_the_same_code_from_another_machine_or_a_copied_home_wants_trust(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = checkpoint_in(tmp_path / "theirs", Short, actors=1)
    other = tmp_path / "machine-id"
    other.write_text("another machine\n")
    monkeypatch.setattr(sealed, "_MACHINE_ID", other)  # as this process sees it
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "other user"))  # as others that it starts see it
    with pytest.raises(AccessDenied, match="no launch of yours on this machine wrote it"):
        wb.evaluate(theirs, episodes=1)
    assert wb.evaluate(theirs, episodes=1, trust_code=True).lengths == (1,)
    with pytest.raises(AccessDenied):  # that was for the one call
        wb.evaluate(theirs, episodes=1)
    assert wb.rollout(theirs, trust_code=True).steps == 1
    with wb.play(theirs, trust_code=True) as game:
        assert game.step(0).over == "terminated"


def test_a_run_that_is_resumed_with_trust_is_ones_own_from_then_on(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = rundir.create("theirs", {}, code=code_of(environment=Short))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "mine"))
    with pytest.raises(AccessDenied):
        sealed.check(run.code)
    sealed.check(run.code, trust_code=True)
    sealed.check(run.code)
    assert code_by_value.load_factory(run.code / "environment.pkl").__name__ == "Short"


def test_a_package_that_a_strangers_checkpoint_names_is_not_imported(
    home: Path, tmp_path: Path, ran: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "planted_package.py").write_text(f"open({str(ran)!r}, 'w')\n")
    monkeypatch.syspath_prepend(tmp_path / "beside")  # as where one unzips into the notebook's folder
    theirs = checkpoint_in(tmp_path / "archive", "CartPole-v1")
    named = json.loads(json.dumps(theirs.meta))
    named["config"]["environment"] = "planted_package:CartPole-v1"
    named["environment"]["name"] = "planted_package:CartPole-v1"
    evil = checkpoints.write(theirs.path.parent, frames=2400, requested=True, meta=named,
                             groups={"model": theirs.load("model")})
    for call in (lambda: wb.evaluate(evil, episodes=1), lambda: wb.rollout(evil), lambda: wb.play(evil),
                 lambda: wb.evaluate(evil, episodes=1, protocol="sticky-actions")):
        with pytest.raises(AccessDenied, match="imports planted_package, which no launch of yours"):
            call()
    named["config"]["environment"] = "CartPole-v1"  # and the network's environment has the package's name
    half = checkpoints.write(theirs.path.parent, frames=3600, requested=True, meta=named,
                             groups={"model": theirs.load("model")})
    with pytest.raises(InvalidInput, match="is a way to evaluate on Atari"):
        wb.evaluate(half, episodes=1, protocol="sticky-actions")
    exported = checkpoints.at(checkpoints.export(evil, tmp_path / "exported"))
    with pytest.raises(AccessDenied, match="imports planted_package"):
        wb.evaluate(exported, episodes=1)
    assert not ran.exists()


@pytest.mark.parametrize("call", ["fork", "resume", "sweep", "colab.restored"])
def test_a_cluster_that_a_strangers_run_names_is_not_called(home: Path, tmp_path: Path, call: str) -> None:
    """Ray unpickles what it is answered."""
    with socket.create_server(("127.0.0.1", 0)) as evil:
        evil.setblocking(False)
        address = f"ray://127.0.0.1:{evil.getsockname()[1]}"
        theirs = checkpoint_in(tmp_path / "archive", "CartPole-v1", launcher="ray", address=address)
        run = RunDirectory(run_of(theirs))
        rundir.write_atomically(run.path / "token", b"a" * 64)
        run.write(supervisor_pid=None, error=None, parent=None)
        with pytest.raises(AccessDenied, match=f"the Ray cluster at '{address}', which no launch of yours"):
            CALLS[call](theirs)
        with pytest.raises(BlockingIOError):
            evil.accept()


def test_a_cluster_that_the_call_or_a_launch_of_ones_own_names_is_called(home: Path) -> None:
    config = RunConfig.build("CartPole-v1", launcher="ray", address="mine:1")
    run = rundir.create("mine", {})
    with pytest.raises(AccessDenied, match="the Ray cluster at 'mine:1'"):
        sealed.check(run.code, config)
    with pytest.raises(AccessDenied):
        sealed.check(run.code, config, address="another:1")
    sealed.check(run.code, config, address="mine:1")
    sealed.check(run.code, config)
    _, code, _ = checked_config("CartPole-v1", "vtrace", None, None, (), {"launcher": "ray", "address": "mine:1"})
    sealed.check(rundir.create("launched", {}, code=code).code, config)


def test_a_file_that_is_replaced_is_not_read_and_the_others_are(home: Path, tmp_path: Path) -> None:
    (tmp_path / "algorithm.pkl").write_bytes(b"a stranger's")
    (tmp_path / "network.pkl").write_bytes(sealed.sealed("network.pkl", b"mine"))
    assert sealed.all_code(tmp_path, but=("algorithm.pkl",)) == {"network.pkl": b"mine"}
    assert set(sealed.every(tmp_path, but=("algorithm.pkl",))) == {"network.pkl"}
    with pytest.raises(AccessDenied, match="algorithm.pkl"):
        sealed.every(tmp_path, but=("network.pkl",))


def test_a_seal_counts_for_its_own_file_and_bytes_alone(home: Path, tmp_path: Path) -> None:
    run = rundir.create("mine", {}, code=code_of(environment=Short))
    whole = (run.code / "environment.pkl").read_bytes()
    rundir.write_atomically(run.code / "network.pkl", whole)
    rundir.write_atomically(run.code / "environment.pkl", whole + b" ")
    for name in ("network.pkl", "environment.pkl"):
        with pytest.raises(AccessDenied):
            sealed.read(run.code / name)


@pytest.mark.parametrize("how", ["link", "fifo", "device", "folder", "large"])
def test_what_is_no_plain_file_of_code_is_refused_at_once(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    run = rundir.create("mine", {}, code=code_of(environment=Short))
    file = run.code / "environment.pkl"
    file.rename(real := tmp_path / "real.pkl")
    if how == "link":
        file.symlink_to(real)
    elif how == "large":
        real.rename(file)
        monkeypatch.setattr(sealed, "LARGEST", 100)
    else:
        hostile.replaced(file, how)
    with pytest.raises(AccessDenied, match="is not read: "):
        sealed.read(file)


@pytest.mark.parametrize("what", ["file", "folder"])
@pytest.mark.parametrize("how", ["mode", "owner"])
def test_code_that_others_could_have_put_there_is_not_loaded(home: Path, what: str, how: str) -> None:
    run = rundir.create("mine", {}, code=code_of(environment=Short))
    path = run.code / "environment.pkl" if what == "file" else run.code
    if how == "mode":
        path.chmod(0o777)
    elif os.geteuid() == 0:
        os.chown(path, SOMEBODY, SOMEBODY)
    else:
        pytest.skip("only root can give a file away")
    with pytest.raises(AccessDenied, match=r"can be written by others|nobody's, not yours"):
        sealed.read(run.code / "environment.pkl")


def test_the_key_is_the_users_own_and_lies_outside_of_the_home(home: Path) -> None:
    sealed.sealed("environment.pkl", b"")
    key = sealed.key_path()
    assert not key.is_relative_to(home)
    assert (key.stat().st_mode & 0o777, key.parent.stat().st_mode & 0o022, key.stat().st_size) == (0o600, 0, 32)


def test_another_machine_of_the_run_loads_what_its_launch_vouched_for(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = rundir.create("mine", {}, code=code_of(environment=Short))
    told = sealed.vouched(*untried.loaded(run).values())
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "node"))
    with pytest.raises(AccessDenied):
        sealed.read(run.code / "environment.pkl")
    monkeypatch.setenv(sealed.VOUCHED, told)
    assert code_by_value.load_factory(run.code / "environment.pkl").__name__ == "Short"
