"""Writes docs/commands.md: each command of `workbench` with its help, from the parser. `python docs/commands.py`"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from workbench.cli.commands import build_parser
from workbench.config.signatures import all_settings

PAGE = Path(__file__).with_suffix(".md")
FIELDS = all_settings().keys() - {"algorithm", "network"}  # those come first in each help
HEAD = """# Commands

Made from the parser by `python docs/commands.py`; a test keeps it fresh. `workbench COMMAND --help` prints the same.
In a checkout, `source .venv/bin/activate` comes first, or say `.venv/bin/workbench`.

```sh
workbench train CartPole-v1 --target-return 475      # a run with its progress, until it ends
workbench launch ALE/Pong-v5 --actors 2              # in the background; prints its name
workbench status pong-vtrace-1
workbench tune pong-vtrace-1 learning_rate=3e-4
workbench stop pong-vtrace-1
```

Numbers may be written as 2e7, 20M or 20_000_000. An error is one line on stderr and the exit status 2; an interrupt
is the exit status 130. What an option does that is a field of a run, its bounds and its source: [Fields](fields.md).
"""


def cell(text: str) -> str:
    """Text for a cell of a table."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


def commands(parser: argparse.ArgumentParser) -> list[tuple[str, str, argparse.ArgumentParser]]:
    """Name, help and parser of each command, in the order of `workbench --help`."""
    (action,) = (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    return [(entry.dest, entry.help or "", action.choices[entry.dest]) for entry in action._choices_actions]


def usage(parser: argparse.ArgumentParser) -> str:
    """The usage in one line."""
    return re.sub(r"\s+", " ", parser.format_usage().removeprefix("usage: ")).strip()


def is_field(action: argparse.Action) -> bool:
    """Whether it is an option that is a field of a run: those have a page of their own."""
    return bool(action.option_strings) and action.dest in FIELDS and action.help is not argparse.SUPPRESS


def rows(group: argparse._ArgumentGroup, parser: argparse.ArgumentParser) -> list[str]:
    """A line of a table for each other argument of a group."""
    lines = []
    formatter = parser._get_formatter()
    for action in group._group_actions:
        if action.help is argparse.SUPPRESS or isinstance(action, argparse._HelpAction) or is_field(action):
            continue
        invocation = formatter._format_action_invocation(action)
        lines.append(f"| `{cell(invocation)}` | {cell(formatter._expand_help(action) if action.help else '')} |")
    return lines


def section(name: str, help: str, parser: argparse.ArgumentParser, shown: dict[tuple[str, ...], str]) -> list[str]:
    """The section of one command; `shown`: the command whose section has a table already."""
    text = (parser.description or help).strip()
    lines = ["", f"## workbench {name}", "", f"{text[0].upper()}{text[1:].rstrip('.')}.",
             "", "```text", usage(parser), "```"]
    for group in parser._action_groups:
        if table := rows(group, parser):
            title = {"positional arguments": "arguments"}.get(group.title or "options", group.title or "options")
            before = shown.setdefault((title, *table), name)
            if before == name:
                lines += ["", f"| {title} | |", "|---|---|", *table]
            else:
                lines += ["", f"The {title.replace('options', 'other options')} are those of "
                          f"[workbench {before}](#workbench-{before})." if title in ("arguments", "options") else
                          f"Options under *{title}*: as of [workbench {before}](#workbench-{before})."]
    found = [f"| {group.title} | {', '.join(f'`{one}`' for one in options)} |" for group in parser._action_groups
             if (options := [action.option_strings[0] for action in group._group_actions if is_field(action)])]
    before = shown.setdefault(("fields", *found), name)
    if found and before != name:
        return [*lines, "", f"[Fields](fields.md) of the run: those of [workbench {before}](#workbench-{before})."]
    return [*lines, "", "| [fields](fields.md) of the run | |", "|---|---|", *found] if found else lines


def page() -> str:
    """The text of docs/commands.md."""
    every = commands(build_parser())
    lines = ["", "| command | |", "|---|---|",
             *(f"| [`{name}`](#workbench-{name}) | {cell(help)} |" for name, help, _ in every)]
    shown: dict[tuple[str, ...], str] = {}
    for name, help, parser in every:
        lines += section(name, help, parser, shown)
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.name} is written.")
