"""Environments written in Python, spread over processes of their own that one actor steps together.

Each process steps a range of rows one after another, as `gymnasium_vector` does; all processes step at the same time.
Actions and steps lie in shared memory (memfd: the kernel frees it with the processes); a pipe to each process carries
commands and errors. `worker` is the other side.

`multiprocess` spawns the processes instead of forking, since an actor has gRPC loaded. They end with their parent,
however it ends (PR_SET_PDEATHSIG, and the pipe).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import multiprocess
import numpy as np
from multiprocess import reduction

from workbench.environment_spec import EnvironmentSpec
from workbench.environments.adapters import code_by_value
from workbench.environments.contract import Array, Ending, Show, checked_actions, seeds_of
from workbench.environments.spread.rows import (
    FAILED,
    FRAME,
    LAST_FRAME,
    LAST_OBSERVATION,
    RESET,
    STEP,
    SpreadRows,
    unpacked,
)
from workbench.environments.spread.worker import main
from workbench.errors import EnvironmentFailed, ShapeMismatch, WorkbenchError, error_of
from workbench.tables import exit_words
from workbench.trajectory import Flags, StepBatch

_CLOSE_S = 5.0  # for environments to close


class SpreadVector:
    """N Gymnasium environments in `processes` processes. See `contract.VectorEnvironment`.

    Raises as `gymnasium_vector.GymnasiumVector`, and EnvironmentFailed if a process ends by itself.
    """

    def __init__(
        self, name: str, factory_call: Callable[..., Any], *, num_envs: int, seed: int, processes: int, show: Show
    ) -> None:
        self.num_envs, self._name, self._seed = num_envs, name, seed
        self.keeps_endings = show is not None
        self._workers: list[_WorkerProcess] = []
        code = code_by_value.dumps(factory_call)
        bounds = np.linspace(0, num_envs, min(processes, num_envs) + 1).round().astype(int).tolist()
        try:
            for first, end in zip(bounds, bounds[1:], strict=False):
                self._workers.append(_WorkerProcess(name, code, range(first, end), num_envs, show))
            descriptions = [json.loads(answer) for answer in self._answers()]
            specs = [description["spec"] for description in descriptions]
            self.spec = EnvironmentSpec.from_json(specs[0])
            if any(spec != specs[0] for spec in specs):
                raise ShapeMismatch(f"environments of {name} have different spaces: {specs}.")
            self._share()
        except BaseException:
            self.close()
            raise
        self.fps: float = descriptions[0]["fps"]
        self.action_names: tuple[str, ...] = tuple(descriptions[0]["action_names"])
        self.left_out: tuple[str, ...] = tuple(descriptions[0]["left_out"])

    def _share(self) -> None:
        fd = os.memfd_create("workbench-rows")
        try:
            self._rows = SpreadRows(fd, self.spec, self.num_envs)
            for worker in self._workers:
                reduction.send_handle(worker.pipe, fd, worker.process.pid)
        finally:
            os.close(fd)

    def reset(self, *, seed: int | None = None) -> StepBatch:
        """Returns the first step of a new episode everywhere."""
        seeds = seeds_of(self._seed if seed is None else seed, self.num_envs)
        for worker in self._workers:
            worker.send(RESET + seeds[worker.rows.start : worker.rows.stop].tobytes())
        self._answers()
        return self._rows.step.map(np.copy)

    def step(self, actions: Array) -> StepBatch:
        """Returns the step after `actions`."""
        self._rows.actions[:] = checked_actions(actions, self.spec, self.num_envs)
        for worker in self._workers:
            worker.send(STEP)
        self._answers()
        batch = self._rows.step.map(np.copy)
        batch.final_index = np.flatnonzero(batch.flags & Flags.TRUNCATED).astype(np.int32)
        if len(batch.final_index):
            batch.final_observation = self._rows.final[batch.final_index]
        return batch

    def render(self, index: int) -> Array | None:
        """The frame of environment `index`, or its image observation."""
        return self._request(FRAME, index)

    def ending(self, index: int) -> Ending | None:
        """The Ending of environment `index` if the last step ended its episode and endings are kept; otherwise None."""
        observation = self._request(LAST_OBSERVATION, index)
        return None if observation is None else Ending(observation, self._request(LAST_FRAME, index))

    def _request(self, command: bytes, index: int) -> Array | None:
        worker = next(worker for worker in self._workers if index in worker.rows)
        worker.send(command + bytes(str(index - worker.rows.start), "ascii"))
        return unpacked(worker.answer())

    def _answers(self) -> list[bytes]:
        """The answers of all processes. Raises the first error among them, after all have answered."""
        answers: list[bytes] = []
        errors: list[WorkbenchError] = []
        for worker in self._workers:
            try:
                answers.append(worker.answer())
            except WorkbenchError as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return answers

    def close(self) -> None:
        """Closes all environments and ends the processes."""
        for worker in self._workers:
            worker.pipe.close()
        while self._workers:
            self._workers.pop().end()


class _WorkerProcess:
    """A process of `spread.worker`, which steps the environments `rows`."""

    def __init__(self, name: str, code: bytes, rows: range, num_envs: int, show: Show) -> None:
        context = multiprocess.get_context("spawn")
        self.rows, self._name = rows, name
        self.pipe, theirs = context.Pipe()
        settings = {"name": name, "first": rows.start, "number": len(rows), "num_envs": num_envs, "show": show,
                    "parent": os.getpid()}
        self.process = context.Process(target=main, args=(theirs, code, settings), daemon=True, name=f"{name} {rows}")
        self.process.start()
        theirs.close()

    def send(self, command: bytes) -> None:
        with suppress(OSError):  # the process has ended: `answer` says how
            self.pipe.send_bytes(command)

    def answer(self) -> bytes:
        """The answer to the last command. Raises it if it is an error."""
        try:
            answer: bytes = self.pipe.recv_bytes()
        except (EOFError, OSError):
            self.process.join(_CLOSE_S)
            raise EnvironmentFailed(
                f"the process that steps environments {self.rows.start} to {self.rows.stop - 1} of {self._name!r} "
                f"ended by itself: {exit_words(self.process.exitcode)}. Its output is in the actor's log.") from None
        if answer.startswith(FAILED):
            raise error_of(json.loads(answer[1:]))
        return answer[1:]

    def end(self) -> None:
        self.process.join(_CLOSE_S)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()
