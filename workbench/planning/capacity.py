"""The arithmetic of a plan: the capacities of a core, a learner, an accelerator and a network card.

All are bounds of a closed network, whose fullest part limits its speed. Rates are agent steps per second; sizes are
bytes; n is the number of environments in one message (a group of an actor).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

REQUEST_HEADER, REQUEST_ROW = 24, 5  # bytes: wire.messages; per row a reward (float32) and flags (uint8)
REPLY_HEADER = 20


def core_rate(measured: Mapping[int, float], n: int) -> float:
    """Steps/s of a core that steps groups of n, from the rates `measured` at some sizes.

    The time of a group is assumed linear in n between two measured sizes. Below the smallest it is too, but no rate is
    better than the best measured one. Beyond the largest size its rate holds; with a single measured size that rate
    holds everywhere.
    """
    sizes = sorted(measured)
    if n >= sizes[-1] or len(sizes) == 1:
        return measured[sizes[-1]]
    low, high = _around(sizes, n)
    linear_s = _linear(n, low, low / measured[low], high, high / measured[high])
    return n / max(linear_s, n / max(measured.values()))


def service_rate(measured: Mapping[int, float], n: int) -> float:
    """Steps/s of one learner's service in messages of n.

    The time of a message is linear in n, through the two measured sizes around n or nearest to it; beyond the largest
    measured size this extrapolates.
    """
    low, high = _around(sorted(measured), n)
    return n / _linear(n, low, low / measured[low], high, high / measured[high])


def _around(sizes: list[int], n: int) -> tuple[int, int]:
    above = next((at for at, size in enumerate(sizes) if size >= n), len(sizes) - 1)
    return sizes[max(above, 1) - 1], sizes[max(above, 1)]


def _linear(n: float, x: float, y: float, x2: float, y2: float) -> float:
    return y + (n - x) * (y2 - y) / (x2 - x)


def both_rate(inference: float, training: float) -> float:
    """Steps/s of an accelerator that both acts and trains on each step: 1 / (1 / inference + 1 / training)."""
    return 1 / (1 / inference + 1 / training)


def learner_rate(inference: float, training: float, update_steps: float, reduce_s: float) -> float:
    """Steps/s of a learner whose accelerator acts and trains, and whose updates end with averaging the gradients.

    While gradients are averaged, acting continues and training waits. With T = S / training, I = S / inference and
    r = reduce_s for an update of S steps, a cycle C has the averaging, the training, and the acting meanwhile:

        C = r + T + I (C - r) / C    so    C = (A + √(A² - 4 r I)) / 2   with   A = r + T + I
    """
    train_s, act_s = update_steps / training, update_steps / inference
    whole = reduce_s + train_s + act_s
    return 2 * update_steps / (whole + math.sqrt(whole**2 - 4 * reduce_s * act_s))


def step_bytes(observation: int, action: int, n: int, *, wire_share: float) -> tuple[float, float]:
    """Bytes per step to the learner and back, in messages of n, with the overhead of the wire."""
    up = REQUEST_HEADER / n + REQUEST_ROW + observation
    return up * wire_share, (REPLY_HEADER / n + action) * wire_share


def reduce_bytes(parameters: int, learners: int) -> float:
    """Bytes that each learner sends, and receives, to average one update's gradients (ring all-reduce, float32)."""
    return 0.0 if learners < 2 else 2 * 4 * parameters * (learners - 1) / learners


def groups_for(rate: float, n: int, latency_s: float) -> int:
    """Groups in flight that keep a core busy: one steps while the others wait `latency_s` for their actions."""
    return 1 + math.ceil(latency_s * rate / n - 1e-9)


def count_for(load: float, each: float, utilisation: float) -> int:
    """The number of parts of capacity `each` for `load`, none of them busier than `utilisation`."""
    return max(1, math.ceil(load / (each * utilisation) - 1e-9))
