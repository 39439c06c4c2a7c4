"""Checkpoints: all of one or nothing, what is damaged is named and passed over, and nothing is lost by pruning."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from tests.conftest import mounted_disk
from tests.written_checkpoints import GROUPS, WRITES_FOREVER, flip, meta, run, save, with_replay
from workbench import checkpoints
from workbench.checkpoints import Checkpoint
from workbench.checkpoints.checkpoint import digest
from workbench.errors import CheckpointCorrupt, InvalidInput, StorageFailed, UnknownName
from workbench.running.reading.checkpoint_list import Checkpoints


def test_what_was_written_is_loaded_bit_by_bit(tmp_path: Path) -> None:
    checkpoint = save(tmp_path)
    assert checkpoint.groups == ["model", "optimizer", "rng"]
    for group, tensors in GROUPS.items():
        loaded = checkpoint.load(group)
        assert loaded.keys() == tensors.keys()
        for name, tensor in tensors.items():
            assert loaded[name].dtype == tensor.dtype and loaded[name].shape == tensor.shape
            assert loaded[name].flags.writeable
            np.testing.assert_array_equal(loaded[name], tensor)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "uint16", "int32", "int64", "uint64", "float16", "float32",
                                   "float64"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3, 4)])
def test_every_dtype_and_shape_makes_the_round_trip(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    tensor = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    written = checkpoints.write(tmp_path, frames=1, groups={"model": {"a": tensor}}, meta=meta(), requested=False)
    loaded = written.load("model")["a"]
    assert loaded.dtype == tensor.dtype and loaded.shape == shape
    np.testing.assert_array_equal(loaded, tensor)


def test_arrays_in_any_memory_order_keep_their_values(tmp_path: Path) -> None:
    whole = np.arange(24, dtype=np.float32).reshape(4, 6)
    views = {"transposed": whole.T, "strided": whole[::2, 1::3], "big_endian": whole.astype(">f4"),
             "special": np.array([np.nan, np.inf, -0.0], np.float32)}
    written = checkpoints.write(tmp_path, frames=1, groups={"model": views}, meta=meta(), requested=False)
    for name, tensor in written.load("model").items():
        np.testing.assert_array_equal(tensor, views[name])


def test_views_and_memory_maps_are_written_as_they_are_and_any_reader_of_safetensors_reads_them(tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "mapped", np.uint8, "w+", shape=(5, 3, 2**20))  # more than a chunk each
    mapped[:] = np.random.default_rng(0).integers(0, 256, mapped.shape, np.uint8)
    arrays = {"whole": mapped, "first": mapped[:2], "strided": mapped[::2, 1, ::3], "a_turned": mapped[:, :, :99].T,
              "big_endian": np.arange(5, dtype=">i8"), "scalar": np.array(2.5), "none": np.zeros((0, 4), np.float16),
              "yes": np.array([True, False])}
    written = checkpoints.write(tmp_path / "to", frames=1, groups={"replay": arrays}, meta=meta(), requested=False)
    for read in (safetensors.numpy.load_file(written.path / "replay.safetensors"), written.open("replay")):
        assert read.keys() == arrays.keys()
        for name, array in arrays.items():
            assert read[name].dtype == array.dtype.newbyteorder("=") and read[name].shape == array.shape
            assert read[name].flags.aligned
            np.testing.assert_array_equal(read[name], array)


def test_files_written_by_the_safetensors_library_are_read(tmp_path: Path) -> None:
    written = save(tmp_path)
    safetensors.numpy.save_file(GROUPS["model"], path := written.path / "model.safetensors", metadata={"by": "others"})
    data = path.read_bytes()
    files = {"model.safetensors": {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}}
    rewrite_meta(written, files=files)
    for name, tensor in checkpoints.at(written.path).load("model").items():
        np.testing.assert_array_equal(tensor, GROUPS["model"][name])


def test_an_opened_group_is_read_only_verified_and_outlives_its_checkpoint(tmp_path: Path) -> None:
    checkpoint = save(tmp_path)
    opened = checkpoint.open("model")
    assert not opened["weight"].flags.writeable and opened["weight"].flags.aligned
    shutil.rmtree(checkpoint.path)
    np.testing.assert_array_equal(opened["weight"], GROUPS["model"]["weight"])
    changed = save(tmp_path)
    flip(changed.path / "model.safetensors", -1)
    with pytest.raises(CheckpointCorrupt, match=r"model\.safetensors was changed"):
        changed.open("model")


@pytest.mark.parametrize("header", [b"[]", b'{"a": 1}',
                                    b'{"a": {"dtype": "F32", "shape": [9], "data_offsets": [0, 36]}}',
                                    b'{"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 3]}}',
                                    b'{"a": {"dtype": "F8", "shape": [1], "data_offsets": [0, 1]}}', b"{"])
def test_a_file_that_is_not_safetensors_is_refused(tmp_path: Path, header: bytes) -> None:
    written = save(tmp_path)
    data = len(header).to_bytes(8, "little") + header + b"1234"
    (written.path / "model.safetensors").write_bytes(data)
    files = {"model.safetensors": {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}}
    rewrite_meta(written, files=files)
    with pytest.raises(CheckpointCorrupt, match=r"model\.safetensors cannot be read"):
        checkpoints.at(written.path).open("model")


IN_LITTLE_MEMORY = """
import resource, sys
from pathlib import Path
import numpy as np
from workbench import checkpoints
SIZE = 96 * 2**20
array = np.ones(SIZE, np.uint8)
def allow(extra):  # of memory that this process may write to
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    limit = int(lines["VmData"].split()[0]) * 1024 + int(extra)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.RLIM_INFINITY))
allow(0.3 * SIZE)
made = checkpoints.write(Path(sys.argv[1]), frames=1, groups={"replay": {"a": array, "every second": array[::2]}},
                         meta={"steps": 1, "updates": 1, "time_s": 0.0}, requested=False)
