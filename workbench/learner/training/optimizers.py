"""The optimizers that a configuration can name, and what they need on one device or another."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn

from workbench.learner.training.keras_adam import KerasAdam


def _without_compiler(optimizer: type[torch.optim.Optimizer]) -> Any:
    """The class without the wrappers that keep torch's compiler out of its methods. They import the compiler, which
    costs a second of processor time and 70 MB in a process that compiles nothing."""
    names = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
    methods = {name: inspect.unwrap(getattr(optimizer, name)) for name in names}
    return type(optimizer.__name__, (optimizer,), {**methods, "step": torch.no_grad()(inspect.unwrap(optimizer.step))})


def make_optimizer(
    parameters: list[list[nn.Parameter]], config: Any, *, foreach: bool = True, fused: bool = False,
    capturable: bool = False,
) -> torch.optim.Optimizer:
    """The optimizer that the hyperparameters name, of groups of parameters; `capturable`: its step is the same graph
    every time."""
    how: dict[str, Any] = {"foreach": foreach}
    if config.optimizer == "rmsprop":
        specific = {"alpha": config.rmsprop_decay, "eps": config.rmsprop_epsilon, "momentum": config.rmsprop_momentum}
        kind: type[torch.optim.Optimizer] = torch.optim.RMSprop
    else:
        specific = {"betas": (config.adam_beta1, config.adam_beta2), "eps": config.adam_epsilon}
        kind, how = torch.optim.Adam, {"fused": True} if fused else how
        if config.adam_epsilon_form == "keras":
            kind, how, capturable = KerasAdam, {}, True
    optimizer: torch.optim.Optimizer = _without_compiler(kind)(
        [{"params": group} for group in parameters], lr=config.learning_rate, capturable=capturable, **how, **specific)
    if _is_fused(optimizer):
        optimizer.register_load_state_dict_post_hook(_lay_out_moments)
    return optimizer


def lay_out(optimizer: torch.optim.Optimizer) -> None:
    """Give the gradients of a fused step the layout in memory of their parameter: it pairs values by their place."""
    if _is_fused(optimizer):
        for parameter in _parameters(optimizer):
            if parameter.grad is not None and parameter.grad.stride() != parameter.stride():
                parameter.grad = torch.empty_like(parameter).copy_(parameter.grad)


def _lay_out_moments(optimizer: torch.optim.Optimizer) -> None:
    """As `lay_out` for moments: an optimizer creates them so, and a checkpoint has them contiguous."""
    for parameter in _parameters(optimizer):
        state = optimizer.state.get(parameter, {})
        for name, value in state.items():
            if value.shape == parameter.shape:
                state[name] = torch.empty_like(parameter).copy_(value)


def _is_fused(optimizer: torch.optim.Optimizer) -> bool:
    return bool(optimizer.defaults.get("fused"))


def _parameters(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def fill_state(optimizer: torch.optim.Optimizer) -> None:
    """Create an optimizer's state, which it otherwise creates in its first step: that would be a graph of its own."""
    for parameter in _parameters(optimizer):
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()  # with gradients of zero: weights stay the same
    optimizer.zero_grad(set_to_none=True)
    for state in optimizer.state.values():
        for value in state.values():
            value.zero_()
