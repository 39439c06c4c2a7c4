"""The command line of the benchmarks: numbers with bounds and units, and one line where an argument is wrong.

Has no command line of its own, and needs nothing but Python: a script reads its arguments before it imports what takes
seconds, so that --help answers at once. Exit code 2: a wrong argument; nothing was measured.
"""

from __future__ import annotations

import argparse
import difflib
import math
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

HERE = Path(__file__).parent
RESULTS = HERE / "results"
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")  # as tests/browser looks for them


def whole(least: int, most: int, *, multiple: int = 1) -> Callable[[str], int]:
    """A type of whole numbers within bounds, of a multiple where one is given."""
    of = f" and a multiple of {multiple}" if multiple > 1 else ""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most or value % multiple:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least:,} to {most:,}{of}")
        return value

    return read


def number(least: float, most: float) -> Callable[[str], float]:
    """A type of numbers within bounds."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least:,g} to {most:,g}")
        return value

    return read


def some(known: Sequence[str]) -> Callable[[str], list[str]]:
    """A type of names out of `known`, with commas between."""

    def read(text: str) -> list[str]:
        for one in text.split(","):
            if one not in known:
                raise argparse.ArgumentTypeError(f"{one!r} is none of {', '.join(known)}")
        return text.split(",")

    return read


def folder(text: str) -> Path:
    """A directory that is there."""
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"there is no directory {text!r}; make it, or name another")
    return Path(text)


def written(text: str, result: Path | None, *, variant: str = "") -> None:
    """Print the text of a result, and with --write keep it as that file; `variant`: with this added to its name."""
    print(text)
    if result is not None:
        (result.with_stem(f"{result.stem}-{variant}") if variant else result).write_text(text)


class Parser(argparse.ArgumentParser):
    """Shows a script's own docstring as help, and complains in one line."""

    def __init__(self, about: str | None = None, *, script: str | None = None, **fields: Any) -> None:
        if script:
            fields["prog"] = str(Path("benchmarks", Path(script).resolve().relative_to(HERE)))
        super().__init__(description=about, allow_abbrev=False,
                         formatter_class=argparse.RawDescriptionHelpFormatter, **fields)
        self._environments: list[str] = []

    def add_argument(self, *names: Any, **fields: Any) -> argparse.Action:
        """As of argparse, which otherwise says of words that may be left out that they are required."""
        return super().add_argument(*names, **({"default": ()} if fields.get("nargs") == "*" else {}) | fields)

    # --- what many scripts have -------------------------------------------------------------------------------------

    def whole(self, name: str, default: int | None, what: str, *, least: int = 1, most: int = 1000,
              multiple: int = 1, **fields: Any) -> None:
        """Add a whole number; `what` says its unit."""
        said = f"{what}: {least:,} to {most:,}{f', multiples of {multiple}' if multiple > 1 else ''}"
        self.add_argument(name, type=whole(least, most, multiple=multiple), default=default,
                          help=said if default is None else f"{said} (default: {_words(default)})", **fields)

    def number(self, name: str, default: float | None, what: str, *, least: float, most: float) -> None:
        """Add a number; `what` says its unit."""
        said = f"{what}: {least:,g} to {most:,g}"
        self.add_argument(name, type=number(least, most), default=default,
                          help=said if default is None else f"{said} (default: {default:g})")

    def rounds(self, default: int) -> None:
        """Add --rounds."""
        self.whole("--rounds", default, "rounds, of which the median counts")

    def seconds(self, default: float, what: str = "seconds of each measurement") -> None:
        """Add --seconds."""
        self.number("--seconds", default, what, least=0.1, most=3600)

    def environment(self, name: str, default: Any, what: str = "the environment", **fields: Any) -> None:
        """Add the name of an environment, or several; a name that is not known is refused."""
        said = f" (default: {_words(default)})" if default else ""
        action = self.add_argument(name, default=default, help=f"{what}{said}", **fields)
        self._environments.append(action.dest)

    def writes(self, result: str, what: str = "the tables") -> None:
        """Add --write, which is the path of that file in results/, or None: see `written`."""
        self.add_argument("--write", action="store_const", const=RESULTS / result,
                          help=f"write {what} to {result} in benchmarks/results")

    def browser(self) -> str:
        """The path of the browser; ends the process as `parse_args` where there is none."""
        found = next(filter(None, (os.environ.get("CHROMIUM"), *map(shutil.which, CHROMIUMS))), None)
        if found is None:
            self.error("there is no browser; apt-get install chromium, or set CHROMIUM")
        return found

    # --- reading ----------------------------------------------------------------------------------------------------

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:
        """The arguments. Ends the process with one line and exit code 2 where one is wrong."""
        given, rest = self.parse_known_args(args, namespace)
        if rest:
            self.error(self._unknown(rest[0]))
        for parser in (self, *self._commands().values()):
            for name in parser._environments:
                self.check_environments(getattr(given, name, None))
        return given

    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line. Exit code 2."""
        self.exit(2, f"{self.prog}: {' '.join(message.split())} (--help shows what there is)\n")

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """What the workbench refuses within is a wrong argument."""
        from workbench.errors import InvalidInput, MissingPackage, RunNotFound

        try:
            yield
        except (InvalidInput, MissingPackage, RunNotFound) as error:
            self.error(str(error))

    def check_environments(self, names: str | list[str] | None) -> None:
        """Refuse a name that is no environment, or whose package is missing."""
        from workbench import environments

        with self.refusing():
            for name in [names] if isinstance(names, str) else names or ():
                environments.check_name(name)

    def _unknown(self, word: str) -> str:
        known = [option for parser in (self, *self._commands().values()) for option in parser._option_string_actions]
        near = difflib.get_close_matches(word.partition("=")[0], known, n=1)
        return f"unknown argument {word!r}" + (f"; did you mean {near[0]}?" if near else "")

    def _commands(self) -> dict[str, Parser]:
        found = [action.choices for action in self._actions if isinstance(action, argparse._SubParsersAction)]
        return dict(found[0]) if found else {}


def _words(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