made.verify()
assert made.open("replay")["a"].sum() == SIZE
allow(1.7 * SIZE)
loaded = made.load("replay")
assert loaded["a"].flags.writeable
print("done")
"""


def test_a_large_group_is_written_verified_and_opened_without_a_copy_in_memory_and_loaded_with_one(
    tmp_path: Path,
) -> None:
    told = run(IN_LITTLE_MEMORY, tmp_path)
    assert told.stdout == "done\n", told.stderr


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([{}]), np.zeros(2, "V2"), np.zeros(2, "M8[s]")])
def test_a_dtype_that_cannot_be_held_is_refused_by_name(tmp_path: Path, array: np.ndarray) -> None:  # type: ignore
    with pytest.raises(InvalidInput, match=r"tensor 'odd' of group 'model' has dtype .*Convert"):
        checkpoints.write(tmp_path, frames=1, groups={"model": {"odd": array}}, meta=meta(), requested=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("group", ["../model", "a/b", "", ".hidden", "Model", "model.x", "model\n", "a b"])
def test_a_group_name_that_is_not_simple_is_refused(tmp_path: Path, group: str) -> None:
    with pytest.raises(InvalidInput, match="not a simple name"):
        checkpoints.write(tmp_path / "here", frames=1, groups={group: {}}, meta=meta(), requested=False)
    assert list(tmp_path.iterdir()) == []


def test_meta_that_is_not_json_or_incomplete_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="must be JSON"):
        save(tmp_path, network=object())
    with pytest.raises(InvalidInput, match="lacks steps, updates"):
        checkpoints.write(tmp_path, frames=1, groups={}, meta={"time_s": 1.0}, requested=False)
    assert checkpoints.every(tmp_path) == [] and list(tmp_path.iterdir()) == []


def test_the_counters_and_the_meta_come_back(tmp_path: Path) -> None:
    save(tmp_path, 4_000_000, requested=True, updates=np.int64(12), environment={"name": "ALE/Pong-v5"})
    (found,) = checkpoints.every(tmp_path)
    assert (found.frames, found.steps, found.updates, found.time_s) == (4_000_000, 250, 12, 3.5)
    assert found.episode_return == 18.25 and found.requested
    assert found.meta["environment"] == {"name": "ALE/Pong-v5"} and found.meta["frames"] == 4_000_000
    assert found.path.name == "000004000000"
    assert repr(found) == "Checkpoint(000004000000: frames=4,000,000, episode_return=18.25)"
    assert checkpoints.at(found.path) == found
    assert repr(save(tmp_path, 5, episode_return=None)) == "Checkpoint(000000000005: frames=5)"


def test_files_and_folders_are_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        checkpoint = save(tmp_path / "checkpoints")
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in checkpoint.path.iterdir()}
    assert modes == {"meta.json": 0o600, **{f"{group}.safetensors": 0o600 for group in GROUPS}}
    assert stat.S_IMODE(checkpoint.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(checkpoint.path.parent.stat().st_mode) == 0o700


def test_checkpoints_of_the_same_frames_stand_side_by_side_in_order(tmp_path: Path) -> None:
    written = [save(tmp_path, frames) for frames in (500, *[1000] * 12)]
    names = [one.path.name for one in written[:4]]
    assert names == ["000000000500", "000000001000", "000000001000-1", "000000001000-2"]
    assert [one.path for one in checkpoints.every(tmp_path)] == [one.path for one in written]
    assert checkpoints.newest_good(tmp_path) == (written[-1], [])


def test_the_last_written_is_the_newest_even_with_fewer_frames_or_a_clock_set_back(tmp_path: Path) -> None:
    save(tmp_path, 2000)
    (old,) = checkpoints.every(tmp_path)
    content = json.loads((old.path / "meta.json").read_text())
    content.pop("sha256")
    content["created"] += 1e6
    content["sha256"] = digest(content)
    (old.path / "meta.json").write_text(json.dumps(content))
    save(tmp_path, 1500)
    assert [one.frames for one in checkpoints.every(tmp_path)] == [2000, 1500]


def test_a_folder_without_checkpoints_or_no_folder_has_none(tmp_path: Path) -> None:
    assert checkpoints.every(tmp_path / "absent") == []
    assert checkpoints.newest_good(tmp_path) == (None, [])
    assert checkpoints.prune(tmp_path, 3) == []
    with pytest.raises(InvalidInput, match="there is no checkpoint in .*absent"):
        checkpoints.at(tmp_path / "absent")


def test_an_unknown_group_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="'modle'.*'model'"):
        save(tmp_path).load("modle")


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "rng.safetensors", "meta.json"])
def test_any_flipped_bit_is_found_and_the_checkpoint_before_is_used(tmp_path: Path, name: str) -> None:
    good, bad = save(tmp_path, 1000), save(tmp_path, 2000)
    whole = (bad.path / name).read_bytes()
    positions = np.random.default_rng(0).integers(0, len(whole), 40)
    for at in (0, len(whole) - 2, *positions):
        if whole[at : at + 1].isspace():
            continue  # between the tokens of meta.json
        flip(bad.path / name, int(at))
        found, passed_over = checkpoints.newest_good(tmp_path)
        assert found == good and len(passed_over) == 1, f"byte {at}"
        assert str(bad.path / name) in passed_over[0] and "older checkpoint" not in passed_over[0], "which it is"
        (bad.path / name).write_bytes(whole)
    assert checkpoints.newest_good(tmp_path)[0] == bad


@pytest.mark.parametrize("harm", [lambda file: file.write_bytes(file.read_bytes()[:-1]), lambda file: file.unlink()])
def test_a_list_of_checkpoints_marks_those_that_are_torn(tmp_path: Path, harm: Callable[[Path], Any]) -> None:
    good, bad = (save(tmp_path, 1000 * mean, judged={"by": "episode_return", "mean": float(mean), "episodes": 100})
                 for mean in (1, 2))
    harm(bad.path / "model.safetensors")
    assert not good.is_torn and bad.is_torn
    owner: Any = SimpleNamespace(name="torn", directory=SimpleNamespace(checkpoints=tmp_path))
    _, *lines = repr(Checkpoints([good, bad], owner)).splitlines()
    assert ["damaged" in line for line in lines] == [False, True]
    assert ["the best" in line for line in lines] == [True, False]


@pytest.mark.parametrize("name", ["model.safetensors", "meta.json"])
@pytest.mark.parametrize("kept", [0, 1, 50, -1])
def test_a_torn_file_is_found(tmp_path: Path, name: str, kept: int) -> None:
    good, bad = save(tmp_path, 1000), save(tmp_path, 2000)
    (bad.path / name).write_bytes((bad.path / name).read_bytes()[:kept])
    found, passed_over = checkpoints.newest_good(tmp_path)
    assert found == good and name in passed_over[0]


@pytest.mark.parametrize("name", ["model.safetensors", "meta.json"])
def test_a_missing_file_is_found(tmp_path: Path, name: str) -> None:
    good, bad = save(tmp_path, 1000), save(tmp_path, 2000)
    (bad.path / name).unlink()
    found, passed_over = checkpoints.newest_good(tmp_path)
    assert found == good and name in passed_over[0] and "No such file" in passed_over[0]


def test_loading_names_the_damaged_file_and_what_to_do_and_leaves_other_groups_usable(tmp_path: Path) -> None:
    checkpoint = save(tmp_path)
    flip(checkpoint.path / "model.safetensors", 150)
    with pytest.raises(CheckpointCorrupt, match=r"model\.safetensors was changed.*Use an older checkpoint"):
        checkpoint.load("model")
    assert checkpoint.load("rng").keys() == {"torch"}


def test_tensors_or_files_that_were_added_are_found(tmp_path: Path) -> None:
    checkpoint = save(tmp_path)
    path = checkpoint.path / "model.safetensors"
    whole = path.read_bytes()
    safetensors.numpy.save_file({**GROUPS["model"], "extra": np.zeros(3, np.float32)}, path)
    with pytest.raises(CheckpointCorrupt, match=r"model\.safetensors"):
        checkpoint.verify()
    path.write_bytes(whole)
    checkpoint.verify()
    (checkpoint.path / "replay.safetensors").write_bytes(whole)
    with pytest.raises(CheckpointCorrupt, match=r"not its own: replay\.safetensors"):
        checkpoint.verify()


def rewrite_meta(checkpoint: Checkpoint, **changes: Any) -> None:
    content = {**json.loads((checkpoint.path / "meta.json").read_text()), **changes}
    content.pop("sha256")
    content["sha256"] = digest(content)
    (checkpoint.path / "meta.json").write_text(json.dumps(content))


def test_a_meta_that_names_a_file_elsewhere_reads_nothing_there(tmp_path: Path) -> None:
    checkpoint = save(tmp_path)
    rewrite_meta(checkpoint, files={"../../secret.safetensors": {"sha256": "", "size_bytes": 0}})
    with pytest.raises(CheckpointCorrupt, match="outside the checkpoint"):
        checkpoints.at(checkpoint.path)


@pytest.mark.parametrize("changes", [{"files": []}, {"meta": {}}, {"meta": None}, {"files": {"a.safetensors": 3}}])
def test_a_meta_of_the_wrong_form_is_passed_over(tmp_path: Path, changes: dict[str, Any]) -> None:
    good, bad = save(tmp_path, 1000), save(tmp_path, 2000)
    rewrite_meta(bad, **changes)
    found, passed_over = checkpoints.newest_good(tmp_path)
    assert found == good and "000000002000" in passed_over[0]


def test_a_newer_format_is_refused_with_what_to_do(tmp_path: Path) -> None:
    checkpoint = save(tmp_path)
    rewrite_meta(checkpoint, format=2)
    with pytest.raises(CheckpointCorrupt, match="format 2.*with a newer one"):
        checkpoints.at(checkpoint.path)


CRASHES = """
import os, signal, sys
from pathlib import Path
import numpy as np
from workbench import checkpoints
def die(*_): os.kill(os.getpid(), signal.SIGKILL)
setattr(os, sys.argv[2], die)
checkpoints.write(Path(sys.argv[1]), frames=2000, groups={"model": {"a": np.zeros(9)}},
                  meta={"steps": 1, "updates": 1, "time_s": 0.0}, requested=False)
