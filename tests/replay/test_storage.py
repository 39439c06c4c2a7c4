"""What is written into the replay's storage comes out of it as `collate` would have joined it, from memory and disk."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from tests.conftest import mounted_disk, open_files
from workbench.algorithms import batch
from workbench.algorithms.batch import collate
from workbench.environment_spec import EnvironmentSpec
from workbench.errors import OutOfBounds, ShapeMismatch, StorageFailed
from workbench.replay.storage import UnrollStorage
from workbench.replay.unroll_fields import UnrollLayout
from workbench.trajectory import Unroll

IMAGE = EnvironmentSpec("image", (1, 5, 3), "uint8", 4, frame_stack=3)
VECTOR = EnvironmentSpec("vector", (6,), "float32", 4)
BEHAVIOUR = {"q_value": ((), "float32"), "q_values": ((4,), "float32")}
STATES = ((3,), (2, 2))


def layout_of(spec=IMAGE, *, unroll_length=4, states=STATES):
    return UnrollLayout(spec, unroll_length, overlap=2, behaviour=BEHAVIOUR, state_shapes=states)


LAYOUT = layout_of()


def unroll(layout, number):
    """An unroll of random values, others for each `number`."""
    random = np.random.default_rng(number)
    values = {name: (250 * random.random(shape)).astype(dtype) for name, (shape, dtype) in layout.fields.items()}
    return Unroll.of(values, env_id=0, run_id=1)


def check_equal(gathered, expected):
    mine, theirs = gathered.arrays(), expected.arrays()
    assert list(mine) == list(theirs)
    for name, tensor in mine.items():
        assert tensor.is_contiguous(), name
        torch.testing.assert_close(tensor, theirs[name], rtol=0, atol=0, msg=lambda text, name=name: f"{name}: {text}")


@pytest.fixture(params=["memory", "disk"])
def folder(request, tmp_path):
    """None for a storage in memory."""
    return tmp_path / "run" / "replay" if request.param == "disk" else None


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 4 MiB."""
    yield from mounted_disk(tmp_path / "disk", size="4m")


@pytest.mark.parametrize("states", [STATES, ()], ids=["lstm", "no-state"])
@pytest.mark.parametrize("spec", [IMAGE, VECTOR], ids=["uint8-stacked", "float32"])
def test_a_gathered_batch_is_what_collate_makes_of_the_same_unrolls(spec, states, folder):
    layout = layout_of(spec, states=states)
    storage = UnrollStorage(layout, capacity=10, folder=folder)
    unrolls = [unroll(layout, number) for number in range(25)]
    for number, one in enumerate(unrolls):
        storage.write(number % 10, one)
    held = [*unrolls[20:], *unrolls[15:20]]
    for rows in ([3, 9, 0, 3, 5], [7], list(range(9, -1, -1))):
        check_equal(storage.gather(np.array(rows)), collate([held[row] for row in rows]))
    storage.close()


@pytest.mark.parametrize("pinned", [False, True])
def test_a_batch_has_a_table_of_final_observations_only_if_one_of_its_unrolls_has_any(folder, monkeypatch, pinned):
    monkeypatch.setattr(batch, "_pinned", lambda size: torch.full((size,), 0xA5, dtype=torch.uint8))
    layout = replace(layout_of(), keeps_finals=True)
    storage = UnrollStorage(layout, capacity=4, folder=folder, pin_memory=pinned)
    unrolls = [unroll(layout, number) for number in range(4)]
    for row, one in enumerate(unrolls):
        one.final_step[:] = 3 if row == 2 else 0
        storage.write(row, one)
    check_equal(storage.gather(np.array([1, 2, 2])), collate([unrolls[row] for row in (1, 2, 2)]))
    without = storage.gather(np.array([0, 3]))
    assert without.final_step.shape == (2, 0) and without.final_observation.shape == (2, 0, 1, 5, 3)
    storage.close()


def test_steps_that_are_large_and_small_ones_are_joined_alike(monkeypatch):
    storage, unrolls = UnrollStorage(LAYOUT, capacity=4), [unroll(LAYOUT, number) for number in range(4)]
    for row, one in enumerate(unrolls):
        storage.write(row, one)
    for limit in (1, 16, 10_000):
        monkeypatch.setattr("workbench.replay.storage._LARGE_BYTES", limit)
        check_equal(storage.gather(np.arange(4)), collate(unrolls))


