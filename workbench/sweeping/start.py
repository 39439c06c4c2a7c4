"""Starts the process of a sweep, and decides how many runs may share this machine."""

from __future__ import annotations

import time
from typing import Any

from workbench.config import RunConfig, chosen, hardware
from workbench.config.few_updates import few_updates
from workbench.config.settings import Setting
from workbench.errors import InvalidInput, OutOfBounds, RunAlive, RunExists, WaitTimeout
from workbench.launchers.local import LocalProcess
from workbench.rundir import ENDED, lock
from workbench.running.progress import notify
from workbench.running.waiting import ended_early
from workbench.sweeping.space import Space, ends
from workbench.sweeping.sweep_folder import SweepFolder, is_at_rest

MOST_TRIALS = 5_000

_START_S = 180.0  # for the sweep's process to begin on a busy machine; it loads Optuna


def checked_count(name: str, value: Any, most: int, why: str = "") -> int:
    """`value`, a whole number from 1 to `most`; `why` explains that bound. Raises OutOfBounds."""
    try:
        return int(Setting(name, int, 1, "", low=1, high=most).check(value))
    except OutOfBounds as error:
        raise type(error)(f"{error} {why}".strip()) from None


def fitting(config: RunConfig) -> int:
    """The default number of runs at a time."""
    return min(2, hardware.cores()) if config.launcher == "local" else 2


def checked_parallel(config: RunConfig, parallel: Any) -> int:
    """`parallel`, as many simultaneous runs as may be. Raises OutOfBounds."""
    if config.launcher != "local":
        return checked_count("parallel", parallel, MOST_TRIALS)
    cores = hardware.cores()
    return checked_count("parallel", parallel, cores,
                         f"This machine has {cores} core{'s'[:cores > 1]}, and each run needs one.")


def sharing_the_machine(config: RunConfig, space: Space, parallel: int) -> RunConfig:
    """The configuration of one of `parallel` simultaneous runs. Raises OutOfBounds, InvalidInput."""
    if config.launcher == "inline":
        raise InvalidInput("launcher='inline' keeps a run in this process, and a sweep outlives it. "
                           "Leave it out.")
    if config.launcher != "local":
        return config
    if parallel > 1 and config.device in ("tpu", "xla"):
        raise OutOfBounds(f"parallel={parallel}: device={config.device!r} belongs to one run at a time. Give "
                          "parallel=1.")
    if parallel == 1 or config.learner_threads or "learner_threads" in space:
        return config
    return config.replaced(learner_threads=chosen.training_threads(cores=hardware.cores(), learners=parallel))


def warm_up_warning(config: RunConfig, space: Space) -> str:
    """A sentence where no run of these frames leaves its warm-up, or makes an update; "" where one may."""

    def values(name: str) -> list[Any]:
        return [value for value in ends(space[name]) if value is not None] if name in space else [config.value(name)]

    return few_updates(config, "each run", values)


def begin(folder: SweepFolder, **changes: Any) -> None:
    """Start the sweep's process, detached, and wait until it has begun. Does nothing if the sweep has a process.

    Raises RunExists if another process is starting it, RunAlive, RunFailed, WaitTimeout.
    """
    with lock.held(folder.start_lock, wait_s=lock.LOOK_S) as acquired:
        if not acquired:
            raise RunExists(f"{folder.name} is being started by somebody else. wb.attach_sweep({folder.name!r}).")
        if not is_at_rest(folder):
            if folder.read()["state"] in ENDED:
                raise RunAlive(f"{folder.name} has ended, and its process has not gone yet. Try again in a moment.")
            return
        folder.order_to_stop.unlink(missing_ok=True)
        lives = folder.read().get("lives", 0) + 1
        folder.write(**{"state": "starting", "error": None, "reason": "", "lives": lives, **changes})
        process = LocalProcess.started("_sweep", folder.path, log=folder.log)
        try:
            _await(folder, process)
        except KeyboardInterrupt:
            notify(f"{folder.name} goes on in the background. wb.attach_sweep({folder.name!r}).stop() ends it.")
            raise


def _await(folder: SweepFolder, process: LocalProcess) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        exited = process.poll() is not None
        if folder.read()["state"] != "starting":
            return
        if exited:
            raise ended_early(f"the process of {folder.name}", process)
        time.sleep(0.05)
    raise WaitTimeout(f"the process of {folder.name} has not begun after {_START_S:g} s. Its log:\n{process.logs()}")
