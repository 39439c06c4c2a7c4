"""How close an actor comes to the bare environment; a part of environments.py, which starts it for each measurement.

    python benchmarks/environment_speed.py bare|adapter|actor|remote NAME GAMES [--seconds 5]

Each way is measured in a process of its own on one core, with random actions drawn before, in turn for several rounds,
by the number of games. "bare": the environment as its own package gives it, stepped in a plain loop (or by its own
vector environment), with a reset where an episode ends, and what the adapter asks for where that costs time (the same
screen, the same frame skip). "adapter": our vector environment alone. "actor": our actor's own loop, `actor.main.play`,
whose steps travel through shared memory to a learner's own streams on another core, which answer at once, one message
for each of its two groups of games. So what a message costs counts less the more games are in a group. "remote": the
same by gRPC, as from another machine.

Beside steps/s of the clock there are steps per second of processor time, of all processes of that core: on a machine
that others use as well they say more.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import psutil
from arguments import Parser

GROUPS = 2  # of an actor's games, as a run has them by default
MOST_GAMES = {"football": 64, "vizdoom": 64}  # 44 MB and an engine's process each; a family that is not named: any
NAMES = ("CartPole-v1", "ALE/Pong-v5", "HalfCheetah-v5", "MiniGrid-MemoryS7-v0", "football/academy_empty_goal_close",
         "vizdoom/basic")
_DRAWN = 64  # rounds of actions, played again and again


class Rate(NamedTuple):
    """Steps per second of the clock and of processor time, and how many frames a step is."""

    per_second: float
    per_cpu_second: float
    frames_per_step: int = 1


def measured(step: Callable[[], int], seconds: float) -> Rate:
    """The rate of `step`, which returns how many steps it did; a fifth of the time warms up."""
    for limit in (seconds / 5, seconds):
        done, started, cpu = 0, time.perf_counter(), cpu_seconds(psutil.Process())
        while (elapsed := time.perf_counter() - started) < limit or cpu_seconds(psutil.Process()) == cpu:
            done += step()
    return Rate(done / elapsed, done / (cpu_seconds(psutil.Process()) - cpu))


def cpu_seconds(process: psutil.Process) -> float:
    """Of a process, and of those that it has started (a ViZDoom engine is one)."""
    return sum(one.cpu_times().user + one.cpu_times().system for one in (process, *process.children(recursive=True)))


# --- bare environments ------------------------------------------------------------------------------------------------


def bare(name: str, count: int, seconds: float) -> Rate:
    """`count` games as their package gives them."""
    makes = {"ALE": _bare_atari, "football": _bare_football, "vizdoom": _bare_vizdoom}
    return measured(makes.get(family(name), _bare_gymnasium)(name, count), seconds)


def family(name: str) -> str:
    """What a name begins with."""
    return name.partition("/")[0]


def _bare_gymnasium(name: str, count: int) -> Callable[[], int]:
    import gymnasium

    from workbench import environments

    environments.check_name(name)  # so that Gymnasium knows it
    games = [gymnasium.make(name, disable_env_checker=True) for _ in range(count)]
    for number, game in enumerate(games):
        game.reset(seed=number)
        game.action_space.seed(number)
    chosen = itertools.cycle([[game.action_space.sample() for game in games] for _ in range(_DRAWN)])

    def step() -> int:
        for game, action in zip(games, next(chosen), strict=True):
            _, _, terminated, truncated, _ = game.step(action)
            if terminated or truncated:
                game.reset()
        return count

    return step


def _bare_atari(name: str, count: int) -> Callable[[], int]:
    import ale_py
    import gymnasium

    gymnasium.register_envs(ale_py)
    games = gymnasium.make_vec(name, num_envs=count, num_threads=1, stack_num=1, reward_clipping=False)
    games.reset(seed=0)
    chosen = itertools.cycle(np.random.default_rng(0).integers(0, games.single_action_space.n, (_DRAWN, count)))

    def step() -> int:
        games.step(next(chosen))
        return count

    return step


def _bare_football(name: str, count: int) -> Callable[[], int]:
    import envpool

    games = envpool.make_gymnasium(f"gfootball/{name.partition('/')[2]}-v1", num_envs=count, num_threads=1, seed=0)
    games.reset()
    chosen = itertools.cycle(np.random.default_rng(0).integers(0, 19, (_DRAWN, count)).astype(np.int32))

    def step() -> int:
        games.step(next(chosen))  # a reset is a step here
        return count

    return step


def _bare_vizdoom(name: str, count: int) -> Callable[[], int]:
    import vizdoom

    from workbench.environments.vizdoom import memory_launcher
    from workbench.environments.vizdoom.area_average import shrinking
    from workbench.environments.vizdoom.scenarios import SCENARIOS, presses

    games = []
    for number in range(count):
        game = vizdoom.DoomGame()
        game.load_config(f"{vizdoom.scenarios_path}/{SCENARIOS[name].file}.cfg")
        game.set_mode(vizdoom.Mode.PLAYER)
        game.set_window_visible(False)
        game.set_sound_enabled(False)
        game.set_screen_format(vizdoom.ScreenFormat.CRCGCB)
        game.set_screen_resolution(vizdoom.ScreenResolution.RES_160X120)
        game.set_seed(number)
        memory_launcher.start(game)
        games.append(game)
    buttons = presses(games[0].get_available_buttons()).buttons
    shrink = shrinking(120, 160, 72, 96)
    chosen = itertools.cycle(np.random.default_rng(0).integers(0, len(buttons), (_DRAWN, count)).tolist())

    def step() -> int:
        for game, action in zip(games, next(chosen), strict=True):
            game.make_action(buttons[action], 4)
            if game.is_episode_finished():
                game.new_episode()
            shrink(game.get_state().screen_buffer)
        return count

    return step


# --- our own ----------------------------------------------------------------------------------------------------------


def _drawn(spec: Any, count: int) -> Iterator[Any]:
    from workbench.environments.contract import random_actions

    random = np.random.default_rng(0)
    return itertools.cycle([random_actions(spec, count, random) for _ in range(_DRAWN)])


def adapter(name: str, count: int, seconds: float) -> Rate:
    """Our vector environments alone, as an actor has them."""
    groups = _groups(name, count)
    for number, group in enumerate(groups):
        group.reset(seed=number)
    chosen = _drawn(groups[0].spec, groups[0].num_envs)

    def step() -> int:
        for group in groups:
            group.step(next(chosen))
        return count

    return measured(step, seconds)._replace(frames_per_step=groups[0].spec.frames_per_step)


def _groups(name: str, count: int) -> list[Any]:
    from workbench import environments

    return [environments.make(name, num_envs=count // GROUPS, seed=number) for number in range(GROUPS)]


def actor(name: str, count: int, seconds: float, *, by_memory: bool = True) -> Rate:
    """The actor's loop in a process of its own; this one, on another core, is its learner."""
    from workbench.learner.inference.actor_streams import ActorStreams
    from workbench.learner.inference.batcher import Batcher
    from workbench.learner.metrics.meters import Meters
    from workbench.wire.rpc import serve

    done, cores, size = [0], _cores(), count // GROUPS
    batcher = Batcher(max_batch=size, timeout_s=0.0)
    streams = ActorStreams(envs_per_actor=count, batcher=batcher, meters=Meters(), admit=lambda *_: 0)
    with tempfile.TemporaryDirectory(prefix="wb") as folder:
        address = f"unix:{folder}/learner"
        os.sched_setaffinity(0, {cores[-1]})
        threading.Thread(target=_answer, args=[batcher, streams, size, done], daemon=True).start()
        server = serve(address, "token", calls={}, streams={"play": streams.play})
        if by_memory:
            streams.offer_memory(f"{folder}/memory", "token")
        process = subprocess.Popen([sys.executable, __file__, "play", name, str(count), "--address", address,
                                    "--core", str(cores[0])],
                                   stdout=sys.stderr)
        try:
            return _watched(done, size, psutil.Process(process.pid), seconds)
        finally:
            process.kill()
            process.wait()
            batcher.close()
            streams.end()
            server.stop(0)


