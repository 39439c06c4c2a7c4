"""The learner: central inference and training around one set of weights, steered by JSON calls.

Threads share the work. The inference thread reads the actors' steps from shared memory, or has them from the threads of
gRPC's streams; it answers them and fills unrolls. The main thread trains, and does what a call changes (tune,
checkpoint, pause) between two updates. One more thread writes metrics once a second.

Several learners train as one `Group`. Each has these threads, but only the leader writes metrics. The supervisor calls
the leader, which orders the others.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable

from workbench.environment_spec import EnvironmentSpec
from workbench.errors import ConnectionLost, WorkbenchError
from workbench.learner.build import Builder
from workbench.learner.calls import LeaderCalls, MemberCalls
from workbench.learner.command_queue import Commands
from workbench.learner.disk_guard import DiskGuard
from workbench.learner.inference.actor_streams import ActorStreams, check_same_environment
from workbench.learner.metrics.learner_report import LearnerReport
from workbench.learner.metrics.meters import Meters
from workbench.learner.metrics.recorder import Forwarder, Log, Recorder
from workbench.learner.orders import Orders
from workbench.learner.run_state import RunState
from workbench.learner.training.checkpoint_writer import CheckpointWriter, NoCheckpoints
from workbench.learner.training.concurrent import Concurrent
from workbench.learner.training.data_parallel import Alone, Group, Learners
from workbench.learner.training.exact_resume import ExactResume, Schedule, schedule_of
from workbench.learner.training.loop import POLL_S, TrainingLoop
from workbench.rundir import RunDirectory
from workbench.wire import handover
from workbench.wire.endpoints import learner_name, serve_run
from workbench.wire.messages import Hello
from workbench.wire.rpc import LEARNER_THREADS, Server


class Learner:
    """One learner of a run: the only one, or the one of that rank. `run` trains until it stops or finishes.

    Attributes:
        schedule: of acting, training and checkpoints; set when the environment is known.
    """

    schedule: Schedule
    log: Log
    calls: MemberCalls
    checkpoints: CheckpointWriter | NoCheckpoints

    def __init__(self, run: RunDirectory, rank: int = 0) -> None:
        self.run_directory = run
        config = run.config()
        self.learners: Learners = Group(run, config, rank) if config.learners > 1 else Alone()
        self.state = RunState(config, learners=self.learners, paused=run.read().get("paused"))
        self.meters, self.commands = Meters(), Commands()
        self.streams = ActorStreams(
            envs_per_actor=config.envs_per_actor, batcher=self.state.batcher, meters=self.meters, admit=self._admit,
            learners=config.learners, rank=rank,
        )
        if self.learners.leads:
            self._lead()
        else:
            self._follow()
        self._spec: EnvironmentSpec | None = None
        self._spec_known = threading.Event()

    def _lead(self) -> None:
        """Create what writes the run's log and checkpoints, and answers the supervisor."""
        run, state, commands, disk = self.run_directory, self.state, self.commands, DiskGuard()
        self.log = log = Recorder(run, disk)
        self.orders = Orders(state, log)
        self.checkpoints = checkpoints = CheckpointWriter(
            run, state=state, disk=disk, log=log, orders=self.orders, commands=commands)
        self.calls = LeaderCalls(state, self.streams, log=log, disk=disk, orders=self.orders, commands=commands,
                                 checkpoints=checkpoints)

    def _follow(self) -> None:
        """Create what leaves log and checkpoints to the leader."""
        self.log = Forwarder(self.learners)
        self.orders = Orders(self.state, self.log)
        self.checkpoints = NoCheckpoints()
        self.calls = MemberCalls(self.state, self.streams)

    def run(self) -> None:
        """Train until stopped or finished. Raises the error that made it fail."""
        state, run, rank = self.state, self.run_directory, self.learners.rank
        server: Server = serve_run(
            run, learner_name(rank), calls=self.calls.methods(), streams={"play": self.streams.play},
            threads=LEARNER_THREADS, on_flood=self.calls.floods.append,
        )
        try:
            if state.config.transport == "auto" and handover.available():
                self._offer_memory(run.memory_socket(rank), run.token())
            if self.learners.join(stopping=lambda: state.stopping):
                self.orders.agree()
            ready = False
            while not state.over and not (ready := self.orders.meet(self._spec_known.wait(POLL_S))):
                self.commands.run_pending()
            if ready:
                self._build()
                self._work()
        finally:
            self.commands.close()
            state.batcher.close()
            self.streams.end()
            server.stop(grace_s=0.5)
            self.log.close()
            state.ended.set()

    def _offer_memory(self, path: str, token: str) -> None:
        try:
            self.streams.offer_memory(path, token)
        except OSError as error:
            self.log.event("error", f"actors of this machine send their steps through gRPC, not through shared memory: "
                                    f"{path}: {error.strerror or error}")

    def _admit(self, hello: Hello, is_there: Callable[[], bool]) -> int:
        """Check the actor's environment against the network's once that is built. Returns the seed of its life."""
        state = self.state
        if self._spec is None:
            self._spec = hello.spec
            self._spec_known.set()
        check_same_environment(self._spec, hello.spec)
        while not state.ready.wait(POLL_S):
            if state.ended.is_set() or state.stopping:
                raise ConnectionLost("the learner is ending")
        if not is_there():
            raise ConnectionLost("the actor has gone")
        return self.schedule.admit(hello)

    def _build(self) -> None:
        """Build what depends on the environment: network, algorithm, tables, weights from a checkpoint."""
        assert self._spec is not None
        state = self.state
        parts, counters = Builder(
            self.run_directory, self._spec, state=state, log=self.log, meters=self.meters).build()
        state.begin(parts, counters.time_s)
        exact = schedule_of(state.config) is ExactResume
        self.schedule = ExactResume(state, self.streams, self.meters) if exact else Concurrent(state, self.meters)
        self.calls.report = LearnerReport(parts, meters=self.meters, streams=self.streams, unsent=self.log.unsent)
        self.log.begin(self.calls.report, state, episodes=counters.episodes)
        self.checkpoints.begin(self.schedule)

    def _work(self) -> None:
        loop = TrainingLoop(self.state, orders=self.orders, commands=self.commands, log=self.log, meters=self.meters,
                            schedule=self.schedule, checkpoints=self.checkpoints)
        threads = [threading.Thread(target=self._guarded(work), name=name, daemon=True)
                   for name, work in (self.schedule.loops | self.log.loops).items()]
        for thread in threads:
            thread.start()
        try:
            loop.run()
            self.state.end_training()
            self.learners.close()  # while all are there
            self.state.raise_failure()
            self.log.hand_over()
            self.checkpoints.write_last()
        except WorkbenchError:  # which ends the run; after any other error it begins again at its last checkpoint
            self.checkpoints.write_at_failure()
            raise
        finally:
            self.state.clock.run(False)
            self.state.batcher.close()
            self.state.parts.experience.close()
            self.log.stop()
            for thread in threads:
                thread.join(timeout=5)

    def _guarded(self, loop: Callable[[], None]) -> Callable[[], None]:
        """A function that calls `loop`; an error ends the learner instead of its thread alone."""

        def guarded() -> None:
            try:
                loop()
            except BaseException as error:
                traceback.print_exc()
                self.state.fail(error)

        return guarded

    def stop(self) -> None:
        """End after a last checkpoint."""
        self.state.stop()

    def stop_and_wait(self) -> None:
        """End after a last checkpoint, and wait for that."""
        self.stop()
        self.state.ended.wait()
