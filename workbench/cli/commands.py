"""Launch, steer and watch runs of distributed reinforcement learning from the command line.

Options of `train` and `launch` are made from the settings of the configuration. An error is one line on stderr and
exit code 2; an interrupt is exit code 130.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import imports
from workbench.cli import reading_commands
from workbench.cli.parser import APART, Parser, add_run_options, add_version
from workbench.cli.reading_commands import attached
from workbench.cli.sweep_commands import add_sweep_options, add_sweeps_options, parsed_space, sweeps, wait_for
from workbench.cli.values import changes_of, json_or_text, option, pair, parse_number
from workbench.cli.wording import in_commands
from workbench.config import settings
from workbench.config.signatures import all_settings
from workbench.environments.atari.protocols import PROTOCOLS
from workbench.errors import InvalidInput, MissingPackage, RunFailed, UnknownName, WorkbenchError, printable
from workbench.running.progress import NOTIFIER
from workbench.tables import counted
from workbench.trackers import TRACKERS

if TYPE_CHECKING:
    from workbench.running.handle import Run

Command = Callable[[argparse.Namespace], int | None]  # returns the exit code; None: 0

def run(arguments: Sequence[str]) -> int:
    """Do what `arguments` say; returns the exit code."""
    args = build_parser().parse_args(arguments)
    command: Command = args.command
    outer_notifier = NOTIFIER.set(lambda sentence: _say(args, sentence, error=True))
    try:
        code = command(args) or 0
        sys.stdout.flush()
        return code
    except WorkbenchError as error:
        first, *more = str(error).splitlines() or [type(error).__name__]
        where = " (run.status shows all of it)" if more else ""
        _say(args, f"workbench: {first}{where}", error=True)
        return 2
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


def _say(args: argparse.Namespace, message: object, *, error: bool = False) -> None:
    """Print a message that may name Python calls, in the words of the command line."""
    print(in_commands(str(message), getattr(args, "name", None)), file=sys.stderr if error else None)


# --- the parser -------------------------------------------------------------------------------------------------------


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = Parser(prog="workbench", description=__doc__.splitlines()[0] if __doc__ else "")
    add_version(parser)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def add(name: str, command: Command, help: str) -> argparse.ArgumentParser:
        subparser = commands.add_parser(name, help=help, description=help)
        subparser.set_defaults(command=command, parser=subparser)
        return subparser

    train = add("train", _train, "launch a run and show its progress until it ends; an interrupt leaves it running")
    train.add_argument("--stop-on-interrupt", action="store_true", help="an interrupt stops the run")
    launch = add("launch", _launch, "launch a run in the background and print its name once it trains")
    for starting in (train, launch):
        add_run_options(starting)
    fork = _add_name(add("fork", _fork, "start a run from a checkpoint of another and print its name once it trains"),
                     "name or directory of the run, or RUN@000000012345")
    fork.add_argument("changes", nargs="*", metavar="FIELD=VALUE", help="such as learning_rate=3e-4 total_frames=2e7")
    fork.add_argument("--checkpoint", help="folder of one of its checkpoints, or that folder's name; default: a new "
                                           "one if the run is alive, else its newest")
    fork.add_argument("--replay", action="store_true", help="take the replay along")
    fork.add_argument("--name", dest="new_name", metavar="NAME",
                      help="of the new run; default: the first free one, such as pong-r2d2-1-fork-1")
    fork.add_argument("--launcher", help="where its processes live (default: as the other run)")
    fork.add_argument("--address", help="of the Ray cluster (default: as the other run)")
    rescue = _add_name(add("rescue", _rescue, "start a run from the best checkpoint of another, with half its learning "
                                              "rate, and print its name once it trains"))
    rescue.add_argument("changes", nargs="*", metavar="FIELD=VALUE", help="such as learning_rate=1e-4")
    rescue.add_argument("--name", dest="new_name", metavar="NAME",
                        help="of the new run; default: the first free one, such as pong-r2d2-1-fork-1")
    add("runs", _runs, "list all runs")
    compare = add("compare", reading_commands.compare, "list some runs, and the fields in which they differ")
    compare.add_argument("runs", nargs="+", metavar="RUN", help="names or directories of runs")
    metrics = _add_name(add("metrics", reading_commands.metrics, "print the names of a run's metrics, or one as CSV"))
    metrics.add_argument("metric", nargs="?", help="such as episode_return; default: list their names")
    fields = add("fields", reading_commands.fields, "list the fields of runs: default, bounds, meaning, source")
    fields.add_argument("field", nargs="?", metavar="NAME", help="an algorithm, run, or a field; default: all")
    _add_name(add("logs", reading_commands.logs, "print the path and the last lines of each log of a run"))
    listed = add("environments", _environments, "list the environments, and how to install missing ones")
    listed.add_argument("pattern", nargs="?", help="a family such as football/, or a part of a name")
    add("machine", _machine, "show this machine, and the defaults of runs that follow from it")
    status = _add_name(add("status", _status, "show the state of a run"))
    status.add_argument("--json", action="store_true", help="as JSON")
    card = _add_name(add("card", _card, "print all that is needed to judge and to repeat a run"))
    card.add_argument("--output", "-o", metavar="FILE", help="file to write, .md or .html; default: print Markdown")
    share = _add_name(add("share", _share, "write a run as one HTML page that any browser opens offline"))
    share.add_argument("--output", "-o", metavar="FILE", help="file to write, .html; default: a free name here")
    track = _add_name(add("track", _track, "send a run's history to a service, what it lacks, and print how many rows"))
    track.add_argument("service", help=f"one of {', '.join(TRACKERS)}")
    tune = _add_name(add("tune", _tune, "change live fields of a run, or list them"))
    tune.add_argument("changes", nargs="*", metavar="FIELD=VALUE", help="such as learning_rate=3e-4; default: list all")
    scale = _add_name(add("scale", _scale, "change the number of a run's actors"))
    scale.add_argument("actors", metavar="ACTORS", help="how many there are to be")
    _add_name(add("pause", _pause, "pause a run's training; its processes stay, and resume goes on"))
    resume = _add_name(add("resume", _resume, "end a run's pause, or start one that has ended from its newest "
                                              "checkpoint, and print its name once it trains"))
    resume.add_argument("changes", nargs="*", metavar="FIELD=VALUE", help="such as total_frames=2e7")
    checkpoint = _add_name(add("checkpoint", _checkpoint, "write a checkpoint that is kept, and print what evaluate, "
                                                          "rollout, export and launch call it"))
    checkpoint.add_argument("--replay", action="store_true", help="with the replay; default: as the run's save_replay")
    _add_name(add("checkpoints", _checkpoints, "list the checkpoints of a run"))
    stop = _add_name(add("stop", _stop, "end a run with a last checkpoint"))
    stop.add_argument("--timeout-s", type=float, help="how long the learner may take (default: 60, or 1800 to save "
                                                               "the replay)")
    _add_name(add("delete", _delete, "move a run that has ended to the trash and print where it is"))
    evaluate = add("evaluate", _evaluate, "play whole episodes with a checkpoint's policy")
    _add_checkpoint(evaluate)
    evaluate.add_argument("--episodes", type=int, help="(default: 10, or one for each human start)")
    evaluate.add_argument("--seed", type=int, default=0, help="(default: 0)")
    evaluate.add_argument("--protocol", help=f"on Atari, one of {', '.join(PROTOCOLS)}; default: as in training")
    evaluate.add_argument("--starts", metavar="FILE", help="recorded actions for human-starts")
    evaluate.add_argument("--sample", action="store_true", help="sample actions instead of taking the likeliest")
    export = add("export", _export, "write a policy to take away: a folder, a .zip, or an .onnx file")
    _add_checkpoint(export)
    export.add_argument("target", help="new folder, or file that ends in .zip or .onnx")
    export.add_argument("--film", action="store_true", help="play an episode, and put its film beside the model card")
    rollout = add("rollout", _rollout, "play one episode with a checkpoint's policy, and save it as a film")
    _add_checkpoint(rollout, "folder of a checkpoint or of a rollout")
    rollout.add_argument("--output", "-o", help="film to write, .mp4 or .gif; default: only keep the rollout")
    rollout.add_argument("--seed", type=int, help="(default: 0)")
    rollout.add_argument("--sample", action="store_true", help="sample actions instead of taking the likeliest")
    rollout.add_argument("--max-steps", type=int, help="where to cut the episode (default: 27000)")
    rollout.add_argument("--saliency", help="what actions depend on, one of gradient, occlusion; drawn into the film")
    rollout.add_argument("--fps", type=float, help="steps per second of the film (default: the environment's)")
    sweep = add("sweep", _sweep, "search for good hyperparameters in the background and print the sweep's name")
    add_run_options(sweep, of="sweep", such_as="pong-vtrace-sweep-1")
    add_sweep_options(sweep)
    add_sweeps_options(add("sweeps", sweeps, "list all sweeps, or the trials of one; stop, resume or delete it"))
    planned = add("plan", _plan, "plan the machines for a speed, or the speed of machines")
    planned.add_argument("environment", help="such as ALE/Pong-v5")
    planned.add_argument("fields", nargs="+", metavar="NAME=VALUE", help="arguments of wb.plan, such as "
                         "frames_per_second=1e6 accelerator=tpu-v3-core learner_steps_per_second=40000")
    recipe = add("recipe", _recipe, "print a file that starts the workbench on a cluster")
    recipe.add_argument("kind", help="one of ray-cluster, kuberay-cluster, kuberay-job, slurm, sky")
    recipe.add_argument("words", nargs="*", metavar="NAME or FIELD=VALUE",
                        help="of a run, whose configuration to take; and fields, such as actors=128 learning_rate=3e-4")
    kernel = add("kernel", _kernel, "write a Jupyter kernel for this interpreter and print its folder")
    kernel.add_argument("action", choices=("install",), help="the only action")
    kernel.add_argument("--device", help="device of its runs, one of cpu, cuda, tpu (default: that of this machine)")
    kernel.add_argument("--prefix", help="of the environment whose Jupyter lists it (default: your own Jupyter)")
    kernel.add_argument("--sys-prefix", action="store_true", help="the same as --prefix with this environment")
    helped = add("help", _help, "show the help of a command")
    helped.add_argument("words", nargs="*", metavar="COMMAND", help="default: list all commands")
    lab = add("lab", _lab, "open JupyterLab on the lessons")
    lab.add_argument("arguments", nargs="*", help="passed on to JupyterLab, after --, such as --no-browser")
    return parser


def _add_checkpoint(parser: argparse.ArgumentParser, folders: str = "folder of a checkpoint") -> None:
    parser.add_argument("source", metavar="checkpoint",
                        help=f"name of a run (its last, or its best after a collapse), RUN@000000012345, or {folders}")
    parser.add_argument("--checkpoint", metavar="NAME", help="which of the run's, as `workbench checkpoints` names it")


def _add_name(
    parser: argparse.ArgumentParser, help: str = "name or directory of the run"
) -> argparse.ArgumentParser:
    parser.add_argument("name", help=help)
    return parser


# --- the commands -----------------------------------------------------------------------------------------------------


def _source(args: argparse.Namespace) -> str:
    """The checkpoint of the arguments of `_add_checkpoint`."""
    return f"{args.source}@{args.checkpoint}" if args.checkpoint else str(args.source)


def _started(args: argparse.Namespace, *, wait_ready: bool) -> Run:
    from workbench.running.launch import launch

    return launch(args.environment, wait_ready=wait_ready, **_run_fields(args))


def _run_fields(args: argparse.Namespace) -> dict[str, Any]:
    """Arguments of `wb.launch`, from the options of `add_run_options`."""
    known = all_settings()
    fields = {name: setting.typed(getattr(args, name)) for name, setting in known.items()
              if name not in APART and hasattr(args, name)}
    options = dict(map(pair, args.options))
    named = ("algorithm", "name", "network", "preset", "checkpoint", "demonstrations")
    return {**{name: getattr(args, name) for name in named},
            "environment_options": {name: json_or_text(value) for name, value in options.items()}, **fields}


def _sweep(args: argparse.Namespace) -> None:
    from workbench.sweeping.sweep import sweep

    named = ("trials", "parallel", "metric", "goal", "sampler", "pruner", "generations")
    how = {name: getattr(args, name) for name in named}
    handle = sweep(args.environment, space=parsed_space(args.space) or None, **how, **_run_fields(args))
    if args.wait:
        wait_for(handle)
    else:
        print(handle.name)


def _train(args: argparse.Namespace) -> int:
    handle = _started(args, wait_ready=False)  # without waiting, so that an interrupt from here on knows the run
    try:
        status = handle.wait(progress=True)
    except KeyboardInterrupt:
        if args.stop_on_interrupt:
            print(f"\nstopping {handle.name} ...", file=sys.stderr)
            _say(args, handle.stop().line())
        else:
            _say(args, f"\n{handle.name} goes on in the background. wb.attach({handle.name!r}).stop() ends it.",
                 error=True)
        return 130
    except RunFailed as error:
        _say(args, error.__cause__ or error, error=True)  # all of it: nothing else shows this traceback
        return 2
    _say(args, f"{handle.name}: {status.line()}")
    return 0


def _launch(args: argparse.Namespace) -> None:
    print(_started(args, wait_ready=True).name)


def _runs(args: argparse.Namespace) -> None:
    from workbench.running.listing import runs

    _say(args, runs().text(reading_commands.width()))


def _environments(args: argparse.Namespace) -> None:
    from workbench.environments.catalogue import environments

    print(environments(args.pattern))


def _status(args: argparse.Namespace) -> None:
    import dataclasses

    from workbench.metrics.status_facts import FACTS
    from workbench.supervisor import stopping_rules

    handle = attached(args.name)
    status = handle.status
    if args.json:
        print(json.dumps({"name": status.name, "state": status.state, **dataclasses.asdict(status)}, indent=1))
        return
    _say(args, f"{status.name}: {status.line()}")
    for actor in status.actors:
        life = "alive" if actor.alive else "dead" if status.alive else "ended"
        speed = FACTS["steps_per_second"].written(actor.steps_per_second, unit=True)
        print(f"  actor {actor.index}: {life}, {speed}, {counted(actor.restarts, 'restarts')}")
    spent = ", ".join(stopping_rules.spent(handle.config, status))
    for text in (status.collapse, spent, status.alive and status.hint, status.warning, status.error):
        if text:
            _say(args, printable(text))


def _card(args: argparse.Namespace) -> None:
    card = attached(args.name).card()
    if args.output is not None:
        print(card.save(args.output))
    else:  # a terminal would show the source of the drawing
        print(re.sub(r"<svg.*?</svg>\n*", "", str(card), flags=re.DOTALL) if sys.stdout.isatty() else card)


def _track(args: argparse.Namespace) -> None:
    print(attached(args.name).track(args.service))


def _share(args: argparse.Namespace) -> None:
    print(attached(args.name).share(args.output))


def _tune(args: argparse.Namespace) -> None:
    handle = attached(args.name)
    if not args.changes:
        print(handle.hyperparameters)
        return
    changes = handle.tune(**changes_of(args.changes, handle.config))
    for name, new in changes["new"].items():
        print(f"{name}: {changes['old'][name]} → {new}")


def _scale(args: argparse.Namespace) -> None:
    handle = attached(args.name)
    before, actors = handle.config.actors, all_settings()["actors"].typed(args.actors.removeprefix("actors="))
    handle.scale(actors=actors)
    print(f"actors: {before} → {actors}")


def _fork(args: argparse.Namespace) -> None:
    from workbench.running.choosing import run_and_checkpoint

    checkpoint = args.checkpoint
    if not checkpoint and (one := run_and_checkpoint(args.name))[1]:
        checkpoint, args.name = args.name, one[0]
    handle = attached(args.name)
    own = handle.config.own_algorithm
    where = f"workbench tune {handle.name} lists its live fields." if own else (
        "workbench launch --help lists all fields.")
    changes = changes_of(args.changes, handle.config, where)
    fork = handle.fork(checkpoint, name=args.new_name, replay=args.replay, launcher=args.launcher,
                       address=args.address, **changes)
    print(fork.name)


def _rescue(args: argparse.Namespace) -> None:
    handle = attached(args.name)
    print(handle.rescue(name=args.new_name, **changes_of(args.changes, handle.config)).name)


def _resume(args: argparse.Namespace) -> None:
    from workbench.running.launch import resume

    handle = attached(args.name)
    paused = handle.state == "paused"
    if paused:
        handle.resume()
    if args.changes or not paused:
        resume(handle, **changes_of(args.changes, handle.config))
    print(handle.name)


def _pause(args: argparse.Namespace) -> None:
    handle = attached(args.name)
    handle.pause()
    _say(args, f"{handle.name}: {handle.status.line()}")


def _checkpoint(args: argparse.Namespace) -> None:
    handle = attached(args.name)
    print(f"{handle.name}@{handle.checkpoint(replay=args.replay or None).path.name}")


def _checkpoints(args: argparse.Namespace) -> None:
    print(attached(args.name).checkpoints)


def _stop(args: argparse.Namespace) -> None:
    status = attached(args.name).stop(timeout_s=args.timeout_s)
    _say(args, f"{status.name}: {status.line()}")


def _delete(args: argparse.Namespace) -> None:
    from workbench import rundir
    from workbench.running.deletion import delete

    print(delete(rundir.find(args.name)))


def _evaluate(args: argparse.Namespace) -> None:
    from workbench.playing.episodes import evaluate

    print(evaluate(_source(args), episodes=args.episodes, seed=args.seed, greedy=not args.sample,
                   protocol=args.protocol, starts=args.starts))


def _export(args: argparse.Namespace) -> None:
    from workbench.playing.export import export_policy

    print(export_policy(_source(args), target=args.target, film=args.film))


def _rollout(args: argparse.Namespace) -> None:
    from workbench.playing import film, store
    from workbench.playing.episodes import rollout

    if args.output is not None:
        film.check_target(film.named(Path(args.output).expanduser().absolute()))

    fields = {name: value for name in ("seed", "max_steps", "saliency") if (value := getattr(args, name)) is not None}
    options = [option(name) for name in (*fields, *(["sample"] if args.sample else []))]
    if options and store.is_rollout(Path(args.source).expanduser()):
        raise InvalidInput(f"{args.source} is a rollout already, and {', '.join(options)} would not change it. "
                           "Give the checkpoint instead, to play another.")
    episode = rollout(_source(args), greedy=not args.sample, render=args.output is not None, **fields)
    print(f"{episode}\n{episode.path}")
    if args.output is not None:
        print(episode.save(args.output, fps=args.fps, overlay=episode.saliency is not None))


def _machine(args: argparse.Namespace) -> None:
    from workbench.running.machine_info import machine

    print(machine())


def _plan(args: argparse.Namespace) -> None:
    import inspect

    from workbench.planning import plan

    known = set(inspect.signature(plan).parameters) - {"environment"}
    fields: dict[str, Any] = {}
    for name, text in map(pair, args.fields):
        if name not in known:
            raise UnknownName.among("argument of plan", name, known)
        fields[name] = text if name in ("algorithm", "accelerator") else parse_number(name, text)
    print(plan(args.environment, **fields))


def _recipe(args: argparse.Namespace) -> None:
    from workbench import rundir
    from workbench.planning.recipes import Cluster, recipe

    names = [word for word in args.words if "=" not in word]
    if len(names) > 1:
        raise InvalidInput(f"Give one run, and fields as NAME=VALUE: {', '.join(names)}.")
    run = rundir.find(names[0]) if names else None
    known, fields = {**all_settings(), **(run.config().all_settings() if run else {}), **settings(Cluster)}, {}
    for name, text in map(pair, [word for word in args.words if "=" in word]):
        if name not in known:
            raise UnknownName.among("field of a cluster or of its run", name, known)
        fields[name] = known[name].typed(text)
    print(recipe(args.kind, run=run.path if run else None, **fields), end="")


def _kernel(args: argparse.Namespace) -> None:
    from workbench.cli.kernelspec import install

    if args.prefix and args.sys_prefix:
        raise InvalidInput("--prefix and --sys-prefix exclude each other. Give one of them.")
    print(install(args.device, prefix=sys.prefix if args.sys_prefix else args.prefix))


def _help(args: argparse.Namespace) -> None:
    build_parser().parse_args([*args.words, "--help"])


def _lab(args: argparse.Namespace) -> None:
    """Copies missing lessons into the current folder and becomes JupyterLab (bound to this machine, with a token)."""
    import importlib.util

    from workbench.lessons import notebook_files

    if importlib.util.find_spec("jupyterlab") is None:
        raise MissingPackage(f"`workbench lab` needs JupyterLab. Install it: {imports.pip_install('lab')}")
    for file in (*notebook_files.every(), *notebook_files.figures()):
        if not os.path.lexists(copy := Path.cwd() / file.relative_to(notebook_files.folder())):
            copy.parent.mkdir(exist_ok=True)
            shutil.copyfile(file, copy)
    root = ["--allow-root"] if os.geteuid() == 0 else []  # the usual user of a container
    first = str(Path.cwd() / notebook_files.FIRST)
    side_panel = Path(__file__).parents[2] / "jupyter"  # of a checkout, as it was built last; a wheel has installed it
    for variable in ("JUPYTER_PATH", "JUPYTER_CONFIG_PATH") if (side_panel / "labextensions").is_dir() else ():
        os.environ[variable] = os.pathsep.join(filter(None, (str(side_panel), os.environ.get(variable))))
    os.execv(sys.executable, [sys.executable, "-P", "-m", "jupyterlab", first, *root, *args.arguments])

