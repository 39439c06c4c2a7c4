"""The parts of what is trained that learn faster or slower than the rest, or not at all.

An algorithm names them (`Algorithm.rate_factors`). Their parameters are read once, their factors before each update, so
that a live field can be one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from torch import nn

from workbench.algorithms.returned import naming
from workbench.errors import AlgorithmFailed

if TYPE_CHECKING:
    from workbench.algorithms.interface import Algorithm

_RULE = "rate_factors(network, ...) returns pairs (parameters, factor of the learning rate)"


class RateFactors:
    """The parts of an algorithm and its network. Parameters of frozen parts lose their gradients.

    Args:
        network: without what decodes observations (`interface.inner`).

    Attributes:
        groups: all parameters that are not frozen: those of no part, if there are any, then those of each part.

    Raises:
        AlgorithmFailed: `rate_factors` raised or broke a rule; the message names that.
    """

    def __init__(self, algorithm: Algorithm, network: nn.Module, config: Any) -> None:
        self._algorithm, self._network = algorithm, network
        pairs = self._ask(config)
        parts = [_parameters_of(number, given) for number, (given, _) in enumerate(pairs)]
        every = [*network.parameters(), *algorithm.parameters()]
        _check(parts, every)
        self._frozen = [factor is None for _, factor in pairs]
        for part in (part for part, frozen in zip(parts, self._frozen, strict=True) if frozen):
            for parameter in part:
                parameter.requires_grad_(False)
        named = {id(parameter) for part in parts for parameter in part}
        rest = [parameter for parameter in every if id(parameter) not in named]
        self._rest = [1.0] if rest else []
        self.groups = [*([rest] if rest else []),
                       *(part for part, frozen in zip(parts, self._frozen, strict=True) if not frozen)]
        if not self.groups:
            raise AlgorithmFailed("rate_factors(network, ...) freezes all parameters, and nothing is left to train.")

    def of(self, config: Any) -> list[float]:
        """The factor of each of `groups` under the present configuration. Raises AlgorithmFailed."""
        if not self._frozen:
            return self._rest
        factors = [factor for _, factor in self._ask(config)]
        if [factor is None for factor in factors] != self._frozen:
            raise AlgorithmFailed(f"rate_factors(network, ...) named {_numbered(self._frozen)} at first, and now "
                                  f"{_numbered([factor is None for factor in factors])}. Name the same parts always; "
                                  "a factor of 1 changes nothing, and one of 0 holds a part still.")
        return [*self._rest, *(factor for factor in factors if factor is not None)]

    def _ask(self, config: Any) -> list[tuple[Any, float | None]]:
        with naming("rate_factors(network, ...)"):
            pairs = list(self._algorithm.rate_factors(self._network, config=config))
        for pair in pairs:
            if not (isinstance(pair, tuple | list) and len(pair) == 2):
                raise AlgorithmFailed(f"{_RULE}, not {pair!r:.80}.")
            factor = pair[1]
            number = isinstance(factor, int | float) and not isinstance(factor, bool)
            if factor is not None and not (number and math.isfinite(factor) and factor >= 0):
                raise AlgorithmFailed(f"{_RULE}, and a factor is a number from 0 on, or None for a frozen part, not "
                                      f"{factor!r:.80}.")
        return [(given, factor) for given, factor in pairs]


def _numbered(frozen: Sequence[bool]) -> str:
    return f"{len(frozen)} parts" + (f", {sum(frozen)} of them frozen" if any(frozen) else "")


def _parameters_of(number: int, given: Any) -> list[nn.Parameter]:
    """The parameters of a part. Raises AlgorithmFailed for what are none."""
    if isinstance(given, nn.Module) or not isinstance(given, Iterable):
        raise AlgorithmFailed(f"{_RULE}; part {number} has a {type(given).__name__} for parameters. Give a list of "
                              "them, such as network.torso.parameters().")
    parameters = list(given)
    if not parameters:
        raise AlgorithmFailed(f"part {number} of rate_factors(network, ...) has no parameters.")
    return parameters


def _check(parts: list[list[nn.Parameter]], every: list[nn.Parameter]) -> None:
    """Raises AlgorithmFailed for what is no parameter that is trained, and for one that is named twice."""
    known, first = {id(parameter) for parameter in every}, dict[int, int]()
    for number, part in enumerate(parts):
        for parameter in part:
            said = type(parameter).__name__
            if isinstance(parameter, nn.Parameter):
                said += f" of shape {tuple(parameter.shape)}"
            if id(parameter) not in known:
                raise AlgorithmFailed(f"part {number} of rate_factors(network, ...) has a {said}, which is a parameter "
                                      "neither of the network nor of parameters().")
            if (other := first.get(id(parameter))) is not None:
                raise AlgorithmFailed(f"rate_factors(network, ...) names a {said} twice, in parts {other} and {number}."
                                      " A parameter learns at one rate.")
            first[id(parameter)] = number
