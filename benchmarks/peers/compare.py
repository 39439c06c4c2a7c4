"""Trained steps per second of this workbench and of its peers on Pong, side by side on one machine.

    python benchmarks/peers/compare.py --install [--peers NAME ...]
    python benchmarks/peers/compare.py [--rounds 3] [--seconds 20] [--choose-seconds 8] [--peers NAME ...] [--chosen]
                                       [--warm-up-updates 10] [--folder DIRECTORY] [--write]

Same for all: ALE Pong, 84x84x4, Mnih et al.'s network with 512 units, unroll 20, 32 environments, updates of 640 steps,
no GPU. --install makes a virtual environment for each peer, by name and version; a peer without one is in the table
with the command that makes it. First each one's settings (candidates.py) are tried; then all take turns for several
rounds, each alone with its best setting. --chosen takes the settings that an earlier run has chosen.
Each number is the peer's own counter of *trained* steps between two updates, after a warm-up. One that fails is in the
table with its error, and the exit code is 1. Every process that a measurement starts is ended with it.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

sys.path.append(str(Path(__file__).parents[1]))

from arguments import Parser, written
from candidates import EVERYONE, OURS, PEERS, Candidate, Setting
from installing import ENVIRONMENTS as BUILD
from installing import HERE, command_to_install, install, python_of
from measuring import ENVIRONMENT, ENVIRONMENTS, UNROLL, UPDATE, WARM_UP_UPDATES
from throughput import hardware

from workbench.supervisor.hosts.host import variables

CHOSEN = "chosen.json"  # of the folder of environments
FRAMES_PER_STEP = 4
CHOICE_WARM_UP = 4  # updates
START_UP_S = 1800.0  # to start, to warm up at the slowest peer's rate, and to end
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: processes whose parents ended become this one's children


class Failed(Exception):
    """A measurement gave no number; says why in one line."""


def measured(name: str, setting: Setting, *, seconds: float, warm_up_updates: int, folder: Path) -> dict[str, Any]:
    """What a candidate says of one setting. Raises Failed. Ends all that it has started."""
    python = python_of(EVERYONE[name].requirements, folder)
    if python is None:
        raise Failed(f"not installed: {command_to_install([name])}")
    command = [python, str(HERE / "measure_one.py"), name, "--seconds", str(seconds), "--setting", json.dumps(setting),
               "--warm-up-updates", str(warm_up_updates)]
    with tempfile.TemporaryDirectory(prefix="peer", ignore_cleanup_errors=True) as place:
        said, log = Path(place) / "said", Path(place) / "log"
        with said.open("w") as output, log.open("w") as errors:
            ours = {**variables(1), "TMPDIR": place}
            ours.pop("GOMP_SPINCOUNT", None)  # a run gives its processes their own; peers spin as they always do
            process = subprocess.Popen(command, cwd=place, env={**os.environ, **ours},
                                       stdout=output, stderr=errors, start_new_session=True)
        try:
            process.wait(timeout=seconds + START_UP_S)
        except subprocess.TimeoutExpired as error:
            told = last_line(log.read_text(errors="replace"))
            raise Failed(f"no result after {seconds + START_UP_S:.0f} s; its last line: {told}") from error
        finally:
            end_all(process.pid)
        if process.returncode != 0:
            raise Failed(f"exit status {process.returncode}: {last_line(log.read_text(errors='replace'))}")
        result: dict[str, Any] = json.loads(said.read_text().splitlines()[-1])
    return result


def last_line(text: str | None) -> str:
    """The last line that says something, which in Python is the error; short enough for a table."""
    plain = _COLOUR.sub("", text or "").replace("|", "/")
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    errors = [line for line in lines if line.partition(":")[0].endswith(("Error", "Exception", "ERROR"))]
    return ([*lines[-1:], *errors[-1:]] or ["it said nothing"])[-1][:200]


def end_all(group: int) -> None:
    """Kill a process group, and whatever else descends from this process: Ray and ours start sessions of their own."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    while children := psutil.Process().children(recursive=True):
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs(children, timeout=5)


