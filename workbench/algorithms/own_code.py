"""What a user's own algorithm or network raises or returns, wherever it is called."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

import torch
from torch import Tensor, nn

from workbench.algorithms import returned
from workbench.algorithms.interface import Algorithm, NetworkOutput, Roles
from workbench.errors import AlgorithmFailed, NetworkFailed


def is_own(made: Algorithm | nn.Module | type) -> bool:
    """Whether a user wrote the class of an algorithm, or of a part of a network."""
    kind = made if isinstance(made, type) else type(made)
    return not kind.__module__.startswith(("workbench.", "torch."))


@contextmanager
def own_code(
    algorithm: Algorithm | type[Algorithm], call: str, when: str = "", *,
    lets: Callable[[BaseException], bool] = lambda error: False,
) -> Iterator[None]:
    """In this block an error of an algorithm that a user wrote becomes AlgorithmFailed, with its traceback: it ends the
    run, since another life would meet it again. Errors of shipped algorithms, and those that it `lets` pass, stay.
    """
    try:
        yield
    except (Exception, SystemExit) as error:
        if not is_own(algorithm) or isinstance(error, AlgorithmFailed | NetworkFailed) or lets(error):
            raise
        raise AlgorithmFailed.of(call, error, when) from error


@contextmanager
def own_network(network: nn.Module, when: str) -> Iterator[None]:
    """In this block an error that comes through a `forward` that a user wrote becomes NetworkFailed, as in `own_code`;
    but not where memory runs out or the device fails, which another life may not meet. One that says what is wrong with
    a network says when, too."""
    try:
        yield
    except NetworkFailed as error:
        raise NetworkFailed(f"{when.strip()}, {error}") from error.__cause__
    except Exception as error:
        forwards = {_place(type(part).forward.__code__) for part in network.modules()
                    if is_own(part) and hasattr(type(part).forward, "__code__")}
        if (isinstance(error, MemoryError | torch.OutOfMemoryError | torch.AcceleratorError)
                or re.search("allocate memory|ALLOC_FAILED", str(error))
                or not any(_place(frame.f_code) in forwards for frame, _ in traceback.walk_tb(error.__traceback__))):
            raise
        raise NetworkFailed(f"the network raised {type(error).__name__}{when}: {error}\n\n"
                            + "".join(traceback.format_exception(error)).rstrip()) from error


def _place(code: CodeType) -> tuple[str, int]:
    """Where it was written, which its compiled form has, too."""
    return code.co_filename, code.co_firstlineno


def act(
    algorithm: Algorithm, output: NetworkOutput, *, roles: Roles, greedy: bool, generator: torch.Generator | None,
    config: Any,
) -> tuple[Tensor, dict[str, Tensor]]:
    """`algorithm.act`, checked where a user wrote it. Raises AlgorithmFailed."""
    with own_code(algorithm, "act(...)"):
        acted = algorithm.act(output, roles=roles, greedy=greedy, generator=generator, config=config)
    if is_own(algorithm):
        returned.check_act(acted, algorithm=algorithm, rows=len(roles.rank))
    return acted
