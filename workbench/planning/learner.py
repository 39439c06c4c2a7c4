"""What learners carry: how fast an accelerator acts and trains, and how many learners a speed takes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from workbench.errors import OutOfBounds
from workbench.planning import capacity
from workbench.planning.constants import known

UNROLLS_EACH = 32  # that a learner trains on at a time: V-trace's default


@dataclass(frozen=True)
class Rate:
    """What a learner's accelerators carry, in steps/s: acting alone, training alone, and both."""

    inference: float
    training: float
    basis: str

    @classmethod
    def of_both(cls, both: float, basis: str) -> Rate:
        """From what they carry of both, divided as on our own cores."""
        share = known("inference", "share")
        return cls(both / share, both / (1 - share), basis)

    @property
    def both(self) -> float:
        """Acting and training on each step."""
        return capacity.both_rate(self.inference, self.training)

    def times(self, number: int) -> Rate:
        """Of as many accelerators."""
        return Rate(self.inference * number, self.training * number, self.basis)


@dataclass(frozen=True)
class Learner:
    """What one of several learners carries. Rates in steps/s, `card` in bytes/s."""

    service: float
    rate: Rate
    up: float
    card: float
    parameters: int
    batch_size: int | None
    unroll_length: int

    def batch(self, learners: int) -> int:
        """Unrolls per update of all learners together, the same number for each."""
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
        """Steps/s that so many of them carry together: their fullest part's."""
        return min(learners * self.service, learners * self.trained(learners), self.card / self.card_bytes(learners))

    def count_for(self, steps: float, utilisation: float) -> int:
        """Learners for `steps` of which no part is busier than `utilisation`.

        Raises OutOfBounds where averaging the gradients takes what more learners add.
        """
        first = capacity.count_for(steps, min(self.service, self.rate.both), utilisation)
        for learners in range(first, 20 * first + 2048):
            if steps * (1 - 1e-6) <= utilisation * self.most(learners):
                return learners
        raise OutOfBounds(f"{steps:,.0f} steps/s cannot be reached by adding learners: averaging the gradients of "
                          f"{self.parameters:,} parameters over network cards of {self.card * 8 / 1e9:g} Gbit/s takes "
                          "what they add. Give a larger batch_size or nic_gbit.")
