"""Launch, steer and watch runs of distributed reinforcement learning from the command line.

Options of `train` and `launch` are made from the settings of the configuration. An error is one line on stderr and
exit code 2; an interrupt is exit code 130.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from workbench import imports
from workbench.cli import lessons
from workbench.cli.sweep_commands import add_sweep_options, add_sweeps_options, parsed_space, sweeps, wait_for
from workbench.config import ALGORITHMS, RunConfig, Setting, settings
from workbench.environments.atari.protocols import PROTOCOLS
from workbench.errors import (
    InvalidInput,
    MissingPackage,
    OutOfBounds,
    RunFailed,
    UnknownName,
    WorkbenchError,
    printable,
)

if TYPE_CHECKING:
    from workbench.running.handle import Run

_POSITIONAL = ("environment", "algorithm", "network", "environment_options", "wrappers")  # not made from their settings


class _Parser(argparse.ArgumentParser):
    """Complains in one line."""

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self._negative_number_matcher = re.compile(r"-\.?\d")  # in Python 3.11, -1e-3 would be an option

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"workbench: {message} (see {self.prog} --help)\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Takes FIELD=VALUE behind options, too; argparse gives a list of words only the first row of them."""
        parsed, rest = super().parse_known_args(args, namespace)
        if hasattr(parsed, "changes"):
            parsed.changes += [word for word in rest if not word.startswith("-")]
            rest = [word for word in rest if word.startswith("-")]
        return parsed, rest