def _answer(batcher: Any, streams: Any, size: int, done: list[int]) -> None:
    """Answer groups of `size` at once, with random actions. Counts groups in `done[0]`."""
    from workbench.wire.messages import GroupActions

    chosen: Iterator[Any] | None = None
    while requests := batcher.next_batch():
        if chosen is None:
            chosen = _drawn(streams.lives[0].hello.spec, size)
        for request in requests:
            done[0] += 1
            request.reply(GroupActions(request.message.group, next(chosen), 0))


def _watched(done: list[int], size: int, process: psutil.Process, seconds: float) -> Rate:
    """The rate at which groups of `size` are counted, and the processor time that they took `process`."""
    while done[0] < 4 * GROUPS:
        _look(process)
    for limit in (seconds / 5, seconds):
        first, started, cpu = done[0], time.perf_counter(), cpu_seconds(process)
        time.sleep(limit)
        while done[0] == first or cpu_seconds(process) == cpu:
            _look(process)
        steps = (done[0] - first) * size
        elapsed, spent = time.perf_counter() - started, cpu_seconds(process) - cpu
    return Rate(steps / elapsed, steps / spent)


def _look(process: psutil.Process) -> None:
    """Wait a moment. Raises SystemExit where the process has ended."""
    if process.status() == psutil.STATUS_ZOMBIE:
        raise SystemExit("the actor ended while it was measured, or before")
    time.sleep(0.05)


