"""The wall clock jumps an hour ahead and back, as after a sleep or a correction: training, ages and order stay right.

Nobody may set a machine's clock for a test, and no namespace has a wall clock of its own. So every process of the run,
and this one, gets a `time.time` that is off by what a file says, for callers in the workbench; gRPC, SQLite and the
kernel keep theirs.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import workbench as wb
from tests.conftest import eventually
from tests.faults.harm import COUNTING, complete, messages

HOUR_S = 3600.0

SITE = """
import mmap, os, struct, sys, time

with open(os.environ["WORKBENCH_TEST_CLOCK"], "rb") as file:
    offset_s = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
right = time.time

def jumped():
    ours = sys._getframe(1).f_globals.get("__name__", "").startswith("workbench")
    return right() + (struct.unpack("d", offset_s)[0] if ours else 0.0)

time.time = jumped
"""


@pytest.fixture(scope="module")
def jump(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[float], None]]:
    """Sets by how many seconds the clock is off, in this process and those that it starts."""
    folder = tmp_path_factory.mktemp("clock")
    offset = folder / "offset"
    offset.write_bytes(struct.pack("d", 0.0))
    (folder / "sitecustomize.py").write_text(SITE)

    def to(seconds: float) -> None:
        with open(offset, "r+b") as file:
            file.write(struct.pack("d", seconds))

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_TEST_CLOCK", str(offset))
        patch.setattr(time, "time", time.time)
        patch.syspath_prepend(str(folder))  # and so on the PYTHONPATH of a run
        exec(compile(SITE, "sitecustomize.py", "exec"), {})
        yield to


@pytest.fixture(scope="module")
def run(jump: Callable[[float], None], module_home: Path) -> wb.Run:
    return wb.launch("testing/counting-v0", **COUNTING, environment_options={"step_ms": 5.0},
                     checkpoint_interval_s=2.0, keep_checkpoints=3)


def clock_of(run: wb.Run) -> float:
    """What the run's processes take for the time: that of its newest checkpoint."""
    return run.checkpoint().created


def test_the_clock_of_the_run_is_really_the_one_that_jumps(run: wb.Run, jump: Callable[[float], None]) -> None:
    complete(run)
    jump(HOUR_S)
    assert clock_of(run) == pytest.approx(time.time() + HOUR_S, abs=60)
    jump(0.0)


@pytest.mark.parametrize("seconds", [HOUR_S, -HOUR_S])
def test_a_run_trains_on_through_a_jump(run: wb.Run, jump: Callable[[float], None], seconds: float) -> None:
    before = complete(run)
    for offset in (seconds, 0.0):
        jump(offset)
        status = run.wait(updates=run.status.updates + 20, timeout_s=240)
        assert (status.state, status.learner_pid) == ("training", before.learner_pid)
        eventually(lambda: (s := run.status).reason == "" and s.frames_per_second > 0 and s.age_s < 60)
        eventually(lambda: wb.runs()[run.name].state == "training" and wb.runs()[run.name].frames_per_second > 0)
        assert wb.runs()[run.name].age_s >= 0
    assert messages(run, "error") == []


@pytest.mark.full
def test_training_time_is_no_time_of_day(run: wb.Run, jump: Callable[[float], None]) -> None:
    before = complete(run).time_s
    jump(HOUR_S)
    run.wait(updates=run.status.updates + 20, timeout_s=240)
    jump(-HOUR_S)
    after = run.wait(updates=run.status.updates + 20, timeout_s=240).time_s
    jump(0.0)
    assert 0 < after - before < HOUR_S / 2
    times = run.metrics("learner_memory_gb")["time_s"]
    assert times.is_monotonic_increasing


@pytest.mark.full
def test_checkpoints_and_events_keep_their_order_when_the_clock_is_set_back(
    run: wb.Run, jump: Callable[[float], None]
) -> None:
    complete(run)
    jump(HOUR_S)
    ahead = run.checkpoint()
    jump(-HOUR_S)
    run.wait(updates=ahead.updates + 20, timeout_s=240)
    behind = run.checkpoint()
    assert [one.frames for one in run.checkpoints] == sorted(one.frames for one in run.checkpoints)
    assert run.checkpoints[-1].frames >= behind.frames
    assert run.events["frames"].dropna().is_monotonic_increasing
    last = run.stop().frames
    again = wb.resume(run.name)
    restored = eventually(lambda: messages(again, "restore"))
    assert restored == [f"continues from the checkpoint at {last:,} frames"]
    automatic = [one for one in again.checkpoints if not one.requested]
    assert len(automatic) <= 3 + 1 and automatic[-1].frames >= last, "the newest are kept, and the best"
    jump(0.0)
