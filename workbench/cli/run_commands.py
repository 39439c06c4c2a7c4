"""Commands that start a run, go on with one, change it while it lives, end it or delete it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

from workbench.cli.parser import APART, OF_RUN, OF_RUNS, Commands, add_run_options, argument
from workbench.cli.values import attached, changes_of, json_or_text, pair
from workbench.cli.wording import say, say_error
from workbench.config.signatures import all_settings
from workbench.errors import RunFailed, WorkbenchError

if TYPE_CHECKING:
    from workbench.running.handle import Run

command = Commands()
_FORK_NAME = argument("--name", dest="new_name", metavar="NAME",
                      help="of the new run; default: the first free one, such as pong-r2d2-1-fork-1")


@command("train", "launch a run and show its progress until it ends; an interrupt leaves it running",
         argument("--stop-on-interrupt", action="store_true", help="an interrupt stops the run"), add_run_options)
def _train(args: argparse.Namespace) -> int:
    handle = _started(args, wait_ready=False)  # without waiting, so that an interrupt from here on knows the run
    try:
        status = handle.wait(progress=True)
    except KeyboardInterrupt:
        if args.stop_on_interrupt:
            print(f"\nstopping {handle.name} ...", file=sys.stderr)
            say(args, handle.stop().line())
        else:
            say(args, f"\n{handle.name} goes on in the background. wb.attach({handle.name!r}).stop() ends it.",
                error=True)
        return 130
    except RunFailed as error:
        say(args, error.__cause__ or error, error=True)  # all of it: nothing else shows this traceback
        return 2
    say(args, f"{handle.name}: {status.line()}")
    return 0


@command("launch", "launch a run in the background and print its name once it trains",
         argument("--ready-timeout-s", type=float, metavar="SECONDS", default=180.0,
                  help="for it to train (default: 180); then it goes on alone. A cluster's queue may take hours"),
         add_run_options)
def _launch(args: argparse.Namespace) -> None:
    print(_started(args, wait_ready=True, ready_timeout_s=args.ready_timeout_s).name)


def _started(args: argparse.Namespace, **waiting: Any) -> Run:
    from workbench.running.launch import launch

    return launch(args.environment, **waiting, **run_fields(args))


def run_fields(args: argparse.Namespace) -> dict[str, Any]:
    """Arguments of `wb.launch`, from the options of `add_run_options`."""
    known = all_settings()
    fields = {name: setting.typed(getattr(args, name)) for name, setting in known.items()
              if name not in APART and hasattr(args, name)}
    options = dict(map(pair, args.options))
    named = ("algorithm", "name", "network", "preset", "checkpoint", "demonstrations")
    return {**{name: getattr(args, name) for name in named},
            "environment_options": {name: json_or_text(value) for name, value in options.items()}, **fields}


@command("fork", "start a run from a checkpoint of another and print its name once it trains",
         argument("name", help="name or directory of the run, or RUN@000000012345"),
         argument("changes", nargs="*", metavar="FIELD=VALUE", help="such as learning_rate=3e-4 total_frames=2e7"),
         argument("--checkpoint", help="folder of one of its checkpoints, or that folder's name; default: a new one if "
                                       "the run is alive, else its newest"),
         argument("--replay", action="store_true", help="take the replay along"),
         _FORK_NAME,
         argument("--launcher", help="where its processes live (default: as the other run)"),
         argument("--address", help="of the Ray cluster (default: as the other run)"))
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


@command("rescue", "start a run from the best checkpoint of another, with half its learning rate, and print its name "
                   "once it trains", OF_RUN,
         argument("changes", nargs="*", metavar="FIELD=VALUE", help="such as learning_rate=1e-4"), _FORK_NAME)
def _rescue(args: argparse.Namespace) -> None:
    handle = attached(args.name)
    print(handle.rescue(name=args.new_name, **changes_of(args.changes, handle.config)).name)


@command("resume", "end a run's pause, or start one that has ended from its newest checkpoint, and print its name "
                   "once it trains",
         argument("name", help="name or directory of the run, or URL of its copy, such as s3://bucket/runs/pong"),
         argument("changes", nargs="*", metavar="FIELD=VALUE", help="such as total_frames=2e7"),
         argument("--trust-code", action="store_true", help="let code that was typed in a cell for it execute as you, "
                                                            "wherever the run comes from"))
def _resume(args: argparse.Namespace) -> None:
    from workbench.copies.url_storage import is_url, restored
    from workbench.running.launch import resume

    if is_url(args.name):
        with redirect_stdout(sys.stderr):  # what it says of the copy; the name comes last, alone
            args.name = restored(args.name, trust_code=args.trust_code)
    handle = attached(args.name)
    paused = handle.state == "paused"
    if paused:
        handle.resume()
    if args.changes or not paused:
        resume(handle, trust_code=args.trust_code, **changes_of(args.changes, handle.config))
    print(handle.name)


@command("tune", "change live fields of a run, or list them", OF_RUN,
         argument("changes", nargs="*", metavar="FIELD=VALUE", help="such as learning_rate=3e-4; default: list all"))
def _tune(args: argparse.Namespace) -> None:
    handle = attached(args.name)
    if not args.changes:
        print(handle.hyperparameters)
        return
    changes = handle.tune(**changes_of(args.changes, handle.config))
    for name, new in changes["new"].items():
        print(f"{name}: {changes['old'][name]} → {new}")


@command("scale", "change the number of a run's actors", OF_RUN,
         argument("actors", metavar="ACTORS", help="how many there are to be"))
def _scale(args: argparse.Namespace) -> None:
    handle = attached(args.name)
    before, actors = handle.config.actors, all_settings()["actors"].typed(args.actors.removeprefix("actors="))
    handle.scale(actors=actors)
    print(f"actors: {before} → {actors}")


@command("pause", "pause a run's training; its processes stay, and resume goes on", OF_RUN)
def _pause(args: argparse.Namespace) -> None:
    handle = attached(args.name)
    handle.pause()
    say(args, f"{handle.name}: {handle.status.line()}")


@command("checkpoint", "write a checkpoint that is kept, and print what evaluate, rollout, export and launch call it",
         OF_RUN, argument("--replay", action="store_true", help="with the replay; default: as the run's save_replay"))
def _checkpoint(args: argparse.Namespace) -> None:
    handle = attached(args.name)
    print(f"{handle.name}@{handle.checkpoint(replay=args.replay or None).path.name}")


@command("stop", "end runs, each with a last checkpoint", OF_RUNS,
         argument("--timeout-s", type=float,
                  help="how long the learner may take (default: 60, or 1800 to save the replay)"))
def _stop(args: argparse.Namespace) -> int:
    def stop(name: str) -> None:
        status = attached(name).stop(timeout_s=args.timeout_s)
        say(args, f"{status.name}: {status.line()}")

    return _for_each(args, stop)


@command("delete", "move runs that have ended to the trash and print where they are", OF_RUNS)
def _delete(args: argparse.Namespace) -> int:
    from workbench import rundir
    from workbench.running.deletion import delete

    return _for_each(args, lambda name: print(delete(rundir.find(name))))


def _for_each(args: argparse.Namespace, act: Callable[[str], None]) -> int:
    """Act on each of the runs: one that refuses does not keep the others from it, an interrupt does. Returns the exit
    code."""
    code = 0
    for number, name in enumerate(args.names, 1):
        args.name = name  # by which messages call it
        try:
            act(name)
        except WorkbenchError as error:
            code = say_error(args, error)
        except KeyboardInterrupt:
            if left := args.names[number:]:
                print(f"\nnot reached: {', '.join(left)}", file=sys.stderr)
            raise
    return code
