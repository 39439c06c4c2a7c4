"""Algorithms as launched with no fields, beside Stable-Baselines3 and CleanRL: return at equal frames and seconds.

    python benchmarks/algorithms.py [--tasks cartpole pendulum] [--algorithms ppo] [--libraries workbench CleanRL]
        [--seeds 3] [--first-seed 0] [--frames 100000] [--equal seconds] [--install] [--write]

CartPole-v1 for all algorithms; Pendulum-v1, Hopper-v5 and HalfCheetah-v5 for those that choose numbers. The table has
what the environment's preset sets. The other libraries have environments of their own (--install makes them, --folder
says where); one that is not installed is left out. With `--equal seconds` each of their runs is followed by one of ours
that trains for as many seconds as it took.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "peers"))

from arguments import Parser
from home import private_home
from installing import ENVIRONMENTS, install, python_of
from learning import last_checkpoint
from throughput import hardware

import workbench as wb
from workbench.config import ALGORITHMS, DemonstrationsConfig
from workbench.environments.contract import seeds_of
from workbench.environments.presets import preset_of

EPISODES, SEED = 20, 1000  # of an evaluation
GROUP = 8  # environments of one, which share its episodes


@dataclass(frozen=True)
class Task:
    """An environment, our algorithms there, and those of other libraries, each beside one of ours; `share` of --frames
    is how long."""

    environment: str
    share: float
    ours: tuple[str, ...]
    theirs: Mapping[str, Mapping[str, str]]


_NUMBERS = {"Stable-Baselines3": {"ppo": "PPO", "sac": "SAC"}, "CleanRL": {"ppo": "PPO", "sac": "SAC"}}  # of actions
TASKS = {
    "cartpole": Task("CartPole-v1", 1.0, ("vtrace", "ppo", "awr", "vmpo", "sac", "r2d2"),
                     {"Stable-Baselines3": {"ppo": "PPO", "vtrace": "A2C", "r2d2": "DQN"}, "CleanRL": {"ppo": "PPO"}}),
    "pendulum": Task("Pendulum-v1", 0.2, ("ppo", "sac"), _NUMBERS),
    "hopper": Task("Hopper-v5", 1.0, ("vtrace", "ppo", "sac"), _NUMBERS),
    "halfcheetah": Task("HalfCheetah-v5", 1.0, ("vtrace", "ppo", "sac"), _NUMBERS),
}
LIBRARIES = {"Stable-Baselines3": "stable_baselines", "CleanRL": "cleanrl"}  # requirements, and NAME_learn.py
OURS = "workbench"
COMMON = {"actors": 1, "envs_per_actor": 8, "learner_threads": 1}
SHOWN = ("task", "library", "algorithm", "frames", "seconds", "return while training, last tenth", "greedy return",
         "the preset's fields")
ENDLESS = 10**9  # frames of a run that the clock stops


def ours(environment: str, algorithm: str, frames: int, seed: int) -> dict[str, Any]:
    """What one run of so many frames finds: frames, seconds, curve and greedy returns."""
    run = launch(environment, algorithm, seed, frames)
    return found_by(run, run.wait(timeout_s=None, progress=False))


def ours_within(seconds: float, environment: str, algorithm: str, seed: int) -> dict[str, Any]:
    """The same of one run of so many seconds of training, which it counts from before its actors begin."""
    run = launch(environment, algorithm, seed, ENDLESS)
    while (status := run.status).alive and status.time_s < seconds:
        time.sleep(0.1)
    return found_by(run, run.stop())


def launch(environment: str, algorithm: str, seed: int, frames: int) -> wb.Run:
    return wb.launch(environment, algorithm=algorithm, seed=seed, total_frames=frames, progress=False,
                     ready_timeout_s=900.0, **COMMON)


def found_by(run: wb.Run, status: wb.RunStatus) -> dict[str, Any]:
    table = run.metrics("episode_return_mean").dropna()
    returns = wb.evaluate(last_checkpoint(run), episodes=EPISODES, seed=SEED).returns
    return {"frames": status.frames, "seconds": status.time_s, "returns": list(returns),
            "curve": table[["frames", "value"]].to_numpy().tolist()}


def theirs(library: str, python: str, environment: str, algorithm: str, frames: int, seed: int) -> dict[str, Any]:
    """The same of another library with its defaults. SAC and DQN step one environment, as the defaults are meant for.
    """
    asked = {"algorithm": algorithm, "environment": environment, "frames": frames, "seed": seed, "episodes": EPISODES,
             "starts": seeds_of(SEED, GROUP).tolist(),  # those of ours
             "environments": 1 if algorithm in ("SAC", "DQN") else 8, "threads": 1}
    script = f"from {LIBRARIES[library]}_learn import main; main()"
    done = subprocess.run([python, "-c", script, json.dumps(asked)],
                          cwd=Path(__file__).parent / "peers", capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{library} {algorithm} on {environment} failed:\n{done.stderr[-2000:]}")
    return {"frames": frames, **json.loads(done.stdout.splitlines()[-1])}


def preset_fields(task: str, algorithm: str) -> dict[str, Any]:
    """What the environment's preset sets for an algorithm of ours."""
    preset = preset_of(TASKS[task].environment, None, algorithm=algorithm)
    return {} if preset is None else preset.fields(algorithm)