def run(arguments: Sequence[str]) -> int:
    """Do what `arguments` say. The exit code."""
    args = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = args.command
    try:
        return command(args)
    except WorkbenchError as error:
        first, *more = str(error).splitlines() or [type(error).__name__]
        where = " (workbench status NAME shows all of it)" if more else ""
        print(f"workbench: {first}{where}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130
    except BrokenPipeError:  # `workbench runs | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


# --- the parser -------------------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="workbench", description=__doc__.splitlines()[0] if __doc__ else "", allow_abbrev=False)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND", parser_class=_Parser)

    def add(name: str, command: Callable[[argparse.Namespace], int], help: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=help, description=help, allow_abbrev=False)
        made.set_defaults(command=command)
        return made

    train = add("train", _train, "launch a run and show its progress until it ends; an interrupt leaves it running")
    train.add_argument("--stop-on-interrupt", action="store_true", help="an interrupt stops the run")
    launch = add("launch", _launch, "launch a run in the background and print its name once it trains")
    for starting in (train, launch):
        _add_run_options(starting)
    fork = _add_name(add("fork", _fork, "start a run from a checkpoint of another and print its name once it trains"))
    fork.add_argument("changes", nargs="*", metavar="FIELD=VALUE", help="such as learning_rate=3e-4 total_frames=2e7")
    fork.add_argument("--checkpoint", help="folder of one of its checkpoints, or that folder's name; default: one made "
                                           "now if the run is alive, else its newest")
    fork.add_argument("--replay", action="store_true", help="take the replay along")
    fork.add_argument("--name", dest="new_name", metavar="NAME",
                      help="of the new run; default: the first free one, such as pong-r2d2-1-fork-1")
    fork.add_argument("--launcher", help="where its processes live (default: where those of the other one do)")
    fork.add_argument("--address", help="of the Ray cluster (default: the other one's)")
    add("runs", _runs, "list all runs")
    listed = add("environments", _environments, "list what environments there are, and how to install the rest")
    listed.add_argument("pattern", nargs="?", help="a family such as football/, or what a name has in it")
    add("machine", _machine, "what this machine has, and what follows for the runs launched here")
    _add_name(add("status", _status, "show how a run is")).add_argument("--json", action="store_true", help="as JSON")
    card = _add_name(add("card", _card, "print a page with all that is needed to judge a run and to do it again"))
    card.add_argument("--output", "-o", metavar="FILE", help="to write, .md or .html; default: print its Markdown")
    tune = _add_name(add("tune", _tune, "change live fields of a run"))
    tune.add_argument("changes", nargs="+", metavar="FIELD=VALUE", help="such as learning_rate=3e-4")
    resume = _add_name(add("resume", _resume, "start a run that has ended from its newest checkpoint, and print its "
                                              "name once it trains"))
    resume.add_argument("changes", nargs="*", metavar="FIELD=VALUE", help="such as total_frames=2e7")
    _add_name(add("checkpoints", _checkpoints, "list the checkpoints of a run"))
    stop = _add_name(add("stop", _stop, "end a run with a last checkpoint"))
    stop.add_argument("--timeout-s", type=float, help="how long the learner may take (default: 60, or 1800 to save "
                                                               "the replay)")
    _add_name(add("delete", _delete, "move a run that has ended to the trash and print where it is"))
    evaluate = add("evaluate", _evaluate, "play whole episodes with a checkpoint's policy")
    evaluate.add_argument("checkpoint", help="folder of a checkpoint, or name of a run (its newest)")
    evaluate.add_argument("--episodes", type=int, help="(default: 10, or one for each human start)")
    evaluate.add_argument("--seed", type=int, default=0, help="(default: 0)")
    evaluate.add_argument("--protocol", help=f"on Atari, one of {', '.join(PROTOCOLS)}; default: as in training")
    evaluate.add_argument("--starts", metavar="FILE", help="recorded actions for human-starts")
    evaluate.add_argument("--sample", action="store_true", help="sample actions instead of taking the likeliest")
    export = add("export", _export, "write a policy to take away: a folder, a .zip, or an .onnx file")
    export.add_argument("checkpoint", help="folder of a checkpoint, or name of a run (its newest)")
    export.add_argument("target", help="new folder, or file that ends in .zip or .onnx")
    rollout = add("rollout", _rollout, "play one episode with a checkpoint's policy, and save it as a film")
    rollout.add_argument("checkpoint", help="folder of a checkpoint or of a rollout, or name of a run (its newest)")
    rollout.add_argument("--output", "-o", help="film to write, .mp4 or .gif; default: only keep the rollout")
    rollout.add_argument("--seed", type=int, help="(default: 0)")
    rollout.add_argument("--sample", action="store_true", help="sample actions instead of taking the likeliest")
    rollout.add_argument("--max-steps", type=int, help="where to cut the episode (default: 27000)")
    rollout.add_argument("--saliency", help="what actions depend on, one of gradient, occlusion; drawn into the film")
    rollout.add_argument("--fps", type=float, help="steps per second of the film (default: the environment's)")
    sweep = add("sweep", _sweep, "search for good hyperparameters in the background and print the sweep's name")
    _add_run_options(sweep)
    add_sweep_options(sweep)
    add_sweeps_options(add("sweeps", sweeps, "list all sweeps, or the trials of one; stop, resume or delete it"))
    planned = add("plan", _plan, "what a run of a wanted speed needs, or how fast given machines are")
    planned.add_argument("environment", help="such as ALE/Pong-v5")
    planned.add_argument("fields", nargs="+", metavar="NAME=VALUE", help="arguments of wb.plan, such as "
                         "frames_per_second=1e6 accelerator=tpu-v3-core learner_steps_per_second=40000")
    recipe = add("recipe", _recipe, "print a file that starts the workbench on a cluster")
    recipe.add_argument("kind", help="one of ray-cluster, kuberay-cluster, kuberay-job, slurm")
    recipe.add_argument("fields", nargs="*", metavar="NAME=VALUE", help="such as environment=ALE/Pong-v5 actors=128")
    kernel = add("kernel", _kernel, "write a Jupyter kernel for this interpreter and print its folder")
    kernel.add_argument("action", choices=("install",), help="the one thing there is to do")
    kernel.add_argument("--device", help="of its runs, one of cpu, cuda, tpu (default: what this machine has)")
    kernel.add_argument("--prefix", help="of the environment whose Jupyter shall list it (default: your own Jupyter)")
    kernel.add_argument("--sys-prefix", action="store_true", help="the same as --prefix with this environment")
    lab = add("lab", _lab, "open JupyterLab on the lessons")
    lab.add_argument("arguments", nargs="*", help="after --: passed on to JupyterLab, such as --no-browser")
    return parser


def _add_name(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("name", help="name or directory of the run")
    return parser


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("environment", help="such as ALE/Pong-v5 or CartPole-v1")
    parser.add_argument("--algorithm", default="vtrace", help=f"one of {', '.join(ALGORITHMS)} (default: vtrace)")
    parser.add_argument("--name", help="of the run; default: the first free one, such as pong-vtrace-1")
    parser.add_argument("--network", help="name of the network; default: chosen by the preset or the observations")
    parser.add_argument("--preset", help="whose fields to take where none are given, or none; default: the "
                                         "environment's own, if it has one")
    parser.add_argument("--checkpoint", help="folder of a checkpoint, or name of a run, whose weights to start from")
    parser.add_argument("--environment-option", action="append", default=[], metavar="NAME=VALUE", dest="options",
                        help="option of the environment, value as JSON or text; may be given several times")
    for name, setting in _all_settings().items():
        if name not in _POSITIONAL:
            parser.add_argument(_option(name), dest=name, metavar=setting.kind.__name__.upper(), help=_help(setting),
                                default=argparse.SUPPRESS)


def _all_settings() -> dict[str, Setting]:
    known = dict(settings(RunConfig))
    for algorithm in ALGORITHMS.values():
        known.update(settings(algorithm))
    return known


def _option(name: str) -> str:
    return "--" + name.strip("_").replace("_", "-")


def _help(setting: Setting) -> str:
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


def parse_value(setting: Setting, text: str) -> Any:
    """`text` as the setting's type, within its bounds. Raises OutOfBounds."""
    if setting.optional and text.lower() == "none":
        return None
    parse: Mapping[type, Callable[[str], Any]] = {int: _number, float: float, bool: _boolean, dict: json.loads}
    try:
        return setting.check(parse.get(setting.kind, str)(text))
    except (ValueError, TypeError) as error:
        if isinstance(error, WorkbenchError):
            raise
        raise OutOfBounds(f"{setting.name}={text!r} must be of type {setting.kind.__name__}.") from None


def _number(text: str) -> float:
    try:
        return int(text.replace("_", ""))
    except ValueError:
        return float(text)  # 1e7


def _boolean(text: str) -> bool:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if text.lower() not in words:
        raise ValueError(text)
    return words[text.lower()]


# --- the commands -----------------------------------------------------------------------------------------------------


def _started(args: argparse.Namespace, *, wait_ready: bool) -> Run:
    from workbench.running.launch import launch

    return launch(args.environment, wait_ready=wait_ready, **_run_fields(args))


def _run_fields(args: argparse.Namespace) -> dict[str, Any]:
    """Arguments of `wb.launch`, as `_add_run_options` reads them."""
    known = _all_settings()
    fields = {name: parse_value(setting, getattr(args, name)) for name, setting in known.items()
              if name not in _POSITIONAL and hasattr(args, name)}
    options = dict(_pair(text) for text in args.options)
    named = ("algorithm", "name", "network", "preset", "checkpoint")
    return {**{name: getattr(args, name) for name in named},
            "environment_options": {name: _json_or_text(value) for name, value in options.items()}, **fields}


def _sweep(args: argparse.Namespace) -> int:
    from workbench.sweeping.sweep import sweep

    named = ("trials", "parallel", "metric", "goal", "sampler", "pruner", "generations")
    how = {name: getattr(args, name) for name in named}
    space = parsed_space(args.space, _all_settings(), parse_value)
    made = sweep(args.environment, space=space, **how, **_run_fields(args))
    if args.wait:
        wait_for(made)
    else:
        print(made.name)
    return 0


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise InvalidInput(f"{text!r} must look like name=value.")
    return name, value


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _train(args: argparse.Namespace) -> int:
    started = _started(args, wait_ready=False)  # so that an interrupt from here on knows the run
    try:
        status = started.wait(progress=True)
    except KeyboardInterrupt:
        if args.stop_on_interrupt:
            print(f"\nstopping {started.name} ...", file=sys.stderr)
            print(started.stop().line())
        else:
            name = started.name
            print(f"\n{name} goes on in the background. Stop it: workbench stop {name}", file=sys.stderr)
        return 130
    except RunFailed as error:
        print(error.__cause__ or error, file=sys.stderr)  # all of it: nobody else shows this traceback
        return 2
    print(f"{started.name}: {status.line()}")
    return 0


def _launch(args: argparse.Namespace) -> int:
    print(_started(args, wait_ready=True).name)
    return 0


def _runs(_: argparse.Namespace) -> int:
    from workbench.running.listing import runs

    print(runs())
    return 0


def _environments(args: argparse.Namespace) -> int:
    from workbench.environments.catalogue import environments

    print(environments(args.pattern))
    return 0


def _status(args: argparse.Namespace) -> int:
    import dataclasses

    from workbench.metrics.status_facts import FACTS
    from workbench.running.handle import attach
    from workbench.supervisor import stopping_rules

    handle = attach(args.name)
    status = handle.status
    if args.json:
        print(json.dumps({"name": status.name, "state": status.state, **dataclasses.asdict(status)}, indent=1))
        return 0
    print(f"{status.name}: {status.line()}")
    for actor in status.actors:
        life = "alive" if actor.alive else "dead"
        speed = FACTS["steps_per_second"].written(actor.steps_per_second, unit=True)
        print(f"  actor {actor.index}: {life}, {speed}, {actor.restarts} restarts")
    spent = ", ".join(stopping_rules.spent(handle.config, status))
    for text in (spent, status.hint, status.warning, status.error):
        if text:
            print(printable(text))
    return 0


def _card(args: argparse.Namespace) -> int:
    from workbench.running.handle import attach

    card = attach(args.name).card()
    print(card if args.output is None else card.save(args.output))
    return 0


def _tune(args: argparse.Namespace) -> int:
    from workbench.running.handle import attach

    handle = attach(args.name)
    changes = handle.tune(**changes_of(args.changes, handle.config))
    for name, new in changes["new"].items():
        print(f"{name}: {changes['old'][name]} → {new}")
    return 0


def changes_of(words: Sequence[str], config: RunConfig) -> dict[str, Any]:
    """Fields of `config` as typed. Raises InvalidInput."""
    known, changes = config.all_settings(), {}
    for name, text in map(_pair, words):
        if name not in known:
            raise UnknownName.among("hyperparameter", name, known)
        changes[name] = parse_value(known[name], text)
    return changes


def _fork(args: argparse.Namespace) -> int:
    from workbench.running.handle import attach

    handle = attach(args.name)
    made = handle.fork(args.checkpoint, name=args.new_name, replay=args.replay, launcher=args.launcher,
                       address=args.address, **changes_of(args.changes, handle.config))
    print(made.name)
    return 0


def _resume(args: argparse.Namespace) -> int:
    from workbench.running.handle import attach
    from workbench.running.launch import resume

    handle = attach(args.name)
    print(resume(handle, **changes_of(args.changes, handle.config)).name)
    return 0


def _checkpoints(args: argparse.Namespace) -> int:
    from workbench.running.handle import attach

    print(attach(args.name).checkpoints)
    return 0


def _stop(args: argparse.Namespace) -> int:
    from workbench.running.handle import attach

    status = attach(args.name).stop(timeout_s=args.timeout_s)
    print(f"{status.name}: {status.line()}")
    return 0


def _delete(args: argparse.Namespace) -> int:
    from workbench import rundir
    from workbench.running.deletion import delete

    print(delete(rundir.find(args.name)))
    return 0


def _evaluate(args: argparse.Namespace) -> int:
    from workbench.playing.episodes import evaluate

    print(evaluate(args.checkpoint, episodes=args.episodes, seed=args.seed, greedy=not args.sample,
                   protocol=args.protocol, starts=args.starts))
    return 0


def _export(args: argparse.Namespace) -> int:
    from workbench.playing.export import export_policy

    print(export_policy(args.checkpoint, target=args.target))
    return 0


def _rollout(args: argparse.Namespace) -> int:
    from workbench.playing import store
    from workbench.playing.episodes import rollout

    asked = {name: value for name in ("seed", "max_steps", "saliency") if (value := getattr(args, name)) is not None}
    typed = [_option(name) for name in (*asked, *(["sample"] if args.sample else []))]
    if typed and store.is_rollout(Path(args.checkpoint).expanduser()):
        raise InvalidInput(f"{args.checkpoint} is a rollout already, and {', '.join(typed)} would not change it. Give "
                           "the checkpoint instead, to play another.")
    played = rollout(args.checkpoint, greedy=not args.sample, render=args.output is not None, **asked)
    print(f"{played}\n{played.path}")
    if args.output is not None:
        print(played.save(args.output, fps=args.fps, overlay=played.saliency is not None))
    return 0


def _machine(args: argparse.Namespace) -> int:
    from workbench.running.machine_info import machine

    print(machine())
    return 0


def _plan(args: argparse.Namespace) -> int:
    import inspect

    from workbench.planning import plan

    known = set(inspect.signature(plan).parameters) - {"environment"}
    fields: dict[str, Any] = {}
    for name, text in map(_pair, args.fields):
        if name not in known:
            raise UnknownName.among("argument of plan", name, known)
        fields[name] = text if name in ("algorithm", "accelerator") else _number_of(name, text)
    print(plan(args.environment, **fields))
    return 0


def _number_of(name: str, text: str) -> float:
    try:
        return _number(text)
    except ValueError:
        raise OutOfBounds(f"{name}={text!r} must be a number.") from None


def _recipe(args: argparse.Namespace) -> int:
    from workbench.planning.recipes import Cluster, recipe

    known, fields = settings(Cluster), {}
    for name, text in map(_pair, args.fields):
        if name not in known:
            raise UnknownName.among("field of a cluster", name, known)
        fields[name] = parse_value(known[name], text)
    print(recipe(args.kind, **fields), end="")
    return 0


def _kernel(args: argparse.Namespace) -> int:
    from workbench.cli.kernelspec import install

    if args.prefix and args.sys_prefix:
        raise InvalidInput("--prefix and --sys-prefix are two places. Give one.")
    print(install(args.device, prefix=sys.prefix if args.sys_prefix else args.prefix))
    return 0


def _lab(args: argparse.Namespace) -> int:
    """Copies the lessons here that are not there, and becomes JupyterLab (bound to this machine, with a token)."""
    import importlib.util

    if importlib.util.find_spec("jupyterlab") is None:
        raise MissingPackage(f"`workbench lab` needs JupyterLab. Install it: {imports.pip_install('lab')}")
    for lesson in lessons.every():
        if not os.path.lexists(here := Path.cwd() / lesson.name):
            shutil.copyfile(lesson, here)
    root = ["--allow-root"] if os.geteuid() == 0 else []  # the usual user of a container
    first = str(Path.cwd() / lessons.FIRST)
    os.execv(sys.executable, [sys.executable, "-P", "-m", "jupyterlab", first, *root, *args.arguments])

