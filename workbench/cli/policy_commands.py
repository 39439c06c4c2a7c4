"""Commands that play a checkpoint's policy, or write it to take away: `evaluate`, `rollout`, `export`."""

from __future__ import annotations

import argparse
from pathlib import Path

from workbench.cli.parser import Argument, Commands, argument
from workbench.cli.values import option
from workbench.environments.atari.protocols import PROTOCOLS
from workbench.errors import InvalidInput

command = Commands()
_SAMPLE = argument("--sample", action="store_true", help="sample actions instead of taking the likeliest")


def _checkpoint(folders: str = "folder of a checkpoint") -> Argument:
    """The arguments of which `_source` makes a checkpoint."""
    def add(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("source", metavar="checkpoint", help="name of a run (its last, or its best after a "
                            f"collapse), RUN@000000012345, or {folders}")
        parser.add_argument("--checkpoint", metavar="NAME",
                            help="which of the run's, as `workbench checkpoints` names it")

    return add


def _source(args: argparse.Namespace) -> str:
    """The checkpoint of the arguments of `_checkpoint`."""
    return f"{args.source}@{args.checkpoint}" if args.checkpoint else str(args.source)


@command("evaluate", "play whole episodes with a checkpoint's policy", _checkpoint(),
         argument("--episodes", type=int, help="(default: 10, or one for each human start)"),
         argument("--seed", type=int, default=0, help="(default: 0)"),
         argument("--protocol", help=f"on Atari, one of {', '.join(PROTOCOLS)}; default: as in training"),
         argument("--starts", metavar="FILE", help="recorded actions for human-starts"), _SAMPLE)
def _evaluate(args: argparse.Namespace) -> None:
    from workbench.playing.episodes import evaluate

    print(evaluate(_source(args), episodes=args.episodes, seed=args.seed, greedy=not args.sample,
                   protocol=args.protocol, starts=args.starts))


@command("rollout", "play one episode with a checkpoint's policy; with -o, save it as a film",
         _checkpoint("folder of a checkpoint or of a rollout"),
         argument("--output", "-o", help="film to write, .mp4 or .gif; default: only keep the rollout"),
         argument("--seed", type=int, help="(default: 0)"), _SAMPLE,
         argument("--max-steps", type=int, help="where to cut the episode (default: 27000)"),
         argument("--saliency", help="what actions depend on, one of gradient, occlusion; drawn into the film"),
         argument("--fps", type=float, help="steps per second of the film (default: the environment's)"))
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


@command("export", "write a policy to take away: a folder, a .zip, or an .onnx file", _checkpoint(),
         argument("target", help="new folder, or file that ends in .zip or .onnx"),
         argument("--film", action="store_true", help="play an episode, and put its film beside the model card"))
def _export(args: argparse.Namespace) -> None:
    from workbench.playing.export import export_policy

    print(export_policy(_source(args), target=args.target, film=args.film))
