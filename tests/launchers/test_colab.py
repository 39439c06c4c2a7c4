"""A run on a machine that goes away: what is found out, what is copied, and what comes back."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import gymnasium
import numpy as np
import psutil
import pytest

import workbench as wb
from tests.conftest import SMALL, eventually
from tests.widgets import recorded
from tests.written_checkpoints import save
from workbench import checkpoints, rundir
from workbench.copies import run_copy
from workbench.errors import (
    AccessDenied,
    CheckpointCorrupt,
    InvalidInput,
    OutOfBounds,
    RunExists,
    RunNotFound,
    StorageFailed,
)
from workbench.launchers import colab


@pytest.fixture
def drive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is prepared as the one that stays."""
    folder = tmp_path / "My Drive" / "rl-workbench"
    monkeypatch.setenv("WORKBENCH_MIRROR", "")  # so that it is put back
    colab.prepare(folder)
    return folder


def launch(environment="CartPole-v1", **fields) -> wb.Run:
    return wb.launch(environment, launcher="colab", **{**SMALL, "actors": 1, **fields})


def copied(run: wb.Run, frames: int) -> None:
    eventually(lambda: (colab.kept(run.path).get("frames", 0) or 0) >= frames and not colab.kept(run.path)["error"],
               what=f"{frames} frames in {colab.kept(run.path)}")


def disconnect(run: wb.Run, home: Path) -> None:
    """Take the machine away: all processes at once, and the disk."""
    supervisor = psutil.Process(run.status.supervisor_pid)
    for process in [*supervisor.children(), supervisor]:
        process.kill()
    eventually(lambda: run.status.state == "dead")
    shutil.rmtree(home / "runs")


@pytest.mark.full
def test_a_run_goes_on_from_drive_on_the_next_machine(home: Path, drive: Path) -> None:
    run = launch(name="taken")
    run.wait(updates=20, timeout_s=240)
    first = run.checkpoint()
    copied(run, first.frames)
    here = drive / "taken"
    assert not [path for path in here.rglob("*") if path.name.endswith(("-wal", "-shm")) or ".writing" in path.name]
    disconnect(run, home)
    assert rundir.every() == []

    again = wb.resume(colab.restored("taken"))
    assert again.config.launcher == "colab" and again.status.frames >= first.frames
    assert "continues from" in str(list(again.events["message"])) and "launch" in set(again.events["kind"])
    assert again.status.episodes >= first.meta["episodes"]
    assert len(again.metrics("episode_return")) > 0
    again.wait(frames=first.frames + 300, timeout_s=240)
    last = again.stop().frames
    copied(again, last)
    assert [one.frames for one in checkpoints.every(here / "checkpoints")] == [first.frames, last]
    assert colab.restored("taken") == "taken"  # which is here


def test_a_copy_is_never_replaced_by_another_run_of_its_name(home: Path, drive: Path) -> None:
    run = launch()
    run.wait(updates=5, timeout_s=240)
    first = run.checkpoint()
    copied(run, first.frames)
    disconnect(run, home)
    with pytest.raises(RunExists, match=r"has a run 'cartpole-vtrace-1'. Go on with it: wb.resume\('file:///.*/cartpole-vtrace-1'\)"):
        launch(name=run.name)
    assert rundir.every() == [], "nothing was made"
    other = launch()
    assert other.name == "cartpole-vtrace-2"

    kept = [path.read_bytes() for path in sorted((drive / run.name).rglob("*")) if path.is_file()]

    def named_first() -> bool:
        """As if that machine had been; this one may have begun its copy."""
        shutil.rmtree(drive / other.name, ignore_errors=True)
        with suppress(OSError):
            (drive / run.name).rename(drive / other.name)
        return not (drive / run.name).exists()

    eventually(named_first)
    with pytest.raises(StorageFailed, match="is another run than 'cartpole-vtrace-2' .* both stay as they are"):
        other.checkpoint()
        run_copy.copy(other.directory, drive)
    eventually(lambda: "is another run than" in colab.kept(other.path).get("error", ""))
    assert kept == [path.read_bytes() for path in sorted((drive / other.name).rglob("*")) if path.is_file()]
    with pytest.raises(StorageFailed, match=r"is another run than .*wb\.attach\('cartpole-vtrace-2'\)\.delete"):
        colab.restored(other.name)
    other.stop()


