"""A learning curve as a small SVG, without script and style sheet; its axes have the colour of the page's text."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

import numpy as np

from workbench.trajectory import Array

_WIDTH, _HEIGHT = 640, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 12, 24, 40
_LARGEST = 1e300
_COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c")

Points = tuple[Array, Array]  # x and y, of the same length


def curve(lines: Mapping[str, Points], *, x_title: str, y_title: str) -> str:
    """Lines by name over common axes as SVG; "" where no line has two points."""
    finite = {name: (np.abs(x) < _LARGEST) & (np.abs(y) < _LARGEST) for name, (x, y) in lines.items()}
    curves = {name: (x[finite[name]], y[finite[name]]) for name, (x, y) in lines.items() if finite[name].sum() > 1}
    if not curves:
        return ""
    xs, ys = (_ends([points[axis] for points in curves.values()]) for axis in (0, 1))
    parts = [_axis_x(xs, x_title), _axis_y(ys, y_title)]
    for number, (name, points) in enumerate(curves.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        path = " ".join(f"{_at_x(x, xs):.1f},{_at_y(y, ys):.1f}" for x, y in zip(*points, strict=True))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts.append(_text(_LEFT + 8 + 150 * number, 14, name, colour=colour))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
            f'height="{_HEIGHT}" role="img" font-family="sans-serif" font-size="11" color="#555">\n'
            f"<title>{html.escape(y_title)} over {html.escape(x_title)}</title>\n" + "\n".join(parts) + "\n</svg>")


def _ends(arrays: Sequence[Array]) -> tuple[float, float]:
    low, high = min(float(array.min()) for array in arrays), max(float(array.max()) for array in arrays)
    largest = max(abs(low), abs(high))
    if high - low > max(1e-9 * largest, 1e-300):  # else all ticks would have one label
        return low, high
    margin = max(0.5, 1e-3 * largest)
    return low - margin, high + margin


def _at_x(x: float, ends: tuple[float, float]) -> float:
    return _LEFT + (x - ends[0]) / (ends[1] - ends[0]) * (_WIDTH - _LEFT - _RIGHT)


def _at_y(y: float, ends: tuple[float, float]) -> float:
    return _HEIGHT - _BOTTOM - (y - ends[0]) / (ends[1] - ends[0]) * (_HEIGHT - _TOP - _BOTTOM)


def _axis_x(ends: tuple[float, float], title: str) -> str:
    bottom = _HEIGHT - _BOTTOM
    parts = [f'<path d="M{_LEFT} {bottom}H{_WIDTH - _RIGHT}" stroke="currentColor"/>']
    parts += [_text(_at_x(tick, ends), bottom + 14, _number(tick), anchor="middle") for tick in ticks(*ends)]
    return "\n".join([*parts, _text((_LEFT + _WIDTH) / 2, _HEIGHT - 6, title, anchor="middle")])


def _axis_y(ends: tuple[float, float], title: str) -> str:
    parts = []
    for tick in ticks(*ends):
        y = _at_y(tick, ends)
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" stroke="currentColor" stroke-opacity="0.2"/>')
        parts.append(_text(_LEFT - 6, y + 4, _number(tick), anchor="end"))
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    turned = f'<g transform="translate(12 {middle:.0f}) rotate(-90)">{_text(0, 0, title, anchor="middle")}</g>'
    return "\n".join([*parts, turned])


def ticks(low: float, high: float) -> list[float]:
    """Three to seven round numbers from `low` to `high`."""
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def _number(value: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _text(x: float, y: float, text: str, *, anchor: str = "start", colour: str = "currentColor") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{html.escape(text)}</text>'
