"""When a batch runs, and what is in it."""

import socket
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from tests.conftest import eventually
from workbench.learner.inference.batcher import Batcher, Request
from workbench.trajectory import StepBatch
from workbench.wire.messages import GroupStep


def request(first: int, count: int) -> Request:
    zeros = np.zeros(count, np.float32)
    step = GroupStep(0, 0, StepBatch(zeros[:, None], zeros, zeros.astype(np.uint8)))
    return Request(np.arange(first, first + count), 1, step, lambda _: None, lambda: True, time.perf_counter())


def sizes(batch):
    return [one.size for one in batch]


def test_a_full_batch_runs_at_once():
    batcher = Batcher(max_batch=8, timeout_s=240)
    batcher.expect(100)
    batcher.put(request(0, 4))
    batcher.put(request(4, 4))
    assert sizes(batcher.next_batch()) == [4, 4]


def test_a_partial_batch_runs_after_the_timeout_and_not_before():
    batcher = Batcher(max_batch=8, timeout_s=0.2)
    batcher.expect(100)
    started = time.perf_counter()
    batcher.put(request(0, 4))
    assert sizes(batcher.next_batch()) == [4]
    assert time.perf_counter() - started > 0.19


def test_nobody_waits_for_environments_that_are_not_there():
    batcher = Batcher(max_batch=8, timeout_s=240)
    batcher.expect(4)
    batcher.put(request(0, 4))
    assert sizes(batcher.next_batch()) == [4]


def test_a_batch_goes_when_the_actor_it_waited_for_dies():
    batcher = Batcher(max_batch=8, timeout_s=240)
    batcher.expect(8)
    batcher.put(request(0, 4))
    threading.Timer(0.1, batcher.expect, [-4]).start()
    assert sizes(batcher.next_batch()) == [4]


def test_groups_are_never_split_and_none_is_lost():
    batcher = Batcher(max_batch=8, timeout_s=0)
    batcher.expect(100)
    for first in (0, 5, 10):
        batcher.put(request(first, 5))
    batcher.put(request(15, 20))
    assert [sizes(batcher.next_batch()) for _ in range(4)] == [[5], [5], [5], [20]]


def test_a_late_thread_finds_all_steps_of_a_connection_in_one_batch():
    batcher = Batcher(max_batch=6, timeout_s=0)
    batcher.expect(100)
    actor, connection = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with actor, connection:
        def read() -> bool:
            batcher.put(request(int(connection.recv(8)), 1))
            return True

        batcher.watch(connection, read)
        for number in range(8):  # they wait in the socket, longer than a partial batch does
            actor.send(b"%d" % number)
        time.sleep(0.01)
        assert len(batcher.next_batch()) == 6
        assert len(batcher.next_batch()) == 2


def test_nothing_runs_while_paused_and_all_of_it_afterwards():
    batcher = Batcher(max_batch=4, timeout_s=0)
    batcher.expect(4)
    batcher.pause(True)
    batcher.put(request(0, 4))
    taken = []
    thread = threading.Thread(target=lambda: taken.append(batcher.next_batch()))
    thread.start()
    thread.join(0.2)
    assert not taken
    ended = time.perf_counter()
    batcher.pause(False)
    thread.join(240)
    assert sizes(taken[0]) == [4]
    assert taken[0][0].arrived >= ended, "a pause is no wait for a batch"


def test_a_thread_that_sleeps_is_woken_by_the_first_group_and_by_the_last_of_a_full_batch_alone():
    batcher, taken, sent = Batcher(max_batch=6, timeout_s=240), [], []
    batcher.expect(100)
    wake = batcher._wake
    batcher._wake = SimpleNamespace(send=lambda byte: sent.append(wake.send(byte)))
    thread = threading.Thread(target=lambda: taken.append(batcher.next_batch()))
    thread.start()
    for number in range(6):
        eventually(lambda: batcher._wakes_at is not None)
        batcher.put(request(number, 1))
        eventually(lambda: batcher._wakes_at != 1)
    thread.join(240)
    assert sizes(taken[0]) == [1] * 6 and len(sent) == 2


def test_closing_ends_the_wait():
    batcher = Batcher(max_batch=4, timeout_s=240)
    threading.Timer(0.1, batcher.close).start()
    assert batcher.next_batch() == []


@pytest.mark.parametrize("threads", [4])
def test_many_threads_lose_nothing(threads):
    batcher = Batcher(max_batch=16, timeout_s=0.001)
    batcher.expect(1000)

    def put(number):
        for first in range(200):
            batcher.put(request(number * 1000 + first, 1))

    writers = [threading.Thread(target=put, args=[number]) for number in range(threads)]
    for writer in writers:
        writer.start()
    seen = []
    while len(seen) < threads * 200:
        seen += [int(one.env_ids[0]) for one in batcher.next_batch()]
    assert len(set(seen)) == threads * 200


@pytest.mark.parametrize("wait", [lambda batcher: batcher.next_batch(),
                                  lambda batcher: batcher.whole(8, [1], timeout_s=240)])
def test_a_close_just_before_the_thread_sleeps_is_not_missed(wait):
    class ClosedFirst:
        """A lock before which the batcher is closed, once the thread that waits comes to it."""

        def __init__(self, lock):
            self._lock = lock

        def __enter__(self):
            batcher._lock = self._lock
            batcher.close()
            self._lock.acquire()

        def __exit__(self, *_):
            self._lock.release()

    batcher, found = Batcher(max_batch=8, timeout_s=240), []
    batcher._lock = ClosedFirst(batcher._lock)
    waiting = threading.Thread(target=lambda: found.append(wait(batcher)), daemon=True)
    waiting.start()
    waiting.join(10)
    assert found == [[]]
