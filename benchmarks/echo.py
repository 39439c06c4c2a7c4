"""What data echoing gains where training waits for environments: the same run with echo_factor 1, 2, 4 and 8.

    python benchmarks/echo.py [--rounds 3] [--frames 40000] [--algorithms vtrace r2d2] [--factors 1 2 4 8] [--write]

The environment is CartPole-v1 whose every step sleeps 2 ms, so that the learner has time to spare. All factors take
turns, with a new seed each round; medians over the rounds count.
"""

from __future__ import annotations

import argparse
import statistics
import time

from arguments import Parser, whole, written
from home import private_home
from throughput import hardware

import workbench as wb

COMMON = {"actors": 1, "envs_per_actor": 16, "learning_rate": 1e-3, "warmup_updates": 0, "learner_threads": 1}
SETTINGS = {
    "vtrace": {"unroll_length": 20, "batch_size": 16},
    "r2d2": {"unroll_length": 20, "burn_in": 5, "batch_size": 16, "replay_size": 2000, "replay_min_size": 50,
             "replay_ratio": 1.0, "adam_epsilon": 1e-5, "lstm_size": 64, "dueling_size": 64,
             "target_update_period": 50, "discount": 0.99},
}
SHOWN = ("factor", "updates", "uses per batch", "steps/s", "return at the end", "mean return of the run")


def slow_cartpole():
    """CartPole-v1 that takes 2 ms of sleep per step."""
    import gymnasium

    class SlowCartPole(gymnasium.Wrapper):
        def step(self, action):
            time.sleep(0.002)
            return self.env.step(action)

    return SlowCartPole(gymnasium.make("CartPole-v1"))


def measured(algorithm: str, factor: int, frames: int, seed: int) -> tuple[float, ...]:
    """Updates, uses per batch, steps/s, mean return of the last 50 episodes and of all, after `frames` frames."""
    run = wb.launch(slow_cartpole, algorithm=algorithm, echo_factor=factor, seed=seed, total_frames=frames,
                    ready_timeout_s=900.0, **COMMON, **SETTINGS[algorithm])
    status = run.wait(timeout_s=None, progress=False)
    returns = run.metrics("episode_return")["value"]
    uses = run.metrics("batch_uses")["value"].mean()
    return status.updates, uses, status.steps / status.time_s, returns.tail(50).mean(), returns.mean()


def table(algorithm: str, factors: list[int], results: dict[int, list[tuple[float, ...]]]) -> str:
    lines = [f"| {' | '.join(SHOWN)} |", "|" + "---|" * len(SHOWN)]
    for factor in factors:
        medians = [statistics.median(column) for column in zip(*results[factor], strict=True)]
        cells = [str(factor), f"{medians[0]:,.0f}", f"{medians[1]:.2f}", f"{medians[2]:,.0f}", f"{medians[3]:.0f}",
                 f"{medians[4]:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    settings = ", ".join(f"{name}={value}" for name, value in {**COMMON, **SETTINGS[algorithm]}.items())
    return f"## {algorithm}\n\n" + "\n".join(lines) + f"\n\n{settings}\n"


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.whole("--rounds", 3, "rounds with a seed each, of which the median counts")
    parser.whole("--frames", 40_000, "frames (= steps) of each run", least=1000, most=10**9)
    parser.add_argument("--algorithms", nargs="+", choices=list(SETTINGS), default=list(SETTINGS), help="default: both")
    parser.add_argument("--factors", type=whole(1, 64), nargs="+", default=[1, 2, 4, 8],
                        help="uses of each batch: 1 to 64 (default: 1 2 4 8)")
    parser.writes("echo.md")
    return parser.parse_args(words)


def main() -> None:
    given = arguments()
    results = {algorithm: {factor: [] for factor in given.factors} for algorithm in given.algorithms}
    with private_home():
        for seed in range(given.rounds):
            for algorithm in given.algorithms:
                for factor in given.factors:
                    found = measured(algorithm, factor, given.frames, seed)
                    results[algorithm][factor].append(found)
                    print(seed, algorithm, factor, [round(one, 2) for one in found], flush=True)
    tables = "\n".join(table(algorithm, given.factors, results[algorithm]) for algorithm in given.algorithms)
    text = (f"# Data echoing\n\nCartPole-v1 whose every step sleeps 2 ms; {given.frames:,} frames (= steps) a run, "
            f"medians of {given.rounds} seeds. Return at the end: mean of the last 50 episodes.\n\n{hardware()}.\n\n"
            f"`python benchmarks/echo.py --rounds {given.rounds} --frames {given.frames} --factors "
            f"{' '.join(map(str, given.factors))}`\n\n{tables}")
    written(text, given.write)


if __name__ == "__main__":
    main()
