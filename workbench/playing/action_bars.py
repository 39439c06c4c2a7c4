"""Draws a policy's scores and action at one step as a small picture, for films and saved notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from workbench.environment_spec import ActionSpec
from workbench.playing.action_words import groups, split
from workbench.trajectory import Array

_BAR, _CHOSEN, _GREY = (42, 128, 196, 255), (213, 94, 0, 255), (138, 143, 152, 255)  # visible on black and on white
_MARK_PX = 3  # half the size of a dot


def strip(
    actions: ActionSpec, scores: Array, action: Array, *, domain: tuple[float, float], size: tuple[int, int]
) -> Array:
    """The policy of one step, uint8 [height, width, 4], with a transparent ground; `size`: (width, height).

    Each choice or switch is a bar, orange if it was taken. A number is its range, with the mean as a line and the
    action as a dot. There is a gap between parts.

    Args:
        scores: [A], as `playing.worker.played_episode` stores them: probabilities, Q-values, or means.
        domain: lowest and highest score of the episode; (0, 1) for probabilities.
    """
    width, height = size
    image = Image.new("RGBA", size)
    draw = ImageDraw.Draw(image)
    for (first, last), score, (is_number, done) in zip(
            _places(actions, width), scores.tolist(), _marks(actions, action), strict=True):
        if is_number:
            _axis(draw, first, last, height, score, done)
            continue
        tops = sorted(_heights((score, min(max(0.0, domain[0]), domain[1])), domain, height))
        draw.rectangle((first, tops[0], last, max(tops[1], tops[0])), _CHOSEN if done else _BAR)
        draw.line((first, height - 1, last, height - 1), _CHOSEN if done else _GREY)
    return np.asarray(image)


def domain_of(actions: ActionSpec, q_values: Array | None) -> tuple[float, float]:
    """The lowest and highest score of an episode: of its Q-values if it has any, else of the scores' range."""
    if q_values is None:
        return (0.0, 1.0) if actions.kind != "tanh_normal" else (-1.0, 1.0)
    return float(q_values.min()), float(q_values.max())


def _marks(actions: ActionSpec, action: Array) -> list[tuple[bool, float]]:
    """Of each bar whether it is of a number, and the number that was taken, or whether the choice or switch was."""
    if actions.parts:
        every = zip((part.actions for part in actions.parts), split(actions, action), strict=True)
        return [mark for part, own in every for mark in _marks(part, own)]
    values = np.atleast_1d(action).tolist()
    if actions.kind in ("bernoulli", "tanh_normal"):
        return [(actions.kind == "tanh_normal", value) for value in values]
    return [(False, at == choice) for choice, size in zip(values, actions.sizes, strict=True) for at in range(size)]


def _places(actions: ActionSpec, width: int) -> list[tuple[int, int]]:
    """First and last column of each bar, with a bar's width between parts."""
    sizes = [len(group.names) for group in groups(actions, ())]
    slots = [number + at for at, number in enumerate(_numbers(sizes))]
    each = width / (sum(sizes) + len(sizes) - 1)
    gap = 2 if each >= 6 else 1 if each >= 3 else 0
    return [(int(slot * each), max(int(slot * each), int((slot + 1) * each) - 1 - gap)) for part in slots
            for slot in part]


def _numbers(sizes: Sequence[int]) -> list[Array]:
    ends = np.cumsum(sizes)
    return [np.arange(end - size, end) for size, end in zip(sizes, ends, strict=True)]


def _heights(values: Sequence[float], domain: tuple[float, float], height: int) -> list[int]:
    """The pixel row of each value, with the highest value at the top."""
    low, high = domain
    return [round((1 - min(1.0, max(0.0, (value - low) / ((high - low) or 1)))) * (height - 1)) for value in values]


def _axis(draw: Any, first: int, last: int, height: int, middle: float, number: float) -> None:
    """Draw one number from -1 at the bottom to 1 at the top."""
    across = (first + last) // 2
    zero_row, mean_row, action_row = _heights((0.0, middle, number), (-1.0, 1.0), height - 2 * _MARK_PX)
    zero_row, mean_row, action_row = (row + _MARK_PX for row in (zero_row, mean_row, action_row))
    draw.line((across, _MARK_PX, across, height - 1 - _MARK_PX), _GREY)
    draw.line((across - 2, zero_row, across + 2, zero_row), _GREY)
    half_width = max(4, min(9, (last - first) // 2))
    draw.line((across - half_width, mean_row, across + half_width, mean_row), _BAR, width=3)
    draw.ellipse((across - _MARK_PX, action_row - _MARK_PX, across + _MARK_PX, action_row + _MARK_PX), _CHOSEN)
