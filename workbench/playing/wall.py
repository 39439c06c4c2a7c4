"""Follows many environments of a run: each look returns the newest step of those that have a new one.

The learner keeps one step of each requested environment a few times a second (`learner.inference.wall_tap`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from workbench.environment_spec import EnvironmentSpec
from workbench.environments import observations
from workbench.environments.sketches import Sketch, sketch_of
from workbench.errors import InvalidInput, RunNotAlive, RunNotFound, WorkbenchError
from workbench.playing.action_words import in_words
from workbench.playing.watch import LOOK_S, why_nothing
from workbench.running.connection import Control
from workbench.trajectory import Array
from workbench.wire import columns


@dataclass(frozen=True)
class Cell:
    """The newest step of one environment.

    Attributes:
        picture: uint8 [channels, height, width], or the observation's first numbers, float32 [entries].
        sketch, pose: how it is drawn from its numbers, with the pose of each shape, float32 [shapes, 3]; or None.
        action: in words.
    """

    env: int
    picture: Array
    sketch: Sketch | None
    pose: Array | None
    action: str
    episode_return: float
    episode_step: int


@dataclass(frozen=True)
class WallLook:
    """The new steps of one look.

    Attributes:
        note: why there is none; else "".
        over: the run has ended, so no further step will come.
    """

    cells: list[Cell] = field(default_factory=list)
    note: str = ""
    over: bool = False


class Wall:
    """Watches environments of a run: all, or 64 that are spread evenly over them. Raises RunNotAlive.

    Attributes:
        envs: those of the last look that was answered.
        number: how many the run had then.
    """

    def __init__(self, control: Control) -> None:
        self._control = control
        self.number, self.envs = 0, list[int]()
        self._cursors: dict[str, str] = {}
        self._ask()

    @property
    def run(self) -> str:
        """The run's name."""
        return self._control.directory.name

    def look(self) -> WallLook:
        """The new steps. Never raises for an ended or broken run: the look's note then has the reason."""
        try:
            answer = self._ask()
            cells = [cell for part in answer["answers"].values() if part["envs"] for cell in _cells(part)]
        except WorkbenchError as error:
            return WallLook(note=str(error), over=isinstance(error, RunNotAlive | RunNotFound))
        return WallLook(cells, "" if cells else why_nothing(answer))

    def _ask(self) -> dict[str, Any]:
        answer: dict[str, Any] = self._control.call("wall", timeout_s=LOOK_S, since=self._cursors)
        parts = answer["answers"].values()
        self._cursors = {rank: part["cursor"] for rank, part in answer["answers"].items()}
        self.number, self.envs = answer["number"], answer["envs"]
        if parts and all("shown" in part for part in parts):
            self.envs = sorted(env for part in parts for env in part["shown"])
        if not self.envs:
            raise InvalidInput(f"{self.run} has no environment that its own policy plays.")
        return answer


def _cells(part: dict[str, Any]) -> list[Cell]:
    """The steps in a learner's answer."""
    spec = EnvironmentSpec.from_json(part["environment"])
    steps = columns.received(part)
    seen = steps["observation"]
    sketch = sketch_of(spec)
    poses = None if sketch is None else sketch.poses(seen)
    pictures = observations.on_page(seen, parts=spec.parts).values
    return [
        Cell(env, pictures[at], sketch, None if poses is None else poses[at],
             in_words(spec.actions, part["action_names"], steps["action"][at]),
             float(steps["episode_return"][at]), int(steps["episode_step"][at]))
        for at, env in enumerate(part["envs"])
    ]