def best_of(name: str, candidate: Candidate, given: argparse.Namespace) -> tuple[Setting | None, list[str]]:
    """The fastest setting, None where none worked, and a line for each that was tried: none in 0 seconds."""
    if len(candidate.settings) == 1 or not given.choose_seconds:
        return candidate.settings[0], []
    rates: list[tuple[float, Setting | None]] = []
    lines = []
    for setting in candidate.settings:
        try:
            found = measured(name, setting, seconds=given.choose_seconds, folder=given.folder,
                             warm_up_updates=min(CHOICE_WARM_UP, given.warm_up_updates))
            rates.append((rate := found["steps_per_second"], setting))
            lines.append(f"| {candidate.title} | {words(setting)} | {rate:,.0f} in {given.choose_seconds:g} s |")
        except Failed as error:
            lines.append(f"| {candidate.title} | {words(setting)} | {error} |")
        print(f"{name}: {lines[-1]}", file=sys.stderr, flush=True)
    return max(rates, key=lambda pair: pair[0], default=(0.0, None))[1], lines


def words(setting: Setting) -> str:
    """A setting as the table shows it."""
    return ", ".join(f"{name} {value}" for name, value in setting.items())


def choose(names: list[str], given: argparse.Namespace) -> tuple[dict[str, Setting], dict[str, str], list[str]]:
    """Each one's setting, the errors of those that have none, and the lines of what was tried."""
    chosen: dict[str, Setting] = {}
    errors, tried = {}, []
    file = given.folder / CHOSEN
    kept = json.loads(file.read_text()) if given.chosen else {"settings": {}, "tried": {}}
    for name in names:
        if python_of(EVERYONE[name].requirements, given.folder) is None:
            errors[name] = f"not installed: {command_to_install([name])}"
            print(f"left out: {name} is {errors[name]}", file=sys.stderr, flush=True)
            continue
        if kept["settings"].get(name) in EVERYONE[name].settings:
            setting, lines = kept["settings"][name], kept["tried"][name]
        else:
            setting, lines = best_of(name, EVERYONE[name], given)
        if setting is None:
            errors[name] = "failed: none of its settings worked, see below"
        else:
            chosen[name] = setting
        tried += lines
        kept["tried"][name] = lines
    given.folder.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"settings": kept["settings"] | chosen, "tried": kept["tried"]}, indent=1))
    return chosen, errors, tried


def play_rounds(chosen: dict[str, Setting], errors: dict[str, str], given: argparse.Namespace
                ) -> dict[str, list[dict[str, Any]]]:
    """Results of all rounds, by name; what fails goes into `errors` and takes no further part."""
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in chosen}
    for number in range(given.rounds):
        for name, setting in chosen.items():
            if name in errors:
                continue
            try:
                found = measured(name, setting, seconds=given.seconds, warm_up_updates=given.warm_up_updates,
                                 folder=given.folder)
            except Failed as error:
                errors[name] = f"failed: {error}"
                print(f"round {number + 1}: {name} failed: {error}", file=sys.stderr, flush=True)
                continue
            results[name].append(found)
            print(f"round {number + 1}: {name} {found['steps_per_second']:,.0f} steps/s", file=sys.stderr, flush=True)
    return results


def row(name: str, results: list[dict[str, Any]], setting: Setting, medians: dict[str, float]) -> str:
    """One line of the table, of one that gave numbers in every round."""
    candidate, median = EVERYONE[name], medians[name]
    rates = [one["steps_per_second"] for one in results]
    ratios = [f"{medians[ours] / median:.2f}x" if ours in medians and name not in OURS else "" for ours in OURS]
    precision = results[0].get("precision", setting.get("precision", "fp32"))
    return " | ".join([
        f"| {candidate.title} {results[0]['version']}", candidate.algorithm, precision, f"{median:,.0f}",
        f"{min(rates):,.0f} to {max(rates):,.0f}", f"{median * FRAMES_PER_STEP:,.0f}", *ratios, f"{words(setting)} |"])


