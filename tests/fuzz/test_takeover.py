"""A stranger's stream never gets, or disturbs, the environments of a live actor."""

from __future__ import annotations

import itertools
import json
import tempfile
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from tests.fuzz.targets import PLAIN, step_message
from tests.learner.counting import actor, check_consecutive, check_unroll, rig
from workbench.environment_spec import EnvironmentSpec
from workbench.learner.inference.actor_streams import ActorStreams
from workbench.learner.inference.batcher import Batcher
from workbench.learner.metrics.meters import Meters
from workbench.wire.messages import Hello, Welcome
from workbench.wire.rpc import method_path, open_channel, serve, token_metadata

COUNTING = EnvironmentSpec("testing/counting-v0", (4,), "float32", 3)
LENGTHS = [3, 5]
# Numbers that are another actor's, or would be its rows: 0 and 1 play.
STRANGE = [0, 1, 0.0, 0.5, 1.5, True, False, -1, -0.25, "0", "1", None, [0], 2**64, 4096, 1e-9, float("nan")]


def hello(actor: Any, run_id: Any = 7, spec: EnvironmentSpec = PLAIN) -> bytes:
    told = json.loads(Hello(0, 7, 4, 2, spec).encode())
    return json.dumps({**told, "actor": actor, "run_id": run_id}).encode()


def ending(address: str, token: str | None, messages: list[bytes]) -> grpc.StatusCode:
    """How the stream of these messages ends; OK where they are all taken, and there was time to answer them."""
    over = threading.Event()

    def sent() -> Iterator[bytes]:
        yield from messages
        over.wait(0.5)

    with open_channel(address) as channel:
        metadata = () if token is None else token_metadata(token)
        call = channel.stream_stream(method_path("play"))(sent(), metadata=metadata, timeout=240)
        try:
            for _ in call:
                pass
        except grpc.RpcError:
            pass
        finally:
            over.set()
        return call.code()


@pytest.mark.full
def test_nothing_that_strangers_send_reaches_the_unrolls_of_actors_that_play() -> None:
    fields = {"actors": 2, "envs_per_actor": 4, "groups_per_actor": 2, "max_batch": 4, "unroll_length": 6,
              "environment_options": {"episode_length": LENGTHS, "ends": "alternate"}}
    with rig(COUNTING, **fields) as running, actor(running.run, 0), actor(running.run, 1):
        running.collect_of_each(range(8), 2)
        lives = {number: running.streams.lives[number].hello.run_id for number in (0, 1)}
        stop, codes = threading.Event(), set[grpc.StatusCode]()
        steps = [step_message(COUNTING), step_message(COUNTING, group=1, first_env=2)]

        def intrude() -> None:
            address, token = running.run.learner_address(), running.run.token()
            for number in itertools.chain(*itertools.repeat(STRANGE, 4)):
                if stop.is_set():
                    return
                for given in (None, "", token[:-1], token):
                    code = ending(address, given, [hello(number, spec=COUNTING), *steps])
                    codes.add(code)
                    assert given == token or code == grpc.StatusCode.UNAUTHENTICATED
                run_id = lives.get(number, 7) if isinstance(number, int) else 7
                codes.add(ending(address, token, [hello(number, run_id, COUNTING), *steps]))

        with_strangers = threading.Thread(target=intrude)
        with_strangers.start()
        try:
            while with_strangers.is_alive():
                running.collect(8)  # and says so if inference ended
            running.collect_of_each(range(8), 3)
        finally:
            stop.set()
            with_strangers.join()
        assert {number: running.streams.lives[number].hello.run_id for number in (0, 1)} == lives
        assert running.streams.lives.keys() == {0, 1} and running.streams.connected == 2
        unrolls = running.unrolls
    assert codes == {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.ALREADY_EXISTS,
                     grpc.StatusCode.FAILED_PRECONDITION}
    for unroll in unrolls:
        check_unroll(unroll, LENGTHS)
        assert unroll.run_id == lives[unroll.env_id // 4]
    check_consecutive(unrolls, shared=1)


@pytest.fixture
def second_of_two() -> Iterator[SimpleNamespace]:
    """The streams of the learner of rank 1 of two, behind gRPC; nobody answers steps."""
    batcher = Batcher(max_batch=100, timeout_s=1.0)
    streams = ActorStreams(envs_per_actor=4, batcher=batcher, meters=Meters(), admit=lambda *_: 3, learners=2, rank=1)
    with tempfile.TemporaryDirectory() as folder:
        server = serve(f"unix:{folder}/s", "secret", calls={}, streams={"play": streams.play})
        yield SimpleNamespace(address=f"unix:{folder}/s", streams=streams)
        streams.close()
        server.stop(0)


def test_an_actor_of_another_learner_is_refused_since_its_rows_are_somebody_elses_here(
    second_of_two: SimpleNamespace,
) -> None:
    for number in (0, 2):
        code = ending(second_of_two.address, "secret", [hello(number)])
        assert code == grpc.StatusCode.FAILED_PRECONDITION
    with open_channel(second_of_two.address) as channel:
        play, metadata = channel.stream_stream(method_path("play")), token_metadata("secret")
        call = play(iter([hello(3)]), metadata=metadata, timeout=240)
        assert Welcome.decode(next(call)).seed == 3
        call.cancel()


def test_whoever_goes_away_before_the_hello_leaves_nothing(
    second_of_two: SimpleNamespace, capfd: pytest.CaptureFixture[str]
) -> None:
    for _ in range(20):
        with open_channel(second_of_two.address) as channel:
            held = threading.Event()
            call = channel.stream_stream(method_path("play"))(
                iter(lambda held=held: held.wait(240) or b"", b""), metadata=token_metadata("secret"), timeout=0.02)
            with pytest.raises(grpc.RpcError) as caught:
                next(call)
            held.set()
            assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert not second_of_two.streams.lives and "Traceback" not in capfd.readouterr().err


def test_a_refusal_of_a_long_or_odd_name_still_arrives(second_of_two: SimpleNamespace) -> None:
    told = json.loads(hello(1))
    for name in ("\ud800" * 100, "é" * 900, "x" * 60_000, {"a": ["\ud800"]}, "\x00\r\n"):
        told["spec"]["name"], told["environments"] = name, 5
        code = ending(second_of_two.address, "secret", [json.dumps(told).encode()])
        assert code == grpc.StatusCode.FAILED_PRECONDITION
    assert ending(second_of_two.address, "secret", [b"[" * 60_000]) == grpc.StatusCode.FAILED_PRECONDITION
    assert ending(second_of_two.address, "secret", [hello(1) + b" " * 2**17]) == grpc.StatusCode.FAILED_PRECONDITION