def test_the_best_checkpoint_is_kept_and_comes_back_beside_the_newest(home: Path, tmp_path: Path) -> None:
    run, drive = recorded.vtrace("collapsed"), tmp_path / "drive"
    for frames, mean in ((100, 5.0), (200, 90.0), (300, 8.0), (400, 7.0), (500, 6.0)):
        save(run.checkpoints, frames, judged={"by": "episode_return", "mean": mean, "episodes": 100})
        assert run_copy.copy(run, drive) == frames
    kept = drive / run.name / "checkpoints"
    assert [one.frames for one in checkpoints.every(kept)] == [200, 400, 500]
    shutil.rmtree(run.path)
    colab.restored(run.name, drive)
    assert [one.frames for one in checkpoints.every(run.checkpoints)] == [200, 500]
    shutil.rmtree(run.path)
    next((kept / "000000000200").glob("*.safetensors")).write_bytes(b"half of it")
    colab.restored(run.name, drive)
    assert [one.frames for one in checkpoints.every(run.checkpoints)] == [400, 500]  # the best of those that are whole


def test_a_name_that_was_not_copied_is_told_with_the_nearest_below_the_home_folder(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "drive" / "typed").mkdir(parents=True)
    (tmp_path / "drive" / "typed" / "run.json").write_text("{}")
    with pytest.raises(RunNotFound, match="in ~/drive. Did you mean 'typed'"):
        colab.restored("tiped", "~/drive")


class Typed(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.ones(2, np.float32), 1.0, bool(self.np_random.random() < 0.1), False, {}


@pytest.fixture
def saved(home: Path, drive: Path) -> Path:
    """The copy of a run with code of its own, that is no longer on this machine, with two checkpoints."""
    run = launch(Typed, name="typed")
    for updates in (3, 20):
        run.wait(updates=updates, timeout_s=240)
        copied(run, run.checkpoint().frames)
    copied(run, run.stop().frames)
    shutil.rmtree(home / "runs")
    return drive / "typed"


@pytest.mark.full
def test_what_did_not_arrive_whole_gives_way_to_what_did(
    saved: Path, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "next machine"))  # which has another key
    *_, older, newer = checkpoints.every(saved / "checkpoints")  # the best one may be there, too
    weights = newer.path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    (saved / "metrics.sqlite").write_bytes((saved / "metrics.sqlite").read_bytes()[:5000])
    with pytest.raises(AccessDenied, match="trust_code=True"):
        colab.restored("typed")
    assert rundir.every() == []
    colab.restored("typed", trust_code=True)
    told = capsys.readouterr().out
    assert f"at {older.frames:,} frames" in told and str(weights) in told and "history so far is lost" in told
    run = wb.resume("typed", actors=1)
    run.wait(frames=older.frames + 100, timeout_s=240)
    run.stop()


@pytest.mark.full
def test_nothing_comes_back_where_nothing_is_whole(saved: Path) -> None:
    for one in checkpoints.every(saved / "checkpoints"):
        (one.path / "model.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointCorrupt, match="no checkpoint that is whole"):
        colab.restored("typed", trust_code=True)
    assert rundir.every() == []
    with pytest.raises(RunNotFound, match="Did you mean 'typed'"):
        colab.restored("tiped")


@pytest.mark.full
def test_a_copy_that_fails_is_told_and_tried_again(home: Path, tmp_path: Path, drive: Path) -> None:
    run = launch(name="refused")
    run.wait(updates=3, timeout_s=240)
    shutil.rmtree(drive / "refused", ignore_errors=True)  # its claim
    (drive / "refused").write_bytes(b"")  # a file where the folder has to be
    frames = run.checkpoint().frames
    eventually(lambda: "was not copied" in " ".join(run.events["message"]))
    assert colab.kept("refused")["error"]
    (drive / "refused").unlink()
    copied(run, frames)
    run.stop()


@pytest.mark.full
def test_the_copy_outlives_whoever_launched(home: Path, drive: Path) -> None:
    fields = {**SMALL, "actors": 1, "launcher": "colab", "name": "left"}
    code = f"import workbench as wb; wb.launch('CartPole-v1', **{fields!r})"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=240, start_new_session=True)
    run = wb.attach("left")
    copied(run, run.stop().frames)


