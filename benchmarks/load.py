"""1,024 environments from 32 actors, for long: nothing lost, memory flat, latencies; and 200 readers of the run.

    python benchmarks/load.py [--minutes 30] [--actors 32] [--envs 32] [--readers 200] [--write]

A run of the counting environment with real actors, gRPC, inference, training, metrics and checkpoints. Its supervisor
and its learner are threads of this process, so that every unroll can be looked at on its way to training: it must be
the steps of one life of one environment in their order, and go on where the one before ended. So any step that is
lost, repeated or mixed up is counted. The actors are processes of their own. The readers are threads of another
process: each attaches to the run, and asks for its status and a metric once a second. Memory is the resident set; its
slope is fitted after the first quarter of the time.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile

from arguments import Parser, written


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.number("--minutes", 30.0, "minutes, once the run trains", least=0.05, most=10_000)
    parser.whole("--actors", 32, "actors", most=1024)
    parser.whole("--envs", 32, "environments of each actor", least=2, most=4096)
    parser.whole("--readers", 200, "readers of the run", most=10_000)
    parser.writes("load.md")
    parser.add_argument("--read", type=int, help=argparse.SUPPRESS)
    return parser.parse_args(words)


def main() -> None:
    given = arguments()
    import load_run

    from workbench.supervisor.hosts.host import MEMORY

    if given.read is not None:
        load_run.read_for_ever(given.read)
        return
    if MEMORY.items() - os.environ.items():  # as the learner's own process has them from its start
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **MEMORY})
    with tempfile.TemporaryDirectory(prefix="wb-") as home:
        os.environ["WORKBENCH_HOME"] = home
        table, wrong = load_run.measure(given)
    written(f"# Load: many environments, many readers\n\n{table}", given.write)
    sys.exit("not as it must be:\n" + "\n".join(wrong) if wrong else 0)


if __name__ == "__main__":
    main()
