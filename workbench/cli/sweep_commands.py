"""The commands `workbench sweep` and `workbench sweeps`, with their options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from workbench.cli.parser import Commands, add_run_options
from workbench.cli.run_commands import run_fields
from workbench.config import Setting, unknown_field
from workbench.config.signatures import all_settings
from workbench.errors import InvalidInput, printable

if TYPE_CHECKING:
    from workbench.sweeping.sweep_handle import Sweep

command = Commands()
_FORMS = "LOW:HIGH, LOW:HIGH:log, LOW:HIGH:linear, or choices such as adam,rmsprop"


def _sweep_options(parser: argparse.ArgumentParser) -> None:
    """Options of `sweep` that are not those of its runs."""
    parser.add_argument("--space", action="append", default=[], metavar="FIELD=VALUES",
                        help=f"what to search, {_FORMS}; may be given several times (default: the algorithm's own)")
    parser.add_argument("--trials", type=int, default=20, help="runs in all (default: 20)")
    parser.add_argument("--parallel", type=int, help="runs at a time (default: 2, or 1 on one core)")
    parser.add_argument("--metric", default="episode_return", help="what a run is judged by (default: episode_return)")
    parser.add_argument("--goal", default="max", help="one of max, min (default: max)")
    parser.add_argument("--sampler", default="tpe", help="one of tpe, random, pbt (default: tpe)")
    parser.add_argument("--pruner", help="one of asha, median, none (default: asha)")
    parser.add_argument("--generations", type=int, default=9, help="of pbt: 3, 9 or 27 (default: 9)")
    parser.add_argument("--wait", action="store_true", help="show its progress until it ends; an interrupt leaves it "
                                                            "running")


def _sweeps_options(parser: argparse.ArgumentParser) -> None:
    """Options of `sweeps`."""
    parser.add_argument("sweep", nargs="?", metavar="name", help="of a sweep, to list its trials; default: list all "
                                                                 "sweeps")
    actions = parser.add_mutually_exclusive_group()
    actions.add_argument("--stop", action="store_true", help="end it; its runs stop with a checkpoint")
    actions.add_argument("--resume", action="store_true", help="go on with it where it is")
    actions.add_argument("--delete", action="store_true", help="move it, which must have ended, to the trash")
    parser.add_argument("--runs", action="store_true", help="with --delete: its runs, too")


def parsed_space(words: Sequence[str]) -> dict[str, Any]:
    """The space of `wb.sweep` from FIELD=VALUES. Raises InvalidInput."""
    known, space = all_settings(), dict[str, Any]()
    for word in words:
        name, equals, text = word.partition("=")
        if not equals:
            raise InvalidInput(f"{word!r} must look like field=values: {_FORMS}.")
        if name not in known:
            raise unknown_field(name, known, "workbench sweep --help lists all fields.")
        if name in space:
            raise InvalidInput(f"{name} is in the space twice. Give all its values at once.")
        space[name] = _values(known[name], text)
    return space


def _values(setting: Setting, text: str) -> Any:
    if setting.kind in (int, float) and ":" in text:
        low, high, *scale = text.split(":")
        return (setting.typed(low), setting.typed(high), *scale)
    return [setting.typed(value) for value in text.split(",")]


@command("sweep", "search for good hyperparameters in the background and print the sweep's name",
         partial(add_run_options, of="sweep", such_as="pong-vtrace-sweep-1"), _sweep_options)
def _sweep(args: argparse.Namespace) -> None:
    from workbench.sweeping.sweep import sweep as start

    named = ("trials", "parallel", "metric", "goal", "sampler", "pruner", "generations")
    how = {name: getattr(args, name) for name in named}
    handle = start(args.environment, space=parsed_space(args.space) or None, **how, **run_fields(args))
    if args.wait:
        _wait_for(handle)
    else:
        print(handle.name)


def _wait_for(sweep: Sweep) -> None:
    """Show the progress of a sweep until it ends, and print its result. An interrupt leaves it running."""
    try:
        print(f"{sweep.name}: {sweep.wait(progress=True).line()}")
    except KeyboardInterrupt:
        print(f"\n{sweep.name} goes on in the background. Stop it: workbench sweeps {sweep.name} --stop",
              file=sys.stderr)
        raise
    if sweep.status.best_run:
        print(" ".join(f"{name}={value}" for name, value in sweep.best_fields.items()))


@command("sweeps", "list all sweeps, or the trials of one; stop, resume or delete it", _sweeps_options)
def _sweeps(args: argparse.Namespace) -> None:
    from workbench.sweeping import sweep

    if args.runs and not args.delete:
        raise InvalidInput("--runs goes with --delete: it deletes the runs of the sweep, too.")
    if args.sweep is None:
        if args.stop or args.resume or args.delete:
            raise InvalidInput("which sweep? Name it: workbench sweeps NAME --stop. workbench sweeps lists them.")
        print(sweep.sweeps())
        return
    handle = sweep.attach_sweep(args.sweep)
    if args.delete:
        print(handle.delete(runs=args.runs))
        return
    if args.stop or args.resume:
        status = handle.stop() if args.stop else handle.resume().status
        print(f"{handle.name}: {status.line()}")
        return
    print(f"{handle.name}: {handle.status.line()}")
    if len(table := handle.table):
        print(printable(table.to_string(na_rep="")))