"""


@pytest.mark.parametrize("moment", ["rename", "fsync"])
def test_a_crash_before_the_rename_leaves_the_checkpoint_before_and_its_rest_goes_at_the_next(
    tmp_path: Path, moment: str
) -> None:
    good = save(tmp_path, 1000)
    assert run(CRASHES, tmp_path, moment).returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 2
    assert checkpoints.every(tmp_path) == [good] and checkpoints.newest_good(tmp_path) == (good, [])
    newer = save(tmp_path, 3000)
    assert sorted(path.name for path in tmp_path.iterdir()) == [good.path.name, newer.path.name]


def test_a_writer_killed_at_any_moment_always_leaves_a_good_newest(tmp_path: Path) -> None:
    frames = 0
    for life in range(6):
        child = subprocess.Popen([sys.executable, "-c", WRITES_FOREVER, tmp_path, str(frames + 1)], text=True,
                                 stdout=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"})
        try:
            assert child.stdout is not None
            for _ in range(1 + 2 * life):
                frames = int(child.stdout.readline())
        finally:
            child.kill()
            rest, _ = child.communicate(timeout=240)
        frames = int(rest.split()[-1]) if rest.split() else frames
        found, passed_over = checkpoints.newest_good(tmp_path)
        assert found is not None and passed_over == [] and found.frames >= frames
        assert (found.load("model")["a"] == found.frames).all()
        frames = found.frames
    save(tmp_path, frames + 1)
    assert len(list(tmp_path.iterdir())) <= 5


def test_what_a_killed_writer_left_goes_whatever_lives_by_its_number_now(tmp_path: Path) -> None:
    for name in (f".writing-{os.getppid()}-0123abcd", f".removing-{os.getppid()}-000000000007"):
        (tmp_path / name).mkdir()
    written = save(tmp_path)
    assert list(tmp_path.iterdir()) == [written.path]


def test_many_threads_may_write_at_once(tmp_path: Path) -> None:
    threads = [threading.Thread(target=save, args=(tmp_path,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=240)
    assert len(checkpoints.every(tmp_path)) == 6


def test_strange_files_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "000000000007").write_text("a file")
    (tmp_path / "0notes").mkdir()
    (tmp_path / "best").mkdir()
    written = save(tmp_path)
    checkpoints.prune(tmp_path, 1)
    assert checkpoints.newest_good(tmp_path) == (written, [])
    assert len(list(tmp_path.iterdir())) == 4


def test_diff_is_a_table_by_tensor(tmp_path: Path) -> None:
    def of(**tensors: Any) -> Checkpoint:
        groups = {"model": {name: np.array(value, np.float32) for name, value in tensors.items()}}
        return checkpoints.write(tmp_path, frames=1, groups=groups, meta=meta(), requested=False)

    table = of(same=[3, 4], moved=[3, 4], reshaped=[1, 1], gone=[2], zero=[0]).diff(
        of(same=[3, 4], moved=[3, 5], reshaped=[1], new=[5], zero=[1])
    )
    assert list(table.columns) == [
        "shape", "norm", "other_norm", "difference", "relative_difference", "cosine", "only_in"
    ]
    assert list(table.index) == ["gone", "moved", "new", "reshaped", "same", "zero"]
    assert table.loc["same", "relative_difference"] == 0 and table.loc["same", "norm"] == 5
    assert table.loc["moved", "relative_difference"] == pytest.approx(0.2)
    assert table.loc["moved", "difference"] == 1
    assert table.loc["zero", "relative_difference"] == np.inf
    assert table["only_in"].to_dict() == {"gone": "self", "moved": "", "new": "other", "reshaped": "", "same": "",
                                          "zero": ""}
    assert np.isnan(table.loc["reshaped", "relative_difference"]) and np.isnan(table.loc["new", "norm"])
    with pytest.raises(InvalidInput, match="None is no checkpoint"):
        of(same=[3]).diff(None)  # type: ignore[arg-type]


def test_a_mean_that_is_no_number_is_never_the_best(tmp_path: Path) -> None:
    for frames, mean in enumerate((float("nan"), 20.0, 500.0, float("inf"), 450.0)):
        judged = {"by": "episode_return", "mean": mean, "episodes": 50}
        checkpoints.write(tmp_path, frames=frames, groups={"model": {}}, meta={**meta(), "judged": judged},
                          requested=False)
    best = checkpoints.best(checkpoints.every(tmp_path))
    assert best is not None and best.frames == 2


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    yield from mounted_disk(tmp_path / "small", size="256k")


def test_what_does_not_fit_is_refused_before_it_is_begun(small_disk: Path) -> None:
    good = save(small_disk)
    groups = {"model": {"a": np.zeros(100_000)}}
    sizes = r"takes 0\.76 MiB, and 0\.2\d MiB are free"
    with pytest.raises(StorageFailed, match=rf"{re.escape(str(small_disk))}: it {sizes}\. Free space.*untouched"):
        checkpoints.write(small_disk, frames=2000, groups=groups, meta=meta(), requested=False)
    with pytest.raises(StorageFailed, match=r"leave out the replay \(0\.76 MiB\): run\.tune\(save_replay=False\)"):
        checkpoints.write(small_disk, frames=2000, groups={"replay": groups["model"]}, meta=meta(), requested=False)
    assert list(small_disk.iterdir()) == [good.path]
    assert checkpoints.newest_good(small_disk) == (good, [])


def test_a_disk_that_fills_up_meanwhile_raises_and_leaves_the_checkpoints_before(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = save(small_disk)
    groups = {"model": {"a": np.zeros(100_000)}}
    usage = shutil.disk_usage(small_disk)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=10**9))
    with pytest.raises(StorageFailed, match=f"{re.escape(str(small_disk))}: No space left.*untouched"):
        checkpoints.write(small_disk, frames=2000, groups=groups, meta=meta(), requested=False)
    assert list(small_disk.iterdir()) == [good.path]
    assert checkpoints.newest_good(small_disk) == (good, [])


def test_a_copy_shares_the_files_and_outlives_what_it_was_made_from(tmp_path: Path) -> None:
    source = with_replay(tmp_path / "from", 7, requested=True)
    copied = checkpoints.copy(source, tmp_path / "to", without=["optimizer"], meta={"network": "other", "steps": 9})
    assert copied.path == tmp_path / "to" / "000000000007"
    assert (copied.groups, copied.requested, copied.frames, copied.steps) == (["model", "replay", "rng"], False, 7, 9)
    assert copied.meta == {**source.meta, "network": "other", "steps": 9}
    assert os.path.samefile(copied.path / "replay.safetensors", source.path / "replay.safetensors")
    assert source.meta["network"] == "mlp" and checkpoints.at(source.path) == source
    shutil.rmtree(source.path)
    copied.verify()
    np.testing.assert_array_equal(copied.load("model")["weight"], GROUPS["model"]["weight"])


def test_a_copy_where_the_disk_has_no_hard_links_is_a_true_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    source = with_replay(tmp_path / "from", 7)
    copied = checkpoints.copy(source, tmp_path / "to")
    assert copied.groups == source.groups
    assert not os.path.samefile(copied.path / "replay.safetensors", source.path / "replay.safetensors")
    assert stat.S_IMODE((copied.path / "replay.safetensors").stat().st_mode) == 0o600
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9, 100_000))
    with pytest.raises(StorageFailed, match=r"it takes 0\.15 MiB, and 0\.10 MiB are free"):
        checkpoints.copy(source, tmp_path / "full")
    assert list((tmp_path / "full").iterdir()) == []


@pytest.mark.parametrize("damage", ["changed", "pruned", "thinned"])
def test_no_copy_is_made_of_what_is_damaged_or_goes_away(tmp_path: Path, damage: str) -> None:
    source = with_replay(tmp_path / "from", 7)
    if damage == "changed":
        flip(source.path / "rng.safetensors", -1)
        with pytest.raises(CheckpointCorrupt, match=re.escape(f"{source.path}/rng.safetensors was changed")):
            checkpoints.copy(source, tmp_path / "to")
        assert checkpoints.copy(source, tmp_path / "to", without=["rng"]).groups == ["model", "optimizer", "replay"]
        return
    groups = source.groups
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoint, "groups", property(lambda _: groups))  # as it was a moment ago
        shutil.rmtree(source.path) if damage == "pruned" else (source.path / "replay.safetensors").unlink()
        with pytest.raises(InvalidInput, match=r"is gone: its run pruned it in this moment.*run\.checkpoint\(\)"):
            checkpoints.copy(source, tmp_path / "to")
    assert list((tmp_path / "to").iterdir()) == []


def test_a_folder_that_cannot_be_made_raises(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="cannot write a checkpoint in"):
        save(tmp_path / "file" / "checkpoints")


# --- exporting: see also tests/widgets/test_inspector.py --------------------------------------------------------------


@pytest.mark.parametrize("name", ["copy", "copy.zip"])
def test_exporting_a_checkpoint_that_is_pruned_in_this_moment_says_so_and_leaves_nothing(
    tmp_path: Path, name: str
) -> None:
    found = save(tmp_path / "checkpoints")
    (found.path / "meta.json").unlink()  # which nobody reads again until it is copied
    with pytest.raises(CheckpointCorrupt, match=r"meta.json is gone: its run pruned it.*run.checkpoint"):
        checkpoints.export(found, tmp_path / "taken" / name)
    assert not list((tmp_path / "taken").iterdir())
