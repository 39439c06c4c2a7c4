"""Messages in the words of the command line: wb.resume('pong') becomes `workbench resume pong`.

A message names the Python call that helps, whichever process wrote it. The table here has the command that does the
same; a call without one, such as wb.play(...), stays as it is.
"""

from __future__ import annotations

import argparse
import ast
import re
import shlex
import sys

from workbench.errors import WorkbenchError

# Placeholders: the run, sweep or environment of the call, its keyword arguments as fields, values, options or flags.
COMMANDS = {
    "run.checkpoint": "workbench checkpoint {run} {flags}",
    "run.delete": "workbench delete {run}",
    "run.fork": "workbench fork {run} {fields}",
    "run.hyperparameters": "workbench tune {run}",
    "run.metric_names": "workbench metrics {run}",
    "run.rescue": "workbench rescue {run} {fields}",
    "run.scale": "workbench scale {run} {values}",
    "run.share": "workbench share {run}",
    "run.status": "workbench status {run}",
    "run.stop": "workbench stop {run}",
    "run.tune": "workbench tune {run} {fields}",
    "wb.attach": "workbench status {run}",
    "wb.attach.delete": "workbench delete {run}",
    "wb.attach.fork": "workbench fork {run}",
    "wb.attach.checkpoint": "workbench checkpoint {run} {flags}",
    "wb.attach.checkpoints": "workbench checkpoints {run}",
    "wb.attach.resume": "workbench resume {run}",
    "wb.attach.rescue": "workbench rescue {run} {fields}",
    "wb.attach.status": "workbench status {run}",
    "wb.attach.stop": "workbench stop {run}",
    "wb.attach_sweep": "workbench sweeps {sweep}",
    "wb.attach_sweep.resume": "workbench sweeps {sweep} --resume",
    "wb.attach_sweep.stop": "workbench sweeps {sweep} --stop",
    "wb.environments": "workbench environments",
    "wb.fields": "workbench fields {subject}",
    "wb.launch": "workbench launch {environment} {options}",
    "wb.resume": "workbench resume {run} {fields}",
    "wb.rollout": "workbench rollout {run} {options}",
    "wb.runs": "workbench runs",
    "wb.sweeps": "workbench sweeps",
}
CALL = re.compile(r"\b(?:wb|run)(?:\.[a-z_]+(?:\((?:[^()]|\([^()]*\))*\))?)+")


def in_commands(message: str, run: str | None = None) -> str:
    """`message` with each Python call replaced by its command; `run` is the name that `run` stands for.

    Indented lines stay as they are: they are the code of a traceback.
    """
    lines = message.splitlines(keepends=True)
    return "".join(line if line.startswith("  ") else _line_in_commands(line, run) for line in lines)


def say(args: argparse.Namespace, message: object, *, error: bool = False) -> None:
    """Print a message that may name Python calls, in the words of the command line."""
    print(in_commands(str(message), getattr(args, "name", None)), file=sys.stderr if error else None)


def say_error(args: argparse.Namespace, error: WorkbenchError) -> int:
    """Print the first line of an error and its notes, and return the exit code that it has."""
    first, *more = str(error).splitlines() or [type(error).__name__]
    notes = getattr(error, "__notes__", [])
    say(args, f"workbench: {first}{' (run.status shows all of it)' if more and not notes else ''}", error=True)
    for note in notes:  # such as where the run lies now
        say(args, note, error=True)
    return 2


def _line_in_commands(line: str, run: str | None) -> str:
    return CALL.sub(lambda match: f"`{command}`" if (command := _command(match[0], run)) else match[0], line)


def _command(call: str, run: str | None) -> str | None:
    """The command for a Python call, or None."""
    try:
        path, subject, keywords = _parts(ast.parse(call, mode="eval").body)
    except (SyntaxError, TypeError, ValueError):
        return None
    if (command := COMMANDS.get(path)) is None:
        return None
    subject = subject and shlex.quote(subject)
    return command.format(
        run=subject or (shlex.quote(run) if run else "NAME"), sweep=subject or "NAME",
        environment=subject or "ENVIRONMENT", subject=subject or "",
        fields=" ".join(f"{name}={value}" for name, value in keywords.items()),
        values=" ".join(keywords.values()),
        options=" ".join(f"--{name.replace('_', '-')} {value}" for name, value in keywords.items()),
        flags=" ".join(f"--{name.replace('_', '-')}" for name, value in keywords.items() if value == "True"),
    ).rstrip()


def _parts(node: ast.expr) -> tuple[str, str | None, dict[str, str]]:
    """Dotted path of a call, its first argument (None: there is none, or an ellipsis), and its keyword arguments.

    Raises ValueError for any other expression.
    """
    names: list[str] = []
    subject: str | None = None
    keywords: dict[str, str] = {}
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Call):
            subject = _literal(node.args[0]) if node.args else subject
            keywords |= {str(keyword.arg): shlex.quote(_literal(keyword.value) or "...") for keyword in node.keywords}
            node = node.func
        else:
            raise ValueError(ast.unparse(node))
    return ".".join([node.id, *reversed(names)]), subject, keywords


def _literal(node: ast.expr) -> str | None:
    """A literal as it is typed in a shell; None for an ellipsis. Raises ValueError for anything else."""
    value = ast.literal_eval(node)
    return None if value is ... else "none" if value is None else str(value)
