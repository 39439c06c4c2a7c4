"""Adam with Keras' ε, against Keras' update written out in Python's floats (keras/src/optimizers/adam.py)."""

from __future__ import annotations

import copy
import math

import pytest
import torch

from workbench.config import RunConfig
from workbench.learner.training.keras_adam import KerasAdam
from workbench.learner.training.optimizers import fill_state, make_optimizer

EPSILON, UPDATES = 1e-3, 50


class SlowKeras:
    """One number."""

    def __init__(self, value: float, beta1: float, beta2: float) -> None:
        self.value, self.m, self.v, self.t, self.beta1, self.beta2 = value, 0.0, 0.0, 0, beta1, beta2

    def update(self, gradient: float, rate: float) -> None:
        self.t += 1
        alpha = rate * math.sqrt(1 - self.beta2**self.t) / (1 - self.beta1**self.t)
        self.m += (gradient - self.m) * (1 - self.beta1)
        self.v += (gradient**2 - self.v) * (1 - self.beta2)
        self.value -= self.m * alpha / (math.sqrt(self.v) + EPSILON)


def made(parameters: list[torch.nn.Parameter], beta1: float, form: str, *, capturable: bool) -> torch.optim.Optimizer:
    config = RunConfig.build("x", adam_beta1=beta1, adam_epsilon=EPSILON, adam_epsilon_form=form)
    return make_optimizer([parameters], config.hyperparameters, fused=not capturable, capturable=capturable)


@pytest.mark.parametrize("beta1", [0.9, 0.0])
@pytest.mark.parametrize("capturable", [False, True], ids=["as on a CPU", "as on a GPU"])
def test_fifty_updates_are_those_of_keras_to_the_last_digits(beta1: float, capturable: bool) -> None:
    random = torch.Generator().manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(shape, generator=random, dtype=torch.float64))
                  for shape in ((2, 3), ())]
    slow = [SlowKeras(value, beta1, 0.999) for each in parameters for value in each.flatten().tolist()]
    optimizer = made(parameters, beta1, "keras", capturable=capturable)
    if capturable:
        fill_state(optimizer)
    rate = torch.zeros((), dtype=torch.float64)
    for number in range(UPDATES):
        now = 1e-2 * (1 + math.sin(number))
        optimizer.param_groups[0]["lr"] = rate.fill_(now) if capturable else now
        for parameter in parameters:
            parameter.grad = torch.randn(parameter.shape, generator=random, dtype=torch.float64) * 10.0 ** -(number % 5)
        if number == UPDATES // 2:  # a resumed run goes on so
            saved = copy.deepcopy(optimizer.state_dict())
            optimizer = made(parameters, beta1, "keras", capturable=capturable)
            optimizer.load_state_dict(saved)
        optimizer.step()
        gradients = [value for each in parameters for value in each.grad.flatten().tolist()]
        for one, gradient in zip(slow, gradients, strict=True):
            one.update(gradient, now)
        values = torch.cat([each.detach().flatten() for each in parameters])
        torch.testing.assert_close(values, torch.tensor([one.value for one in slow], dtype=torch.float64), rtol=1e-12,
                                   atol=1e-13)


def test_torchs_epsilon_counts_less_in_the_first_updates_and_neither_counts_beside_large_gradients() -> None:
    def moved(form: str, gradient: float, updates: int) -> float:
        parameter = torch.nn.Parameter(torch.zeros(()))
        optimizer = made([parameter], 0.9, form, capturable=False)
        for _ in range(updates):
            before = parameter.item()
            parameter.grad = torch.tensor(gradient)
            optimizer.step()
        return before - parameter.item()

    assert moved("torch", 1e-2, 1) / moved("keras", 1e-2, 1) == pytest.approx(3.8, abs=0.1)
    assert moved("torch", 1e-2, 100) / moved("keras", 1e-2, 100) == pytest.approx(1.22, abs=0.03)
    assert moved("torch", 1e6, 3) == pytest.approx(moved("keras", 1e6, 3), rel=1e-4)


def test_a_parameter_without_a_gradient_stays_as_it_is() -> None:
    idle, learning = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
    optimizer = made([idle, learning], 0.9, "keras", capturable=False)
    assert isinstance(optimizer, KerasAdam)
    learning.grad = torch.ones(2)
    optimizer.step()
    assert idle.tolist() == [1, 1] and idle not in optimizer.state and (learning < 1).all()
