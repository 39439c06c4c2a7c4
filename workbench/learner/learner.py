"""The learner: central inference and training around one set of weights, steered by JSON calls.

Three threads share the work. `rpc` threads take the actors' steps to the batcher; the inference thread answers them
and fills unrolls; the main thread trains. Whatever a call changes (tune, checkpoint, pause) is done by the main thread
between two updates. A fourth thread writes metrics once a second.

Several learners train as one `Group`: each has these threads but the fourth, which only the first learner has. It is
the first one that is called, and it orders the others.
"""

from __future__ import annotations

import math
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from workbench import algorithms, checkpoints, networks
from workbench.algorithms.batch import Batch
from workbench.algorithms.interface import Loss
from workbench.checkpoints import Checkpoint
from workbench.config import RunConfig, chosen, hardware
from workbench.environments.adapters.code_by_value import load_factory
from workbench.errors import CheckpointCorrupt, ConnectionLost, InvalidInput, OutOfBounds, StorageFailed, WorkbenchError
from workbench.learner.command_queue import Commands
from workbench.learner.devices.choose import choose, for_inference
from workbench.learner.devices.device import Device
from workbench.learner.disk_guard import CHECKPOINT, METRICS, OLD_CHECKPOINTS, Storage
from workbench.learner.inference.actor_streams import ActorStreams, check_same_environment
from workbench.learner.inference.batcher import Batcher
from workbench.learner.inference.inference import Episode, Inference
from workbench.learner.inference.opponent import Opponent
from workbench.learner.inference.published_weights import PublishedPolicy
from workbench.learner.metrics.learner_report import Looking, Unsent, packed_episode
from workbench.learner.metrics.meters import Meters
from workbench.learner.metrics.recorder import Clock, EpisodeLog, Peer, Recorder
from workbench.learner.training import checkpointing
from workbench.learner.training.checkpointing import Counters
from workbench.learner.training.data_echo import Echo
from workbench.learner.training.data_parallel import Group, Word
from workbench.learner.training.exact_resume import EXACT, Stretches
from workbench.learner.training.trainer import MAX_BAD_UPDATES, Trainer
from workbench.metrics import MetricsReader, MetricsWriter, Progress
from workbench.policies import frozen_opponent, roles
from workbench.policies.player import load_opponent
from workbench.replay import batch_source
from workbench.replay.assembler import UnrollAssembler
from workbench.replay.unroll_fields import UnrollLayout
from workbench.rundir import RunDirectory
from workbench.trajectory import Array, EnvironmentSpec
from workbench.wire.endpoints import learner_name, serve_run
from workbench.wire.messages import Hello
from workbench.wire.rpc import Handler, Server

_POLL_S = 0.1
_MOST_UNSENT = 100_000  # as many as may wait for a disk
_FIRST_CHECKPOINT_S = 60.0  # a young run has all the more to lose
_TRY_AGAIN_S = 2.0  # to write a checkpoint that the disk refused


