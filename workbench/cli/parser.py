"""The parser of the command line: errors of one line with the nearest name, and options from settings, in groups."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn

from workbench import __version__
from workbench.cli.values import option, option_help
from workbench.config import ALGORITHMS, DEFAULT, RunConfig, settings
from workbench.config.settings import SYNONYMS
from workbench.config.signatures import all_settings
from workbench.errors import nearest

# Settings without an option that is made from them.
APART = ("environment", "algorithm", "own_algorithm", "network", "environment_options", "wrappers")
_GROUPS: dict[str, tuple[str, ...]] = {
    "when it ends": ("total_frames", "max_hours", "price_per_hour", "max_cost", "target_return", "target_score",
                     "patience_frames"),
    "environments and actors": (
        "actors", "envs_per_actor", "groups_per_actor", "frame_stack", "seed", "opponent", "opponent_agents",
        "actor_threads", "actor_processes", "step_timeout_s", "actor_memory_limit_gb",
    ),
    "checkpoints": ("checkpoint_interval_s", "keep_checkpoints", "exact_resume_updates"),
}  # fmt: skip
_ELSEWHERE = "where it runs, and how fast"
_NUMBERS = ("Numbers may be written as 2e7, 20M or 20_000_000. Defaults are those of the first algorithm that has the "
            "field; workbench fields has those of each, and a preset of the environment may have others.")
_SYNONYMS = {"list": "runs", "ls": "runs", "ps": "runs", "rm": "delete", "kill": "stop", "log": "logs",
             "diff": "compare", "run": "train", "start": "launch"}
_CHOICE = re.compile(r"invalid choice: '(.*)' \(choose from (.*)\)")


def _nearest_option(word: str, options: Iterable[str]) -> str:
    """" Did you mean '--discount'?" for an option that is none of these; "" without one that is like it."""
    names = [name.removeprefix("--").replace("-", "_") for name in options if name.startswith("--")]
    synonyms = {word: [field.strip("_") for field in fields] for word, fields in SYNONYMS.items()}
    hint = nearest(word.lstrip("-").replace("-", "_"), names, synonyms)
    return re.sub(r"'(\w+)'", lambda found: repr(option(found[1])), hint)


Command = Callable[[argparse.Namespace], int | None]  # returns the exit code; None: 0
Argument = Callable[[argparse.ArgumentParser], object]  # adds itself to the parser of a command


def argument(*names: str, **fields: Any) -> Argument:
    """An argument of a command, as `add_argument` of argparse takes it."""
    return lambda parser: parser.add_argument(*names, **fields)


OF_RUN = argument("name", help="name or directory of the run")
OF_RUNS = argument("names", nargs="+", metavar="name", help="name or directory of a run, or several")


class Commands:
    """The commands of a file, in its order. It decorates the function of each with name, help and arguments."""

    def __init__(self) -> None:
        self._all: list[tuple[str, str, Command, tuple[Argument, ...]]] = []

    def __call__(self, name: str, help: str, *arguments: Argument) -> Callable[[Command], Command]:
        def decorate(function: Command) -> Command:
            self._all.append((name, help, function, arguments))
            return function

        return decorate

    def add_to(self, subparsers: Any) -> None:
        """Add a parser for each of them."""
        for name, help, function, arguments in self._all:
            parser = subparsers.add_parser(name, help=help, description=help)
            parser.set_defaults(command=function, parser=parser)
            for add in arguments:
                add(parser)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **fields})
        self._negative_number_matcher = re.compile(r"-\.?\d")  # in Python 3.11, -1e-3 would be an option

    def add_argument(self, *names: Any, **fields: Any) -> argparse.Action:
        """As of argparse, which otherwise says of words that may be left out that they are required."""
        return super().add_argument(*names, **({"default": ()} if fields.get("nargs") == "*" else {}) | fields)

    def error(self, message: str) -> NoReturn:
        if choice := _CHOICE.search(message):
            hint = nearest(choice[1], re.findall(r"[\w-]+", choice[2]), _SYNONYMS)
            message = message.partition(" (")[0] + (hint and f".{hint}")
        self.exit(2, f"workbench: {message} (see {self.prog} --help)\n")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """The arguments; an unknown option is refused with the nearest of its command."""
        parsed, rest = self.parse_known_args(args, namespace)
        if rest:
            command = getattr(parsed, "parser", self)
            hint = _nearest_option(rest[0].partition("=")[0], command.options())
            command.error(f"unrecognized arguments: {' '.join(rest)}{hint and '.' + hint}")
        return parsed

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Takes FIELD=VALUE and names of runs behind options, too, and --field VALUE: argparse fills a list of words
        only from the first row of them."""
        takes_changes = args is not None and any(action.dest == "changes" for action in self._actions)
        parsed, rest = super().parse_known_args(self._as_changes(args) if takes_changes else args, namespace)
        for words in ("changes", "names"):
            if hasattr(parsed, words):
                more = [word for word in rest if not word.startswith("-")]
                setattr(parsed, words, [word for word in (*getattr(parsed, words), *more) if word != "--"])
                rest = [word for word in rest if word.startswith("-") and word != "--"]
        return parsed, rest

    def _as_changes(self, words: Iterable[str]) -> list[str]:
        """The words, with batch_size=16 at the end for --batch-size 16 or --batch-size=16."""
        fields = {option(name): name for name in all_settings() if option(name) not in self.options()}
        others, changes, rest = list[str](), list[str](), iter(words)
        for word in rest:
            name, equals, value = word.partition("=")
            if name in fields:
                changes.append(f"{fields[name]}={value if equals else next(rest, '')}")
            else:
                others.append(word)
        return [*others, *changes]

    def options(self) -> Sequence[str]:
        """All options, such as --actors."""
        return list(self._option_string_actions)