def test_a_batch_is_a_copy_that_later_writes_do_not_change(folder):
    storage = UnrollStorage(LAYOUT, capacity=4, folder=folder)
    first = unroll(LAYOUT, 0)
    storage.write(2, first)
    gathered = storage.gather(np.array([2]))
    storage.write(2, unroll(LAYOUT, 1))
    check_equal(gathered, collate([first]))


@pytest.mark.parametrize("held", [lambda one: one, lambda one: one[1:, :, 0], lambda one: one.numpy()[2],
                                  lambda one: one.detach().flatten().untyped_storage()])
def test_memory_of_a_batch_is_used_again_but_not_while_any_of_it_is_held(held):
    storage = UnrollStorage(LAYOUT, capacity=4)
    for row in range(4):
        storage.write(row, unroll(LAYOUT, row))
    observation = storage.gather(np.array([0, 1])).observation
    place, mine = observation.data_ptr(), held(observation)
    before = bytes(np.asarray(mine))
    del observation
    for row in (2, 3):
        assert storage.gather(np.array([row, row])).observation.data_ptr() != place
    assert bytes(np.asarray(mine)) == before
    del mine
    again = [storage.gather(np.array([2, 3])) for _ in range(2)]
    assert place in {each.observation.data_ptr() for each in again}
    check_equal(again[0], again[1])
    assert storage.gather(np.array([0])).observation.shape[1] == 1


def test_memory_and_disk_hold_the_same(tmp_path):
    storages = [UnrollStorage(LAYOUT, capacity=6, folder=place) for place in (None, tmp_path / "replay")]
    states = tuple(np.random.default_rng(0).normal(size=(2, *shape)).astype(np.float32) for shape in STATES)
    for storage in storages:
        for row in (0, 1, 2, 5, 1):
            storage.write(row, unroll(LAYOUT, row))
        storage.set_states(np.array([5, 0]), states)
    memory, disk = (storage.fields for storage in storages)
    assert list(memory) == list(disk) == list(LAYOUT.fields)
    for name, array in memory.items():
        assert array.shape == disk[name].shape == (6, *LAYOUT.fields[name][0])
        assert array.dtype == disk[name].dtype == LAYOUT.fields[name][1]
        np.testing.assert_array_equal(array, disk[name])
        assert array[5].any() and not array[3].any(), "rows that were never written are zeros"


def test_what_is_written_into_the_arrays_themselves_is_gathered(folder):
    """A saved replay is loaded this way."""
    storage = UnrollStorage(LAYOUT, capacity=3, folder=folder)
    storage.write(1, unroll(LAYOUT, 0))
    storage.fields["reward"][1] = np.arange(LAYOUT.length)
    assert storage.gather(np.array([1])).reward[:, 0].tolist() == list(range(LAYOUT.length))


def test_recurrent_states_are_replaced_and_nothing_else(folder):
    storage = UnrollStorage(LAYOUT, capacity=4, folder=folder)
    unrolls = [unroll(LAYOUT, number) for number in range(4)]
    for row, one in enumerate(unrolls):
        storage.write(row, one)
    states = tuple(np.random.default_rng(1).normal(size=(2, *shape)).astype(np.float32) for shape in STATES)
    storage.set_states(np.array([3, 1]), states)
    for place, row in enumerate((3, 1)):
        unrolls[row] = replace(unrolls[row], initial_state=tuple(state[place] for state in states))
    check_equal(storage.gather(np.arange(4)), collate(unrolls))
    with pytest.raises(ShapeMismatch, match=r"recurrent states .* for 2 unrolls"):
        storage.set_states(np.array([0, 1]), states[:1])
    with pytest.raises(ShapeMismatch, match=r"\(2, 2, 2\).* for 3 unrolls"):
        storage.set_states(np.array([0, 1, 2]), states)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda one: replace(one, observation=one.observation[:-1]), r"observation .* \[6, 1, 5, 3\]"),
        (lambda one: replace(one, observation=one.observation.astype(np.float32)), "observation .* float32"),
        (lambda one: replace(one, stack_prefix=one.stack_prefix[1:]), "stack_prefix"),
        (lambda one: replace(one, reward=one.reward.astype(np.float64)), "reward .* float64"),
        (lambda one: replace(one, behaviour={"q_value": one.behaviour["q_value"]}), "behaviour.q_values"),
        (lambda one: replace(one, behaviour={**one.behaviour, "value": one.reward}), "behaviour.value"),
        (lambda one: replace(one, initial_state=one.initial_state[:1]), "state.1"),
        (lambda one: replace(one, initial_state=(one.initial_state[0], one.initial_state[0])), "state.1"),
    ],
)
def test_an_unroll_of_another_layout_is_refused_by_the_field_and_changes_nothing(change, named, folder):
    storage = UnrollStorage(LAYOUT, capacity=2, folder=folder)
    storage.write(0, unroll(LAYOUT, 0))
    with pytest.raises(ShapeMismatch, match=named):
        storage.write(0, change(unroll(LAYOUT, 1)))
    check_equal(storage.gather(np.array([0])), collate([unroll(LAYOUT, 0)]))