@pytest.mark.full
def test_without_a_folder_it_says_that_nothing_is_kept(home: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("WORKBENCH_MIRROR", "somewhere")
    colab.prepare(None)
    assert "Checkpoints are not copied" in capsys.readouterr().out
    run = launch()
    assert "is on this machine alone" in capsys.readouterr().out and not colab.kept(run.path)
    run.stop(timeout_s=0)


def test_a_folder_that_cannot_be_had_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageFailed, match="cannot write"):
        colab.prepare(tmp_path / "file" / "folder")
    with pytest.raises(InvalidInput, match="this is not Colab"):
        colab.prepare()


@pytest.mark.full
def test_the_copy_of_the_history_is_one_closed_file(home: Path, tmp_path: Path) -> None:
    run = wb.launch("CartPole-v1", **{**SMALL, "actors": 1})
    run.wait(updates=3, timeout_s=240)
    run_copy._copy_metrics(run.directory.metrics, tmp_path / "metrics.sqlite")
    run.stop(timeout_s=0)
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.sqlite"]
    assert sqlite3.connect(tmp_path / "metrics.sqlite").execute("PRAGMA journal_mode").fetchone() == ("delete",)


# --- what the machine has, from files as they are on Colab's machines -----------------------------------------------


def device(root: Path, vendor: str, kind: str) -> None:
    folder = root / "sys/bus/pci/devices" / f"0000:00:{len(list(root.rglob('vendor'))):02}.0"
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(f"{vendor}\n")
    (folder / "device").write_text(f"{kind}\n")


def test_a_tpu_is_found_by_its_chips(tmp_path: Path) -> None:
    device(tmp_path, "0x1ae0", "0x001f")  # a disk of Google's: no TPU
    device(tmp_path, "0x8086", "0x0063")  # the same number of another vendor
    assert colab.found({}, tmp_path).device == "cpu"
    device(tmp_path, "0x1ae0", "0x0063")
    there = colab.found({"COLAB_RELEASE_TAG": "release-colab-external"}, tmp_path)
    assert (there.device, there.accelerator, there.hosted) == ("tpu", "TPU v5e, 1 chip", True)
    assert str(there).startswith("Colab: TPU v5e, 1 chip, ")
    assert colab.found({"TPU_ACCELERATOR_TYPE": "v5e-1"}, tmp_path).accelerator == "TPU v5e-1"


def test_a_tpu_is_found_by_its_device_files(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    for number in range(4):
        (tmp_path / f"dev/accel{number}").write_bytes(b"")
    assert colab.found({}, tmp_path).accelerator == "TPU, 4 chips"


def test_a_gpu_is_what_its_driver_says(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidiactl").write_bytes(b"")
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'Tesla T4, 15360, 7.5'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    there = colab.found({}, tmp_path)
    assert (there.device, there.accelerator, there.hosted) == ("cuda", "Tesla T4, 15 GiB", False)
    assert colab.found({"CUDA_VISIBLE_DEVICES": ""}, tmp_path).device == "cpu"
    program.write_text("#!/bin/sh\nexit 9\n")
    assert colab.found({}, tmp_path).device == "cpu"


def test_an_accelerator_that_is_not_there_is_refused(home: Path) -> None:
    if colab.found().device == "tpu":
        pytest.skip("there is a TPU here")
    with pytest.raises(OutOfBounds, match="device='tpu', but this is this machine"):
        launch(device="tpu")
    assert rundir.every() == []


def test_looking_at_the_machine_loads_no_accelerators_library() -> None:
    code = "import sys; from workbench.launchers import colab; colab.found(); " \
           "print({'torch', 'torch_xla', 'jax', 'libtpu'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"
