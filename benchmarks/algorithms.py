"""Every algorithm as launched with no fields, beside Stable-Baselines3: return at equal frames and seconds.

    python benchmarks/algorithms.py [--tasks cartpole pendulum] [--algorithms ppo] [--seeds 3] [--frames 100000]
        [--install] [--write]

CartPole-v1 for all algorithms; Pendulum-v1 for those that choose numbers. The table has what the environment's preset
sets. Stable-Baselines3 has an environment of its own (--install makes it, --folder says where); without it ours are
measured alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "peers"))

from arguments import Parser
from home import private_home
from installing import ENVIRONMENTS, install, python_of
from throughput import hardware

import workbench as wb
from workbench.config import ALGORITHMS, DemonstrationsConfig
from workbench.environments.presets import preset_of

REQUIREMENTS = "stable_baselines.txt"
EPISODES = 20  # of an evaluation
TASKS = {"cartpole": "CartPole-v1", "pendulum": "Pendulum-v1"}
OURS = {"cartpole": ("vtrace", "ppo", "awr", "vmpo", "sac", "r2d2"), "pendulum": ("ppo", "sac")}
THEIRS = {"cartpole": ("PPO", "A2C", "DQN"), "pendulum": ("PPO", "SAC")}
COMMON = {"actors": 1, "envs_per_actor": 8, "learner_threads": 1}
SHOWN = ("task", "library", "algorithm", "seconds", "return while training, last tenth", "greedy return",
         "the preset's fields")


def ours(environment: str, algorithm: str, frames: int, seed: int) -> dict[str, Any]:
    """Seconds, curve and greedy returns of one run."""
    run = wb.launch(environment, algorithm=algorithm, seed=seed, total_frames=frames, progress=False,
                    ready_timeout_s=900.0, **COMMON)
    status = run.wait(timeout_s=None, progress=False)
    table = run.metrics("episode_return_mean").dropna()
    returns = wb.evaluate(run, episodes=EPISODES, seed=1000).returns
    return {"seconds": status.time_s, "curve": table[["frames", "value"]].to_numpy().tolist(), "returns": list(returns)}


def theirs(python: str, environment: str, algorithm: str, frames: int, seed: int) -> dict[str, Any]:
    """The same of Stable-Baselines3 with its defaults. SAC and DQN step one environment, as the defaults are meant for.
    """
    asked = {"algorithm": algorithm, "environment": environment, "frames": frames, "seed": seed, "episodes": EPISODES,
             "environments": 1 if algorithm in ("SAC", "DQN") else 8, "threads": 1}
    done = subprocess.run([python, "-c", "from stable_baselines_learn import main; main()", json.dumps(asked)],
                          cwd=Path(__file__).parent / "peers", capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"Stable-Baselines3 {algorithm} on {environment} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def row(task: str, library: str, algorithm: str, found: list[dict[str, Any]]) -> str:
    """Medians over the seeds, with the least and the most."""
    def spread(values: list[float]) -> str:
        return f"{statistics.median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"

    preset = preset_of(TASKS[task], None, algorithm=algorithm) if library == "workbench" else None
    fields = {} if preset is None else preset.fields(algorithm)
    late = []
    for one in found:
        last = one["curve"][-1][0]
        late.append(statistics.mean(value for frames, value in one["curve"] if frames >= 0.9 * last))
    cells = [task, library, algorithm, f"{statistics.median(one['seconds'] for one in found):,.0f}", spread(late),
             spread([statistics.mean(one["returns"]) for one in found]),
             ", ".join(f"{name}={value}" for name, value in fields.items())]
    return f"| {' | '.join(cells)} |"


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS), help="default: both")
    known = [name for name, config in ALGORITHMS.items() if not issubclass(config, DemonstrationsConfig)]
    parser.add_argument("--algorithms", nargs="+", choices=known, default=known,
                        help="of ours (default: all that learn from their own steps)")
    parser.whole("--seeds", 3, "runs of each, whose median is shown")
    parser.whole("--frames", 100_000, "frames (= steps) of a run on CartPole; a fifth on Pendulum", least=1000,
                 most=10**9)
    parser.add_argument("--install", action="store_true", help="install Stable-Baselines3 and do nothing else")
    parser.add_argument("--folder", type=Path, default=ENVIRONMENTS, metavar="DIRECTORY",
                        help="of its virtual environment (default: build/peers)")
    parser.writes("algorithms.md")
    return parser.parse_args(words)


def main() -> None:
    given = arguments()
    if given.install:
        print(python_of(REQUIREMENTS, given.folder) or install(REQUIREMENTS, given.folder))
        return
    python, rows, began = python_of(REQUIREMENTS, given.folder), [], time.strftime("%Y-%m-%d")
    with private_home():
        for task in given.tasks:
            frames = given.frames if task == "cartpole" else given.frames // 5
            for algorithm in (name for name in OURS[task] if name in given.algorithms):
                found = [ours(TASKS[task], algorithm, frames, seed) for seed in range(given.seeds)]
                rows.append(row(task, "workbench", algorithm, found))
                print(rows[-1], flush=True)
            for algorithm in THEIRS[task] if python else ():
                found = [theirs(python, TASKS[task], algorithm, frames, seed) for seed in range(given.seeds)]
                rows.append(row(task, "Stable-Baselines3", algorithm, found))
                print(rows[-1], flush=True)
    command = f"python benchmarks/algorithms.py --seeds {given.seeds} --frames {given.frames}"
    text = "\n".join([
        "# Learning with defaults", "",
        f"`{command}` on {hardware()}, {began}. {given.frames:,} frames (= steps) on CartPole-v1, "
        f"{given.frames // 5:,} on Pendulum-v1; {given.seeds} seeds: median (least to most). One environment process "
        "with 8 environments and no other field given; Stable-Baselines3 with its defaults, 8 environments for PPO and "
        "A2C, one for DQN and SAC. "
        f"Greedy: {EPISODES} episodes after training. Seconds are those of training.", "",
        f"| {' | '.join(SHOWN)} |", "|" + "---|" * len(SHOWN), *rows, ""])
    if given.write:
        given.write.write_text(text)


if __name__ == "__main__":
    main()
