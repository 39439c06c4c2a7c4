"""Does a sweep beat the defaults, on a task where they are bad? CartPole in very few frames.

    python benchmarks/sweep.py [--trials 16] [--frames 30000] [--seeds 3] [--parallel 2] [--write]

The defaults are those of long runs on Atari; in 30,000 frames they hardly begin to learn. The sweep's own values say
too much, since the best of many is also the luckiest: the best trial's fields and the defaults are run again with seeds
that the sweep did not use, and it is those runs that are compared. A sweep that is there already goes on (--name).
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
SPACE: dict[str, Any] = {
    "learning_rate": (1e-5, 3e-2), "entropy_cost": (1e-4, 0.1), "batch_size": [4, 8, 16, 32], "unroll_length": (5, 40),
    "warmup_updates": [0, 20, 200],
}
FIELDS: dict[str, Any] = {"actors": 1, "envs_per_actor": 8, "learner_threads": 1, "preset": "none"}
FIRST_SEED = 1000


def swept(options: argparse.Namespace) -> tuple[wb.Sweep, float]:
    """The sweep once it has finished, and seconds that it took from here."""
    started = time.monotonic()
    try:
        sweep = wb.attach_sweep(options.name)
        if sweep.state != "finished":
            sweep.resume()
    except wb.errors.RunNotFound:
        sweep = wb.sweep(ENVIRONMENT, space=SPACE, trials=options.trials, parallel=options.parallel, name=options.name,
                         total_frames=options.frames, **FIELDS)  # fmt: skip
    sweep.wait()
    return sweep, time.monotonic() - started


def returns(options: argparse.Namespace, **fields: Any) -> list[float]:
    """Mean return over the last tenth of the frames of a run per seed."""
    from workbench.sweeping.objective import Curve

    found = []
    for seed in range(FIRST_SEED, FIRST_SEED + options.seeds):
        run = wb.launch(ENVIRONMENT, seed=seed, total_frames=options.frames, **FIELDS, **fields)
        run.wait()
        run.stop()  # until its last rows are on disk
        curve = Curve(run.directory, "episode_return", options.frames)
        curve.follow()
        found.append(curve.value() or 0.0)
        run.delete()
    return found


def report(sweep: wb.Sweep, seconds: float, before: list[float], after: list[float], frames: int) -> str:
    """All of it, as Markdown."""
    table, status = sweep.table, sweep.status
    spent = int(table["frames"].sum())
    fields = ", ".join(f"{name}={value:.3g}" for name, value in sweep.best_fields.items())
    shares = ", ".join(f"{name} {share:.0%}" for name, share in sweep.importance.items()) or "too few trials"
    share = spent / (status.over * frames)
    ratio = f"{statistics.mean(after) / statistics.mean(before):.2f}" if any(before) else "unknown: no run has a return"
    rows = [("defaults", before), (f"best of the sweep ({fields})", after)]
    lines = [
        f"# Sweep against defaults: {ENVIRONMENT}, V-trace, {frames:,} frames a run", "",
        f"{platform.machine()}, Python {platform.python_version()}, {time.strftime('%Y-%m-%d')}. {status.over} trials "
        f"({status.pruned} pruned, {status.failed} failed), {spent:,} frames, {share:.0%} of what they would have been "
        f"without pruning; {seconds / 60:.1f} min.", "",
        "| fields | return, mean of seeds | each |", "|---|---|---|",
        *(f"| {what} | {statistics.mean(found):.1f} | {', '.join(f'{one:.1f}' for one in found)} |"
          for what, found in rows), "",
        f"Ratio {ratio}, on seeds that the sweep did not use; the best "
        f"trial's own value was {status.best_value:.1f}. Importance: {shares}.", "",
    ]  # fmt: skip
    return "\n".join(lines)


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.whole("--trials", 16, "trials of the sweep", most=10_000)
    parser.whole("--frames", 30_000, "frames (= steps) of each run", least=500, most=10**9)
    parser.whole("--seeds", 3, "runs behind each of the two means", most=100)
    parser.whole("--parallel", 2, "trials at the same time", most=64)
    parser.add_argument("--name", default="benchmark-sweep", help="of the sweep (default: benchmark-sweep)")
    parser.writes("sweep.md")
    return parser.parse_args(words)


def main() -> None:
    options = arguments()
    sweep, seconds = swept(options)
    text = report(sweep, seconds, returns(options), returns(options, **sweep.best_fields), options.frames)
    written(text, options.write)


if __name__ == "__main__":
    main()