def play(name: str, count: int, address: str, core: int) -> None:
    """An actor's process."""
    os.sched_setaffinity(0, {core})
    from workbench.actor.main import connect_and_play

    with asyncio.Runner() as runner:
        connect_and_play(_groups(name, count), address, "token", 0, runner=runner)


def _cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))


WAYS = {"bare": bare, "adapter": adapter, "actor": actor, "remote": functools.partial(actor, by_memory=False)}


def in_own_process(way: str, name: str, count: int, seconds: float) -> Rate:
    """The rate of one way with `count` games. Raises CalledProcessError where it fails, after saying why.

    What packages print meanwhile is heard only then: MuJoCo warns of every game that it makes, and leaves a file of it
    in the working directory.
    """
    from workbench.supervisor.hosts.host import variables

    with tempfile.TemporaryDirectory(prefix="wb") as folder:
        done = subprocess.run([sys.executable, __file__, way, name, str(count), "--seconds", str(seconds)], cwd=folder,
                              env={**os.environ, **variables(1)}, capture_output=True, text=True)
    if done.returncode:
        sys.stderr.write(done.stderr)
    done.check_returncode()
    return Rate(*json.loads(done.stdout.splitlines()[-1]))


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.add_argument("way", choices=(*WAYS, "play"), metavar="WAY", help=f"one of {', '.join(WAYS)}")
    parser.environment("name", None, metavar="NAME")
    parser.whole("games", None, "games, in two groups", least=GROUPS, most=4096, multiple=GROUPS, metavar="GAMES")
    parser.seconds(5.0)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    parser.add_argument("--core", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    if given.way == "play" and (given.address is None or given.core is None):
        parser.error("play is what the way \"actor\" starts; name that one")
    return given


def main() -> None:
    given = arguments()
    if given.way == "play":
        play(given.name, given.games, given.address, given.core)
        return
    if given.way in ("bare", "adapter"):
        os.sched_setaffinity(0, {_cores()[0]})
    print(json.dumps(WAYS[given.way](given.name, given.games, given.seconds)))


if __name__ == "__main__":
    main()
