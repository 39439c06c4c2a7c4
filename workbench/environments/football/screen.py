"""Football's own frames: a process that plays the same game again, and draws it when somebody looks.

gfootball draws one game per process, and slowly; so games are played without it, and a game that somebody looks at is
repeated by its seed, its number and its actions. Each frame comes with the observation beside it, which must be the
one that was played.

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
from workbench.environments.football.engine import Game, Setup, observed
from workbench.errors import EnvironmentFailed

_PATIENCE_S = 180  # the first frame takes up to 30 s on a busy machine


class Screen:
    """Draws one game. Raises EnvironmentFailed where it cannot, or where its game parts from the one that is played."""

    def __init__(self, setup: Setup, name: str) -> None:
        self._setup, self._name = setup, name
        self._pending: list[tuple[str, Any]] = []  # what was played since the last frame
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._frame: Array | None = None  # of now

    def begin(self, engine_seed: int, number: int) -> None:
        """A new game."""
        self._pending = [("begin", (engine_seed, number))]  # what was not drawn of the last one is not needed

    def step(self, actions: Array) -> None:
        """The actions of the game's players."""
        self._pending.append(("step", actions.tolist()))

    def frame(self, observation: Array) -> Array:
        """What the game looks like now, uint8 [H, W, 3], where its players are told `observation` [players, bytes]."""
        if self._process is None:
            self._start()
        if not self._pending and self._frame is not None:
            return self._frame  # another player of the same game
        self._frame = None  # an older one, whatever comes of this
        said, frame, seen = self._asked(self._pending)
        self._pending.clear()
        if said:
            raise EnvironmentFailed(f"{self._name}: gfootball drew no frame: {said}")
        if not np.array_equal(seen, observation):
            raise EnvironmentFailed(f"{self._name}: the game that is drawn parted from the one that is played. Roll "
                                    "out without it: render=False. Please report it with your version of gfootball.")
        self._frame = frame
        return frame

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            # Not the environment of C, where envpool says that the engine's data are its own, which cannot be drawn.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "workbench.environments.football.screen", str(theirs.fileno())],
                pass_fds=[theirs.fileno()], env=dict(os.environ), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self._pipe = Connection(ours.detach())
        self._pipe.send(self._setup)

    def _asked(self, played: list[tuple[str, Any]]) -> tuple[str, Array, Array]:
        """An error or "", the frame, and the observation."""
        assert self._pipe is not None and self._process is not None
        try:
            self._pipe.send(played)
            if self._pipe.poll(_PATIENCE_S):
                answer: tuple[str, Array, Array] = self._pipe.recv()
                return answer
            told = f"it gave no answer in {_PATIENCE_S} s"
        except (EOFError, OSError):
            told = f"its process ended with code {self._process.wait(_PATIENCE_S)}"
        self.close()
        raise EnvironmentFailed(f"{self._name}: gfootball drew no frame: {told}.")

    def close(self) -> None:
        """Ends the process."""
        if self._pipe is not None:
            self._pipe.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._pipe = self._process = None


def serve(pipe: Connection) -> None:
    """Plays what comes through `pipe` and answers with a frame, until the pipe ends."""
    with suppress(EOFError):
        stage = _Stage(pipe.recv())
        while True:
            played = pipe.recv()
            try:
                pipe.send(("", *stage.drawn(played)))
            except Exception as error:
                pipe.send((f"{type(error).__name__}: {error}\n\n{traceback.format_exc()}", None, None))


class _Stage:
    """The game that is drawn.

    It is stepped without drawing, which is slow. An engine that began a game without drawing cannot draw it; so every
    game begins on an engine that does not, and gfootball hands its state to the one that does at the first frame.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._game: Game | None = None

    def drawn(self, played: list[tuple[str, Any]]) -> tuple[Array, Array]:
        """The frame after what was `played`, and the observation [players, bytes]."""
        for what, given in played:
            if what == "begin":
                if self._game is not None:
                    self._game.close()
                self._game = Game(self._setup)
                self._game.begin(*given)
            else:
                assert self._game is not None
                self._game.step(np.array(given))
        assert self._game is not None
        return self._game.draw(), observed(self._setup.representation, self._game.told())


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
