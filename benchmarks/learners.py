"""What several learners cost on one machine: the same run, joint batch and actors with one learner and with more.

    python benchmarks/learners.py [--learners 2] [--rounds 3] [--seconds 20] [--environment ALE/Pong-v5]
                                  [--algorithm vtrace] [--write]

On C cores that share all work several learners can be no faster than one; what they lose is what it costs to agree
before each update, to average gradients, and to do per update what does not get less with a smaller batch. Both take
turns for several rounds; medians count. With `--write` the table goes to benchmarks/results/learners.md.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

from throughput import hardware

from workbench.wire.rpc import Caller

RESULT = Path(__file__).parent / "results" / "learners.md"
WARM_UP_UPDATES = 30
SMALL_REPLAY = {"replay_min_size": 64, "replay_size": 2000}


def measure(learners: int, arguments: argparse.Namespace) -> float:
    """Trained steps/s of a launched run after its warm-up: updates x batch_size x unroll_length."""
    import workbench as wb

    fields = SMALL_REPLAY if arguments.algorithm == "r2d2" else {}
    with tempfile.TemporaryDirectory(prefix="wb") as home:
        os.environ["WORKBENCH_HOME"] = home
        run = wb.launch(arguments.environment, algorithm=arguments.algorithm, learners=learners,
                        actors=arguments.actors, envs_per_actor=arguments.envs, device="cpu",
                        total_frames=10**12, **fields)
        try:
            run.wait(updates=WARM_UP_UPDATES, timeout_s=600, progress=False)
            first = told(run)
            run.wait(updates=int(first["updates"]) + 1, timeout_s=600, progress=False)
            first, last = told(run), None
            while last is None or last["time_s"] - first["time_s"] < arguments.seconds:
                run.wait(updates=int((last or first)["updates"]) + 1, timeout_s=600, progress=False)
                last = told(run)
            hyper = run.config.hyperparameters
        finally:
            run.stop()
    trained = (last["updates"] - first["updates"]) * hyper.batch_size * hyper.unroll_length
    return trained / (last["time_s"] - first["time_s"])


def told(run) -> dict[str, float]:
    """Counters of the learner as they are now."""
    learner = Caller(run.directory.learner_address(), run.directory.token())
    try:
        return learner.call("status")
    finally:
        learner.close()


def report(rates: dict[int, list[float]], arguments: argparse.Namespace) -> str:
    """The table, as Markdown."""
    medians = {learners: statistics.median(values) for learners, values in rates.items()}
    rows = [f"| {learners} | {medians[learners]:,.0f} | {min(values):,.0f} to {max(values):,.0f} | "
            f"{medians[learners] / medians[1]:.0%} |" for learners, values in rates.items()]
    return "\n".join([
        f"`python benchmarks/learners.py {' '.join(one for one in sys.argv[1:] if one != '--write')}`", "",
        f"{hardware()}; {arguments.environment}, {arguments.algorithm}, {arguments.actors} actors x {arguments.envs} "
        f"environments, gloo; the joint batch is the same. Medians of {arguments.rounds} rounds.", "",
        "| learners | trained steps/s | range | of one learner |", "|---|---|---|---|", *rows, ""])


def main() -> None:
    """Measure, print, and with --write keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--learners", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--environment", default="ALE/Pong-v5")
    parser.add_argument("--algorithm", default="vtrace")
    parser.add_argument("--actors", type=int, default=2)
    parser.add_argument("--envs", type=int, default=16)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    rates: dict[int, list[float]] = {1: [], arguments.learners: []}
    for number in range(arguments.rounds):
        for learners in sorted(rates, reverse=bool(number % 2)):
            rates[learners].append(measure(learners, arguments))
            print(f"learners={learners}: {rates[learners][-1]:,.0f} trained steps/s", file=sys.stderr, flush=True)
    table = report(rates, arguments)
    print(table)
    if arguments.write:
        RESULT.write_text(f"# Several learners on one machine\n\n{table}")


if __name__ == "__main__":
    main()
