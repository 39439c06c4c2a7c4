"""Builds what depends on the environment: network, algorithm, tables and unrolls, restored from a checkpoint."""

from __future__ import annotations

from dataclasses import replace

import torch

from workbench import algorithms, checkpoints, networks
from workbench.checkpoints.checkpoint import OWN_NETWORK
from workbench.config import chosen, hardware
from workbench.config.own_algorithm import check_described
from workbench.environment_spec import EnvironmentSpec
from workbench.environments.adapters.code_by_value import load_factory
from workbench.environments.adapters.wrapping import Factory
from workbench.learner.devices.choose import choose, for_inference
from workbench.learner.devices.device import Device
from workbench.learner.inference.actor_streams import check_same_environment
from workbench.learner.inference.frame_table import FrameTable
from workbench.learner.inference.inference import Inference
from workbench.learner.inference.opponent import Opponent
from workbench.learner.inference.published_weights import PublishedPolicy
from workbench.learner.metrics.meters import Meters
from workbench.learner.metrics.recorder import Log
from workbench.learner.run_state import Parts, RunState
from workbench.learner.training import checkpointing
from workbench.learner.training.checkpointing import Counters, check_environment
from workbench.learner.training.restoring import Restoring
from workbench.learner.training.thread_count import Threads
from workbench.learner.training.trainer import LAG_UPDATES, Trainer
from workbench.metrics import MetricsReader
from workbench.metrics.status import LearnerStatus
from workbench.metrics.writer import Episode
from workbench.policies import check_algorithm, frozen_opponent, roles
from workbench.policies.player import load_opponent
from workbench.replay import batch_source, demonstration_file
from workbench.replay.assembler import UnrollAssembler
from workbench.replay.demonstration_file import Recorded
from workbench.replay.experience import Experience
from workbench.replay.unroll_fields import UnrollLayout
from workbench.rundir import RunDirectory, untried


