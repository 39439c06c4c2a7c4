"""`workbench sweep` and `workbench sweeps`: what they take, and what they do."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from workbench.config import Setting
from workbench.errors import InvalidInput, UnknownName, printable

if TYPE_CHECKING:
    from workbench.sweeping.handle import Sweep

Parse = Callable[[Setting, str], Any]

_FORMS = "LOW:HIGH, LOW:HIGH:log, LOW:HIGH:linear, or choices such as adam,rmsprop"


def add_sweep_options(parser: argparse.ArgumentParser) -> None:
    """Options of `sweep` that are not those of its runs."""
    parser.add_argument("--space", action="append", default=[], required=True, metavar="FIELD=VALUES",
                        help=f"what to search, {_FORMS}; may be given several times")
    parser.add_argument("--trials", type=int, default=20, help="runs in all (default: 20)")
    parser.add_argument("--parallel", type=int, help="runs at a time (default: 2, or 1 on one core)")
    parser.add_argument("--metric", default="episode_return", help="what a run is judged by (default: episode_return)")
    parser.add_argument("--goal", default="max", help="one of max, min (default: max)")
    parser.add_argument("--sampler", default="tpe", help="one of tpe, random, pbt (default: tpe)")
    parser.add_argument("--pruner", help="one of asha, median, none (default: asha)")
    parser.add_argument("--generations", type=int, default=9, help="of pbt: 3, 9 or 27 (default: 9)")
    parser.add_argument("--wait", action="store_true", help="show its progress until it ends; an interrupt leaves it "
                                                            "running")


def add_sweeps_options(parser: argparse.ArgumentParser) -> None:
    """Options of `sweeps`."""
    parser.add_argument("name", nargs="?", help="of a sweep, to list its trials; default: list all sweeps")
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--stop", action="store_true", help="end it; its runs stop with a checkpoint")
    one.add_argument("--resume", action="store_true", help="go on with it where it is")
    one.add_argument("--delete", action="store_true", help="move it, which must have ended, to the trash")
    parser.add_argument("--runs", action="store_true", help="with --delete: its runs, too")


def parsed_space(words: Sequence[str], known: Mapping[str, Setting], parse: Parse) -> dict[str, Any]:
    """The space of `wb.sweep` from FIELD=VALUES; `parse` reads one value. Raises InvalidInput."""
    space: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals:
            raise InvalidInput(f"{word!r} must look like field=values: {_FORMS}.")
        if name not in known:
            raise UnknownName.among("hyperparameter", name, known)
        if name in space:
            raise InvalidInput(f"{name} is in the space twice. Give all its values at once.")
        space[name] = _values(known[name], text, parse)
    return space


def _values(one: Setting, text: str, parse: Parse) -> Any:
    if one.kind in (int, float) and ":" in text:
        low, high, *scale = text.split(":")
        return (parse(one, low), parse(one, high), *scale)
    return [parse(one, value) for value in text.split(",")]


def wait_for(sweep: Sweep) -> None:
    """Show its progress until it ends, and print what came out. Raises KeyboardInterrupt, and leaves it running."""
    try:
        print(f"{sweep.name}: {sweep.wait(progress=True).line()}")
    except KeyboardInterrupt:
        print(f"\n{sweep.name} goes on in the background. Stop it: workbench sweeps {sweep.name} --stop")
        raise
    if sweep.status.best_run:
        print(" ".join(f"{name}={value}" for name, value in sweep.best_fields.items()))


def sweeps(given: argparse.Namespace) -> int:
    """List sweeps, or the trials of one; stop, resume or delete it. The exit code."""
    from workbench.sweeping import sweep

    if given.runs and not given.delete:
        raise InvalidInput("--runs goes with --delete: what becomes of the runs of a sweep that is deleted.")
    if given.name is None:
        if given.stop or given.resume or given.delete:
            raise InvalidInput("which sweep? Name it: workbench sweeps NAME --stop. workbench sweeps lists them.")
        print(sweep.sweeps())
        return 0
    handle = sweep.attach_sweep(given.name)
    if given.delete:
        print(handle.delete(runs=given.runs))
        return 0
    if given.stop or given.resume:
        done = handle.stop() if given.stop else handle.resume().status
        print(f"{handle.name}: {done.line()}")
        return 0
    print(f"{handle.name}: {handle.status.line()}")
    if len(table := handle.table):
        print(printable(table.to_string(na_rep="")))
    return 0
