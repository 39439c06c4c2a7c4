"""What the learner's streams refuse, over real gRPC."""

import queue

import grpc
import numpy as np
import pytest

from tests.learner.counting import rig
from workbench.environment_spec import EnvironmentSpec
from workbench.trajectory import StepBatch
from workbench.wire.messages import GroupStep, Hello, Welcome
from workbench.wire.rpc import method_path, open_channel, token_metadata

SPEC = EnvironmentSpec("testing/counting-v0", (4,), "float32", 3)
FIELDS = {"actors": 1, "envs_per_actor": 4, "groups_per_actor": 2, "max_batch": 4, "unroll_length": 5}


class Talk:
    """A stream written by hand."""

    def __init__(self, running, first: bytes) -> None:
        self.outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.outbox.put(first)
        self.channel = open_channel(running.run.learner_address())
        rpc = self.channel.stream_stream(method_path("play"))
        self.replies = rpc(iter(self.outbox.get, None), metadata=token_metadata(running.run.token()), timeout=240)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.outbox.put(None)
        self.replies.cancel()
        self.channel.close()


def hello(**changes) -> bytes:
    fields = {"actor": 0, "run_id": 5, "environments": 4, "groups": 2, "spec": SPEC, **changes}
    return Hello(**fields).encode()


def group(number: int, first_env: int, count: int = 2) -> bytes:
    step = StepBatch(np.zeros((count, 4), np.float32), np.zeros(count, np.float32), np.full(count, 8, np.uint8))
    return GroupStep(number, first_env, step).encode()


@pytest.mark.parametrize(
    ("first", "says"),
    [
        (b"no json", "hello"),
        (hello(environments=7), "envs_per_actor=4"),
        (hello(actor=-1), "out of bounds"),
        (hello(actor=10**6), "out of bounds"),
    ],
)
def test_a_hello_that_does_not_fit_is_refused_with_the_reason(first, says):
    with rig(SPEC, **FIELDS) as running, Talk(running, first) as talk, pytest.raises(grpc.RpcError) as caught:
        next(talk.replies)
    assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert says in caught.value.details()


def test_an_actor_that_is_connected_cannot_be_replaced_by_another_stream():
    with rig(SPEC, **FIELDS) as running, Talk(running, hello()) as first:
        Welcome.decode(next(first.replies))
        with Talk(running, hello(run_id=6)) as second, pytest.raises(grpc.RpcError) as caught:
            next(second.replies)
        assert caught.value.code() == grpc.StatusCode.ALREADY_EXISTS
        assert running.lives == 1, "it was not admitted first"
        first.outbox.put(group(0, 0))
        assert next(first.replies), "the first stream goes on"


def test_the_streams_know_what_actions_are_called_from_the_first_actor_that_says_so():
    with rig(SPEC, **FIELDS) as running:
        assert running.streams.action_names == ()
        with Talk(running, hello(action_names=("left", "stay", "right"))) as talk:
            Welcome.decode(next(talk.replies))
            assert running.streams.action_names == ("left", "stay", "right")


@pytest.mark.parametrize(
    "messages",
    [[b"rubbish"], [group(0, 0), group(0, 0)], [group(0, 3)], [group(0, 0)[:-1]]],
    ids=["rubbish", "sent twice", "beyond the actor", "cut short"],
)
def test_a_stream_that_sends_what_does_not_fit_is_cut_off_alone(messages):
    fields = {**FIELDS, "actors": 2, "max_batch": 1000, "batch_timeout_ms": 200.0}
    with rig(SPEC, **fields) as running, Talk(running, hello(actor=1)) as good, Talk(running, hello()) as bad:
        next(good.replies), next(bad.replies)
        running.batcher.pause(True)  # what was sent once is not answered before it is sent twice
        for message in messages:
            bad.outbox.put(message)
        with pytest.raises(grpc.RpcError) as caught:
            list(bad.replies)
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert caught.value.details(), "it is told why"
        running.batcher.pause(False)
        good.outbox.put(group(1, 2))
        assert next(good.replies)
        assert running.streams.connected == 1


def test_what_was_wrong_is_told_at_the_next_hello_to_who_has_not_heard_it():
    with rig(SPEC, **FIELDS) as running:
        with Talk(running, hello()) as talk:
            next(talk.replies)
            talk.outbox.put(b"rubbish")
            with pytest.raises(grpc.RpcError):
                list(talk.replies)
        for run_id, code in ((6, grpc.StatusCode.FAILED_PRECONDITION), (7, None)):
            with Talk(running, hello(run_id=run_id)) as again:
                if code is None:
                    assert Welcome.decode(next(again.replies)), "once is enough"
                    continue
                with pytest.raises(grpc.RpcError) as caught:
                    next(again.replies)
                assert caught.value.code() == code
                assert "shorter than its header" in caught.value.details()
