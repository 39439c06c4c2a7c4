"""Every algorithm but behaviour cloning on a GPU: it trains, takes a new learning rate, and goes on on the CPU from its
checkpoint.

    python benchmarks/gpu_algorithms.py [--cases NAME ...] [--device cuda] [--updates 60] [--times 1] [--write]

A row per run: updates, milliseconds of one, what its events say of errors, of work that could not be recorded as CUDA
graphs, and of processes that ended, with the end of the learner's log. Exit code 1 if any run did not get that far.
`--device cpu` tries the script where there is no GPU.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from arguments import Parser, written
from gpu import accelerator, check_device
from home import private_home

import workbench as wb

PONG, CHEETAH, CARTPOLE = "ALE/Pong-v5", "HalfCheetah-v5", "CartPole-v1"
QUICK = {"batch_size": 8}
CASES: dict[str, tuple[str, dict[str, Any]]] = {  # environment and fields
    "vtrace-pong": (PONG, {"algorithm": "vtrace", **QUICK}),
    "vtrace-deep-lstm": (PONG, {"algorithm": "vtrace", "network": "impala-deep-lstm", **QUICK}),
    "vtrace-popart": (PONG, {"algorithm": "vtrace", "normalize_values": True, "normalize_rewards": True,
                             "kl_cost_target": 0.01, **QUICK}),
    "vtrace-cheetah": (CHEETAH, {"algorithm": "vtrace", **QUICK}),
    "r2d2-pong": (PONG, {"algorithm": "r2d2", "unroll_length": 20, "burn_in": 5, "replay_min_size": 50, **QUICK}),
    "ppo-pong": (PONG, {"algorithm": "ppo"}),
    "ppo-cheetah": (CHEETAH, {"algorithm": "ppo"}),
    "sac-cheetah": (CHEETAH, {"algorithm": "sac", "replay_min_size": 64}),
    "sac-cartpole": (CARTPOLE, {"algorithm": "sac", "replay_min_size": 64}),
    "vmpo-cartpole": (CARTPOLE, {"algorithm": "vmpo"}),
    "awr-cartpole": (CARTPOLE, {"algorithm": "awr"}),
}
PATIENCE_S = 300.0  # for each step of a run, on a slow machine
LAST_LINES = 15  # of a learner's log
HEADS = ("case", "updates", "host's ms an update", "steps/s", "on the CPU", "what its events say")


def tried(name: str, given: argparse.Namespace) -> tuple[list[str], bool]:
    """The cells of one run's row, and whether all went well."""
    environment, fields = CASES[name]
    run = wb.launch(environment, actors=1, envs_per_actor=8, learner_threads=1, device=given.device, total_frames=10**9,
                    preset="none", ready_timeout_s=PATIENCE_S, **fields)
    try:
        run.wait(updates=given.updates, timeout_s=PATIENCE_S, progress=False)
        run.tune(learning_rate=run.config.value("learning_rate") / 2)
        run.wait(updates=run.status.updates + given.updates, timeout_s=PATIENCE_S, progress=False)
        status, took = run.status, run.metrics("update_ms")["value"].mean()
        run.stop()
        again = run.fork(device="cpu")
        again.wait(updates=status.updates + 3, timeout_s=PATIENCE_S, progress=False)
        again.stop()
        goes_on = "goes on"
    except wb.errors.WorkbenchError as error:
        status, took, goes_on = run.status, float("nan"), f"{type(error).__name__}: {error}".splitlines()[0]
    said = complaints(run)
    cells = [name, f"{status.updates:,}", "" if took != took else f"{took:.1f}", f"{status.steps_per_second or 0:,.0f}",
             goes_on, "; ".join(said) or "nothing"]
    return cells, goes_on == "goes on" and not said


def complaints(run: wb.Run) -> list[str]:
    """What the run's events say of errors, and of work without graphs; prints the log of a learner that ended."""
    events = run.events
    told = events[(events["kind"] == "error") | events["message"].str.contains("CUDA graphs|ended with")]["message"]
    if told.str.contains("learner").any():
        for log in sorted((run.path / "logs").glob("learner*.log")):
            print(f"{run.name}, end of {log.name}:", *log.read_text().splitlines()[-LAST_LINES:], sep="\n  ",
                  file=sys.stderr, flush=True)
    return sorted(set(told))


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.add_argument("--cases", nargs="+", choices=tuple(CASES), default=list(CASES), help="default: all")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="default: cuda")
    parser.whole("--updates", 60, "updates before the change of the learning rate, and after it", most=10_000)
    parser.whole("--times", 1, "runs of each case")
    parser.writes("gpu-algorithms.md", "the table")
    return parser.parse_args(words)


def main() -> int:
    given = arguments()
    check_device(given, __file__)
    rows, well = [], True
    with private_home():
        for name in given.cases:
            for _ in range(given.times):
                cells, good = tried(name, given)
                rows.append(f"| {' | '.join(cells)} |")
                well &= good
                print(rows[-1], file=sys.stderr, flush=True)
    text = "\n".join([
        "# Every algorithm on a GPU", "",
        f"`python benchmarks/gpu_algorithms.py --device {given.device} --updates {given.updates} --times {given.times}`"
        f"; {accelerator(given)}, {time.strftime('%F')}; one actor with 8 environments.", "",
        f"| {' | '.join(HEADS)} |", f"|{'---|' * len(HEADS)}", *rows, ""])
    written(text, given.write)
    return int(not well)


if __name__ == "__main__":
    sys.exit(main())
