"""Central inference: turns a batch of waiting groups into actions, and their steps into unrolls.

One thread runs `Inference.serve`. Tables have a row per environment: life, previous action, frames to stack, recurrent
state, present episode, partial unroll. A group of another life than its rows resets them, so the steps of two lives
never meet in one unroll.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import nn

from workbench.algorithms.distributions import distribution_of
from workbench.algorithms.interface import DISCOUNTED_RETURN, Algorithm, NetworkOutput, Roles, State
from workbench.algorithms.own_code import act, own_network
from workbench.config import RunConfig
from workbench.environment_spec import EnvironmentSpec
from workbench.learner.devices.device import Device
from workbench.learner.devices.recording import RUNS_TO_RECORD
from workbench.learner.inference.batcher import Batcher, Request
from workbench.learner.inference.discounted_returns import DiscountedReturns
from workbench.learner.inference.environment_tables import EnvironmentTables, PlacedSteps
from workbench.learner.inference.frame_table import FrameTable
from workbench.learner.inference.opponent import Opponent
from workbench.learner.inference.present_episodes import PresentEpisodes
from workbench.learner.inference.published_weights import PolicyCopy, PublishedPolicy
from workbench.learner.inference.wall_tap import WallTap
from workbench.learner.inference.watch_tap import Tap, thought
from workbench.learner.metrics.flight_recorder import FlightRecorder
from workbench.learner.metrics.meters import Meters
from workbench.metrics.writer import Episode
from workbench.policies.roles import RoleTable
from workbench.replay.assembler import UnrollAssembler, grown
from workbench.replay.queue import UnrollQueue
from workbench.trajectory import Array, Flags, StepBatch, Steps, Unroll
from workbench.wire.messages import GroupActions

Forward = tuple[NetworkOutput, State, torch.Tensor, dict[str, torch.Tensor]]  # the last two: actions, behaviour


class Inference:
    """Acts for all environments of a learner: each batch is one step of its environments."""

    def __init__(
        self, spec: EnvironmentSpec, *, config: Callable[[], RunConfig], algorithm: Algorithm, policy: PublishedPolicy,
        assembler: UnrollAssembler, queue: UnrollQueue, device: Device, num_envs: int, generator: torch.Generator,
        meters: Meters, on_episode: Callable[[Episode], None], opponent: Opponent | None = None, rank: int = 0,
        frames: FrameTable | None = None,
    ) -> None:
        self.spec = spec
        self._rank = rank  # of this learner
        self.steps = 0  # of environments that train
        self.generator = generator
        self.tap, self.wall, self.flights = Tap(), WallTap(), FlightRecorder()
        self._config = config  # returns the present one
        self._algorithm, self._policy, self._assembler, self._queue = algorithm, policy, assembler, queue
        self._device, self._meters = device, meters
        self._opponent, self._keeps_frames = opponent, frames is not None
        with policy.reading() as (network, _):
            self._tables = EnvironmentTables(network, spec, device=device, num_envs=num_envs, kept=frames)
        self._roles = RoleTable.of(config(), spec.agents, num_envs, rank)
        self._recorder = device.recorder(generator)
        self.recorded = threading.Event()  # what it computes, where the device records
        if self._recorder is None:
            self.recorded.set()
        self._run_ids = np.zeros(num_envs, np.int64)
        self._actions = distribution_of(spec.actions)
        self._episodes = PresentEpisodes(num_envs, scored=spec.scored, on_end=on_episode)
        keeps = DISCOUNTED_RETURN in algorithm.behaviour_fields()
        self._discounted = DiscountedReturns(num_envs) if keeps else None

    def serve(self, batcher: Batcher, *, largest: int) -> None:
        """Run batches, of up to `largest` rows, until the batcher or the queue is closed."""
        with self._device.own_stream(ahead=True):
            self.warm_up(largest)
            self.recorded.set()
            self._serve(batcher)

    def warm_up(self, largest: int) -> None:
        """Compile or record the work of batches of up to `largest` rows before any life begins: none waits for it.

        Nothing to do on a device that does neither. A recording is of one copy of the weights.
        """
        passes: list[PolicyCopy | None] = [None] if self._device.compiles else []
        if self._recorder is not None:
            passes = [*self._policy.copies] * RUNS_TO_RECORD
        generator_state, sizes = self.generator.get_state(), [self._device.padded(1)]
        while sizes[-1] < self._device.padded(largest):
            sizes.append(2 * sizes[-1])
        for size, which in product(sizes, passes):
            env_ids, batch = np.arange(size) % len(self._run_ids), self._blank(size)
            with self._acting():
                self._choose(env_ids, batch, np.zeros(size, bool), np.ones(size, bool), which)
            self._tables.forget(env_ids)
        self.generator.set_state(generator_state)

    @contextmanager
    def _acting(self) -> Iterator[None]:
        with self._device.acting(), own_network(self._policy.copies[0].module, " as it acted"):
            yield

    def _blank(self, size: int) -> StepBatch:
        """A batch of zeros, with a final observation for each row."""
        batch = StepBatch.zeros(self.spec, size)
        batch.final_index, batch.final_observation = np.arange(size), batch.observation
        return batch

    def _serve(self, batcher: Batcher) -> None:
        while True:
            requests = batcher.next_batch()
            if not requests:
                return
            now = time.perf_counter()
            for request in requests:
                self._meters.add("batch_wait", now - request.arrived)
            alive = [request for request in requests if request.is_alive()]
            if alive and not self.answer(alive):
                return

    def answer(self, requests: list[Request]) -> bool:
        """Answer `requests`, and queue the unrolls that they completed. Returns False if the queue was closed."""
        with self._meters.timing("inference"):
            unrolls = self.step(requests)
        with self._meters.timing("queue_blocked"):
            return self._queue.put(*unrolls)

    def step(self, requests: list[Request]) -> list[Unroll]:
        """Answer `requests`, and return the unrolls that their steps completed."""
        began = time.perf_counter()
        self.resize(max(int(request.env_ids[-1]) for request in requests) + 1)
        if self._roles.config is not (config := self._config()) or len(self._roles.ranks) < len(self._run_ids):
            self._roles = RoleTable.of(config, self.spec.agents, len(self._run_ids), self._rank)
        env_ids = np.concatenate([request.env_ids for request in requests])
        lives = np.array([request.run_id for request in requests]).repeat([request.size for request in requests])
        if (new := self._run_ids[env_ids] != lives).any():
            self._begin_lives(env_ids[new], lives[new])
        batch = StepBatch.joined([request.message.step for request in requests], self._device.row_memory)
        actions = np.zeros((len(env_ids), *self.spec.actions.shape), self.spec.actions.dtype)
        acting = ~batch.has(Flags.ABSENT)  # with our policy; the other rows get action 0, or the opponent's
        if self._opponent is not None:
            opposing = acting & self._roles.opposing[env_ids]
            with self._device.acting():
                actions[opposing] = self._opponent.act(env_ids[opposing], batch.only(opposing))
            acting &= ~opposing
        if not acting.any():
            self._reply(requests, actions, self._policy.version)
            return []
        if not acting.all():
            env_ids, batch = env_ids[acting], batch.only(acting)
        evaluating = self._roles.evaluating[env_ids]
        self._episodes.count(env_ids, batch, evaluating)
        begins = self._assembler.begins(env_ids) & ~evaluating  # environments that evaluate make no unrolls
        with self._acting():
            steps, before, version, said = self._choose(env_ids, batch, evaluating, begins)
        chosen = self._actions.to_environment(torch.from_numpy(steps.action)).numpy()
        actions[acting] = chosen
        self._reply(requests, actions, version)
        answered = time.perf_counter()
        with self._device.acting():  # no actor waits for it
            self._show(env_ids, batch, chosen, *said, version)
        finals = self._finals(batch, ~evaluating)
        if evaluating.any():
            training = ~evaluating
            env_ids, steps = env_ids[training], steps.map(lambda array: array[training])
        self.steps += len(env_ids)
        unrolls = self._assembler.append(env_ids, steps, before, finals)
        self.flights.record(
            requests, env_ids, unrolls, fills=self._assembler.fills, began=began, answered=answered)
        return unrolls

    def _finals(self, batch: StepBatch, kept: Array) -> tuple[Array, Array] | None:
        """Which of the rows of a mask were truncated, and their final observations, if unrolls keep them."""
        if not (self._assembler.layout.keeps_finals and len(batch.final_index)):
            return None
        batch = batch.only(kept)
        assert batch.final_observation is not None
        return batch.final_index, batch.final_observation

    def _begin_lives(self, env_ids: Array, run_ids: Array) -> None:
        self._run_ids[env_ids] = run_ids
        self._tables.forget(env_ids)
        self._episodes.forget(env_ids)
        if self._discounted is not None:
            self._discounted.forget(env_ids)
        self._assembler.reset(env_ids, run_ids)
        if self._opponent is not None:
            self._opponent.begin_life(env_ids)

    def _choose(
        self, env_ids: Array, batch: StepBatch, evaluating: Array, begins: Array, which: PolicyCopy | None = None
    ) -> tuple[Steps[Array], list[Array], int, tuple[NetworkOutput, State]]:
        """Choose the actions of N environments for their steps in `batch`. Waits for the device once.

        Args:
            evaluating: bool [N].
            begins: bool [N], whether an unroll begins with this step.
            which: the copy of the weights; None: the newest.

        Returns:
            The steps with their actions, the frames and recurrent states before those that begin an unroll, the
            policy's version, and what the network said and keeps, on the device.
        """
        number, previous_action = len(env_ids), self._tables.previous_action(env_ids, batch)
        places = np.where(evaluating, 0, self._assembler.places(env_ids))
        # To the device by one copy: this step, and where it goes in the tables of all environments.
        placed_steps, (rank, evaluation, *first_steps) = self._tables.place(
            env_ids, batch, previous_action, self._roles.ranks[env_ids], evaluating, self._tables.rows(env_ids[begins]),
            batch.start[begins], places=places)
        # On the device: what precedes unrolls that begin, V(final observation) of the truncated, then the network.
        with self._device.tracing(), self._policy.reading(which) as (network, version):
            before = self._tables.before(*first_steps)
            self._device.cut()
            bootstrap = self._bootstrap(network, env_ids, batch)
            output, state, actions, behaviour = self._recorded_forward(network, placed_steps, Roles(rank, evaluation))
        # Back to the host by one copy; padding is cut off.
        (action,), behaved, first, final_values = self._device.fetch_groups(
            [actions], [*behaviour.values()], before, bootstrap)
        arrays = {name: value[:number] for name, value in zip(behaviour, behaved, strict=True)}
        number_begun = np.count_nonzero(begins)
        first = [value[:number_begun] for value in first]
        if self._discounted is not None:
            discount = self._roles.config.hyperparameters.discount
            arrays[DISCOUNTED_RETURN] = self._discounted.add(env_ids, batch, discount=discount)
        values = np.zeros(number, np.float32)
        for final_value in final_values:
            values[batch.final_index] = final_value[: len(batch.final_index)]
        steps = Steps(**batch.kept(), previous_action=previous_action, action=action[:number],
                      policy_version=np.full(number, version), bootstrap_value=values, behaviour=arrays)
        self._tables.store_actions(env_ids, steps.action)
        return steps, first, version, (output, state)

    def _recorded_forward(self, network: nn.Module, steps: PlacedSteps, roles: Roles) -> Forward:
        """As `_forward`, launched as a whole if the device records work."""
        settings = self._roles.config.hyperparameters
        if self._recorder is None:
            return self._forward(network, steps, roles, settings)

        def work(settings: Any, *inputs: torch.Tensor) -> Forward:
            return self._forward(network, PlacedSteps(*inputs[: len(steps)]), Roles(*inputs[len(steps) :]), settings)

        forward: Forward = self._recorder.run(
            work, [*steps, *roles], settings=settings, key=id(network),
            depends_on=(self._tables.size, self._assembler.size if self._keeps_frames else 0))
        return forward

    def _forward(self, network: nn.Module, steps: PlacedSteps, roles: Roles, settings: Any) -> Forward:
        """The network's output and state, actions and behaviour for `steps`, on the device; advances the tables."""
        with self._device.autocast():
            output, state = network(*self._tables.push(steps))
            actions, behaviour = act(self._algorithm, output, roles=roles, greedy=False,
                                     generator=self._device.drawing(self.generator), config=settings)
        self._tables.store_states(steps.rows, state)
        return output, state, actions, behaviour

    def _bootstrap(self, network: nn.Module, env_ids: Array, batch: StepBatch) -> list[torch.Tensor]:
        """[values of the true final observations], on the device; [] without any."""
        if not len(batch.final_index):
            return []
        with self._device.autocast():
            output, _ = network(*self._tables.peek(self._tables.place_final(env_ids, batch)))
            values = self._algorithm.bootstrap(output)
        self._device.cut()
        return [values]

    def _show(
        self, env_ids: Array, batch: StepBatch, actions: Array, output: NetworkOutput, state: State, version: int
    ) -> None:
        """Record the rows that are watched, with what the network said, and those that are due on the wall."""
        if due := self.wall.due(env_ids):
            shown = env_ids[due]
            self.wall.record(
                shown.tolist(), observations=batch.observation[due], actions=actions[due],
                returns=self._episodes.returns[shown], lengths=self._episodes.lengths[shown])
        if not self.tap.watched:
            return
        output, state = type(output)(*(tensor.cpu() for tensor in output)), tuple(part.cpu() for part in state)
        for row, env_id in self.tap.rows(env_ids):  # of copies: on XLA each row would be a graph
            self.tap.record(
                env_id, observation=batch.observation[row].copy(), reward=float(batch.reward[row]),
                flags=int(batch.flags[row]), action=actions[row].copy(), policy_version=version,
                episode_return=float(self._episodes.returns[env_id]), episode_step=int(self._episodes.lengths[env_id]),
                **thought(output, state, row, algorithm=self._algorithm, config=self._roles.config.hyperparameters),
            )

    def _reply(self, requests: list[Request], actions: Array, version: int) -> None:
        first = 0
        for request in requests:
            request.reply(GroupActions(request.message.group, actions[first : first + request.size], version))
            first += request.size
        self._meters.add("batch_size", first)

    def resize(self, num_envs: int) -> None:
        """Make room for `num_envs` environments; existing rows stay the same."""
        more = num_envs - len(self._run_ids)
        if more <= 0:
            return
        self._run_ids = grown(self._run_ids, more)
        self._episodes.resize(num_envs)
        if self._discounted is not None:
            self._discounted.resize(num_envs)
        self._tables.resize(num_envs)
        self._assembler.resize(num_envs)
        if self._opponent is not None:
            self._opponent.resize(num_envs)
