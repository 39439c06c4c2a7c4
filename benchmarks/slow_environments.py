"""An actor whose environments are slow Python: processes of its own, more actors, or Gymnasium's AsyncVectorEnv.

    python benchmarks/slow_environments.py [--rounds 3] [--seconds 6] [--environments wait-5] [--bare] [--write]

A step takes so many ms of processor time (compute) or of waiting, as for a simulator or a device behind a socket. Runs
of 16 environments take turns; steps/s are the learner's. --bare: no run, but one group that is given random actions.
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from arguments import Parser, some, written
from home import private_home
from throughput import rate, rates, ratio_cells

import workbench as wb

ROWS = 16
ENVIRONMENTS = {"compute-1": (1.0, 0.0), "compute-5": (5.0, 0.0), "wait-5": (0.0, 5.0)}  # ms of each
ARMS: dict[str, dict[str, Any]] = {
    "alone": {}, "actor_processes=2": {"actor_processes": 2}, "actor_processes=8": {"actor_processes": 8},
    "actors=2": {"actors": 2, "envs_per_actor": ROWS // 2}, "AsyncVectorEnv": {},
}


def slow(compute_ms: float, wait_ms: float) -> Any:
    """An environment of noise, in episodes of 100 steps that take so long."""
    import gymnasium
    import numpy as np

    class Slow(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (4,), np.float32)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            self._steps = 0
            return self._seen(), {}

        def step(self, action: int) -> Any:
            time.sleep(wait_ms / 1000)
            end = time.thread_time() + compute_ms / 1000
            while time.thread_time() < end:
                pass
            self._steps += 1
            return self._seen(), 1.0, self._steps == 100, False, {}

        def _seen(self) -> Any:
            return self.np_random.uniform(-1, 1, 4).astype(np.float32)

    return Slow()


def factory(environment: str, arm: str) -> Callable[..., Any]:
    """What `launch` is given."""
    one = functools.partial(slow, *ENVIRONMENTS[environment])
    if arm != "AsyncVectorEnv":
        return one
    from gymnasium.vector import AsyncVectorEnv, AutoresetMode

    return lambda num_envs: AsyncVectorEnv([one] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)


def measure(environment: str, arm: str, seconds: float) -> float:
    """Steps/s of a run, on its learner's clock."""
    fields = {"actors": 1, "envs_per_actor": ROWS, "batch_size": ROWS, "total_frames": 10**9,
              "learner_threads": wb.machine().learner_threads, **ARMS[arm]}
    with private_home():
        run = wb.launch(factory(environment, arm), name="slow", progress=False, ready_timeout_s=600, **fields)
        try:
            run.wait(frames=10 * ROWS, timeout_s=600, progress=False)
            return rates(run, seconds)[0]
        finally:
            run.stop(timeout_s=0)


def _worth_it(environment: str, arm: str, bare: bool) -> bool:
    if arm == "actor_processes=8":
        return environment.startswith("wait")
    return arm != "actors=2" or not bare


def measure_bare(environment: str, arm: str, seconds: float) -> float:
    """Steps/s of the environments as one vector, with random actions and without a run."""
    import numpy as np

    from workbench import environments

    processes = ARMS[arm].get("actor_processes", 1)
    env = environments.make("slow", num_envs=ROWS, seed=0, factory=factory(environment, arm), processes=processes)
    try:
        env.reset()
        random = np.random.default_rng(0)

        def work() -> int:
            env.step(random.integers(0, 2, ROWS))
            return ROWS

        return rate(work, seconds)
    finally:
        env.close()


def table(rounds: dict[str, dict[str, list[float]]], arguments: argparse.Namespace, load: str) -> str:
    """The result, as Markdown."""
    rows = []
    for environment, arms in rounds.items():
        for arm, values in arms.items():
            rows.append(f"| {environment} | {arm} | {statistics.median(values):,.0f} | "
                        f"{ratio_cells(values, arms['alone'])} |")
    machine = wb.machine()
    return "\n".join([
        f"`python benchmarks/slow_environments.py --rounds {arguments.rounds} --seconds {arguments.seconds:g} "
        f"--environments {','.join(rounds)}{' --bare' if arguments.bare else ''}`", "",
        f"{machine.processor}, {machine.cores} cores; one actor x {ROWS} environments in 2 groups, or 2 actors "
        f"x {ROWS // 2}{' (here one group)' if arguments.bare else ''}; medians of {arguments.rounds} rounds, ratios "
        f"of each round. Load average of the machine: {load}.", "",
        "| a step's ms | | steps/s | / alone | range |", "|---|---|---|---|---|", *rows, "",
    ])


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.rounds(3)
    parser.seconds(6)
    parser.add_argument("--environments", type=some(list(ENVIRONMENTS)), default=list(ENVIRONMENTS),
                        metavar="NAME,NAME", help=f"some of {', '.join(ENVIRONMENTS)}: ms a step (default: all)")
    parser.add_argument("--bare", action="store_true", help="one vector of environments with random actions, no run")
    parser.writes("slow-environments.md", "the table")
    return parser.parse_args(words)


def main() -> None:
    given = arguments()
    chosen = given.environments
    before, taken = os.getloadavg()[0], measure_bare if given.bare else measure
    rounds = {one: {arm: list[float]() for arm in ARMS if _worth_it(one, arm, given.bare)} for one in chosen}
    for number in range(given.rounds):
        for environment in chosen:
            for arm in rounds[environment]:
                rounds[environment][arm].append(taken(environment, arm, given.seconds))
                print(f"round {number + 1}: {environment}, {arm}: {rounds[environment][arm][-1]:,.0f} steps/s, load "
                      f"{os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    text = table(rounds, given, f"{before:.1f} before, {os.getloadavg()[0]:.1f} after")
    written(f"# Slow environments in Python\n\n{text}", given.write, variant="bare" if given.bare else "")


if __name__ == "__main__":
    main()
