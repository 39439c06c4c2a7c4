"""The processes that stand_ins.py starts: a real supervisor with a real learner, and stand-ins for its actors.

No command line: stand_ins.py has it. The supervisor's children are its learner and, for each actor, a `cat`: a process
with a log and a pipe as any child has. The streams of the actors are held by a few other processes, many in each,
every stream with a connection of its own and the actor's protocol. All of them take orders as lines, and answer in
lines of JSON; they end when their standard input does.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import sys
import threading
import time
from collections import Counter
from types import SimpleNamespace

import numpy as np

NAME = "stand-ins"
SPACING_S = 1.0  # of the messages of one stand-in


def say(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


# --- the supervisor ---------------------------------------------------------------------------------------------------


def supervise(given: SimpleNamespace) -> None:
    """A run of `given.actors` actors, until standard input ends. Orders: "turns", "kill INDEX"."""
    from workbench import rundir
    from workbench.config import RunConfig
    from workbench.metrics import MetricsWriter
    from workbench.rundir import lock
    from workbench.supervisor.endings import Outcome
    from workbench.supervisor.hosts.host import ThisMachine
    from workbench.supervisor.hosts.local import Child
    from workbench.supervisor.process_group import EndedChild
    from workbench.supervisor.service import serve
    from workbench.supervisor.supervisor import Supervisor

    class WithCats(ThisMachine):
        """A real learner; each actor's process is a `cat`, which ends with its standard input."""

        def actor(self, index: int) -> Child:
            child = super().actor(index)
            child._arguments = ["cat"]
            return child

    class Timed(Supervisor):
        """Notes how long its turns take and when it learns of an ending."""

        turns: list[float] = []
        noticed: dict[int | None, float] = {}

        def _turn(self) -> None:
            started = time.perf_counter()
            super()._turn()
            self.turns.append(time.perf_counter() - started)

        def _after_ending(self, ended_child: EndedChild) -> None:
            self.noticed[ended_child.index] = time.monotonic()
            super()._after_ending(ended_child)

    config = RunConfig.build("CartPole-v1", actors=given.actors, envs_per_actor=1, groups_per_actor=1,
                             transport="grpc", device="cpu", learner_threads=1, total_frames=10**13)
    run = rundir.create(NAME, {"config": config.to_json(), "created": time.time(), "state": "starting", "error": None,
                               "supervisor_pid": os.getpid()})
    held = lock.hold(lock.of_supervisor(run), wait_s=0.0)
    assert held is not None
    supervisor = Timed(run, MetricsWriter(run.metrics), place=WithCats(run, keep_open=held))
    thread = threading.Thread(target=serve, args=[run, supervisor])
    started = time.monotonic()
    thread.start()
    actors = supervisor._group.actors
    while thread.is_alive() and (len(actors) < given.actors or not all(c.alive for c in list(actors.values()))):
        time.sleep(0.02)
    say(path=str(run.path), started_s=time.monotonic() - started, learner=supervisor._group.learner.pid)
    for line in sys.stdin:
        order, *rest = line.split()
        if order == "turns":
            told, supervisor.turns = supervisor.turns[1:], []  # the first one starts all children
            say(turns=told, state=supervisor.state, reason=supervisor.status().reason)
        else:
            index = int(rest[0])
            at = time.monotonic()
            os.kill(actors[index].pid, signal.SIGKILL)
            while index not in supervisor.noticed and thread.is_alive():
                time.sleep(0.001)
            say(noticed_s=supervisor.noticed.pop(index) - at)
    supervisor.end(Outcome("stopped", "the benchmark is over", timeout_s=5.0))
    thread.join()


# --- stand-ins for actors ---------------------------------------------------------------------------------------------


class StandIn:
    """One actor's stream: a hello, then a message of one environment each second. `times`: of its round trips."""

    def __init__(self, given: SimpleNamespace, index: int) -> None:
        self._given, self._index = given, index
        self.answer = ""  # "welcome", or why there is none
        self.times: list[float] = []
        self.ended = ""

    async def connect(self) -> None:
        """Sends the hello, as an actor does, and waits for the learner's welcome."""
        import grpc

        from workbench.environment_spec import EnvironmentSpec
        from workbench.wire.messages import Hello
        from workbench.wire.rpc import _CLIENT_OPTIONS, method_path, token_metadata

        spec = EnvironmentSpec("CartPole-v1", (4,), "float32", 2, 1, 1)
        own = ("grpc.use_local_subchannel_pool", 1)  # a connection for each, as each actor has
        channel = grpc.aio.insecure_channel(self._given.address, options=[*_CLIENT_OPTIONS, own])
        self.call = channel.stream_stream(method_path("play"))(
            metadata=token_metadata(self._given.token), wait_for_ready=True)
        try:
            await self.call.write(Hello(self._index, secrets.randbits(62) + 1, 1, 1, spec).encode())
            reading = asyncio.ensure_future(self.call.read())
            done, _ = await asyncio.wait([reading], timeout=self._given.patience)
            if not done:
                self.answer = f"no answer within {self._given.patience:g} s"
            else:
                self.answer = "welcome" if reading.result() is not grpc.aio.EOF else "the learner closed the stream"
        except (grpc.RpcError, asyncio.InvalidStateError) as error:
            self.answer = str(error.details() if isinstance(error, grpc.RpcError) else error)

    async def play(self) -> None:
        """Sends a message each second until the stream ends."""
        import grpc

        from workbench.trajectory import Flags, StepBatch
        from workbench.wire.messages import GroupStep

        flags, number = Flags.START, 0
        begun = time.perf_counter() + np.random.default_rng(self._index).random() * SPACING_S
        try:
            while True:
                await asyncio.sleep(max(0.0, begun + number * SPACING_S - time.perf_counter()))
                step = StepBatch(np.zeros((1, 4), np.float32), np.ones(1, np.float32), np.full(1, flags, np.uint8))
                sent, flags, number = time.perf_counter(), 0, number + 1
                await self.call.write(GroupStep(0, 0, step).encode())
                if await self.call.read() is grpc.aio.EOF:
                    self.ended = "the learner closed the stream"
                    return
                self.times.append(time.perf_counter() - sent)
        except (grpc.RpcError, asyncio.InvalidStateError) as error:
            self.ended = str(error.details() if isinstance(error, grpc.RpcError) else error)


def stand_in(given: SimpleNamespace) -> None:
    """`given.indices` as streams of this process. Orders: "go" forgets the times so far, "tell" says those since."""
    asyncio.run(_stand_in(given))


async def _stand_in(given: SimpleNamespace) -> None:
    everybody = [StandIn(given, index) for index in given.indices]
    started = time.monotonic()
    await asyncio.gather(*(one.connect() for one in everybody))
    welcome = [one for one in everybody if one.answer == "welcome"]
    playing = [asyncio.create_task(one.play()) for one in welcome]
    say(answers=Counter(one.answer for one in everybody), seconds=time.monotonic() - started)
    while order := (await asyncio.to_thread(sys.stdin.readline)).strip():
        if order == "tell":
            say(times=[seconds for one in welcome for seconds in one.times],
                ended=Counter(one.ended for one in welcome if one.ended))
        for one in welcome:
            one.times = []
    for task in playing:
        task.cancel()
    for one in everybody:
        one.call.cancel()


ROLES = {"supervisor": supervise, "stand-ins": stand_in}
