"""Wrong input to `launch`: one clear error, and nothing is started or left behind."""

from __future__ import annotations

import importlib.util
import math
import stat
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from torch import nn

import workbench as wb
from tests.conftest import SMALL, eventually, processes_of
from workbench import rundir
from workbench.config import NETWORKS, RunConfig, hardware
from workbench.errors import (
    CheckpointCorrupt,
    EnvironmentFailed,
    HomeNotWritable,
    InvalidInput,
    MissingPackage,
    NetworkFailed,
    OutOfBounds,
    RunExists,
    RunNotFound,
    UnknownName,
    WrongType,
)
from workbench.running.starts.starting import Awaited


@pytest.mark.parametrize(
    ("environment", "given", "error", "text"),
    [
        ("CartPole-v11", {}, UnknownName, "Did you mean 'CartPole-v1'"),
        ("ALE/Pongg-v5", {}, UnknownName, "Did you mean 'ALE/Pong-v5'"),
        ("Breakout-v5", {}, UnknownName, "Did you mean 'ALE/Breakout-v5'"),  # not Breakout-v4, which is refused
        ("BreakoutDeterministic-v4", {}, UnknownName, "Did you mean 'ALE/Breakout-v5'"),
        ("breakout", {}, UnknownName, "Did you mean 'ALE/Breakout-v5'"),
        ("Mine-v0", {}, UnknownName, "do not see what gymnasium.register added here; give 'module:Name-v0'"),
        ("CartPole-v1", {"algorithm": "vtrce"}, UnknownName, "Did you mean 'vtrace'"),
        ("CartPole-v1", {"algorithm": "PPO"}, UnknownName, "Did you mean 'ppo'"),
        ("CartPole-v1", {"algorithm": "DQN"}, UnknownName, "Did you mean 'r2d2'"),
        ("CartPole-v1", {"precision": True}, WrongType, "must be one of 'auto', 'fp32', 'bf16', not bool"),
        ("CartPole-v1", {"learning_rat": 1e-3}, UnknownName, "Did you mean 'learning_rate'"),
        ("CartPole-v1", {"network": "natur"}, UnknownName, "Did you mean 'nature'"),
        ("CartPole-v1", {"launcher": "locl"}, UnknownName, "Did you mean 'local'"),
        ("CartPole-v1", {"learning_rate": 2.0}, OutOfBounds, "learning_rate=2.0 is out of bounds"),
        ("CartPole-v1", {"max_hours": 10**400}, OutOfBounds, "max_hours is an integer of 1,329 bits, and may have 63"),
        ("CartPole-v1", {"actors": 0}, OutOfBounds, r"actors=0 is out of bounds: it must lie in \[1, 4096\]"),
        ("CartPole-v1", {"device": "gpu"}, OutOfBounds, "device='gpu' is not one of 'auto', 'cpu', 'cuda', 'xla'"),
        ("CartPole-v1", {"name": "../elsewhere"}, InvalidInput, "cannot name a run"),
        ("CartPole-v1", {"name": ""}, InvalidInput, "cannot name a run"),
        ("CartPole-v1", {"checkpoint": "/nowhere/at/all"}, InvalidInput, "there is no checkpoint in /nowhere/at/all"),
        ("CartPole-v1", {"checkpoint": "no-such-run"}, RunNotFound, "no-such-run"),
        ("CartPole-v1", {"wrappers": 3}, InvalidInput, "wrappers=3 must be a list of wrappers"),
        ("CartPole-v1", {"environment_options": 3}, InvalidInput, "environment_options=3 must be a dict"),
        ("CartPole-v1", {"no_such_field": 3}, UnknownName, r"unknown hyperparameter 'no_such_field'\. "
                                                           r"wb\.fields\('vtrace'\) lists them\.$"),
        (lambda size=3: None, {"environment_options": {"siez": 4}}, UnknownName, "unknown option.*Did you mean 'size'"),
        ("CartPole-v1", {"n_envs": 4}, UnknownName, "Did you mean 'envs_per_actor'"),
        ("CartPole-v1", {"algorithm": "sac", "buffer_size": 4}, UnknownName, "Did you mean 'replay_size'"),
        ("CartPole-v1", {"algorithm": "ppo", "clip_range": 0.2}, UnknownName, "Did you mean 'clip'"),
        ("CartPole-v1", {"network": "MlpPolicy"}, UnknownName, "Did you mean 'mlp'"),
        ("CartPole-v1", {"policy": "MlpPolicy"}, UnknownName, "Did you mean 'network'"),
        ("CartPole-v1", {"network": nn.Linear(4, 2)}, InvalidInput, "^network=Linear.* is a network that exists"),
        (42, {}, InvalidInput, "^environment=42 must be a name or something that makes an environment, such as "
                               "'CartPole-v1' or a class.$"),
        ({"id": 1}, {}, InvalidInput, "^environment={'id': 1} must be a name or something that makes an environment, "
                                      "such as 'CartPole-v1' or a class.$"),
    ],
)
def test_wrong_input_is_one_clear_error_and_starts_nothing(
    home: Path, environment: Any, given: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        wb.launch(environment, **given)
    assert len(wb.runs()) == 0
    assert processes_of(home) == []


@pytest.mark.parametrize(("given", "error"), [
    *(({"ready_timeout_s": value}, WrongType) for value in ("x", None, True)), ({"wait_ready": "no"}, WrongType),
    *(({"ready_timeout_s": value}, OutOfBounds) for value in (float("nan"), -1)), ({"progress": "x"}, WrongType),
])  # fmt: skip
def test_a_wrong_way_to_wait_is_refused_before_anything_is_started(
    home: Path, given: dict[str, Any], error: type[Exception]
) -> None:
    rundir.create("ended", {"config": RunConfig.build("CartPole-v1").to_json(), "state": "stopped"})
    ended = wb.attach("ended")
    for call in (partial(wb.launch, "CartPole-v1"), partial(wb.resume, "ended"), ended.fork):
        with pytest.raises(error, match=next(iter(given))):
            call(**given)
    assert [(run.name, run.state) for run in wb.runs()] == [("ended", "stopped")]


@pytest.mark.parametrize("seconds", [math.inf, 60 * 86_400, 0])
def test_a_start_is_waited_for_as_long_as_anybody_likes(seconds: float) -> None:
    Awaited(True, seconds, None)


@pytest.mark.parametrize("service", [5, ["wandb"], "", "wandb,mlflow"])
def test_what_is_not_one_tracker_is_refused(home: Path, service: Any) -> None:
    rundir.create("ended", {"config": RunConfig.build("CartPole-v1").to_json(), "state": "stopped"})
    with pytest.raises(InvalidInput, match="is not one tracker. Give one of .*wandb"):
        wb.attach("ended").track(service)


@pytest.mark.parametrize("launcher", ["local", "inline"])
def test_a_gpu_is_refused_at_once_where_torch_is_built_for_cpus(home: Path, monkeypatch, launcher: str) -> None:
    monkeypatch.setattr(hardware, "torch_build", lambda: "")
    with pytest.raises(OutOfBounds, match=r"device='cuda', but the torch that is installed here is built for CPUs"):
        wb.launch("CartPole-v1", device="cuda", launcher=launcher)
    assert len(wb.runs()) == 0


@pytest.mark.skipif(importlib.util.find_spec("torch_xla") is not None, reason="torch_xla is installed")
@pytest.mark.parametrize("device", ["tpu", "xla"])
def test_an_xla_device_is_refused_at_once_where_torch_xla_is_missing(home: Path, device: str) -> None:
    with pytest.raises(MissingPackage, match=f"device='{device}' needs torch_xla, which is not installed"):
        wb.launch("CartPole-v1", device=device, name="mine")
    assert len(wb.runs()) == 0


def test_an_environment_that_exists_already_is_refused(home: Path) -> None:
    with pytest.raises(InvalidInput, match="Give the class or a function"):
        wb.launch(gymnasium.make("CartPole-v1"))


def test_code_that_cannot_travel_is_refused(home: Path) -> None:
    lock = threading.Lock()

    def factory() -> gymnasium.Env:
        lock.acquire()
        return gymnasium.make("CartPole-v1")

    class Locked(gymnasium.Env):
        def step(self, action: Any) -> Any:
            lock.acquire()

    for own in (factory, Locked):
        with pytest.raises(InvalidInput, match="cannot be sent to another process: lock: cannot pickle"):
            wb.launch(own)
    assert len(wb.runs()) == 0


def test_a_home_that_cannot_be_written_is_named(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "a-file"
    blocked.touch()
    monkeypatch.setenv("WORKBENCH_HOME", str(blocked))
    with pytest.raises(HomeNotWritable, match=r"a-file/runs: Not a directory. Set WORKBENCH_HOME"):
        wb.launch("CartPole-v1")


def test_a_damaged_checkpoint_is_refused(home: Path, tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text("{")
    with pytest.raises(CheckpointCorrupt):
        wb.launch("CartPole-v1", checkpoint=tmp_path)
    assert len(wb.runs()) == 0


def test_network_names_are_those_that_can_be_built() -> None:
    code = "from workbench import networks; print(*networks.NAMES)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == sorted(NETWORKS)


def corridor(radius: float = 1.0, verbose: int = 0) -> gymnasium.Env:
    raise AssertionError("it is not called")


@pytest.mark.parametrize(("environment", "given", "said"), [
    (corridor, {"radius": 0.3}, r"radius is an argument of corridor, .* environment_options={'radius': 0.3}"),
    (corridor, {"verbose": 1}, r"environment_options={'verbose': 1}"),
    ("CartPole-v1", {"verbose": 1}, "progress=False is silent"),
    (max, {"learning_rte": 1}, "Did you mean 'learning_rate'"),  # its signature is not known
    ("CartPole-v1", {"callback": print}, r"No code of yours runs inside a run: run.wait"),
    ("CartPole-v1", {"eval_freq": 1}, "Did you mean 'evaluation_envs_per_actor'"),
])
def test_words_of_the_environment_and_of_other_libraries_lead_to_ours(
    home: Path, environment: Any, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(UnknownName, match=said):
        wb.launch(environment, **given)


@pytest.mark.parametrize("where", [
    pytest.param("constructor", marks=pytest.mark.full), pytest.param("reset", marks=pytest.mark.full), "step"])
def test_the_traceback_of_an_environment_reaches_the_caller(home: Path, where: str) -> None:
    class Broken(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (3,))
        action_space = gymnasium.spaces.Discrete(2)

        def __init__(self) -> None:
            self.complain("constructor")

        def complain(self, here: str) -> None:
            if here == where:
                raise ValueError(f"no luck in {here}")

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            self.complain("reset")
            return self.observation_space.sample(), {}

        def step(self, action: int) -> Any:
            self.complain("step")
            return self.observation_space.sample(), 0.0, False, False, {}

    with pytest.raises(EnvironmentFailed, match=f"ValueError: no luck in {where}") as caught:
        wb.launch(Broken, name="broken", **SMALL)
    assert "self.complain" in str(caught.value)
    assert "broken has trained nothing, and lies in" in caught.value.__notes__[-1] and not wb.runs()
    run = wb.launch(Broken, name="broken", wait_ready=False, **SMALL)
    eventually(lambda: run.status.state == "failed")
    assert "no luck" in (run.status.error or "")
    with pytest.raises(wb.errors.RunFailed, match="no luck"):
        run.wait(frames=1)
    with pytest.raises(wb.errors.RunNotAlive, match=r"wb.resume\('broken'\)"):
        run.pause()
    eventually(lambda: not processes_of(run.path))
    with pytest.raises(RunExists, match=r"That run failed: wb.attach\('broken'\).delete\(\) frees its name"):
        wb.launch("CartPole-v1", name="broken")
    assert stat.S_IMODE((run.path / "code" / "environment.pkl").stat().st_mode) == 0o600
    run.delete()
    assert len(wb.runs()) == 0


@pytest.mark.full
def test_a_network_of_the_wrong_shape_reaches_the_caller(home: Path) -> None:
    def network(spec: Any) -> Any:
        import torch

        from workbench.networks import PolicyValueOutput

        class Wrong(torch.nn.Module):
            def initial_state(self, batch: int) -> Any:
                return ()

            def forward(self, observation: Any, action: Any, reward: Any, start: Any, state: Any) -> Any:
                steps, batch = observation.shape[:2]
                return PolicyValueOutput(torch.zeros(steps, batch, 7), torch.zeros(steps, batch)), ()

        return Wrong()

    with pytest.raises(NetworkFailed, match=r"policy_logits .*\(2, 3, 2\)") as raised:
        wb.launch("CartPole-v1", network=network, name="wrong", **SMALL)
    assert "wrong has trained nothing, and lies in " in raised.value.__notes__[-1] and not wb.runs()
    eventually(lambda: not processes_of(home / "runs" / "wrong"))
