"""A STAND-IN for the package `deepmind_lab`, which has no wheel and was never run here.

It follows the package's documentation (google-deepmind/lab docs/users/python_api.md, actions.md, observations.md,
levels.md) and the source of its Python module (python/dmlab_module.c) in what can be seen from Python: arguments and
their types, errors and their kinds, the states in which a call is allowed, what is returned. What it draws, rewards and
says is made up: a picture that depends on level, seed, episode, frame and heading; a reward for going forward.

Tests put it into `sys.modules["deepmind_lab"]`, and may shorten `EPISODE_FRAMES`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

EPISODE_FRAMES = 5400  # 90 s at 60 frames per second
READABLE, WRITABLE, LISTABLE = 1, 2, 4

_LEVELS = {  # whether the map is generated anew for each episode
    "contributed/dmlab30/rooms_watermaze": False,
    "contributed/dmlab30/explore_goal_locations_small": True,
    "contributed/dmlab30/language_select_described_object": True,
    "contributed/dmlab30/rooms_collect_good_objects_train": False,
    "contributed/dmlab30/rooms_collect_good_objects_test": False,
    "nav_maze_static_01": False,
    "tests/empty_room_test": False,
}
_ACTIONS = (
    ("LOOK_LEFT_RIGHT_PIXELS_PER_FRAME", -512, 512), ("LOOK_DOWN_UP_PIXELS_PER_FRAME", -512, 512),
    ("STRAFE_LEFT_RIGHT", -1, 1), ("MOVE_BACK_FORWARD", -1, 1), ("FIRE", 0, 1), ("JUMP", 0, 1), ("CROUCH", 0, 1),
)  # fmt: skip
_DRAWN = ("RGB_INTERLEAVED", "RGB", "RGB_INTERLACED")
_CLOSED, _UNINITIALIZED, _INITIALIZED, _RUNNING, _TERMINATED = range(5)

_runfiles = ["."]


def version() -> str:
    """The wrapper's, which never changes."""
    return "1.0"


def runfiles_path() -> str:
    """Where the package's own files are."""
    return _runfiles[0]


def set_runfiles_path(path: str) -> bool:
    """Sets `runfiles_path`."""
    if not isinstance(path, str):
        raise TypeError("argument 1 must be str")
    _runfiles[0] = path
    return True