class Builder:
    """Builds the parts of one learner for the environment `spec`; `state` says how they act and train."""

    def __init__(self, run: RunDirectory, spec: EnvironmentSpec, *, state: RunState, log: Log, meters: Meters) -> None:
        self._run, self._spec = run, spec
        self._state, self._learners, self._log, self._meters = state, state.learners, log, meters

    def build(self) -> tuple[Parts, Counters]:
        """The restored parts, and the counters from which the run continues. All learners of a group build at once.

        Raises WorkbenchError if environment, network, device or checkpoint do not fit.
        """
        state, learners, spec, config = self._state, self._learners, self._spec, self._state.config
        check_same_environment(EnvironmentSpec.from_json(learners.from_leader(spec.to_json())), spec)
        roles.check(config, spec)
        if (newest := checkpoints.newest(self._run.checkpoints)) is not None:
            check_environment(newest, spec)  # before a network of its user's own meets other observations
        torch.manual_seed(config.seed)
        factory = load_factory(*untried.places(self._run, "network.pkl"))
        device = choose(config, spec, own_network=factory is not None, compiled=self._run.compiled)
        threads = self._threads(device)
        trainer = self._trainer(device, factory)
        layout = UnrollLayout.of(trainer.algorithm, trainer.network, self._state.hyperparameters.unroll_length)
        recorded = self._demonstrations()
        experience = batch_source.build(
            trainer.algorithm, layout, config=state.hyperparameters, folder=self._run.replay(learners.rank),
            seed=state.seed(2), pin_memory=device.kind == "cuda", alone=learners.size == 1,
            updates=lambda: trainer.updates, recorded=recorded,
        )
        acting = for_inference(config, device, own_network=factory is not None)
        for each in (device, acting):
            each.tell = lambda sentence: self._log.event("error", sentence, progress=state.progress)
        generator = acting.generator(state.seed(1))
        counters = Restoring(self._run, state=state, log=self._log, trainer=trainer, experience=experience,
                             generator=generator).restore()
        if recorded is not None and not trainer.updates and learners.leads:
            self._log.event("demonstrations", f"learns from {recorded}", progress=counters)
        trainer.join(learners)
        learners.begin(steps=counters.steps, seed=state.seed(4, counters.updates))
        keeps = acting.keeps_frames and acting.torch == device.torch and not (config.replays or config.imitates)
        held = self._unrolls_held(experience)
        frames = FrameTable(layout, device=acting, slots=state.environments + held) if keeps else None
        policy = PublishedPolicy(trainer.network, version=trainer.updates, device=acting)
        inference = Inference(
            spec, config=lambda: state.config, algorithm=trainer.algorithm, policy=policy,
            assembler=UnrollAssembler(layout, num_envs=state.environments, held=held, stagger=True, frames=frames),
            queue=experience.queue, frames=frames,
            device=acting, num_envs=state.environments, generator=generator, meters=self._meters,
            on_episode=self._log_episode, opponent=self._opponent(acting), rank=learners.rank,
        )
        inference.steps = counters.steps if learners.leads else 0
        device.compute_traced()
        if device.compiles:
            checkpointing.groups_of(trainer, generator)  # the first checkpoint would compile it
        name = config.network or (OWN_NETWORK if factory else "default")
        return Parts(spec, device, threads, name, layout, trainer, experience, policy, inference), counters

    def _unrolls_held(self, experience: Experience) -> int:
        """Unrolls that may be held at once between inference and the end of the updates that they are trained on."""
        waiting = self._state.largest_batch  # for room in the queue
        rounds = 2 * experience.queue.capacity  # one waits, and one is trained on
        batches: int = (LAG_UPDATES + 3) * self._state.hyperparameters.batch_size
        return waiting + rounds + batches

    def _threads(self, device: Device) -> Threads:
        """Those of training: another number is tried where nobody gave one and no other learner depends on it."""
        config, here, cores = self._state.config, self._learners.here, hardware.cores()
        alone = self._learners.size == 1 and config.launcher in ("local", "colab")  # on cores that are this machine's
        tries = alone and device.kind == "cpu" and not (config.learner_threads or config.exact_resume_updates)
        before = MetricsReader(self._run.metrics).status() if tries else None  # the status of the life before, and when
        found = max(0, min(LearnerStatus.from_json(before and before[0]).learner_threads, cores))
        return Threads(found or chosen.training_threads(config.learner_threads, cores=cores, learners=here),
                       most=cores if tries else 0,
                       tell=lambda sentence: self._log.event("threads", sentence, progress=self._state.progress))

    def _trainer(self, device: Device, factory: Factory | None) -> Trainer:
        """The trainer of the run's network and algorithm, on the device."""
        config, hyperparameters = self._state.config, self._state.hyperparameters
        own = load_factory(*untried.places(self._run, "algorithm.pkl"))
        if own is not None:
            check_described(own, config.own_algorithm)
            if self._is_untried("algorithm.pkl"):  # with a network of its own, on the CPU
                check_algorithm.check_class(own, check_algorithm.smaller(config), spec=self._spec, factory=factory)
        algorithm = algorithms.build(config, spec=self._spec, own=own)
        network = networks.build(
            config.network, spec=self._spec, heads=algorithm.heads, factory=factory, seed=config.seed,
            normalise=hyperparameters.normalize_observations,
        ).to(device.torch)
        with device.autocast():
            form = networks.check(network, spec=self._spec, output=algorithm.heads.output,
                                  new=factory is not None and self._is_untried("network.pkl"),
                                  trained_steps=check_algorithm.trained_steps(algorithm, hyperparameters))
        if factory is not None:  # it may return another shape later on
            networks.check_each_call(network, form)
        return Trainer(network, algorithm, device, hyperparameters)

    def _is_untried(self, file: str) -> bool:
        """Whether that file of the run's code has not trained: the run has no checkpoint yet, or the code is mended."""
        return not checkpoints.every(self._run.checkpoints) or untried.is_untried(self._run, file)

    def _demonstrations(self) -> Recorded | None:
        """The episodes that the run learns from, if its algorithm does. Raises StorageFailed, InvalidInput."""
        if not self._state.config.imitates:
            return None
        recorded = demonstration_file.read(self._run.demonstrations)
        demonstration_file.check_spaces(recorded, self._spec)
        return recorded

    def _opponent(self, device: Device) -> Opponent | None:
        if self._state.config.opponent is None:
            return None
        learners = self._learners
        if not learners.leads:
            learners.from_leader()  # waits until the leader has copied the opponent into the run
        checkpoint = frozen_opponent.kept(self._run, self._state.config.opponent)
        if learners.leads:
            learners.from_leader()
        policy = load_opponent(checkpoint, self._spec)
        return Opponent(policy, device=device, num_envs=self._state.environments, seed=self._state.seed(3))

    def _log_episode(self, episode: Episode) -> None:
        """Log an episode under the number of its environment in the run."""
        if not self._state.counts:
            return
        number = self._state.config.env_of(self._learners.rank, episode.env_id)
        self._log.episode(replace(episode, env_id=number), self._state.progress)