class Learner:
    """One learner of one run, the only one or the one of that rank. `run` trains until it is stopped or finished."""

    def __init__(self, run: RunDirectory, rank: int = 0) -> None:
        self.run_directory = run
        self.rank = rank
        self.config: RunConfig = run.config()
        self.storage = Storage()
        self.meters = Meters()
        self.batcher = Batcher(max_batch=self._max_batch(), timeout_s=self.config.batch_timeout_ms / 1000)
        self.streams = ActorStreams(
            envs_per_actor=self.config.envs_per_actor, batcher=self.batcher, meters=self.meters, admit=self._admit,
            learners=self.config.learners, rank=rank,
        )
        self.writer = None if rank else MetricsWriter(run.metrics, tensorboard=run.tensorboard)
        self.clock = Clock()
        self.spec: EnvironmentSpec | None = None
        self._spec_given, self._ready, self._ended = threading.Event(), threading.Event(), threading.Event()
        self._commands = Commands()
        self._stopping = False
        self._writing_replay = False
        self._paused: str | None = run.read().get("paused")  # the reason
        self._held = ""  # why training waits for the disk
        self._floods: list[str] = []  # sentences about strangers at this learner's port
        self._failure: BaseException | None = None
        self._lives = 0
        self._took: dict[str, Any] | None = None  # checkpoint
        self.hyperparameters: Any = self.config.hyperparameters  # of several learners: this one's share
        self.group: Group | None = None  # of several learners
        self.stretches = Stretches(self) if self.config.exact_resume_updates else None
        self._draw: Batch | None = None  # that waits until all learners have one
        self.unsent = Unsent(_MOST_UNSENT)

    # ---- life -------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Train until stopped or finished. Raises what made it fail."""
        server: Server = serve_run(
            self.run_directory, learner_name(self.rank), calls=self.calls(), streams={"play": self.streams.play},
            threads=1024, on_flood=self._floods.append,
        )
        try:
            if self.config.learners > 1:
                self._join()
            ready = False
            while not self._over and not (ready := self._meet(self._spec_given.wait(_POLL_S))):
                self._commands.run_pending()
            if ready:
                self._build()
                self._work()
        finally:
            self._commands.close()
            self.batcher.close()
            self.streams.close()
            server.stop(grace_s=0.5)
            if self.writer is not None:
                self.storage.store(METRICS, self.writer.close)
            self._ended.set()

    def _build(self) -> None:
        """Everything that depends on the environment: network, algorithm, tables, weights from a checkpoint."""
        assert self.spec is not None
        if self.group is not None:
            check_same_environment(EnvironmentSpec.from_json(self.group.given(self.spec.to_json())), self.spec)
        config, hyperparameters = self.config, self.hyperparameters
        roles.check(config, self.spec)
        self.threads = chosen.training_threads(config.learner_threads, cores=hardware.cores(),
                                               learners=self.group.here if self.group else 1)
        torch.set_num_threads(self.threads)
        torch.manual_seed(config.seed)
        factory = load_factory(self.run_directory.code / "network.pkl")
        self.device = choose(config, self.spec, own_network=factory is not None)
        algorithm = algorithms.build(config, spec=self.spec).to(self.device.torch)
        network = networks.build(
            config.network, spec=self.spec, heads=algorithm.heads, factory=factory, seed=config.seed,
            normalise=hyperparameters.normalize_observations,
        ).to(self.device.torch)
        with self.device.autocast():
            networks.check(network, spec=self.spec, output=algorithm.heads.output)
        self.network_name = config.network or ("typed in a cell" if factory else "default")
        self.trainer = Trainer(network, algorithm, self.device, hyperparameters)
        layout = self._layout(network, algorithm)
        self.experience = batch_source.build(
            algorithm, layout, config=hyperparameters, folder=self.run_directory.replay(self.rank),
            seed=self._seed(2), pin_memory=self.device.kind == "cuda",
        )
        self._echo = Echo(self.experience, self.meters)
        acting = for_inference(config, self.device, own_network=factory is not None)
        for one in (self.device, acting):
            one.tell = lambda sentence: self._event("error", sentence, progress=self.progress)
        generator = acting.generator(self._seed(1))
        counters = self._restored(generator)
        if self.group is not None:
            self.trainer.join(self.group)
            self.group.steps = counters.steps
            torch.manual_seed(self._seed(4, counters.updates))
        self.policy = PublishedPolicy(network, version=self.trainer.updates, device=acting)
        num_envs = self._environments()
        self.inference = Inference(
            self.spec, config=lambda: self.config, algorithm=algorithm, policy=self.policy,
            assembler=UnrollAssembler(layout, num_envs=num_envs, stagger=True), queue=self.experience.queue,
            device=acting, num_envs=num_envs, generator=generator, meters=self.meters, on_episode=self._on_episode,
            opponent=self._opponent(num_envs, acting), rank=self.rank,
        )
        self.inference.steps = 0 if self.rank else counters.steps
        with self.device.tracing():
            pass  # what was made so far is computed now
        if self.device.kind == "xla":
            checkpointing.groups_of(self.trainer, generator)  # the first checkpoint would compile it
        self._learnt: deque[tuple[Batch, Callable[[], Loss | None]]] = deque()
        self._first_updates = counters.updates
        self.clock = Clock(counters.time_s)
        self.looking = Looking(self)
        if self.writer is not None:
            self.episodes = EpisodeLog(self.writer, counters.episodes)
            peers = [Peer(self.run_directory, rank) for rank in range(1, config.learners)]
            self.recorder = Recorder(self, self.writer, peers)

    def _opponent(self, num_envs: int, device: Device) -> Opponent | None:
        if self.config.opponent is None:
            return None
        assert self.spec is not None
        if self.group is not None and self.rank:
            self.group.given()  # the first one has made the copy of it
        kept = frozen_opponent.kept(self.run_directory, self.config.opponent)
        if self.group is not None and not self.rank:
            self.group.given()
        policy = load_opponent(kept, self.spec)
        return Opponent(policy, device=device, num_envs=num_envs, seed=self._seed(3))

    def _layout(self, network: torch.nn.Module, algorithm: algorithms.Algorithm) -> UnrollLayout:
        assert self.spec is not None
        state: tuple[torch.Tensor, ...] = network.initial_state(1)  # type: ignore[operator]
        return UnrollLayout(
            self.spec, unroll_length=self.hyperparameters.unroll_length, overlap=algorithm.overlap,
            behaviour=algorithm.behaviour_fields(), state_shapes=tuple(tuple(one.shape[1:]) for one in state),
        )

    def _restored(self, generator: torch.Generator) -> Counters:
        """What `_restore` gives; the others of a group take the checkpoint that the first one took."""
        if self.group is None:
            return self._restore(generator)
        if self.group.leads:
            counters = self._restore(generator)
            self.group.given(self._took)
            return counters
        took = self.group.given()
        found = None if took is None else checkpoints.at(Path(took["path"]))
        if found is None:
            return Counters()
        checkpointing.restore(found, self.trainer, generator, weights_only=took["weights_only"])
        counters = Counters() if took["weights_only"] else Counters.of(found)
        self.trainer.updates = counters.updates
        generator.manual_seed(self._seed(1, counters.updates))  # what was restored are the first one's random numbers
        return counters

    def _restore(self, generator: torch.Generator) -> Counters:
        """Everything of the newest good checkpoint (a fork begins with one), or a parent's weights, or nothing."""
        if self.stretches is None:
            found, wrong = checkpoints.newest_good(self.run_directory.checkpoints, replay=False)
        else:
            found, wrong = self.stretches.newest()
        for one in wrong:
            self._event("error", f"checkpoint passed over: {one}")
        if found is None:
            if wrong:
                raise CheckpointCorrupt("none of its checkpoints can be read, and it would begin at 0 frames. Put "
                                        f"one back, or launch a new run. {' '.join(wrong)}")
            if MetricsReader(self.run_directory.metrics).names():  # of a life that left no checkpoint
                self._event("restore", "there is no checkpoint yet: begins again at 0 frames",
                            progress=Progress(0, 0, 0, 0.0))
            parent = self.run_directory.parent()
            if parent is None:
                return Counters()
            if parent["take"] == "all":
                raise CheckpointCorrupt("the fork's checkpoint is gone; fork again.")
            found = checkpoints.at(Path(parent["checkpoint"]))
            checkpointing.restore(found, self.trainer, generator, weights_only=True)
            self._took = {"path": str(found.path), "weights_only": True}
            return Counters()
        counters = Counters.of(found)
        sampling_goes_on = checkpointing.restore(found, self.trainer, generator)
        self._took = {"path": str(found.path), "weights_only": False}
        self.trainer.updates = counters.updates
        if self.stretches is not None:
            self.stretches.begun = counters.updates
        forked = found.meta.get("fork")
        origin = f"forked from {forked['run']}: begins with" if forked else "continues from"
        said = f"{origin} the checkpoint at {counters.frames:,} frames{self._restore_replay(found)}"
        if "optimizer" not in found.groups:
            said += "; the optimizer is another one and starts afresh"
        if not sampling_goes_on:
            generator.manual_seed(self._seed(1) + counters.updates)
            said += "; the device is of another kind, and the random numbers of actions begin anew"
        progress = Progress(counters.frames, counters.steps, counters.updates, counters.time_s)
        self._event("fork" if forked else "restore", said, progress=progress, data=forked)
        return counters

    def _restore_replay(self, found: Checkpoint) -> str:
        """Put the replay back where the checkpoint has it; what became of it, in words."""
        if self.experience.kept is None:
            return ""
        if not found.has_replay:
            return "; its replay was not kept and is filled anew (save_replay keeps it)"
        try:
            dropped = self.experience.load(found.open("replay"))
            lost = f", but for its {dropped:,} oldest unrolls, which do not fit" if dropped else ""
            others = f" of the first of {self.config.learners} learners; the others fill theirs anew"
            return f", with its replay{lost}{others if self.group else ''}"
        except CheckpointCorrupt as error:
            self._event("error", str(error))
            return "; its replay is damaged and is filled anew"

    def _work(self) -> None:
        loops = {} if self.stretches is not None else {"inference": self.inference_loop}
        if self.writer is not None:
            loops["recorder"] = self.recorder.loop
        threads = [threading.Thread(target=self._guarded(loop), name=name, daemon=True) for name, loop in loops.items()]
        for thread in threads:
            thread.start()
        self._ready.set()
        self._stand_or_go()
        self._checkpointed = time.monotonic()
        self._interval_at_most_s = _FIRST_CHECKPOINT_S if self.stretches is None else 0.0
        try:
            self._train()
            if self.group is not None:  # while all are there
                self.group.close()
            if self._failure is not None:
                raise self._failure
            if self.writer is not None and (self.finished or self.stretches is None):  # else it goes back anyway
                self._last_checkpoint()
        finally:
            self.clock.run(False)
            self.batcher.close()
            self.experience.close()
            if self.writer is not None:
                self.recorder.close()
            for thread in threads:
                thread.join(timeout=5)

    def _guarded(self, loop: Callable[[], None]) -> Callable[[], None]:
        """`loop`, whose error ends the learner instead of its thread alone."""

        def guarded() -> None:
            try:
                loop()
            except BaseException as error:
                traceback.print_exc()
                self.fail(error)

        return guarded

    def fail(self, error: BaseException) -> None:
        """Let `run` raise `error` after the update of now; from any thread."""
        self._failure, self._stopping = error, True

    def inference_loop(self) -> None:
        """The inference thread: one OpenMP thread beside the training thread's."""
        torch.set_num_threads(1)
        if self.device.kind == "xla":
            self.inference.warm_up(max(self._max_batch(), self.config.envs_per_actor))
        self.inference.serve(self.batcher)

    # ---- training ---------------------------------------------------------------------------------------------------

    def _train(self) -> None:
        with self.device.own_stream(ahead=False):
            self._train_until_over()

    def _train_until_over(self) -> None:
        while not self._over:
            self._commands.run_pending()
            self._mind_the_disk()
            if self._stands_still:
                self._commands.wait(_POLL_S)
            elif self._draw is None:
                self._draw = self._next_draw()
            if self._meet(self._draw is not None and not self._stands_still) and self._draw is not None:
                draw, self._draw = self._draw, None
                self._update(draw)
            if self.writer is not None and self._paused is None:
                self._checkpoint_if_due()

    def _checkpoint_if_due(self) -> None:
        """Write one where `checkpoint_interval_s`, as it is now, has passed; in stretches, after each."""
        if self.stretches is not None and not self.stretches.over:
            return
        if time.monotonic() <= self._checkpointed + min(self.config.checkpoint_interval_s, self._interval_at_most_s):
            return
        stored = self.storage.store(CHECKPOINT, self._periodic_checkpoint)
        usual_s = math.inf if self.stretches is None else 0.0
        self._checkpointed, self._interval_at_most_s = time.monotonic(), usual_s if stored else _TRY_AGAIN_S
        if stored and self.stretches is not None:
            self.stretches.begin()

    def _periodic_checkpoint(self) -> None:
        if self.stretches is None:
            self._checkpoint("interval")
        else:
            self._checkpoint(EXACT, replay=self.config.replays)

    def _mind_the_disk(self) -> None:
        """Let all learners wait while the disk takes nothing, and go on when it does."""
        if self.writer is None or (hold := self.storage.hold) == self._held:
            return
        self._set_held(hold)
        if self.group is not None:
            self.group.order("hold", reason=hold)

    def _last_checkpoint(self) -> None:
        """Write it; a run that has finished waits until the disk has room. Raises StorageFailed in one that stops."""
        while not self.storage.store(CHECKPOINT, lambda: self._checkpoint("finished" if self.finished else "stopped")):
            if self._stopping or self.group is not None:
                raise StorageFailed(self.storage.warning)
            self._commands.run_pending()
            self._commands.wait(_TRY_AGAIN_S)

    @property
    def _over(self) -> bool:
        """Whether training ends, for all learners of a group at once."""
        stops = self._stopping if self.group is None else self.group.stops
        return stops or (self._ready.is_set() and self.finished)

    def _meet(self, ready: bool) -> bool:
        """Whether all learners are ready, now that they know of each other and have done what was ordered."""
        if self.group is None:
            return ready
        if self._failure is not None:  # the others end when this one is gone
            raise self._failure
        steps = self.inference.steps if self._ready.is_set() else 0
        sample = None if self._draw is None else self._draw.sample
        all_ready, orders = self.group.meet(Word(ready, self._stopping, steps, sample.log_largest if sample else 0.0))
        for order in orders:
            self._obey(**order)
        return all_ready and not self._over

    def _join(self) -> None:
        """Find the other learners, which take over the first one's configuration."""
        self.group = Group.join(self.run_directory, self.config, self.rank, stopping=lambda: self._stopping)
        if self.group is not None:
            told = self.group.given({"config": self.config.to_json(), "paused": self._paused})
            self._reconfigure(RunConfig.from_json(told["config"]))
            self._paused = told["paused"]

    def _obey(self, order: str, **arguments: Any) -> None:
        """Do what another learner ordered."""
        match order:
            case "pause":
                self._set_paused(arguments["reason"])
            case "hold":
                self._set_held(arguments["reason"])
            case "config":
                self._reconfigure(RunConfig.from_json(arguments["config"]))
            case "event" if self.writer is not None:
                self._event(arguments["kind"], arguments["message"], progress=self.progress)

    def _next_draw(self) -> Batch | None:
        try:
            with self.meters.timing("training_wait"):
                if self.stretches is not None:
                    return self.stretches.next(timeout_s=_POLL_S)
                return self._echo.next(self.hyperparameters, timeout_s=_POLL_S)
        except OutOfBounds as error:  # no memory is left for the replay to fill
            self._event("error", str(error), progress=self.progress)
            self._pause(str(error))
            return None

    def _update(self, draw: Batch) -> None:
        batch = draw if self.group is None else self.group.batch(draw)
        with self.meters.timing("update"):
            with self.device.tracing():  # one graph
                loss = self.trainer.update(
                    batch, config=self.hyperparameters, learning_rate=self.learning_rate, on_bad=self._on_bad_update
                )
                if loss is None:
                    self._echo.drop()
                else:
                    self.policy.publish(self.trainer.updates)
            self._learnt.append((draw, self.trainer.arriving(loss)))
            if len(self._learnt) > self.device.lags:  # of a device that runs ahead, the update before this one
                draw, arrived = self._learnt.popleft()
                self.experience.learnt(draw, arrived())

    def _on_bad_update(self, what: str) -> None:
        number = self.trainer.bad_updates
        if self.writer is not None:  # the others skip it as well
            self._event("error", f"update skipped, not finite: {what} ({number} in a row)", progress=self.progress)
        if number >= MAX_BAD_UPDATES:
            self._set_paused(f"{number} updates in a row were not finite ({what}); lower learning_rate, bound rewards "
                             "or gradients (max_abs_reward, max_gradient_norm), or fork from an earlier checkpoint")
            self.trainer.bad_updates = 0

    def _on_episode(self, episode: Episode) -> None:
        row, env = divmod(episode.env_id, self.config.envs_per_actor)
        episode = replace(episode, env_id=(row * self.config.learners + self.rank) * self.config.envs_per_actor + env)
        if self.writer is not None:
            self.episodes.add(episode, self.progress)
        else:
            self.unsent.append(packed_episode(episode, self.progress))

    @property
    def learning_rate(self) -> float:
        """The learning rate now: warmed up over the first updates, and decayed if so asked."""
        hyperparameters = self.hyperparameters
        warm_up = min(1.0, (self.trainer.updates + 1) / max(1, hyperparameters.warmup_updates))
        rate: float = hyperparameters.learning_rate * warm_up
        if hyperparameters.learning_rate_schedule == "linear":
            rate *= max(0.0, 1.0 - self.progress.frames / self.config.total_frames)
        return rate

    @property
    def progress(self) -> Progress:
        """Frames, steps, updates and training time so far."""
        assert self.spec is not None
        steps = self.inference.steps if self.group is None else self.group.steps
        return Progress(steps * self.spec.frames_per_step, steps, self.trainer.updates, self.clock.seconds)

    @property
    def finished(self) -> bool:
        """Whether total_frames is reached."""
        return self.progress.frames >= self.config.total_frames

    def _checkpoint(self, reason: str, *, replay: bool | None = None) -> dict[str, Any]:
        """Write a checkpoint; `replay`: with the replay, None: if the run's configuration says so and there is room."""
        assert self.spec is not None
        progress, episode_return = self.progress, self.episodes.status()["episode_return"]
        meta = {
            "frames": progress.frames, "steps": progress.steps, "updates": progress.updates,
            "time_s": progress.time_s, "episodes": self.episodes.episodes, "episode_return": episode_return,
            "environment": self.spec.to_json(), "config": self.config.to_json(), "network": self.network_name,
            "parameters": sum(parameter.numel() for parameter in self.trainer.network.parameters()), "reason": reason,
            "trained": [name for name, _ in self.trainer.network.named_parameters()],  # as the optimizer numbers them
        }
        self.run_directory.check_place()
        folder = self.run_directory.checkpoints
        groups = checkpointing.groups_of(self.trainer, self.inference.generator)
        kept = self.experience.arrays(self.config.hyperparameters, asked=replay)
        write = partial(checkpoints.write, folder, frames=progress.frames, meta=meta, requested=reason == "requested")
        self._writing_replay = bool(kept)
        try:
            written = self._written(write, groups, kept, may_leave_out=not replay)
        finally:
            self._writing_replay = False
        self.storage.store(OLD_CHECKPOINTS, partial(checkpoints.prune, folder, keep=self.config.keep_checkpoints))
        self._event("checkpoint", f"checkpoint at {progress.frames:,} frames ({reason})", progress=progress,
                    data={"path": str(written.path)})
        return {"path": str(written.path), "frames": progress.frames}

    def _written(
        self, write: Callable[..., Checkpoint], groups: dict[str, Any], replay: dict[str, Array], *, may_leave_out: bool
    ) -> Checkpoint:
        """A checkpoint with the replay if there is one, or without it where the disk has no room and that will do."""
        if not replay:
            return write(groups=groups)
        try:
            return write(groups={**groups, "replay": replay})
        except StorageFailed as error:
            if not may_leave_out:
                raise
            checkpoints.drop_replays(self.run_directory.checkpoints)  # of older ones; there may be room for one
            try:
                return write(groups={**groups, "replay": replay})
            except StorageFailed:
                self._event("error", f"a checkpoint without its replay: {error}", progress=self.progress)
                return write(groups=groups)  # the weights are worth more than nothing

    def _event(self, kind: str, message: str, **more: Any) -> None:
        if self.writer is not None:
            self.storage.store(METRICS, partial(self.writer.event, kind, message, **more))
        elif self.group is not None:
            self.group.order("event", kind=kind, message=f"{learner_name(self.rank)}: {message}")

    # ---- actors -----------------------------------------------------------------------------------------------------

    def _admit(self, hello: Hello) -> int:
        """Check the actor's environment against the network's, waiting for that to be built. The seed of its life."""
        if self.spec is None:
            self.spec = hello.spec
            self._spec_given.set()
        check_same_environment(self.spec, hello.spec)
        while not self._ready.wait(_POLL_S):
            if self._ended.is_set() or self._stopping:
                raise ConnectionLost("the learner is ending")
        if self.stretches is not None:
            return self.stretches.admit(hello)
        self._lives += 1
        entropy = [self.config.seed, hello.actor, self._lives if self.trainer.updates else 0, self.trainer.updates]
        return int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 2)

    def _environments(self) -> int:
        """Environments of this learner's actors."""
        return len(range(self.rank, self.config.actors, self.config.learners)) * self.config.envs_per_actor

    def _max_batch(self) -> int:
        return self.config.max_batch or max(1, self._environments() // 2)

    def _seed(self, number: int, *more: int) -> int:
        """A seed of its own for each use of random numbers, and for each learner of a group."""
        seed = self.config.seed + number
        return seed if self.group is None else self.group.seed(seed, *more)

    # ---- control ----------------------------------------------------------------------------------------------------

    def calls(self) -> dict[str, Handler]:
        """The JSON methods of a learner."""
        if self.rank:
            return {"look": self.look, "watch": self.watch}
        return {"status": self.status, "pause": self.pause, "resume": self.resume, "tune": self.tune,
                "checkpoint": self.checkpoint, "stop": self.stop, "scale": self.scale, "watch": self.watch}

    def status(self) -> dict[str, Any]:
        """Counters as they are now, speeds and means of the last second, all of one state; see the recorder."""
        while True:
            state = self.state
            told: dict[str, Any] = {"state": state, "reason": self.reason, "writing_replay": self._writing_replay,
                                    "held": bool(self._held), "floods": self._floods[:]}
            if self._ready.is_set():
                told = {**self.recorder.status, **told, **asdict(self.progress)}
            if self.state == state:  # else it changed between: counters of training are none of a pause
                return told

    @property
    def state(self) -> str:
        """waiting (for a first update in this life, or unrolls to replay), training, paused, finished or stopped."""
        if self._ready.is_set() and self.finished:
            return "finished"
        if self._stopping:
            return "stopped"
        if self._stands_still:
            return "paused"
        if not self._ready.is_set():
            return "waiting"
        fills = bool(self.experience.filling) and self.streams.connected > 0
        return "training" if fills or self.trainer.updates > self._first_updates else "waiting"

    @property
    def reason(self) -> str:
        """Why it is in that state, where that is not plain."""
        if self._paused is not None:
            return self._paused
        if hold := self._held or self.storage.hold:  # what training goes by, which may be a moment behind the disk
            return hold
        if self._writing_replay:
            return "writing a checkpoint with its replay"
        if self.group is not None and self._ready.is_set() and (silence := self.recorder.silence):
            return silence
        if self.state != "waiting":
            return self.experience.filling if self.state == "training" else ""
        return "collecting the first unrolls" if self.streams.connected else "waiting for the first actor"

    def pause(self) -> None:
        """Hold training and acting."""
        self._commands.do(lambda: self._pause("paused by hand"))

    def resume(self) -> None:
        """Go on after a pause."""
        self._commands.do(lambda: self._pause(None))

    def _pause(self, reason: str | None) -> None:
        """Hold all learners, or let them go on."""
        self._set_paused(reason)
        if self.group is not None:
            self.group.order("pause", reason=reason)

    def _set_paused(self, reason: str | None) -> None:
        self._paused = reason
        self._stand_or_go()

    def _set_held(self, reason: str) -> None:
        self._held = reason
        self._stand_or_go()

    @property
    def _stands_still(self) -> bool:
        return self._paused is not None or bool(self._held)

    def _stand_or_go(self) -> None:
        self.batcher.pause(self._stands_still)
        self.clock.run(not self._stands_still and self._ready.is_set())

    def tune(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Change live fields between two updates. Raises UnknownName, NotLive or OutOfBounds."""
        if not isinstance(changes, dict):
            raise InvalidInput(f"changes={changes!r:.100} is no object of fields and values.")

        def apply() -> dict[str, Any]:
            old = {name: self.config.value(name) for name in changes if name in self.config.all_settings()}
            self._configure(self.config.with_live(**changes))
            return {"old": old, "new": {name: self.config.value(name) for name in changes}}

        result: dict[str, Any] = self._commands.do(apply)
        return result

    def checkpoint(self, reason: str = "requested", replay: bool | None = None) -> dict[str, Any]:
        """Write a checkpoint between two updates: {"path", "frames"}; see `_checkpoint` for `replay`."""
        if not self._ready.is_set():
            raise WorkbenchError("there is nothing to checkpoint yet: the learner waits for its first actor.")
        result: dict[str, Any] = self._commands.do(lambda: self._checkpoint(reason, replay=replay))
        return result

    def scale(self, actors: int) -> None:
        """Expect that many actors."""

        def apply() -> None:
            self._configure(self.config.replaced(actors=actors))

        self._commands.do(apply)

    def _configure(self, config: RunConfig) -> None:
        """Go by `config` from now on, in all learners."""
        self._reconfigure(config)
        if self.group is not None:
            self.group.order("config", config=config.to_json())

    def _reconfigure(self, config: RunConfig) -> None:
        own = config.hyperparameters
        self.config, self.hyperparameters = config, own if self.group is None else self.group.share(own)
        self.batcher.max_batch = self._max_batch()
        self.batcher.timeout_s = config.batch_timeout_ms / 1000

    def look(self, heard: int) -> dict[str, Any]:
        """What this learner did since it was last asked, for the first one, which has `heard` of so many episodes;
        nothing before it trains."""
        if type(heard) is not int:
            raise InvalidInput(f"heard={heard!r:.100} is no number of episodes.")
        return self.looking.look(heard).to_json() if self._ready.is_set() else {}

    def watch(self, env: int, since: str = "") -> dict[str, Any]:
        """New steps of an environment, see `Tap.since`, its actions' names, what it is, and whether it evaluates.

        None before there is any actor. Raises InvalidInput for one that the opponent plays.
        """
        if not self._ready.is_set():
            return {"cursor": since, "first": 0, "missed": 0, "steps": 0}
        assert self.spec is not None
        actor, place = divmod(env, self.config.envs_per_actor)
        own = actor // self.config.learners * self.config.envs_per_actor + place
        row, agents = np.array([own]), self.spec.agents
        if roles.opposing(row, self.config, agents)[0]:
            raise InvalidInput(f"env={env} is played by the opponent, and only the run's own policy can be watched. "
                               f"Of {agents} agents of a game the opponent plays the last ones: choose another env.")
        told = self.inference.tap.since(own, since, observation_bytes=self.spec.observation_bytes)
        return {**told, "action_names": self.streams.action_names, "environment": self.spec.to_json(),
                "evaluating": bool(roles.evaluating(row, self.config, agents)[0])}

    def stop(self) -> None:
        """End after a last checkpoint."""
        self._stopping = True

    def stop_and_wait(self) -> None:
        """Stop, and wait until that is done."""
        self.stop()
        self._ended.wait()
