"""An actor process: steps its groups of environments with the actions that the learner sends.

Each group is a vector environment. The actor sends the first observations of all groups, and then steps each group when
its actions arrive, so that one group steps while the others wait for inference. When the learner goes away the actor
connects again with a new run id and resets its environments. If a seeded reset leaks memory in its environments
(`keeps_memory_at_reset`), it replaces its process instead.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import sys
import time
from pathlib import Path

import numpy as np

from workbench import environments
from workbench.actor.actor_stream import SharedStream, Stream, shared
from workbench.actor.ending import Ending
from workbench.actor.memory_limit import keep_within_limit, prefer_for_oom_kill
from workbench.config import RunConfig
from workbench.environments.adapters.code_by_value import load_factory
from workbench.environments.contract import VectorEnvironment, check_step
from workbench.errors import AccessDenied, ConnectionLost, OutOfBounds, ShapeMismatch, WorkbenchError
from workbench.rundir import RunDirectory, sealed, untried
from workbench.wire import grpc
from workbench.wire.endpoints import learner_name, reach
from workbench.wire.lifeline import Lifeline, leave_error, let_learner_first
from workbench.wire.messages import GroupStep, Hello
from workbench.wire.rpc import Endpoint

_RECONNECT_S = 0.2


def make_groups(config: RunConfig, run: RunDirectory) -> list[VectorEnvironment]:
    """The actor's environments, in `groups_per_actor` vector environments of nearly equal size.

    Raises OutOfBounds if several agents play a game and a group holds no whole games.
    """
    groups = min(config.groups_per_actor, config.envs_per_actor)
    sizes = [len(part) for part in np.array_split(np.arange(config.envs_per_actor), groups)]
    sealed.check_module(run.code, config.environment)
    factory = load_factory(*untried.places(run, "environment.pkl"))
    vectors = [
        environments.make_configured(
            config, num_envs=size, seed=config.seed, threads=config.actor_threads, processes=config.actor_processes,
            factory=factory,
        )
        for size in sizes
    ]
    agents = vectors[0].spec.agents
    if any(size % agents for size in sizes):
        raise OutOfBounds(
            f"{agents} agents play each game of {config.environment}: envs_per_actor={config.envs_per_actor} must be a "
            f"multiple of groups_per_actor x {agents} = {groups * agents}.")
    return vectors


def play(groups: list[VectorEnvironment], stream: Stream | SharedStream, *, seed: int) -> None:
    """Steps `groups` until the stream ends. Raises grpc.RpcError, EOFError or EnvironmentFailed."""
    first_envs = np.cumsum([0, *(group.num_envs for group in groups)]).tolist()
    sent_at = [0.0] * len(groups)
    for number, group in enumerate(groups):
        step = group.reset(seed=seed + first_envs[number])
        check_step(step, group.spec, is_first=True)
        stream.send(GroupStep(number, first_envs[number], step))
        sent_at[number] = time.perf_counter()
    reply = stream.exchange()
    while True:
        number, received = reply.group, time.perf_counter()
        step = groups[number].step(reply.actions)
        check_step(step, groups[number].spec, is_first=False)
        stepped, round_trip_s = time.perf_counter(), received - sent_at[number]
        sent_at[number] = stepped
        reply = stream.exchange(GroupStep(number, first_envs[number], step, stepped - received, round_trip_s))


def connect_and_play(
    groups: list[VectorEnvironment], where: str | Endpoint, token: str, actor: int, *, runner: asyncio.Runner,
    shares_memory: bool = True,
) -> bool:
    """Plays until the learner goes away. Returns whether it connected at all.

    Args:
        shares_memory: whether steps may travel through memory where the learner of this machine offers it.

    Raises AccessDenied or ShapeMismatch if the learner refuses this actor for good.
    """
    count = sum(group.num_envs for group in groups)
    hello = Hello(actor, secrets.randbits(62) + 1, count, len(groups), groups[0].spec, tuple(groups[0].action_names))
    stream: Stream | SharedStream
    try:
        stream = Stream(runner, where, token, hello)
    except TimeoutError:
        return False
    try:
        welcome = stream.welcome()
        if shares_memory and welcome.memory and stream.by_socket:
            stream = shared(stream, welcome.memory, token, hello)
        play(groups, stream, seed=welcome.seed)
    except grpc.RpcError as error:
        _raise_if_final(error)
    except EOFError:
        pass
    finally:
        stream.close()
    return True


def _raise_if_final(error: grpc.RpcError) -> None:
    if error.code() == grpc.StatusCode.UNAUTHENTICATED:
        raise AccessDenied(f"the learner refused this actor: {error.details()}")
    if error.code() in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.INVALID_ARGUMENT):
        raise ShapeMismatch(f"the learner refused this actor: {error.details()}")
    print(f"connection ended: {error.code().name} {error.details()}", file=sys.stderr, flush=True)


def _remove_bundle(run: RunDirectory) -> None:
    """Removes the run's bundle from a node without the run's storage; the host that sent it has gone. A run's own
    directory stays."""
    if run.certificate.exists() and not run.certificate_key.exists() and not run.metrics.exists():
        shutil.rmtree(run.path, ignore_errors=True)


def _play_once(
    groups: list[VectorEnvironment], run: RunDirectory, learner: str, index: int, runner: asyncio.Runner
) -> bool:
    """`connect_and_play` with the learner of that name, at its current address."""
    try:
        where = reach(run, learner)
    except ConnectionLost:  # it has no address yet
        return False
    return connect_and_play(groups, where, run.token(), index, runner=runner)


def _replace_this_process(lifeline: Lifeline) -> None:
    """Executes the same command in this process: id and standard streams stay, so its supervisor notices nothing."""
    lifeline.hand_on()
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def main(run_dir: str, number: str) -> int:
    """Runs the actor of that number of the run in `run_dir` until its supervisor ends it. Returns the exit code."""
    run, index = RunDirectory(Path(run_dir)), int(number)
    lifeline = Lifeline(lambda: _remove_bundle(run))
    ending = Ending()
    prefer_for_oom_kill()
    let_learner_first()
    error_file = run.logs / f"actor-{index}.error.json"
    keep_within_limit(run, index, lambda error: os._exit(leave_error(error_file, error)))
    try:
        config = run.config()
        learner = learner_name(index % config.learners)
        groups = ending.made(lambda: make_groups(config, run))
        with asyncio.Runner() as runner:
            while True:
                connected = _play_once(groups, run, learner, index, runner)
                time.sleep(_RECONNECT_S)
                if connected and any(getattr(group, "keeps_memory_at_reset", False) for group in groups):
                    _replace_this_process(lifeline)
    except WorkbenchError as error:
        code = leave_error(error_file, error)
        ending.run(ending.close)  # after the error is written, since it may take long
        return code