class Lab:
    """An environment. Beside the package's own methods, `made` has all there were, for tests to look at."""

    made: list[Lab] = []  # tests clear it

    def __init__(
        self, level: str, observations: list[str], config: dict[str, str] | None = None, renderer: str = "software",
        level_cache: Any = None, temp_folder: str = "",
    ) -> None:
        if not isinstance(level, str) or not isinstance(renderer, str) or not isinstance(temp_folder, str):
            raise TypeError("must be str")
        if not isinstance(observations, list):
            raise TypeError(f"argument 2 must be list, not {type(observations).__name__}")
        if config is not None and not isinstance(config, dict):
            raise TypeError(f"argument 3 must be dict, not {type(config).__name__}")
        if renderer not in ("", "software", "hardware"):
            raise RuntimeError(f'Failed to set renderer must be "hardware" or "software" actual "{renderer}"!')
        self.level, self.config, self.renderer, self.level_cache = level, dict(config or {}), renderer, level_cache
        for key, value in self.config.items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise TypeError("bad argument type for built-in operation")
        if level not in _LEVELS:
            raise RuntimeError(f"Invalid levelName flag '{level}' - \"Script not found\"")
        if level.endswith("_test") and "dmlab30" in level and self.config.get("allowHoldOutLevels") != "true":
            raise RuntimeError('Failed to init environment - "Held-out level: set allowHoldOutLevels"')
        self._width, self._height = int(self.config.get("width", "320")), int(self.config.get("height", "240"))
        known = [one["name"] for one in self._specified()]
        for name in observations:
            if name not in known:
                raise ValueError(f"Unknown observation '{name}'.")
        self._names, self._status, self._episode = observations, _UNINITIALIZED, 0
        self._frames = self._heading = self._seed = 0
        self.seeds: list[int] = []
        self.actions: list[list[int]] = []
        Lab.made.append(self)

    def _specified(self) -> list[dict[str, Any]]:
        height, width = self._height, self._width
        words = [{"name": "INSTR", "dtype": str, "shape": ()}]
        return [
            {"name": "RGB_INTERLEAVED", "dtype": np.uint8, "shape": (height, width, 3)},
            {"name": "RGB_INTERLACED", "dtype": np.uint8, "shape": (height, width, 3)},
            {"name": "RGB", "dtype": np.uint8, "shape": (3, height, width)},
            {"name": "VEL.TRANS", "dtype": np.float64, "shape": (3,)},
            *(words if "dmlab30" in self.level else []),
        ]

    def observation_spec(self) -> list[dict[str, Any]]:
        """What can be observed."""
        return self._specified()

    def action_spec(self) -> list[dict[str, Any]]:
        """What an action consists of."""
        return [{"name": name, "min": low, "max": high} for name, low, high in _ACTIONS]

    def fps(self) -> int:
        """Frames per second of real time."""
        return int(self.config.get("fps", "60"))

    def reset(self, episode: int = -1, seed: int | None = None) -> bool:
        """Starts an episode."""
        if self._status == _CLOSED:
            raise RuntimeError("Environment in wrong status")
        if seed is not None and not isinstance(seed, int):
            raise ValueError(f"'seed' must be int or None, was '{type(seed).__name__}'.")
        if episode >= 0:
            self._episode = episode
        self._seed = (np.random.SeedSequence().entropy if seed is None else seed) % 2**31  # type: ignore[operator]
        self.seeds.append(self._seed)
        if _LEVELS[self.level] and self.level_cache is not None:
            self._compile()
        self._episode += 1
        self._frames = self._heading = 0
        self._status = _INITIALIZED
        return True

    def _compile(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "level.pk3")
            key = f"{self.level}/{self._seed}"
            if self.level_cache.fetch(key, str(path)):
                assert path.read_text() == key, "the cache gave another level"
            else:
                path.write_text(key)
                self.level_cache.write(key, str(path))

    def is_running(self) -> bool:
        """Whether there is an episode that goes on."""
        return self._status in (_INITIALIZED, _RUNNING)

    def num_steps(self) -> int:
        """Frames of the episode."""
        return self._frames

    def step(self, action: np.ndarray, num_steps: int = 1) -> float:
        """Goes on by some frames; their reward."""
        if not isinstance(action, np.ndarray):
            raise TypeError(f"argument 1 must be numpy.ndarray, not {type(action).__name__}")
        if not self.is_running():
            raise RuntimeError("Environment in wrong status to advance.")
        if action.shape != (len(_ACTIONS),):
            raise ValueError(f"action must have shape ({len(_ACTIONS)})")
        if action.dtype != np.intc:
            raise ValueError("action must have dtype np.intc")
        for value, (name, low, high) in zip(action.tolist(), _ACTIONS, strict=True):
            assert low <= value <= high, f"undefined behaviour: {name} = {value}"
        self.actions.append(action.tolist())
        self._status = _RUNNING
        reward = 0.0
        for _ in range(num_steps):
            self._frames += 1
            self._heading += int(action[0])
            reward += float(action[3]) / 4
            if self._frames >= EPISODE_FRAMES:
                self._status = _TERMINATED
                break
        return reward

    def observations(self) -> dict[str, Any]:
        """What was asked for."""
        if not self.is_running():
            raise RuntimeError("Environment in wrong status for call to observations()")
        return {name: self._observed(name) for name in self._names}

    def _observed(self, name: str) -> Any:
        if name == "INSTR":
            return f"pick the {('red', 'blue', 'green')[self._seed % 3]} ball" if "language" in self.level else ""
        if name not in _DRAWN:
            return np.zeros(3)
        drawn = (self._seed, int(self.config.get("mixerSeed", "0")), self._frames, self._heading % 2**16)
        rgb = np.random.default_rng(drawn).integers(256, size=(self._height, self._width, 3), dtype=np.uint8)
        return rgb.transpose(2, 0, 1).copy() if name == "RGB" else rgb

    def events(self) -> list[tuple[str, list[Any]]]:
        """What happened since the last step."""
        if self._status in (_CLOSED, _UNINITIALIZED):
            raise RuntimeError("Environment in wrong status for call to events()")
        return []

    def properties(self, key: str = "") -> dict[str, int]:
        """What can be read and written below `key`."""
        if key:
            raise KeyError(f"'{key}' not found.")
        return {"engine": LISTABLE}

    def read_property(self, key: str) -> str:
        """The value of `key`."""
        raise KeyError(f"'{key}' not found.")

    def write_property(self, key: str, value: str) -> None:
        """Sets the value of `key`."""
        raise KeyError(f"'{key}' not found.")

    def close(self) -> bool:
        """Releases the engine; False if it was."""
        was, self._status = self._status, _CLOSED
        return was != _CLOSED
