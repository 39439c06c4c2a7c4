"""What several learners cost on one machine: the same run, joint batch and actors with one learner and with more.

    python benchmarks/learners.py [--learners 2] [--rounds 3] [--seconds 20] [--environment ALE/Pong-v5]
                                  [--algorithm vtrace] [--actors 2] [--envs 16] [--write]

On C cores that share all work several learners can be no faster than one; what they lose is what it costs to agree
before each update, to average gradients, and to do per update what does not get less with a smaller batch. Both take
turns for several rounds; medians count. With `--write` the table goes to benchmarks/results/learners.md.
"""

from __future__ import annotations

import argparse
import statistics
import sys

from arguments import Parser, written
from home import private_home
from throughput import PATIENCE_S, hardware

SMALL_REPLAY = {"replay_min_size": 64, "replay_size": 2000}


def measure(learners: int, given: argparse.Namespace) -> float:
    """Trained steps/s of a launched run after its warm-up: updates x batch_size x unroll_length."""
    import workbench as wb

    fields = SMALL_REPLAY if given.algorithm == "r2d2" else {}
    with private_home():
        run = wb.launch(given.environment, algorithm=given.algorithm, learners=learners,
                        actors=given.actors, envs_per_actor=given.envs, device="cpu",
                        total_frames=10**12, ready_timeout_s=PATIENCE_S,
                        learner_threads=wb.machine().learner_threads, **fields)
        try:
            run.wait(updates=given.warm_up_updates, timeout_s=PATIENCE_S, progress=False)
            first = told(run)
            run.wait(updates=int(first["updates"]) + 1, timeout_s=PATIENCE_S, progress=False)
            first, last = told(run), None
            while last is None or last["time_s"] - first["time_s"] < given.seconds:
                run.wait(updates=int((last or first)["updates"]) + 1, timeout_s=PATIENCE_S, progress=False)
                last = told(run)
            hyper = run.config.hyperparameters
        finally:
            run.stop()
    trained = (last["updates"] - first["updates"]) * hyper.batch_size * hyper.unroll_length
    return trained / (last["time_s"] - first["time_s"])


def told(run) -> dict[str, float]:
    """Counters of the learner as they are now."""
    from workbench.wire.rpc import Caller

    learner = Caller(run.directory.learner_address(), run.directory.token())
    try:
        return learner.call("status")
    finally:
        learner.close()


def report(rates: dict[int, list[float]], given: argparse.Namespace) -> str:
    """The table, as Markdown."""
    medians = {learners: statistics.median(values) for learners, values in rates.items()}
    rows = [f"| {learners} | {medians[learners]:,.0f} | {min(values):,.0f} to {max(values):,.0f} | "
            f"{medians[learners] / medians[1]:.0%} |" for learners, values in rates.items()]
    return "\n".join([
        f"`python benchmarks/learners.py {' '.join(one for one in sys.argv[1:] if one != '--write')}`", "",
        f"{hardware('cpu')}; {given.environment}, {given.algorithm}, {given.actors} actors x {given.envs} "
        f"environments, gloo; the joint batch is the same. Medians of {given.rounds} rounds.", "",
        "| learners | trained steps/s | range | of one learner |", "|---|---|---|---|", *rows, ""])


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.whole("--learners", 2, "learners to compare with one", least=2, most=64)
    parser.rounds(3)
    parser.seconds(20.0)
    parser.environment("--environment", "ALE/Pong-v5")
    parser.add_argument("--algorithm", default="vtrace", choices=("vtrace", "r2d2"), help="default: vtrace")
    parser.whole("--actors", 2, "actors, at least one for each learner", most=1024)
    parser.whole("--envs", 16, "environments of each actor", least=2, most=4096)
    parser.whole("--warm-up-updates", 30, "updates before a measurement begins", most=10_000)
    parser.writes("learners.md")
    given = parser.parse_args(words)
    from workbench.config import RunConfig

    with parser.refusing():
        RunConfig.build(given.environment, algorithm=given.algorithm, learners=given.learners, actors=given.actors,
                        envs_per_actor=given.envs)
    return given


def main() -> None:
    """Measure, print, and with --write keep."""
    given = arguments()
    rates: dict[int, list[float]] = {1: [], given.learners: []}
    for number in range(given.rounds):
        for learners in sorted(rates, reverse=bool(number % 2)):
            rates[learners].append(measure(learners, given))
            print(f"learners={learners}: {rates[learners][-1]:,.0f} trained steps/s", file=sys.stderr, flush=True)
    table = report(rates, given)
    written(f"# Several learners on one machine\n\n{table}", given.write)


if __name__ == "__main__":
    main()