def add_version(parser: argparse.ArgumentParser) -> None:
    """The option --version."""
    parser.add_argument("--version", action="version", version=f"workbench {__version__}")


def add_run_options(parser: argparse.ArgumentParser, *, of: str = "run", such_as: str = "pong-vtrace-1") -> None:
    """The arguments of `wb.launch`: an option for each setting, in groups."""
    parser.usage, parser.epilog = f"{parser.prog} ENVIRONMENT [option ...]", _NUMBERS
    parser.add_argument("environment", metavar="ENVIRONMENT", help="such as ALE/Pong-v5 or CartPole-v1")
    parser.add_argument("--algorithm", default=DEFAULT, help=f"one of {', '.join(ALGORITHMS)} (default: {DEFAULT})")
    parser.add_argument("--name", help=f"of the {of}; default: the first free one, such as {such_as}")
    parser.add_argument("--network", help="name of the network; default: chosen by the preset or the observations")
    parser.add_argument("--preset", help="name of the preset for fields that are not set, or none; default: that "
                                         "of the environment, if it has one")
    parser.add_argument("--checkpoint", help="folder of a checkpoint, name of a run, or RUN@000000012345, whose "
                                             "weights to start from")
    parser.add_argument("--demonstrations", nargs="+", metavar="ROLLOUT", help="folders or names of rollouts, for an "
                                                                              "algorithm that learns from them")
    parser.add_argument("--environment-option", action="append", default=[], metavar="NAME=VALUE", dest="options",
                        help="option of the environment, value as JSON or text; may be given several times")
    known = all_settings()
    for title, names in field_groups():
        group = parser.add_argument_group(title)
        for name in names:
            group.add_argument(option(name), dest=name, metavar=known[name].kind.__name__.upper(),
                               help=option_help(known[name]), default=argparse.SUPPRESS)


def field_groups() -> Iterator[tuple[str, Sequence[str]]]:
    """Titles of groups, and the names of the settings in them: those of runs, of all algorithms, and of each alone."""
    yield from _GROUPS.items()
    grouped = {name for names in _GROUPS.values() for name in names}
    yield _ELSEWHERE, [name for name in settings(RunConfig) if name not in grouped and name not in APART]
    having: dict[tuple[str, ...], list[str]] = {}  # settings by the algorithms that have them
    for name in all_settings():
        if those := tuple(algorithm for algorithm, config in ALGORITHMS.items() if name in settings(config)):
            having.setdefault(those, []).append(name)
    for those, names in sorted(having.items(), key=lambda entry: -len(entry[0])):
        yield "learning" if len(those) == len(ALGORITHMS) else f"learning, {' and '.join(those)} only", names
