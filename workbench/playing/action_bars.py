"""What a policy said and did at a step, as a small picture: in films and in what a saved notebook keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from workbench.trajectory import ActionSpec, Array

_BAR, _CHOSEN, _GREY = (42, 128, 196, 255), (213, 94, 0, 255), (138, 143, 152, 255)  # seen on black and on white
_MARK_PX = 3  # half the size of a dot


def strip(
    actions: ActionSpec, scores: Array, action: Array, *, domain: tuple[float, float], size: tuple[int, int]
) -> Array:
    """The policy of one step, uint8 [height, width, 4], with a transparent ground; `size`: (width, height).

    A bar for each choice or switch, those taken in orange; for a number its range with the middle as a line and what
    was done as a dot. Parts stand apart.

    Args:
        scores: [A], as `playing.worker.rollout` keeps them: probabilities, Q-values, or middles.
        domain: lowest and highest score of the episode; (0, 1) of probabilities.
    """
    width, height = size
    image = Image.new("RGBA", size)
    draw = ImageDraw.Draw(image)
    places = _places(actions, width)
    if actions.kind == "tanh_normal":
        for (left, right), middle, number in zip(places, scores.tolist(), action.tolist(), strict=True):
            _axis(draw, left, right, height, middle, number)
    else:
        for (left, right), score, marked in zip(places, scores.tolist(), _marked(actions, action), strict=True):
            tops = sorted(_heights((score, min(max(0.0, domain[0]), domain[1])), domain, height))
            draw.rectangle((left, tops[0], right, max(tops[1], tops[0])), _CHOSEN if marked else _BAR)
            draw.line((left, height - 1, right, height - 1), _CHOSEN if marked else _GREY)
    return np.asarray(image)


def domain_of(actions: ActionSpec, q_values: Array | None) -> tuple[float, float]:
    """Lowest and highest score of an episode: of its Q-values, where it has some."""
    if q_values is None:
        return (0.0, 1.0) if actions.kind != "tanh_normal" else (-1.0, 1.0)
    return float(q_values.min()), float(q_values.max())


def _marked(actions: ActionSpec, action: Array) -> list[bool]:
    if actions.kind == "bernoulli":
        return [bool(on) for on in action]
    chosen = np.atleast_1d(action).tolist()
    return [at == own for own, size in zip(chosen, actions.sizes, strict=True) for at in range(size)]


def _places(actions: ActionSpec, width: int) -> list[tuple[int, int]]:
    """First and last column of each bar: next to each other, and a bar's width between parts."""
    sizes = actions.sizes if actions.kind in ("categorical", "multi_discrete") else (len(actions.sizes),)
    slots = [number + at for at, number in enumerate(_numbers(sizes))]
    each = width / (sum(sizes) + len(sizes) - 1)
    gap = 2 if each >= 6 else 1 if each >= 3 else 0
    return [(int(slot * each), max(int(slot * each), int((slot + 1) * each) - 1 - gap)) for part in slots
            for slot in part]


def _numbers(sizes: Sequence[int]) -> list[Array]:
    ends = np.cumsum(sizes)
    return [np.arange(end - size, end) for size, end in zip(sizes, ends, strict=True)]


def _heights(values: Sequence[float], domain: tuple[float, float], height: int) -> list[int]:
    """Rows of values: the highest at the top."""
    low, high = domain
    return [round((1 - min(1.0, max(0.0, (value - low) / ((high - low) or 1)))) * (height - 1)) for value in values]


def _axis(draw: Any, left: int, right: int, height: int, middle: float, number: float) -> None:
    """One number: -1 at the bottom, 1 at the top."""
    across = (left + right) // 2
    zero, mean, done = _heights((0.0, middle, number), (-1.0, 1.0), height - 2 * _MARK_PX)
    zero, mean, done = (one + _MARK_PX for one in (zero, mean, done))
    draw.line((across, _MARK_PX, across, height - 1 - _MARK_PX), _GREY)
    draw.line((across - 2, zero, across + 2, zero), _GREY)
    wide = max(4, min(9, (right - left) // 2))
    draw.line((across - wide, mean, across + wide, mean), _BAR, width=3)
    draw.ellipse((across - _MARK_PX, done - _MARK_PX, across + _MARK_PX, done + _MARK_PX), _CHOSEN)
