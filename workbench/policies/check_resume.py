"""What a resume would lose of an algorithm: a second one takes over the arrays that a checkpoint would have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from workbench.algorithms import Algorithm
from workbench.algorithms.batch import Batch
from workbench.algorithms.returned import naming, rule, said_of
from workbench.networks.arrays import to_arrays, to_tensors


def check_state(
    algorithm: Algorithm, network: nn.Module, fresh: nn.Module, batch: Batch, config: Any
) -> Iterator[str]:
    """Notes on what a resume would change. Raises AlgorithmFailed where state() or load_state(...) breaks a rule.

    Args:
        network: as it is after an update's calls, and `fresh` a copy of it that nobody has prepared.
    """
    with torch.no_grad():
        for parameter in algorithm.parameters():  # as if they had learnt something
            parameter.add_(0.01)
    with naming("state()"):
        state = algorithm.state()
        rule(isinstance(state, Mapping), f"state() gives tensors by name, not {said_of(state)}.")
        for name, value in state.items():
            rule(isinstance(name, str) and isinstance(value, Tensor),
                 f"state() gives tensors by name, and {name!r} is {said_of(value)}. Make one of it: torch.tensor(...).")
            rule(not value.is_complex(), f"state() gives {name} as {said_of(value)}, which no checkpoint can hold. "
                 "Give torch.view_as_real(...) of it.")
    again = _check_restored(algorithm, state, network, fresh, config)
    yield from _changes(algorithm, again, state, batch, config, (network, fresh))
    with naming("parameters()"):
        kept = len(list(algorithm.parameters()))
    rule(not kept or bool(state), f"parameters() has {kept} that state() does not keep: a resume would lose them.")


def _check_restored(
    algorithm: Algorithm, state: Mapping[str, Tensor], network: nn.Module, fresh: nn.Module, config: Any
) -> Algorithm:
    """Another one of its class, as a resume makes it. Raises AlgorithmFailed unless it takes over all of `state`."""
    with naming("a second one's constructor, prepare(network) and to(device)"):
        again = type(algorithm)(config, spec=algorithm.spec)
        again.prepare(fresh)
        again.to("cpu")
        fresh.load_state_dict(network.state_dict())
        again.prepare(fresh)
    with naming("load_state(state)"):
        again.load_state(to_tensors(to_arrays(state)))  # as a checkpoint has them
        restored = again.state()
    lost = ", ".join(name for name, value in state.items() if not _same(value, restored.get(name)))
    rule(not lost, f"load_state(state) does not restore {lost}, which state() keeps: a resume would lose it.")
    return again


def _changes(
    algorithm: Algorithm, again: Algorithm, state: Mapping[str, Tensor], batch: Batch, config: Any,
    networks: tuple[nn.Module, nn.Module],
) -> Iterator[str]:
    """A note where a resumed algorithm, `again`, has another loss for one more batch."""
    with naming("load_state(state)"):
        algorithm.load_state(to_tensors(to_arrays(state)))  # for what follows from parameters, which were moved
    totals = [_total(one, network, batch, config) for one, network in zip((algorithm, again), networks, strict=True)]
    if not _same(*totals):
        yield (f"A resume would change its loss, from {totals[0]:g} to {totals[1]:g} for the same batch: something "
               "that before_update, loss, after_update or updated changes is not in state(), such as a mean or a "
               "counter, or random numbers are not those of self.training_generator.")


def _total(algorithm: Algorithm, network: nn.Module, batch: Batch, config: Any) -> Tensor:
    """The loss of one more batch, with the same random numbers of torch whenever it is called."""
    torch.manual_seed(0)
    algorithm.training_generator.manual_seed(0)
    with naming("before_update and loss of a second batch"):
        algorithm.before_update(batch, config=config)
        return algorithm.loss(network, batch=batch, config=config).total.detach()  # type: ignore[arg-type]


def _same(kept: Tensor, restored: Tensor | None) -> bool:
    same = restored is not None and restored.shape == kept.shape
    return same and torch.allclose(restored.double(), kept.double(), equal_nan=True)  # type: ignore[union-attr]
