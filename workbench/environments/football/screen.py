"""Football's own frames: a process replays a game and draws it on request.

gfootball draws one game per process, and slowly; so games are played without drawing, and a drawn game is replayed from
its seed, its number and its actions. Each frame comes with its observation, which must equal the played one.

The process is `python -m workbench.environments.football.screen FD`, and ends when its pipe does.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from workbench.environments.contract import Array
from workbench.environments.football.engine import EngineGame, Setup, encoded
from workbench.errors import EnvironmentFailed

_PATIENCE_S = 180  # the first frame takes up to 30 s on a busy machine


class Screen:
    """Draws one game. Raises EnvironmentFailed if it cannot, or if the drawn game differs from the played one."""

    def __init__(self, setup: Setup, name: str) -> None:
        self._setup, self._name = setup, name
        self._pending: list[tuple[str, Any]] = []  # calls of `EngineGame` since the last frame
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._frame: Array | None = None  # the current one

    def begin(self, engine_seed: int, number: int) -> None:
        """Begins a new game."""
        self._pending = [("begin", (engine_seed, number))]  # the rest of the last game needs no replay

    def step(self, actions: Array) -> None:
        """Steps by the actions of the game's players."""
        self._pending.append(("step", actions.tolist()))

    def frame(self, observation: Array) -> Array:
        """The current frame, uint8 [H, W, 3], of the game whose observation is `observation` [players, bytes]."""
        if self._process is None:
            self._start()
        if not self._pending and self._frame is not None:
            return self._frame  # for another player of the same game
        self._frame = None  # out of date, also if drawing fails
        error, frame, replayed = self._request(self._pending)
        self._pending.clear()
        if error:
            raise EnvironmentFailed(f"{self._name}: gfootball drew no frame: {error}")
        if not np.array_equal(replayed, observation):
            raise EnvironmentFailed(f"{self._name}: the game that is drawn parted from the one that is played. Roll "
                                    "out without it: render=False. Please report it with your version of gfootball.")
        self._frame = frame
        return frame

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            # Python's environment variables, not C's, where envpool points to its own data, which cannot be drawn.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "workbench.environments.football.screen", str(theirs.fileno())],
                pass_fds=[theirs.fileno()], env=dict(os.environ), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self._pipe = Connection(ours.detach())
        self._pipe.send(self._setup)

    def _request(self, calls: list[tuple[str, Any]]) -> tuple[str, Array, Array]:
        """Replays `calls`. Returns an error or "", the frame, and the observation."""
        assert self._pipe is not None and self._process is not None
        try:
            self._pipe.send(calls)
            if self._pipe.poll(_PATIENCE_S):
                answer: tuple[str, Array, Array] = self._pipe.recv()
                return answer
            reason = f"it gave no answer in {_PATIENCE_S} s"
        except (EOFError, OSError):
            reason = f"its process ended with code {self._process.wait(_PATIENCE_S)}"
        self.close()
        raise EnvironmentFailed(f"{self._name}: gfootball drew no frame: {reason}.")

    def close(self) -> None:
        """Ends the process."""
        if self._pipe is not None:
            self._pipe.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._pipe = self._process = None


def serve(pipe: Connection) -> None:
    """Replays the calls that come through `pipe` and answers with frames, until the pipe ends."""
    with suppress(EOFError):
        replay = _Replay(pipe.recv())
        while True:
            calls = pipe.recv()
            try:
                pipe.send(("", *replay.draw(calls)))
            except Exception as error:
                pipe.send((f"{type(error).__name__}: {error}\n\n{traceback.format_exc()}", None, None))


class _Replay:
    """The drawn game.

    Its steps don't draw, which is slow. An engine that began a game without drawing cannot draw it, so every game
    begins on such an engine, and gfootball passes its state to a drawing one at the first frame.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._game: EngineGame | None = None

    def draw(self, calls: list[tuple[str, Any]]) -> tuple[Array, Array]:
        """The frame after `calls`, and the observation [players, bytes]."""
        for method, argument in calls:
            if method == "begin":
                if self._game is not None:
                    self._game.close()
                self._game = EngineGame(self._setup)
                self._game.begin(*argument)
            else:
                assert self._game is not None
                self._game.step(np.array(argument))
        assert self._game is not None
        return self._game.draw(), encoded(self._setup.representation, self._game.raw)


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
