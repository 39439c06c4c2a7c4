"""The shell words that start a recipe's run, with all that its configuration changes."""

from __future__ import annotations

import json
import shlex
from typing import Any

from workbench.config import RunConfig
from workbench.errors import OutOfBounds, printable
from workbench.planning.recipes.cluster import Cluster

_SAID = ("environment", "algorithm", "launcher", "address", "actors", "envs_per_actor", "groups_per_actor", "learners",
         "batch_size", "unroll_length", "learner_gpus")  # by a `Cluster`, whatever the configuration has
_WIDTH = 110


def words(cluster: Cluster, config: RunConfig, *, waits: bool, preset: str | None) -> list[str]:
    """Lines of words, quoted for a shell.

    Args:
        waits: whether the command ends with the run (`workbench train`), or returns once it trains.
        preset: its name; None: that of the environment.

    Raises OutOfBounds for a text that a line cannot hold.
    """
    first = (f"workbench {'train' if waits else 'launch'} {cluster.environment} --name {cluster.name} "
             f"--algorithm {cluster.algorithm} --launcher ray")
    says_gpus = cluster.learner_gpus or config.learner_gpus is not None
    more = [f"--learner-gpus {_gpus(cluster, config)}"] if says_gpus else []
    more += [f"--preset {preset}"] if preset else []
    for name, value in config.changed.items():
        if name == "environment_options":
            more += [_option("environment-option", f"{key}={json.dumps(each)}") for key, each in value.items()]
        elif name not in _SAID:
            more.append(_option(name, value))
    return [first, f"--actors {cluster.actors} --envs-per-actor {cluster.envs_per_actor} "
            f"--groups-per-actor {cluster.groups_per_actor}",
            f"--learners {cluster.learners} --batch-size {cluster.batch_size} --unroll-length {cluster.unroll_length}",
            *_lines(more)]


def _gpus(cluster: Cluster, config: RunConfig) -> int | float:
    """GPUs that each learner reserves. Raises OutOfBounds where its machine has fewer."""
    each = config.learner_gpus
    if each is None:
        return cluster.learner_gpus // cluster.learners_per_machine
    if each * cluster.learners_per_machine > cluster.learner_gpus:
        raise OutOfBounds(f"Each learner of the run reserves learner_gpus={each:g}, and its machine has "
                          f"{cluster.learner_gpus} for learners_per_machine={cluster.learners_per_machine}.")
    return each


def _option(name: str, value: Any) -> str:
    """A field as an option, such as --learning-rate 0.0006."""
    text = "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    if printable(text, but="") != text:
        raise OutOfBounds(f"{name}={value!r:.100} has characters that a line of a script cannot hold.")
    option = "--" + name.strip("_").replace("_", "-")
    return f"{option}={shlex.quote(text)}" if text.startswith("-") else f"{option} {shlex.quote(text)}"


def _lines(options: list[str]) -> list[str]:
    """The options on as few lines as they fit on."""
    lines: list[str] = []
    for option in options:
        if lines and len(lines[-1]) + len(option) < _WIDTH:
            lines[-1] += f" {option}"
        else:
            lines.append(option)
    return lines


def goes_on(run: str, *, more: str = "") -> str:
    """The shell words that go on with the run of that name or URL, and wait until it ends; `more`: arguments."""
    return (f"python -u -c 'import workbench as wb; wb.resume(\"{run}\", launcher=\"ray\", {more}"
            "wait_ready=False).wait()'")


def starts(cluster: Cluster, command: str, *, replace: bool) -> str:
    """A line that goes on with the run's copy in storage, where there is one, or starts it; `replace`: the shell, too.

    A copy has no seal that another machine knows. An environment "package:Name-v0" is trusted there all the same: this
    file names it, too.
    """
    whole = f"exec {command}" if replace else command
    if not cluster.storage:
        return whole
    url = cluster.storage if "://" in cluster.storage else f"file://{cluster.storage}"
    more = "trust_code=True, " if ":" in cluster.environment else ""
    return f"{goes_on(f'{url}/{cluster.name}', more=more)} \\\n      || {whole}"
