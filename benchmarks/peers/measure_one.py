"""Trained steps per second of one candidate in one setting, in the interpreter that runs this.

    python benchmarks/peers/measure_one.py NAME [--seconds 20] [--setting JSON] [--warm-up-updates 10]

compare.py starts it for each measurement, a peer's with the interpreter of the peer's own virtual environment, in which
it needs nothing but Python and that peer. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

from arguments import Parser
from candidates import EVERYONE, OURS
from installing import command_to_install
from measuring import WARM_UP_UPDATES, Meter


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.add_argument("name", choices=tuple(EVERYONE), metavar="NAME", help=f"one of {', '.join(EVERYONE)}")
    parser.seconds(20.0, "seconds to measure, after the warm-up")
    parser.add_argument("--setting", type=setting, metavar="JSON", help="as compare.py lists them (default: the first)")
    parser.whole("--warm-up-updates", WARM_UP_UPDATES, "updates before the measurement", most=10_000)
    given = parser.parse_args(words)
    first, *_ = settings = EVERYONE[given.name].settings
    given.setting = {**first, **(given.setting or {})}
    known = {name for one in settings for name in one}
    if given.name not in OURS and (unknown := set(given.setting) - known):
        parser.error(f"no setting {sorted(unknown)[0]!r} of {given.name}; there are {', '.join(sorted(known))}")
    return given


def setting(text: str) -> dict[str, Any]:
    """A JSON object."""
    try:
        return dict(json.loads(text))
    except (ValueError, TypeError):
        raise argparse.ArgumentTypeError(f"{text!r} is no JSON object") from None


def main() -> None:
    given = arguments()
    try:
        peer = importlib.import_module(EVERYONE[given.name].module)
    except ImportError as error:
        Parser(script=__file__).error(f"{given.name} is not whole in {sys.executable} ({error}); "
                                      f"{command_to_install([given.name])}, then start it with that interpreter")
    meter = Meter(given.seconds, warm_up_updates=given.warm_up_updates)
    said = peer.measure(meter, given.setting)
    print("\n" + json.dumps({**meter.result(), **said}), flush=True)


if __name__ == "__main__":
    main()
