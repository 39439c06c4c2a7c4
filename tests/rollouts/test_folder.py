"""A rollout's folder: what goes in comes out, and whatever goes wrong leaves nothing behind."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import mounted_disk
from tests.played import checkpoint_in
from workbench import checkpoints
from workbench.checkpoints import tensorfile
from workbench.errors import EnvironmentFailed, InvalidInput, StorageFailed
from workbench.playing import store
from workbench.playing.store import RolloutWriter, replacing, rollout_folder


def written(folder: Path, frames: list[np.ndarray], **rows: list) -> store.Stored:
    folder.mkdir(exist_ok=True)
    with RolloutWriter(folder) as writer:
        for frame in frames:
            writer.show(frame)
        for name, values in rows.items():
            for value in values:
                writer.append(**{name: value})
        writer.finish({"seed": 3})
    return store.read(folder)


def pixels(number: int) -> list[np.ndarray]:
    return [np.full((21, 16, 3), index, np.uint8) for index in range(number)]


def scenes(number: int) -> list[np.ndarray]:
    """As a camera would see: soft, with noise."""
    rng = np.random.default_rng(0)
    soft = np.linspace(0, 200, 60)[:, None, None] + np.linspace(0, 40, 80)[:, None]
    return [(soft + rng.integers(0, 12, (60, 80, 3))).astype(np.uint8) for _ in range(number)]


def test_arrays_and_frames_come_back(tmp_path):
    rows = [np.float32(0.5), np.float32(-1)]
    seen = [np.eye(3), np.ones((3, 3))]
    record, arrays, frames = written(tmp_path / "one", pixels(5), rewards=rows, observations=seen)
    assert (record["seed"], record["frames"]) == (3, "PNG")
    assert arrays["rewards"].dtype == np.float32 and arrays["rewards"].tolist() == [0.5, -1]
    assert np.array_equal(arrays["observations"], seen)
    assert np.array_equal(frames, pixels(5)) and frames.shape == (5, 21, 16, 3)
    assert np.array_equal(frames[-1], pixels(5)[4]) and np.array_equal(frames[1:3], pixels(5)[1:3])
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == [
        "frames.bin", "rollout.json", "steps.safetensors"]
    with pytest.raises(IndexError):
        frames[5]


def test_scenes_are_kept_as_jpeg_and_look_the_same(tmp_path):
    _, _, frames = written(tmp_path / "one", scenes(3))
    assert frames.mime == "image/jpeg" and frames.encoded(0)[:2] == b"\xff\xd8"
    assert np.abs(frames[1].astype(int) - scenes(3)[1]).mean() < 4
    assert len(frames.encoded(0)) < len(store.as_png(scenes(1)[0]))


def test_frames_of_another_size_are_refused(tmp_path):
    with pytest.raises(EnvironmentFailed, match="one shape"):
        written(tmp_path / "one", [*pixels(1), np.zeros((3, 3, 3), np.uint8)])


def test_a_few_great_values_of_saliency_do_not_darken_the_rest(tmp_path):
    values = np.ones((10, 400), np.float32)
    values[3, 7] = 1e6
    _, arrays, _ = written(tmp_path / "one", [], saliency=list(values))
    assert arrays["saliency"].dtype == np.uint8 and (arrays["saliency"] == 255).all()
    _, arrays, _ = written(tmp_path / "two", [], saliency=[np.array([0.0, 0.5, 2.0], np.float32)])
    assert arrays["saliency"].tolist() == [[0, 64, 255]]
    _, arrays, _ = written(tmp_path / "dark", [], saliency=[np.zeros(3, np.float32)])
    assert arrays["saliency"].tolist() == [[0, 0, 0]]


def test_a_long_game_fills_no_memory(tmp_path):
    code = f"""
import numpy as np
from pathlib import Path
def peak():  # of this program; getrusage counts what was here before it
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
from workbench.playing.store import RolloutWriter
with RolloutWriter(Path({str(tmp_path)!r})) as writer:
    before = peak()
    for t in range(1500):
        writer.append(observations=np.full((1, 84, 84), t % 256, np.uint8), saliency=np.full((84, 84), t, np.float32))
    resident = peak() - before
print(resident)
"""
    kilobytes = int(subprocess.check_output([sys.executable, "-c", code], text=True))
    assert kilobytes < 10_000  # 53 MB were written


def test_a_rollout_takes_the_place_of_the_one_before_which_stays_readable(tmp_path):
    target = tmp_path / "rollouts" / "one"
    for number in (1, 2):
        with replacing(target) as folder:
            written(folder, pixels(number), actions=[number])
            assert (target / store.RECORD).exists() == (number == 2)
        if number == 1:
            old = store.read(target)
    assert store.read(target).arrays["actions"].tolist() == [2]
    assert (old.arrays["actions"].tolist(), len(old.frames), old.frames[0][0, 0, 0]) == ([1], 1, 0)
    assert [path.name for path in target.parent.iterdir()] == ["one"]


def test_a_failure_leaves_nothing_and_keeps_the_one_before(tmp_path):
    target = tmp_path / "one"
    with replacing(target) as folder:
        written(folder, [], actions=[1])
    (tmp_path / ".making-999999999-killed").mkdir()
    with pytest.raises(KeyError), replacing(target) as folder:
        raise KeyError
    assert [path.name for path in tmp_path.iterdir()] == ["one"]
    assert store.read(target).arrays["actions"].tolist() == [1]


def test_what_a_process_is_writing_stays_and_what_it_left_is_removed(tmp_path):
    code = f"""