def late(found: Mapping[str, Any]) -> float:
    """The mean return while training, over the last tenth of the frames."""
    last = found["curve"][-1][0]
    return statistics.mean(value for frames, value in found["curve"] if frames >= 0.9 * last)


def told(task: str, library: str, algorithm: str, seed: int, found: dict[str, Any]) -> dict[str, Any]:
    """What a run found, once it is printed in a line: runs take hours, and the table comes after all of them."""
    last, tenths = found["curve"][-1][0], range(1, 11)
    curve = [next(value for frames, value in found["curve"] if frames >= last * tenth / 10) for tenth in tenths]
    print(f"{task} {library} {algorithm} seed {seed}: {found['frames']:,} frames, {found['seconds']:,.0f} s, greedy "
          f"{statistics.mean(found['returns']):,.0f}; after each tenth {', '.join(f'{one:,.0f}' for one in curve)}",
          file=sys.stderr, flush=True)
    return found


def seeds(given: argparse.Namespace) -> range:
    return range(given.first_seed, given.first_seed + given.seeds)


def row(task: str, library: str, algorithm: str, found: list[dict[str, Any]]) -> str:
    """Medians over the seeds, with the least and the most."""
    def spread(values: list[float]) -> str:
        return f"{statistics.median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"

    fields = preset_fields(task, algorithm) if library == OURS else {}
    cells = [task, library, algorithm, *(f"{statistics.median(one[name] for one in found):,.0f}"
                                         for name in ("frames", "seconds")),
             spread([late(one) for one in found]), spread([statistics.mean(one["returns"]) for one in found]),
             ", ".join(f"{name}={value}" for name, value in fields.items() if name != "total_frames")]
    return f"| {' | '.join(cells)} |"


def equal_frames(name: str, given: argparse.Namespace, pythons: Mapping[str, str]) -> Iterator[str]:
    """Rows of a task, of ours and then of the other libraries, whose interpreters are given."""
    task = TASKS[name]
    frames = round(given.frames * task.share)
    for algorithm in (one for one in task.ours if one in given.algorithms and OURS in given.libraries):
        yield row(name, OURS, algorithm, [
            told(name, OURS, algorithm, seed, ours(task.environment, algorithm, frames, seed))
            for seed in seeds(given)])
    for library, python in pythons.items():
        for algorithm in (their for our, their in task.theirs[library].items() if our in given.algorithms):
            yield row(name, library, algorithm, [
                told(name, library, algorithm, seed, theirs(library, python, task.environment, algorithm, frames, seed))
                for seed in seeds(given)])