def report(results: dict[str, list[dict[str, Any]]], chosen: dict[str, Setting], errors: dict[str, str],
           tried: list[str], given: argparse.Namespace) -> str:
    """The tables, as Markdown."""
    whole = {name: found for name, found in results.items() if found and name not in errors}
    medians = {name: statistics.median(one["steps_per_second"] for one in found) for name, found in whole.items()}
    rows = [row(name, whole[name], chosen[name], medians) for name in sorted(medians, key=lambda one: -medians[one])]
    empty = " | " * 8
    failures = [f"| {EVERYONE[name].title}{empty}{error} |" for name, error in errors.items()]
    counters = [f"- {EVERYONE[name].title}: {found[0]['counter']}" for name, found in whole.items()]
    settings = ["", "Settings tried; the best of each was taken:", "",
                "| | setting | steps/s |", "|---|---|---|", *tried] if tried else []
    return "\n".join([
        f"`{command(given)}`", "",
        f"{hardware()}. {ENVIRONMENT}, 84x84x4, the network of Mnih et al. 2015 (512 units), unroll {UNROLL}, "
        f"{ENVIRONMENTS} environments, updates of {UPDATE} steps; {given.rounds} rounds in turn, each alone on the "
        f"machine, {given.seconds:g} s after {given.warm_up_updates} updates of warm-up. Steps are trained steps.", "",
        "| | algorithm | precision | steps/s, median | range | frames/s, median | ours / it | ours in fp32 / it | "
        "setting |", "|---|---|---|---|---|---|---|---|---|", *rows, *failures, "",
        "What is counted:", "", *counters, *settings, ""])


def command(given: argparse.Namespace) -> str:
    """The command line that measures this."""
    peers = f" --peers {' '.join(given.peers)}" if given.peers != list(PEERS) else ""
    warm_up = f" --warm-up-updates {given.warm_up_updates}" if given.warm_up_updates != WARM_UP_UPDATES else ""
    return (f"python benchmarks/peers/compare.py --rounds {given.rounds} --seconds {given.seconds:g} "
            f"--choose-seconds {given.choose_seconds:g}{warm_up}{peers}{' --chosen' * given.chosen}")


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.rounds(3)
    parser.seconds(20.0, "seconds of each measurement, after the warm-up")
    parser.number("--choose-seconds", 8.0, "seconds for each setting that is tried; with 0 the first is taken", least=0,
                  most=3600)
    parser.whole("--warm-up-updates", WARM_UP_UPDATES, "updates before each measurement", most=10_000)
    parser.add_argument("--peers", nargs="*", choices=tuple(PEERS), metavar="NAME",
                        help=f"to compare with: {', '.join(PEERS)} (default: all)")
    parser.add_argument("--chosen", action="store_true", help="take the settings that an earlier run has chosen")
    parser.add_argument("--install", action="store_true", help="install the peers and do nothing else")
    parser.add_argument("--folder", type=Path, default=BUILD, metavar="DIRECTORY",
                        help="of the peers' virtual environments, and of the settings chosen (default: build/peers)")
    parser.writes("peers.md")
    given = parser.parse_args(words)
    if given.chosen and not (given.folder / CHOSEN).exists():
        parser.error(f"no run has chosen settings yet: {given.folder / CHOSEN} is not there; leave --chosen out")
    given.asked_for = given.peers or []
    given.peers = list(PEERS) if given.peers is None else given.peers
    return given


def install_all(given: argparse.Namespace) -> None:
    """Make the environments that are not there; say of each where its interpreter is."""
    for requirements in dict.fromkeys(PEERS[name].requirements for name in given.peers):
        if requirements is not None:
            try:
                print(python_of(requirements, given.folder) or install(requirements, given.folder), flush=True)
            except subprocess.CalledProcessError as error:
                sys.exit(f"{requirements} was not installed: {last_line(error.stderr)}")


def main() -> int:
    given = arguments()
    if given.install:
        install_all(given)
        return 0
    if missing := [name for name in given.asked_for if python_of(PEERS[name].requirements, given.folder) is None]:
        print(f"benchmarks/peers/compare.py: {' and '.join(missing)}: not installed; {command_to_install(missing)}",
              file=sys.stderr)
        return 2
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started ends as well
    chosen, errors, tried = choose([*OURS, *given.peers], given)
    tables = report(play_rounds(chosen, errors, given), chosen, errors, tried, given)
    written(f"# Peers: trained steps per second side by side\n\n{tables}", given.write)
    return int(any(said.startswith("failed") for said in errors.values()))


if __name__ == "__main__":
    sys.exit(main())
