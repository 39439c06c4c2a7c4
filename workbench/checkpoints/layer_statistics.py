"""Statistics of a checkpoint's tensors, layer by layer, and the differences of two checkpoints; NumPy alone.

A layer is one tensor of the group `model`, such as torso.dense.weight. Tensors are mapped from the disk and read in
pieces, so that a network may be larger than memory. Sums are in float64. `layers` counts weights that are not finite,
and leaves them out, as histograms do; the numbers of `differences` are then NaN or infinite.

Gradients are not in a checkpoint, but the optimizer's mean of their squares is. With Adam (β = β₂) or RMSProp (β = its
decay), and g_i the gradient of update i (clipped where the run clips):

    v_t = β v_{t-1} + (1-β) g_t²        root mean square of g = √(v_t / (1 - β^t))

a mean over about the last 1/(1-β) updates. √(Σ v_t / (1 - β^t)) over a layer is the root mean square of the norm ‖g‖
of that layer's gradient.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from workbench.errors import CheckpointCorrupt

if TYPE_CHECKING:
    from workbench.checkpoints.checkpoint import Checkpoint

Array = npt.NDArray[Any]

BINS = 48
SILENT = 1e-4  # a unit is dead if its gradient is below this part of that of its layer's median unit
_MOMENTS = {"exp_avg_sq": "adam_beta2", "square_avg": "rmsprop_decay"}  # in the optimizer's state; and its β
_PIECE = 2**20  # numbers read together


@dataclass(frozen=True)
class Layer:
    """One tensor of a network.

    Attributes:
        norm: Euclidean norm ‖w‖.
        rms: root mean square of its numbers.
        low, high: the smallest and the largest.
        zeros: share of numbers that are exactly 0.
        dead_units: share of units (rows of a tensor with two axes or more) whose weights are all 0, or that get no
            gradient: less than `SILENT` of the layer's median unit. Means fade, so that a unit shows some 18/(1-β)
            updates after its death. NaN for tensors with one axis, such as biases.
        not_finite: how many numbers are infinite or NaN.
        gradient_norm: root mean square of the norm of its gradient, over about the last 1/(1-β) updates; NaN where
            the checkpoint has no such means.
        gradient_rms: likewise of one number of the gradient.
    """

    name: str
    shape: tuple[int, ...]
    norm: float
    rms: float
    low: float
    high: float
    zeros: float
    dead_units: float
    not_finite: int
    gradient_norm: float
    gradient_rms: float


@dataclass(frozen=True)
class Difference:
    """One tensor of two networks, w and w'.

    Attributes:
        norm, other_norm: ‖w‖ and ‖w'‖; NaN for a missing tensor.
        difference: ‖w' - w‖, NaN where a tensor is in one of them alone, or the shapes differ.
        relative_difference: ‖w' - w‖ / ‖w‖; infinite where w is 0 and w' is not.
        cosine: of the angle between w and w'; NaN where one is 0.
        only_in: "self", "other" or "".
    """

    name: str
    shape: tuple[int, ...]
    norm: float
    other_norm: float
    difference: float
    relative_difference: float
    cosine: float
    only_in: str


def layers(checkpoint: Checkpoint) -> Iterator[Layer]:
    """The layers of its network, one after the other, in the network's order if it is known.

    Raises CheckpointCorrupt.
    """
    tensors, moments = checkpoint.open("model"), _second_moments(checkpoint)
    for name in _ordered(checkpoint, tensors):
        yield _layer(name, tensors[name], moments.get(name))


def _layer(name: str, tensor: Array, moments: tuple[Array, float] | None) -> Layer:
    low, high, squares, zeros, finite = np.inf, -np.inf, 0.0, 0, 0
    for piece in _pieces(tensor):
        numbers = piece[np.isfinite(piece)]
        finite += numbers.size
        if numbers.size:
            low, high = min(low, float(numbers.min())), max(high, float(numbers.max()))
            squares += float(numbers @ numbers)
            zeros += int(np.count_nonzero(numbers == 0))
    gradient = _gradient_squares(moments)
    size = tensor.size or 1
    return Layer(
        name, tensor.shape, math.sqrt(squares), math.sqrt(squares / finite) if finite else np.nan,
        low if finite else np.nan, high if finite else np.nan, zeros / size, _dead_units(tensor, moments),
        tensor.size - finite, math.sqrt(gradient), math.sqrt(gradient / size),
    )  # fmt: skip


def _gradient_squares(moments: tuple[Array, float] | None) -> float:
    """Mean of ‖g‖²; NaN if unknown."""
    if moments is None:
        return np.nan
    tensor, correction = moments
    squares = sum(float(piece.sum()) for piece in _pieces(tensor))
    return squares / correction if squares >= 0 else np.nan


def _dead_units(tensor: Array, moments: tuple[Array, float] | None) -> float:
    """Share of rows without weights or without gradient; NaN for a tensor without rows."""
    if tensor.ndim < 2 or not tensor.size:
        return np.nan
    dead = ~tensor.reshape(len(tensor), -1).any(1)
    if moments is not None and moments[0].shape == tensor.shape:
        squares = moments[0].reshape(len(tensor), -1).mean(1, dtype=np.float64)
        dead |= squares <= SILENT**2 * np.median(squares)
    return float(dead.mean())


def differences(first: Checkpoint, other: Checkpoint, *, group: str = "model") -> Iterator[Difference]:
    """The distance of `other` from `first`, tensor by tensor, sorted by name. Raises CheckpointCorrupt, UnknownName."""
    tensors, others = first.open(group), other.open(group)
    for name in sorted({*tensors, *others}):
        yield _difference(name, tensors.get(name), others.get(name))


def _difference(name: str, tensor: Array | None, other: Array | None) -> Difference:
    norm, other_norm = _norm(tensor), _norm(other)
    if tensor is None or other is None or tensor.shape != other.shape:
        shape = tensor.shape if tensor is not None else other.shape if other is not None else ()
        only_in = "other" if tensor is None else "self" if other is None else ""
        return Difference(name, shape, norm, other_norm, np.nan, np.nan, np.nan, only_in)
    squares = product = 0.0
    for a, b in zip(_pieces(tensor), _pieces(other), strict=True):
        squares += float((b - a) @ (b - a))
        product += float(a @ b)
    distance, both = math.sqrt(squares), norm * other_norm
    relative = distance / norm if norm else (np.inf if distance else 0.0)
    cosine = float(np.clip(product / both, -1, 1)) if both else np.nan
    return Difference(name, tensor.shape, norm, other_norm, distance, relative, cosine, "")


def _norm(tensor: Array | None) -> float:
    return np.nan if tensor is None else math.sqrt(sum(float(piece @ piece) for piece in _pieces(tensor)))


def histogram(tensor: Array, *, edges: Array | None = None, bins: int = BINS) -> tuple[Array, Array]:
    """Edges float64 [N+1] and counts int64 [N] of its finite numbers, without those outside `edges`."""
    if edges is None:
        edges = edges_of(tensor, bins=bins)
    counts = np.zeros(len(edges) - 1, np.int64)
    for piece in _pieces(tensor):
        counts += np.histogram(piece[np.isfinite(piece)], edges)[0]
    return edges, counts


def edges_of(*tensors: Array, bins: int = BINS) -> Array:
    """The edges of `bins` bins of equal width that hold all finite numbers of the tensors."""
    low, high = np.inf, -np.inf
    for tensor in tensors:
        for piece in _pieces(tensor):
            numbers = piece[np.isfinite(piece)]
            low, high = min(low, numbers.min(initial=np.inf)), max(high, numbers.max(initial=-np.inf))
    if low > high:
        low, high = 0.0, 0.0
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, bins + 1)


def _pieces(tensor: Array) -> Iterator[Array]:
    """All numbers in float64, at most `_PIECE` together; NaN and infinity included."""
    flat = tensor.reshape(-1)
    for start in range(0, len(flat), _PIECE):
        yield flat[start : start + _PIECE].astype(np.float64)


# --- the optimizer ----------------------------------------------------------------------------------------------------


def _trained(checkpoint: Checkpoint) -> list[str]:
    """Names of the network's parameters in the optimizer's order; [] if the checkpoint has no list of them."""
    names = checkpoint.meta.get("trained", [])
    return list(dict.fromkeys(map(str, names))) if isinstance(names, list) else []


def _ordered(checkpoint: Checkpoint, tensors: dict[str, Array]) -> list[str]:
    """Names of tensors, the trained ones first and in the network's order."""
    trained = [name for name in _trained(checkpoint) if name in tensors]
    return [*trained, *sorted(tensors.keys() - set(trained))]


