"""Does a population that replaces its worst do better than the same runs left alone? CartPole, fields drawn at random.

    python benchmarks/population.py [--members 8] [--frames 60000] [--seeds 3] [--parallel 2]
                                    [--episodes 50] [--write]

Both begin with the same fields, train for the same frames, and are judged the same way: whoever was best by its own
returns plays evaluation episodes that nobody saw before.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from typing import Any

from arguments import Parser, written

import workbench as wb

ENVIRONMENT = "CartPole-v1"
SPACE: dict[str, Any] = {"learning_rate": (1e-5, 1e-1), "entropy_cost": (1e-4, 0.3)}
FIELDS: dict[str, Any] = {"actors": 1, "envs_per_actor": 8, "batch_size": 8, "learner_threads": 1, "warmup_updates": 0}
WAYS: dict[str, dict[str, Any]] = {
    "left alone": {"sampler": "random", "pruner": "none"}, "population-based training": {"sampler": "pbt"},
}  # fmt: skip
FIRST_SEED = 1000


def trained(way: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """One sweep from beginning to end, deleted with its runs: what became of it."""
    began = time.monotonic()
    sweep = wb.sweep(ENVIRONMENT, space=SPACE, trials=options.members, parallel=options.parallel, seed=seed,
                     total_frames=options.frames, **FIELDS, **WAYS[way])  # fmt: skip
    sweep.wait()
    seconds = time.monotonic() - began
    values = [float(one.value or 0.0) for one in sweep.trials if one.state == "finished"]
    evaluation = wb.evaluate(sweep.best, episodes=options.episodes, seed=10_000 + seed)
    found = {"way": way, "seed": seed, "best": evaluation.mean, "members": statistics.mean(values),
             "seconds": seconds, "fields": sweep.best_fields}  # fmt: skip
    sweep.delete(runs=True)
    return found


def report(rows: list[dict[str, Any]], options: argparse.Namespace) -> str:
    """All of it, as Markdown."""
    lines = [
        f"# A population against the same runs left alone: {ENVIRONMENT}, V-trace", "",
        f"{platform.machine()}, Python {platform.python_version()}, {time.strftime('%Y-%m-%d')}. {options.members} "
        f"runs of {options.frames:,} frames, {options.parallel} at a time, {options.seeds} seeds. Best: mean return of "
        f"{options.episodes} evaluation episodes of the run whose own returns were best. Members: mean over the runs "
        "at the end, over the last tenth of their frames.", "",
        "| | best, median of seeds | each | members, median of seeds | each | minutes |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for way in WAYS:
        mine = [row for row in rows if row["way"] == way]
        cells = [way]
        for what in ("best", "members"):
            found = [row[what] for row in mine]
            cells += [f"{statistics.median(found):.1f}", ", ".join(f"{one:.1f}" for one in found)]
        lines.append(f"| {' | '.join(cells)} | {statistics.median(row['seconds'] for row in mine) / 60:.1f} |")
    return "\n".join([*lines, ""])


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.whole("--members", 8, "runs of a population", least=2, most=256)
    parser.whole("--frames", 60_000, "frames (= steps) of each run", least=500, most=10**9)
    parser.whole("--seeds", 3, "seeds, each with a sweep of each way", most=100)
    parser.whole("--parallel", 2, "runs at the same time", most=64)
    parser.whole("--episodes", 50, "evaluation episodes of the best run")
    parser.writes("population.md")
    return parser.parse_args(words)


def main() -> None:
    options = arguments()
    rows = []
    for seed in range(FIRST_SEED, FIRST_SEED + options.seeds):
        for way in WAYS:
            rows.append(trained(way, seed, options))
            print(rows[-1], flush=True)
    text = report(rows, options)
    written(text, options.write)


if __name__ == "__main__":
    main()
