"""Launch, steer and watch runs of distributed reinforcement learning from the command line.

The commands are in files beside this one, each with its arguments; options of `train` and `launch` are made from the
settings of the configuration. An error is one line on stderr and exit code 2; an interrupt is exit code 130.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence

from workbench.cli import machine_commands, policy_commands, reading_commands, run_commands, sweep_commands
from workbench.cli.parser import Commands, Parser, add_version, argument
from workbench.cli.wording import say, say_error
from workbench.errors import WorkbenchError
from workbench.running.progress import NOTIFIER

command = Commands()


def run(arguments: Sequence[str]) -> int:
    """Do what `arguments` say; returns the exit code."""
    args = build_parser().parse_args(arguments)
    outer_notifier = NOTIFIER.set(lambda sentence: say(args, sentence, error=True))
    try:
        code = args.command(args) or 0
        sys.stdout.flush()
        return code
    except WorkbenchError as error:
        return say_error(args, error)
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ENOSPC):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:  # `workbench runs | head` has read what it wants
            print(f"workbench: cannot write the output: {error.strerror}. Make room, or send it elsewhere.",
                  file=sys.stderr)
        return 1
    finally:
        NOTIFIER.reset(outer_notifier)


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = Parser(prog="workbench", description=__doc__.splitlines()[0] if __doc__ else "")
    add_version(parser)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for file in (run_commands, reading_commands, policy_commands, sweep_commands, machine_commands):
        file.command.add_to(commands)
    command.add_to(commands)
    return parser


@command("help", "show the help of a command",
         argument("words", nargs="*", metavar="COMMAND", help="default: list all commands"))
def _help(args: argparse.Namespace) -> None:
    build_parser().parse_args([*args.words, "--help"])
