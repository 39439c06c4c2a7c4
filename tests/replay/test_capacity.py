"""How large a replay becomes, and what is said where it does not fit."""

import shutil

import psutil
import pytest

from workbench.algorithms.r2d2.config import R2D2Config
from workbench.environment_spec import EnvironmentSpec
from workbench.errors import OutOfBounds
from workbench.replay.replay_capacity import free_bytes, group_free_bytes, planned_capacity
from workbench.replay.unroll_fields import UnrollLayout

GIB = 2**30
LAYOUT = UnrollLayout(EnvironmentSpec("atari", (1, 84, 84), "uint8", 6, frame_stack=4, frames_per_step=4), 80, 40,
                      {"q_value": ((), "float32"), "q_max": ((), "float32")}, ((512,), (512,)))
BYTES = 121 * (84 * 84 + 4 + 1 + 8 + 8 + 8 + 4 + 4 + 4) + 3 * 84 * 84 + 2 * 512 * 4


def planned(free_gib, where="memory", **settings):
    return planned_capacity(R2D2Config(**settings), LAYOUT, free_bytes=int(free_gib * GIB), where=where)


@pytest.mark.parametrize(
    ("free_gib", "settings", "expected"),
    [
        (20, {}, int(10 * GIB) // BYTES),  # half of what is free
        (1000, {}, 100_000),
        (20, {"replay_memory_gb": 4.0}, int(4 * GIB) // BYTES),
        (20, {"replay_memory_gb": 18.0}, int(18 * GIB) // BYTES),
        (1000, {"replay_memory_gb": 500.0}, 100_000),
        (1000, {"replay_memory_gb": 500.0, "replay_size": 200_000}, 200_000),
        (20, {"replay_size": 20_000}, 20_000),  # more than half, less than 90 %
        (20, {"replay_size": int(18 * GIB) // BYTES}, int(18 * GIB) // BYTES),
        (20, {"replay_size": 128}, 128),
        (2 * 128 * BYTES / GIB, {}, 128),
    ],
)
def test_a_replay_takes_what_it_may_and_no_more(free_gib, settings, expected):
    assert LAYOUT.unroll_bytes == BYTES
    assert planned(free_gib, **settings) == expected


@pytest.mark.parametrize(
    ("free_gib", "settings", "said"),
    [
        (20, {"replay_size": 100_000}, ["100,000 unrolls of 884,001 bytes needs 82.3 GiB", "may take 18 GiB",
                                        "20 GiB of memory are free", "Set a smaller replay_size, replay_storage='disk'",
                                        "smaller unroll_length", "smaller burn_in"]),
        (20, {"replay_size": int(18 * GIB) // BYTES + 1}, ["needs 18 GiB"]),
        (20, {"replay_size": 10_000, "replay_memory_gb": 5.0}, ["needs 8.23 GiB", "may take 5 GiB",
                                                               "replay_memory_gb is 5", "a larger replay_memory_gb"]),
        (20, {"replay_size": 30_000, "replay_memory_gb": 50.0}, ["needs 24.7 GiB", "may take 18 GiB"]),
        (20, {"replay_memory_gb": 50.0}, ["needs 50 GiB", "may take 18 GiB", "Set a smaller replay_memory_gb"]),
        (20, {"replay_size": 127}, ["127 unrolls does not hold two batches, 128 unrolls", "Set replay_size to 128"]),
        (2 * 127 * BYTES / GIB, {}, ["127 unrolls does not hold two batches", "Set a larger replay_memory_gb",
                                     "a smaller batch_size"]),
        (0, {}, ["a replay of 0 unrolls"]),
    ],
)
def test_a_replay_that_does_not_fit_says_what_is_needed_what_is_there_and_what_to_do(free_gib, settings, said):
    with pytest.raises(OutOfBounds) as caught:
        planned(free_gib, **settings)
    for part in said:
        assert part in str(caught.value)


def test_a_replay_on_disk_is_not_told_to_move_there():
    with pytest.raises(OutOfBounds, match="20 GiB of disk are free") as caught:
        planned(20, "disk", replay_size=100_000)
    assert "replay_storage" not in str(caught.value)


def test_what_is_free_is_asked_of_the_place_where_the_replay_will_lie(tmp_path):
    on_disk = free_bytes(R2D2Config(replay_storage="disk"), tmp_path / "not" / "yet" / "there")
    assert on_disk == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.05)
    assert 0 < free_bytes(R2D2Config(), tmp_path) <= psutil.virtual_memory().total


def group(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(f"{text}\n")


def groups_of(machine, membership):
    """The folder of control groups of a machine whose files are in `machine`."""
    group(machine / "proc" / "self", cgroup=membership)
    return machine / "sys" / "fs" / "cgroup"


def test_a_container_counts_with_its_own_limit_and_those_above(tmp_path):
    root = groups_of(tmp_path, "0::/jobs/mine")
    group(root / "jobs" / "mine", memory__max=1000, memory__current=900,
          memory__stat="anon 700\ninactive_file 150\nactive_file 50")
    group(root / "jobs", memory__max=5000, memory__current=6000, memory__stat="inactive_file 10")
    group(root, memory__max="max", memory__current=10, memory__stat="inactive_file 0")
    assert group_free_bytes(tmp_path) == [250, 0]


def test_the_older_control_groups_are_read_as_well(tmp_path):
    root = groups_of(tmp_path, "4:cpu,memory:/docker/0a:b\n2:cpuacct:/elsewhere\n0::/")  # the path is the host's
    group(root / "memory", memory__limit_in_bytes=3000, memory__usage_in_bytes=1000,
          memory__stat="total_inactive_file 100\ninactive_file 7")
    assert group_free_bytes(tmp_path) == [2100]


def test_without_control_groups_the_machine_alone_counts(tmp_path):
    assert group_free_bytes(tmp_path) == []


def test_a_containers_limit_is_what_is_free(tmp_path, monkeypatch):
    monkeypatch.setattr("workbench.replay.replay_capacity.group_free_bytes", lambda: [12345, 777])
    assert free_bytes(R2D2Config(), tmp_path) == 777
