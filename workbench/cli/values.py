"""Values as a person types them, on the command line or behind a magic: NAME=VALUE, 1e7, 10M, yes, none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from workbench.config import ALGORITHMS, RunConfig, Setting, settings, unknown_field
from workbench.config.run import LISTING
from workbench.errors import InvalidInput, OutOfBounds
from workbench.tables import typed_number

if TYPE_CHECKING:
    from workbench.running.handle import Run


def option(name: str) -> str:
    """The option of a setting: learning_rate is --learning-rate."""
    return "--" + name.strip("_").replace("_", "-")


def option_help(setting: Setting) -> str:
    """What a setting is, with choices, unit and default, as argparse wants it."""
    choices = f", one of {', '.join(setting.choices)}" if setting.choices else ""
    text = f"{setting.help}{choices}{f', in {setting.unit}' if setting.unit else ''} (default: {_default(setting)})"
    return text.replace("%", "%%")


def _default(setting: Setting) -> str:
    """The default, by algorithm where it is not the same for all."""
    known = {name: settings(config) for name, config in ALGORITHMS.items()}
    by_algorithm = {name: fields[setting.name].default for name, fields in known.items() if setting.name in fields}
    if not by_algorithm or (len(by_algorithm) == len(known) and len(set(by_algorithm.values())) == 1):
        return str(setting.default)
    return ", ".join(f"{default} for {name}" for name, default in by_algorithm.items())


def parse_number(name: str, text: str) -> float:
    """The number that was typed for `name`. Raises OutOfBounds."""
    try:
        return typed_number(text)
    except ValueError:
        raise OutOfBounds(f"{name}={text!r} must be a number.") from None


def json_or_text(text: str) -> Any:
    """The JSON value that `text` is, or `text` itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def pair(text: str) -> tuple[str, str]:
    """Name and value of "name=value". Raises InvalidInput."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise InvalidInput(f"{text!r} must look like name=value.")
    return name, value


def changes_of(words: Sequence[str], config: RunConfig, remedy: str = LISTING) -> dict[str, Any]:
    """Fields of `config` as typed; `remedy` says where an unknown one can be looked up. Raises InvalidInput."""
    known, changes = config.all_settings(), {}
    for name, text in map(pair, words):
        if name not in known:
            raise unknown_field(name, known, remedy, algorithm=config.algorithm)
        changes[name] = known[name].typed(text)
    return changes


def attached(name: str) -> Run:
    """The handle of a run."""
    from workbench.running.handle import attach

    return attach(name)
