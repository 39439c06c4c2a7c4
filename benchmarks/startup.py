"""How long it takes to import the workbench, and from `wb.launch` to the first trained batch, with the parts.

    python benchmarks/startup.py [--rounds 5] [--environments CartPole-v1 ALE/Pong-v5] [--write]

Each import and each launch is made in a fresh interpreter, with files as warm as the round before left them; medians
count. Times of a launch count from the call on. They are taken from what a run leaves behind (run.json, the sockets'
times, start times of its processes) and from the learner's own status, which is asked every 10 ms; that costs the
learner about a hundredth of its time. What nothing records is listed as such.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from arguments import Parser, written
from home import private_home
from throughput import hardware

IMPORT_LIMIT_S, TRAINED_LIMIT_S = 0.5, 10.0
IMPORTS = {
    "workbench": "what `import workbench` costs",
    "workbench.running.launch": "the first `wb.launch` of a kernel",
    "workbench.supervisor.main": "a supervisor",
    "workbench.actor.main": "an actor, without its environment",
    "workbench.learner.main": "a learner",
    "torch": "torch alone, of the learner's",
}
PARTS = {
    "created": "settings checked, run.json written",
    "supervisor_started": "supervisor's process started",
    "supervisor_listens": "supervisor listens",
    "launch_returned": "`launch(wait_ready=False)` returned",
    "learner_started": "learner's process started",
    "actor_started": "first actor's process started",
    "learner_listens": "learner listens: its imports are done",
    "hello": "first actor's hello: its imports and environments are done",
    "ready": "network built, actors admitted",
    "connected": "first actor connected",
    "stepped": "first step answered",
    "unroll": "first unroll",
    "trained": "**first trained batch**",
    "told": "run's status says so: `launch()` has returned by now",
}
NOT_RECORDED = ("hello", "unroll")
_ASK_S, PATIENCE_S = 0.01, 900.0


# --- imports ----------------------------------------------------------------------------------------------------------


def import_time(module: str) -> float:
    """Seconds that importing takes a fresh interpreter that has started. Raises if the workbench loads torch."""
    code = (f"import sys, time; began = time.perf_counter(); import {module}; took = time.perf_counter() - began\n"
            "print(took, 'torch' in sys.modules)")
    took, torch = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    if torch == "True" and module not in ("torch", "workbench.learner.main"):
        raise SystemExit(f"importing {module} loads torch")
    return float(took)


# --- a launch ---------------------------------------------------------------------------------------------------------


def launched(environment: str) -> dict[str, float]:
    """Seconds from the call of `launch` to each part, by this interpreter, which has only imported the workbench."""
    import workbench as wb

    with private_home():
        began = time.time()
        run = wb.launch(environment, wait_ready=False)
        at = {"launch_returned": time.time()}
        try:
            at.update(watched(run))
            at.update(left_behind(run))
        finally:
            run.stop()
    return {name: one - began for name, one in at.items()}


def watched(run) -> dict[str, float]:
    """When the learner first told of each part, in seconds since 1970; `ready` is when its clock began."""
    from workbench.errors import ConnectionLost
    from workbench.wire.rpc import Caller

    socket = Path(run.directory.learner_address().removeprefix("unix:"))
    until(socket.exists, run)
    learner, at = Caller(run.directory.learner_address(), run.directory.token()), {}

    def asked() -> bool:
        with contextlib.suppress(ConnectionLost):
            told, now = learner.call("status", timeout_s=5.0), time.time()
            if "steps" in told:  # it has its network
                at.setdefault("ready", now - told["time_s"])
            seen = {"connected": told["reason"] == "collecting the first unrolls" or told.get("steps"),
                    "stepped": told.get("steps"), "trained": told.get("updates")}
            for name in (name for name, there in seen.items() if there):
                at.setdefault(name, now)
        return "trained" in at

    until(asked, run)
    learner.close()
    until(lambda: run.status.updates >= 1 and run.status.state == "training", run)
    return {**at, "told": time.time()}


def until(there, run) -> None:
    """Ask every 10 ms. Raises what made the run fail."""
    deadline = time.monotonic() + PATIENCE_S
    while not there():
        if time.monotonic() > deadline or run.directory.read()["state"] in ("failed", "stopped", "finished"):
            raise SystemExit(f"{run.name} did not train: {run.status.line()} {run.directory.read().get('error')}")
        time.sleep(_ASK_S)


def left_behind(run) -> dict[str, float]:
    """When processes started and sockets were made, in seconds since 1970."""
    directory, status = run.directory, run.status
    return {
        "created": directory.read()["created"],
        "supervisor_started": started(status.supervisor_pid),
        "supervisor_listens": made(directory.supervisor_address),
        "learner_started": started(status.learner_pid),
        "learner_listens": made(directory.learner_address()),
        "actor_started": min(started(actor.pid) for actor in status.actors),
    }


def made(address: str) -> float:
    """When a socket was made; listening comes right after."""
    return Path(address.removeprefix("unix:")).stat().st_mtime


def started(pid: int) -> float:
    """When a process began, to a hundredth of a second. (psutil's time may be off by one: it rounds the boot.)"""
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))


