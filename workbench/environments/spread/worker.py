"""A process of `spread`: steps some of the rows until the pipe to its parent closes."""

from __future__ import annotations

import ctypes
import json
import os
import signal
from typing import Any

import numpy as np
from multiprocess import reduction

from workbench.environment_spec import EnvironmentSpec
from workbench.environments.adapters import code_by_value, sent_modules
from workbench.environments.adapters.adapt import check_spreadable, vector_of
from workbench.environments.adapters.gymnasium_vector import GymnasiumVector
from workbench.environments.spread import rows as spread_rows
from workbench.errors import WorkbenchError, record_of
from workbench.trajectory import StepBatch

_PR_SET_PDEATHSIG = 1


def main(pipe: Any, code: bytes, settings: dict[str, Any]) -> None:
    """Makes the environments, sends their description, and carries out the parent's commands.

    Args:
        pipe: to the parent.
        code: of the factory, from `code_by_value.dumps` in the parent.
        settings: name, first (row), number (of rows), num_envs (of all processes), show, parent (its process id).
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a notebook's interrupt goes to all processes of its group
    _end_with(settings["parent"])
    sent_modules.keep_for_good()
    env: GymnasiumVector | None = None
    try:
        try:
            env = _make(code, settings)
            pipe.send_bytes(spread_rows.DONE + _description(env))
        except WorkbenchError as error:
            pipe.send_bytes(_failed(error))
            return
        _serve(env, pipe, settings["first"], settings["num_envs"])
    except (EOFError, OSError):  # the parent has closed the pipe or ended
        pass
    finally:
        if env is not None:
            env.close()


def _end_with(parent: int) -> None:
    """Makes the kernel kill this process when its parent ends, however it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)  # it has ended already


def _make(code: bytes, settings: dict[str, Any]) -> GymnasiumVector:
    vector = vector_of(settings["name"], code_by_value.loads(code), num_envs=settings["number"], seed=0,
                       show=settings["show"], first_index=settings["first"])
    check_spreadable(vector, settings["name"])
    assert isinstance(vector, GymnasiumVector)
    return vector


def _serve(env: GymnasiumVector, pipe: Any, first: int, num_envs: int) -> None:
    rows = _OwnRows(reduction.recv_handle(pipe), env.spec, slice(first, first + env.num_envs), num_envs)
    while True:
        command = pipe.recv_bytes()
        try:
            pipe.send_bytes(spread_rows.DONE + _answer(env, rows, command[:1], command[1:]))
        except WorkbenchError as error:
            pipe.send_bytes(_failed(error))


class _OwnRows:
    """This process's part of the shared memory."""

    def __init__(self, fd: int, spec: EnvironmentSpec, own: slice, num_envs: int) -> None:
        rows = spread_rows.SpreadRows(fd, spec, num_envs)
        os.close(fd)
        self.actions, self.final = rows.actions[own], rows.final[own]
        self._step = rows.step.map(lambda array: array[own])

    def write(self, batch: StepBatch) -> None:
        """Writes a step into the shared memory."""
        for name, rows in self._step.arrays().items():
            rows[:] = getattr(batch, name)
        if batch.final_observation is not None:
            self.final[batch.final_index] = batch.final_observation


def _description(env: GymnasiumVector) -> bytes:
    """The first answer, as JSON: spec, fps, action_names, left_out."""
    attributes = {name: getattr(env, name) for name in ("fps", "action_names", "left_out")}
    return json.dumps({"spec": env.spec.to_json(), **attributes}).encode()


def _answer(env: GymnasiumVector, rows: _OwnRows, command: bytes, argument: bytes) -> bytes:
    """Carries out a command. Returns the value of the answer."""
    if command == spread_rows.STEP:
        rows.write(env.step(rows.actions))
        return b""
    if command == spread_rows.RESET:
        rows.write(env.reset_each(np.frombuffer(argument, np.int64)))
        return b""
    index = int(argument)
    if command == spread_rows.FRAME:
        return spread_rows.packed(env.render(index))
    ending = env.ending(index)
    if ending is None:
        return b""
    return spread_rows.packed(ending.frame if command == spread_rows.LAST_FRAME else ending.observation)


def _failed(error: WorkbenchError) -> bytes:
    return spread_rows.FAILED + json.dumps(record_of(error)).encode()
