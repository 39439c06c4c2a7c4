"""Commands that read what there is: runs, what they recorded, what they can be given, and this machine."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from datetime import datetime

from workbench.cli.parser import OF_RUN, Commands, argument
from workbench.cli.values import attached
from workbench.cli.wording import say
from workbench.errors import printable
from workbench.rundir.files import tail
from workbench.tables import counted
from workbench.trackers import TRACKERS

command = Commands()
_LOG_BYTES = 2000  # of each file: its last lines


@command("runs", "list all runs")
def _runs(args: argparse.Namespace) -> None:
    from workbench.running.reading.listing import runs

    say(args, runs().text(_width()))


@command("status", "show the state of a run", OF_RUN, argument("--json", action="store_true", help="as JSON"))
def _status(args: argparse.Namespace) -> None:
    import dataclasses

    from workbench.metrics.status_facts import FACTS
    from workbench.supervisor import stopping_rules

    handle = attached(args.name)
    status = handle.status
    if args.json:
        print(json.dumps({"name": status.name, "state": status.state, **dataclasses.asdict(status)}, indent=1))
        return
    say(args, f"{status.name}: {status.line()}")
    if device := FACTS["device"].shown(status):
        print(f"  learner: {device}")
    for actor in status.actors:
        life = "alive" if actor.alive else "dead" if status.alive else "ended"
        speed = FACTS["steps_per_second"].written(actor.steps_per_second, unit=True)
        print(f"  actor {actor.index}: {life}, {speed}, {counted(actor.restarts, 'restarts')}")
    spent = ", ".join(stopping_rules.spent(handle.config, status))
    for text in (status.collapse, spent, status.alive and status.hint, status.reason and status.warning,
                 status.error):
        if text:
            say(args, printable(text))


@command("compare", "list some runs, and the fields in which they differ",
         argument("runs", nargs="+", metavar="RUN", help="names or directories of runs"))
def _compare(args: argparse.Namespace) -> None:
    from workbench.running.differing import differences
    from workbench.running.reading.listing import summaries

    runs = [attached(name) for name in args.runs]
    differing = differences(runs)
    print(summaries(run.directory for run in runs).text(_width()))
    shown = printable(differing.map(str).to_string())  # pandas would write 1e-08 as 0.0
    print(f"\n{shown}" if len(differing) else "Their configurations do not differ.")


@command("metrics", "print the names of a run's metrics, or one as CSV", OF_RUN,
         argument("metric", nargs="?", help="such as episode_return; default: list their names"))
def _metrics(args: argparse.Namespace) -> None:
    run = attached(args.name)
    print("\n".join(run.metric_names) if args.metric is None else run.metrics(args.metric).to_csv(index=False).rstrip())


@command("events", "list what has happened to a run, the newest last", OF_RUN)
def _events(args: argparse.Namespace) -> None:
    for _, event in attached(args.name).events.iterrows():
        at = datetime.fromtimestamp(event["time"].timestamp())
        say(args, f"{at:%Y-%m-%d %H:%M:%S}  {event['kind']:<10}  {event['message']}")


@command("logs", "print the path and the last lines of each log of a run", OF_RUN)
def _logs(args: argparse.Namespace) -> None:
    for file in sorted(attached(args.name).directory.logs.glob("*.log")):
        print(f"{file}\n{tail(file, _LOG_BYTES)}".rstrip())


@command("checkpoints", "list the checkpoints of a run", OF_RUN)
def _checkpoints(args: argparse.Namespace) -> None:
    print(attached(args.name).checkpoints)


@command("card", "print all that is needed to judge and to repeat a run", OF_RUN,
         argument("--output", "-o", metavar="FILE", help="file to write, .md or .html; default: print Markdown"))
def _card(args: argparse.Namespace) -> None:
    card = attached(args.name).card()
    if args.output is not None:
        print(card.save(args.output))
    else:  # a terminal would show the source of the drawing
        print(re.sub(r"<svg.*?</svg>\n*", "", str(card), flags=re.DOTALL) if sys.stdout.isatty() else card)


@command("share", "write a run as one HTML page that any browser opens offline", OF_RUN,
         argument("--output", "-o", metavar="FILE", help="file to write, .html; default: a free name here"))
def _share(args: argparse.Namespace) -> None:
    print(attached(args.name).share(args.output))


@command("track", "send a run's history to a service, what it lacks, and print how many rows", OF_RUN,
         argument("service", help=f"one of {', '.join(TRACKERS)}"))
def _track(args: argparse.Namespace) -> None:
    print(attached(args.name).track(args.service))


@command("fields", "list the fields of runs: default, bounds, meaning, source",
         argument("field", nargs="?", metavar="NAME", help="an algorithm, run, or a field; default: all"))
def _fields(args: argparse.Namespace) -> None:
    from workbench.config.field_list import fields

    print(fields(args.field).text(_width()))


@command("environments", "list the environments, and how to install missing ones",
         argument("pattern", nargs="?", help="a family such as football/, or a part of a name"))
def _environments(args: argparse.Namespace) -> None:
    from workbench.environments.catalogue import environments

    print(environments(args.pattern))


@command("machine", "show this machine, and the defaults of runs that follow from it")
def _machine(args: argparse.Namespace) -> None:
    from workbench.running.machine_info import machine

    print(machine())


def _width() -> int | None:
    """The columns of the terminal; None where the output is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
