"""Forks go on where their run stood, in everything that was not changed; what cannot go on is refused in words."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import workbench as wb
from tests.conftest import SMALL, eventually
from workbench import checkpoints, rundir
from workbench.checkpoints import Checkpoint
from workbench.config import RunConfig
from workbench.errors import CheckpointCorrupt, InvalidInput, OutOfBounds, RunExists, UnknownName
from workbench.rundir import sealed, untried
from workbench.running.starts.fork import _own, _stem, config_of_fork
from workbench.testing import CountingEnv


def pole() -> gymnasium.Env:
    """An environment that travels by value."""
    return CountingEnv(step_ms=10.0)


@pytest.fixture(scope="module")
def run(module_home: Path) -> Iterator[wb.Run]:
    """A run with a past, alive."""
    run = wb.launch(pole, name="old", target_entropy=0.5, entropy_cost=0.003, network="mlp", **SMALL)
    run.wait(updates=20, timeout_s=240)
    yield run


def tensors(checkpoint: Checkpoint) -> dict[str, Any]:
    return {f"{group}/{name}": array for group in checkpoint.groups for name, array in checkpoint.load(group).items()}


def assert_same(first: Checkpoint, other: Checkpoint) -> None:
    theirs = tensors(other)
    for name, array in tensors(first).items():
        np.testing.assert_array_equal(array, theirs.pop(name), err_msg=name)
    assert theirs == {}


def test_a_fork_of_a_live_run_goes_on_from_now_with_what_was_changed(run: wb.Run) -> None:
    before = run.status
    fork = run.fork(learning_rate=1e-4, unroll_length=5, batch_size=8)
    try:
        assert fork.name == "old-fork-1"
        first = fork.checkpoints[0]
        source = run.checkpoints[Path(first.meta["fork"]["checkpoint"]).name]  # the newest may be a later one
        assert source.frames >= before.frames and not source.requested
        assert (first.frames, first.steps, first.updates, first.time_s) == (
            source.frames, source.steps, source.updates, source.time_s
        )
        assert_same(source, first)
        config = run.config.replaced(learning_rate=1e-4, unroll_length=5, batch_size=8)
        assert fork.config == config and first.meta["config"] == json.loads(json.dumps(config.to_json()))
        assert json.loads(fork.directory.record.read_text())["parent"] == {
            "checkpoint": str(source.path), "take": "all", "optimizer": True, "replay": False, "run": "old",
        }
        assert fork.directory.parent() == first.meta["fork"]
        status = fork.wait(updates=source.updates + 5, timeout_s=240)
        assert status.frames > source.frames and status.episodes >= source.meta["episodes"]
        eventually(lambda: "loss" in fork.metric_names)
        assert fork.metrics("loss")["frames"].min() >= source.frames
        assert fork.metrics("learning_rate")["value"].iloc[-1] <= 1e-4
        assert (fork.path / "code" / "environment.pkl").exists()
        assert {"launch", "fork"} <= set(fork.events["kind"])
        assert run.status.state == "training" and run.config.value("learning_rate") == 6e-4
        assert set(run.events["kind"]) <= {"launch", "checkpoint"}
    finally:
        fork.stop()


@pytest.mark.full
def test_a_fork_survives_its_run_and_is_resumed_from_its_own_checkpoints(run: wb.Run) -> None:
    with run.paused():
        middle = run.fork(name="middle")
        middle.stop()
        oldest = middle.checkpoints[0]
        fork = middle.fork(oldest.path.name, name="survivor", seed=7)
        assert fork.checkpoints[0].frames == oldest.frames
        shutil.rmtree(middle.path)
        stopped = fork.stop()
        assert stopped.frames > oldest.frames
        again = wb.resume("survivor")
        try:
            assert again.events["message"].str.startswith(f"continues from the checkpoint at {stopped.frames:,}").any()
            assert again.wait(updates=stopped.updates + 3, timeout_s=240).frames > stopped.frames
            fork.checkpoints[0].verify()
        finally:
            again.stop()


@pytest.mark.full
def test_another_optimizer_starts_afresh_and_the_record_says_so(run: wb.Run) -> None:
    with run.paused():
        fork = run.fork(name="rmsprop", optimizer="rmsprop")
        try:
            parent, first = fork.directory.parent(), fork.checkpoints[0]
            assert parent is not None and parent["optimizer"] is False
            assert first.groups == ["algorithm", "model", "rng"]
            fork.wait(updates=first.updates + 3, timeout_s=240)
        finally:
            fork.stop()
    states = {name.rpartition(".")[2] for name in fork.checkpoints[-1].load("optimizer")}
    assert "square_avg" in states and "exp_avg" not in states


def looks(run: wb.Run) -> tuple[Any, ...]:
    """What a refused fork leaves as it is: the runs, and the checkpoints but for those that come of themselves."""
    return (sorted(path.name for path in (rundir.home() / "runs").iterdir()),
            [one.path for one in run.checkpoints if one.meta["reason"] not in ("interval", checkpoints.BEST)])


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"environment": "Acrobot-v1"}, InvalidInput, "environment cannot change from 'pole' to 'Acrobot-v1'"),
        ({"environment_options": {"a": 1}}, InvalidInput, "environment_options cannot change"),
        ({"algorithm": "r2d2"}, InvalidInput, r"algorithm cannot change .*wb\.launch\(\.\.\., checkpoint=\.\.\.\)"),
        ({"network": "mlp-lstm"}, InvalidInput, "network cannot change from 'mlp' to 'mlp-lstm'.*would not fit"),
        ({"network": lambda spec: None}, InvalidInput, "this run learns with mlp, no class or function of yours"),
        ({"frame_stack": 2}, InvalidInput, "frame_stack cannot change from 0 to 2"),
        ({"normalize_observations": True}, InvalidInput, "normalize_observations cannot change from False to True"),
        ({"learning_rte": 1e-3}, UnknownName, "Did you mean 'learning_rate'"),
        ({"hyperparameters": {}}, UnknownName, "hyperparameters"),
        ({"learning_rate": 7.0}, OutOfBounds, "learning_rate=7.0 is out of bounds"),
        ({"actors": 0}, OutOfBounds, "actors=0 is out of bounds"),
        ({"total_frames": 1}, InvalidInput, r"total_frames=1 is reached already: .* Give more: total_frames=\d+"),
        ({"replay": True}, InvalidInput, "the algorithm 'vtrace' has no replay to take along"),
        ({"replay": 3}, OutOfBounds, "replay=3 must be True or False, not a number"),
        ({"name": "old"}, RunExists, "there is a run 'old' already"),
        ({"name": "../old"}, InvalidInput, "cannot name a run"),
        ({"launcher": "lokal"}, UnknownName, "Did you mean 'local'"),
        ({"checkpoint": 3}, InvalidInput, "checkpoint=3 is none. Give one of run.checkpoints"),
        ({"checkpoint": "000000000003"}, UnknownName, r"old has no checkpoint '000000000003'\..* It(s| has)"),
    ],
)
def test_what_a_fork_cannot_do_is_said_before_anything_is_started(run: wb.Run, arguments, error, text) -> None:
    before = looks(run)
    with pytest.raises(error, match=text):
        run.fork(**arguments)
    assert looks(run) == before
    assert run.status.state == "training"


@pytest.mark.full
def test_a_field_that_is_given_as_it_is_is_no_change(run: wb.Run) -> None:
    fork = run.fork(name="same", algorithm="vtrace", environment="pole", network="mlp", wait_ready=False)
    assert fork.config == run.config
    fork.stop()


def test_a_replay_cannot_be_saved_where_there_is_none(run: wb.Run) -> None:
    before = looks(run)
    with pytest.raises(InvalidInput, match=r"replay=True: the algorithm 'vtrace' has no replay\. Leave it out\."):
        run.checkpoint(replay=True)
    assert looks(run) == before
    made = run.checkpoint(replay=False)
    assert made.requested and not made.has_replay


def test_a_checkpoint_of_another_run_or_a_damaged_one_leaves_nothing(run: wb.Run, tmp_path: Path) -> None:
    made = run.checkpoint()
    elsewhere = shutil.copytree(made.path, tmp_path / made.path.name)
    assert _own(run.directory, f"old@{made.path.name}").path == made.path
    with pytest.raises(UnknownName, match="unknown checkpoint '7'"):
        run.fork("old@7", name="never")
    misspelt = f"{made.path.name[:-1]}x"
    with pytest.raises(UnknownName, match=rf"^old has no checkpoint '{misspelt}'\. Did you mean '[0-9]{{12}}'\? "
                                          rf"Its newest: .*{made.path.name}\.$"):
        run.fork(misspelt, name="never")
    with pytest.raises(InvalidInput, match=f"there is no checkpoint in {tmp_path}/x"):
        run.fork(f"{tmp_path}/x", name="never")
    for given in (elsewhere, str(elsewhere), checkpoints.at(elsewhere)):
        with pytest.raises(InvalidInput, match="is not a checkpoint of old. Fork the run that wrote it"):
            run.fork(given, name="never")
    data = bytearray((made.path / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (made.path / "model.safetensors").write_bytes(data)
    with pytest.raises(CheckpointCorrupt, match=rf"{made.path}/model\.safetensors was changed"):
        run.fork(made, name="never")
    shutil.rmtree(made.path)
    is_gone = f"^checkpoint {made.path.name} is gone: "
    with pytest.raises(InvalidInput, match=rf"{is_gone}.*{made.path}\. .*run\.checkpoint\(\) writes one that stays"):
        run.fork(made, name="never")
    with pytest.raises(CheckpointCorrupt, match=is_gone):
        made.load("model")
    with pytest.raises(InvalidInput, match=is_gone):
        wb.evaluate(made.path)
    (tmp_path / "mydata").mkdir()
    for folder in ("", ".", "..", str(tmp_path / "mydata")):  # the first two: that of all checkpoints
        with pytest.raises(InvalidInput, match=r"there is no checkpoint in .*: it has no meta\.json\.$"):
            run.fork(folder, name="never")
    assert not (rundir.home() / "runs" / "never").exists()


def test_a_fork_that_begins_again_before_its_first_own_checkpoint_leaves_its_rows_behind(run: wb.Run) -> None:
    fork = run.fork(name="killed", checkpoint_interval_s=3600.0)
    try:
        start = fork.checkpoints[0].updates
        before = fork.wait(updates=start + 10, timeout_s=240)
        eventually(lambda: "learning_rate" in fork.metric_names)
        os.kill(fork.status.learner_pid or 0, signal.SIGKILL)
        eventually(lambda: (fork.events["kind"] == "restore").any())
        eventually(lambda: fork.status.updates > before.updates)
        assert (fork.events["kind"] == "fork").sum() == 1
        assert fork.metrics("learning_rate")["frames"].is_monotonic_increasing
    finally:
        fork.stop()


@pytest.mark.full
def test_a_fork_trains_on_the_replay_that_it_took_along(run: wb.Run) -> None:
    small = {"burn_in": 2, "lstm_size": 8, "dueling_size": 8, "replay_size": 100, "replay_min_size": 60}
    with run.paused():
        replayed = wb.launch("CartPole-v1", name="replayed", algorithm="r2d2", **{**SMALL, "actors": 1}, **small)
        try:
            replayed.wait(updates=5, timeout_s=240)
            saved = replayed.checkpoint(replay=True)
            assert saved.has_replay and not replayed.checkpoint().has_replay
            fork = replayed.fork(saved, name="along", replay=True, save_replay=True, n_steps=2)
            try:
                with pytest.raises(InvalidInput, match=r"has no replay.*run\.checkpoint\(replay=True\)"):
                    replayed.fork(replayed.checkpoints[-1], replay=True)
                (event,) = fork.events.query("kind == 'fork'").to_dict("records")
                assert event["message"].endswith("with its replay") and event["frames"] == saved.frames
                assert event["data"] == fork.directory.parent()
                fork.wait(updates=saved.updates + 3, timeout_s=240)
            finally:
                fork.stop()
        finally:
            replayed.stop()
    assert [one.has_replay for one in fork.checkpoints] == [False, True]
    kept = len(saved.open("replay")["serial"])
    assert len(fork.checkpoints[-1].open("replay")["serial"]) >= kept >= 60
    assert saved.open("replay")["serial"].max() < fork.checkpoints[-1].open("replay")["serial"].max()


# --- from files alone -------------------------------------------------------------------------------------------------


class Nowhere:
    """A launcher that only notes what it would have started."""

    def check(self, config: RunConfig) -> None:
        pass

    def check_name(self, name: str) -> None:
        pass

    def start(self, run: rundir.RunDirectory) -> Any:
        raise Reached(run)


class Reached(Exception):
    """The run is about to be started."""


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.launchers.by_name", lambda name: Nowhere())


def ended_r2d2_run(name: str = "replayed", meta: dict[str, Any] | None = None, **fields: Any) -> wb.Run:
    """A stopped R2D2 run: a checkpoint without and one with a replay."""
    config = wb_config(total_frames=10_000, **fields)
    record = {"created": 1.0, "config": config, "state": "stopped", "supervisor_pid": None, "error": None}
    directory = rundir.create(name, record, code={"network.pkl": sealed.sealed("network.pkl", b"code")})
    for frames in (1000, 2000):
        groups = {name: {"a": np.arange(4.0) + frames} for name in ("model", "optimizer", "algorithm", "rng", "replay")}
        more = {"steps": 1, "updates": 1, "time_s": 1.0, "config": config, "network": "typed in a cell", **(meta or {})}
        checkpoints.write(directory.checkpoints, frames=frames, groups=groups, requested=False, meta=more)
    checkpoints.prune(directory.checkpoints, 5)
    return wb.attach(name)


def wb_config(**fields: Any) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(json.dumps(RunConfig.build("ALE/Pong-v5", algorithm="r2d2", **fields).to_json()))
    return data


def started(run: wb.Run, *arguments: Any, **changes: Any) -> rundir.RunDirectory:
    with pytest.raises(Reached) as reached:
        run.fork(*arguments, **changes)
    directory: rundir.RunDirectory = reached.value.args[0]
    return directory


def mended_network(spec: Any) -> Any:
    raise NotImplementedError


def test_a_fork_tries_a_mended_network_and_leaves_its_run_alone(home: Path, nowhere: None) -> None:
    run = ended_r2d2_run()
    with pytest.raises(InvalidInput, match="no class or function of yours that a mended one could replace"):
        run.fork(network=mended_network)
    run.directory.write(code={"network": True})
    before = (run.directory.code / "network.pkl").read_bytes()
    fork = started(run, network=mended_network, name="tried")
    assert (run.directory.code / "network.pkl").read_bytes() == before != (fork.code / "network.pkl").read_bytes()
    assert wb.attach("tried").checkpoints[-1].meta["mended"] == ["network.pkl"] and not untried.is_there(fork)
    again = started(wb.attach("tried"), name="again")
    assert wb.attach("again").checkpoints[-1].meta["mended"] == ["network.pkl"]
    assert again.read()["code"]["network"] is True
    with pytest.raises(InvalidInput, match="network cannot change to 'mlp' in a fork"):
        run.fork(network="mlp")


def test_a_replay_goes_along_if_asked_for_and_shares_the_disk(home: Path, nowhere: None) -> None:
    run = ended_r2d2_run()
    fork = started(run, replay=True, learning_rate=3e-4)
    (first,) = checkpoints.every(fork.checkpoints)
    assert (first.frames, first.has_replay) == (2000, True)
    assert os.path.samefile(first.path / "replay.safetensors", run.checkpoints[-1].path / "replay.safetensors")
    assert fork.parent() == {
        "checkpoint": str(run.checkpoints[-1].path), "take": "all", "optimizer": True, "replay": True,
        "run": "replayed",
    }
    assert fork.read()["code"] == {"environment": False, "network": True, "algorithm": False}
    assert sealed.read(fork.code / "network.pkl") == b"code"
    assert (first.meta["reason"], first.meta["config"]) == ("fork", fork.read()["config"])
    without = started(run, learning_rate=3e-4)
    assert not checkpoints.every(without.checkpoints)[0].has_replay
    assert without.name == "replayed-fork-2"


@pytest.mark.parametrize(("algorithm", "field"), [
    ("sac", "first_temperature"), ("vmpo", "first_temperature"), ("vmpo", "first_kl_cost")])
def test_a_fork_cannot_change_where_something_adapted_began(algorithm: str, field: str) -> None:
    before = RunConfig.build("CartPole-v1", algorithm=algorithm)
    with pytest.raises(InvalidInput, match=f"{field} cannot change .* its checkpoint holds what has become of it"):
        config_of_fork(before, {field: 0.5}, frames=0, replay=False)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"unroll_length": 40}, "unroll_length cannot change from 80 to 40 in a fork with its replay: the unrolls"),
        ({"burn_in": 0}, "burn_in cannot change from 40 to 0 in a fork with its replay"),
        ({"frame_stack": 1}, "frame_stack cannot change from 0 to 1"),
        ({"value_rescaling": False}, "value_rescaling cannot change from True to False in a fork: the weights would"),
        ({"lstm_size": 64}, "lstm_size cannot change from 512 to 64 in a fork: the weights"),
        ({"checkpoint": "000000001000"}, r"000000001000 has no replay.*run\.checkpoint\(replay=True\)"),
    ],
)
def test_a_replay_that_would_not_fit_is_refused(home: Path, nowhere: None, changes: dict[str, Any], text: str) -> None:
    run = ended_r2d2_run()
    with pytest.raises(InvalidInput, match=text):
        run.fork(replay=True, **changes)
    assert [one.name for one in wb.runs()] == ["replayed"]


def test_stored_unrolls_do_not_matter_to_a_fork_without_them(home: Path, nowhere: None) -> None:
    fork = started(ended_r2d2_run(), unroll_length=40, burn_in=10)
    assert fork.config().value("unroll_length") == 40


def test_a_fork_has_the_configuration_that_its_checkpoint_was_written_with(home: Path, nowhere: None) -> None:
    run = ended_r2d2_run()
    run.directory.write(config=wb_config(total_frames=20_000, learning_rate=0.5))
    assert started(run).config().value("learning_rate") == 1e-4


def test_a_fork_of_a_finished_run_needs_more_frames(home: Path, nowhere: None) -> None:
    run = ended_r2d2_run()
    with pytest.raises(InvalidInput, match=r"total_frames=2000 is reached already: .* begin at 2000 frames.*=4000\."):
        run.fork(total_frames=2000)
    assert started(run, total_frames=2001).config().total_frames == 2001


@pytest.mark.parametrize(("target", "by"), [
    ("target_return", "episode_return"), ("target_score", "episode_score"), ("target_score", "evaluation_score")])
def test_a_fork_that_has_reached_its_target_needs_another(home: Path, nowhere: None, target: str, by: str) -> None:
    reached = {"judged": {"by": by, "mean": 18.5, "episodes": 30}}
    evaluating = int(by.startswith("evaluation"))
    run = ended_r2d2_run(meta=reached, **{target: 18.0}, evaluation_envs_per_actor=evaluating)
    with pytest.raises(InvalidInput, match=rf"{target}=18 is reached .* a mean \w+ of 18.5. .*, or {target}=None"):
        run.fork()
    if by == "episode_return":  # the fork's evaluations have yet to begin
        evaluating_fork = started(run, evaluation_envs_per_actor=2)
        assert evaluating_fork.config().evaluating_per_actor
        assert checkpoints.best(checkpoints.every(evaluating_fork.checkpoints)) is None, "another measure"
    assert checkpoints.best(checkpoints.every(started(run, **{target: 19.0}).checkpoints)) is not None
    for other in (19.0, None):
        assert started(run, **{target: other}).config().value(target) == other


def test_a_run_without_a_good_checkpoint_cannot_be_forked(home: Path, nowhere: None) -> None:
    run = ended_r2d2_run()
    for one in run.checkpoints:
        (one.path / "model.safetensors").unlink()
    with pytest.raises(InvalidInput, match=r"replayed has no good checkpoint\. .* Put one back, or launch a new run"):
        run.fork()
    run.directory.write(error={"type": "NetworkFailed", "message": "no such layer\nTraceback ..."})
    with pytest.raises(InvalidInput, match=r"no good checkpoint\. .*It failed: NetworkFailed: no such layer$"):
        run.fork()
    run.directory.write(config=run.config.replaced(storage="/elsewhere").to_json())
    with pytest.raises(InvalidInput, match=r"brings the one of its copy in /elsewhere\. It failed"):
        wb.rollout(run.name)


def test_a_fork_that_cannot_be_written_leaves_nothing(home: Path, nowhere: None, monkeypatch) -> None:
    run = ended_r2d2_run()

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "link", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run.fork(name="half")
    assert sorted(path.name for path in (home / "runs").iterdir()) == ["replayed"]


@pytest.mark.parametrize(
    ("name", "stem"),
    [("pong-1", "pong-1-fork"), ("pong-1-fork-12", "pong-1-fork"), ("x" * 100, "x" * 80 + "-fork")],
)
def test_the_name_of_a_fork_says_whose(name: str, stem: str) -> None:
    assert _stem(name) == stem
