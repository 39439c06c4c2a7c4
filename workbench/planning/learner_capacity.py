"""Capacities of learners: how fast an accelerator acts and trains, and how many learners a speed needs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from workbench.errors import OutOfBounds
from workbench.planning import capacity
from workbench.planning.constants import known

UNROLLS_EACH = 32  # unrolls of each learner in an update: V-trace's default


@dataclass(frozen=True)
class Rate:
    """Capacities of a learner's accelerators in steps/s: acting alone, and training alone."""

    inference: float
    training: float
    basis: str

    @classmethod
    def of_both(cls, both: float, basis: str) -> Rate:
        """A Rate from the capacity for both together, divided as measured on CPU cores."""
        share = known("inference", "share")
        return cls(both / share, both / (1 - share), basis)

    @property
    def both(self) -> float:
        """Steps/s of acting and training on each step."""
        return capacity.both_rate(self.inference, self.training)

    def times(self, number: int) -> Rate:
        """The rate of `number` such accelerators."""
        return Rate(self.inference * number, self.training * number, self.basis)


@dataclass(frozen=True)
class LearnerCapacity:
    """Capacities of one of several learners. Rates in steps/s, `card` in bytes/s."""

    service: float
    rate: Rate
    up: float
    card: float
    parameters: int
    batch_size: int | None
    unroll_length: int

    def batch(self, learners: int) -> int:
        """Unrolls per update of all learners together, shared equally."""
        each = UNROLLS_EACH if self.batch_size is None else math.ceil(self.batch_size / learners)
        return each * learners

    def reduce_s(self, learners: int) -> float:
        """Seconds to average one update's gradients, by the card's speed alone."""
        return capacity.reduce_bytes(self.parameters, learners) / self.card

    def trained(self, learners: int) -> float:
        """Steps/s that one of them acts and trains on."""
        update = self.batch(learners) * self.unroll_length / learners
        return capacity.learner_rate(self.rate.inference, self.rate.training, update, self.reduce_s(learners))

    def card_bytes(self, learners: int) -> float:
        """Bytes into one learner's card per step of the whole run: observations and gradients."""
        gradients = capacity.reduce_bytes(self.parameters, learners) / (self.batch(learners) * self.unroll_length)
        return self.up / learners + gradients

    def most(self, learners: int) -> float:
        """Steps/s of all learners together, as their fullest part allows."""
        return min(learners * self.service, learners * self.trained(learners), self.card / self.card_bytes(learners))

    def count_for(self, steps: float, utilisation: float) -> int:
        """The number of learners for `steps` per second with no part busier than `utilisation`.

        Raises OutOfBounds if averaging the gradients costs as much as more learners add.
        """
        first = learners = capacity.count_for(steps, min(self.service, self.rate.both), utilisation)
        while learners < 20 * first + 2048:
            if steps * (1 - 1e-6) <= utilisation * self.most(learners):
                return learners
            learners += max(1, learners // 1000)
        raise OutOfBounds(f"{steps:,.0f} steps/s cannot be reached by adding learners: averaging the gradients of "
                          f"{self.parameters:,} parameters over network cards of {self.card * 8 / 1e9:g} Gbit/s takes "
                          "what they add. Give a larger batch_size or nic_gbit.")
