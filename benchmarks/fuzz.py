"""Millions of generated inputs for whatever reads what strangers may have written; crashes, hangs and growth counted.

    python benchmarks/fuzz.py [TARGET ...] [--inputs 1000000] [--seed 0] [--keep] [--write]

`--write` replaces the rows of the targets that were given in the table of results, and leaves the others as they are.

Targets: hello, step and stream (the inference service; whole streams over gRPC to a learner that trains), shared and
handover (actors of the same machine), tensorfile and checkpoint, control (calls over gRPC to supervisor and learner).
One after the other, each in a process of its own at the lowest priority. Inputs that failed stay in tests/fuzz/corpus,
which every run tries first, and so does the suite; `--keep` adds a few that were answered in a new way.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import logging
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from arguments import Parser

sys.path.insert(0, str(Path(__file__).parents[1]))
os.environ.setdefault("OMP_NUM_THREADS", "1")

TARGETS = {
    "hello": "first message of a stream: `Hello.decode`, names of actions",
    "step": "later messages and answers: `GroupStep`, `GroupActions`, `Welcome`",
    "shared": "headers and indices of an actor's shared memory: `SharedRows`",
    "handover": "requests for that memory on the run's socket: `Handover`",
    "tensorfile": "a file of tensors: `tensorfile.read`",
    "checkpoint": "a folder: meta.json, files, anatomy; checksums wrong, or right over wrong content",
    "stream": "whole streams over gRPC to a learner that trains",
    "control": "JSON calls over gRPC to supervisor and learner, with right and wrong tokens",
}
GROWTH_MB = 64.0
MOST_MEMORY = 6 * 2**30  # bytes; more than that is a fault, and not the machine's end


def child(target: str, given: argparse.Namespace) -> None:
    """Fuzz one target in this process, and print what was found as JSON."""
    from tests.fuzz.fuzzing import fuzz
    from tests.fuzz.targets import READERS

    os.nice(19 - os.nice(0))
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    logging.disable()  # gRPC logs what clients did wrong
    if target in READERS:
        made = READERS[target]()
    else:
        from tests.fuzz.live import LIVE

        made = LIVE[target]()
    try:
        found = fuzz(made, inputs=given.inputs, seed=given.seed, keep=given.keep, tell=given.tell)
    finally:
        made.close()
    print(json.dumps({**vars(found), "growth_mb": found.growth_mb}), flush=True)
    os._exit(0)  # daemon threads of what was fuzzed


def fuzzed(target: str, given: argparse.Namespace) -> dict[str, Any]:
    """What was found in a process of its own; how it ended, if it crashed."""
    with tempfile.TemporaryDirectory() as folder:
        tell = Path(folder) / "last"
        command = [sys.executable, __file__, "--child", target, "--inputs", str(given.inputs), "--seed",
                   str(given.seed), "--tell", str(tell), *(["--keep"] if given.keep else [])]
        with open(Path(folder) / "errors", "w+b") as errors:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL if target == "control"
                                  else errors, check=False)
            errors.seek(max(0, errors.seek(0, os.SEEK_END) - 4000))
            tail = errors.read().decode(errors="replace")
        lines = done.stdout.decode().splitlines()
        if done.returncode == 0 and lines:
            return {**json.loads(lines[-1]), "crashes": 0}
        print(tail, file=sys.stderr)
        kept = _kept_crash(target, tell)
        return {"target": target, "crashes": 1, "kept": kept, "ended": f"exit code {done.returncode}"}


def _kept_crash(target: str, tell: Path) -> str:
    """Where the input that ended a process is now."""
    from tests.fuzz.fuzzing import CORPUS

    data = tell.read_bytes() if tell.exists() else b""
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "crash-last"
    path.write_bytes(data[4 : 4 + int.from_bytes(data[:4], "little")])
    return str(path)


def row(found: dict[str, Any]) -> str:
    """A line of the table."""
    name = found["target"]
    if found["crashes"]:
        return f"| {name} | | | | | **1 crash**: {found['ended']}, {found['kept']} | | | | |"
    outcomes = found["outcomes"]
    accepted = sum(number for said, number in outcomes.items() if said.startswith("accepted"))
    faults = sum(found["faults"].values())
    several = "" if found["given"] == found["inputs"] else f" in {found['given']:,} streams"
    return (f"| {name} | {found['inputs']:,}{several} | {found['inputs'] / found['seconds']:,.0f} | "
            f"{accepted / found['given']:.1%} | {found['kinds']} | 0 | {faults:,} | {found['hangs']} | "
            f"{found['growth_mb']:+.1f} | {found['descriptors']:+d}, {found['threads']:+d} | "
            f"{1000 * found['slowest_s']:.0f} |")


def report(results: list[dict[str, Any]], given: argparse.Namespace, *, before: str = "") -> str:
    """All of it, as Markdown; rows and faults of other targets are those of the report `before`."""
    names = [one["target"] for one in results]
    others = [name for name in TARGETS if name not in names]
    faults = [f"- {one['target']}, {number:,} times: `{said}`" for one in results
              for said, number in one.get("faults", {}).items()]
    faults += [line for line in before.splitlines() if line.startswith(tuple(f"- {name}, " for name in others))]
    rows = {line.split()[1]: line for line in before.splitlines() if line.startswith("| ")} | dict(
        zip(names, map(row, results), strict=True))
    shown = [name for name in TARGETS if name in rows]
    return "\n".join([
        f"`python benchmarks/fuzz.py {' '.join(names)} --inputs {given.inputs} --seed {given.seed}`, and other "
        "targets in runs of their own before.", "",
        *[f"- **{name}**: {TARGETS[name]}" for name in shown], "",
        "A fault is an exception that is none of ours, an answer that hides one, or a wrong status; a hang is no "
        "answer in 60 s. Growth of resident memory from 20-40 % of the inputs to the last 20 %; file descriptors and "
        "threads since 20 %. CPU time of the slowest input in the thread that gave it.", "",
        "| target | inputs | per s | accepted | kinds of answers | crashes | faults | hangs | growth, MiB | "
        "descriptors, threads | slowest, ms |", "|---|---|---|---|---|---|---|---|---|---|---|",
        *(rows[name] for name in shown), "", *(["## Faults", "", *faults, ""] if faults else []),
    ])


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)} (default: all)")
    parser.whole("--inputs", 1_000_000, "inputs for each target", least=50, most=10**9)
    parser.whole("--seed", 0, "seed", least=0, most=2**31)
    parser.add_argument("--keep", action="store_true", help="add to the corpus")
    parser.writes("fuzz.md", "the table")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--tell", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    if unknown := set(given.targets) - set(TARGETS):
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    return given


def main() -> None:
    given = arguments()
    if given.child:
        child(given.child, given)
    results: list[dict[str, Any]] = []
    for name in given.targets or TARGETS:
        results.append(fuzzed(name, given))
        before = given.write.read_text() if given.write and given.write.exists() else ""
        table = report(results, given, before=before)
        print(row(results[-1]), file=sys.stderr, flush=True)
        if given.write:  # after each, since all of them take hours
            given.write.write_text(f"# Fuzzing\n\n{table}")
    print(table)
    bad = [one["target"] for one in results if one["crashes"] or one["faults"] or one["hangs"]
           or one["growth_mb"] > GROWTH_MB]
    sys.exit(f"not as it must be: {', '.join(bad)}" if bad else 0)


if __name__ == "__main__":
    main()
