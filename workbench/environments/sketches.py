"""Drawings of environments whose observations are a few numbers: which shape stands where at which numbers.

A sketch has shapes in metres, y upward, and a pose for each of them at each step, computed from the observations. The
page draws the shapes at their poses (widgets/src/sketch.js), and so does `draw` for saved notebooks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from PIL import Image, ImageDraw

from workbench.environment_spec import EnvironmentSpec
from workbench.trajectory import Array

Role = Literal["line", "data", "mark"]  # ground and outlines; the moving body; its moving part, or the goal
_COLOURS: dict[Role, str] = {"line": "#808080", "data": "#0072b2", "mark": "#d55e00"}
_WIDTH_PX = 240


class Shape(NamedTuple):
    """A polygon, or an open line of `width` metres, in its own coordinates."""

    role: Role
    points: tuple[tuple[float, float], ...]
    width: float = 0.0


class Sketch(NamedTuple):
    """How an environment is drawn.

    Attributes:
        box: left, bottom, right and top of what is seen.
        names: of an observation's entries.
        ranges: of the entries: what a healthy episode stays within.
        shapes: drawn in this order.
        pose: of observations [N, entries], the place x, y and the angle (anticlockwise) of every shape, [N, shapes, 3].
    """

    box: tuple[float, float, float, float]
    names: tuple[str, ...]
    ranges: tuple[tuple[float, float], ...]
    shapes: tuple[Shape, ...]
    pose: Callable[[Array], Array]

    def poses(self, observations: Array) -> Array:
        """The poses at observations [N, entries], float32 [N, shapes, 3], without a NaN."""
        poses: Array = np.nan_to_num(self.pose(observations.astype(np.float64)), posinf=0.0, neginf=0.0)
        return poses.astype(np.float32)

    def to_json(self) -> dict[str, Any]:
        """What a page needs to draw it at given poses."""
        return {"box": self.box, "shapes": [shape._asdict() for shape in self.shapes]}


def sketch_of(spec: EnvironmentSpec) -> Sketch | None:
    """The sketch of an environment such as CartPole-v1 with as many numbers as the sketch names, or None."""
    sketch = _named(spec.name)
    shape = None if sketch is None or spec.parts else (len(sketch.names),)
    return sketch if shape == spec.observation_shape else None


def entry_names(environment: str, names: Sequence[str]) -> list[str]:
    """What a sketch calls the numbers x[0], x[1], ... of an observation; without one, `names` as they are."""
    sketch = _named(environment)
    plain = sketch is not None and list(names) == [f"x[{entry}]" for entry in range(len(sketch.names))]
    return list(sketch.names if sketch is not None and plain else names)


def _named(environment: str) -> Sketch | None:
    return _SKETCHES.get(environment.rpartition("-")[0])


def draw(sketch: Sketch, observation: Array) -> Array:
    """The picture of one observation [entries], uint8 [H, W, 3]."""
    left, bottom, right, top = sketch.box
    scale = _WIDTH_PX / (right - left)
    picture = Image.new("RGB", (_WIDTH_PX, round((top - bottom) * scale)), "white")
    pen = ImageDraw.Draw(picture)
    for shape, (x, y, angle) in zip(sketch.shapes, sketch.poses(observation[None])[0].tolist(), strict=True):
        turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        places = np.array(shape.points) @ turn + (x, y)
        pixels = [(float(u), float(v)) for u, v in np.clip((places - (left, top)) * (scale, -scale), -9999, 9999)]
        colour = _COLOURS[shape.role]
        if shape.width:
            pen.line(pixels, fill=colour, width=max(1, round(shape.width * scale)), joint="curve")
        else:
            pen.polygon(pixels, fill=colour)
    return np.asarray(picture)


def _poses(number: int, *poses: tuple[Array | float, Array | float, Array | float]) -> Array:
    """[number, shapes, 3] from x, y and angle of each shape, each a number or [number]."""
    return np.stack([np.stack([np.broadcast_to(value, number) for value in pose], -1) for pose in poses], 1)


def _box(left: float, bottom: float, right: float, top: float) -> tuple[tuple[float, float], ...]:
    return ((left, bottom), (right, bottom), (right, top), (left, top))


def _disc(radius: float) -> tuple[tuple[float, float], ...]:
    turns = np.linspace(0, 2 * np.pi, 17)[:-1]
    return tuple(zip((radius * np.cos(turns)).tolist(), (radius * np.sin(turns)).tolist(), strict=True))


def _cart_pole(observations: Array) -> Array:
    x, angle = observations[:, 0], observations[:, 2]
    return _poses(len(x), (0, 0, 0), (x, 0, 0), (x, 0.1, -angle), (x, 0.1, 0))


def _mountain(x: Array) -> Array:
    """Height of the valley of MountainCar at x."""
    height: Array = 0.45 * np.sin(3 * x) + 0.55
    return height


def _mountain_car(observations: Array) -> Array:
    x = observations[:, 0]
    slope = np.arctan(1.35 * np.cos(3 * x))
    return _poses(len(x), (0, 0, 0), (0, 0, 0), (x, _mountain(x), slope))


def _acrobot(observations: Array) -> Array:
    first = np.arctan2(observations[:, 1], observations[:, 0])
    second = first + np.arctan2(observations[:, 3], observations[:, 2])
    x, y = np.sin(first), -np.cos(first)  # of the free joint
    return _poses(len(x), (0, 0, 0), (0, 0, first), (x, y, second), (0, 0, 0), (x, y, 0))


def _pendulum(observations: Array) -> Array:
    angle = np.arctan2(observations[:, 1], observations[:, 0])
    return _poses(len(angle), (0, 0, 0), (0, 0, angle), (0, 0, 0))


_VALLEY = tuple((x, float(_mountain(np.array(x)))) for x in np.linspace(-1.2, 0.6, 37).tolist())
_CAR = Sketch(
    box=(-1.25, -0.05, 0.65, 1.2), names=("position", "velocity"), ranges=((-1.2, 0.6), (-0.07, 0.07)),
    shapes=(
        Shape("line", _VALLEY, 0.012),
        Shape("mark", ((0.5, 1.0), (0.5, 1.15), (0.58, 1.12), (0.508, 1.09), (0.508, 1.0))),
        Shape("data", ((-0.06, 0.015), (0.06, 0.015), (0.06, 0.05), (0.03, 0.08), (-0.03, 0.08), (-0.06, 0.05))),
    ),
    pose=_mountain_car,
)
_SKETCHES = {
    "CartPole": Sketch(
        box=(-2.6, -0.4, 2.6, 1.4), names=("cart position", "cart velocity", "pole angle", "pole velocity"),
        ranges=((-2.4, 2.4), (-3.0, 3.0), (-0.21, 0.21), (-3.0, 3.0)),
        shapes=(
            Shape("line", ((-2.4, 0.0), (2.4, 0.0)), 0.02), Shape("data", _box(-0.25, -0.12, 0.25, 0.12)),
            Shape("mark", _box(-0.04, 0.0, 0.04, 1.0)), Shape("line", _disc(0.05)),
        ),
        pose=_cart_pole,
    ),
    "MountainCar": _CAR,
    "MountainCarContinuous": _CAR,
    "Acrobot": Sketch(
        box=(-2.2, -2.2, 2.2, 2.2),
        names=("cos of angle 1", "sin of angle 1", "cos of angle 2", "sin of angle 2", "velocity 1", "velocity 2"),
        ranges=((-1, 1), (-1, 1), (-1, 1), (-1, 1), (-12.57, 12.57), (-28.28, 28.28)),
        shapes=(
            Shape("line", ((-2.2, 1.0), (2.2, 1.0)), 0.02), Shape("data", _box(-0.08, -1.0, 0.08, 0.0)),
            Shape("mark", _box(-0.08, -1.0, 0.08, 0.0)), Shape("line", _disc(0.1)), Shape("line", _disc(0.1)),
        ),
        pose=_acrobot,
    ),
    "Pendulum": Sketch(
        box=(-1.3, -1.3, 1.3, 1.3), names=("cos of angle", "sin of angle", "velocity"),
        ranges=((-1, 1), (-1, 1), (-8, 8)),
        shapes=(
            Shape("line", ((0.0, 1.0), (0.0, 1.2)), 0.02), Shape("mark", _box(-0.08, 0.0, 0.08, 1.0)),
            Shape("line", _disc(0.06)),
        ),
        pose=_pendulum,
    ),
}
