"""What a run's disk takes: rows of episodes into the metrics, and bytes of checkpoints; `wb.plan` reads both.

    python benchmarks/storing_speed.py [--rounds 3] [--write]

Episodes go through one writer, 2,000 in a commit. A checkpoint has ten times the parameters of Mnih et al. 2015 as
float32, with two moments of an optimizer and checksums, and is flushed to the disk. Medians count.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from arguments import Parser, written

ROWS, COMMITS = 2_000, 10
PARAMETERS = 16_877_190
COPIES = 3  # weights, and two moments of an optimizer


def episodes_per_second(folder: Path) -> float:
    """Rows of episodes that one writer stores."""
    from workbench.metrics import MetricsWriter, Progress

    writer, progress = MetricsWriter(folder / "metrics.sqlite"), Progress(4, 1, 0, 0.0)
    started = time.perf_counter()
    for _ in range(COMMITS):
        for row in range(ROWS):
            writer.episode(progress, env_id=row, episode_return=1.0, length_steps=10)
        writer.commit()
    seconds = time.perf_counter() - started
    writer.close()
    return ROWS * COMMITS / seconds


def checkpoint_mb_per_second(folder: Path) -> float:
    """MB of a checkpoint's arrays that are on disk per second."""
    import numpy as np

    from workbench import checkpoints

    groups = {name: {"all": np.ones(PARAMETERS * number, np.float32)} for name, number in
              (("model", 1), ("optimizer", COPIES - 1))}
    started = time.perf_counter()
    checkpoints.write(folder / "checkpoints", frames=1, groups=groups, meta={"steps": 1, "updates": 1, "time_s": 1.0},
                      requested=False)
    return 4e-6 * PARAMETERS * COPIES / (time.perf_counter() - started)


WHAT = {"episodes into the metrics, rows/s": episodes_per_second,
        "checkpoint on the disk, MB/s": checkpoint_mb_per_second}


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.rounds(3)
    parser.writes("storing-speed.md")
    return parser.parse_args(words)


def main() -> None:
    given = arguments()
    from throughput import hardware

    found: dict[str, list[float]] = {what: [] for what in WHAT}
    for _ in range(given.rounds):
        for what, measure in WHAT.items():
            with tempfile.TemporaryDirectory(prefix="wb") as folder:
                found[what].append(measure(Path(folder)))
    rows = [f"| {what} | {statistics.median(values):,.0f} | {min(values):,.0f} to {max(values):,.0f} |"
            for what, values in found.items()]
    text = "\n".join(["# What the disk takes", "", f"`python benchmarks/storing_speed.py --rounds {given.rounds}`", "",
                      f"{hardware()}; {time.strftime('%F')}; medians of {given.rounds} rounds, other work beside; a "
                      f"checkpoint has {4e-6 * PARAMETERS * COPIES:,.0f} MB.", "",
                      "| | median | range |", "|---|---|---|", *rows, ""])
    written(text, given.write)


if __name__ == "__main__":
    main()