from pathlib import Path
from workbench.playing.store import replacing
with replacing(Path({str(tmp_path / "theirs")!r})) as folder:
    print(folder, flush=True)
    input()
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as other:
        try:
            hidden = Path(other.stdout.readline().strip())
            with replacing(tmp_path / "mine") as folder:
                written(folder, [], actions=[1])
            assert hidden.is_dir()
        finally:
            other.kill()
    (tmp_path / f".making-{os.getpid()}-{hidden.name[-8:]}").mkdir()  # a pid says nothing: it is somebody else's now
    with replacing(tmp_path / "mine") as folder:
        written(folder, [], actions=[2])
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_many_who_replace_the_same_do_not_disturb_each_other(tmp_path):
    def replace(number: int) -> None:
        for _ in range(60):
            with replacing(tmp_path / "one") as folder:
                written(folder, [], actions=[number])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(replace, range(4)))
    assert store.read(tmp_path / "one").arrays["actions"].tolist()[0] in range(4)
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_one_that_another_replaces_between_two_looks_is_a_rollout(tmp_path, monkeypatch):
    def looked(path, *, really=rollout_folder.is_rollout):
        monkeypatch.setattr(rollout_folder, "is_rollout", really)
        with replacing(tmp_path / "one") as quicker:
            written(quicker, [], actions=[2])
        return False  # as while the first has gone and the second is not there yet

    with replacing(tmp_path / "one") as made:
        written(made, [], actions=[1])
    monkeypatch.setattr(rollout_folder, "is_rollout", looked)
    with replacing(tmp_path / "one") as made:
        written(made, [], actions=[3])
    assert store.read(tmp_path / "one").arrays["actions"].tolist() == [3]


def test_the_one_before_comes_back_where_the_new_one_cannot_take_its_place(tmp_path):
    with replacing(tmp_path / "one") as folder:
        written(folder, [], actions=[1])
    with pytest.raises(StorageFailed) as caught, replacing(tmp_path / "one") as folder:
        shutil.rmtree(folder)
    assert "No such file" in str(caught.value) and "Free space" not in str(caught.value)
    assert store.read(tmp_path / "one").arrays["actions"].tolist() == [1]
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_exported_checkpoints_of_one_name_have_rollouts_of_their_own(tmp_path, home):
    first, second = (checkpoint_in(tmp_path / str(seed), seed=seed) for seed in (1, 2))
    assert store.rollout_path(first, "seed0") == tmp_path / "1/run/rollouts/000000001200-seed0"
    places = [store.rollout_path(checkpoints.at(checkpoints.export(one, tmp_path / folder / "best")), "seed0")
              for one, folder in ((first, "a"), (second, "b"), (first, "c"))]
    assert places[0] == places[2] != places[1]
    assert all(place.match("rollouts/best-????????-seed0") and place.is_relative_to(home) for place in places)


def test_what_is_missing_or_damaged_is_named(tmp_path):
    with pytest.raises(InvalidInput, match=r"rollout.json is missing"):
        store.read(tmp_path)
    written(tmp_path / "one", pixels(3), actions=[1])
    with open(tmp_path / "one" / "frames.bin", "r+b") as file:
        file.truncate(10)
    without = store.read(tmp_path / "one")  # the steps are a demonstration all the same
    assert without.frames is None and "its frames are damaged" in without.record["note"]
    assert without.arrays["actions"].tolist() == [1]
    (tmp_path / "one" / "frames.bin").unlink()
    assert store.read(tmp_path / "one").frames is None
    with open(tmp_path / "one" / "steps.safetensors", "r+b") as file:
        file.truncate(100)
    with pytest.raises(StorageFailed, match=r"damaged.*Move the folder away"):
        store.read(tmp_path / "one")
    (tmp_path / "one" / "rollout.json").write_text('{"format": 9}')
    with pytest.raises(StorageFailed, match="Read it with the version that wrote it"):
        store.read(tmp_path / "one")


def test_one_that_cannot_be_opened_now_is_not_said_to_be_damaged(tmp_path, monkeypatch):
    def opened(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    written(tmp_path / "one", pixels(3), actions=[1])
    monkeypatch.setattr(tensorfile, "read", opened)
    with pytest.raises(StorageFailed, match=r"cannot be read now: .*Too many open files\.$"):
        store.read(tmp_path / "one")


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    yield from mounted_disk(tmp_path / "disk", size="1m")


def test_a_full_disk_is_said_in_words_and_leaves_nothing(small_disk):
    with pytest.raises(StorageFailed, match="No space left.*max_steps"), replacing(small_disk / "one") as folder:
        written(folder, [], observations=[np.zeros(100_000)] * 4)
    assert list(small_disk.iterdir()) == []


def test_a_disk_that_frames_fill_is_said_in_words(small_disk):
    frames = list(np.random.default_rng(0).integers(0, 256, (900, 40, 40, 3), np.uint8))  # each fits into a buffer
    with pytest.raises(StorageFailed, match="No space left.*max_steps"), replacing(small_disk / "one") as folder:
        written(folder, frames)
    assert list(small_disk.iterdir()) == []


@pytest.mark.parametrize("free", range(8))
def test_a_rollout_is_whole_or_refused_however_little_is_free(small_disk, free):
    (small_disk / "one").mkdir()
    with open(small_disk / "large", "wb", buffering=0) as large:
        while os.statvfs(small_disk).f_bavail > free:
            large.write(bytes(4096))
    try:
        assert len(written(small_disk / "one", pixels(3), actions=[1, 2]).frames) == 3
    except StorageFailed:
        with pytest.raises((InvalidInput, StorageFailed)):
            store.read(small_disk / "one")