def equal_seconds(name: str, given: argparse.Namespace, pythons: Mapping[str, str]) -> Iterator[str]:
    """Rows of a task, two for each algorithm of another library: its own, and ours beside it."""
    task = TASKS[name]
    for library, python in pythons.items():
        for our, their in ((our, their) for our, their in task.theirs[library].items() if our in given.algorithms):
            if preset_fields(name, our).get("learning_rate_schedule") == "linear":
                sys.exit(f"{our} on {task.environment} has a learning rate that falls with the frames, of which a run "
                         "that the clock stops knows no end. Compare it with --equal frames.")
            found: dict[str, list[dict[str, Any]]] = {library: [], OURS: []}
            for seed in seeds(given):
                one = theirs(library, python, task.environment, their, round(given.frames * task.share), seed)
                found[library].append(told(name, library, their, seed, one))
                one = ours_within(one["seconds"], task.environment, our, seed)
                found[OURS].append(told(name, OURS, our, seed, one))
            yield row(name, library, their, found[library])
            yield row(name, OURS, our, found[OURS])


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=["cartpole", "pendulum"],
                        help="default: cartpole pendulum")
    known = [name for name, config in ALGORITHMS.items() if not issubclass(config, DemonstrationsConfig)]
    parser.add_argument("--algorithms", nargs="+", choices=known, default=known,
                        help="of ours, and those beside them (default: all that learn from their own steps)")
    parser.add_argument("--libraries", nargs="+", choices=[OURS, *LIBRARIES], default=[OURS, *LIBRARIES],
                        help="default: all")
    parser.whole("--seeds", 3, "runs of each, whose median is shown")
    parser.whole("--first-seed", 0, "the first of them, to go on where another call ended", least=0, most=10**6)
    parser.whole("--frames", 100_000, "frames (= steps) of a run; a fifth on Pendulum", least=1000, most=10**9)
    parser.add_argument("--equal", choices=["frames", "seconds"], default="frames",
                        help="what ours and theirs have the same number of; seconds are those that theirs take for "
                             "--frames (default: frames)")
    parser.add_argument("--install", action="store_true", help="install the other libraries and do nothing else")
    parser.add_argument("--folder", type=Path, default=ENVIRONMENTS, metavar="DIRECTORY",
                        help="of their virtual environments (default: build/peers)")
    parser.writes("algorithms.md", "the table, or that of equal seconds,")
    return parser.parse_args(words)


def main() -> None:
    given = arguments()
    files = {library: f"{name}.txt" for library, name in LIBRARIES.items()}
    if given.install:
        for file in files.values():
            print(python_of(file, given.folder) or install(file, given.folder))
        return
    pythons = {library: python_of(files[library], given.folder) for library in given.libraries if library != OURS}
    measure, began, rows = (equal_frames if given.equal == "frames" else equal_seconds), time.strftime("%Y-%m-%d"), []
    with private_home():
        for name in given.tasks:
            for line in measure(name, given, {library: python for library, python in pythons.items() if python}):
                rows.append(line)
                print(line, flush=True)
    command = (f"python benchmarks/algorithms.py --tasks {' '.join(given.tasks)} --algorithms "
               f"{' '.join(given.algorithms)} --libraries {' '.join(given.libraries)} --seeds {given.seeds} "
               f"--first-seed {given.first_seed} "
               f"--frames {given.frames} --equal {given.equal}")
    text = "\n".join([
        "# Learning with defaults", "",
        f"`{command}` on {hardware()}, {began}. {given.frames:,} frames (= steps), a fifth on Pendulum-v1, "
        f"{'of every run' if given.equal == 'frames' else 'of theirs; ours, below each, has their seconds'}; "
        f"{given.seeds} seeds: median (least to most). One environment process with 8 environments and no other field "
        "given; Stable-Baselines3 with its defaults, 8 environments for PPO and A2C, one for DQN and SAC; CleanRL's "
        "scripts of its package 0.4.8 with theirs, 4 environments for PPO's choices, one for numbers. "
        f"Greedy: {EPISODES} episodes after training. Seconds are those of training.", "",
        f"| {' | '.join(SHOWN)} |", "|" + "---|" * len(SHOWN), *rows, ""])
    if given.write:
        given.write.with_stem(given.write.stem + ("" if given.equal == "frames" else "-equal-seconds")).write_text(text)


if __name__ == "__main__":
    main()