def test_memory_is_taken_only_as_it_fills():
    layout = layout_of(EnvironmentSpec("large", (1, 84, 84), "uint8", 4, frame_stack=4), unroll_length=40)
    process, one = psutil.Process(), unroll(layout, 0)
    before = process.memory_info().rss
    storage = UnrollStorage(layout, capacity=10_000)  # 2.9 GiB
    assert process.memory_info().rss - before < 64 * 2**20
    for row in range(300):
        storage.write(row, one)
    filled = process.memory_info().rss - before
    assert 0.8 < filled / (300 * layout.unroll_bytes) < 1.8
    storage.close()
    assert process.memory_info().rss - before < 0.3 * filled, "memory is not given back"


def test_more_memory_than_there_can_be_is_refused():
    layout = layout_of(EnvironmentSpec("large", (1, 84, 84), "uint8", 4))
    with pytest.raises(OutOfBounds, match=r"1,000,000,000 unrolls .* GiB\. Set a smaller replay_size"):
        UnrollStorage(layout, capacity=10**9)


def test_a_disk_that_is_too_small_is_an_error_before_the_first_unroll(small_disk):
    layout = layout_of(unroll_length=100)
    free, before = shutil.disk_usage(small_disk).free, open_files()
    with pytest.raises(StorageFailed) as caught:
        UnrollStorage(layout, capacity=4 * 2**20 // layout.unroll_bytes + 1, folder=small_disk / "replay")
    for part in ("No space left on device", f"unrolls of {layout.unroll_bytes:,} bytes need 0.00391 GiB",
                 "0.00391 GiB are free", "a smaller replay_size"):
        assert part in str(caught.value)
    del caught
    assert shutil.disk_usage(small_disk).free == free
    assert not open_files() - before, "something stayed open"


def test_the_disk_is_reserved_before_it_is_written_and_given_back_in_the_end(small_disk):
    layout = layout_of(unroll_length=100)
    free = shutil.disk_usage(small_disk).free
    capacity = int(0.95 * free) // layout.unroll_bytes
    storage = UnrollStorage(layout, capacity=capacity, folder=small_disk)
    left = shutil.disk_usage(small_disk).free
    assert free - left >= capacity * layout.unroll_bytes
    (small_disk / "others").write_bytes(bytes(left))  # now the disk is full
    for row in range(capacity):
        storage.write(row, unroll(layout, row))
    check_equal(storage.gather(np.array([capacity - 1])), collate([unroll(layout, capacity - 1)]))
    storage.close()
    assert shutil.disk_usage(small_disk).free == free - left


def opened(folder):
    """This process's open files in `folder`, be they deleted or not."""
    return [Path("/proc/self/fd", number) for number, name in open_files() if str(folder) in name]


def test_its_files_are_the_owners_alone_and_have_no_name_to_be_left_behind(tmp_path):
    storage = UnrollStorage(LAYOUT, capacity=4, folder=tmp_path / "run" / "replay")
    storage.write(0, unroll(LAYOUT, 0))
    folder = tmp_path / "run" / "replay"
    assert list(folder.iterdir()) == [] and folder.stat().st_mode & 0o777 == 0o700
    assert len(opened(folder)) >= len(LAYOUT.fields)
    assert {link.stat().st_mode & 0o777 for link in opened(folder)} == {0o600}
    storage.close()
    assert not opened(folder)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageFailed, match=r"file/replay: Not a directory"):
        UnrollStorage(LAYOUT, capacity=4, folder=tmp_path / "file" / "replay")


def test_a_disk_that_fails_is_said(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(5, "Input/output error")

    storage = UnrollStorage(LAYOUT, capacity=4, folder=tmp_path)
    monkeypatch.setattr(os, "pwrite", fail)
    with pytest.raises(StorageFailed, match="Input/output error"):
        storage.write(0, unroll(LAYOUT, 0))
