"""A process of `spread`: steps some of the rows until the pipe to its parent closes."""

from __future__ import annotations

import ctypes
import json
import os
import signal
from typing import Any

import numpy as np
from multiprocess import reduction

from workbench.environments.adapters import code_by_value
from workbench.environments.adapters.adapt import check_spreadable, vector_of
from workbench.environments.adapters.gymnasium_vector import GymnasiumVector
from workbench.environments.spread import rows as spread_rows
from workbench.errors import WorkbenchError
from workbench.trajectory import EnvironmentSpec, StepBatch

_PR_SET_PDEATHSIG = 1


def main(pipe: Any, code: bytes, told: dict[str, Any]) -> None:
    """Make the environments, say so, and do what the parent asks for.

    Args:
        pipe: to the parent.
        code: of the factory, from `code_by_value.dumps` in the parent.
        told: name, first (row), number (of rows), num_envs (of all processes), show, parent (its process id).
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a notebook's interrupt goes to all processes of its group
    _end_with(told["parent"])
    env: GymnasiumVector | None = None
    try:
        try:
            env = _made(code, told)
            pipe.send_bytes(spread_rows.DONE + _ready(env))
        except WorkbenchError as error:
            pipe.send_bytes(_failed(error))
            return
        _serve(env, pipe, told["first"], told["num_envs"])
    except (EOFError, OSError):  # the parent has closed the pipe, or is gone
        pass
    finally:
        if env is not None:
            env.close()


def _end_with(parent: int) -> None:
    """Let the system end this process when its parent ends, however that comes."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)  # it has gone already


def _made(code: bytes, told: dict[str, Any]) -> GymnasiumVector:
    made = vector_of(told["name"], code_by_value.loads(code), num_envs=told["number"], seed=0, show=told["show"],
                     first_index=told["first"])
    check_spreadable(made, told["name"])
    assert isinstance(made, GymnasiumVector)
    return made


def _serve(env: GymnasiumVector, pipe: Any, first: int, num_envs: int) -> None:
    rows = _Rows(reduction.recv_handle(pipe), env.spec, slice(first, first + env.num_envs), num_envs)
    while True:
        command = pipe.recv_bytes()
        try:
            pipe.send_bytes(spread_rows.DONE + _done(env, rows, command[:1], command[1:]))
        except WorkbenchError as error:
            pipe.send_bytes(_failed(error))


class _Rows:
    """This process's part of the shared memory."""

    def __init__(self, fd: int, spec: EnvironmentSpec, own: slice, num_envs: int) -> None:
        rows = spread_rows.SharedRows(fd, spec, num_envs)
        os.close(fd)
        self.actions, self.final = rows.actions[own], rows.final[own]
        self._step = rows.step.map(lambda array: array[own])

    def take(self, batch: StepBatch) -> None:
        """Write a step."""
        for name, rows in self._step.arrays().items():
            rows[:] = getattr(batch, name)
        if batch.final_observation is not None:
            self.final[batch.final_index] = batch.final_observation


def _ready(env: GymnasiumVector) -> bytes:
    """What is said once the environments are made."""
    told = {name: getattr(env, name) for name in ("fps", "action_names", "left_out")}
    return json.dumps({"spec": env.spec.to_json(), **told}).encode()


def _done(env: GymnasiumVector, rows: _Rows, command: bytes, rest: bytes) -> bytes:
    """What is answered to a command."""
    if command == spread_rows.STEP:
        rows.take(env.step(rows.actions))
        return b""
    if command == spread_rows.RESET:
        rows.take(env.reset_each(np.frombuffer(rest, np.int64)))
        return b""
    index = int(rest)
    if command == spread_rows.FRAME:
        return spread_rows.packed(env.render(index))
    ending = env.ending(index)
    if ending is None:
        return b""
    return spread_rows.packed(ending.frame if command == spread_rows.LAST_FRAME else ending.observation)


def _failed(error: WorkbenchError) -> bytes:
    return spread_rows.FAILED + json.dumps({"type": type(error).__name__, "message": str(error)}).encode()
