"""The bounded queue between inference and training."""

import threading

import numpy as np
import pytest

from workbench.replay.queue import UnrollQueue
from workbench.trajectory import Unroll


def unroll(number: int) -> Unroll:
    names = ("observation", "reward", "flags", "previous_action", "action", "policy_version", "bootstrap_value",
             "stack_prefix")
    return Unroll.of(dict.fromkeys(names, np.zeros(0)), env_id=number, run_id=1)


def numbers(unrolls):
    return [one.env_id for one in unrolls]


def test_unrolls_leave_in_the_order_in_which_they_came():
    queue = UnrollQueue(8)
    for number in range(4):
        queue.put(unroll(number))
    assert numbers(queue.take(2, timeout_s=1)) == [0, 1]
    assert numbers(queue.take(2, timeout_s=1)) == [2, 3]


@pytest.mark.parametrize("at_once", [False, True])
def test_a_full_queue_holds_the_writer_until_there_is_room(at_once):
    queue = UnrollQueue(2)
    done = threading.Event()

    def write() -> None:
        unrolls = [unroll(number) for number in range(3)]
        for several in [unrolls] if at_once else [[one] for one in unrolls]:
            assert queue.put(*several)
        done.set()

    threading.Thread(target=write, daemon=True).start()
    assert not done.wait(0.2), "the third unroll does not fit"
    assert numbers(queue.take(2, timeout_s=240)) == [0, 1]
    assert done.wait(240)
    assert numbers(queue.take(1, timeout_s=240)) == [2]


def test_a_reader_waits_for_all_that_it_asked_for():
    queue = UnrollQueue(8)
    taken: list[Unroll] = []
    reader = threading.Thread(target=lambda: taken.extend(queue.take(3, timeout_s=240)))
    reader.start()
    queue.put(unroll(0), unroll(1))
    assert reader.is_alive() and not taken
    queue.put(unroll(2), unroll(3))
    reader.join(240)
    assert numbers(taken) == [0, 1, 2] and len(queue) == 1


def test_too_few_unrolls_stay_where_they_are():
    queue = UnrollQueue(4)
    queue.put(unroll(0))
    assert queue.take(2, timeout_s=0.05) == []
    assert len(queue) == 1


def test_closing_frees_a_writer_and_a_reader():
    queue = UnrollQueue(1)
    queue.put(unroll(0))
    told: list[object] = []
    threads = [
        threading.Thread(target=lambda: told.append(queue.put(unroll(1)))),
        threading.Thread(target=lambda: told.append(queue.take(5, timeout_s=240))),
    ]
    for thread in threads:
        thread.start()
    queue.close()
    for thread in threads:
        thread.join(240)
    assert sorted(map(str, told)) == ["False", "[]"]