def _second_moments(checkpoint: Checkpoint) -> dict[str, tuple[Array, float]]:
    """The optimizer's mean of squared gradients by layer, each with its divisor 1 - β^t. {} if unknown.

    Raises CheckpointCorrupt.
    """
    if "optimizer" not in checkpoint.groups or not _trained(checkpoint):
        return {}
    state = checkpoint.open("optimizer")
    second_moments: dict[str, tuple[Array, float]] = {}
    for index, name in enumerate(_trained(checkpoint)):
        for kind, beta in _MOMENTS.items():
            moments, updates = state.get(f"{index}.{kind}"), state.get(f"{index}.step")
            if moments is None or updates is None or updates.size != 1:
                continue
            correction = 1 - _beta(checkpoint, beta) ** max(0.0, float(updates.reshape(())))
            if correction > 0:
                second_moments[name] = (moments, correction)
    return second_moments


def _beta(checkpoint: Checkpoint, name: str) -> float:
    try:
        beta = float(checkpoint.meta["config"]["hyperparameters"][name])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise CheckpointCorrupt(f"{checkpoint.path} has no valid {name}, which its optimizer has: {error!r:.200}. "
                                "Use an older checkpoint.") from None
    if not 0 <= beta <= 1:
        raise CheckpointCorrupt(f"{checkpoint.path} has {name}={beta}, which must lie in [0, 1]. Use an older "
                                "checkpoint.")
    return beta
