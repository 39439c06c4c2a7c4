"""A run as a closed network of queues, simulated: actors -> wire -> service -> batcher -> accelerator -> back.

What it has that the calculator's bounds leave out: steps of uneven length, queues, batches that wait, a fixed cost of
each batch, training that takes the accelerator in slices, a queue of unrolls that holds inference back when it is
full, and gradients that are averaged among all learners, who so wait for the slowest.

Cores, network cards and services serve whoever comes first, each taken as one server: when a message leaves them is
computed when it comes, which is exact and saves nine events of ten. No command line: planning.py has it.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass

import simpy

from workbench.planning import Plan
from workbench.planning.capacity import learner_rate
from workbench.planning.constants import known

Steps = Generator[simpy.Event, object, None]
INFERENCE_SHARE = known("inference", "share")  # of an accelerator's time
SLICE_S = 0.001  # of training, between which inference gets its turn


@dataclass(frozen=True)
class System:
    """What is simulated. Times in seconds, rates in steps/s.

    Attributes:
        core_rate: of one core that steps.
        service_rate: of one learner's service; card_rate: of its network card.
        accelerator_rate: of all accelerators of one learner, acting and training.
        update_steps: of one update, of one learner.
        reduce_s: to average one update's gradients.
        batch_s: of an inference batch, whatever its size.
        variation: standard deviation / mean of the time of a group's step.
        max_batch: environments; 0: half of a learner's.
    """

    learners: int
    actors: int
    groups: int
    group_size: int
    frames_per_step: float
    core_rate: float
    service_rate: float
    card_rate: float
    accelerator_rate: float
    update_steps: int
    reduce_s: float = 0.0
    inference_share: float = INFERENCE_SHARE
    batch_s: float = 0.0003
    variation: float = 0.3
    wire_s: float = 0.0001
    max_batch: int = 0
    timeout_s: float = 0.005

    def bounds(self) -> dict[str, float]:
        """What each part carries, frames/s, as the calculator sees it."""
        share = self.inference_share
        trained = learner_rate(self.accelerator_rate / share, self.accelerator_rate / (1 - share), self.update_steps,
                               self.reduce_s)
        return {
            "actor cores": self.actors * self.core_rate * self.frames_per_step,
            "learners' network cards": self.learners * self.card_rate * self.frames_per_step,
            "learners' services": self.learners * self.service_rate * self.frames_per_step,
            "accelerators": self.learners * trained * self.frames_per_step,
        }


def system_of(plan: Plan, *, accelerator_rate: float) -> System:
    """The network that `plan` describes, with learners that act and train on so many steps/s."""
    frames = plan.frames_per_second / plan.steps_per_second
    cores, services, _, cards = (part.frames_per_second / frames for part in plan.parts)
    return System(
        learners=plan.learners, actors=plan.cores, groups=plan.groups, group_size=plan.group_size,
        frames_per_step=frames, core_rate=cores / plan.cores, service_rate=services / plan.learners,
        card_rate=cards / plan.learners, accelerator_rate=accelerator_rate,
        update_steps=plan.batch_size * plan.unroll_length // plan.learners, reduce_s=plan.averaging_ms / 1e3,
    )


@dataclass(frozen=True)
class Simulated:
    """What a simulation found.

    Attributes:
        busy: share of time that each part worked, mean over all of it.
        latency_s: from a group's observations sent to its actions received, mean.
        batch: environments in an inference batch, mean.
        messages: that were counted.
    """

    frames_per_second: float
    busy: dict[str, float]
    latency_s: float
    batch: float
    messages: int


class Together:
    """Where all learners wait for the last one."""

    def __init__(self, world: simpy.Environment, number: int) -> None:
        self._world, self._number, self._came = world, number, 0
        self._open = world.event()

    def arrive(self) -> simpy.Event:
        """An event of the moment when everybody has come."""
        self._came += 1
        opens = self._open
        if self._came == self._number:
            self._came, self._open = 0, self._world.event()
            opens.succeed()
        return opens


class Learner:
    """One learner: card, service, batcher, accelerator, training."""

    def __init__(self, world: simpy.Environment, system: System, together: Together, actors: int) -> None:
        self.world, self.system, self.together = world, system, together
        self.card_free = self.service_free = 0.0
        self.card_s = system.group_size / system.card_rate
        self.service_s = system.group_size / system.service_rate
        self.waiting: deque[tuple[float, simpy.Event]] = deque()
        self.max_batch = system.max_batch or max(1, actors * system.groups * system.group_size // 2)
        self.wake, self.filled, self.drained = world.event(), world.event(), world.event()
        self.accelerator = simpy.PriorityResource(world, 1)
        self.ready = 0
        self.worked = dict.fromkeys(("card", "service", "accelerator"), 0.0)
        self.batches = self.served = 0
        world.process(self.infer())
        world.process(self.train())

    def through(self, now: float) -> float:
        """Seconds until a message that is sent now has been read by the service."""
        self.card_free = max(now + self.system.wire_s, self.card_free) + self.card_s
        self.service_free = max(self.card_free, self.service_free) + self.service_s
        self.worked["card"] += self.card_s
        self.worked["service"] += self.service_s
        return self.service_free - now

    def put(self) -> simpy.Event:
        """A group waits for actions; the event is their arrival."""
        reply = self.world.event()
        self.waiting.append((self.world.now, reply))
        if not self.wake.triggered:
            self.wake.succeed()
        return reply

    def infer(self) -> Steps:
        """Batches, as the product's batcher makes them."""
        one, each = self.system, self.system.inference_share / self.system.accelerator_rate
        most = max(1, self.max_batch // one.group_size)
        while True:
            while len(self.waiting) < most:
                left = self.waiting[0][0] + one.timeout_s - self.world.now if self.waiting else None
                if left is not None and left <= 1e-9:
                    break
                self.wake = self.world.event()
                yield self.wake if left is None else self.wake | self.world.timeout(left)
            batch = [self.waiting.popleft()[1] for _ in range(min(most, len(self.waiting)))]
            steps = len(batch) * one.group_size
            yield from self.work(one.batch_s + steps * each, priority=0)
            self.world.process(self.answer(batch))
            self.batches += 1
            self.served += steps
            self.ready += steps
            if self.ready >= one.update_steps and not self.filled.triggered:
                self.filled.succeed()
            while self.ready >= 2 * max(one.update_steps, steps):  # the queue of unrolls is full
                self.drained = self.world.event()
                yield self.drained

    def work(self, seconds: float, *, priority: int) -> Steps:
        """The accelerator, for that long."""
        with self.accelerator.request(priority=priority) as turn:
            yield turn
            yield self.world.timeout(seconds)
        self.worked["accelerator"] += seconds

    def answer(self, batch: list[simpy.Event]) -> Steps:
        """Actions reach the actors."""
        yield self.world.timeout(self.system.wire_s)
        for reply in batch:
            reply.succeed()

    def train(self) -> Steps:
        """Updates, each on the accelerator in slices, with everybody's gradients."""
        one = self.system
        seconds = one.update_steps * (1 - one.inference_share) / one.accelerator_rate
        slices = max(1, round(seconds / SLICE_S))
        while True:
            while self.ready < one.update_steps:
                self.filled = self.world.event()
                yield self.filled
            self.ready -= one.update_steps
            if not self.drained.triggered:
                self.drained.succeed()
            for _ in range(slices):
                yield from self.work(seconds / slices, priority=1)
            yield self.together.arrive()
            yield self.world.timeout(one.reduce_s)


class Fleet:
    """All actors and learners of a system."""

    def __init__(self, system: System, seed: int) -> None:
        self.world, self.system, self.random = simpy.Environment(), system, random.Random(seed)
        together = Together(self.world, system.learners)
        each = -(-system.actors // system.learners)
        self.learners = [Learner(self.world, system, together, each) for _ in range(system.learners)]
        self.core_free = [0.0] * system.actors
        self.core_worked = self.latency = 0.0
        self.messages = 0
        for actor in range(system.actors):
            for _ in range(system.groups):
                self.world.process(self.group(actor))

    def group(self, actor: int) -> Steps:
        """A group's life: a step on its core, then a wait for actions."""
        world, learner = self.world, self.learners[actor % self.system.learners]
        shape = 1 / self.system.variation**2
        scale = self.system.group_size / self.system.core_rate / shape
        yield world.timeout(self.random.random() * self.system.groups * shape * scale)
        while True:
            stepping = self.random.gammavariate(shape, scale)
            free = self.core_free[actor] = max(world.now, self.core_free[actor]) + stepping
            self.core_worked += stepping
            yield world.timeout(free - world.now)
            sent = world.now
            yield world.timeout(learner.through(sent))
            yield learner.put()
            self.latency += world.now - sent
            self.messages += 1

    def clear(self) -> None:
        """Forget what was counted."""
        self.core_worked = self.latency = 0.0
        self.messages = 0
        for learner in self.learners:
            learner.worked = dict.fromkeys(learner.worked, 0.0)
            learner.batches = learner.served = 0


def simulate(system: System, *, warm_up_s: float, seconds: float, seed: int = 0) -> Simulated:
    """Run `system` for `seconds` of its own time after `warm_up_s`."""
    fleet = Fleet(system, seed)
    fleet.world.run(until=warm_up_s)
    fleet.clear()
    fleet.world.run(until=warm_up_s + seconds)
    served, batches = (sum(getattr(one, name) for one in fleet.learners) for name in ("served", "batches"))
    names = {"card": "learners' network cards", "service": "learners' services", "accelerator": "accelerators"}
    busy = {told: sum(one.worked[name] for one in fleet.learners) / system.learners / seconds
            for name, told in names.items()}
    return Simulated(
        frames_per_second=served * system.frames_per_step / seconds,
        busy={"actor cores": fleet.core_worked / system.actors / seconds, **busy},
        latency_s=fleet.latency / max(1, fleet.messages), batch=served / max(1, batches), messages=fleet.messages,
    )
