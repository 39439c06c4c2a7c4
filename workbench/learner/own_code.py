"""What a user's own algorithm raises in the learner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from workbench.algorithms.interface import Algorithm
from workbench.errors import AlgorithmFailed
from workbench.learner.training.data_parallel import is_loss


def is_own(algorithm: Algorithm) -> bool:
    """Whether a user wrote it."""
    return not type(algorithm).__module__.startswith("workbench.")


@contextmanager
def own_code(algorithm: Algorithm, call: str, when: str = "") -> Iterator[None]:
    """In this block an error of an algorithm that a user wrote becomes AlgorithmFailed, with its traceback: it ends the
    run, since another life would meet it again. Shipped algorithms, and the loss of another learner, are let through.
    """
    try:
        yield
    except Exception as error:
        if not is_own(algorithm) or is_loss(error):
            raise
        raise AlgorithmFailed.of(call, error, when) from error