# --- rounds and tables ------------------------------------------------------------------------------------------------


def in_fresh_interpreter(environment: str) -> dict[str, float]:
    """`launched`, in a process of its own; its error output goes where ours goes."""
    done = subprocess.run([sys.executable, __file__, "--launch", environment], check=True, stdout=subprocess.PIPE,
                          text=True)
    return json.loads(done.stdout.splitlines()[-1])


def verdict(seconds: float, limit_s: float) -> str:
    return f"{seconds:.2f} s, limit {limit_s:g} s: {'kept' if seconds < limit_s else 'broken'}"


def import_table(rounds: list[dict[str, float]]) -> str:
    medians = {module: statistics.median(one[module] for one in rounds) for module in IMPORTS}
    rows = [f"| `import {module}` | {what} | {medians[module]:.3f} | {spread([one[module] for one in rounds], 3)} |"
            for module, what in IMPORTS.items()]
    return "\n".join(["## Imports", "", "| import | what it costs | s | range |", "|---|---|---|---|", *rows, "",
                      f"**`import workbench`: {verdict(medians['workbench'], IMPORT_LIMIT_S)}**, without torch.", ""])


def launch_table(environment: str, rounds: list[dict[str, float]]) -> str:
    """The parts in the order in which they came, those that nothing records where they belong."""
    medians = {part: statistics.median(one[part] for one in rounds) for part in PARTS if part not in NOT_RECORDED}
    rows, last = [], 0.0
    for part, what in PARTS.items():
        if part in NOT_RECORDED:
            rows.append((last, f"| {what} | not recorded | |"))
        else:
            last = medians[part]
            rows.append((last, f"| {what} | {last:.2f} | {spread([one[part] for one in rounds], 2)} |"))
    rows.sort(key=lambda row: row[0])
    return "\n".join([f"## {environment}", "", "| part | s after the call | range |", "|---|---|---|",
                      *(row for _, row in rows), "",
                      f"**From `launch` to the first trained batch: {verdict(medians['trained'], TRAINED_LIMIT_S)}**.",
                      ""])


def spread(values: list[float], digits: int) -> str:
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.rounds(5)
    parser.add_argument("--environments", nargs="+", metavar="NAME", default=["CartPole-v1", "ALE/Pong-v5"],
                        help="environments to launch (default: CartPole-v1 ALE/Pong-v5)")
    parser.add_argument("--launch", metavar="ENVIRONMENT", help=argparse.SUPPRESS)
    parser.writes("startup.md")
    given = parser.parse_args(words)
    if not given.launch:  # there a check's imports would be part of what is measured
        parser.check_environments(given.environments)
    return given


def main() -> None:
    given = arguments()
    if given.launch:
        print(json.dumps(launched(given.launch)))
        return
    imports, launches = [], {environment: [] for environment in given.environments}
    for number in range(given.rounds):
        imports.append({module: import_time(module) for module in IMPORTS})
        for environment, found in launches.items():
            found.append(in_fresh_interpreter(environment))
            print(f"round {number + 1}: {environment} trained after {found[-1]['trained']:.2f} s", file=sys.stderr,
                  flush=True)
    tables = "\n".join([import_table(imports), *(launch_table(*one) for one in launches.items())])
    text = (f"# Start-up\n\n`python benchmarks/startup.py --rounds {given.rounds} --environments "
            f"{' '.join(given.environments)}`\n\n{hardware()}; {time.strftime('%F')}; medians of {given.rounds} "
            f"rounds, each in a fresh interpreter; runs with their default settings.\n\n{tables}")
    written(text, given.write)


if __name__ == "__main__":
    main()
